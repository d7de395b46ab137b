"""`governor pause`, `resume` and `drain`."""

import json
import threading
import time
from collections.abc import Callable

import grpc
import pytest
from google.protobuf.message import Message

from governor.cli import emptying
from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import ListResourcesRequest, Resource
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal, length
from tests.cli.process import BOUND
from tests.cli.terminal import terminal


@pytest.mark.parametrize(
    ("command", "kind", "word"),
    [
        ("pause", pb.PauseResourceRequest, "paused"),
        ("resume", pb.ResumeResourceRequest, "open"),
        ("drain", pb.DrainResourceRequest, "draining"),
    ],
)
def test_what_is_so_now_is_told(run: Run, fake: Fake, command: str, kind: type[Message], word: str) -> None:
    """To give an order twice is no mistake: what was wanted is so."""
    resource = Resource(name="orders-db", kind="pool", leases=1, waiters=2)
    fake.desk.answers[kind] = pb.StandingResponse(resource=resource, changed=True)
    first = run(command, "orders-db", "--address", fake.address)
    fake.desk.answers[kind] = pb.StandingResponse(resource=Resource(name="orders-db", leases=3))
    second = run(command, "orders-db", "--address", fake.address)
    record = run(command, "orders-db", "-o", "json", "--address", fake.address)

    assert (first.exit, first.out) == (0, f"orders-db: {word}; 1 lease goes on, 2 waiting\n")
    assert (second.exit, second.out) == (0, f"orders-db: {word} already; 3 leases go on\n")
    assert (json.loads(record.out)["changed"], json.loads(record.out)["resource"]["name"]) == (False, "orders-db")


@pytest.fixture
def draining(fake: Fake) -> Fake:
    """Two leases are left."""
    fake.script.resources = [Resource(name="orders-db", in_use=2, leases=2, draining=True)]
    fake.desk.answers[pb.DrainResourceRequest] = pb.StandingResponse(resource=fake.script.resources[0], changed=True)
    return fake


def meanwhile(fake: Fake, change: Callable[[], None]) -> threading.Thread:
    """Does it once the command has looked twice."""

    def when_looked() -> None:
        late = time.monotonic() + BOUND
        while sum(isinstance(each, ListResourcesRequest) for each in fake.script.asked) < 2:
            assert time.monotonic() < late
            time.sleep(0.01)
        change()

    thread = threading.Thread(target=when_looked)
    thread.start()
    return thread


def test_drain_waits_until_nothing_is_held(run: Run, draining: Fake) -> None:
    """It returns as soon as the last lease has ended."""
    thread = meanwhile(
        draining, lambda: draining.script.resources.__setitem__(0, Resource(name="orders-db", draining=True))
    )
    ended = run("drain", "orders-db", "--wait", "--timeout", "30s", "--address", draining.address)
    thread.join()

    assert (ended.exit, ended.err) == (0, "")
    assert ended.out == "orders-db: drained, nothing of it is held\n"


def test_a_resource_that_goes_is_drained(run: Run, draining: Fake) -> None:
    """A reload has removed it, and its last lease has ended."""
    thread = meanwhile(draining, draining.script.resources.clear)
    ended = run("drain", "orders-db", "--wait", "--address", draining.address)
    thread.join()

    assert ended.exit == 0


def test_a_drain_that_takes_too_long_is_given_up(run: Run, draining: Fake) -> None:
    """With what is left, and 124; it goes on draining."""
    ended = run("drain", "orders-db", "--wait", "--timeout", "50ms", "--address", draining.address)

    assert (ended.exit, ended.out) == (124, "")
    assert ended.err == "governor: orders-db: not drained within 50ms; 2 leases still held\n"


@pytest.mark.parametrize(("paused", "word"), [(False, "resumed it"), (True, "paused it instead")])
def test_a_drain_that_somebody_ends_is_not_waited_for(run: Run, draining: Fake, paused: bool, word: str) -> None:  # noqa: FBT001
    """It would wait for ever."""
    other = Resource(name="orders-db", in_use=2, leases=2, paused=paused)
    thread = meanwhile(draining, lambda: draining.script.resources.__setitem__(0, other))
    ended = run("drain", "orders-db", "--wait", "--address", draining.address)
    thread.join()

    assert ended.exit == 75
    assert ended.err == f"governor: orders-db: somebody has {word}; 2 leases still held\n"


def test_a_daemon_that_stays_away_ends_the_wait(run: Run, draining: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be restarted meanwhile, but not for ever."""
    monkeypatch.setattr(emptying, "_PATIENCE_SECONDS", -1)
    thread = meanwhile(
        draining, lambda: setattr(draining.script, "listed", Refusal(grpc.StatusCode.UNAVAILABLE, "Socket closed"))
    )
    ended = run("drain", "orders-db", "--wait", "--address", draining.address)
    thread.join()

    assert ended.exit == 3


def test_a_timeout_is_of_a_wait(run: Run, fake: Fake) -> None:
    """Alone it would mean nothing."""
    ended = run("drain", "orders-db", "--timeout", "1s", "--address", fake.address)

    assert ended.exit == 2
    assert "--timeout is how long to --wait: say both" in ended.err


def test_a_terminal_shows_what_is_still_held(draining: Fake) -> None:
    """On one line that leaves no trace."""
    with terminal({"GOVERNOR_ADDRESS": draining.address}) as screen:
        screen.type("governor drain orders-db --wait\n")
        screen.shows(r"\r\x1b\[Kdraining orders-db, 2 leases still held, \ds so far")
        draining.script.resources[0] = Resource(name="orders-db", draining=True)
        screen.shows(r"\r\x1b\[Korders-db: drained, nothing of it is held")


WHY = "the provider is down"


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        (["pause", "db"], pb.PauseResourceRequest(resource="db", reason=WHY)),
        (["resume", "db"], pb.ResumeResourceRequest(resource="db", reason=WHY)),
        (["drain", "db"], pb.DrainResourceRequest(resource="db", reason=WHY)),
        (
            ["set", "db", "permits=2", "--for", "1m"],
            pb.SetOverrideRequest(resource="db", settings={"permits": "2"}, length=length(60), reason=WHY),
        ),
        (["set", "db", "--default"], pb.ClearOverrideRequest(resource="db", reason=WHY)),
        (["recycle", "db", "a"], pb.RecycleMembersRequest(resource="db", member="a", reason=WHY)),
        (["quarantine", "db", "a"], pb.QuarantineMemberRequest(resource="db", member="a", reason=WHY)),
        (["restore", "db", "a"], pb.RestoreMemberRequest(resource="db", member="a", reason=WHY)),
        (["revoke", "17"], pb.RevokeRequest(lease_ids=[17], reason=WHY)),
        (["revoke", "--client", "web"], pb.RevokeRequest(client="web", reason=WHY)),
    ],
    ids=str,
)
def test_each_order_can_say_why(run: Run, fake: Fake, command: list[str], request_: Message) -> None:
    """It goes along as it is said, if it is not too long; else nothing is asked."""
    run(*command, "--reason", WHY, "--address", fake.address)
    long = run(*command, "--reason", "\u00e9" * 129, "--address", fake.address)

    assert fake.desk.asked == [request_]
    assert long.exit == 2
    assert "'--reason': it is 258 bytes long; there is room for 256" in " ".join(long.err.split())
