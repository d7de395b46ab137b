"""Each ask has one span, and so has each hold, whatever becomes of them."""

from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

from governor.core.effects import Granted, Queued
from governor.core.engine import Engine
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND, Claim, Denial, LeaseId, Reason, Standing, TicketId
from governor.driver import Driver
from governor.testing.clock import FakeClock
from governor.tracing import ACQUIRE, SESSION
from tests.rpc.conftest import declared
from tests.trace.books import (
    PARENT,
    TRACE_ID,
    UNSAMPLED,
    Books,
    books,
    id_of,
    lasted,
    linked,
    parent_of,
    said,
    trace_of,
)
from tests.trace.books import parent as another

ONE = (Claim("one", 1),)
ROOM = 10


@pytest.fixture
def clock() -> FakeClock:
    """It stands until a test moves it."""
    return FakeClock(5 * SECOND)


@pytest.fixture
def driver(clock: FakeClock) -> Iterator[Driver]:
    """Of one permit, two members and one call a second."""
    driver = Driver(Engine(), clock)
    driver.reserve_ids(LeaseId(1000))
    driver.reconfigure(
        (
            declared("one", SemaphoreSpec(1)),
            declared("many", SemaphoreSpec(None)),
            declared("pool", PoolSpec((MemberSpec("primary", (("password", "hunter2"),)), MemberSpec("spare")))),
            declared("rate", RateLimitSpec((Window(1, SECOND, 1),))),
        )
    )
    yield driver
    driver.close()


@pytest.fixture
def kept(driver: Driver, clock: FakeClock) -> Iterator[Books]:
    """All spans that are made."""
    with books(driver, clock) as kept:
        yield kept


def granted(driver: Driver, claims: Sequence[Claim] = ONE, client: str = "me", request_id: str = "") -> LeaseId:
    """An ask that is granted at once."""
    answer = driver.ask(tuple(claims), client=client, request_id=request_id)
    assert isinstance(answer, Granted)
    return answer.lease


def queued(driver: Driver, client: str = "me", wait: int | None = None) -> TicketId:
    """An ask that has to wait."""
    answer = driver.ask(ONE, client=client, wait=wait)
    assert isinstance(answer, Queued)
    driver.tell(answer.ticket, lambda _: None)
    return answer.ticket


