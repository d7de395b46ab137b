"""What a config would change, before it does; and reloads."""

import asyncio
from collections import Counter
from pathlib import Path

import grpc
import pytest

from governor.config import Reloaded
from governor.core.differences import Comparison, Difference
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.types import Claim, Nanos
from governor.rpc.admin import planned
from governor.v1 import admin_pb2 as admin
from tests.rpc.conftest import ask, declared
from tests.rpc.operators import CONFIG, Operated, operated
from tests.rpc.refusals import refused
from tests.rpc.test_admin_bad_input import undecoded

# What the resources of these tests are, but for those that a test changes.
REST = """
defaults: {max_lease: 1h, max_waiters: 2000}
pools: {pool: {members: {primary: {endpoint: "db1:5432"}, spare: {}}}}
rate_limits: {rate: {rate: 1/s}}
"""
SAME = REST + "semaphores: {sem: {permits: 2}, open: {permits: unlimited}}\n"


async def diff(operators: Operated, *parts: str | bytes) -> admin.DiffResponse:
    """Of a file in parts."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    return await operators.admin.Diff(iter([admin.DiffRequest(yaml=part, name="new.yaml") for part in data]))


def told(difference: admin.Difference) -> list[tuple[str, str, str]]:
    """What changes of it."""
    return [(change.name, change.before, change.after) for change in difference.changes]


async def test_the_same_config_changes_nothing(operators: Operated) -> None:
    """However it is written, and in however many parts it comes."""
    assert await diff(operators, SAME) == admin.DiffResponse()
    assert await diff(operators, *SAME) == admin.DiffResponse()


async def test_each_difference_says_what_and_whom_it_concerns(operators: Operated) -> None:
    """What is held beyond the new limit, who would be refused, and who granted; nothing has happened yet."""
    world = operators.world
    await world.stub.Acquire(ask("sem", 2))
    for permits in (2, 1, 1):
        answer = world.driver.ask((Claim("sem", permits),))
        world.driver.tell(answer.ticket, lambda _answer: None)
    before = world.driver.snapshot()

    shrunk = await diff(operators, REST, "semaphores: {sem: {permits: 1, lease: 10s}, new: {permits: 8}}")
    grown = await diff(operators, REST, "semaphores: {sem: {permits: 5}, open: {permits: unlimited}}")

    sem, new, gone = shrunk.differences
    assert (sem.resource, sem.kind, sem.what) == ("sem", "semaphore", admin.Difference.CHANGED)
    assert told(sem) == [("permits", "2", "1"), ("lease", "30s", "10s")]
    assert (sem.in_use, sem.leases, sem.waiters, sem.over_limit) == (2, 1, 3, 1)
    assert (sem.refused_waiters, sem.most_asked, sem.granted_waiters) == (1, 2, 0)
    assert (new.resource, new.what) == ("new", admin.Difference.ADDED)
    assert told(new)[:2] == [("permits", "", "8"), ("lease", "", "30s")]
    assert (gone.resource, gone.kind, gone.what, told(gone)) == ("open", "semaphore", admin.Difference.REMOVED, [])
    (sem,) = grown.differences
    assert (sem.over_limit, sem.refused_waiters, sem.granted_waiters) == (0, 0, 2)
    assert world.driver.snapshot() == before
    assert operators.acts == []


async def test_others_have_their_turn_while_a_config_is_compared(
    operators: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait: no two steps, and not all that is told, in one turn of the event loop."""
    step, told, turn = Comparison.step, planned._difference, [0]
    steps, tellings = list[int](), list[int]()

    def stepped(comparison: Comparison, now: Nanos) -> bool:
        steps.append(turn[0])
        return step(comparison, now)

    def counted(found: Difference) -> admin.Difference:
        tellings.append(turn[0])
        return told(found)

    async def count() -> None:
        while True:
            turn[0] += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Comparison, "step", stepped)
    monkeypatch.setattr(planned, "_difference", counted)
    counting = asyncio.create_task(count())
    many = "".join(f"  new{number}: {{permits: 1}}\n" for number in range(450))
    found = await diff(operators, "semaphores:\n", many)
    counting.cancel()

    assert len(found.differences) == 450 + 4
    assert len(set(steps)) == len(steps) >= 5
    assert max(Counter(tellings).values()) <= 100


