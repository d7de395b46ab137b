"""What to look at when gRPC ends a connection in words of its own: most of them are about TLS.

It knows pieces of what gRPC says, and what they mean to whoever connects. It must never decide how a command ends.
"""

from typing import Final

from governor import tls
from governor.address import Address, TcpAddress

# What gRPC says, and what to look at; the first that fits counts. It tells all of them of an address of TLS.
_OF_TLS: Final = (
    ("WRONG_VERSION_NUMBER", "what listens there does not speak TLS: name it without tls://, or name its port of TLS"),
    (
        "Hostname Verification Check failed",
        "its certificate is for other names than the one that you have given: name it as the certificate does",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        f"nobody whom you trust ({tls.CA_VARIABLE}) has certified it, or its certificate has ended",
    ),
    (
        "Failed to create security handshaker",
        f"gRPC cannot use your own files: look at {tls.CA_VARIABLE}, {tls.CERT_VARIABLE} and {tls.KEY_VARIABLE}",
    ),
)
_CUT_OFF: Final = ("Socket closed", "Connection reset", "Broken pipe", "recvmsg", "TSI_PROTOCOL_FAILURE", "SSL_ERROR")


def hint(address: Address, said: str) -> str:
    """What to look at, as what goes behind what was ``said``; empty if nothing is known."""
    if not isinstance(address, TcpAddress):
        return ""
    if address.tls:
        for piece, meaning in _OF_TLS:
            if piece in said:
                return f"; {meaning}"
    if any(piece in said for piece in _CUT_OFF):
        if address.tls:
            return f"; does it want a certificate ({tls.CERT_VARIABLE}), and one that its own authority has certified?"
        return f"; does it speak TLS (tls://{address}), or has it just ended?"
    return ""
