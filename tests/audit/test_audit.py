"""The audit trail: what is written, who waits for it, and what becomes of lines that do not fit."""

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from governor.audit import Audit
from governor.audit.file import AuditFile
from governor.auditing import AuditEvents, Auditing, AuditPolicy
from governor.chronicle import Chronicle, What
from governor.core.effects import Denied, Granted, Queued
from governor.core.engine import Engine
from governor.core.types import SECOND, Claim, LeaseId, Reason
from governor.driver import Driver
from governor.testing.clock import FakeClock
from tests.core.declared import rate_limit, semaphore

WALL = 1_700_000_000 * SECOND
DB = (Claim("db", 1),)


class Rig:
    """A driver, its audit trail, and somebody who reads it."""

    def __init__(self, asked: Auditing, max_bytes: int) -> None:
        self.asked = asked
        self.clock = FakeClock()
        self.driver = Driver(Engine(), self.clock)
        self.driver.reserve_ids(LeaseId(1_000_000))
        self.driver.reconfigure((semaphore("db", None),))
        self.committed = 0
        self.good = True
        self.driver.commit = self._commit
        self.chronicle = Chronicle(self.driver, self.now)
        self.dropped: list[int] = []
        self.failed = 0
        self.audit = Audit(asked, self.now, dropped=self.dropped.append, failed=self._fail, max_bytes=max_bytes)
        self.audit.begin(self.chronicle, self.driver)

    def now(self) -> int:
        """The wall clock."""
        return WALL + self.clock.time

    def _commit(self) -> bool:
        self.committed += 1
        return self.good

    def _fail(self) -> None:
        self.failed += 1

    def grant(self) -> LeaseId:
        """A lease."""
        answer = self.driver.ask(DB, client="web")
        assert isinstance(answer, Granted)
        return answer.lease

    def wait_in_line(self) -> list[object]:
        """Whoever asks for one more; what it is answered, when it is."""
        queued = self.driver.ask(DB)
        assert isinstance(queued, Queued)
        answers: list[object] = []
        self.driver.tell(queued.ticket, answers.append)
        return answers

    def pairs(self, number: int) -> None:
        """So many grants, and as many releases."""
        for _ in range(number):
            self.driver.release((self.grant(),))

    async def told(self) -> bool:
        """What whoever is about to tell somebody waits for, and whether it went well."""
        done = self.driver.commit()
        return done if isinstance(done, bool) else await done

    def lines(self) -> list[dict[str, Any]]:
        """What is in the file."""
        return [json.loads(text) for text in self.asked.file.read_text().splitlines()]

    def whats(self) -> list[str]:
        """What happened by it."""
        return [said["what"] for said in self.lines()]


