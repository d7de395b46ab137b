"""What to look at when gRPC ends a connection in words of its own: most of them are about TLS.

It knows pieces of what gRPC says, and what they mean to whoever connects. It must never decide how a command ends.
"""

import re
from typing import Final

from governor import tls
from governor.address import Address, TcpAddress

# How gRPC begins what it says of an attempt to connect.
_WAY: Final = re.compile(r"failed to connect to all addresses; last error: [A-Z_]+: \S+: ")
_DOUBT: Final = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]+)")
# What gRPC says of an address of TLS, and what that means; the first that fits counts.
_OF_TLS: Final = (
    ("WRONG_VERSION_NUMBER", "what listens there does not speak TLS; name it without tls://, or name its port of TLS"),
    (
        "Hostname Verification Check failed",
        "its certificate is for other names than the one that you have given; name it as the certificate does",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        f"nobody whom you trust ({tls.CA_VARIABLE}) has certified it, or its certificate does not hold now ({{doubt}})",
    ),
    (
        "Failed to create security handshaker",
        f"gRPC cannot use your own files; look at {tls.CA_VARIABLE}, {tls.CERT_VARIABLE} and {tls.KEY_VARIABLE}",
    ),
)
_CUT_OFF: Final = ("Socket closed", "Connection reset", "Broken pipe", "recvmsg", "TSI_PROTOCOL_FAILURE", "SSL_ERROR")


def why(address: Address, said: str) -> str:
    """What is the matter, and what to look at if that is known, in the place of what gRPC ``said``."""
    of_tls = isinstance(address, TcpAddress) and address.tls
    if of_tls and (meaning := next((meaning for piece, meaning in _OF_TLS if piece in said), "")):
        doubt = _DOUBT.search(said)
        return meaning.format(doubt=doubt[1] if doubt else "no reason is given")
    if any(piece in said for piece in _CUT_OFF):
        if of_tls:
            own = f"does it want a certificate ({tls.CERT_VARIABLE}), and one that its own authority has certified?"
            return f"it closes the connection; {own}"
        if isinstance(address, TcpAddress):
            return f"it closes the connection; does it speak TLS (tls://{address}), or has it just ended?"
        return "it closes the connection; has it just ended?"
    return _WAY.sub("", said).rstrip(".")
