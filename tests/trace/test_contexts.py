"""What an ask follows from is read as the recommendation has it; what is not as it says is nothing, without a word."""

import random
from collections.abc import Iterator
from typing import Final

import pytest
from opentelemetry.trace import SpanContext, TraceState, get_current_span

from governor.trace.contexts import ROOT, context_of
from governor.tracewords import MAX_TRACESTATE
from tests.trace.books import PARENT, TRACE_ID

# What a state is made of, and what it is not.
_PIECES: Final = (
    "a",
    "z9",
    "A",
    "@",
    "=",
    ",",
    " ",
    "\t",
    "\n",
    "\x1b[2J",
    "*",
    "-/_",
    "\x7f",
    "~",
    "é",
    "1",
    "k" * 250,
)


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever somebody says, who may be anybody: it is no line of the log, and stands in none."""
    caplog.set_level(0)
    yield
    assert not caplog.records


def _read(traceparent: str, tracestate: str = "") -> SpanContext:
    return get_current_span(context_of(traceparent, tracestate)).get_span_context()


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        PARENT[:-1],
        PARENT + "-more",
        PARENT.upper(),
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        "00-" + "\U0001f98a" * 32 + "-b7ad6b7169203331-01",
        "\x1b[2J",
        PARENT + " " * 100_000,
    ],
)
def test_a_parent_that_is_none_is_nothing(traceparent: str) -> None:
    """Its state neither."""
    assert context_of(traceparent, "vendor=1") is ROOT


@pytest.mark.parametrize(
    "tracestate",
    [
        "=",
        "a",
        "a=",
        "A=1",
        "a=1,b",
        "a=1\x1b[2J",
        "a=é",
        "a=b=c",
        "a=1,b=2,a=3",
        "k=v," * 100,
        ",".join(f"k{number}=1" for number in range(33)),
        "a=" + "b" * 257,
        "a=" + "b" * 600,
        "a" * 257 + "=1",
        "1a=1",
        f"a@{'b' * 15}=1",
        "\n",
        "\nforged line",
        "\U0001f98a=1",
    ],
)
def test_a_state_that_is_none_leaves_the_parent_as_it_is(tracestate: str) -> None:
    """Only the state is dropped, and all of it."""
    read = _read(PARENT, tracestate)

    assert f"{read.trace_id:032x}" == TRACE_ID
    assert not read.trace_state.to_header()


@pytest.mark.parametrize(
    ("tracestate", "carried"),
    [
        ("a=1", "a=1"),
        (" a=1 ,\tb=2,, c=x y", "a=1,b=2,c=x y"),
        ("1a@b=1,a-_*/0=~!", "1a@b=1,a-_*/0=~!"),
        ("a=" + "b" * 256, "a=" + "b" * 256),
        (",".join(f"k{number}=1" for number in range(32)), ",".join(f"k{number}=1" for number in range(32))),
    ],
)
def test_a_state_that_is_one_is_carried(tracestate: str, carried: str) -> None:
    """In its order, without what may stand around its members."""
    assert _read(PARENT, tracestate).trace_state.to_header() == carried


def test_a_later_version_of_the_header_is_understood() -> None:
    """As the recommendation wants it."""
    assert f"{_read('01' + PARENT[2:] + '-something').trace_id:032x}" == TRACE_ID


@pytest.mark.parametrize("seed", range(20))
def test_no_state_is_worth_a_line(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is made of; what is given to the SDK is carried whole, so it likes all of it."""
    given: list[str] = []
    read = TraceState.from_header

    def reads(header_list: list[str]) -> TraceState:
        given.extend(header_list)
        return read(header_list)

    monkeypatch.setattr(TraceState, "from_header", reads)
    rng = random.Random(seed)
    for _ in range(200):
        state = "".join(rng.choices(_PIECES, k=rng.randrange(1, 9)))[: MAX_TRACESTATE + 9]
        assert _read(PARENT, f"a{state}=1,b{state}" if rng.random() < 0.5 else f"a=1,b={state}").is_valid
        if given:
            assert _read(PARENT, given[-1]).trace_state.to_header() == given[-1]
