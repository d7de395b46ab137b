"""`governor revoke`."""

import json
from collections.abc import Iterator

import grpc
import pytest

from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import LeaseResult
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal, length
from tests.cli.terminal import CTRL_C, Terminal, terminal
from tests.cli.test_leases import lease


@pytest.fixture
def screen(fake: Fake) -> Iterator[Terminal]:
    """A terminal whose shell knows the daemon; three leases are held."""
    fake.desk.answers[pb.ListLeasesRequest] = [pb.ListLeasesResponse(leases=[lease(n) for n in range(17, 29)])]
    fake.desk.answers[pb.RevokeRequest] = pb.RevokeResponse(revoked=12)
    with terminal({"GOVERNOR_ADDRESS": fake.address}) as screen:
        yield screen


def revoked(fake: Fake) -> list[pb.RevokeRequest]:
    """What was asked to be ended."""
    return [each for each in fake.desk.asked if isinstance(each, pb.RevokeRequest)]


def test_each_lease_is_told_what_became_of_it(run: Run, fake: Fake) -> None:
    """In the order asked; the exit code says that one had ended before."""
    gone = LeaseResult(lease_id=18, state=LeaseResult.ENDED)
    gone.ended.reason = "expired"
    gone.ended.ago.CopyFrom(length(61))
    results = [
        LeaseResult(lease_id=17, state=LeaseResult.REVOKED),
        gone,
        LeaseResult(lease_id=19, state=LeaseResult.UNKNOWN),
    ]
    fake.desk.answers[pb.RevokeRequest] = pb.RevokeResponse(results=results, revoked=1)
    ended = run("revoke", "17", "18", "19", "17", "--address", fake.address)
    record = run("revoke", "17", "18", "19", "-o", "json", "--address", fake.address)

    assert revoked(fake)[0] == pb.RevokeRequest(lease_ids=[17, 18, 19])
    assert (ended.exit, ended.err) == (1, "")
    assert ended.out.splitlines() == [
        "lease 17: revoked",
        "lease 18: had ended 1m01s ago (expired)",
        "lease 19: unknown",
    ]
    assert record.exit == 1
    assert json.loads(record.out)["revoked"] == 1
    assert [each["state"] for each in json.loads(record.out)["results"]] == ["revoked", "ended", "unknown"]


def test_all_revoked_is_success(run: Run, fake: Fake) -> None:
    """By id, of a client and of a session."""
    result = LeaseResult(lease_id=17, state=LeaseResult.REVOKED)
    fake.desk.answers[pb.RevokeRequest] = pb.RevokeResponse(results=[result], revoked=1)
    by_id = run("revoke", "17", "--address", fake.address)
    of_client = run("revoke", "--client", "importer", "--address", fake.address)
    of_session = run("revoke", "--session", "3f9c02aa", "-o", "json", "--address", fake.address)

    assert (by_id.exit, by_id.out) == (0, "lease 17: revoked\n")
    assert (of_client.exit, of_client.out) == (0, "client importer: revoked 1 lease\n")
    assert (of_session.exit, json.loads(of_session.out)) == (0, {"revoked": 1, "results": []})
    assert revoked(fake)[1:] == [pb.RevokeRequest(client="importer"), pb.RevokeRequest(session="3f9c02aa")]


def test_nothing_to_revoke_is_exit_1(run: Run, fake: Fake) -> None:
    """As of a lease that had ended."""
    ended = run("revoke", "--client", "importer", "--address", fake.address)

    assert (ended.exit, ended.out) == (1, "client importer: holds nothing\n")


def test_a_lone_lease_that_had_ended_is_told_by_the_status(run: Run, fake: Fake) -> None:
    """To people a sentence, to programs the same record as of several."""
    fake.desk.answers[pb.RevokeRequest] = Refusal(
        grpc.StatusCode.FAILED_PRECONDITION,
        "lease 17: released 3s ago",
        reason="LEASE_ENDED",
        metadata={"ended": "released", "ended_ago_ms": "3000"},
    )
    people = run("revoke", "17", "--address", fake.address)
    program = run("revoke", "17", "-o", "json", "--address", fake.address)

    assert (people.exit, people.out, people.err) == (1, "", "governor: lease 17: released 3s ago\n")
    assert (program.exit, json.loads(program.out)["revoked"]) == (1, 0)
    assert json.loads(program.out)["results"][0]["ended_seconds_ago"] == 3.0


def test_a_great_many_go_in_several_calls(run: Run, fake: Fake) -> None:
    """One call takes a thousand."""
    run("revoke", *map(str, range(1, 2502)), "--address", fake.address)

    assert [len(each.lease_ids) for each in revoked(fake)] == [1000, 1000, 501]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["17", "--client", "a"],
        ["--client", "a", "--session", "b"],
        ["0"],
        ["all"],
        ["--client", "", "--session", ""],
    ],
    ids=str,
)
def test_exactly_one_way_to_name_them(run: Run, fake: Fake, arguments: list[str]) -> None:
    """Anything else is a mistake, and nothing was asked."""
    assert run("revoke", *arguments, "--address", fake.address).exit == 2
    assert fake.desk.asked == []


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("n", 1), ("", 1), ("Yikes", 1)])
def test_at_a_terminal_it_asks_before_many_end(screen: Terminal, fake: Fake, answer: str, code: int) -> None:
    """It shows the first of them; whatever is no yes ends nothing."""
    screen.type("governor revoke --client importer\n")
    shown = screen.until(r"end 12 leases of client importer\? \[y/N\] ")
    screen.type(f"{answer}\n")
    screen.shows(r"\n(\x1b\[\?2004h)?\$ ")
    screen.type("echo is $?\n")
    screen.shows(f"\nis {code}")

    assert "and 2 more" in shown
    assert shown.count("orders-db") == 10
    assert len(revoked(fake)) == (code == 0)


def test_ctrl_c_at_the_question_ends_nothing(screen: Terminal, fake: Fake) -> None:
    """And the command dies of it."""
    screen.type("governor revoke 17 18\n")
    screen.shows(r"end 2 leases\? \[y/N\] ")
    screen.type(CTRL_C)
    screen.shows(r"\n(\x1b\[\?2004h)?\$ ")
    screen.type("echo is $?\n")
    screen.shows("\nis 130")

    assert revoked(fake) == []


@pytest.mark.parametrize("arguments", ["17", "17 18 --yes", "--client importer -y", "--client importer </dev/null"])
def test_it_does_not_ask_about_one_or_when_told_not_to(screen: Terminal, fake: Fake, arguments: str) -> None:
    """Nor where nobody could answer."""
    screen.type(f"governor revoke {arguments} >/dev/null; echo is $?\n")
    shown = screen.until(r"\nis \d")

    assert "[y/N]" not in shown
    assert len(revoked(fake)) == 1
