"""Watch: what is asked for is read, what happens is told, and who goes away is forgotten."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast
from unittest.mock import Mock

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc import aio

from governor.chronicle import Chronicle, What
from governor.core.engine import Engine
from governor.core.types import MILLISECOND, SECOND, Claim, Grant, LeaseId, Member
from governor.driver import Driver
from governor.entries import Entry
from governor.rpc import status
from governor.rpc.watch import MAX_NAMED, MAX_WATCHERS, Watch, event, messages
from governor.testing.clock import FakeClock
from governor.v1 import admin_pb2 as pb
from tests.core.declared import rate_limit, semaphore
from tests.rpc.refusals import unpacked

# It is not looked at: whoever calls has read the message.
CONTEXT = cast("aio.ServicerContext[bytes, bytes]", Mock())

Telling = AsyncGenerator[bytes | status.Refusal, None]


class Rig:
    """A driver with one semaphore, and those who watch it."""

    def __init__(self) -> None:
        self.driver = Driver(Engine(), FakeClock())
        self.driver.reserve_ids(LeaseId(1_000_000))
        self.driver.reconfigure((semaphore("db", None),))
        self.chronicle = Chronicle(self.driver, lambda: 1_700_000_000 * SECOND)
        self._watch = Watch(self.chronicle, self.driver)

    def watch(self, request: pb.WatchRequest | bytes = b"") -> Telling:
        """A call of it."""
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        return self._watch.watch(raw, CONTEXT)

    def acquire(self, resource: str = "db", client: str = "web") -> None:
        """Something happens."""
        self.driver.ask((Claim(resource, 1),), client=client)


@pytest.fixture
def rig() -> Rig:
    """Nobody watches yet."""
    return Rig()


async def told(telling: Telling) -> list[str]:
    """The next message: what it tells."""
    message = await anext(telling)
    assert isinstance(message, bytes)
    return [each.what for each in pb.WatchResponse.FromString(message).events]


async def refused(telling: Telling) -> status.Refusal:
    """The one answer to a call that is refused."""
    refusal = await anext(telling)
    assert isinstance(refusal, status.Refusal)
    with pytest.raises(StopAsyncIteration):
        await anext(telling)
    return refusal


class TestTelling:
    """One call, from its first message to its end."""

    async def test_first_that_it_watches_then_what_happens(self, rig: Rig) -> None:
        """All of one turn comes in one message."""
        watching = rig.watch()
        assert await told(watching) == ["watching"]
        rig.acquire()
        rig.acquire("nothing")
        assert await told(watching) == ["granted", "refused"]

    async def test_only_what_is_wanted(self, rig: Rig) -> None:
        """By resource, by client and by what it is."""
        watching = rig.watch(pb.WatchRequest(resources=["db"], clients=["cron"], what=["granted", "released"]))
        await told(watching)
        rig.acquire()
        rig.acquire(client="cron")
        rig.acquire("nothing", client="cron")
        rig.driver.release((LeaseId(1),))
        rig.driver.release((LeaseId(2),))
        assert await told(watching) == ["granted", "released"]

    async def test_the_daemon_ends(self, rig: Rig) -> None:
        """That it stops is the last word, and the daemon waits until it is said."""
        watching = rig.watch()
        await told(watching)
        closing = asyncio.create_task(rig.chronicle.close(20))
        assert await told(watching) == ["stopping"]
        assert not closing.done()
        with pytest.raises(StopAsyncIteration):
            await anext(watching)
        await closing

    async def test_who_goes_away_is_forgotten(self, rig: Rig) -> None:
        """His call is cancelled while he waits, and nothing is kept for him."""
        watching = rig.watch()
        await told(watching)
        waiting = asyncio.ensure_future(anext(watching))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (rig.chronicle.readers, len(rig.driver.observers)) == (0, 0)

    async def test_who_goes_away_in_the_midst_of_it_is_forgotten(self, rig: Rig) -> None:
        """That is, while a message is on its way to him."""
        watching = rig.watch()
        await told(watching)
        await watching.aclose()
        assert rig.chronicle.readers == 0


class TestRefusals:
    """What makes no sense is refused, and nobody is kept for it."""

    @pytest.mark.parametrize(
        ("request_", "code", "words"),
        [
            (b"\xff", grpc.StatusCode.INVALID_ARGUMENT, "a governor.v1.WatchRequest in protobuf encoding"),
            (pb.WatchRequest(resources=["db", "dv"]), grpc.StatusCode.NOT_FOUND, "dv: no such resource"),
            (pb.WatchRequest(resources=["x" * 201]), grpc.StatusCode.INVALID_ARGUMENT, "resources[0]: expected 1 to"),
            (pb.WatchRequest(clients=["web", ""]), grpc.StatusCode.INVALID_ARGUMENT, "clients[1]: expected 1 to 256"),
            (pb.WatchRequest(what=["grants"]), grpc.StatusCode.INVALID_ARGUMENT, "what[0]: expected one of queued, "),
            (pb.WatchRequest(what=["missed"]), grpc.StatusCode.INVALID_ARGUMENT, "what[0]: expected one of queued, "),
            (
                pb.WatchRequest(clients=[str(n) for n in range(MAX_NAMED + 1)]),
                grpc.StatusCode.INVALID_ARGUMENT,
                "clients: expected at most 256 names, not 257",
            ),
        ],
    )
    async def test_a_request_that_is_wrong(
        self, rig: Rig, request_: pb.WatchRequest | bytes, code: grpc.StatusCode, words: str
    ) -> None:
        """It says which field, and what was expected."""
        refusal = await refused(rig.watch(request_))
        assert refusal.code is code
        assert words in refusal.message
        assert rig.chronicle.readers == 0

    async def test_what_is_only_remembered_as_spent_is_not_there(self, rig: Rig) -> None:
        """As for any other call: a rate limit that is declared no more is none, however much of it is spent."""
        api = rate_limit("api", (1, 3600 * SECOND, 1))
        rig.driver.reconfigure((semaphore("db", None), api))
        rig.acquire("api")
        assert await told(rig.watch(pb.WatchRequest(resources=["api"]))) == ["watching"]
        rig.driver.reconfigure((semaphore("db", None),))
        assert rig.driver.fades("api")
        refusal = await refused(rig.watch(pb.WatchRequest(resources=["api"])))
        assert refusal.code is grpc.StatusCode.NOT_FOUND
        assert "api: no such resource" in refusal.message

    async def test_all_that_can_happen_can_be_asked_for(self, rig: Rig) -> None:
        """But for what comes unasked."""
        words = [what.value for what in What if what not in {What.WATCHING, What.MISSED}]
        assert await told(rig.watch(pb.WatchRequest(what=words))) == ["watching"]

    async def test_too_many(self, rig: Rig) -> None:
        """Each takes a buffer; when one goes, there is room for another."""
        watching = [rig.watch() for _ in range(MAX_WATCHERS)]
        for each in watching:
            await told(each)
        refusal = await refused(rig.watch())
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        raw = dict(refusal.metadata)["grpc-status-details-bin"]
        assert isinstance(raw, bytes)
        said, details = unpacked(raw)
        assert said.message == "governor: 32 are watching already, which is as many as may; try again in 1s"
        assert details["ErrorInfo"] == error_details_pb2.ErrorInfo(
            reason="BUSY", domain="governor", metadata={"most": "32", "what": "are watching"}
        )
        assert details["RetryInfo"] == error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1))
        await watching[3].aclose()
        assert await told(rig.watch()) == ["watching"]


class TestWire:
    """How an entry reads on the wire."""

    def test_every_field(self) -> None:
        """Grants are told as claims; attributes of members are not told."""
        entry = Entry(
            1_700_000_000 * SECOND + 5,
            What.RENEWED,
            ("db",),
            "web",
            7,
            (Grant("db", 2, (Member("m", (("password", "x"),)),)), Claim("api", 1, "k")),
            "hopeless",
            SECOND,
            2 * SECOND,
            1500 * MILLISECOND,
            "why",
            "alice",
            9,
        )
        made = event(entry)
        assert (made.at.seconds, made.at.nanos) == (1_700_000_000, 5)
        assert (made.what, list(made.resources), made.client, made.lease_id) == ("renewed", ["db"], "web", 7)
        claims = [(claim.resource, claim.permits, claim.key) for claim in made.claims]
        assert claims == [("db", 2, ""), ("api", 1, "k")]
        assert (made.reason, made.detail, made.actor, made.missed) == ("hopeless", "why", "alice", 9)
        lengths = [made.waited, made.held, made.remaining]
        assert [length.ToNanoseconds() for length in lengths] == [SECOND, 2 * SECOND, 1500 * MILLISECOND]
        assert b"password" not in made.SerializeToString()

    def test_what_there_is_not_is_absent(self) -> None:
        """A wait of 0 is a wait; none is none."""
        assert not event(Entry(0, What.GRANTED)).HasField("waited")
        assert event(Entry(0, What.GRANTED, waited=0)).HasField("waited")

    def test_no_message_is_long(self) -> None:
        """However much there is to tell, each entry is told once, in order."""
        entries = [Entry(number, What.REFUSED, ("r" * 200,) * 8) for number in range(1000)]
        made = list(messages(entries))
        instants = [each.at.nanos for raw in made for each in pb.WatchResponse.FromString(raw).events]
        assert instants == list(range(1000))
        assert max(map(len, made)) < 20_000
        assert len(made) < 200
