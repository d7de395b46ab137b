"""The journal: what is on record when somebody is told, and what becomes of it when the disk fails."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from governor import changes, journal
from governor.core.effects import Granted, Steered, SteerProblem, SteerRefused
from governor.core.engine import Engine
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import Override, ResourceSpec
from governor.core.types import SECOND, Claim, LeaseId, Nanos, Outcome, Reason, Standing
from governor.driver import Driver
from governor.durability import Durability, OnStoreError
from governor.journal import BLOCK, HIGHEST, Journal
from governor.process import boot
from governor.restart import Restarted, go_on
from governor.store import Batch, Store, Stored, StoreError
from governor.testing.clock import FakeClock

LEASE: Nanos = 10 * SECOND
GRACE: Nanos = 5 * SECOND
HOUR: Nanos = 3600 * SECOND


def spec(name: str, limit: LimitSpec) -> ResourceSpec:
    """With the lengths of these tests."""
    return ResourceSpec(name, limit, LEASE, 100 * LEASE, 2 * SECOND, 60 * SECOND, 100)


SPECS = (
    spec("one", SemaphoreSpec(1)),
    spec("many", SemaphoreSpec(None)),
    spec("db", PoolSpec((MemberSpec("a"), MemberSpec("b")), quarantine=HOUR, max_quarantine=HOUR)),
    spec("api", RateLimitSpec((Window(2, HOUR, 2),))),
)


class FailsWhenTold:
    """A transaction that has begun, and fails."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.told = threading.Event()


class Failing(Store):
    """A store whose disk can be full."""

    full = False
    writes = 0
    # What the disk waits for, if anything, before it has moved the log into the file.
    slow: threading.Event | None = None
    # What a transaction waits for, if anything, and whether one does.
    writing: threading.Event | None = None
    at_it = False
    # Whether the disk is only too full to write to; how often that was tried.
    reopens = False
    tries = 0
    failing: "FailsWhenTold | None" = None
    # How large the disk is, in bytes, if it is a small one.
    size: int | None = None

    def fails_when_told(self) -> "FailsWhenTold":
        """The next transaction, and all after it."""
        self.failing = FailsWhenTold()
        return self.failing

    def write(self, batch: Batch) -> None:
        """As the real one, if there is room, and when it is let."""
        if self.writing is not None:
            self.at_it = True
            assert self.writing.wait(10)
        self.tries += 1
        if self.failing is not None:
            self.failing.reached.set()
            self.full = self.failing.told.wait(10)
        if self.full or not self.room():
            raise StoreError("the disk is full")
        self.writes += 1
        super().write(batch)

    def room(self) -> int:
        """What the log has left of a small disk."""
        return super().room() if self.size is None else max(0, self.size - self.log_bytes())

    def flush(self) -> None:
        """As the real one, when it is let."""
        assert self.slow is None or self.slow.wait(10)
        super().flush()

    def reopen(self) -> None:
        """As the real one, which begins by closing, if there is room."""
        if self.full and not self.reopens:
            self.close()
            raise StoreError("the disk is full")
        super().reopen()