class TestAsks:
    """From the ask to its end."""

    def test_one_that_is_granted_says_all_that_is_known_of_it(self, driver: Driver, kept: Books) -> None:
        """In governor's words, and in those of the conventions for calls."""
        kept.spans.asked(ACQUIRE)
        lease = granted(driver, (Claim("one", 1), Claim("many", 3)), "web")
        (span,) = kept.made

        assert span.attributes == {
            "governor.resources": ("one", "many"),
            "governor.permits": (1, 3),
            "governor.client": "web",
            "governor.outcome": "granted",
            "governor.wait_seconds": 0.0,
            "governor.ahead": 0,
            "governor.lease": lease,
            "rpc.system.name": "grpc",
            "rpc.method": "governor.v1.Governor/Acquire",
            "rpc.response.status_code": "OK",
        }
        assert (span.name, span.kind, span.status.status_code) == ("acquire", SpanKind.SERVER, StatusCode.UNSET)
        assert lasted(span) == (5 * SECOND, 5 * SECOND)

    def test_one_that_waited_lasts_from_the_ask_to_the_grant(
        self, driver: Driver, clock: FakeClock, kept: Books
    ) -> None:
        """And says how many were before it when it came, not when it was granted."""
        first = granted(driver)
        kept.spans.asked(SESSION, another(1))
        queued(driver, "second")
        kept.spans.asked(SESSION, another(2))
        queued(driver, "third")
        clock.advance(3 * SECOND)
        kept.spans.asked(SESSION)
        driver.release((first,))
        *_, span = kept.asks

        assert span.name == "acquire one"
        assert (said(span, "client"), said(span, "outcome"), said(span, "ahead")) == ("second", "granted", 0)
        assert said(span, "wait_seconds") == 3.0
        assert lasted(span) == (5 * SECOND, 8 * SECOND)
        assert trace_of(span) == f"{1:032x}"

        driver.release((LeaseId(2),))
        *_, span = kept.asks
        assert (said(span, "client"), said(span, "ahead"), trace_of(span)) == ("third", 1, f"{2:032x}")

    @pytest.mark.parametrize(
        ("claims", "wait", "outcome", "code", "failed", "name"),
        [
            (ONE, 0, "none_free", "RESOURCE_EXHAUSTED", False, "acquire one"),
            ((Claim("one", 9),), None, "above_capacity", "OUT_OF_RANGE", False, "acquire one"),
            ((Claim("a name of its own", 1),), None, "unknown_resource", "NOT_FOUND", False, "acquire"),
            ((Claim("one", 0),), None, "malformed", "INVALID_ARGUMENT", False, "acquire"),
            ((), None, "malformed", "INVALID_ARGUMENT", False, "acquire"),
            ((Claim("many", 1),), None, "paused", "UNAVAILABLE", True, "acquire many"),
        ],
    )
    def test_one_that_is_refused_says_why(
        self,
        driver: Driver,
        kept: Books,
        claims: tuple[Claim, ...],
        wait: int | None,
        outcome: str,
        code: str,
        *,
        failed: bool,
        name: str,
    ) -> None:
        """In the word of the metric. It is a failure where gRPC's conventions say so, and never named by a client."""
        granted(driver)
        driver.set_standing("many", Standing.PAUSED)
        kept.spans.asked(ACQUIRE)
        driver.ask(claims, wait=wait)
        *_, span = kept.asks

        assert (span.name, said(span, "outcome")) == (name, outcome)
        assert span.attributes is not None
        assert span.attributes["rpc.response.status_code"] == code
        assert (span.status.status_code is StatusCode.ERROR) is failed

    def test_one_whose_wait_is_over_ends_then(self, driver: Driver, clock: FakeClock, kept: Books) -> None:
        """By the timer, when nobody asks for anything."""
        granted(driver)
        kept.spans.asked(SESSION)
        queued(driver, wait=2 * SECOND)
        clock.advance(10 * SECOND)
        *_, span = kept.asks

        assert said(span, "outcome") == "wait_over"
        assert lasted(span) == (5 * SECOND, 7 * SECOND)

    def test_one_that_is_given_up_is_abandoned(self, driver: Driver, clock: FakeClock, kept: Books) -> None:
        """Its caller is gone, however long it waited."""
        granted(driver)
        kept.spans.asked(ACQUIRE, PARENT)
        ticket = queued(driver)
        clock.advance(SECOND)
        driver.abandon(ticket)
        *_, span = kept.asks

        assert (said(span, "outcome"), trace_of(span)) == ("abandoned", TRACE_ID)
        assert span.attributes is not None
        assert span.attributes["rpc.response.status_code"] == "CANCELLED"
        assert lasted(span) == (5 * SECOND, 6 * SECOND)

    def test_all_that_wait_when_the_daemon_drains_are_told_of(self, driver: Driver, kept: Books) -> None:
        """And nobody stays who waited."""
        granted(driver)
        kept.spans.asked(SESSION)
        for _ in range(3):
            queued(driver)
        driver.drain()

        assert kept.outcomes == ["granted", "draining", "draining", "draining"]
        assert not kept.spans._waiting

    def test_one_that_is_repeated_is_linked_to_the_first(self, driver: Driver, kept: Books) -> None:
        """It is an ask of its own that is granted nothing new."""
        lease = granted(driver, request_id="7")
        kept.spans.asked(ACQUIRE, PARENT)
        assert granted(driver, request_id="7") == lease
        first, again = kept.asks

        assert kept.outcomes == ["granted", "repeated"]
        assert linked(again) == [id_of(first)]
        assert trace_of(again) == TRACE_ID

    def test_one_that_joins_a_place_lasts_from_when_it_came(
        self, driver: Driver, clock: FakeClock, kept: Books
    ) -> None:
        """Not since the first one stands there."""
        first = granted(driver)
        for _ in range(2):
            clock.advance(SECOND)
            answer = driver.ask(ONE, client="me", request_id="7")
            assert isinstance(answer, Queued)
            driver.tell(answer.ticket, lambda _: None)
        clock.advance(SECOND)
        driver.release((first,))
        _, place, again = kept.asks

        assert kept.outcomes == ["granted", "granted", "repeated"]
        assert (lasted(place), lasted(again)) == ((6 * SECOND, 8 * SECOND), (7 * SECOND, 8 * SECOND))
        assert linked(again) == [id_of(place)]

    def test_one_that_is_refused_before_it_gets_to_the_driver_is_told_of_too(self, kept: Books) -> None:
        """Such as of a client that may not."""
        kept.spans.asked(SESSION, PARENT)
        kept.spans.refused(Denial(Reason.PERMISSION_DENIED), ONE, "stranger")
        (span,) = kept.asks

        assert (span.name, said(span, "outcome"), said(span, "client")) == ("acquire", "permission_denied", "stranger")
        assert trace_of(span) == TRACE_ID


