"""A program that traces has its asks and holds in its traces, and those of the daemon with them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode

from governor import AsyncClient, Client, LeaseLost, NotGranted, Unavailable, UsageError
from tests.client import traced
from tests.client.program import Program
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until
from tests.trace.books import id_of, linked, parent_of, said, trace_of
from tests.trace.collector import Collector, values

YAML: Final = """
semaphores:
  one: {permits: 1}
  many: {permits: unlimited}
rate_limits:
  calls: {rate: 1000/s}
"""
# Of this module: one that traces, and what it sends its spans to.
collector = traced.collector
daemon = traced.daemon


class _Broken(SpanProcessor):
    """Of somebody who has made a mistake, ``at`` the start or the end of a span."""

    def __init__(self, at: str) -> None:
        self._at = at

    def on_start(self, span: object, parent_context: object = None) -> None:
        if self._at == "start":
            raise ValueError("broken")

    def on_end(self, span: ReadableSpan) -> None:
        if self._at == "end":
            raise ValueError("broken")


async def _acquire(gov: AsyncClient, resource: str) -> None:
    async with gov.acquire(resource, wait=BOUND):
        raise AssertionError("nobody gave it back")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """One that traces all it does, of which there may be one in a process."""
    made = Program(TracerProvider(shutdown_on_exit=False))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made.provider)
    return made


def of(collector: Collector, name: str, parent: ReadableSpan) -> Span:
    """The daemon's span of this name that follows from one of the program's, when it comes."""

    def found() -> list[Span]:
        return [
            each for each in list(collector.spans) if (each.name, each.parent_span_id.hex()) == (name, id_of(parent))
        ]

    until(lambda: bool(found()), f"the daemon has told of {name}")
    (span,) = found()
    assert span.trace_id.hex() == trace_of(parent)
    return span


class TestThreads:
    """`Client`."""

    def test_a_block_is_an_ask_and_a_hold_in_the_trace_of_whatever_it_is_part_of(
        self, gov: Client, program: Program, collector: Collector
    ) -> None:
        """And the daemon's own are beneath the ask."""
        with program.tracer.start_as_current_span("order") as order, gov.acquire("many", 3) as lease:
            assert not program.holds
        ask, hold = program.made

        assert (ask.name, ask.kind, ask.status.status_code) == ("acquire many", SpanKind.CLIENT, StatusCode.UNSET)
        assert ask.attributes == {
            "governor.resources": ("many",),
            "governor.permits": (3,),
            "governor.outcome": "granted",
            "governor.wait_seconds": 0.0,
            "governor.lease": lease.id,
        }
        assert (hold.name, hold.kind, hold.status.status_code) == ("hold many", SpanKind.INTERNAL, StatusCode.UNSET)
        assert hold.attributes == {
            "governor.resources": ("many",),
            "governor.permits": (3,),
            "governor.lease": lease.id,
            "governor.ended": "released",
        }
        assert linked(hold) == [id_of(ask)]
        assert parent_of(ask) == parent_of(hold) == trace.format_span_id(order.get_span_context().span_id)
        theirs, held = of(collector, "acquire many", ask), of(collector, "hold many", ask)
        assert [link.span_id for link in held.links] == [theirs.span_id]
        assert values(held.attributes)["governor.ended"] == "released"

    def test_what_waits_says_for_how_long(self, gov: Client, program: Program, me: Raw) -> None:
        """As the daemon does."""
        first = me.acquire("one")
        with gov.acquire("many"):
            pass  # there is a session now
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(gov.acquire, "one", wait=BOUND)
            until(lambda: me.resource("one").waiters == 1, "it waits")
            me.release(first.id)
            lease = asked.result(BOUND)
        lease.release()

        assert said(program.asks[-1], "wait_seconds") == lease.waited > 0

    def test_a_refusal_is_told_by_its_reason(self, gov: Client, program: Program, me: Raw) -> None:
        """As an error, but where somebody only asked whether there is any."""
        lease = me.acquire("one")
        assert gov.try_acquire("one") is None
        with pytest.raises(NotGranted):
            gov.acquire("one", wait=0.001)
        with pytest.raises(NotGranted):
            gov.acquire("one", 9)
        me.release(lease.id)

        assert [(said(ask, "outcome"), ask.status.status_code) for ask in program.asks] == [
            ("none_free", StatusCode.UNSET),
            ("wait_over", StatusCode.ERROR),
            ("above_capacity", StatusCode.ERROR),
        ]
        assert not program.holds

    def test_several_claims_have_no_resource_in_the_name(self, gov: Client, program: Program) -> None:
        """All of them are in the attributes."""
        with gov.acquire({"one": 1, "many": 2}):
            pass

        assert [span.name for span in program.made] == ["acquire", "hold"]
        assert said(program.made[0], "resources") == ("one", "many")

    def test_what_is_spent_is_not_held(self, gov: Client, program: Program) -> None:
        """There is nothing to give back."""
        with gov.acquire("calls"):
            pass

        assert [span.name for span in program.made] == ["acquire calls"]

    def test_a_lease_that_is_lost_ends_when_it_was(self, gov: Client, program: Program, me: Raw) -> None:
        """As an error, when the program has left its block."""
        with pytest.raises(LeaseLost), gov.acquire("many") as lease:
            me.release(lease.id)
            until(lambda: lease.lost, "it is noticed")
            assert not program.holds
            started = program.tracer.start_span("later")
        (hold,) = program.holds

        assert (said(hold, "ended"), hold.status.status_code) == ("released", StatusCode.ERROR)
        assert isinstance(started, ReadableSpan)
        assert hold.end_time is not None
        assert started.start_time is not None
        assert hold.end_time <= started.start_time

    @pytest.mark.parametrize("end", ["lost", "released"])
    def test_a_block_that_does_not_begin_has_ended_its_hold(
        self, gov: Client, program: Program, me: Raw, end: str
    ) -> None:
        """There is no end of the block that would: the lease was over before it."""
        lease = gov.acquire("many")
        if end == "lost":
            me.release(lease.id)
            until(lambda: lease.lost, "it is noticed")
        else:
            lease.release()
        with pytest.raises(LeaseLost if end == "lost" else UsageError), lease:
            raise AssertionError("it would run without a permit")
        (hold,) = program.holds

        assert hold.status.status_code is (StatusCode.ERROR if end == "lost" else StatusCode.UNSET)

    def test_a_lease_that_is_detached_ends_here(self, gov: Client, program: Program, me: Raw) -> None:
        """Whoever adopts it has not asked for it."""
        number = gov.acquire("many").detach()
        with gov.adopt(number):
            pass

        assert [said(hold, "ended") for hold in program.holds] == ["detached"]
        assert len(program.asks) == 1

    def test_a_lease_that_is_given_back_twice_has_ended_once(self, gov: Client, program: Program) -> None:
        """However it is given back."""
        with gov.acquire("many") as lease:
            lease.release()
            lease.release()

        assert len(program.holds) == 1

    def test_without_a_daemon_it_says_so(self, program: Program) -> None:
        """And whether the program goes on."""
        with Client("127.0.0.1:1") as gov, pytest.raises(Unavailable):
            gov.acquire("many")
        with Client("127.0.0.1:1", unavailable="allow") as gov, gov.acquire("many"):
            pass

        assert [(said(ask, "outcome"), ask.status.status_code) for ask in program.asks] == [
            ("unavailable", StatusCode.ERROR),
            ("let_through", StatusCode.UNSET),
        ]

    def test_it_can_be_switched_off(self, daemon: Daemon, me: Raw, program: Program) -> None:
        """For one client; also for its pickle."""
        with Client(daemon.address, tracing=False) as gov, gov.acquire("many"):
            assert gov._settings.arguments()["tracing"] is False

        assert not program.made

    def test_a_trace_that_is_not_sampled_is_not_by_the_daemon_either(
        self, daemon: Daemon, me: Raw, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who begins a trace has decided."""
        program = Program(TracerProvider(ParentBased(ALWAYS_OFF), shutdown_on_exit=False))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", program.provider)
        with Client(daemon.address, name="unsampled") as gov:
            gov.acquire("many").release()
            gov.acquire("many").release()
        me.release(me.acquire("many", client="after").id)
        until(lambda: "after" in clients(collector), "what came after has come")

        assert not program.made
        assert "unsampled" not in clients(collector)

    @pytest.mark.parametrize("at", ["start", "end"])
    def test_a_provider_that_fails_keeps_nobody_from_a_permit(
        self, gov: Client, program: Program, me: Raw, caplog: pytest.LogCaptureFixture, at: str
    ) -> None:
        """Nor any permit from coming back; the log has it."""
        program.provider.add_span_processor(_Broken(at))
        with gov.acquire("one"):
            assert me.resource("one").in_use == 1
        until(lambda: me.resource("one").in_use == 0, "it is back")

        assert {record.getMessage() for record in caplog.records} == {
            "a span could not be made or ended; the ask goes on without it"
        }


class TestTasks:
    """`AsyncClient`."""

    async def test_each_of_many_tasks_has_its_own_trace(
        self, daemon: Daemon, me: Raw, program: Program, collector: Collector
    ) -> None:
        """Though all that they ask for is told together."""
        async with AsyncClient(daemon.address, name="tasks") as gov:

            async def work(number: int) -> str:
                with program.tracer.start_as_current_span(f"task {number}") as span:
                    async with gov.acquire("many"):
                        await asyncio.sleep(0)
                return trace.format_trace_id(span.get_span_context().trace_id)

            traces = await asyncio.gather(*(work(number) for number in range(30)))

        assert sorted(trace_of(ask) for ask in program.asks) == sorted(traces)
        assert sorted(trace_of(hold) for hold in program.holds) == sorted(traces)
        for ask in program.asks:
            await asyncio.to_thread(of, collector, "acquire many", ask)
            await asyncio.to_thread(of, collector, "hold many", ask)

    async def test_a_task_that_is_cancelled_has_given_up(
        self, daemon: Daemon, me: Raw, program: Program, collector: Collector
    ) -> None:
        """Here and at the daemon."""
        lease = await asyncio.to_thread(me.acquire, "one")
        async with AsyncClient(daemon.address) as gov:
            task = asyncio.ensure_future(_acquire(gov, "one"))
            await asyncio.to_thread(until, lambda: me.resource("one").waiters == 1, "it waits")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        me.release(lease.id)
        (ask,) = program.asks
        theirs = await asyncio.to_thread(of, collector, "acquire one", ask)

        assert said(ask, "outcome") == values(theirs.attributes)["governor.outcome"] == "abandoned"

    async def test_a_block_that_a_loss_cancels_ends_its_hold(self, daemon: Daemon, me: Raw, program: Program) -> None:
        """As an error."""
        async with AsyncClient(daemon.address) as gov:
            with pytest.raises(LeaseLost):
                async with gov.acquire("many", on_loss="cancel") as lease:
                    await asyncio.to_thread(me.release, lease.id)
                    await asyncio.sleep(BOUND)
        (hold,) = program.holds

        assert hold.status.status_code is StatusCode.ERROR

    async def test_a_refusal_is_told_by_its_reason(self, daemon: Daemon, me: Raw, program: Program) -> None:
        """As of a thread."""
        async with AsyncClient(daemon.address) as gov:
            with pytest.raises(NotGranted):
                await gov.acquire("one", 9)
        async with AsyncClient("127.0.0.1:1", unavailable="allow") as gov, gov.acquire("many"):
            pass

        assert [said(ask, "outcome") for ask in program.asks] == ["above_capacity", "let_through"]


def clients(collector: Collector) -> set[object]:
    """Whose asks and holds have come."""
    return {values(span.attributes)["governor.client"] for span in list(collector.spans)}
