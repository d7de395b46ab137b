"""The one table from reasons to answers."""

import pytest
from google.rpc import error_details_pb2
from grpc import StatusCode

from governor.core.types import MILLISECOND, SECOND, Denial, Ended, EndReason, LeaseId, Reason
from governor.rpc import status
from tests.rpc.refusals import unpacked

CODES = {
    Reason.MALFORMED: StatusCode.INVALID_ARGUMENT,
    Reason.REQUEST_ID_REUSED: StatusCode.INVALID_ARGUMENT,
    Reason.UNKNOWN_RESOURCE: StatusCode.NOT_FOUND,
    Reason.UNKNOWN_LEASE: StatusCode.NOT_FOUND,
    Reason.ABOVE_CAPACITY: StatusCode.OUT_OF_RANGE,
    Reason.NONE_FREE: StatusCode.RESOURCE_EXHAUSTED,
    Reason.WAIT_OVER: StatusCode.RESOURCE_EXHAUSTED,
    Reason.LINE_FULL: StatusCode.RESOURCE_EXHAUSTED,
    Reason.HOPELESS: StatusCode.RESOURCE_EXHAUSTED,
    Reason.LEASE_ENDED: StatusCode.FAILED_PRECONDITION,
    Reason.PAUSED: StatusCode.UNAVAILABLE,
    Reason.DRAINING: StatusCode.UNAVAILABLE,
    Reason.STATE_UNWRITABLE: StatusCode.UNAVAILABLE,
    Reason.UNAUTHENTICATED: StatusCode.UNAUTHENTICATED,
    Reason.PERMISSION_DENIED: StatusCode.PERMISSION_DENIED,
    Reason.CLIENT_LIMIT: StatusCode.RESOURCE_EXHAUSTED,
}


def test_the_table_is_total() -> None:
    """Every reason has an answer, and the one that clients are promised."""
    assert set(Reason) == set(status.TABLE)
    assert {reason: row.code for reason, row in status.TABLE.items()} == CODES


def test_every_way_to_end_has_words() -> None:
    """An ended lease can always say why."""
    for reason in EndReason:
        said = status.refusal(Denial(Reason.LEASE_ENDED, ended=Ended(reason, 1200 * MILLISECOND)), lease=LeaseId(7))

        assert "lease 7: " in said.message
        assert " 1.2s ago" in said.message


@pytest.mark.parametrize("reason", Reason)
def test_every_sentence_says_what_to_do(reason: Reason) -> None:
    """No placeholder is left, and after what was wrong comes a way out."""
    denial = Denial(
        reason,
        resource="orders-db",
        field="claims[0].permits",
        expected="a number from 1 to 10",
        asked=12,
        limit=10,
        ended=Ended(EndReason.EXPIRED, SECOND),
    )

    message = status.refusal(denial, lease=LeaseId(7), waited=SECOND).message

    assert not {"{", "}"} & set(message)
    assert "None" not in message
    where, _, what = message.partition(": ")
    assert where
    assert reason is Reason.MALFORMED or "; " in what


@pytest.mark.parametrize(
    ("denial", "message"),
    [
        (
            Denial(Reason.ABOVE_CAPACITY, "orders-db", asked=12, limit=10),
            "orders-db: 12 permits asked, but it only ever has 10; ask for fewer or raise its capacity",
        ),
        (
            Denial(Reason.ABOVE_CAPACITY, "closed", asked=1, limit=0),
            "closed: 1 permit asked, but it only ever has 0; ask for fewer or raise its capacity",
        ),
        (
            Denial(Reason.MALFORMED, field="client", expected="at most 256 bytes of text", asked=300),
            "client: expected at most 256 bytes of text, not 300",
        ),
        (
            Denial(Reason.MALFORMED, "orders-db", field="lease", expected="at most its max_lease of 60s"),
            "lease for orders-db: expected at most its max_lease of 60s",
        ),
        (
            Denial(Reason.LINE_FULL, "orders-db", limit=1000),
            "orders-db: its line is full, with 1000 asks; try again later, or raise its max_waiters",
        ),
        (
            Denial(Reason.HOPELESS, "api", retry_after=2340 * MILLISECOND),
            "api: the permits come only after this ask's wait would be over; try again in 2.4s, or wait longer",
        ),
        (
            Denial(Reason.DRAINING),
            (
                "governor: draining: it is about to end, so nobody waits in line any more; "
                "try again in 1s, or when it is back"
            ),
        ),
        (
            Denial(Reason.DRAINING, "orders-db"),
            "orders-db: draining: an operator lets nobody in any more; try again in 1s, or ask for it to be resumed",
        ),
    ],
)
def test_sentences(denial: Denial, message: str) -> None:
    """What people read."""
    assert message == status.refusal(denial).message


def test_a_daemon_that_is_starting_does_not_blame_its_disk() -> None:
    """It has no ids of leases yet; only one whose state cannot be written sends people to its log."""
    starting = status.sentence(Denial(Reason.STATE_UNWRITABLE, expected="lease ids"))
    unwritable = status.sentence(Denial(Reason.STATE_UNWRITABLE))

    assert starting.startswith("governor: starting, or waiting for its disk: ")
    assert "cannot be written" not in starting
    assert (
        "its state or its audit file cannot be written, so it grants nothing; see its log, and try again in 1s"
        in unwritable
    )


def test_a_known_time_is_promised_in_every_form() -> None:
    """RetryInfo is exact; the milliseconds of the header are rounded up, so that nobody comes too early."""
    said = status.refusal(Denial(Reason.NONE_FREE, "api", retry_after=1_000_001))

    metadata = dict(said.metadata)
    assert metadata["grpc-retry-pushback-ms"] == "2"
    raw = metadata["grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    retry = unpacked(raw)[1]["RetryInfo"]
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.ToNanoseconds() == 1_000_001


def test_a_far_time_fits_the_header() -> None:
    """Years do not overflow the 32 bits that clients read."""
    said = status.refusal(Denial(Reason.NONE_FREE, "api", retry_after=10**9 * SECOND))

    assert dict(said.metadata)["grpc-retry-pushback-ms"] == str(2**31 - 1)


def test_what_nobody_knows_is_not_promised() -> None:
    """Without a time there is no RetryInfo and no pushback."""
    said = status.refusal(Denial(Reason.LINE_FULL, "sem", limit=1))

    assert [key for key, _ in said.metadata] == ["grpc-status-details-bin"]
    raw = said.metadata[0][1]
    assert isinstance(raw, bytes)
    assert set(unpacked(raw)[1]) == {"ErrorInfo", "QuotaFailure"}


@pytest.mark.parametrize("reason", Reason)
def test_a_hostile_name_stays_small_and_quiet(reason: Reason) -> None:
    """Neither headers nor terminals suffer from what a client calls things."""
    name = "\x1b[2J\n\u202e" + "x" * 100_000

    said = status.refusal(Denial(reason, name, field="claims[0].resource", ended=Ended(EndReason.EXPIRED, 0)))

    assert said.message.isprintable()
    assert len(said.message.encode()) < 600
    assert sum(len(key) + len(value) for key, value in said.metadata) < 4000
