"""Spans on their way out: whatever an exporter does, each is exported or counted, and nobody who makes one waits."""

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from governor.trace import Dropped, Outgoing

BOUND: Final = 60.0
OTLP: Final = "opentelemetry.exporter.otlp.proto.grpc.exporter"


class Collector(SpanExporter):
    """Takes what it is given when a test lets it: each batch is answered by what the test has put, in order."""

    def __init__(self) -> None:
        self.batches: SimpleQueue[list[str]] = SimpleQueue()
        self.answers: SimpleQueue[bool | Exception | str] = SimpleQueue()
        self.shut = threading.Event()
        self.threads: set[str] = set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """As a test says."""
        self.threads.add(threading.current_thread().name)
        self.batches.put([span.name for span in spans])
        answer = self.answers.get(timeout=BOUND)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            logging.getLogger(OTLP).error("%s", answer)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS if answer else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Whoever waits for an answer is told that there will be none."""
        self.shut.set()
        self.answers.put(False)  # noqa: FBT003

    def next(self) -> list[str]:
        """The names of the spans of the next batch."""
        return self.batches.get(timeout=BOUND)


class Post:
    """A queue, its collector, and what was counted."""

    def __init__(self, *, room: int = 100, batch: int = 10, delay: float = 0) -> None:
        self.collector = Collector()
        self.exported = 0
        self.dropped: Counter[Dropped] = Counter()
        self.outgoing = Outgoing(
            self.collector, exported=self._exported, dropped=self._dropped, room=room, batch=batch, delay=delay
        )
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.outgoing)
        self.tracer = self.provider.get_tracer("tests")

    def _exported(self, spans: int) -> None:
        self.exported += spans

    def _dropped(self, why: Dropped, spans: int) -> None:
        self.dropped[why] += spans

    def make(self, *names: object) -> None:
        """Spans with these names."""
        for name in names:
            self.tracer.start_span(str(name)).end()


@contextmanager
def post(*, room: int = 100, batch: int = 10, delay: float = 0) -> Iterator[Post]:
    """One that is ended, with whatever lies there."""
    made = Post(room=room, batch=batch, delay=delay)
    try:
        yield made
    finally:
        for _ in range(room + 1):
            made.collector.answers.put(True)  # noqa: FBT003
        made.outgoing.end(BOUND)
        assert not made.outgoing._thread.is_alive()


def test_what_is_made_is_exported_in_order_and_counted() -> None:
    """By another thread than the one that makes it."""
    with post() as made:
        made.make(1)
        assert made.collector.next() == ["1"]
        made.make(2, 3)
        made.collector.answers.put(True)  # noqa: FBT003
        assert made.collector.next() == ["2", "3"]

    assert (made.exported, made.dropped) == (3, Counter())
    assert made.collector.threads == {"traces"}
    assert made.collector.shut.is_set()


def test_one_batch_is_no_larger_than_it_may_be() -> None:
    """However many wait."""
    with post(batch=4) as made:
        made.make("first")
        assert made.collector.next() == ["first"]
        made.make(*range(9))
        for _ in range(4):
            made.collector.answers.put(True)  # noqa: FBT003
        assert [len(made.collector.next()) for _ in range(3)] == [4, 4, 1]

    assert made.exported == 10


def test_a_full_batch_waits_for_no_more() -> None:
    """Whoever makes few spans waits for others, which nobody comes to see here."""
    with post(batch=4, delay=10 * BOUND) as made:
        made.make(*range(4))
        assert made.collector.next() == ["0", "1", "2", "3"]


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    """While the collector takes its time; what waits is the oldest, and nobody who makes a span is held up."""
    with post(room=5) as made:
        made.make("under way")
        assert made.collector.next() == ["under way"]
        made.make(*range(8))
        assert made.dropped == {Dropped.QUEUE_FULL: 3}
        made.collector.answers.put(True)  # noqa: FBT003
        assert made.collector.next() == ["0", "1", "2", "3", "4"]

    assert made.exported == 6


@pytest.mark.parametrize("answer", [False, OSError("no\nroute"), ValueError(), "DEADLINE_EXCEEDED from there"])
def test_what_is_not_taken_is_dropped_counted_and_said_once(
    answer: bool | Exception | str,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever goes wrong, the thread goes on; it says when it begins to fail, and when it is over."""
    caplog.set_level(logging.INFO)
    with post() as made:
        for name in range(3):
            made.make(name)
            made.collector.next()
            made.collector.answers.put(answer)
        for name in range(2):
            made.make(name)
            made.collector.next()
            made.collector.answers.put(True)  # noqa: FBT003

    assert (made.exported, made.dropped) == (2, {Dropped.REFUSED: 3})
    begun, over = [record.getMessage() for record in caplog.records]
    assert begun.startswith("traces: spans cannot be exported: ")
    assert begun.endswith("; until they can, they are dropped")
    assert "\n" not in begun
    assert over == "traces: spans are exported again"
    if not isinstance(answer, bool):
        assert " ".join(str(answer).split()) in begun


