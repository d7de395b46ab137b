"""`governor status`."""

import json

import pytest

from governor.v1 import governor_pb2 as pb
from tests.cli.conftest import Fake, Run

SECOND = 1_000_000_000


def resource(name: str, kind: str, **fields: int | bool) -> pb.Resource:
    """A resource as the daemon lists it; times are in nanoseconds."""
    listed = pb.Resource(name=name, kind=kind, max_waiters=1000)
    listed.max_wait.FromNanoseconds(30 * SECOND)
    listed.lease.FromNanoseconds(30 * SECOND)
    for field, value in fields.items():
        if field == "oldest_wait":
            listed.oldest_wait.FromNanoseconds(value)
        else:
            setattr(listed, field, value)
    return listed


@pytest.fixture
def busy(fake: Fake) -> Fake:
    """Five resources, each of which shows something else."""
    fake.script.resources = [
        resource(
            "thumbnails",
            "semaphore",
            capacity=8,
            in_use=8,
            available=0,
            leases=5,
            waiters=2,
            oldest_wait=12 * SECOND,
        ),
        resource("orders-db", "pool", capacity=10, in_use=3, available=7, leases=3),
        resource("payments-api", "rate_limit", capacity=20, available=20),
        resource("scratch", "semaphore", in_use=4, leases=4),
        resource("old", "semaphore", capacity=1, in_use=1, available=0, leases=1, draining=True),
    ]
    return fake


def test_the_table_shows_each_resource_in_a_line(run: Run, busy: Fake) -> None:
    """Where the output is no terminal: no colours, no frames, whole names. And it fits 80 columns."""
    ended = run("status", "--address", busy.address)

    assert ended.exit == 0
    assert ended.err == ""
    assert ended.out.splitlines() == [
        "NAME          KIND         CAPACITY  IN USE  AVAILABLE  WAITERS  OLDEST  LEASES",
        "thumbnails    semaphore           8       8          0        2     12s       5",
        "orders-db     pool               10       3          7        0       -       3",
        "payments-api  rate_limit         20       0         20        0       -       0",
        "scratch       semaphore   unlimited       4  unlimited        0       -       4",
        "old           semaphore           1       1   draining        0       -       1",
    ]
    assert max(map(len, ended.out.splitlines())) <= 80


def test_json_has_a_documented_shape(run: Run, busy: Fake) -> None:
    """What is unlimited and what does not exist is null; the field names are those of the help page."""
    ended = run("status", "-o", "json", "--address", busy.address)
    resources = json.loads(ended.out)["resources"]
    page = run("status", "--help").out

    assert resources[0] == {
        "name": "thumbnails",
        "kind": "semaphore",
        "capacity": 8,
        "in_use": 8,
        "available": 0,
        "leases": 5,
        "waiters": 2,
        "oldest_wait_seconds": 12.0,
        "draining": False,
        "max_waiters": 1000,
        "max_wait_seconds": 30.0,
        "lease_seconds": 30.0,
    }
    assert [entry["name"] for entry in resources] == [entry.name for entry in busy.script.resources]
    assert resources[3]["capacity"] is None
    assert resources[3]["available"] is None
    assert resources[3]["oldest_wait_seconds"] is None
    assert resources[4]["draining"] is True
    assert all(field in page for field in resources[0])


def test_options_stand_before_or_after_the_command(run: Run, busy: Fake) -> None:
    """And what stands after it wins."""
    after = run("status", "-o", "json", "--address", busy.address)
    before = run("-o", "json", "--address", busy.address, "status")
    both = run("-o", "table", "--address", "127.0.0.1:1", "status", "-o", "json", "--address", busy.address)

    assert after == before == both
    assert after.exit == 0


def test_the_address_may_come_from_the_environment(run: Run, busy: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option is stronger, and an empty variable is none."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", busy.address)
    assert run("status").exit == 0
    assert run("status", "--address", "127.0.0.1:1").exit == 3

    monkeypatch.setenv("GOVERNOR_ADDRESS", "127.0.0.1:1")
    ended = run("status")
    assert ended.exit == 3
    assert "127.0.0.1:1 (from GOVERNOR_ADDRESS)" in ended.err


def test_no_resources_is_said_in_words(run: Run, fake: Fake) -> None:
    """A table of nothing but a header would leave the reader guessing; JSON stays a list."""
    assert "no resources" in run("status", "--address", fake.address).out
    assert json.loads(run("status", "-o", "json", "--address", fake.address).out) == {"resources": []}


def test_a_name_cannot_act_on_the_terminal(run: Run, fake: Fake) -> None:
    """Escape sequences from the wire appear as text."""
    fake.script.resources = [resource("\x1b[31mred", "semaphore", capacity=1)]

    ended = run("status", "--address", fake.address)

    assert "\x1b" not in ended.out
    assert "\\x1b[31mred" in ended.out
