"""TLS over one connection, as bytes in and bytes out.

It knows when the other side has proved who it is. It must never know what is said under it, nor touch a socket: nothing
of what is said leaves before that.
"""

import ssl
from typing import Final

from governor.client.stream import Ended

_PROTOCOL: Final = "h2"
# UNAVAILABLE: somebody answers there, who is not to be spoken to.
_NOT_THEM: Final = 14
_CHUNK: Final = 64 * 1024


class Veil:
    """What leaves is in ``out``; whoever sends it clears it."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        """``host``: whose certificate it must be."""
        context.set_alpn_protocols([_PROTOCOL])
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._open = False
        self.out = bytearray()
        self._shake_hands()

    def hide(self, said: bytearray) -> None:
        """Take all of this that may be said by now, to be sent."""
        if self._open and said:
            self._tls.write(said)
            said.clear()
            self._let_out()

    def show(self, data: bytes) -> bytes:
        """What these bytes say. Raises Ended."""
        self._in.write(data)
        if not self._open and not self._shake_hands():
            return b""
        shown = bytearray()
        try:
            while some := self._tls.read(_CHUNK):
                shown += some
            if not shown:  # else it is said when the connection ends
                raise Ended(None, "the daemon closed the connection")
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            # After the handshake, it is by this that the daemon says that it does not take our certificate.
            raise Ended(_NOT_THEM, f"TLS: {_reason(error)}") from error
        finally:
            self._let_out()
        return bytes(shown)

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.lower()
            raise Ended(_NOT_THEM, f"its certificate does not prove that it is the daemon: {why}") from error
        except ssl.SSLError as error:
            raise Ended(_NOT_THEM, f"TLS: {_reason(error)}") from error
        finally:
            self._let_out()
        if self._tls.selected_alpn_protocol() != _PROTOCOL:
            raise Ended(_NOT_THEM, "TLS: what answers there does not speak HTTP/2")
        self._open = True
        return True

    def _let_out(self) -> None:
        self.out += self._out.read()


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
