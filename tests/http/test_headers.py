"""What each answer says besides: nothing is kept, framed, guessed or run; and nothing of what was asked comes back."""

import asyncio
from typing import Final

import pytest

from governor.bounds import DEFAULT_HTTP
from governor.http.server import HttpServer
from tests.http.test_server import exchange, until

MARK: Final = "z9-mark"
STRICT: Final = {
    "server": "governor",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_MORE: Final = (
    f"Host: localhost\r\nUser-Agent: {MARK}\r\nCookie: {MARK}={MARK}\r\nReferer: http://{MARK}/\r\n"
    f"Origin: http://{MARK}\r\nAccept: {MARK}/*\r\nX-{MARK}: {MARK}\r\nAuthorization: Bearer {MARK}\r\n"
    "Connection: close\r\n\r\n"
)


def asked(line: str) -> bytes:
    """A request that is full of the mark."""
    return (line + "\r\n" + _MORE).encode("latin-1")


REQUESTS: Final = {
    "200": [asked(f"GET {path} HTTP/1.1") for path in (f"/?{MARK}", f"/metrics?{MARK}", "/-/healthy", "/-/ready")],
    "404": [
        asked(f"GET {path} HTTP/1.1")
        for path in (f"/{MARK}", f"/-/resources/{MARK}", f"/%3Cscript%3E{MARK}", f"/-/resources/%0d%0a{MARK}:x")
    ],
    "405": [asked(f"{method} /metrics?{MARK} HTTP/1.1") for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE")],
    "403": [
        asked("GET / HTTP/1.1").replace(b"localhost", MARK.encode() + b".example"),
        asked("GET /-/events HTTP/1.1").replace(b"Accept:", b"Sec-Fetch-Site: cross-site\r\nAccept:"),
    ],
    "400": [
        asked(f"GET /{MARK} HTTP/9.9"),
        asked(f"{MARK}\x00 / HTTP/1.1"),
        f"{MARK}\r\n\r\n".encode(),
        asked(f"GET /{MARK}{'x' * 9000} HTTP/1.1"),
        asked("GET / HTTP/1.1").replace(b"X-", b"X \x01-"),
    ],
}


def headers(answer: bytes) -> dict[str, str]:
    """Of an answer, each once."""
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    found = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert len(found) == len(lines), lines
    return found


@pytest.mark.parametrize(
    ("status", "sent"), [(status, sent) for status, requests in REQUESTS.items() for sent in requests]
)
async def test_every_answer_is_strict_and_repeats_nothing(server: HttpServer, status: str, sent: bytes) -> None:
    """Whatever was asked, and however it went."""
    answer = await exchange(server, sent)
    told = headers(answer)

    assert answer.split(b" ", 2)[1] == status.encode()
    assert {name: told.get(name) for name in STRICT} == STRICT
    assert "frame-ancestors 'none'" in told["content-security-policy"]
    assert "default-src 'none'" in told["content-security-policy"]
    assert "access-control-allow-origin" not in told
    assert MARK.encode() not in answer


async def test_whoever_is_one_too_many_is_told_as_strictly(server: HttpServer) -> None:
    """Though nobody has read what he asks."""
    crowd = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(DEFAULT_HTTP)]
    for _, writer in crowd:
        writer.write(b"GET /-/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: not server._connections._idle)
    told = headers(await exchange(server, asked("GET / HTTP/1.1")))
    for _, writer in crowd:
        writer.close()

    assert {name: told.get(name) for name in STRICT} == STRICT