Make = Callable[..., Rig]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes rigs whose trail is closed at the end."""
    rigs: list[Rig] = []

    def make(
        policy: AuditPolicy = AuditPolicy.DROP,
        events: AuditEvents = AuditEvents.LEASES,
        *,
        pipe: bool = False,
        max_bytes: int = 2**24,
    ) -> Rig:
        file = tmp_path / "audit"
        if pipe:
            os.mkfifo(file)
        rig = Rig(Auditing(file, policy, events), max_bytes)
        rigs.append(rig)
        return rig

    yield make
    for rig in rigs:
        await rig.audit.close()


async def until(condition: Callable[[], bool]) -> None:
    """What happens in the writer's thread has no event to wait for."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class Pipe:
    """The other end of a named pipe that is the audit file: while nobody reads it, whoever writes stands still."""

    def __init__(self, rig: Rig) -> None:
        self._fd = os.open(rig.asked.file, os.O_RDONLY | os.O_NONBLOCK)
        self._read = bytearray()

    def lines(self) -> list[dict[str, Any]]:
        """All that has come so far."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._fd, 2**16):
                self._read += chunk
        return [json.loads(text) for text in self._read.splitlines(keepends=True) if text.endswith(b"\n")]

    async def total(self, number: int) -> list[dict[str, Any]]:
        """Read on until so many have come or been counted as missed; those."""
        await until(lambda: counted(self.lines()) >= number)
        assert counted(self.lines()) == number
        return self.lines()

    def close(self) -> None:
        """Nobody reads any more."""
        os.close(self._fd)


def counted(lines: list[dict[str, Any]]) -> int:
    """Each stands for itself, or for as many as were missed."""
    return sum(said.get("missed", 1) for said in lines)


@pytest.fixture
def pipe(make: Make) -> Iterator[Callable[[Rig], Pipe]]:
    """Opens the other ends of pipes."""
    pipes: list[Pipe] = []

    def opened(rig: Rig) -> Pipe:
        pipes.append(Pipe(rig))
        return pipes[-1]

    yield opened
    for each in pipes:
        each.close()


class TestWhatIsWritten:
    """By what the config wants."""

    @pytest.mark.parametrize(
        ("events", "whats"),
        [
            (AuditEvents.OPERATORS, ["paused"]),
            (AuditEvents.LEASES, ["granted", "renewed", "paused", "quarantined", "released"]),
            (AuditEvents.ALL, ["granted", "renewed", "refused", "paused", "quarantined", "released"]),
        ],
    )
    async def test_it(self, make: Make, events: AuditEvents, whats: list[str]) -> None:
        """In the order in which it happened; what clients report as broken is not among what operators do."""
        rig = make(events=events)
        lease = rig.grant()
        rig.driver.renew((lease,))
        rig.driver.ask((Claim("nothing", 1),))
        rig.chronicle.act(What.PAUSED, ["db"])
        rig.chronicle.act(What.QUARANTINED, ["workers"], "w1 for 1s: it came back broken", client="web")
        rig.driver.release((lease,))
        await rig.audit.close()
        assert rig.whats() == whats

    @pytest.mark.parametrize("events", list(AuditEvents))
    async def test_what_a_client_may_not_do(self, make: Make, events: AuditEvents) -> None:
        """As leases are: how much of it there is clients say, so it makes no room among what operators do."""
        rig = make(events=events)
        for reason in (Reason.PERMISSION_DENIED, Reason.CLIENT_LIMIT, Reason.UNAUTHENTICATED):
            rig.chronicle.refused('or"ders\n', ("d\x1bb",), reason, "may not", (Claim("d\x1bb", 1),), 7)
        await rig.audit.close()
        lines = rig.lines()
        if events is AuditEvents.OPERATORS:
            assert lines == []
            return
        assert [line.pop("reason") for line in lines] == ["permission_denied", "client_limit", "unauthenticated"]
        assert {str(line) for line in lines} == {
            str(
                {
                    "time": "2023-11-14T22:13:20.000000Z",
                    "what": "refused",
                    "client": 'or"ders\n',
                    "resources": ["d\x1bb"],
                    "claims": [{"resource": "d\x1bb", "permits": 1}],
                    "detail": "may not",
                    "times": 7,
                }
            )
        }
        assert all(line.isprintable() for line in rig.asked.file.read_text().splitlines())

    async def test_operators_alone_cost_no_step_of_the_engine_anything(self, make: Make) -> None:
        """Nobody looks at what it does then."""
        assert make(events=AuditEvents.OPERATORS).driver.observers == []

    async def test_it_is_written_without_being_asked_for(self, make: Make) -> None:
        """Soon after the turn in which it happened."""
        rig = make()
        rig.pairs(3)
        await until(lambda: rig.whats() == ["granted", "released"] * 3)

    async def test_nobody_waits(self, make: Make) -> None:
        """Under `drop`."""
        rig = make()
        rig.grant()
        assert rig.driver.commit() is True


class TestDrop:
    """A file that stands still costs lines, and nothing else."""

    async def test_what_does_not_fit_is_counted(
        self, make: Make, pipe: Callable[[Rig], Pipe], caplog: pytest.LogCaptureFixture
    ) -> None:
        """In the place where it would have stood, and as it happens; that it began and ended is a line of the log."""
        rig = make(pipe=True, max_bytes=100_000)
        reader = pipe(rig)
        for _ in range(50):
            rig.pairs(100)
            await asyncio.sleep(0)
            assert rig.driver.commit() is True
        assert sum(rig.dropped) > 5_000
        lines = await reader.total(10_000)
        rig.pairs(1)
        after = await reader.total(10_002)

        # Wherever a part is missing, what is there goes on without a gap before and behind it.
        assert [said["what"] for said in after[-2:]] == ["granted", "released"]
        assert sum(said["missed"] for said in lines if said["what"] == "missed") == sum(rig.dropped)
        told = [record.getMessage() for record in caplog.records]
        file = rig.asked.file
        begun = [text for text in told if "takes lines too slowly: some are dropped, and counted" in text]
        over = [text for text in told if text.endswith(" lines were dropped: it took them too slowly")]
        assert len(begun) == len(over) == sum(said["what"] == "missed" for said in lines)
        assert all(text.startswith(f"audit file {file}: ") for text in told)
        assert len(told) < 10

    async def test_the_end_does_not_wait_for_ever(
        self, make: Make, pipe: Callable[[Rig], Pipe], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What could not be written by then is counted, and said."""
        monkeypatch.setattr("governor.audit.LAST_LINES_S", 0.05)
        rig = make(pipe=True)
        reader = pipe(rig)
        rig.pairs(1000)
        await rig.audit.close()
        told = caplog.records[-1].getMessage()

        assert told == f"audit file {rig.asked.file}: the last {sum(rig.dropped)} lines were not written"
        assert 1 < sum(rig.dropped) <= 2000
        await until(lambda: counted(reader.lines()) == 2000)  # so that the thread ends


