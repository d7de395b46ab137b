"""`governor status`."""

import json

import pytest

from governor.v1 import governor_pb2 as pb
from tests.cli.conftest import Fake, Run

SECOND = 1_000_000_000
THERE_ARE = "there are thumbnails, orders-db, payments-api, scratch"


def config(*problems: str) -> pb.ConfigState:
    """Which config is in force, and what is wrong with a newer one."""
    state = pb.ConfigState(source="/etc/governor/governor.yaml", hash="3fa9c1d2" * 8, problems=problems)
    state.since.FromSeconds(1_764_450_000)
    if problems:
        state.refused_at.FromSeconds(1_764_453_600)
    return state


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
    """Four resources, each of which shows something else."""
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
        resource("orders-db", "pool", capacity=10, in_use=3, available=5, leases=3),
        resource("payments-api", "rate_limit", capacity=20, available=20),
        resource("scratch", "semaphore", in_use=4, leases=4),
    ]
    fake.script.resources[1].members.MergeFrom(pb.PoolMembers(free=7, lent=3))
    return fake


@pytest.fixture
def odd(fake: Fake) -> Fake:
    """Three resources, of which the numbers do not say all."""
    fake.script.resources = [
        resource("thumbnails", "semaphore", capacity=8, available=8),
        resource("orders-db", "pool", capacity=3, leases=0),
        resource("old", "pool", capacity=3, in_use=1, available=0, leases=1, draining=True, removed=True),
    ]
    fake.script.resources[1].members.MergeFrom(pb.PoolMembers(quarantined=3))
    fake.script.resources[1].available = 0
    fake.script.resources[2].members.MergeFrom(pb.PoolMembers(lent=1, quarantined=2))
    return fake


def test_the_table_shows_each_resource_in_a_line(run: Run, busy: Fake) -> None:
    """Where the output is no terminal: no colours, no frames, whole names. And it fits 80 columns."""
    ended = run("status", "--address", busy.address)

    assert ended.exit == 0
    assert ended.err == ""
    assert ended.out.splitlines() == [
        "NAME          KIND         CAPACITY  IN USE  AVAILABLE  WAITERS  OLDEST  LEASES",
        "thumbnails    semaphore           8       8          0        2     12s       5",
        "orders-db     pool               10       3          5        0       -       3",
        "payments-api  rate_limit         20       0         20        0       -       0",
        "scratch       semaphore   unlimited       4  unlimited        0       -       4",
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
        "paused": False,
        "draining": False,
        "removed": False,
        "over_limit": 0,
        "actor": None,
        "actor_client": None,
        "reason": None,
        "override": None,
        "members": None,
        "max_waiters": 1000,
        "max_wait_seconds": 30.0,
        "lease_seconds": 30.0,
    }
    assert [entry["name"] for entry in resources] == [entry.name for entry in busy.script.resources]
    assert resources[3]["capacity"] is None
    assert resources[3]["available"] is None
    assert resources[3]["oldest_wait_seconds"] is None
    assert resources[1]["members"] == {"free": 7, "lent": 3, "quarantined": 0}
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
    assert json.loads(run("status", "-o", "json", "--address", fake.address).out) == {
        "resources": [],
        "config": None,
        "draining": False,
    }


def test_a_name_cannot_act_on_the_terminal(run: Run, fake: Fake) -> None:
    """Escape sequences from the wire appear as text."""
    fake.script.resources = [resource("\x1b[31mred", "semaphore", capacity=1)]

    ended = run("status", "--address", fake.address)

    assert "\x1b" not in ended.out
    assert "\\x1b[31mred" in ended.out


def test_a_note_says_why_nothing_is_to_be_had(run: Run, odd: Fake) -> None:
    """A column that is there only where there is something to say, with no spaces at the ends of lines."""
    ended = run("status", "--address", odd.address)
    resources = json.loads(run("status", "-o", "json", "--address", odd.address).out)["resources"]

    assert ended.out.splitlines() == [
        "NAME        KIND       CAPACITY  IN USE  AVAILABLE  WAITERS  OLDEST  LEASES  NOTE",
        "thumbnails  semaphore         8       0          8        0       -       0",
        "orders-db   pool              3       0          0        0       -       0  3 quarantined",
        "old         pool              3       1          0        0       -       1  removed, 2 quarantined",
    ]
    assert [entry["draining"] for entry in resources] == [False, False, True]
    assert [entry["members"] for entry in resources] == [
        None,
        {"free": 0, "lent": 0, "quarantined": 3},
        {"free": 0, "lent": 1, "quarantined": 2},
    ]


def test_names_choose_resources(run: Run, busy: Fake) -> None:
    """In the order of the config, in the table as in JSON."""
    table = run("status", "scratch", "thumbnails", "--address", busy.address)
    record = run("status", "scratch", "thumbnails", "-o", "json", "--address", busy.address)

    assert [line.split()[0] for line in table.out.splitlines()] == ["NAME", "thumbnails", "scratch"]
    assert [entry["name"] for entry in json.loads(record.out)["resources"]] == ["thumbnails", "scratch"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Thumbnail", "Thumbnail: no such resource; did you mean 'thumbnails'?"),
        ("nothing-like-it", f"nothing-like-it: no such resource; {THERE_ARE}"),
        ("x" * 1000, "x" * 1000 + f": no such resource; {THERE_ARE}"),
    ],
    ids=["near", "far", "long"],
)
def test_a_name_that_no_resource_has_is_a_mistake(run: Run, busy: Fake, name: str, said: str) -> None:
    """Exit code 2 and nothing on stdout, though another name was right: half an answer looks like a whole one."""
    ended = run("status", "scratch", name, "--address", busy.address)

    assert (ended.exit, ended.out, ended.err) == (2, "", f"governor: {said}\n")


