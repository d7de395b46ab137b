"""The span of a hold says how its lease has ended, whichever thread comes first."""

import time
from collections.abc import Callable
from typing import Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from governor.client import spans
from governor.client.held import Held, State
from tests.client.program import Program
from tests.trace.books import said

CLAIMS: Final = (("many", 1),)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """One that traces all it does."""
    made = Program(TracerProvider(shutdown_on_exit=False))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made.provider)
    return made


def _held() -> Held:
    return Held(id=7, claims=CLAIMS, members=(), length=30, waited=0, until=30, outlives=None, owner=1)


def _asked() -> spans.Asking:
    asked = spans.begin(CLAIMS)
    assert asked is not None
    return asked


def _end(held: Held) -> None:
    """As leaving a block does it."""
    assert held.span is not None
    held.span.end(held.state, held.reason)


class _Midst(SpanProcessor):
    """Something happens in another thread while the span of a hold is made."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    def on_start(self, span: object, parent_context: object = None) -> None:
        if isinstance(span, ReadableSpan) and span.name.startswith("hold"):
            self._happens()


def _before(program: Program, held: Held) -> None:
    """The client's thread hears of the loss before the program's has taken the grant."""
    held.lose("expired")
    _asked().granted(held)


def _in_the_midst(program: Program, held: Held) -> None:
    """While the span is made, and stands nowhere yet."""
    program.provider.add_span_processor(_Midst(lambda: held.lose("expired")))
    _asked().granted(held)


def _after(program: Program, held: Held) -> None:
    """As a rule."""
    _asked().granted(held)
    held.lose("expired")


def _not_yet_told(program: Program, held: Held) -> None:
    """The lease is lost, and the thread that has lost it has not come to tell the span."""
    _asked().granted(held)
    held.reason, held.state = "expired", State.LOST


@pytest.mark.parametrize("lost", [_before, _in_the_midst, _after, _not_yet_told])
def test_a_loss_is_told_in_whatever_order_it_comes(program: Program, lost: Callable[[Program, Held], None]) -> None:
    """Never as a release."""
    held = _held()
    lost(program, held)
    _end(held)
    (hold,) = program.holds

    assert (said(hold, "ended"), hold.status.status_code) == ("expired", StatusCode.ERROR)


def test_whoever_sees_that_it_is_lost_sees_why() -> None:
    """When the span is told, all else is there: the program may end it at that very instant."""
    held = _held()
    seen: list[tuple[State, str]] = []

    class Looks(spans.Hold):
        def lost(self) -> None:
            seen.append((held.state, held.reason))

    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    held.span = Looks(tracer.start_span("hold"))
    held.lose("revoked")

    assert seen == [(State.LOST, "revoked")]


def test_a_loss_that_is_told_twice_was_when_it_was_told_first(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both threads may notice it."""
    held = _held()
    _asked().granted(held)
    assert held.span is not None
    held.lose("expired")
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    held.span.lost()
    _end(held)
    (hold,) = program.holds

    assert hold.end_time is not None
    assert hold.end_time < 2**62


@pytest.mark.parametrize(("state", "ended"), [(State.RELEASED, "released"), (State.DETACHED, "detached")])
def test_what_is_given_up_is_no_error(program: Program, state: State, ended: str) -> None:
    """Given back, or left to whoever adopts it; safe twice."""
    held = _held()
    _asked().granted(held)
    held.state = state
    _end(held)
    _end(held)
    (hold,) = program.holds

    assert (said(hold, "ended"), hold.status.status_code) == (ended, StatusCode.UNSET)