class Failing:
    """`os.write` that fails while it is told to, with the errors that disks have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        self._write = os.write
        monkeypatch.setattr("governor.audit.file.os.write", self.write)
        monkeypatch.setattr("governor.audit.writer.RETRY_S", 0.001)

    def write(self, fd: int, data: bytes) -> int:
        """As `os.write`."""
        if self.error is not None:
            raise self.error
        return self._write(fd, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """A disk that works so far, and is tried again soon."""
    return Failing(monkeypatch)


FULL = OSError(28, "No space left on device")


class TestFull:
    """A file that cannot be written is said once, counted, and tried again."""

    async def test_it_recovers_with_all_lines(
        self, make: Make, disk: Failing, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nothing is lost that had room meanwhile."""
        caplog.set_level(logging.INFO, "governor")
        rig = make()
        disk.error = FULL
        rig.pairs(2)
        await until(lambda: rig.failed > 3)
        rig.pairs(1)
        disk.error = None
        await until(lambda: rig.whats() == ["granted", "released"] * 3)
        await until(lambda: len(caplog.records) > 1)

        file, meanwhile = rig.asked.file, "lines wait, and those that do not fit are dropped"
        assert [record.getMessage() for record in caplog.records] == [
            f"audit file {file}: cannot be written: No space left on device; until then, {meanwhile}",
            f"audit file {file}: can be written again",
        ]
        assert rig.dropped == []

    @pytest.mark.parametrize("policy", AuditPolicy)
    @pytest.mark.parametrize(
        ("error", "why"),
        [
            (RuntimeError("Symlink loop from\n'x'"), "RuntimeError: Symlink loop from 'x'"),
            (ValueError(), "ValueError:"),
            (MemoryError(), "MemoryError:"),
            (OSError("odd"), "OSError: odd"),
        ],
    )
    async def test_it_fails_in_a_way_that_nobody_foresaw(
        self,
        make: Make,
        disk: Failing,
        caplog: pytest.LogCaptureFixture,
        policy: AuditPolicy,
        error: Exception,
        why: str,
    ) -> None:
        """As any other: said in one line, counted, waited for by nobody, and over when its cause is gone."""
        caplog.set_level(logging.INFO, "governor")
        rig = make(policy)
        rig.pairs(1)
        assert await rig.told()
        disk.error = error
        rig.pairs(1)
        assert await rig.told() is (policy is AuditPolicy.DROP)
        await until(lambda: rig.failed > 2)
        assert (rig.audit.hindrance is None) is (policy is AuditPolicy.DROP)
        disk.error = None
        await until(lambda: rig.whats() == ["granted", "released"] * 2)
        await until(lambda: rig.audit.hindrance is None and len(caplog.records) > 1)

        said = [record.getMessage() for record in caplog.records]
        assert said[0].startswith(f"audit file {rig.asked.file}: cannot be written: {why}; until then, ")
        assert said[1:] == [f"audit file {rig.asked.file}: can be written again"]
        assert not any(record.exc_info for record in caplog.records)
        rig.pairs(1)
        assert await rig.told()
        assert rig.dropped == []

    async def test_it_is_full_for_long(self, make: Make, disk: Failing) -> None:
        """What has no room is counted, and stands in the file when there is room again."""
        rig = make(max_bytes=20_000)
        disk.error = FULL
        for _ in range(100):
            rig.pairs(10)
            await asyncio.sleep(0)
        disk.error = None
        await until(lambda: counted(rig.lines()) == 2000)
        assert sum(said.get("missed", 0) for said in rig.lines()) == sum(rig.dropped) > 1000

    async def test_it_is_full_to_the_end(self, make: Make, disk: Failing, caplog: pytest.LogCaptureFixture) -> None:
        """It is tried once more, and the end does not wait."""
        rig = make()
        disk.error = FULL
        rig.pairs(2)
        await until(lambda: rig.failed > 0)
        await rig.audit.close()
        assert caplog.records[-1].getMessage() == f"audit file {rig.asked.file}: the last 4 lines were not written"
        assert rig.dropped == [4]

    async def test_there_is_room_at_the_end(self, make: Make, disk: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
        """Then all is written."""
        monkeypatch.setattr("governor.audit.writer.RETRY_S", 20.0)
        rig = make()
        disk.error = FULL
        rig.pairs(2)
        await until(lambda: rig.failed > 0)
        disk.error = None
        await rig.audit.close()
        assert rig.whats() == ["granted", "released"] * 2


class TestBlock:
    """Nobody is told of anything whose line is not in the file."""

    async def test_whoever_is_told_waits_for_the_file(self, make: Make) -> None:
        """And for what was waited for before; the lines are there by then."""
        rig = make(AuditPolicy.BLOCK)
        for number in range(1, 20):
            rig.grant()
            assert await rig.told()
            assert rig.whats() == ["granted"] * number
        assert rig.committed == 19

    async def test_without_anything_to_write_nobody_waits(self, make: Make) -> None:
        """Not even a turn of the loop."""
        rig = make(AuditPolicy.BLOCK)
        assert rig.driver.commit() is True
        rig.grant()
        await rig.told()
        assert rig.driver.commit() is True

    async def test_what_cannot_be_put_on_record_is_so(self, make: Make) -> None:
        """Whatever the audit file says."""
        rig = make(AuditPolicy.BLOCK)
        rig.good = False
        rig.grant()
        assert await rig.told() is False

    async def test_a_file_that_stands_still_is_waited_for(self, make: Make, pipe: Callable[[Rig], Pipe]) -> None:
        """However long; when it goes on, all of them do. One who is cancelled takes nobody along."""
        rig = make(AuditPolicy.BLOCK, pipe=True)
        reader = pipe(rig)
        rig.grant()
        assert await rig.told()
        # More than a pipe holds; whether they are written at once or one by one is a matter of the threads.
        tasks = []
        for _ in range(999):
            rig.grant()
            tasks.append(asyncio.create_task(rig.told()))
            await asyncio.sleep(0)
        assert not tasks[-1].done()
        for task in tasks[-100::2]:
            task.cancel()
        await reader.total(1000)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in done if not isinstance(each, asyncio.CancelledError)] == [True] * 949

    async def test_who_waits_costs_nothing_however_many_come(self, make: Make, pipe: Callable[[Rig], Pipe]) -> None:
        """Callers that give up and come again leave nothing behind."""
        rig = make(AuditPolicy.BLOCK, pipe=True)
        reader = pipe(rig)
        for _ in range(2000):
            rig.grant()
            task = asyncio.create_task(rig.told())
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert len(rig.audit._waiting) <= 2
        await reader.total(2000)

    @staticmethod
    async def fill(rig: Rig) -> int:
        """Grant leases until nothing is granted any more; how many there were."""
        for number in range(5_000):
            if rig.audit.hindrance:
                return number
            rig.grant()
            await asyncio.sleep(0)
        pytest.fail("it granted on and on")

    async def test_too_many_lines_stop_the_granting(self, make: Make, pipe: Callable[[Rig], Pipe]) -> None:
        """Whoever asks is refused; once there is room all goes on, and no line is lost."""
        rig = make(AuditPolicy.BLOCK, pipe=True, max_bytes=200_000)
        reader = pipe(rig)
        lease = rig.grant()
        number = await self.fill(rig) + 1
        denied = rig.driver.ask(DB)
        assert isinstance(denied, Denied)
        assert denied.denial.reason is Reason.STATE_UNWRITABLE
        rig.driver.release((lease,))
        told = asyncio.create_task(rig.told())
        lines = await reader.total(number + 1)
        assert await told
        assert rig.audit.hindrance is None
        rig.grant()
        assert lines[-1]["what"] == "released"
        assert rig.dropped == []

    async def test_a_file_that_cannot_be_written_is_not_waited_for(self, make: Make, disk: Failing) -> None:
        """What was granted is taken back, nothing more is granted, and what is given back is; then all goes on."""
        rig = make(AuditPolicy.BLOCK)
        held = rig.grant()
        await rig.told()
        disk.error = FULL
        rig.grant()
        assert await rig.told() is False
        assert rig.driver.live_leases == 1
        assert rig.audit.hindrance == "the audit file cannot be written"
        assert isinstance(rig.driver.ask(DB), Denied)
        rig.driver.release((held,))
        assert await rig.told() is False
        disk.error = None
        await until(lambda: rig.audit.hindrance is None)
        rig.grant()
        assert await rig.told()
        assert rig.whats() == ["granted", "granted", "disconnected", "released", "granted"]
        assert rig.driver.live_leases == 1

    @pytest.mark.parametrize("events", list(AuditEvents))
    async def test_all_that_nobody_was_told_of_is_taken_back(
        self, make: Make, disk: Failing, events: AuditEvents
    ) -> None:
        """Whatever is written: what lends, what is spent, what was asked for again and what the next in line got."""
        rig = make(AuditPolicy.BLOCK, events)
        rig.driver.reconfigure((semaphore("db", 2), rate_limit("api", (1, SECOND, 1))))
        told = rig.grant()
        assert await rig.told()
        disk.error = FULL
        rig.chronicle.act(What.PAUSED)
        first = rig.driver.ask(DB, client="web", request_id="a")
        again = rig.driver.ask(DB, client="web", request_id="a")
        spent = rig.driver.ask((Claim("api", 1),))
        assert isinstance(first, Granted)
        assert isinstance(again, Granted)
        assert isinstance(spent, Granted)
        assert first.lease == again.lease
        queued = rig.driver.ask(DB)
        assert isinstance(queued, Queued)
        assert await rig.told() is False
        assert rig.driver.live_leases == 1
        assert rig.driver.held(told) is not None
        seen = rig.driver.resource("api")
        assert seen is not None
        assert seen.in_use == 0
        assert rig.driver.place(queued.ticket) is not None, "what came back was lent anew"
        # Whoever was granted it and asks only now whether it may be told is told the same, at any time before.
        assert await rig.told() is False
        disk.error = None
        await until(lambda: rig.audit.hindrance is None)
        assert rig.driver.place(queued.ticket) is None
        assert await rig.told()
        assert len(rig.audit._unwritten.take()) == 0

    async def test_what_has_been_told_stands(self, make: Make, disk: Failing) -> None:
        """Also if it is asked for once more when nothing can be written."""
        rig = make(AuditPolicy.BLOCK)
        first = rig.driver.ask(DB, client="web", request_id="a")
        assert isinstance(first, Granted)
        assert await rig.told()
        disk.error = FULL
        rig.driver.renew((first.lease,))
        again = rig.driver.ask(DB, client="web", request_id="a")
        assert isinstance(again, Granted)
        assert again.repeated
        assert await rig.told() is False
        assert rig.driver.held(first.lease) is not None

    async def test_what_has_ended_is_kept_for_nobody(self, make: Make, pipe: Callable[[Rig], Pipe]) -> None:
        """A pipe that stands still, and callers that come and go."""
        rig = make(AuditPolicy.BLOCK, AuditEvents.OPERATORS, pipe=True)
        reader = pipe(rig)
        rig.chronicle.act(What.PAUSED, detail="x" * 2**18)
        for _ in range(1000):
            asked = rig.driver.ask(DB)
            assert isinstance(asked, Granted)
            task = asyncio.create_task(rig.told())
            await asyncio.sleep(0)
            task.cancel()
            rig.driver.abandon(asked.ticket)
        assert not rig.audit._unwritten
        await until(lambda: "paused" in [said["what"] for said in reader.lines()])

    async def test_two_must_agree_before_anything_is_granted(self, make: Make, disk: Failing) -> None:
        """That the state can be written again is no reason, as long as the audit file cannot."""
        rig = make(AuditPolicy.BLOCK)
        disk.error = FULL
        rig.grant()
        await rig.told()
        rig.driver.set_writable(False)
        rig.driver.set_writable(True)
        assert isinstance(rig.driver.ask(DB), Denied)
        disk.error = None
        await until(lambda: rig.audit.hindrance is None)
        rig.grant()

    async def test_who_stands_in_line_goes_on_standing(self, make: Make, disk: Failing) -> None:
        """And is granted when the file can be written again."""
        rig = make(AuditPolicy.BLOCK)
        rig.driver.reconfigure((semaphore("db", 1),))
        held = rig.grant()
        answers = rig.wait_in_line()
        disk.error = FULL
        rig.driver.renew((held,))
        await rig.told()
        rig.driver.release((held,))
        assert answers == []
        disk.error = None
        await until(lambda: bool(answers))
        assert isinstance(answers[0], Granted)

    async def test_nothing_is_granted_in_the_midst_of_telling(self, make: Make, disk: Failing) -> None:
        """Whoever is about to tell what has been granted would tell that, too, and its line is not written."""
        rig = make(AuditPolicy.BLOCK)
        rig.driver.reconfigure((semaphore("db", 1),))
        held = rig.grant()
        assert await rig.told()
        answers = rig.wait_in_line()
        disk.error = FULL
        rig.driver.renew((held,))
        await rig.told()
        await until(lambda: rig.audit.hindrance is not None)
        rig.driver.release((held,))
        disk.error = None
        writer = rig.audit._writer
        end = time.monotonic() + 20
        # The thread has written it, and the loop has not heard of that.
        while writer.problem or writer.written < writer.put:
            assert time.monotonic() < end
            time.sleep(0.001)  # noqa: ASYNC251
        rig.chronicle.act(What.PAUSED)
        done = rig.driver.commit()
        assert answers == []
        assert isinstance(done, bool) or await done
        await until(lambda: bool(answers))


