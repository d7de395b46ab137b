"""Durations and rates are exact integers, and each has one way to be written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.types import MILLISECOND, SECOND
from governor.units import (
    DAY,
    HOUR,
    MAX_DURATION,
    MINUTE,
    SIZES,
    Rate,
    UnitError,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0", 0),
        ("0s", 0),
        ("0ms", 0),
        ("250ms", 250 * MILLISECOND),
        ("30s", 30 * SECOND),
        ("5m", 5 * MINUTE),
        ("1h", HOUR),
        ("1d", DAY),
        ("1h30m", HOUR + 30 * MINUTE),
        ("1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5 * MILLISECOND),
        ("1.5s", 1_500_000_000),
        ("0.1s", 100_000_000),
        ("0.000000001s", 1),
        ("0.000001ms", 1),
        ("1m0.25s", MINUTE + SECOND // 4),
        ("007s", 7 * SECOND),
        ("3650d", MAX_DURATION),
    ],
)
def test_a_duration_is_read_to_the_nanosecond(text: str, length: int) -> None:
    """No float is involved: 0.1s is a hundred million nanoseconds."""
    assert parse_duration(text) == length


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", ""),
        ("eight", ""),
        ("-5s", ""),
        ("+5s", ""),
        ("s", ""),
        (".5s", ""),
        ("5.s", ""),
        ("1.5.5s", ""),
        ("1e3s", ""),
        ("٣s", ""),
        ("1" * 21 + "s", ""),
        ("1s\n", "write it without spaces, as in 30s"),
        ("30 s", "write it without spaces, as in 30s"),
        ("30", "add a unit (ms, s, m, h or d)"),
        ("1.5", "add a unit (ms, s, m, h or d)"),
        ("00", "add a unit (ms, s, m, h or d)"),
        ("30sec", "the units are ms, s, m, h and d"),
        ("5min", "the units are ms, s, m, h and d"),
        ("1w", "the units are ms, s, m, h and d"),
        ("1S", "the units are ms, s, m, h and d"),
        ("1us", "the units are ms, s, m, h and d"),
        ("1s1h", "write each unit once, the larger ones first"),
        ("1s1s", "write each unit once, the larger ones first"),
        ("1.5h30m", "only the last number can have a fraction"),
        ("0.0000000001s", "a fraction finer than a nanosecond cannot be kept"),
    ],
)
def test_what_is_no_duration_is_refused_with_a_hint(text: str, hint: str) -> None:
    """The hint says the way out and never repeats the text."""
    with pytest.raises(UnitError) as caught:
        parse_duration(text)

    assert str(caught.value) == hint


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0s"),
        (1, "0.000001ms"),
        (250 * MILLISECOND, "250ms"),
        (999_999_999, "999.999999ms"),
        (SECOND, "1s"),
        (1_500_000_000, "1.5s"),
        (90 * SECOND, "1m30s"),
        (HOUR, "1h"),
        (24 * HOUR, "1d"),
        (25 * HOUR + 1, "1d1h0.000000001s"),
        (MAX_DURATION, "3650d"),
    ],
)
def test_a_duration_is_written_short(length: int, text: str) -> None:
    """Zero parts are left out; what is below a second is written in milliseconds."""
    assert format_duration(length) == text


@given(st.integers(0, 2 * MAX_DURATION))
def test_a_written_duration_is_read_back(length: int) -> None:
    """Writing and reading lose nothing, whatever the length."""
    assert parse_duration(format_duration(length)) == length


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/s", Rate(100, SECOND)),
        ("1000/h", Rate(1000, HOUR)),
        ("10/30s", Rate(10, 30 * SECOND)),
        ("5/1m30s", Rate(5, 90 * SECOND)),
        ("1/ms", Rate(1, MILLISECOND)),
        ("1/0.5s", Rate(1, SECOND // 2)),
        ("0/s", Rate(0, SECOND)),
        ("1000000001/s", Rate(1_000_000_001, SECOND)),
    ],
)
def test_a_rate_is_permits_in_a_period(text: str, rate: Rate) -> None:
    """The period is one unit or any duration."""
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", ""),
        ("/s", ""),
        ("10/", ""),
        ("-1/s", ""),
        ("1.5/s", ""),
        ("10 / s", "write it without spaces, as in 100/s"),
        ("10/s/s", ""),
        (".nan/s", ""),
        ("1" * 21 + "/s", ""),
        ("100", "say in what time, as in 100/s"),
        ("10/30", "add a unit (ms, s, m, h or d)"),
        ("10/sec", "the units are ms, s, m, h and d"),
        ("10/5min", "the units are ms, s, m, h and d"),
        ("10/ s", "write it without spaces, as in 100/s"),
        ("10/0", "the time after the slash cannot be 0"),
        ("10/0s", "the time after the slash cannot be 0"),
    ],
)
def test_what_is_no_rate_is_refused_with_a_hint(text: str, hint: str) -> None:
    """The hint says the way out and never repeats the text."""
    with pytest.raises(UnitError) as caught:
        parse_rate(text)

    assert str(caught.value) == hint


@given(st.integers(0, 2**31 - 1), st.one_of(st.integers(1, MAX_DURATION), st.sampled_from([SECOND, MINUTE, HOUR, DAY])))
def test_a_written_rate_is_read_back(permits: int, period: int) -> None:
    """Writing and reading lose nothing, whatever the rate."""
    rate = Rate(permits, period)

    assert parse_rate(format_rate(rate)) == rate


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64KiB", 65_536),
        ("1MiB", 2**20),
        ("2GiB", 2**31),
        ("1TiB", 2**40),
        ("1kB", 1000),
        ("1KB", 1000),
        ("5GB", 5 * 10**9),
    ],
)
def test_a_size_is_in_bytes(text: str, size: int) -> None:
    """By the two kinds of units that say which they are."""
    assert parse_size(text) == size


@given(st.integers(1, 2**30), st.sampled_from(sorted(SIZES.values())))
def test_a_written_size_is_read_back(number: int, unit: int) -> None:
    """Whatever the size."""
    assert parse_size(format_size(number * unit)) == number * unit


@pytest.mark.parametrize(
    "text", ["", "1", "1M", "1m", "1G", "1 MiB", "1.5MiB", "-1MiB", "MiB", "1mib", "1MiB ", "1MiB2KiB"]
)
def test_what_is_no_size(text: str) -> None:
    """A bare M may be a million or more, so it is not guessed."""
    with pytest.raises(UnitError):
        parse_size(text)


@given(st.text(max_size=40) | st.from_regex(r"[0-9.]{0,30}[a-z/ ]{0,4}[0-9.]{0,9}[a-z]{0,3}", fullmatch=True))
def test_any_text_is_a_duration_or_a_unit_error(text: str) -> None:
    """Nothing else is ever raised, and what is read is never negative."""
    for parse in (parse_duration, parse_rate, parse_size):
        try:
            value = parse(text)
        except UnitError:
            continue
        assert value == 0 or isinstance(value, Rate) or value > 0


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5 seconds", "5s"),
        ("30sec", "30s"),
        ("1H", "1h"),
        ("1 hour, 30 minutes", "1h30m"),
        ("1 hour and 5 min", "1h5m"),
        ("1.5 weeks", "10d12h"),
        ("0.5 sec", "500ms"),
        ("90 min", "1h30m"),
        ("soon", ""),
        ("5 parsecs", ""),
        ("-5 s", ""),
        ("0 seconds", ""),
        ("9999 weeks", ""),
        ("0.00000000001 sec", ""),
        ("1 s" + " " * 100, ""),
    ],
)
def test_an_everyday_length_is_told_how_it_is_written_here(text: str, meant: str) -> None:
    """Where it can be told, in a form that is then read as what was meant."""
    with pytest.raises(UnitError) as caught:
        parse_duration(text)

    assert caught.value.meant == meant
    assert meant == "" or format_duration(parse_duration(meant)) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("100 per second", "100/s"),
        ("100 / s", "100/s"),
        ("100/sec", "100/s"),
        ("100/minute", "100/m"),
        ("10 per 30 seconds", "10/30s"),
        ("1000 an hour", "1000/h"),
        ("1.5/s", "3/2s"),
        ("0.5 / m", "1/2m"),
        ("0.1 per day", "1/10d"),
        ("10/", ""),
        ("10/30", ""),
        ("10/0 s", ""),
        ("many per second", ""),
        ("-1/s", ""),
        ("2147483648 per s", ""),
        ("0.0001 / d", ""),
        ("1 / s" + " " * 100, ""),
    ],
)
def test_an_everyday_rate_is_told_how_it_is_written_here(text: str, meant: str) -> None:
    """A fraction becomes whole permits in a longer time, which is the same rate."""
    with pytest.raises(UnitError) as caught:
        parse_rate(text)

    assert caught.value.meant == meant
    assert meant == "" or format_rate(parse_rate(meant)) == meant
