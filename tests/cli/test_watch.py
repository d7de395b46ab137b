"""`governor watch`."""

import json
import os
import signal
import threading
from pathlib import Path

import grpc
import pytest

from governor.address import parse
from governor.cli.following import Reader, follow_on
from governor.cli.options import Where
from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import Claim
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal, length
from tests.cli.process import BOUND, ended, running


def event(what: str, **fields: object) -> pb.Event:
    """One thing that happened, a quarter after nine."""
    made = pb.Event(what=what, **fields)  # type: ignore[arg-type]
    made.at.FromNanoseconds(1_764_450_900_250_000_000)
    return made


@pytest.fixture
def eventful(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Some of each sort, in two messages, and then the daemon ends."""
    monkeypatch.setenv("TZ", "UTC")
    claims = [Claim(resource="orders-db", permits=2)]
    fake.desk.closed.set()
    fake.desk.answers[pb.WatchRequest] = [
        pb.WatchResponse(events=[event("watching")]),
        pb.WatchResponse(
            events=[
                event(
                    "granted",
                    client="web",
                    session="3f9c02aa",
                    pid=7,
                    host="h",
                    lease_id=17,
                    claims=claims,
                    waited=length(1.25),
                    remaining=length(30),
                ),
                event("refused", client="web", claims=claims, reason="line_full"),
                event(
                    "refused",
                    client="web",
                    resources=["mail"],
                    reason="permission_denied",
                    detail="may not acquire it",
                    times=999,
                ),
                event("revoked", client="web", lease_id=17, claims=claims, held=length(61), actor="root@db7"),
                event("paused", resources=["orders-db"], actor="\x1b[31mred", reason="db_1 is\nslow"),
                event("reloaded", resources=["a", "b"], detail="changed a, b"),
                event("missed", missed=12),
            ]
        ),
    ]
    return fake


def test_each_event_is_a_line(run: Run, eventful: Fake) -> None:
    """When, what, of which resources, whose, which lease, and the rest; and nothing of it acts on the terminal."""
    done = run("watch", "--address", eventful.address)

    assert done.out.splitlines() == [
        "21:15:00.250  granted        orders-db=2  web  lease 17  after waiting 1.2s  ends in 30s",
        "21:15:00.250  refused        orders-db=2  web  line full",
        "21:15:00.250  refused        mail  web  permission denied  may not acquire it  999 times",
        "21:15:00.250  revoked        orders-db=2  web  lease 17  held for 1m01s  by root@db7",
        "21:15:00.250  paused         orders-db  by \\x1b[31mred  reason: db_1 is\\nslow",
        "21:15:00.250  reloaded       a, b  changed a, b",
        "21:15:00.250  missed         12 events missed: read faster, or watch less",
    ]


def test_json_is_an_object_on_each_line(run: Run, eventful: Fake) -> None:
    """The first says that from then on nothing is missed; the names are those of the help page."""
    done = run("watch", "-o", "json", "--address", eventful.address)
    first, second, *_ = records = [json.loads(line) for line in done.out.splitlines()]
    page = run("watch", "--help").out

    assert first["what"] == "watching"
    assert second == {
        "at": "2025-11-29T21:15:00.250Z",
        "what": "granted",
        "resources": [],
        "client": "web",
        "session": "3f9c02aa",
        "pid": 7,
        "host": "h",
        "lease": 17,
        "claims": [{"resource": "orders-db", "key": "", "permits": 2}],
        "reason": None,
        "waited_seconds": 1.25,
        "held_seconds": None,
        "remaining_seconds": 30.0,
        "detail": None,
        "actor": None,
        "actor_client": None,
        "times": None,
        "missed": None,
    }
    assert records[-1]["missed"] == 12
    assert all(field in page for field in second)


def test_the_end_of_the_daemon_is_exit_3(run: Run, eventful: Fake) -> None:
    """With what to do about it."""
    done = run("watch", "--address", eventful.address)

    assert done.exit == 3
    assert done.err == (f"governor: the daemon at {eventful.address} has ended; --follow waits for the next one\n")


def test_filters_are_the_daemon_s(run: Run, eventful: Fake) -> None:
    """It sends no more than is wanted."""
    run("watch", "a", "b", "--client", "c", "--client", "d", "--what", "granted", "--address", eventful.address)

    assert eventful.desk.asked == [pb.WatchRequest(resources=["a", "b"], clients=["c", "d"], what=["granted"])]


def test_follow_goes_on_with_the_next_daemon(fake: Fake, eventful: Fake) -> None:
    """And says on stderr when it is away and when it is back; the stream itself stays one of events."""
    with running("watch", "--follow", "-o", "json", "--address", eventful.address) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["what"] for _ in range(11)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)

    assert seen[8:10] == ["watching", "granted"]
    assert process.returncode == -signal.SIGINT
    lines = err.splitlines()
    assert lines[:2] == [
        f"governor: the daemon at {eventful.address} has ended; waiting for it to be back",
        "governor: the daemon is back",
    ]


def test_follow_gives_up_on_what_no_time_mends(run: Run, fake: Fake) -> None:
    """A refusal, or a daemon that was not there at first."""
    fake.desk.answers[pb.WatchRequest] = Refusal(
        grpc.StatusCode.PERMISSION_DENIED, "not for you", reason="PERMISSION_DENIED"
    )
    denied = run("watch", "--follow", "--address", fake.address)
    absent = run("watch", "--follow", "--address", "127.0.0.1:1")

    assert (denied.exit, denied.err) == (4, "governor: not for you\n")
    assert absent.exit == 3


def test_follow_tries_again_while_the_daemon_is_away(monkeypatch: pytest.MonkeyPatch, run: Run, eventful: Fake) -> None:
    """Less and less often, without a word for each time."""
    pauses: list[float] = []

    def wait(_reader: Reader, seconds: float) -> None:
        pauses.append(seconds)
        eventful.desk.answers[pb.WatchRequest] = (
            Refusal(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            if len(pauses) < 7
            else Refusal(grpc.StatusCode.PERMISSION_DENIED, "not for you", reason="PERMISSION_DENIED")
        )

    monkeypatch.setattr(Reader, "wait", wait)
    done = run("watch", "--follow", "--address", eventful.address)

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert len(done.err.splitlines()) == 2
    assert done.exit == 4


def test_a_daemon_that_is_away_costs_nothing_more_with_each_attempt(
    monkeypatch: pytest.MonkeyPatch, eventful: Fake
) -> None:
    """Neither a descriptor nor a thread, however often its socket is not there, and nothing is left at the end."""
    where = Where(parse(eventful.address), "--address")
    costs: list[tuple[int, int]] = []

    class OverError(Exception):
        pass

    def wait(_reader: Reader, _seconds: float) -> None:
        Path(eventful.address.removeprefix("unix:")).unlink(missing_ok=True)
        costs.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))
        if len(costs) > 20:
            raise OverError

    monkeypatch.setattr(Reader, "wait", wait)
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as reader:
        # Whoever looks after a pipe has a thread for it.
        monkeypatch.setattr("sys.stdout", reader)
        with pytest.raises(OverError):
            follow_on(where, pb.WatchRequest(), lambda _event: None)

    # What else there is in this process comes and goes as well; a cost of each attempt would only grow.
    for cost in zip(*costs, strict=True):
        assert min(cost[10:]) <= max(cost[:10])
    assert "governor-reader" not in [thread.name for thread in threading.enumerate()]


def test_ctrl_c_ends_it_quietly(fake: Fake) -> None:
    """It dies of it, and the daemon sees it go."""
    fake.desk.answers[pb.WatchRequest] = [pb.WatchResponse(events=[event("watching")])]
    with running("watch", "-o", "json", "--address", fake.address) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)

    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")
    assert fake.desk.left.wait(BOUND)


@pytest.mark.parametrize("options", [[], ["--follow"]])
def test_ctrl_c_is_not_left_to_python(fake: Fake, options: list[str]) -> None:
    """Where it comes up inside a finalizer, as of a stream that ended just then, it would be printed and forgotten."""
    fake.desk.answers[pb.WatchRequest] = [pb.WatchResponse(events=[event("watching"), event("reloaded")])]
    with running("watch", *options, "--address", fake.address) as process:
        assert process.stdout is not None
        process.stdout.readline()
        told = Path(f"/proc/{process.pid}/status").read_text()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=BOUND)

    caught = next(int(line.split()[1], 16) for line in told.splitlines() if line.startswith("SigCgt:"))
    assert not caught >> (signal.SIGINT - 1) & 1
    assert process.returncode == -signal.SIGINT


def test_a_reader_that_goes_ends_it_though_nothing_happens(fake: Fake) -> None:
    """As after `watch | head -1`: nobody would ever be told that nobody reads."""
    fake.desk.answers[pb.WatchRequest] = [pb.WatchResponse(events=[event("watching")])]
    with running("watch", "--follow", "-o", "json", "--address", fake.address) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

        assert (process.wait(BOUND), said) == (141, "")
    assert fake.desk.left.wait(BOUND)


def test_a_reader_that_goes_while_the_daemon_is_away_ends_it(fake: Fake) -> None:
    """Nobody would read what the next one has to tell."""
    fake.desk.answers[pb.WatchRequest] = [pb.WatchResponse(events=[event("watching")])]
    with running("watch", "--follow", "-o", "json", "--address", fake.address) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        Path(fake.address.removeprefix("unix:")).unlink()
        fake.desk.closed.set()
        process.stderr.readline()
        process.stdout.close()

        assert process.wait(BOUND) == 141


def test_a_reader_that_reads_on_is_left_in_peace(fake: Fake) -> None:
    """However much later the next thing happens."""
    fake.desk.answers[pb.WatchRequest] = [pb.WatchResponse(events=[event("watching")])]
    fake.desk.later = [pb.WatchResponse(events=[event("started")])]
    with running("watch", "-o", "json", "--address", fake.address) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        fake.desk.closed.set()
        second = process.stdout.readline()

        assert [json.loads(line)["what"] for line in (first, second)] == ["watching", "started"]
        assert process.wait(BOUND) == 3


def test_a_file_is_no_reader_that_could_go(fake: Fake, tmp_path: Path) -> None:
    """All of it is written there."""
    fake.desk.answers[pb.WatchRequest] = [pb.WatchResponse(events=[event("watching"), event("started")])]
    fake.desk.closed.set()
    with (tmp_path / "events").open("w+") as file:
        done = ended("watch", "-o", "json", "--address", fake.address, stdout=file.fileno())
        file.seek(0)

        assert [json.loads(line)["what"] for line in file] == ["watching", "started"]
    assert done.returncode == 3