class Rig:
    """One run of a daemon, as far as it concerns the state. ``boot``: of the machine that it is on."""

    boot = "another"

    def __init__(self, folder: Path, clock: FakeClock, durability: Durability, on_error: OnStoreError) -> None:
        self.clock = clock
        self.store = Failing(folder, flush=durability is Durability.POWER)
        stored = self.store.load()
        self.driver = Driver(Engine(first_id=stored.reserved + 1), clock)
        self.journal = Journal(self.driver, self.store, clock, durability, on_error)
        self.journal.begin(stored, stored.reserved)
        self.restarted: Restarted = go_on(self.driver, stored, SPECS, GRACE, clock.time, self.boot)
        self.store.restart(self.restarted.stamp, clock.time, GRACE, self.restarted.resources_by)

    def ask(self, name: str, request_id: str = "") -> Granted | Reason | None:
        """Without waiting."""
        answer = self.driver.ask((Claim(name, 1),), client="me", wait=0, request_id=request_id)
        if isinstance(answer, Granted):
            return answer
        return None if not hasattr(answer, "denial") else answer.denial.reason

    def take(self, name: str, request_id: str = "") -> LeaseId:
        """A lease."""
        answer = self.ask(name, request_id)
        assert isinstance(answer, Granted)
        return answer.lease

    async def commit(self) -> bool:
        """What whoever answers waits for."""
        done = self.driver.commit()
        return done if isinstance(done, bool) else await done

    def on_record(self) -> Stored:
        """What the next start would find."""
        return self.store.load()

    def ids(self) -> list[int]:
        """Which leases are on record."""
        return [row.held.id for row in self.on_record().leases]