class TestCarried:
    """Leases that there are already when it begins: each has a beginning in the file."""

    @staticmethod
    def begin(rig: Rig, leases: int, max_bytes: int) -> Audit:
        """Another trail of the same driver, in a file beside the first."""
        for _ in range(leases):
            rig.grant()
        rig.clock.time += SECOND
        rig.driver.ask(DB)  # a step, as a restart is
        file = rig.asked.file.with_name("next")
        asked = Auditing(file, rig.asked.policy, rig.asked.events)
        rig.asked = asked
        audit = Audit(asked, rig.now, dropped=rig.dropped.append, failed=rig._fail, max_bytes=max_bytes)
        audit.begin(Chronicle(rig.driver, rig.now), rig.driver)
        return audit

    @pytest.mark.parametrize("policy", AuditPolicy)
    async def test_each_is_told_first(self, make: Make, policy: AuditPolicy) -> None:
        """However many there are, they take no room from what comes, and none is dropped."""
        rig = make(policy, AuditEvents.OPERATORS)
        rig.asked = Auditing(rig.asked.file, policy, AuditEvents.LEASES)
        audit = self.begin(rig, 2050, max_bytes=2000)
        last = rig.grant()
        assert await rig.told()
        await audit.close()

        said = rig.lines()
        assert [(each["what"], each["lease"]) for each in said] == [
            *[("carried", lease) for lease in range(1, last)],
            ("granted", last),
        ]
        carried = said[0]
        assert (carried["client"], carried["resources"]) == ("web", ["db"])
        assert carried["claims"] == [{"resource": "db", "permits": 1}]
        assert carried["held_seconds"] == 1
        assert carried["remaining_seconds"] == rig.driver.held(LeaseId(1)).deadline / SECOND - 1  # type: ignore[union-attr]
        assert (rig.dropped, rig.failed) == ([], 0)

    async def test_a_disk_that_is_full_meanwhile(self, make: Make, disk: Failing) -> None:
        """They are tried again as all others are."""
        rig = make(events=AuditEvents.OPERATORS)
        rig.asked = Auditing(rig.asked.file, rig.asked.policy, AuditEvents.LEASES)
        disk.error = FULL
        audit = self.begin(rig, 250, max_bytes=2000)
        await until(lambda: rig.failed > 1)
        disk.error = None
        await audit.close()
        assert rig.whats() == ["carried"] * 251

    async def test_a_disk_that_is_full_to_the_end(self, make: Make, disk: Failing) -> None:
        """Those that are missing are counted."""
        rig = make(events=AuditEvents.OPERATORS)
        rig.asked = Auditing(rig.asked.file, rig.asked.policy, AuditEvents.LEASES)
        disk.error = FULL
        audit = self.begin(rig, 250, max_bytes=2000)
        await until(lambda: rig.failed > 1)
        await audit.close()
        assert rig.dropped == [251]

    async def test_of_operators_alone_there_is_none(self, make: Make) -> None:
        """They have not asked for leases."""
        rig = make(events=AuditEvents.OPERATORS)
        audit = self.begin(rig, 3, max_bytes=2000)
        await audit.close()
        assert rig.lines() == []