class TestHolds:
    """From the grant to the end of its lease."""

    def test_a_hold_is_linked_to_its_ask_and_beside_it_in_its_trace(
        self, driver: Driver, clock: FakeClock, kept: Books
    ) -> None:
        """Both follow from whatever the ask did."""
        kept.spans.asked(ACQUIRE, PARENT, "vendor=1")
        lease = granted(driver, (Claim("pool", 2),), "web")
        clock.advance(4 * SECOND)
        driver.release((lease,))
        ask, hold = kept.made

        assert hold.attributes == {
            "governor.resources": ("pool",),
            "governor.permits": (2,),
            "governor.client": "web",
            "governor.lease": lease,
            "governor.members": ("primary", "spare"),
            "governor.ended": "released",
        }
        assert (hold.name, hold.kind, hold.status.status_code) == ("hold pool", SpanKind.INTERNAL, StatusCode.UNSET)
        assert linked(hold) == [id_of(ask)]
        assert parent_of(hold) == parent_of(ask) == "b7ad6b7169203331"
        assert trace_of(hold) == trace_of(ask) == TRACE_ID
        assert lasted(hold) == (5 * SECOND, 9 * SECOND)
        assert hold.context is not None
        assert hold.context.trace_state.get("vendor") == "1"

    def test_where_an_ask_follows_from_nothing_its_hold_is_its_child(self, driver: Driver, kept: Books) -> None:
        """So that both are in one trace."""
        driver.release((granted(driver),))
        ask, hold = kept.made

        assert parent_of(ask) == ""
        assert parent_of(hold) == id_of(ask)
        assert linked(hold) == [id_of(ask)]
        assert trace_of(hold) == trace_of(ask)

    def test_whatever_else_ends_it_is_a_failure(self, driver: Driver, clock: FakeClock, kept: Books) -> None:
        """Said by its reason."""
        driver.revoke((granted(driver),))
        lease = granted(driver)
        driver.disconnect((lease,))
        clock.advance(3 * SECOND)
        granted(driver)
        clock.advance(31 * SECOND)

        assert [(said(hold, "ended"), hold.status.description) for hold in kept.holds] == [
            ("revoked", "revoked"),
            ("disconnected", "disconnected"),
            ("expired", "expired"),
        ]
        assert {hold.status.status_code for hold in kept.holds} == {StatusCode.ERROR}

    def test_what_is_spent_is_not_held(self, driver: Driver, kept: Books) -> None:
        """A grant of rate limits alone has nothing to end."""
        granted(driver, (Claim("rate", 1),))

        assert len(kept.made) == 1
        assert not kept.spans._holds

    def test_a_grant_that_nobody_received_ends_at_once(self, driver: Driver, kept: Books) -> None:
        """It was granted, and was gone."""
        answer = driver.ask(ONE)
        assert isinstance(answer, Granted)
        driver.abandon(answer.ticket)

        assert kept.outcomes == ["granted"]
        assert [said(hold, "ended") for hold in kept.holds] == ["disconnected"]

    def test_as_many_are_traced_as_may_be(self, driver: Driver, clock: FakeClock) -> None:
        """The next one is not, and is counted; its ask is all the same."""
        kept = Books(driver, clock, max_holds=ROOM)
        leases = [granted(driver, (Claim("many", 1),)) for _ in range(ROOM + 3)]
        assert len(kept.spans._holds) == ROOM
        driver.release(tuple(leases))

        assert (len(kept.asks), len(kept.holds), kept.untraced) == (ROOM + 3, ROOM, 3)
        driver.release((granted(driver),))
        assert len(kept.holds) == ROOM + 1

    def test_one_that_outlives_the_daemon_ends_with_it(self, driver: Driver, clock: FakeClock, kept: Books) -> None:
        """Its lease goes on, and that is no failure; no metric is told of a hold that has not ended."""
        granted(driver)
        clock.advance(SECOND)
        examples = len(kept.examples)
        kept.spans.close()
        (hold,) = kept.holds

        assert (said(hold, "ended"), lasted(hold)) == ("stopping", (5 * SECOND, 6 * SECOND))
        assert hold.status.status_code is StatusCode.UNSET
        assert len(kept.examples) == examples