def test_a_name_is_answered_with_those_there_are(run: Run, fake: Fake) -> None:
    """Some of them, if there are many; and it is said if there is none."""
    none = run("status", "a", "--address", fake.address)
    fake.script.resources = [resource(f"r{number}", "semaphore") for number in range(30)]
    many = run("status", "nothing", "--address", fake.address)

    assert none.err == "governor: a: no such resource; the daemon's config declares none\n"
    assert many.err.endswith("there are r0, r1, r2, r3, r4, r5, r6, r7 and 22 more, which governor status lists\n")


def test_a_note_says_what_operators_did(run: Run, fake: Fake) -> None:
    """Paused, draining, over its limit, another limit for a while; the record has each of them."""
    paused = resource("paused", "semaphore", capacity=8, paused=True)
    drained = resource("drained", "semaphore", capacity=8, draining=True)
    shrunk = resource("shrunk", "semaphore", capacity=8, in_use=10, over_limit=2)
    other = resource("other", "semaphore", capacity=12)
    other.override.settings["permits"] = "12"
    other.override.declared["permits"] = "8"
    other.override.remaining.FromSeconds(599)
    fake.script.resources = [paused, drained, shrunk, other]
    table = run("status", "--address", fake.address).out.splitlines()
    records = json.loads(run("status", "-o", "json", "--address", fake.address).out)["resources"]

    start = table[0].index("NOTE")
    assert [line[start:] for line in table] == ["NOTE", "paused", "draining", "2 over limit", "permits=12 for 9m59s"]
    assert (records[0]["paused"], records[1]["draining"], records[2]["over_limit"]) == (True, True, 2)
    assert records[3]["override"] == {
        "settings": {"permits": 12},
        "declared": {"permits": 8},
        "remaining_seconds": 599.0,
        "actor": None,
        "actor_client": None,
        "reason": None,
    }


def test_a_note_says_who_has_ordered_it_and_why(run: Run, fake: Fake) -> None:
    """As far as he said, and safe to show; the record has it as it was said."""
    both = resource("both", "semaphore", capacity=8, paused=True)
    both.actor, both.reason = "joe@web-1", "the provider\nis down"
    other = resource("other", "semaphore", capacity=12, draining=True)
    other.actor, other.actor_client = "joe@web-1", "ops"
    other.override.settings["permits"] = "12"
    other.override.remaining.FromSeconds(599)
    other.override.reason, other.override.actor_client = "a sale", "ops"
    fake.script.resources = [both, other]
    table = run("status", "--address", fake.address).out.splitlines()
    records = json.loads(run("status", "-o", "json", "--address", fake.address).out)["resources"]

    start = table[0].index("NOTE")
    assert [line[start:] for line in table[1:]] == [
        "paused (by joe@web-1: the provider\\nis down)",
        "draining (by joe@web-1, client ops), permits=12 for 9m59s (by client ops: a sale)",
    ]
    fields = ("actor", "actor_client", "reason")
    assert [tuple(each[name] for name in fields) for each in (*records, records[1]["override"])] == [
        ("joe@web-1", None, "the provider\nis down"),
        ("joe@web-1", "ops", None),
        (None, "ops", "a sale"),
    ]


def test_the_config_in_force_is_named_below(run: Run, busy: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With since when, in the time of this machine; JSON has the whole of it, in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    busy.script.config = config()
    *_, blank, last = run("status", "--address", busy.address).out.splitlines()
    record = json.loads(run("status", "-o", "json", "--address", busy.address).out)["config"]

    assert blank == ""
    assert last == "config /etc/governor/governor.yaml (3fa9c1d23fa9) in force since 2025-11-29 21:00:00"
    assert record == {
        "source": "/etc/governor/governor.yaml",
        "hash": "3fa9c1d2" * 8,
        "since": "2025-11-29T21:00:00Z",
        "problems": [],
        "refused_at": None,
    }


def test_a_refused_reload_stays_in_sight(run: Run, busy: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each problem, up to ten of them, safe to show; and the exit code is that of a look that worked."""
    monkeypatch.setenv("TZ", "UTC")
    busy.script.config = config(*(f"governor.yaml:{line}: \x1b[31mwrong" for line in range(12)))
    ended = run("status", "--address", busy.address)
    below = ended.out.splitlines()[6:]

    assert ended.exit == 0
    assert below[1] == "a reload was refused at 2025-11-29 22:00:00, and nothing of it is in force:"
    assert below[2] == "  governor.yaml:0: \\x1b[31mwrong"
    assert len(below) == 13
    assert below[-1] == "  and 2 more: governor check /etc/governor/governor.yaml"


def test_a_daemon_that_drains_says_so(run: Run, busy: Fake) -> None:
    """Below the table, since it is about all of it."""
    busy.script.draining = True

    assert run("status", "--address", busy.address).out.splitlines()[-1].startswith("the daemon drains")
    assert json.loads(run("status", "-o", "json", "--address", busy.address).out)["draining"] is True