class TestReopening:
    """The file may be moved away while nothing happens."""

    async def test_a_new_one_is_made_at_once(self, make: Make) -> None:
        """Without a line to write."""
        rig = make()
        rig.pairs(1)
        await until(lambda: rig.whats() == ["granted", "released"])
        rig.asked.file.rename(rig.asked.file.with_name("moved"))
        rig.audit.reopen()
        await until(rig.asked.file.exists)
        rig.chronicle.act(What.PAUSED)
        await until(lambda: rig.whats() == ["paused"])

    async def test_it_fails_in_a_way_that_nobody_foresaw(
        self, make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is said, counted, and the old one is written on."""
        rig = make()

        def fail(_file: AuditFile) -> None:
            raise RuntimeError("odd")

        monkeypatch.setattr(AuditFile, "reopen", fail)
        rig.audit.reopen()
        rig.chronicle.act(What.PAUSED)
        await until(lambda: rig.whats() == ["paused"])
        assert rig.failed == 1
        assert caplog.records[-1].getMessage() == (
            f"audit file {rig.asked.file}: cannot be opened anew: RuntimeError: odd; "
            "what was opened before is written on"
        )

    async def test_none_can_be_made(self, make: Make, caplog: pytest.LogCaptureFixture) -> None:
        """It is said, counted, and the old one is written on."""
        rig = make()
        moved = rig.asked.file.rename(rig.asked.file.with_name("moved"))
        rig.asked.file.mkdir()
        rig.audit.reopen()
        rig.chronicle.act(What.PAUSED)
        await until(lambda: "paused" in moved.read_text())
        assert rig.failed == 1
        assert caplog.records[-1].getMessage() == (
            f"audit file {rig.asked.file}: cannot be opened anew: Is a directory; what was opened before is written on"
        )