class Runs:
    """One daemon after the other, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.clock.advance(1000 * SECOND)
        self._stack = contextlib.AsyncExitStack()
        self.last: Rig | None = None

    async def start(
        self, durability: Durability = Durability.PROCESS, on_error: OnStoreError = OnStoreError.REFUSE
    ) -> Rig:
        """The next one; the one before it is as good as killed."""
        await self.kill()
        rig = Rig(self.folder, self.clock, durability, on_error)
        self.last = rig
        rig.driver.reserve_ids(await rig.journal.reserve())
        await rig.commit()
        return rig

    async def kill(self) -> None:
        """The last word of the one that runs is not heard."""
        if self.last is not None:
            self.last.driver.close()
            self.last.store.full = True
            self.last.journal.broken = "killed"
            await self.last.journal.close()
            self.last = None


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    """Of daemons."""
    runs = Runs(tmp_path)
    yield runs
    await runs.kill()


@pytest.mark.parametrize("durability", [Durability.PROCESS, Durability.POWER])
async def test_a_grant_and_an_end_are_on_record_when_they_are_told(runs: Runs, durability: Durability) -> None:
    """Whichever way."""
    rig = await runs.start(durability)
    lease = rig.take("one")
    assert await rig.commit()
    assert rig.ids() == [lease]

    rig.driver.release((lease,))
    assert await rig.commit()
    assert rig.ids() == []


async def test_what_nobody_is_told_of_is_on_record_in_the_same_turn(runs: Runs) -> None:
    """Such as an expiry."""
    rig = await runs.start()
    rig.take("one")
    await rig.commit()
    rig.clock.advance(LEASE)
    await asyncio.sleep(0)

    assert rig.ids() == []


async def test_what_gathers_is_written_together(runs: Runs) -> None:
    """While somebody is about to commit for many, the end of a turn does not."""
    rig = await runs.start()
    before = rig.store.writes
    rig.driver.gathering = True
    for _ in range(5):
        rig.take("many")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert (rig.store.writes, rig.ids()) == (before, [])

    rig.driver.gathering = False
    await rig.commit()

    assert (rig.store.writes, len(rig.ids())) == (before + 1, 5)


async def test_what_came_and_went_in_between_costs_nothing(runs: Runs) -> None:
    """Not even a transaction is worth mentioning."""
    rig = await runs.start()
    before = rig.store.total_changes
    for _ in range(10):
        rig.driver.release((rig.take("one"),))
    assert await rig.commit()

    assert rig.store.total_changes == before


@pytest.mark.parametrize("durability", [Durability.PROCESS, Durability.POWER])
async def test_a_renewal_is_on_record_when_it_is_told(runs: Runs, durability: Durability) -> None:
    """Any number of them in one transaction: whoever is told relies on the new deadline, so no daemon forgets it."""
    rig = await runs.start(durability)
    leases = [rig.take("many") for _ in range(5)]
    await rig.commit()
    rig.clock.advance(2 * SECOND)
    writes = rig.store.writes

    rig.driver.renew((leases[0], leases[1], leases[4]))
    rig.driver.renew((leases[2],), 3 * LEASE)
    assert await rig.commit()

    now = 1002 * SECOND
    assert [row.held.deadline for row in rig.on_record().leases] == [
        now + LEASE,
        now + LEASE,
        now + 3 * LEASE,
        now - 2 * SECOND + LEASE,
        now + LEASE,
    ]
    assert rig.store.writes == writes + 1


async def test_a_renewal_outlives_a_daemon_that_dies_at_once(runs: Runs) -> None:
    """The holder believes in its new deadline, so nobody else gets the permit before that."""
    rig = await runs.start()
    lease = rig.take("one")
    await rig.commit()
    rig.clock.advance(LEASE - SECOND // 2)
    rig.driver.renew((lease,))
    told = rig.clock.time + LEASE
    await rig.commit()

    again = await runs.start()

    held = again.driver.held(lease)
    assert held is not None
    assert held.deadline >= told


async def test_what_may_be_forgotten_waits_for_the_heartbeat(runs: Runs) -> None:
    """Such as that a holder is gone: one that is not on record only lives longer. With it comes a sign of life."""
    rig = await runs.start()
    lease = rig.take("one")
    await rig.commit()
    rig.clock.advance(2 * SECOND)
    writes = rig.store.writes
    rig.driver.disconnect((lease,))
    assert await rig.commit()
    assert rig.store.writes == writes

    rig.clock.advance(SECOND // 2)

    stored = rig.on_record()
    assert stored.leases[0].held.orphaned
    assert stored.leases[0].held.deadline == 1000 * SECOND + 4 * SECOND
    assert stored.stamp == 1000 * SECOND + 2250 * SECOND // 1000


async def test_files_that_are_gone_are_missed_before_anybody_is_told_of_a_grant(runs: Runs) -> None:
    """Also when nothing was lent, so that there was no heartbeat for hours."""
    rig = await runs.start()
    rig.clock.advance(3600 * SECOND)
    rig.store.path.rename(rig.store.path.with_suffix(".away"))

    rig.ask("one")

    assert not await rig.commit()
    assert rig.driver.live_leases == 0
    assert "is gone" in rig.journal.broken


async def test_a_restart_brings_everything_back(runs: Runs) -> None:
    """Leases with what is left of them, request ids of the living and the ended, what is spent, who is quarantined."""
    rig = await runs.start()
    one = rig.take("one", "r1")
    ended = rig.take("many", "r2")
    await rig.commit()
    spent = rig.take("api", "r3")
    broken = rig.take("db")
    rig.driver.release((ended,))
    rig.driver.release((broken,), Outcome.BROKEN)
    await rig.commit()

    await runs.kill()
    runs.clock.advance(HOUR // 2)
    again = await runs.start()

    held = again.driver.held(one)
    assert held is not None
    assert held.deadline == again.clock.time + LEASE + GRACE
    repeated = again.ask("one", "r1")
    assert isinstance(repeated, Granted)
    assert (repeated.lease, repeated.repeated) == (one, True)
    assert again.ask("many", "r2") is Reason.LEASE_ENDED
    assert again.take("api", "r3") == spent
    assert again.take("many") > BLOCK
    db = again.driver.snapshot().resources[2]
    assert db.members is not None
    assert (db.members.free, db.members.quarantined) == (1, 1)


async def test_what_is_spent_of_a_limit_outlives_others_of_its_name(runs: Runs) -> None:
    """A semaphore that has it next, a restart, the lease that was lent of that one, and once more a restart."""
    rig = await runs.start()
    rig.take("api")
    kept = tuple([each for each in SPECS if each.name != "api"])
    rig.driver.reconfigure((*kept, spec("api", SemaphoreSpec(1))))
    lease = rig.take("api")
    await rig.commit()
    for _ in range(2):
        stored = rig.on_record()
        assert [each.spec for each in stored.fading] == [SPECS[3]]
        # It is lent as a semaphore, so that is what it is for the time being.
        rig = await runs.start()
        assert [name.partition(":")[0] for name in rig.restarted.kept] == ["api"]

    rig.driver.reconfigure(kept)
    rig.driver.release((lease,))
    await rig.commit()
    rig = await runs.start()

    assert rig.on_record().fading == []
    assert rig.driver.snapshot().resources[3].available == 1


async def test_a_refund_to_a_limit_that_is_gone_is_on_record(runs: Runs) -> None:
    """Also while another has its name: the answer did not arrive, so it was not spent."""
    rig = await runs.start()
    answers = [rig.ask("api") for _ in range(2)]
    kept = tuple([each for each in SPECS if each.name != "api"])
    rig.driver.reconfigure((*kept, spec("api", SemaphoreSpec(1))))
    await rig.commit()
    assert isinstance(answers[0], Granted)
    rig.driver.abandon(answers[0].ticket)
    await rig.commit()

    assert (await runs.start()).driver.snapshot().resources[3].available == 1


async def test_what_operators_say_is_on_record_when_they_are_told(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """And holds for the next daemon; an override ends when it would have, or with the start if that is over by then."""
    monkeypatch.setattr(Rig, "boot", boot())
    rig = await runs.start()
    lease, driver = rig.take("db"), rig.driver
    limit = SemaphoreSpec(5)
    driver.set_standing("api", Standing.DRAINING)
    driver.set_override("one", limit, 100 * SECOND)
    driver.set_override("many", limit, 10 * SECOND)
    driver.recycle("db", "a")
    driver.quarantine("db", "b")
    assert await rig.commit()
    until = rig.clock.time + 100 * SECOND
    kept = {each.spec.name: (each.standing, each.override) for each in rig.on_record().resources}
    assert kept["api"] == (Standing.DRAINING, None)
    assert kept["one"] == (Standing.OPEN, Override(limit, until))

    rig.clock.time += 60 * SECOND
    rig = await runs.start()

    shown = {each.name: each for each in rig.driver.snapshot().resources}
    assert shown["api"].standing is Standing.DRAINING
    assert shown["one"].override == Override(limit, until)
    assert (shown["many"].override, shown["many"].capacity) == (None, None)
    assert [(m.id, m.until, m.by_operator) for m in rig.driver.members("db")] == [("a", None, False), ("b", None, True)]
    assert rig.ask("api") is Reason.DRAINING
    rig.driver.release((lease,))
    granted = rig.ask("db")
    assert isinstance(granted, Granted)
    assert granted.grants[0].members[0].generation == 2

    rig.clock.advance(40 * SECOND)
    await asyncio.sleep(0)
    stored = {each.spec.name: each for each in rig.on_record().resources}
    assert stored["one"].override is None


async def test_while_the_machine_was_off_no_override_went_on(runs: Runs) -> None:
    """Nobody knows for how long that was."""
    rig = await runs.start()
    rig.driver.set_override("one", SemaphoreSpec(5), 10 * SECOND)
    assert await rig.commit()
    rig.clock.time += 60 * SECOND

    rig = await runs.start()

    assert rig.driver.snapshot().resources[0].override == Override(SemaphoreSpec(5), rig.clock.time + 10 * SECOND)


async def test_what_was_said_twice_is_written_once_more_and_is_the_same(runs: Runs) -> None:
    """Nothing is lost by it."""
    rig = await runs.start()
    assert rig.driver.set_standing("one", Standing.PAUSED) == Steered("one", changed=True)
    assert rig.driver.set_standing("one", Standing.PAUSED) == Steered("one", changed=False)
    assert rig.driver.set_override("db", SemaphoreSpec(1), SECOND) == SteerRefused("db", SteerProblem.POOL)
    assert await rig.commit()

    assert {each.spec.name: each.standing for each in rig.on_record().resources} == {
        "one": Standing.PAUSED,
        "many": Standing.OPEN,
        "db": Standing.OPEN,
        "api": Standing.OPEN,
    }


async def test_an_order_that_cannot_be_written_is_written_later(runs: Runs) -> None:
    """It is obeyed meanwhile."""
    rig = await runs.start()
    rig.store.full = True
    rig.driver.set_standing("one", Standing.PAUSED)
    assert not await rig.commit()
    assert rig.driver.snapshot().resources[0].standing is Standing.PAUSED

    rig.store.full = False
    await until(lambda: not rig.journal.broken)

    assert rig.on_record().resources[0].standing is Standing.PAUSED


async def test_a_dead_holder_loses_its_permit_however_often_the_daemon_dies(runs: Runs) -> None:
    """One grace, then its time runs whenever there is a daemon."""
    rig = await runs.start()
    rig.take("one")
    await rig.commit()
    for _ in range(100):
        runs.clock.advance(LEASE // 2)
        rig = await runs.start()
        runs.clock.advance(LEASE // 20)
        if not rig.driver.live_leases:
            break

    assert rig.driver.live_leases == 0


async def test_a_start_that_is_cut_off_leaves_instants_of_one_clock(runs: Runs) -> None:
    """After the machine was started anew, whose clock is behind then: nothing must seem to be of the future."""
    rig = await runs.start()
    lease = rig.take("one")
    rig.take("api")
    await rig.commit()
    await runs.kill()
    runs.clock = FakeClock()
    runs.last = Rig(runs.folder, runs.clock, Durability.PROCESS, OnStoreError.REFUSE)
    await runs.kill()

    again = await runs.start()

    held = again.driver.held(lease)
    assert held is not None
    assert held.deadline == again.clock.time + LEASE + GRACE


async def test_whoever_renews_has_a_grace_each_time(runs: Runs) -> None:
    """Its holder lives, so it needs the time to come back."""
    rig = await runs.start()
    lease = rig.take("one")
    await rig.commit()
    for _ in range(5):
        rig = await runs.start()
        assert rig.restarted.graced == 1
        rig.driver.renew((lease,))
        assert await rig.commit()

    rig = await runs.start()
    rig = await runs.start()
    assert (rig.restarted.leases, rig.restarted.graced) == (1, 0)


@pytest.mark.parametrize("size", [150_000, 500_000])
async def test_the_log_never_takes_all_the_room_there_is(runs: Runs, size: int) -> None:
    """On a small disk it is moved into the file sooner: one that cannot grow any more would keep its log for ever."""
    rig = await runs.start()
    rig.store.size = size
    longest = 0
    for _ in range(500):
        lease = rig.take("many")
        assert await rig.commit()
        rig.driver.release((lease,))
        assert await rig.commit()
        longest = max(longest, rig.store.log_bytes())
        await asyncio.sleep(0)

    assert longest < 3 * size // 4


async def test_none_remembers_ids_alone(runs: Runs) -> None:
    """Also what a daemon before it had written is forgotten after this one."""
    rig = await runs.start()
    first = rig.take("one")
    await rig.commit()
    rig = await runs.start(Durability.NONE)
    second = rig.take("many")
    assert await rig.commit()

    assert second > first
    assert rig.on_record().reserved >= second


async def test_ids_do_not_rise_for_ever(runs: Runs) -> None:
    """After the last block that fits there is none."""
    rig = await runs.start()
    rig.journal.reserved = HIGHEST - 1
    with pytest.raises(StoreError, match="used up"):
        await rig.journal.reserve()


class TestFailure:
    """The disk is full for a while."""

    async def test_nothing_is_granted_that_is_not_on_record(self, runs: Runs) -> None:
        """What was granted in the meantime is taken back, and nothing is granted any more, until it works again."""
        rig = await runs.start()
        held = rig.take("many")
        await rig.commit()
        changes: list[str] = []
        rig.journal.changed = lambda: changes.append(rig.journal.broken)
        rig.store.full = True

        rig.take("one")
        rig.take("api")
        assert not await rig.commit()
        assert rig.ask("many") is Reason.STATE_UNWRITABLE
        assert rig.driver.live_leases == 1
        assert rig.driver.snapshot().resources[3].available == 2

        rig.driver.renew((held,))
        rig.driver.release((held,))
        assert not await rig.commit()
        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert rig.ids() == []
        assert changes == ["the disk is full", ""]
        lease = rig.take("one")
        assert await rig.commit()
        assert rig.ids() == [lease]

    @pytest.mark.parametrize("durability", [Durability.PROCESS, Durability.POWER])
    @pytest.mark.parametrize("name", ["one", "api"])
    async def test_who_repeats_an_ask_is_told_no_more_than_who_asked(
        self, runs: Runs, name: str, durability: Durability
    ) -> None:
        """Also while the transaction is under way that fails then: what is not on record is nobody's."""
        rig = await runs.start(durability)
        disk = rig.store.fails_when_told()
        rig.take(name, "r1")
        # In a thread, with `power`; otherwise both are in one transaction.
        first = rig.driver.commit() if durability is Durability.POWER else None
        if first is not None:
            await asyncio.to_thread(disk.reached.wait, 10)
        again = rig.ask(name, "r1")
        assert isinstance(again, Granted)
        assert again.repeated
        second = rig.driver.commit() if first is not None else None
        disk.told.set()
        for done in (first, second) if first is not None else (rig.driver.commit(),):
            assert not (done if isinstance(done, bool) or done is None else await done)

        assert rig.driver.held(again.lease) is None
        assert rig.driver.past(again.lease) is None
        assert [each.available for each in rig.driver.snapshot().resources if each.name == name] == [
            1 if name == "one" else 2
        ]

    async def test_who_repeats_an_ask_that_is_on_record_keeps_the_lease(self, runs: Runs) -> None:
        """Whatever fails afterwards: somebody may have the answer already."""
        rig = await runs.start()
        lease = rig.take("one", "r1")
        assert await rig.commit()
        rig.store.full = True
        assert rig.take("one", "r1") == lease
        rig.take("many")

        assert not await rig.commit()

        assert rig.driver.held(lease) is not None

    async def test_whoever_waits_is_granted_when_it_works_again(self, runs: Runs) -> None:
        """And not before."""
        rig = await runs.start()
        lease = rig.take("one")
        await rig.commit()
        answer = asyncio.ensure_future(_waiting(rig))
        await asyncio.sleep(0)
        rig.store.full = True
        rig.take("many")
        assert not await rig.commit()
        rig.driver.release((lease,))
        await asyncio.sleep(0)
        assert not answer.done()

        rig.store.full = False
        granted = await answer
        assert await rig.commit()
        assert rig.ids() == [granted.lease]

    async def test_ended_leases_that_could_not_be_written_are_counted_once(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However often it is tried: the file has as many as are remembered, the latest, and loses none of them."""
        monkeypatch.setattr(changes, "REMEMBERED", 3)
        rig = await runs.start()

        async def end(request_id: str) -> None:
            lease = rig.take("many", request_id)
            assert await rig.commit()
            rig.store.full = request_id == "d"
            rig.driver.release((lease,))
            await rig.commit()

        for request_id in "abcd":
            await end(request_id)
        failures: list[int] = []
        rig.journal.failed = lambda: failures.append(1)
        await until(lambda: len(failures) == 2)
        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert [past.request_id for past in rig.on_record().past] == ["b", "c", "d"]

        for request_id in "ef":
            await end(request_id)
        assert [past.request_id for past in rig.on_record().past] == ["d", "e", "f"]

    async def test_what_was_spent_meanwhile_is_not_kept_without_end(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where it goes on: of no more than is remembered anyway, the latest, so that an outage may last."""
        monkeypatch.setattr(changes, "REMEMBERED", 1)
        rig = await runs.start(on_error=OnStoreError.CONTINUE)
        rig.store.full = True
        rig.take("api", "r1")
        latest = rig.take("api", "r2")
        assert await rig.commit()
        _, taken = rig.journal._changes.take(beat=True)

        assert taken.spent == [latest]
        rig.journal._changes.give_back(taken)
        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert [past.id for past in rig.on_record().past] == [latest]

    async def test_what_came_and_went_meanwhile_is_not_kept_without_end(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where it goes on: each attempt to write has leases in it that are no more by the next one."""
        monkeypatch.setattr(journal, "_RETRY_S", (0.0,))
        rig = await runs.start(on_error=OnStoreError.CONTINUE)
        gone, kept = rig.take("many"), rig.take("one")
        assert await rig.commit()
        rig.store.full = True
        rig.driver.release((gone,))
        assert await rig.commit()
        rig.store.reopens = True
        for number in range(20):
            lease = rig.take("many", "r" if number == 7 else "")
            rig.driver.renew((lease, kept))
            tries = rig.store.tries
            await until(lambda tries=tries: rig.store.tries > tries + 1)  # type: ignore[misc]
            rig.driver.release((lease,))
        tries = rig.store.tries
        await until(lambda: rig.store.tries > tries + 1)

        assert len(rig.journal._changes._dirty) <= 2
        assert rig.journal._changes._moved <= {kept}
        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert rig.ids() == [kept]
        assert [past.request_id for past in rig.on_record().past] == ["r"]

    async def test_nor_is_it_while_the_file_cannot_even_be_opened(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where it goes on for hours: what is kept is less than what an attempt to write would have."""
        monkeypatch.setattr(journal, "_RETRY_S", (0.0,))
        monkeypatch.setattr(changes, "REMEMBERED", 1)
        rig = await runs.start(on_error=OnStoreError.CONTINUE)
        kept = rig.take("one")
        assert await rig.commit()
        failures: list[int] = []
        rig.journal.failed = lambda: failures.append(1)
        rig.store.full = True
        rig.take("api", "r1")
        rig.take("api", "r2")
        for _ in range(20):
            lease = rig.take("many")
            rig.driver.renew((lease, kept))
            assert await rig.commit()
            rig.driver.release((lease,))
        tried = len(failures)
        await until(lambda: len(failures) > tried + 1)

        waiting = rig.journal._changes
        assert (waiting._tickets, len(waiting._spent), waiting._moved) == ([], 1, {kept})
        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert rig.ids() == [kept]
        assert [past.request_id for past in rig.on_record().past] == ["r2"]

    @pytest.mark.parametrize("name", ["one", "api"])
    async def test_a_grant_that_is_repeated_while_it_is_written_is_taken_back_too(self, runs: Runs, name: str) -> None:
        """Whoever repeats it would otherwise be told of a grant that no restart knows of."""
        rig = await runs.start(Durability.POWER)
        rig.store.full = True
        rig.store.writing = threading.Event()
        rig.take(name, "r")
        first = asyncio.ensure_future(rig.commit())
        await until(lambda: rig.store.at_it)
        rig.take(name, "r")
        second = asyncio.ensure_future(rig.commit())
        await asyncio.sleep(0)
        rig.store.writing.set()

        assert (await first, await second) == (False, False)
        resources = {resource.name: resource for resource in rig.driver.snapshot().resources}
        assert rig.driver.live_leases == 0
        assert (resources["one"].available, resources["api"].available) == (1, 2)

    async def test_a_grant_that_is_on_record_is_not_taken_back(self, runs: Runs) -> None:
        """Its holder has the answer: to repeat it while nothing can be written takes nothing away."""
        rig = await runs.start(Durability.POWER)
        lease = rig.take("one", "r")
        assert await rig.commit()
        rig.store.full = True
        assert rig.take("one", "r") == lease
        assert not await rig.commit()

        assert rig.driver.held(lease) is not None

    async def test_the_end_tries_once_more(self, runs: Runs) -> None:
        """What was given back while nothing could be written is given back for the next daemon as well."""
        rig = await runs.start()
        lease = rig.take("one")
        assert await rig.commit()
        rig.store.full = True
        rig.driver.release((lease,))
        await rig.commit()
        assert rig.journal.broken

        rig.store.full = False
        rig.driver.close()
        await rig.journal.close()
        runs.last = None

        assert (await runs.start()).ids() == []

    async def test_or_it_goes_on(self, runs: Runs) -> None:
        """If the operator would rather have that; with the disk back, all of it is on record."""
        rig = await runs.start(on_error=OnStoreError.CONTINUE)
        rig.store.full = True
        lease = rig.take("one")
        assert await rig.commit()
        assert rig.journal.broken
        other = rig.take("many")
        assert await rig.commit()

        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert rig.ids() == [lease, other]

    async def test_no_ids_are_given_out_that_are_not_on_record(self, runs: Runs) -> None:
        """It is an error like any other."""
        rig = await runs.start()
        rig.store.full = True
        with pytest.raises(StoreError):
            await rig.journal.reserve()
        assert rig.journal.reserved == BLOCK

        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert await rig.journal.reserve() > BLOCK

    async def test_power_takes_back_as_well(self, runs: Runs) -> None:
        """Where the transaction runs makes no difference."""
        rig = await runs.start(Durability.POWER)
        rig.store.full = True
        rig.take("one")
        assert not await rig.commit()

        assert rig.driver.live_leases == 0
        rig.store.full = False
        await until(lambda: not rig.journal.broken)
        assert rig.ids() == []


async def _waiting(rig: Rig) -> Granted:
    answer = rig.driver.ask((Claim("one", 1),))
    granted = await rig.driver.answer(answer.ticket)
    assert isinstance(granted, Granted)
    return granted


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again, for a bounded time."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is a retry of its own that is waited for
            await asyncio.sleep(0.01)


async def test_the_log_does_not_grow_faster_than_the_disk_can_take_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a bound whoever would write waits for the disk; then all of it is on record, and the log begins anew."""
    monkeypatch.setattr(journal, "_LOG_BYTES", 300_000)
    monkeypatch.setattr(journal, "_LOG_MORE", 200_000)
    rig = await runs.start()
    rig.store.slow = threading.Event()
    leases: list[LeaseId] = []

    done: bool | Awaitable[bool] = True
    while done is True and len(leases) < 1000:
        leases.append(rig.take("many"))
        done = rig.driver.commit()

    assert not isinstance(done, bool)
    assert 500_000 < rig.store.log_bytes() < 700_000
    assert rig.ids() == leases[:-1]
    rig.store.slow.set()
    assert await done
    assert rig.ids() == leases
    assert rig.store.log_bytes() < 100_000


async def test_a_log_that_is_moved_when_the_disk_fails_is_not_called_damaged(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is wrong with the file: it has just been closed, to begin with it anew."""
    monkeypatch.setattr(journal, "_LOG_BYTES", 100_000)
    monkeypatch.setattr(journal, "_RETRY_S", (0.0,))
    rig = await runs.start()
    rig.store.slow = threading.Event()
    while not rig.journal._folding:
        rig.take("many")
        assert await rig.commit()
    await asyncio.sleep(0)
    rig.store.full = True
    failures: list[int] = []
    rig.journal.failed = lambda: failures.append(1)
    rig.take("many")
    assert not await rig.commit()
    await until(lambda: rig.journal._thread._work_queue.qsize() > 0)
    rig.store.slow.set()
    await until(lambda: len(failures) > 2 and not rig.journal._folding)

    assert {record.message for record in caplog.records} == {"the disk is full; until then, nothing is granted"}
