"""The other end of a `Stream`: HTTP/2 as a daemon speaks it, without a socket.

It knows frames. It must never know what a message means.
"""

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, PingReceived, RequestReceived, StreamEnded
from h2.settings import SettingCodes

from governor.client.stream import Stream

STREAM = 1


class Peer:
    """Takes what a stream sends, and says whatever a test wants said to it."""

    def __init__(self, stream: Stream, *, window: int | None = None) -> None:
        self._stream = stream
        self._http = H2Connection(config=H2Configuration(client_side=False, header_encoding=None))
        if window is not None:
            self._http.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = window
            self._http.local_settings.acknowledge()
        self._http.initiate_connection()
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.pings: list[bytes] = []
        self.finished = False

    @property
    def messages(self) -> list[bytes]:
        """The whole messages that have come."""
        found, rest = [], bytes(self.body)
        while len(rest) >= 5 and len(rest) - 5 >= (size := int.from_bytes(rest[1:5], "big")):
            assert rest[0] == 0, "a client that compresses was never asked to"
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found

    # --- what came -----------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Take what the stream has to send."""
        data = bytes(self._stream.out)
        self._stream.out.clear()
        for event in self._http.receive_data(data):
            if isinstance(event, RequestReceived):
                self.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, DataReceived):
                self.body += event.data
            elif isinstance(event, PingReceived):
                self.pings.append(event.ping_data)
            elif isinstance(event, StreamEnded):
                self.finished = True

    def open_window(self, size: int) -> None:
        """Let so many more bytes of messages come."""
        self._http.increment_flow_control_window(size)
        self._http.increment_flow_control_window(size, STREAM)

    # --- what is said --------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """The headers of a call that is taken."""
        self._http.send_headers(STREAM, [(b":status", b"200"), (b"content-type", b"application/grpc")])

    def say(self, message: bytes, *, flag: int = 0, size: int | None = None) -> None:
        """One message; its prefix may lie."""
        prefix = bytes([flag]) + (len(message) if size is None else size).to_bytes(4, "big")
        self.say_raw(prefix + message)

    def say_raw(self, data: bytes) -> None:
        """Bytes of messages."""
        for start in range(0, len(data), 16_384):
            self._http.send_data(STREAM, data[start : start + 16_384])

    def end(self, status: bytes = b"0", message: bytes = b"") -> None:
        """Trailers."""
        self._http.send_headers(STREAM, [(b"grpc-status", status), (b"grpc-message", message)], end_stream=True)

    def refuse(self, *headers: tuple[bytes, bytes]) -> None:
        """No call: its only headers are the last."""
        self._http.send_headers(STREAM, [(b":status", b"200"), *headers], end_stream=True)

    def answer_http(self, status: bytes) -> None:
        """Something else listens here."""
        self._http.send_headers(STREAM, [(b":status", status)])

    def end_without_status(self) -> None:
        """The stream is over, and nobody says why."""
        self._http.end_stream(STREAM)

    def reset(self) -> None:
        """RST_STREAM."""
        self._http.reset_stream(STREAM, ErrorCodes.INTERNAL_ERROR)

    def go_away(self, words: bytes) -> None:
        """GOAWAY, because of us."""
        self._http.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, words)

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._http.ping(b"12345678")

    def take(self) -> bytes:
        """What it has said, as bytes on their way."""
        return self._http.data_to_send()

    def tell(self) -> list[bytes]:
        """Have the stream hear it; the messages in it."""
        return self._stream.receive(self.take())
