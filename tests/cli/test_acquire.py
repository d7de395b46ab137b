"""`governor acquire`."""

import json

import grpc
import pytest

from governor.v1 import governor_pb2 as pb
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal

SECOND = 1_000_000_000


def granted(*, waited: int = 0, remaining: int | None = 30 * SECOND) -> pb.AcquireResponse:
    """One pool member and two permits of a semaphore, under lease 17."""
    response = pb.AcquireResponse()
    lease = response.lease
    lease.id = 17
    lease.waited.FromNanoseconds(waited)
    if remaining is not None:
        lease.remaining.FromNanoseconds(remaining)
    primary = pb.Member(id="primary", generation=3, attributes={"endpoint": "db1:5432", "az": "b"})
    lease.grants.add(resource="orders-db", permits=1, members=[primary])
    lease.grants.add(resource="thumbnails", permits=2)
    return response


def ask_of(fake: Fake) -> pb.AcquireRequest:
    """The last Acquire that arrived."""
    asks = [ask for ask in fake.script.asked if isinstance(ask, pb.AcquireRequest)]
    return asks[-1]


def test_it_prints_the_lease_and_how_to_give_it_back(run: Run, fake: Fake) -> None:
    """The id, what was granted, how long it lasts; the hint names the address where it was named."""
    fake.script.acquired = granted(waited=1200_000_000)

    ended = run("acquire", "orders-db=1", "thumbnails=2", "--address", fake.address)

    assert ended.exit == 0
    assert ended.err == ""
    assert ended.out.splitlines() == [
        "lease 17, after waiting 1.2s",
        "  orders-db: 1 permit",
        "    primary (generation 3)  az=b  endpoint=db1:5432",
        "  thumbnails: 2 permits",
        f"ends in 30s; to give it back: governor --address {fake.address} release 17",
    ]


def test_the_hint_names_no_address_that_is_known_anyway(run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says it to the next command, too."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", fake.address)
    fake.script.acquired = granted()

    assert run("acquire", "thumbnails").out.endswith("ends in 30s; to give it back: governor release 17\n")


def test_what_is_spent_is_not_given_back(run: Run, fake: Fake) -> None:
    """A grant of rate limits has no end and no hint."""
    fake.script.acquired = granted(remaining=None)

    assert run("acquire", "api", "--address", fake.address).out.endswith("spent: there is nothing to give back\n")
    assert json.loads(run("acquire", "api", "-o", "json", "--address", fake.address).out)["remaining_seconds"] is None


def test_json_has_a_documented_shape(run: Run, fake: Fake) -> None:
    """The same as the table says, as numbers."""
    fake.script.acquired = granted(waited=1200_000_000)

    ended = run("acquire", "thumbnails", "-o", "json", "--address", fake.address)

    assert json.loads(ended.out) == {
        "lease": 17,
        "remaining_seconds": 30.0,
        "waited_seconds": 1.2,
        "grants": [
            {
                "resource": "orders-db",
                "permits": 1,
                "members": [{"id": "primary", "attributes": {"endpoint": "db1:5432", "az": "b"}, "generation": 3}],
            },
            {"resource": "thumbnails", "permits": 2, "members": []},
        ],
    }


def test_the_ask_is_what_the_words_say(run: Run, fake: Fake) -> None:
    """Durations are exact; what was not said is absent, so that the daemon decides."""
    run("acquire", "a", "b=3", "--permits", "2", "--address", fake.address)
    plain = ask_of(fake)
    run(
        *("acquire", "a", "--wait", "250ms", "--lease", "1h30m"),
        *("--client", "cron", "--request-id", "nightly", "--address", fake.address),
    )
    full = ask_of(fake)

    assert [(claim.resource, claim.permits) for claim in plain.claims] == [("a", 2), ("b", 3)]
    assert not plain.HasField("wait")
    assert not plain.HasField("lease")
    assert (plain.client, plain.request_id) == ("governor-cli", "")
    assert full.wait.ToNanoseconds() == 250_000_000
    assert full.lease.ToNanoseconds() == 5400 * SECOND
    assert (full.client, full.request_id) == ("cron", "nightly")


def test_a_wait_of_nothing_is_sent_as_such(run: Run, fake: Fake) -> None:
    """`--wait 0` does not wait, which is not the same as not saying."""
    run("acquire", "a", "--wait", "0", "--address", fake.address)

    assert ask_of(fake).HasField("wait")
    assert ask_of(fake).wait.ToNanoseconds() == 0


