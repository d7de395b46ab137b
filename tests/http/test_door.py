"""Who may read which page, where that is asked: over real HTTP, with the guard that gRPC has, too."""

import asyncio
import logging
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from aiohttp import ClientError, ClientSession

from governor import der
from governor.access import Client, Verb, digest_of
from governor.address import TcpAddress
from governor.certificates import Certificates
from governor.config.clients import asked_at
from governor.core.types import SECOND, Claim, Denial, Reason
from governor.http.door import Door, sans
from governor.http.server import HttpServer, serve
from governor.rpc.guard import Guard
from governor.tls import Tls
from governor.units import Rate
from tests.certificates import Authority, Pair, certificates_of
from tests.core.declared import semaphore
from tests.http.conftest import Daemon

OPEN: Final = ("/-/healthy", "/-/ready")
KEPT: Final = ("/", "/metrics", "/-/events", "/-/resources/sem", "/-/resources/nothing", "/nothing")
HTML: Final = {"Accept": "text/html"}


def _client(name: str, *verbs: Verb, resources: tuple[str, ...] = ("*",), sans: tuple[str, ...] = ()) -> Client:
    return Client(name, (digest_of(f"{name}'s token".encode()),), frozenset(verbs), resources, sans=sans)


CLIENTS: Final = (
    _client("reader", Verb.READ, sans=("reader.internal", "spiffe://prod/reader")),
    _client("admin", Verb.ADMIN),
    _client("acquirer", Verb.ACQUIRE),
    _client("narrow", Verb.READ, resources=("sem",)),
)


def bearer(name: str) -> dict[str, str]:
    """What a caller of this name says."""
    return {"Authorization": f"Bearer {name}'s token"}


def password(text: str) -> dict[str, str]:
    """What a browser says."""
    return {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}


class Kept:
    """A server that asks, with its guard and whom that has refused."""

    def __init__(self, daemon: Daemon) -> None:
        self.refused: list[Reason] = []
        # Whence those came who were.
        self.origins: set[str] = set()
        self.guard = Guard(daemon.scene.driver, CLIENTS, self._note)
        self.door = Door(self.guard.reader)
        self.url = ""

    def _note(self, denial: Denial, _claims: Sequence[Claim], origin: str) -> None:
        self.refused.append(denial.reason)
        self.origins.add(origin)

    @asynccontextmanager
    async def serving(self, daemon: Daemon, certificates: Certificates | None = None) -> AsyncIterator[HttpServer]:
        """At a port of its own."""
        server = await serve(
            TcpAddress("127.0.0.1", 0, certificates is not None), daemon.pages, self.door, certificates
        )
        self.url = f"{'https' if certificates else 'http'}://127.0.0.1:{server.port}"
        self.guard.changed.append(server.ask_again)
        try:
            yield server
        finally:
            await server.stop()


@pytest.fixture
def kept(daemon: Daemon) -> Iterator[Kept]:
    """Not served yet."""
    daemon.scene.declare(semaphore("sem", 4))
    made = Kept(daemon)
    yield made
    made.guard.close()


async def status(
    session: ClientSession,
    path: str,
    headers: dict[str, str] | None = None,
    method: str = "GET",
    context: ssl.SSLContext | None = None,
) -> int:
    """Of an answer, whose body may go on."""
    async with session.request(method, path, headers=headers, ssl=context or True) as answer:
        return answer.status


async def test_whoever_may_read_reads(daemon: Daemon, kept: Kept) -> None:
    """All of it, or what is its own; everybody sees whether the daemon lives, and nobody else anything."""
    found: dict[str, list[int]] = {}
    async with kept.serving(daemon), ClientSession(kept.url) as session:
        for name in ("", "wrong", "reader", "admin", "acquirer", "narrow"):
            said = bearer(name) if name else None
            found[name] = [await status(session, path, said) for path in (*KEPT, *OPEN)]

    assert found == {
        "": [401] * 6 + [200] * 2,
        "wrong": [401] * 6 + [200] * 2,
        "reader": [200, 200, 200, 200, 404, 404, 200, 200],
        "admin": [200, 200, 200, 200, 404, 404, 200, 200],
        "acquirer": [403] * 6 + [200] * 2,
        # What is not its own cannot be told from what does not exist.
        "narrow": [403, 403, 403, 200, 403, 403, 200, 200],
    }
    assert set(kept.refused) == {Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED}
    # Of who is known there is a name to tell.
    assert kept.origins == {"127.0.0.1", ""}


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_another_method_opens_nothing(daemon: Daemon, kept: Kept, method: str) -> None:
    """Nor does it tell what there is."""
    async with kept.serving(daemon), ClientSession(kept.url) as session:
        assert {await status(session, path, method=method) for path in KEPT} == {401}


