"""`governor leases`, `waiters` and `sessions`."""

import json

import pytest

from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import Claim, Grant, Member
from tests.cli.conftest import Fake, Run
from tests.cli.desk import length
from tests.cli.test_process import on_terminal


def lease(number: int, client: str = "importer", **fields: object) -> pb.LeaseState:
    """One as the daemon lists it."""
    state = pb.LeaseState(
        id=number,
        client=client,
        session="3f9c02aa",
        pid=4242,
        host="db7.example",
        labels={"job": "nightly"},
        grants=[Grant(resource="orders-db", permits=1, members=[Member(id="primary", generation=3)])],
        age=length(61),
        remaining=length(29.5),
        renewals=6,
        waited=length(1.25),
    )
    for field, value in fields.items():
        setattr(state, field, value)
    return state


@pytest.fixture
def held(fake: Fake) -> Fake:
    """Three leases in two messages."""
    plain = pb.LeaseState(
        id=19, grants=[Grant(resource="a", permits=2, key="tenant-1"), Grant(resource="b", permits=1)]
    )
    fake.desk.answers[pb.ListLeasesRequest] = [
        pb.ListLeasesResponse(leases=[lease(17), lease(18, orphaned=True)]),
        pb.ListLeasesResponse(leases=[plain]),
    ]
    return fake


def test_leases_are_a_table_of_who_holds_what(run: Run, held: Fake) -> None:
    """Without a terminal with all its columns; a lease of a plain call has no process."""
    ended = run("leases", "--address", held.address)

    assert (ended.exit, ended.err) == (0, "")
    head, *rows = ended.out.splitlines()
    assert head.split() == [
        *("LEASE", "CLIENT", "CLAIMS", "AGE", "LEFT", "PID", "HOST", "MEMBERS"),
        *("RENEWALS", "LABELS", "WAITED", "SESSION", "NOTE"),
    ]
    assert rows[0].split() == [
        *("17", "importer", "orders-db", "1m01s", "29.5s", "4242", "db7.example", "primary"),
        *("6", "job=nightly", "1.3s", "3f9c02aa"),
    ]
    assert rows[1].endswith("holder gone")
    assert rows[2].split() == ["19", "-", "a[tenant-1]=2,", "b", "0s", "-", "-", "-", "0", "-", "-"]


@pytest.mark.parametrize(("width", "columns"), [(80, 7), (100, 8), (160, 12)])
def test_a_wider_terminal_shows_more(held: Fake, width: int, columns: int) -> None:
    """And no line is ever longer than it."""
    lines = on_terminal("leases", width=width, GOVERNOR_ADDRESS=held.address, NO_COLOR="1").splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) == 4
    assert len(lines[0].split()) >= columns


def test_leases_have_a_documented_record(run: Run, held: Fake) -> None:
    """The names are those of the help page; what is not there is null."""
    first, _, last = json.loads(run("leases", "-o", "json", "--address", held.address).out)["leases"]
    page = run("leases", "--help").out

    assert first == {
        "lease": 17,
        "client": "importer",
        "session": "3f9c02aa",
        "pid": 4242,
        "host": "db7.example",
        "labels": {"job": "nightly"},
        "grants": [
            {
                "resource": "orders-db",
                "key": "",
                "permits": 1,
                "members": [{"id": "primary", "attributes": {}, "generation": 3}],
            }
        ],
        "age_seconds": 61.0,
        "remaining_seconds": 29.5,
        "renewals": 6,
        "waited_seconds": 1.25,
        "orphaned": False,
    }
    assert (last["session"], last["pid"], last["host"], last["remaining_seconds"]) == (None, None, None, None)
    assert all(field in page for field in first)