@pytest.mark.parametrize(
    ("refusal", "exit_code", "said"),
    [
        (
            Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "thumbnails: the line is full", "LINE_FULL", retry=1.17),
            75,
            "governor: thumbnails: the line is full; try again in 1.2s\n",
        ),
        (
            Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "thumbnails: none is free", "NONE_FREE"),
            75,
            "governor: thumbnails: none is free\n",
        ),
        (
            Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "the wait is over", "WAIT_OVER"),
            124,
            "governor: the wait is over\n",
        ),
        (
            Refusal(grpc.StatusCode.UNAVAILABLE, "governor: draining; try again in 5s", "DRAINING", retry=5),
            75,
            "governor: draining; try again in 5s\n",
        ),
        (
            Refusal(grpc.StatusCode.NOT_FOUND, "no such resource", "UNKNOWN_RESOURCE"),
            2,
            "governor: no such resource\n",
        ),
        (Refusal(grpc.StatusCode.OUT_OF_RANGE, "9 of 8", "ABOVE_CAPACITY"), 2, "governor: 9 of 8\n"),
        (Refusal(grpc.StatusCode.INVALID_ARGUMENT, "claims[0]", "MALFORMED"), 2, "governor: claims[0]\n"),
        (
            Refusal(grpc.StatusCode.UNAUTHENTICATED, "who are you", "UNAUTHENTICATED"),
            4,
            "governor: who are you\n",
        ),
        (
            Refusal(grpc.StatusCode.PERMISSION_DENIED, "you may not"),
            4,
            "governor: PERMISSION_DENIED: you may not\n",
        ),
        (Refusal(grpc.StatusCode.INTERNAL, "oh no\x1b[2J"), 70, "governor: INTERNAL: oh no\\x1b[2J\n"),
    ],
    ids=lambda value: value.details if isinstance(value, Refusal) else "",
)
def test_a_denial_is_one_line_and_an_exit_code(
    run: Run, fake: Fake, refusal: Refusal, exit_code: int, said: str
) -> None:
    """The daemon's sentence, and when to try again where it knows."""
    fake.script.acquired = refusal

    ended = run("acquire", "thumbnails", "--address", fake.address)

    assert (ended.exit, ended.out, ended.err) == (exit_code, "", said)


def test_a_status_of_grpc_itself_is_told_from_one_of_the_daemon(run: Run, fake: Fake) -> None:
    """Without the daemon's reason: lost on the way, not understood, too big to be sent; never "try later"."""
    fake.script.acquired = Refusal(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    lost = run("acquire", "a", "--address", fake.address)
    fake.script.acquired = Refusal(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    other = run("acquire", "a", "--address", fake.address)
    fake.script.acquired = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max")
    big = run("acquire", "a", "--address", fake.address)

    assert (lost.exit, other.exit, big.exit) == (3, 3, 2)
    assert "no answer from the daemon" in lost.err
    assert "not this governor" in other.err
    assert "larger than max" in big.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "--permits", "0"],
        ["a", "--permits", "many"],
        ["a=0"],
        ["a", "a"],
        ["a", "--wait", "5"],
        ["a", "--wait", "-1s"],
        ["a", "--wait", "soon"],
        ["a", "--lease", "9999999d"],
        ["a", "--client", "\udcff"],
        ["a", "-o", "yaml"],
        ["a", "--address", "nowhere"],
        ["a", "--address", "unix:/" + "x" * 200],
    ],
    ids=" ".join,
)
def test_words_that_make_no_ask_are_refused_here(run: Run, arguments: list[str]) -> None:
    """Exit code 2 and a sentence, before anything is connected."""
    ended = run("acquire", *arguments)

    assert (ended.exit, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert ended.err.strip()


def test_a_number_of_permits_is_refused_in_our_words(run: Run) -> None:
    """With the bounds of the daemon, and what was written."""
    assert "'four' is not a whole number from 1 to 2147483647" in run("acquire", "a", "--permits", "four").err
    assert "'2147483648' is not a whole number" in run("acquire", "a", "--permits", "2147483648").err


def test_a_length_in_words_is_told_how_it_is_written(run: Run) -> None:
    """In the form that works, not just that this one does not."""
    assert "'5 seconds' is no duration: write 5s" in run("acquire", "a", "--wait", "5 seconds").err


def test_a_missing_unit_is_explained(run: Run) -> None:
    """`--wait 5` could be anything, so the complaint shows how it is written."""
    assert "add a unit" in run("acquire", "a", "--wait", "5").err


@pytest.mark.parametrize("command", [["acquire", "a"], ["renew", "1"], ["run", "a"]])
@pytest.mark.parametrize("length", ["0", "0s", "0m"])
def test_a_lease_of_no_length_is_a_mistake(run: Run, fake: Fake, command: list[str], length: str) -> None:
    """It says what is usual, before anything is asked."""
    rest = ["--", "true"] if command[0] == "run" else []
    ended = run(*command, "--lease", length, "--address", fake.address, *rest)

    assert (ended.exit, ended.out) == (2, "")
    assert "a lease lasts at least 1ms; without --lease as long as is usual" in " ".join(ended.err.split())
    assert fake.script.asked == []
