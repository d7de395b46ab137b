"""How quantities and foreign text read."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.units import parse_duration
from governor.wording import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    count,
    counted,
    harmless,
    ordinal,
    printable,
    said,
    span,
)

# About whole numbers of any unit, where one way of writing it ends and the next begins.
lengths = st.builds(
    lambda number, unit, more: max(0, number * unit + more),
    st.integers(0, 100),
    st.sampled_from([MILLISECOND, SECOND, MINUTE, HOUR, DAY]),
    st.integers(-2, 2),
)


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (1, "1ms"),
        (250 * MILLISECOND, "250ms"),
        (999 * MILLISECOND, "999ms"),
        (999 * MILLISECOND + 1, "1s"),
        (1200 * MILLISECOND, "1.2s"),
        (29_990 * MILLISECOND, "30s"),
        (59_900 * MILLISECOND, "59.9s"),
        (59_901 * MILLISECOND, "1m"),
        (310 * SECOND, "5m10s"),
        (HOUR - 1, "1h"),
        (3 * HOUR + 5 * MINUTE, "3h05m"),
        (DAY - 1, "1d"),
        (2 * DAY + 4 * HOUR, "2d04h"),
        (7 * DAY, "7d"),
    ],
)
def test_a_span_is_short_and_rounded_up(nanos: int, text: str) -> None:
    """Two units at most, the smaller one rounded up and carried over."""
    assert span(nanos) == text


@given(st.integers(1, 400 * DAY))
def test_a_span_is_never_too_short(nanos: int) -> None:
    """Who waits for as long as the text says has waited long enough, and at most a tenth too long."""
    said = parse_duration(span(nanos))

    assert nanos <= said <= nanos + max(MILLISECOND, nanos // 10)


@given(st.integers(0, 400 * DAY) | lengths, st.booleans())
def test_a_span_says_nothing_of_what_is_not_there(nanos: int, passed: bool) -> None:  # noqa: FBT001
    """Whole days, hours and minutes are just that; and what is said can be said again."""
    text = span(nanos, passed=passed)

    assert re.fullmatch(r"0s|[1-9]\d*(ms|s|m|h|d)|[1-9]\d?\.[1-9]s|0\.[1-9]s|[1-9]\d*(m\d\ds|h\d\dm|d\d\dh)", text)
    assert not re.search(r"\D00\D", text)
    assert span(parse_duration(text), passed=passed) == text


def test_one_is_singular() -> None:
    """All other numbers are plural."""
    assert [count(number, "permit") for number in (0, 1, 2)] == ["0 permits", "1 permit", "2 permits"]


@pytest.mark.parametrize("text", ["thumbnails", "a/b & c", "größe", "資源", ""])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Names may hold anything that can be seen."""
    assert printable(text) == text


def test_control_characters_do_not_reach_the_terminal() -> None:
    """A name cannot move the cursor, clear the screen or turn the reading direction."""
    assert printable("a\x1b[2Jb\nc\u202e") == "a\\x1b[2Jb\\nc\\u202e"


def test_resources_are_counted_by_kind() -> None:
    """In alphabetical order, whatever the order of the file."""
    assert counted(["semaphore", "pool", "semaphore"]) == "3 resources (1 pool, 2 semaphores)"
    assert counted([]) == "no resources"


def test_places_in_a_row_are_words() -> None:
    """Also those that end otherwise than their last digit says."""
    words = [ordinal(number) for number in (1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 111, 112, 123)]
    assert " ".join(words) == "1st 2nd 3rd 4th 10th 11th 12th 13th 20th 21st 22nd 111th 112th 123rd"


def test_who_has_ordered_something_and_why() -> None:
    """As far as he said."""
    assert [said("joe", "a sale"), said("joe", ""), said("", "a sale"), said("", "")] == [
        "by joe: a sale",
        "by joe",
        "a sale",
        "",
    ]
    assert [said("joe", "a sale", "ops"), said("joe", "", "ops"), said("", "a sale", "ops"), said("", "", "ops")] == [
        "by joe, client ops: a sale",
        "by joe, client ops",
        "by client ops: a sale",
        "by client ops",
    ]


@given(st.text())
def test_json_does_nothing_to_a_terminal_and_says_the_same(text: str) -> None:
    """Neither a line of it nor many, whatever is in it; what can be seen stays as it is."""
    for indent in (None, 2):
        document = harmless(json.dumps({text: [text, "größe"]}, ensure_ascii=False, indent=indent))
        assert json.loads(document) == {text: [text, "größe"]}
        assert all(line.isprintable() for line in document.split("\n"))
        assert "größe" in document