@pytest.mark.parametrize("path", KEPT)
async def test_a_refusal_says_what_to_do_and_nothing_else(daemon: Daemon, kept: Kept, path: str) -> None:
    """A browser asks for a password by itself; none of what was sent comes back."""
    async with (
        kept.serving(daemon),
        ClientSession(kept.url) as session,
        session.get(path, headers={**HTML, **password("me:s3cr3t-token")}) as answer,
    ):
        text = await answer.text()

        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="governor", Basic realm="governor", charset="UTF-8"'
        assert "s3cr3t" not in text + str(answer.headers)
    assert (text.count("\n"), "Bearer TOKEN" in text) == (1, True)


@pytest.mark.parametrize("said", [":reader's token", "anybody:reader's token", "  :reader's token", "ü:reader's token"])
async def test_a_browser_sends_its_token_as_the_password(daemon: Daemon, kept: Kept, said: str) -> None:
    """Under any name."""
    async with kept.serving(daemon), ClientSession(kept.url) as session:
        assert await status(session, "/", {**HTML, **password(said)}) == 200


@pytest.mark.parametrize(
    "said",
    [
        ["Basic"],
        ["Basic "],
        ["Basic !!!"],
        ["Basic /w=="],
        [f"Basic {b64encode(b'no colon').decode()}"],
        [f"Basic {b64encode(b'reader:').decode()}"],
        ["Bearer"],
        ["Bearer "],
        ["Digest username=reader"],
        ["reader's token"],
        [f"Bearer {digest_of(b'readers token').hex()}"],
        [f"Bearer {'x' * 5000}"],
        ["Bearer reader's token", "Bearer reader's token"],
        ["Bearer reader's token", "Basic x"],
    ],
)
async def test_what_is_no_proof_opens_nothing(daemon: Daemon, kept: Kept, said: list[str]) -> None:
    """Two are none, as over gRPC."""
    headers = [("Authorization", each) for each in said]
    async with (
        kept.serving(daemon),
        ClientSession(kept.url) as session,
        session.get("/metrics", headers=headers) as answer,
    ):
        assert answer.status == 401
        assert answer.headers["Cache-Control"] == "no-store"


async def test_whoever_asks_too_often_is_told_when_to_ask_again(daemon: Daemon, kept: Kept) -> None:
    """By the rate that it has over gRPC, too."""
    slow = Client(
        "slow", (digest_of(b"slow's token"),), frozenset({Verb.READ}), max_rate=asked_at(Rate(1, 10 * SECOND))
    )
    kept.guard.declare((slow,))
    async with kept.serving(daemon), ClientSession(kept.url) as session:
        assert await status(session, "/metrics", bearer("slow")) == 200
        async with session.get("/metrics", headers=bearer("slow")) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "10")


async def test_who_reads_is_asked_again_when_clients_change(daemon: Daemon, kept: Kept) -> None:
    """What goes on ends, and without any clients nobody may read: a reload that takes them away opens nothing."""
    async with kept.serving(daemon), ClientSession(kept.url) as session:
        async with session.get("/-/events", headers=bearer("reader")) as answer:
            assert answer.status == 200
            kept.guard.declare(CLIENTS[1:])
            await answer.read()  # to its end
        assert await status(session, "/-/events", bearer("reader")) == 401
        kept.guard.declare(None)
        assert {await status(session, path, bearer("admin")) for path in KEPT} == {401}


def test_names_of_hosts_and_uris_are_names(tmp_path: Path) -> None:
    """An address is no name of a program, as over gRPC; and who shows nothing has none."""
    shown = Authority(tmp_path).certify("me", "a.b", "spiffe://x", "10.0.0.1").cert.read_text()
    assert sans(ssl.PEM_cert_to_DER_cert(shown)) == ("a.b", "spiffe://x")
    assert (sans(None), sans(b""), sans({})) == ((), (), ())


async def test_who_reads_one_resource_sees_no_name_of_others(daemon: Daemon, kept: Kept) -> None:
    """Also not of those that somebody waits for besides, nor because somebody who may has just read the same."""
    daemon.scene.declare(semaphore("sem", 4), semaphore("secret", 4))
    daemon.scene.take("sem", permits=4)
    daemon.scene.wait("sem", "secret")
    async with kept.serving(daemon), ClientSession(kept.url) as session:
        seen: dict[str, list[list[str]]] = {}
        for name in ("reader", "narrow", "reader", "narrow"):
            async with session.get("/-/resources/sem", headers=bearer(name)) as answer:
                seen.setdefault(name, []).append((await answer.json())["waiters"][0]["others"])

    assert seen == {"reader": [["secret"]] * 2, "narrow": [[]] * 2}


# --- odd requests -----------------------------------------------------------------------------------------------

ODD: Final = (
    b"\xff",
    b"\xed\xa0\x80",
    b"\x80abc",
    b"\x01",
    b"\x1b[2J",
    b"",
    b"*",
    b"%00",
    b"a" * 8000,
    b";q=1e999",
    b"[::1",
)
FIELDS: Final = (
    b"Authorization: Bearer ",
    b"Authorization: Basic ",
    b"Authorization: ",
    b"Accept: text/html;q=",
    b"Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=",
    b"Sec-Fetch-Site: ",
    b"Range: bytes=",
    b"Cookie: ",
)


