"""The chronicle: who wants to know is told what happens, in order, and holds up nobody."""

import asyncio
from dataclasses import replace

import pytest

from governor.chronicle import BUFFER, Chronicle, Entry, Reader, Wanted, What
from governor.core.effects import Denied, Granted, Queued
from governor.core.engine import Engine
from governor.core.types import MILLISECOND, SECOND, Claim, EndReason, Grant, LeaseId, Member, Reason, Said, TicketId
from governor.driver import Driver
from governor.entries import ACTS, ASKS, LEASES
from governor.testing.clock import FakeClock
from tests.core.declared import pool, rate_limit, semaphore

WALL = 1_700_000_000 * SECOND
DB = (Claim("db", 1),)
FIRST = LeaseId(1)


class Rig:
    """A driver with a semaphore, a pool and a rate limit, and its chronicle; the wall clock goes with its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.driver = Driver(Engine(), self.clock)
        self.driver.reserve_ids(LeaseId(1_000_000))
        self.driver.reconfigure((semaphore("db", 1), pool("workers", ["w1", "w2"]), rate_limit("api", (1, SECOND, 1))))
        self.chronicle = Chronicle(self.driver, lambda: WALL + self.clock.time)

    def granted(self, *claims: Claim, client: str = "web", request_id: str = "") -> Granted:
        """What somebody is granted at once."""
        answer = self.driver.ask(claims, client=client, request_id=request_id, labels=(("token", "secret"),))
        assert isinstance(answer, Granted)
        return answer

    def queued(self, *claims: Claim, client: str = "web") -> TicketId:
        """The ticket of somebody who stands in line."""
        answer = self.driver.ask(claims, client=client)
        assert isinstance(answer, Queued)
        return answer.ticket


@pytest.fixture
def rig() -> Rig:
    """Idle, and nobody listens."""
    return Rig()


@pytest.fixture
def told(rig: Rig) -> list[Entry]:
    """All that a listener of ``rig`` has been told."""
    entries: list[Entry] = []
    rig.chronicle.listen(entries.extend)
    return entries


def whats(entries: list[Entry] | None) -> list[What]:
    """What happened, without the rest."""
    assert entries is not None
    return [entry.what for entry in entries]


class TestEntries:
    """Each thing that happens is told once, with all that there is to know of it."""

    def test_the_life_of_a_lease(self, rig: Rig, told: list[Entry]) -> None:
        """It is granted, renewed and given back; lengths are exact, instants those of the wall clock."""
        lease = rig.granted(*DB).lease
        rig.clock.advance(2 * SECOND)
        rig.driver.renew((lease,))
        rig.clock.advance(3 * SECOND)
        rig.driver.release((lease,))

        grants = (Grant("db", 1),)
        assert told == [
            Entry(WALL, What.GRANTED, ("db",), "web", 1, grants, waited=0, remaining=30 * SECOND),
            Entry(WALL + 2 * SECOND, What.RENEWED, ("db",), "web", 1, grants, remaining=30 * SECOND),
            Entry(WALL + 5 * SECOND, What.RELEASED, ("db",), "web", 1, grants, held=5 * SECOND),
        ]

    def test_a_wait(self, rig: Rig, told: list[Entry]) -> None:
        """Who stands in line is told of as soon as he does, and what he is granted says how long that was."""
        lease = rig.granted(*DB).lease
        rig.queued(*DB, client="cron")
        rig.clock.advance(SECOND)
        rig.driver.release((lease,))

        assert [(entry.what, entry.client, entry.waited) for entry in told[1:]] == [
            (What.QUEUED, "cron", None),
            (What.RELEASED, "web", None),
            (What.GRANTED, "cron", SECOND),
        ]
        assert told[1].claims == DB

    def test_a_wait_that_comes_to_nothing(self, rig: Rig, told: list[Entry]) -> None:
        """Given up by whoever waited, or refused when it was over."""
        rig.granted(*DB)
        rig.driver.abandon(rig.queued(*DB))
        rig.queued(*DB)
        rig.driver.renew((FIRST,), 60 * SECOND)
        rig.clock.advance(30 * SECOND)

        ends = [entry for entry in told if entry.what in {What.GIVEN_UP, What.REFUSED}]
        assert [(entry.what, entry.resources, entry.claims, entry.reason, entry.waited) for entry in ends] == [
            (What.GIVEN_UP, ("db",), DB, "", 0),
            (What.REFUSED, ("db",), DB, "wait_over", 30 * SECOND),
        ]

    def test_what_a_client_may_not_do(self, rig: Rig, told: list[Entry]) -> None:
        """Who did not let him has told it: the first alone, and those like it in one that says how many."""
        lines: list[Entry] = []
        rig.chronicle.refusal_listeners.append(lines.append)
        for times in (1, 999):
            rig.chronicle.refused("web", ("db",), Reason.PERMISSION_DENIED, "may not acquire it", list(DB), times)

        first = Entry(
            WALL, What.REFUSED, ("db",), "web", claims=DB, reason="permission_denied", detail="may not acquire it"
        )
        assert told == lines == [first, replace(first, times=999)]

    async def test_what_was_counted_is_told_before_the_last_word(self, rig: Rig) -> None:
        """To those who watch."""
        reader = rig.chronicle.read(Wanted(what=frozenset({"refused"})))
        rig.chronicle.endings.append(
            lambda: rig.chronicle.refused("web", (), Reason.PERMISSION_DENIED, "may not", (), 3)
        )
        await rig.chronicle.close(0)

        assert whats(await reader.read()) == [What.WATCHING, What.REFUSED, What.STOPPING]

    def test_a_refusal_names_what_was_asked_for(self, rig: Rig, told: list[Entry]) -> None:
        """Each name once, also of what there is not."""
        assert isinstance(rig.driver.ask((Claim("nothing", 2), Claim("nothing", 1))), Denied)
        assert [(entry.resources, entry.reason, entry.waited) for entry in told] == [(("nothing",), "malformed", 0)]

    def test_a_lease_that_expires(self, rig: Rig, told: list[Entry]) -> None:
        """It was held to its deadline."""
        rig.granted(*DB)
        rig.clock.advance(31 * SECOND)

        assert [(entry.what, entry.lease, entry.client, entry.held) for entry in told[1:]] == [
            (What.EXPIRED, 1, "web", 30 * SECOND)
        ]

    def test_a_holder_who_is_gone(self, rig: Rig, told: list[Entry]) -> None:
        """His lease is orphaned, with what is left of it, and ends as disconnected."""
        rig.granted(*DB)
        rig.driver.disconnect((FIRST,))
        rig.clock.advance(3 * SECOND)

        assert [(entry.what, entry.client, entry.resources, entry.remaining) for entry in told[1:]] == [
            (What.ORPHANED, "web", ("db",), 2 * SECOND),
            (What.DISCONNECTED, "web", ("db",), None),
        ]

    def test_a_grant_of_a_rate_limit(self, rig: Rig, told: list[Entry]) -> None:
        """It has no deadline and no end; if nobody got it, it is refunded."""
        granted = rig.granted(Claim("api", 1))
        rig.driver.abandon(granted.ticket)

        assert [(entry.what, entry.lease, entry.client, entry.remaining) for entry in told] == [
            (What.GRANTED, 1, "web", None),
            (What.REFUNDED, 1, "web", None),
        ]

    def test_a_repeated_ask_is_no_news(self, rig: Rig, told: list[Entry]) -> None:
        """It gets the lease that was told of."""
        rig.granted(*DB, request_id="r1")
        assert rig.granted(*DB, request_id="r1").repeated
        assert whats(told) == [What.GRANTED]

    def test_several_resources_are_named_each(self, rig: Rig, told: list[Entry]) -> None:
        """With the members that a pool lends."""
        rig.granted(Claim("workers", 1), Claim("db", 1))
        assert told[0].resources == ("workers", "db")
        assert told[0].claims == (Grant("workers", 1, (Member("w1"),)), Grant("db", 1))

    def test_no_label_is_told(self, rig: Rig, told: list[Entry]) -> None:
        """They may be secrets."""
        rig.granted(*DB)
        assert "secret" not in repr(told)

    def test_every_word_belongs_somewhere(self) -> None:
        """To asks, leases, acts or the telling itself; every end of a lease has its word."""
        assert ASKS | LEASES | ACTS | {What.WATCHING, What.MISSED} == set(What)
        assert len(ASKS) + len(LEASES) + len(ACTS) + 2 == len(What)
        assert {reason.value for reason in EndReason} - {"spent"} <= LEASES


class TestListening:
    """The engine is looked at only while somebody wants to know."""

    def test_nobody_listens(self, rig: Rig) -> None:
        """Then nothing is called for any step, before and after."""
        before = len(rig.driver.observers)
        reader = rig.chronicle.read()
        heard: list[Entry] = []
        listener = heard.extend
        rig.chronicle.listen(listener)
        while_heard = len(rig.driver.observers)
        rig.chronicle.forget(reader)
        rig.chronicle.leave(listener)

        assert (before, while_heard, len(rig.driver.observers)) == (0, 1, 0)

    def test_to_leave_twice_harms_nobody(self, rig: Rig, told: list[Entry]) -> None:
        """Others are told on."""
        reader = rig.chronicle.read()
        rig.chronicle.forget(reader)
        rig.chronicle.forget(reader)
        rig.granted(*DB)

        assert whats(told)[-1] is What.GRANTED
        assert rig.chronicle.readers == 0

    def test_an_act_is_told_to_all(self, rig: Rig, told: list[Entry]) -> None:
        """With who did it, to what; also to those who hear of nothing else."""
        acts: list[Entry] = []
        rig.chronicle.act_listeners.append(acts.append)
        rig.granted(*DB)
        rig.chronicle.act(What.PAUSED, ["db"], "to the end", Said("alice", "a move"))

        assert (
            acts == told[1:] == [Entry(WALL, What.PAUSED, ("db",), detail="to the end", actor="alice", reason="a move")]
        )


class TestReaders:
    """Each reads what he wants, in order, when he can."""

    async def test_the_first_is_that_he_watches(self, rig: Rig) -> None:
        """And what happened before is not told."""
        rig.granted(*DB)
        reader = rig.chronicle.read()
        assert whats(await reader.read()) == [What.WATCHING]

    async def test_he_is_woken(self, rig: Rig) -> None:
        """And gets all that one turn has brought."""
        reader = rig.chronicle.read()
        await reader.read()
        reading = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        rig.driver.release((rig.granted(*DB).lease,))
        assert whats(await reading) == [What.GRANTED, What.RELEASED]

    async def test_who_is_cancelled_misses_nothing(self, rig: Rig) -> None:
        """What comes in the same turn is there for the next read."""
        reader = rig.chronicle.read()
        await reader.read()
        reading = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        rig.granted(*DB)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert whats(await reader.read()) == [What.GRANTED]

    @pytest.mark.parametrize(
        ("wanted", "told"),
        [
            (Wanted(), ["granted db", "granted workers", "paused db", "draining "]),
            (Wanted(resources=frozenset(["db"])), ["granted db", "paused db", "draining "]),
            (Wanted(clients=frozenset(["cron"])), ["granted workers"]),
            (Wanted(what=frozenset(["paused", "granted"])), ["granted db", "granted workers", "paused db"]),
            (Wanted(frozenset(["db"]), frozenset(["web", "cron"]), frozenset(["granted"])), ["granted db"]),
            (Wanted(resources=frozenset(["other"])), ["draining "]),
        ],
    )
    async def test_he_is_told_what_he_wants(self, rig: Rig, wanted: Wanted, told: list[str]) -> None:
        """By resource, by client, by what it is, and by all of them; the end of the daemon is about each resource."""
        reader = rig.chronicle.read(wanted)
        await reader.read()
        rig.granted(*DB)
        rig.granted(Claim("workers", 1), client="cron")
        rig.chronicle.act(What.PAUSED, ["db"])
        rig.chronicle.act(What.DRAINING)
        read = await reader.read()
        assert read is not None
        assert [f"{entry.what} {' '.join(entry.resources)}" for entry in read] == told

    async def test_what_befalls_all_resources_at_once(self, rig: Rig) -> None:
        """Is about each of them: that the daemon drains, and that it was frozen, so that leases end later."""
        reader = rig.chronicle.read(Wanted(resources=frozenset({"db"})))
        await reader.read()
        rig.chronicle.act(What.FROZEN, detail="did not run for 9s; all leases end as much later")
        rig.chronicle.act(What.DRAINING)
        rig.chronicle.act(What.DRAINING, ["workers"])
        read = await reader.read()
        assert read is not None
        assert [entry.what for entry in read] == [What.FROZEN, What.DRAINING]

    async def test_what_he_watches_is_removed(self, rig: Rig) -> None:
        """He is told, whatever else he wants to know; of others he is not."""
        reader = rig.chronicle.read(Wanted(frozenset(["db"]), frozenset(["web"]), frozenset(["granted"])))
        await reader.read()
        rig.chronicle.act(What.RELOADED, ["workers"], "removed workers")
        rig.chronicle.act(What.RELOADED, ["api", "db"], "removed api, db")
        read = await reader.read()
        assert read is not None
        assert [entry.detail for entry in read] == ["removed api, db"]

    async def test_the_end(self, rig: Rig) -> None:
        """The last that he is told is that the daemon stops; whoever comes later is told nothing."""
        reader = rig.chronicle.read(Wanted(what=frozenset(["granted"])))
        rig.granted(*DB)
        await rig.chronicle.close(0)
        rig.driver.release((FIRST,))

        assert whats(await reader.read()) == [What.WATCHING, What.GRANTED, What.STOPPING]
        assert await reader.read() is None
        assert await rig.chronicle.read().read() is None
        assert rig.driver.observers == []

    async def test_who_waits_when_it_ends_is_told(self, rig: Rig) -> None:
        """He does not wait for ever."""
        reader = rig.chronicle.read()
        await reader.read()
        reading = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        await rig.chronicle.close(0)
        assert whats(await reading) == [What.STOPPING]

    async def test_the_end_waits_until_all_have_read(self, rig: Rig) -> None:
        """They forget their readers then."""
        one, other = rig.chronicle.read(), rig.chronicle.read()
        closing = asyncio.create_task(rig.chronicle.close(20))
        await asyncio.sleep(0)
        rig.chronicle.forget(one)
        await asyncio.sleep(0)
        assert not closing.done()
        rig.chronicle.forget(other)
        await closing


class TestSlowReaders:
    """A buffer is bounded; what does not fit is counted, and the count stands where it would have stood."""

    @staticmethod
    def pairs(rig: Rig, number: int) -> None:
        """So many grants, and as many releases."""
        for _ in range(number):
            rig.driver.release((rig.granted(*DB).lease,))

    async def test_the_newest_are_missed(self, rig: Rig) -> None:
        """What was kept comes first, then how many were not, then what comes after that was read."""
        reader = rig.chronicle.read(buffer=4)
        self.pairs(rig, 5)
        first = await reader.read()
        self.pairs(rig, 1)

        assert whats(first) == [What.WATCHING, What.GRANTED, What.RELEASED, What.GRANTED, What.MISSED]
        assert first is not None
        assert first[-1].missed == 7
        assert whats(await reader.read()) == [What.GRANTED, What.RELEASED]

    async def test_what_is_not_wanted_is_not_missed(self, rig: Rig) -> None:
        """And takes no room."""
        reader = rig.chronicle.read(Wanted(what=frozenset(["expired"])), buffer=1)
        self.pairs(rig, 50)
        assert whats(await reader.read()) == [What.WATCHING]

    async def test_a_flood_is_bounded_and_nothing_is_lost_from_the_count(self, rig: Rig) -> None:
        """What was read and what was missed add up to all that happened, for a quick reader beside a slow one."""
        slow, quick = rig.chronicle.read(), rig.chronicle.read()
        seen = 0
        for _ in range(50):
            self.pairs(rig, 200)
            seen += len(await quick.read() or ())
        read = await slow.read()

        assert seen == 1 + 20_000
        assert read is not None
        assert len(read) == BUFFER + 1
        assert BUFFER + read[-1].missed == 1 + 20_000

    async def test_one_step_that_is_too_much(self, rig: Rig) -> None:
        """Of it the first fit."""
        driver = rig.driver
        leases = tuple(rig.granted(Claim("workers", 1)).lease for _ in range(2))
        reader = rig.chronicle.read(buffer=2)
        driver.release(leases)
        read = await reader.read()
        assert read is not None
        assert [(entry.what, entry.missed) for entry in read] == [
            (What.WATCHING, 0),
            (What.RELEASED, 0),
            (What.MISSED, 1),
        ]


def test_a_reader_stands_alone() -> None:
    """What is told to him before he reads at all is there, and he has to be told in no loop."""
    reader = Reader(Wanted(), 2, lambda: 5 * MILLISECOND)
    reader.tell([Entry(1, What.GRANTED)] * 3)
    assert asyncio.run(reader.read()) == [Entry(1, What.GRANTED)] * 2 + [Entry(5 * MILLISECOND, What.MISSED, missed=1)]
