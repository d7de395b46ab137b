"""Spans on their way out: a bounded queue, and one thread that hands them to an exporter.

It knows how many wait, and what becomes of those that do not fit or are not taken. It must never know what they say,
and never hold up whoever has made one.

The invariant: every sampled span is either exported or counted as dropped, for one reason.

The SDK has such a queue. It does not count what it drops, wakes every five seconds though nothing is there, and has a
collector that is away complain for each attempt.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from governor.wording import were

# Spans that wait: half a second of a daemon that does nothing but trace, and 13 MB.
ROOM: Final = 4096
# Of one export: to write them takes the interpreter 12 ms, in which the event loop has its turns.
BATCH: Final = 256
# How long the first of a batch waits for others, in seconds.
DELAY_S: Final = 1.0
# How long an exporter that is shut down may take to notice, in seconds.
_GIVES_UP_S: Final = 0.5

_LOG: Final = logging.getLogger("governor")


class Dropped(StrEnum):
    """Why a span is not exported; the value is the label of the metric."""

    # More came than the collector takes.
    QUEUE_FULL = "queue_full"
    # The collector did not take it, or could not be reached.
    REFUSED = "refused"
    # It was still there when the daemon had ended.
    ENDING = "ending"
    # As many holds are traced as may be, so this one is not.
    TOO_MANY_HOLDS = "too_many_holds"


class Outgoing(SpanProcessor):
    """Told of spans in the event loop. ``exported`` and ``dropped`` are called with how many were, in either thread."""

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        exported: Callable[[int], None],
        dropped: Callable[[Dropped, int], None],
        room: int = ROOM,
        batch: int = BATCH,
        delay: float = DELAY_S,
    ) -> None:
        self._exporter = exporter
        self._exported = exported
        self._dropped = dropped
        self._room, self._batch, self._delay = room, batch, delay
        self._work = threading.Condition()
        self._spans: deque[ReadableSpan] = deque()
        self._under_way = 0
        self._ending = self._abandoned = False
        self._failing = False
        self._complaints = _Complaints()
        # A daemon thread, since it may stand in an export for as long as that takes.
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Have it exported, if there is room."""
        context = span.context
        if context is None or not context.trace_flags.sampled:
            return
        with self._work:
            fits = len(self._spans) < self._room and not self._ending
            if fits:
                self._spans.append(span)
                if len(self._spans) in {1, self._batch}:
                    self._work.notify()
        if not fits:
            self._dropped(Dropped.QUEUE_FULL, 1)

    def end(self, patience: float) -> None:
        """Export what is there, for ``patience`` seconds at most, and no more. It blocks for so long."""
        with self._work:
            self._ending = True
            self._work.notify()
        self._thread.join(patience)
        with self._work:
            self._abandoned = True
            left = len(self._spans) + self._under_way
        self._exporter.shutdown()
        # It gives up an export that is under way; what it would say of that is ours to say.
        self._thread.join(_GIVES_UP_S)
        self._complaints.leave()
        if left:
            self._dropped(Dropped.ENDING, left)
            _LOG.warning("traces: %s dropped: there was no time to export them", were(left, "span"))

    def _run(self) -> None:
        while batch := self._next():
            why = self._export(batch)
            with self._work:
                if self._abandoned:
                    return  # counted by whoever waited for it
                self._under_way = 0
                if why:
                    self._dropped(Dropped.REFUSED, len(batch))
                else:
                    self._exported(len(batch))
            self._tell(why)

    def _next(self) -> list[ReadableSpan]:
        """What to export next, when there is anything; nothing at the end."""
        with self._work:
            self._work.wait_for(lambda: self._spans or self._ending)
            self._work.wait_for(lambda: len(self._spans) >= self._batch or self._ending, self._delay)
            batch = [self._spans.popleft() for _ in range(min(self._batch, len(self._spans)))]
            self._under_way = len(batch)
            return batch

    def _export(self, batch: list[ReadableSpan]) -> str:
        """Why they were not taken, if they were not."""
        try:
            if self._exporter.export(batch) is SpanExportResult.SUCCESS:
                return ""
        except Exception as error:  # noqa: BLE001 - whatever it is, spans wait for this thread, and it must go on
            return " ".join(f"{type(error).__name__}: {error}".split())
        return self._complaints.last or "the collector did not take them"

    def _tell(self, why: str) -> None:
        """One line when it begins, and one when it is over."""
        if why and not self._failing:
            _LOG.warning("traces: spans cannot be exported: %s; until they can, they are dropped", why)
        elif self._failing and not why:
            _LOG.info("traces: spans are exported again")
        self._failing = bool(why)


class _Complaints(logging.Filter):
    """What OTLP's exporter says of each attempt, kept for one line of our own."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._logger = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
        self._logger.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep it, and let nobody else see it."""
        self.last = " ".join(record.getMessage().split())
        return False

    def leave(self) -> None:
        """Keep nothing any more; safe twice."""
        self._logger.removeFilter(self)