async def test_what_cannot_change_its_kind_is_a_problem_of_its_own(operators: Operated) -> None:
    """All the rest is compared all the same."""
    await operators.world.stub.Acquire(ask("sem"))

    found = await diff(operators, REST, "semaphores: {open: {permits: 5}}\n")

    assert [each.resource for each in found.differences] == ["open", "sem"]
    other = REST.replace("rate: {rate: 1/s}", "rate: {rate: 1/s}, sem: {rate: 5/s}")
    (sem,) = (await diff(operators, other, "semaphores: {open: {permits: unlimited}}")).differences
    assert "kind" in sem.problem or "semaphore" in sem.problem
    assert (sem.kind, told(sem)[0]) == ("rate_limit", ("kind", "semaphore", "rate_limit"))


async def test_a_config_that_cannot_be_read_is_told_in_full(operators: Operated) -> None:
    """Under the name that it was sent by, each with its line; without a name it is the config."""
    found = await diff(operators, "semaphores:\n  a: {permit: 1}\n  b: {permits: x}\n")

    assert len(found.problems) == 2
    assert all(problem.startswith(f"new.yaml:{line}: ") for line, problem in enumerate(found.problems, 2))
    assert not found.differences
    nameless = await operators.admin.Diff(iter([admin.DiffRequest(yaml=b"\xff")]))
    assert [problem.partition(":")[0] for problem in nameless.problems] == ["config"]


async def test_the_settings_of_the_daemon_itself(folder: Path) -> None:
    """Those that a reload changes, and those that wait for the next start."""
    async with operated(folder, running="drain_timeout: 5s\nhttp: 127.0.0.1:7000") as operators:
        found = await diff(operators, SAME, "drain_timeout: 1m\nadmin: unix:/run/admin.sock\nhttp: off\n")

    assert [(each.name, each.before, each.after) for each in found.settings] == [("drain_timeout", "5s", "1m")]
    assert sorted((each.name, each.before, each.after) for each in found.at_next_start) == [
        ("admin", "", "unix:/run/admin.sock"),
        ("http", "127.0.0.1:7000", "off"),
    ]


async def test_what_may_be_a_secret_is_not_shown(folder: Path) -> None:
    """Attributes of members: whoever may ask is no reader of the file."""
    former = PoolSpec((MemberSpec("a", (("password", "old-hunter1"), ("port", "1"))), MemberSpec("b"), MemberSpec("c")))
    members = "{members: {a: {password: '${SECRET}', host: db}, c: {}, b: {max_leases: 3}, d: {}}}"
    file = f"defaults: {{max_lease: 1h, max_waiters: 2000}}\npools: {{pool: {members}}}\n"
    async with operated(folder, declared("pool", former), running=file) as operators:
        found = await diff(operators, file, "drain_timeout: 1s\nwatch: false\nmax_client_series: 7\n")

    assert b"hunter" not in found.SerializeToString()
    (pool,) = found.differences
    assert told(pool) == [
        ("members", "a, b, c", "a, c, b, d"),
        ("members.a.password", "(not shown)", "(not shown)"),
        ("members.a.port", "(not shown)", ""),
        ("members.a.host", "", "(not shown)"),
        ("members.b.max_leases", "1", "3"),
        ("members.d", "", "max_leases 1"),
        ("members", "as declared", "in another order"),
    ]
    assert sorted(each.after for each in found.settings) == ["1s", "7", "false"]


@pytest.mark.parametrize(
    "elsewhere",
    [
        "semaphores: {sem: {permits: '${DIGITS}'}}",
        "semaphores: {sem: {permits: 1, max_wait: '${DIGITS}ms'}}",
        "rate_limits: {rate: {rate: 1/s, burst: '${DIGITS}'}}",
        "drain_timeout: '${DIGITS}ms'",
        "max_client_series: '${DIGITS}'",
        "state: '/${DIGITS}'",
    ],
)
async def test_a_variable_is_not_shown_as_what_it_is_not_used_for(folder: Path, elsewhere: str) -> None:
    """That it is in force as one thing is no reason to show what it would mean as another."""
    file = "pools: {pool: {members: {a: {password: '${DIGITS}'}}}}\n"
    async with operated(folder, running=file) as operators:
        assert not (await diff(operators, file)).problems
        found = await diff(operators, file, elsewhere)

    assert [problem.partition("a variable may be used")[0][:11] for problem in found.problems] == ["new.yaml:2:"]
    assert b"12345678" not in found.SerializeToString()
    assert not found.differences


