"""`governor release`."""

import json

import grpc
import pytest

from governor.v1 import governor_pb2 as pb
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal

ENDED = Refusal(
    grpc.StatusCode.FAILED_PRECONDITION,
    "lease 17: expired 3s ago",
    "LEASE_ENDED",
    metadata={"lease": "17", "ended": "expired", "ended_ago_ms": "3000"},
)
UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "lease 17: no such lease", "UNKNOWN_LEASE", metadata={"lease": "17"})


def several() -> pb.ReleaseResponse:
    """The results of 17, 18 and 19: released, ended, unknown."""
    response = pb.ReleaseResponse()
    response.results.add(lease_id=17, state=pb.LeaseResult.RELEASED)
    ended = response.results.add(lease_id=18, state=pb.LeaseResult.ENDED)
    ended.ended.reason = "expired"
    ended.ended.ago.FromNanoseconds(1_500_000_000)
    response.results.add(lease_id=19, state=pb.LeaseResult.UNKNOWN)
    return response


def test_it_says_what_became_of_each_lease(run: Run, fake: Fake) -> None:
    """In the order asked; all released is exit code 0."""
    ended = run("release", "17", "18", "--address", fake.address)

    assert (ended.exit, ended.err) == (0, "")
    assert ended.out.splitlines() == ["lease 17: released", "lease 18: released"]


def test_one_of_several_that_had_ended_makes_it_exit_with_1(run: Run, fake: Fake) -> None:
    """The table says which, why and when."""
    fake.script.released = several()

    ended = run("release", "17", "18", "19", "--address", fake.address)

    assert ended.exit == 1
    assert ended.out.splitlines() == [
        "lease 17: released",
        "lease 18: had ended 1.5s ago (expired)",
        "lease 19: unknown",
    ]


@pytest.mark.parametrize("refusal", [ENDED, UNKNOWN], ids=["ended", "unknown"])
def test_a_single_lease_that_had_ended_is_the_sentence_of_the_daemon(run: Run, fake: Fake, refusal: Refusal) -> None:
    """On stderr, with the same exit code as among several."""
    fake.script.released = refusal

    ended = run("release", "17", "--address", fake.address)

    assert (ended.exit, ended.out, ended.err) == (1, "", f"governor: {refusal.details}\n")


def test_json_has_one_shape_for_one_and_for_several(run: Run, fake: Fake) -> None:
    """Though the wire says it in a status for one and in results for several."""
    fake.script.released = several()
    many = run("release", "17", "18", "19", "-o", "json", "--address", fake.address)
    fake.script.released = ENDED
    ended = run("release", "17", "-o", "json", "--address", fake.address)
    fake.script.released = UNKNOWN
    unknown = run("release", "17", "-o", "json", "--address", fake.address)

    assert (many.exit, ended.exit, unknown.exit) == (1, 1, 1)
    assert json.loads(many.out)["results"] == [
        {"lease": 17, "state": "released", "reason": None, "ended_seconds_ago": None},
        {"lease": 18, "state": "ended", "reason": "expired", "ended_seconds_ago": 1.5},
        {"lease": 19, "state": "unknown", "reason": None, "ended_seconds_ago": None},
    ]
    assert json.loads(ended.out)["results"] == [
        {"lease": 17, "state": "ended", "reason": "expired", "ended_seconds_ago": 3.0}
    ]
    assert json.loads(unknown.out)["results"] == [
        {"lease": 17, "state": "unknown", "reason": None, "ended_seconds_ago": None}
    ]


@pytest.mark.parametrize(
    ("outcome", "sent"),
    [
        ([], pb.OUTCOME_UNKNOWN),
        (["--outcome", "ok"], pb.OUTCOME_OK),
        (["--outcome", "broken"], pb.OUTCOME_BROKEN),
    ],
)
def test_the_outcome_is_passed_on(run: Run, fake: Fake, outcome: list[str], sent: pb.Outcome.ValueType) -> None:
    """Unless said, nothing is known of the members."""
    run("release", "17", *outcome, "--address", fake.address)

    assert fake.script.asked == [pb.ReleaseRequest(lease_ids=[17], outcome=sent)]


@pytest.mark.parametrize("arguments", [[], ["0"], ["-1"], ["many"], [str(2**63)], ["1", "--outcome", "fine"]])
def test_what_is_no_lease_id_is_refused_here(run: Run, arguments: list[str]) -> None:
    """Exit code 2, before anything is connected."""
    ended = run("release", *arguments)

    assert (ended.exit, ended.out) == (2, "")
    assert ended.err.strip()