def test_what_an_exporter_said_of_one_export_is_not_told_of_another(caplog: pytest.LogCaptureFixture) -> None:
    """One that says nothing has said nothing, whatever it said an hour ago."""
    with post() as made:
        answers: list[bool | str] = ["DEADLINE_EXCEEDED from there", True, False]
        for name, answer in enumerate(answers):
            made.make(name)
            made.collector.next()
            made.collector.answers.put(answer)

    begun = [message for message in caplog.messages if "cannot be exported" in message]
    assert len(begun) == 2
    assert "DEADLINE_EXCEEDED from there" in begun[0]
    assert "the collector did not take them" in begun[1]


def test_without_a_thread_nothing_is_kept_from_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that has no more of them makes it fail, and leaves all as it was."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        Post()
    logging.getLogger(OTLP).error("of somebody without a queue")

    assert caplog.messages == ["of somebody without a queue"]


def test_the_end_exports_what_is_there_at_once() -> None:
    """Without waiting for others."""
    made = Post(delay=10 * BOUND)
    made.make(1, 2, 3)
    made.collector.answers.put(True)  # noqa: FBT003
    made.outgoing.end(BOUND)

    assert (made.exported, made.dropped) == (3, Counter())
    assert made.collector.next() == ["1", "2", "3"]


def test_the_end_waits_for_a_collector_no_longer_than_it_may(caplog: pytest.LogCaptureFixture) -> None:
    """What it has not taken by then is dropped, counted once, and said."""
    made = Post(batch=2)
    made.make(1, 2, 3, 4, 5)
    made.collector.next()
    made.outgoing.end(0.01)
    made.outgoing._thread.join(BOUND)

    assert not made.outgoing._thread.is_alive()
    assert (made.exported, sum(made.dropped.values())) == (0, 5)
    assert made.dropped[Dropped.ENDING] == 5
    assert caplog.messages == ["traces: 5 spans were dropped: there was no time to export them"]


def test_what_is_made_after_the_end_is_dropped() -> None:
    """Nobody is there who would export it."""
    made = Post()
    made.outgoing.end(BOUND)
    made.make(1)

    assert made.dropped == {Dropped.QUEUE_FULL: 1}


def test_what_is_not_sampled_is_nothing() -> None:
    """It is neither exported nor dropped."""
    with post() as made:
        provider = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
        provider.add_span_processor(made.outgoing)
        provider.get_tracer("tests").start_span("unsampled").end()

    assert (made.exported, made.dropped) == (0, Counter())


def test_after_the_end_others_hear_again_what_an_exporter_says(caplog: pytest.LogCaptureFixture) -> None:
    """As long as there is a queue, nobody else does."""
    with post():
        logging.getLogger(OTLP).error("attempt failed")
    logging.getLogger(OTLP).error("of somebody else")

    assert [record.getMessage() for record in caplog.records] == ["of somebody else"]