async def answered(url: str, path: bytes, *fields: bytes) -> bytes:
    """All that is answered to a request of these bytes."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (b"GET " + path + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *fields)
    writer.write(b"\r\n".join(head) + b"\r\n\r\n")
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("field", FIELDS)
async def test_odd_bytes_are_no_fault_of_the_daemon(
    daemon: Daemon, kept: Kept, caplog: pytest.LogCaptureFixture, field: bytes
) -> None:
    """In any field: what can be read of is answered as to anybody, and says nothing in the log."""
    caplog.set_level(logging.INFO)
    known = b"Authorization: Bearer reader's token"
    async with kept.serving(daemon):
        for odd in ODD:
            for path in (b"/metrics", b"/", b"/-/resources/sem", b"/-/resources/%ff%0a", b"/%1b%00"):
                stranger = await answered(kept.url, path, field + odd)
                assert stranger.split()[1] in {b"401", b"400"}, (path, odd)
                if not field.startswith(b"Auth"):
                    assert (await answered(kept.url, path, known, field + odd)).split()[1] in {
                        b"200",
                        b"404",
                        b"400",
                        b"403",
                    }
    assert caplog.records == []


async def test_a_token_that_is_no_text_is_counted_as_one_that_is_wrong(daemon: Daemon, kept: Kept) -> None:
    """As any other caller that nobody knows."""
    async with kept.serving(daemon):
        for said in (b"Bearer \xff", b"Bearer \xed\xb3\xbf", b"\xff"):
            assert b" 401 " in (await answered(kept.url, b"/metrics", b"Authorization: " + said)).splitlines()[0]
    assert kept.refused == [Reason.UNAUTHENTICATED] * 3


# --- over TLS ---------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """The daemon's."""
    return Authority(tmp_path).certify("daemon", "127.0.0.1")


def trusting(authority: Authority | Path, shown: Pair | None = None) -> ssl.SSLContext:
    """Of a client."""
    context = ssl.create_default_context(cafile=authority if isinstance(authority, Path) else authority.cert)
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


async def test_a_certificate_is_asked_of_nobody_and_opens_what_a_token_does(
    daemon: Daemon, kept: Kept, tmp_path: Path, pair: Pair
) -> None:
    """A probe has none. One of somebody else's, or that is over, is no connection at all."""
    ours, clients = tmp_path / "authority.crt", Authority(tmp_path, "clients")
    certificates = certificates_of(Tls(pair.cert, pair.key, clients.cert))
    shown = {
        "none": None,
        "host": clients.certify("host", "reader.internal"),
        "uri": clients.certify("uri", "spiffe://prod/reader"),
        "stranger": clients.certify("stranger", "stranger.internal"),
    }
    async with kept.serving(daemon, certificates):
        found: dict[str, list[int]] = {}
        for name, each in shown.items():
            async with ClientSession(kept.url) as session:
                context = trusting(ours, each)
                found[name] = [await status(session, path, context=context) for path in ("/-/healthy", "/metrics")]
        for bad in (
            Authority(tmp_path, "other").certify("forged", "reader.internal"),
            clients.certify("old", "reader.internal", since=-3, until=-1),
        ):
            async with ClientSession(kept.url) as session:
                with pytest.raises(ClientError):
                    await session.get("/-/healthy", ssl=trusting(ours, bad))

    assert found == {"none": [200, 401], "host": [200, 200], "uri": [200, 200], "stranger": [200, 401]}


# Of a name, in DER: the tag of a host's, how long it is, and its bytes.
ODD_NAMES: Final = {
    "no text": b"\x82\x02\xff\xfe",
    "no ASCII": b"\x82\x02\xc3\xbc",
    "with a NUL": b"\x82\x10reader.internal\0",
    "of an address that is none": b"\x87\x03abc",
    "of a mailbox": b"\x81\x0freader.internal",
}


@pytest.mark.parametrize("odd", ODD_NAMES)
async def test_odd_names_in_a_certificate_are_no_fault_of_the_daemon(
    daemon: Daemon, kept: Kept, tmp_path: Path, pair: Pair, caplog: pytest.LogCaptureFixture, odd: str
) -> None:
    """Beside a good one, too: what cannot be read makes it nobody's, as over gRPC, and no more than that."""
    caplog.set_level(logging.INFO)
    ours, clients = tmp_path / "authority.crt", Authority(tmp_path, "clients")
    names = ODD_NAMES[odd]
    beside = names + b"\x82\x0freader.internal"
    found, over_grpc = [], []
    async with kept.serving(daemon, certificates_of(Tls(pair.cert, pair.key, clients.cert))):
        for each in (names, beside):
            shown = clients.certify("odd", odd=b"\x30" + bytes((len(each),)) + each)
            async with ClientSession(kept.url) as session:
                context = trusting(ours, shown)
                assert await status(session, "/-/healthy", context=context) == 200
                found.append(await status(session, "/metrics", context=context) == 200)
            over_grpc.append("reader.internal" in der.sans(shown.cert.read_bytes()))
    assert found == over_grpc
    assert not found[0]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