async def test_a_file_that_is_too_large_is_refused(operators: Operated) -> None:
    """Whatever part of it goes beyond; one that is just not too large is read."""
    part = b"#" + b"x" * 200_000 + b"\n"
    padded = [part] * 5 + [b"#" * (1024 * 1024 - 5 * len(part) - len(SAME) - 1) + b"\n", SAME.encode()]
    assert await diff(operators, *padded) == admin.DiffResponse()

    said = await refused(diff(operators, *padded, b"#"))

    assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "yaml")


async def test_a_part_that_is_no_message(operators: Operated) -> None:
    """Is refused wherever it comes."""
    good = admin.DiffRequest(yaml=b"#").SerializeToString()

    said = await undecoded(operators, "Diff", (good, b"\xff\xff"))

    assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "request")


@pytest.mark.parametrize("part", [b"", b"#"])
async def test_parts_without_end(operators: Operated, part: bytes) -> None:
    """None of them is empty, and there are not many of them: else one call would go on for ever."""
    said = await refused(diff(operators, SAME, *[part.decode()] * (planned.MAX_PARTS + 1)))

    assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "yaml")
    assert "256 parts after the first, and something in each" in said.message


async def test_as_many_parts_as_may_be(operators: Operated) -> None:
    """They are read; the first alone may be empty, for it says the name."""
    assert await diff(operators, "", *["#"] * (planned.MAX_PARTS - 1), "\n" + SAME) == admin.DiffResponse()


async def test_a_file_whose_end_does_not_come(operators: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for all of it: who stops in the midst of it is refused."""
    monkeypatch.setattr(planned, "LOOK_SECONDS", 0.01)
    call = operators.admin.Diff()
    await call.write(admin.DiffRequest(yaml=SAME.encode()))

    said = await refused(call)

    assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "yaml")


async def test_so_many_files_at_once_and_no_more(operators: Operated) -> None:
    """Each may be a megabyte; one more is refused, and told when to come again."""
    calls = []
    for _ in range(planned.AT_ONCE):
        call = operators.admin.Diff()
        await call.write(admin.DiffRequest(yaml=SAME.encode()))
        calls.append(call)
    service = operators.world.server._admin
    assert service is not None
    while service._planned._under_way < planned.AT_ONCE:
        await operators.admin.GetInfo(admin.GetInfoRequest())

    said = await refused(diff(operators, SAME))

    assert (said.code, said.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY")
    for call in calls:
        await call.done_writing()
        assert await call == admin.DiffResponse()
    assert await diff(operators, SAME) == admin.DiffResponse()


async def test_a_reload_says_what_it_has_done(folder: Path) -> None:
    """And who asked for it; the chronicle is told by whoever carries it out."""
    outcome = Reloaded(CONFIG, (), ("a",), ("b", "c"), ("d",), ("drain_timeout",), ("listen",))
    async with operated(folder, reload=lambda: outcome) as operators:
        said = await operators.admin.Reload(admin.ReloadRequest(), metadata=(("governor-actor", "joe"),))

        assert (list(said.added), list(said.changed), list(said.removed)) == (["a"], ["b", "c"], ["d"])
        assert (list(said.problems), list(said.at_next_start)) == ([], ["listen"])
        assert said.config.hash == CONFIG.hash
        assert operators.reloads == ["joe"]
        assert operators.acts == []


async def test_a_reload_that_is_refused_is_no_failed_call(folder: Path) -> None:
    """It says why, and what is in force."""
    outcome = Reloaded(CONFIG, ("governor.yaml:1: wrong",))
    async with operated(folder, reload=lambda: outcome) as operators:
        said = await operators.admin.Reload(admin.ReloadRequest())

    assert list(said.problems) == ["governor.yaml:1: wrong"]
    assert said.config.source == CONFIG.source


async def test_a_fault_in_one_order_is_only_that(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its caller is told so, and the log has all of it."""

    def fails() -> Reloaded:
        raise ZeroDivisionError

    async with operated(folder, reload=fails) as operators:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await operators.admin.Reload(admin.ReloadRequest())
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert (await operators.admin.GetInfo(admin.GetInfoRequest())).pid
    assert "Reload failed" in caplog.text
