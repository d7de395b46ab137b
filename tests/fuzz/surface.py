"""The surface: every method that strangers can call, and what a random call of it looks like in frames.

It knows methods and headers. It must never know what the answer is to be.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from tests.abuse import frames
from tests.fuzz.messages import Stock, raw
from tests.fuzz.words import INSTANCES, Words


@dataclass(frozen=True)
class Method:
    """One of them. ``talks``: it takes any number of messages."""

    path: str
    request: Descriptor
    talks: bool


def _all() -> tuple[Method, ...]:
    made = [
        Method(f"/{service.full_name}/{method.name}", cast("Descriptor", method.input_type), method.client_streaming)
        for file in (pb.DESCRIPTOR, admin_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR)
        for service in file.services_by_name.values()
        for method in service.methods
    ]
    reflection = next(each for each in made if "reflection" in each.path)
    return (*made, Method(reflection.path.replace("v1alpha", "v1"), reflection.request, talks=True))


METHODS: Final = _all()
SESSION: Final = next(method for method in METHODS if method.path.endswith("/Session"))
_USUAL: Final = tuple(method for method in METHODS if "governor.v1.Governor/" in method.path)

_ODD_HEADERS: Final[tuple[dict[str, str | bytes], ...]] = (
    {"content-type": "application/grpc+proto"},
    {"content-type": "application/grpc+json"},
    {"content-type": "application/json"},
    {"content-type": "text/html"},
    {"content-type": ""},
    {":method": "GET"},
    {":method": "DELETE"},
    {":path": "/governor.v1.Governor/Nothing"},
    {":path": "/governor.v1.Governor/"},
    {":path": "nothing"},
    {":path": "/\xc3\x28"},
    {":path": "/" + "x" * 3000},
    {":scheme": "x"},
    {":authority": ""},
    {"te": ""},
    {"te": "gzip"},
    {"grpc-encoding": "gzip"},
    {"grpc-encoding": "nothing"},
    {"grpc-timeout": "1n"},
    {"grpc-timeout": "0S"},
    {"grpc-timeout": "99999999H"},
    {"grpc-timeout": "-1S"},
    {"grpc-timeout": "soon"},
    {"grpc-accept-encoding": "x" * 1000},
    {"authorization": "Bearer x"},
    {"authorization": "Bearer \xff\xfe"},
    {"authorization": ""},
    {"x-bin": "%%%"},
    {"governor-actor": "x" * 300},
    {"governor-actor": "me"},
    {"x": "y" * 7_000},
    {"x": "y" * 20_000},
    {"user-agent": "\x01\x02"},
    {"X-Upper": "case"},
    {"connection": "close"},
    {"content-length": "5"},
)


@dataclass
class Sent:
    """What one call sends. ``resets``: it takes itself back. ``messages``: how many of them it says."""

    stream: int
    path: str
    head: dict[str, str]
    body: bytes
    messages: int
    ends: bool = True
    resets: bool = False
    odd: list[str] = field(default_factory=list)

    def bytes(self) -> bytes:
        """As it is written."""
        block = b"".join(frames.literal(name, value, "latin-1") for name, value in self.head.items())
        parts = []
        for start in range(0, max(1, len(block)), frames.LARGEST):
            last = frames.END_HEADERS if start + frames.LARGEST >= len(block) else 0
            kind = frames.CONTINUATION if start else frames.HEADERS
            parts.append(frames.frame(kind, last, self.stream, block[start : start + frames.LARGEST]))
        for start in range(0, len(self.body), frames.LARGEST):
            last = frames.END_STREAM if self.ends and start + frames.LARGEST >= len(self.body) else 0
            parts.append(frames.frame(frames.DATA, last, self.stream, self.body[start : start + frames.LARGEST]))
        if not self.body and self.ends:
            parts.append(frames.frame(frames.DATA, frames.END_STREAM, self.stream))
        if self.resets:
            parts.append(frames.frame(frames.RST_STREAM, 0, self.stream, b"\0\0\0\x08"))
        return b"".join(parts)


def call(chance: Random, stream: int, words: Words, stock: Stock, tokens: tuple[str, ...]) -> Sent:
    """Any call; with a token of one of these, mostly, if there are any."""
    roll = chance.random()
    method = SESSION if roll < 0.08 else chance.choice(_USUAL) if roll < 0.6 else chance.choice(METHODS)
    head = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method.path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    if tokens and chance.random() < 0.95:
        head["authorization"] = f"Bearer {chance.choice(tokens)}"
    bodies = _talk(chance, method, words, stock) if method.talks else [raw(chance, method.request, stock)]
    sent = Sent(stream, method.path, head, b"", len(bodies))
    framed = [frames.message(body) for body in bodies]
    if chance.random() < 0.1:
        _oddly(chance, sent, framed)
    sent.body = b"".join(framed)
    return sent


def _oddly(chance: Random, sent: Sent, framed: list[bytes]) -> None:
    """Something is wrong with how it is sent, whatever it says."""
    match chance.randrange(8):
        case 0 | 1 | 2:
            more = chance.choice(_ODD_HEADERS)
            sent.head |= {name: value for name, value in more.items() if isinstance(value, str)}
            sent.odd.append(str(more)[:60])
        case 3:
            framed[0] = bytes((chance.choice((1, 2, 255)),)) + framed[0][1:]
            sent.odd.append("a flag")
        case 4:
            size = chance.choice((0, 1, 2**18, 2**18 + 1, 2**31, 2**32 - 1))
            framed[0] = framed[0][:1] + size.to_bytes(4) + framed[0][5:]
            sent.odd.append(f"a length of {size}")
        case 5:
            framed.append(frames.message(b""))
            sent.odd.append("one more message")
        case 6:
            framed.clear()
            sent.odd.append("no message")
        case _:
            sent.ends = chance.random() < 0.5
            sent.resets = not sent.ends or chance.random() < 0.5
            sent.odd.append("a reset")


def _talk(chance: Random, method: Method, words: Words, stock: Stock) -> list[bytes]:
    """Messages in any order; a session mostly says hello first, else nothing of the rest would be heard."""
    made = [raw(chance, method.request, stock) for _ in range(chance.choice((1, 2, 5, 20, 60)))]
    if method is not SESSION:
        return made[:5]
    if chance.random() < 0.9:
        hello = pb.Hello(
            client=words.text(chance, "client"),
            instance=chance.choice(INSTANCES),
            pid=1,
            host="here",
            alike=chance.random() < 0.5,
        )
        made[0] = pb.SessionRequest(hello=hello).SerializeToString()
        made[1:] = [_no_hello(body) if chance.random() < 0.97 else body for body in made[1:]]
    return made


def _no_hello(body: bytes) -> bytes:
    """The same without a second hello, if it can be read: else most sessions would end at once."""
    try:
        said = pb.SessionRequest.FromString(body)
    except Exception:  # noqa: BLE001  - then it is no message, which is as good
        return body
    if said.HasField("hello"):
        said.ClearField("hello")
        return said.SerializeToString()
    return body
