"""`governor recycle`, `quarantine` and `restore`."""

import json

import grpc
import pytest
from google.protobuf.message import Message

from governor.v1 import admin_pb2 as pb
from tests.cli.conftest import Ended, Fake, Run
from tests.cli.desk import Refusal, length


@pytest.mark.parametrize(
    ("command", "request_", "word"),
    [
        (["recycle", "db"], pb.RecycleMembersRequest(resource="db"), "recycled"),
        (["recycle", "db", "a"], pb.RecycleMembersRequest(resource="db", member="a"), "recycled"),
        (["quarantine", "db", "a"], pb.QuarantineMemberRequest(resource="db", member="a"), "quarantined"),
        (
            ["quarantine", "db", "a", "--for", "10m"],
            pb.QuarantineMemberRequest(resource="db", member="a", length=length(600)),
            "quarantined",
        ),
        (["restore", "db", "a"], pb.RestoreMemberRequest(resource="db", member="a"), "restored"),
    ],
    ids=str,
)
def test_members_are_told_as_they_are_now(
    run: Run, fake: Fake, command: list[str], request_: Message, word: str
) -> None:
    """Also if nothing had to be changed."""
    members = [
        pb.MemberState(id="a", state=pb.MemberState.QUARANTINED, generation=3, by_operator=True),
        pb.MemberState(id="b", state=pb.MemberState.QUARANTINED, generation=4, quarantined_for=length(90)),
        pb.MemberState(id="c", state=pb.MemberState.LENT, generation=5, max_leases=1, lent=1),
    ]

    def said(*, changed: bool, output: str) -> Ended:
        fake.desk.answers[type(request_)] = pb.MembersResponse(members=members, changed=changed)
        return run(*command, "-o", output, "--address", fake.address)

    changed = said(changed=True, output="table")
    same = said(changed=False, output="table")
    record = json.loads(said(changed=True, output="json").out)

    assert fake.desk.asked == [request_] * 3
    rest = [
        "  a: quarantined by an operator, until restored, generation 3",
        "  b: quarantined, 1m30s yet, generation 4",
        "  c: lent, generation 5",
    ]
    assert (changed.exit, changed.out.splitlines()) == (0, [f"db: {word} 3 members", *rest])
    assert (same.exit, same.out.splitlines()) == (0, ["db: nothing changed", *rest])
    assert record["changed"] is True
    assert record["members"][1] == {
        "id": "b",
        "state": "quarantined",
        "attributes": {},
        "generation": 4,
        "max_leases": 0,
        "lent": 0,
        "lendings": 0,
        "failures": 0,
        "quarantined_for_seconds": 90.0,
        "by_operator": False,
        "actor": None,
        "actor_client": None,
        "reason": None,
    }
    assert record["members"][0]["quarantined_for_seconds"] is None


@pytest.mark.parametrize(("length", "how"), [("0s", "short"), ("31d", "long")])
def test_a_quarantine_lasts_as_long_as_one_can(run: Run, fake: Fake, length: str, how: str) -> None:
    """What is wrong is said by the name of the option; nothing was asked."""
    ended = run("quarantine", "db", "a", "--for", length, "--address", fake.address)

    assert ended.exit == 2
    assert f"'--for': '{length}' is too {how}: write one from 1s to 30d" in " ".join(ended.err.split())
    assert fake.desk.asked == []


@pytest.mark.parametrize(("named", "guess"), [("aa1", "; did you mean 'a1'?"), ("zzz", "")])
def test_an_unknown_member_comes_with_a_guess(run: Run, fake: Fake, named: str, guess: str) -> None:
    """After the daemon's own sentence."""
    fake.desk.answers[pb.QuarantineMemberRequest] = Refusal(
        grpc.StatusCode.NOT_FOUND, "db: it has no such member", reason="UNKNOWN_MEMBER"
    )
    fake.desk.answers[pb.GetResourceRequest] = pb.GetResourceResponse(members=[pb.MemberState(id="a1")])
    ended = run("quarantine", "db", named, "--address", fake.address)

    assert (ended.exit, ended.err) == (2, f"governor: db: it has no such member{guess}\n")
