"""What may be asked for, and what is refused where it is asked: a mistake must not travel."""

import enum
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest

from governor.client.asks import LEAST, PATIENCE, SECOND, Ask, Shape, claims_of, nanos, words
from governor.client.errors import UsageError
from governor.client.settings import Settings
from tests.client.scene import nobody


class Name(enum.StrEnum):
    """Names in a program are often of a type of their own."""

    ORDERS = "orders-db"


def test_claims_are_one_name_or_numbers_by_name() -> None:
    """One permit, if nothing else is said; in the order in which they are given."""
    assert claims_of("x", None) == (("x", 1),)
    assert claims_of("x", 3) == (("x", 3),)
    assert claims_of(Name.ORDERS, None) == (("orders-db", 1),)
    assert claims_of({"b": 1, "a": 2}, None) == (("b", 1), ("a", 2))


@pytest.mark.parametrize(
    ("claims", "permits", "words"),
    [
        ("", None, "a resource is named by"),
        ({}, None, "nothing to acquire"),
        ({"": 1}, None, "a resource is named by"),
        ({1: 1}, None, "a resource is named by"),
        ("x", 0, "x: permits are a whole number from 1, not 0"),
        ("x", -1, "from 1"),
        ("x", 1.0, "from 1"),
        ("x", True, "from 1"),
        ("x", "2", "from 1"),
        ("x", 2**63, "from 1"),
        ({"x": 0}, None, "from 1"),
        ({"x": None}, None, "from 1"),
        ({"x": 1}, 2, "permits is for a single resource"),
        ("\udc80", None, "is no text"),
        ("x" * 70_000, None, "at most"),
    ],
)
def test_claims_that_make_no_sense_are_refused(claims: object, permits: object, words: str) -> None:
    """By what is wrong with them."""
    with pytest.raises(UsageError, match=words):
        claims_of(cast("Any", claims), cast("Any", permits))


def test_lengths_are_seconds() -> None:
    """They travel as nanoseconds; none is not zero."""
    assert nanos("wait", None) is None
    assert nanos("wait", 0) == 0
    assert nanos("wait", 1.5) == 1_500_000_000
    assert nanos("wait", 10**8) == 10**17


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf, 1e9, "5", True, object()])
def test_lengths_that_make_no_sense_are_refused(seconds: object) -> None:
    """By their name."""
    with pytest.raises(UsageError, match="wait is a number of seconds, 0 or more"):
        nanos("wait", cast("Any", seconds))


def test_labels_are_in_an_order_that_is_always_the_same() -> None:
    """So asks with the same labels are alike."""
    assert words(None) == words({}) == ()
    assert words({"b": "1", "a": ""}) == (("a", ""), ("b", "1"))


@pytest.mark.parametrize("labels", [{"a": 1}, {1: "a"}, {"a": None}, {"a": b"b"}, {"a": "\ud800"}, {"a": "b" * 70_000}])
def test_labels_that_cannot_travel_are_refused(labels: Mapping[Any, Any]) -> None:
    """They would end the client's own thread, or the session of everybody."""
    with pytest.raises(UsageError):
        words(labels)
    with pytest.raises(UsageError):
        Settings("db1:1", None, labels, "raise")


def test_the_largest_ask_that_is_let_out_fits_into_a_message() -> None:
    """One that does not would end the session of everybody in the program, again and again until its wait is over."""
    most = 2**63 - 1
    for length in (3, 4, 48, 1000):
        number = 65_536 // (length + 16)
        names = [f"{at:0{length}d}" if length > 3 else chr(0x800 + at) for at in range(number)]
        claims = claims_of(dict.fromkeys(names, most), None)
        labels = words(dict.fromkeys(names[: number // 2], ""))
        assert len(Shape(claims, most, most, labels).message().SerializeToString()) < 128 * 1024
    with pytest.raises(UsageError, match="say less"):
        claims_of(dict.fromkeys([chr(0x800 + at) for at in range(4_000)], 1), None)


def test_a_shape_says_all_there_is_to_an_ask() -> None:
    """But its op."""
    shape = Shape((("x", 2), ("y", 1)), 1_500_000_000, 30 * SECOND, (("team", "shop"),))
    (ask,) = shape.message().acquires

    assert [(claim.resource, claim.permits) for claim in ask.claims] == [("x", 2), ("y", 1)]
    assert (ask.wait.seconds, ask.wait.nanos, ask.lease.seconds) == (1, 500_000_000, 30)
    assert dict(ask.labels) == {"team": "shop"}
    assert ask.op == 0


def test_asks_from_one_place_share_their_shape() -> None:
    """A program asks the same again and again; numbers that look alike are not mixed up."""
    settings = Settings("db1:1", None, {}, "raise")

    def shape(permits: int | None = None, wait: float | None = None) -> Shape:
        return settings.ask("x", permits, wait=wait, lease=None, labels=None).shape

    assert shape() is shape()
    assert shape(2) is not shape(3)
    assert (shape(wait=1).wait, shape(wait=0).wait, shape().wait) == (SECOND, 0, None)
    for number in range(1000):
        shape(wait=number)
    assert len(settings._shapes) <= 256


def test_an_ask_is_due_when_its_wait_is_over() -> None:
    """Or its patience with a daemon that does not even put it in line; to answer takes time in any case."""
    now = 100 * SECOND

    def due(wait: float | None, *, patient: bool = False) -> int | None:
        ask = Ask(Shape((("x", 1),), nanos("wait", wait)), nobody, now, patient=patient)
        return None if ask.deadline is None else ask.deadline - now

    assert due(None) == PATIENCE
    assert due(None, patient=True) is None
    assert due(0) == due(0.1) == due(0.1, patient=True) == LEAST
    assert due(60) == due(60, patient=True) == 60 * SECOND


def test_whoever_does_not_wait_in_line_does_not_wait_for_the_daemon() -> None:
    """However patient the client is otherwise."""
    patient = Settings("db1:1", None, {}, "wait")

    assert not patient.ask("x", None, wait=0, lease=None, labels=None).patient
    assert patient.ask("x", None, wait=1, lease=None, labels=None).patient
    assert patient.ask("x", None, wait=None, lease=None, labels=None).patient


@pytest.mark.parametrize("lease", [0, -1, True, 1.0, "1", None])
def test_a_lease_id_is_a_whole_number(lease: object) -> None:
    """From 1."""
    with pytest.raises(UsageError, match="a lease id is a whole number from 1"):
        Settings("db1:1", None, {}, "raise").adoption(cast("Any", lease))


def test_what_to_do_without_a_daemon_is_one_of_three() -> None:
    """A slip of the pen must not read as the default."""
    with pytest.raises(UsageError, match="unavailable is"):
        Settings("db1:1", None, {}, cast("Any", "ignore"))