@pytest.mark.parametrize(("command", "kind"), [("leases", pb.ListLeasesRequest), ("waiters", pb.ListWaitersRequest)])
def test_filters_are_the_daemon_s(run: Run, fake: Fake, command: str, kind: type[pb.ListLeasesRequest]) -> None:
    """It is asked for no more than is wanted; and nothing is said in words, not by a table of nothing."""
    ended = run(command, "a", "--client", "c", "--session", "s", "--limit", "5", "--address", fake.address)

    assert fake.desk.asked == [kind(resource="a", client="c", session="s", limit=5)]
    assert ended.exit == 0
    assert ended.out.endswith(f" {'for' if command == 'waiters' else 'of'} a by client c in session s\n")
    assert json.loads(run(command, "-o", "json", "--address", fake.address).out) == {command: []}


def test_waiters_are_a_table_of_the_line(run: Run, fake: Fake) -> None:
    """With their place, since when, and how long yet, if that is known."""
    fake.desk.answers[pb.ListWaitersRequest] = [
        pb.ListWaitersResponse(
            waiters=[
                pb.WaiterState(
                    place=1,
                    client="web",
                    session="aa",
                    pid=7,
                    host="h",
                    claims=[Claim(resource="orders-db", permits=2)],
                    waited=length(12),
                    remaining=length(18),
                    expected=length(3),
                    tickets=1,
                ),
                pb.WaiterState(
                    place=2,
                    claims=[Claim(resource="orders-db", permits=1)],
                    waited=length(0.2),
                    tickets=3,
                    paused=["orders-db"],
                ),
            ]
        )
    ]
    head, first, second = run("waiters", "orders-db", "--address", fake.address).out.splitlines()
    records = json.loads(run("waiters", "-o", "json", "--address", fake.address).out)["waiters"]
    page = run("waiters", "--help").out

    assert head.split("  ")[0] == "PLACE"
    assert first.split() == ["1", "web", "orders-db=2", "12s", "3s", "18s", "7", "h", "aa"]
    assert second.split() == ["2", "-", "orders-db", "200ms", "paused", "-", "-", "-", "3", "-"]
    assert (records[1]["expected_seconds"], records[1]["paused"]) == (None, ["orders-db"])
    assert records[1]["calls"] == 3
    assert all(field in page for field in records[0])


def test_sessions_are_a_table_of_processes(run: Run, fake: Fake) -> None:
    """Those that are there, and those that may come back."""
    fake.desk.answers[pb.ListSessionsRequest] = [
        pb.ListSessionsResponse(
            sessions=[
                pb.SessionState(
                    session="3f9c02aa", client="web", pid=7, host="h", connected=True, since=length(3661), leases=2
                ),
                pb.SessionState(session="aa", client="cron", pid=8, host="h", since=length(1), leases=1, waiters=0),
            ]
        )
    ]
    _, first, second = run("sessions", "--client", "web", "--address", fake.address).out.splitlines()
    records = json.loads(run("sessions", "-o", "json", "--address", fake.address).out)["sessions"]
    page = run("sessions", "--help").out

    assert fake.desk.asked[0] == pb.ListSessionsRequest(client="web")
    assert first.split() == ["3f9c02aa", "web", "7", "h", "connected", "1h01m", "2", "0"]
    assert second.split()[4] == "away"
    assert records[0]["connected"] is True
    assert all(field in page for field in records[0])


def test_no_session_is_said_in_words(run: Run, fake: Fake) -> None:
    """A table of nothing but a header would leave the reader guessing."""
    assert run("sessions", "--address", fake.address).out == "no session is there\n"


def test_what_others_wrote_cannot_act_on_the_terminal(run: Run, fake: Fake) -> None:
    """Names, labels and hosts come from clients."""
    evil = "\x1b[31mred"
    fake.desk.answers[pb.ListLeasesRequest] = [
        pb.ListLeasesResponse(
            leases=[
                pb.LeaseState(
                    id=1,
                    client=evil,
                    host=evil,
                    labels={evil: evil},
                    grants=[Grant(resource=evil, permits=1, key=evil)],
                )
            ]
        )
    ]
    assert "\x1b" not in run("leases", "--address", fake.address).out