class TestSampling:
    """Whoever asks within a trace has decided; else the daemon does."""

    def test_a_trace_that_is_not_sampled_has_no_span(self, driver: Driver, kept: Books) -> None:
        """Of neither the ask nor the hold, and metrics have no example of it."""
        kept.spans.asked(ACQUIRE, UNSAMPLED)
        driver.release((granted(driver),))

        assert not kept.made
        assert not kept.examples
        assert not kept.spans._holds

    def test_one_that_is_sampled_has_spans_where_the_daemon_begins_none(self, driver: Driver, clock: FakeClock) -> None:
        """Also its hold."""
        with books(driver, clock, sampler=ParentBased(ALWAYS_OFF)) as kept:
            kept.spans.asked(ACQUIRE)
            driver.release((granted(driver),))
            assert not kept.made
            kept.spans.asked(ACQUIRE, PARENT)
            driver.release((granted(driver),))
            assert len(kept.made) == 2

    def test_a_ratio_is_of_traces_so_a_hold_is_sampled_as_its_ask(self, driver: Driver, clock: FakeClock) -> None:
        """No half of a trace is made."""
        with books(driver, clock, sampler=ParentBased(TraceIdRatioBased(0.5))) as kept:
            for _ in range(200):
                driver.release((granted(driver),))

        assert 0 < len(kept.asks) < 200
        assert [trace_of(span) for span in kept.asks] == [trace_of(span) for span in kept.holds]


class _Broken(Sampler):
    """Such as an operator's own, named by OTEL_TRACES_SAMPLER."""

    def should_sample(self, *_: object, **__: object) -> SamplingResult:
        raise ValueError("broken")

    def get_description(self) -> str:
        return "broken"


def test_what_fails_in_the_making_of_a_span_fails_nothing_else(
    driver: Driver, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """No ask, no grant, no step; the log has it once."""
    with books(driver, clock, sampler=_Broken()) as kept:
        kept.spans.asked(ACQUIRE, PARENT)
        lease = granted(driver)
        ticket = queued(driver)
        driver.abandon(ticket)
        driver.release((lease,))
        kept.spans.refused(Denial(Reason.MALFORMED))
        kept.spans.close()

        assert not kept.made
        assert not kept.spans._waiting
    assert [record.message for record in caplog.records] == [
        "traces: a span could not be made; it is left out, and so are others like it"
    ]


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
        PARENT + " " * 100_000,
    ],
)
def test_a_context_that_is_none_says_nothing(driver: Driver, kept: Books, traceparent: str) -> None:
    """The ask begins a trace of its own, and is otherwise as any other."""
    kept.spans.asked(ACQUIRE, traceparent, "vendor=1")
    granted(driver)
    (span,) = kept.made

    assert parent_of(span) == ""
    assert trace_of(span) != TRACE_ID


@pytest.mark.parametrize("tracestate", ["=", "a=" + "b" * 600, "k=v," * 200, "\n", "\U0001f98a=1"])
def test_a_trace_state_that_is_none_leaves_the_parent_as_it_is(driver: Driver, kept: Books, tracestate: str) -> None:
    """Only the state is dropped."""
    kept.spans.asked(ACQUIRE, PARENT, tracestate)
    granted(driver)
    (span,) = kept.made

    assert trace_of(span) == TRACE_ID
    assert span.context is not None
    assert not span.context.trace_state.to_header()


def test_a_later_version_of_the_header_is_understood(driver: Driver, kept: Books) -> None:
    """As the recommendation wants it."""
    kept.spans.asked(ACQUIRE, "01" + PARENT[2:] + "-something")
    granted(driver)

    assert trace_of(kept.made[0]) == TRACE_ID


def test_metrics_are_told_of_each_wait_and_hold(driver: Driver, clock: FakeClock, kept: Books) -> None:
    """By its outcome, with the span that has all of it."""
    first = granted(driver)
    kept.spans.asked(SESSION, PARENT)
    queued(driver)
    clock.advance(2 * SECOND)
    driver.release((first,))

    ask, hold = kept.asks[-1], kept.holds[0]
    examples = [(outcome, each.value, each.span_id) for outcome, each in kept.examples]
    assert (None, 2 * SECOND, id_of(hold)) in examples
    assert ("granted", 2 * SECOND, id_of(ask)) in examples
    assert {each.trace_id for _, each in kept.examples} == {trace_of(hold), TRACE_ID}


def test_no_attribute_of_a_member_is_told(driver: Driver, kept: Books) -> None:
    """It may be a secret."""
    driver.release((granted(driver, (Claim("pool", 2),)),))

    assert "hunter2" not in "".join(span.to_json() for span in kept.made)
