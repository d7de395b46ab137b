"""Whether a reply left: the one thing about a unary call that grpc.aio knows and does not tell.

It knows how a handler's task sends what the handler returned. It must never know what was in the reply.

After a handler returns, its task (the one that ran it) starts one batch with message and status and awaits a
future for it. The batch fails when the call was cancelled, its deadline passed or its connection broke before the
bytes were written; grpc.aio then swallows the failure: the task ends like any other, done callbacks of the task and
of the context look the same both ways, ``context.cancelled()`` is False, and no `CancelledError` comes any more,
because the reply counts as sent from the moment it was started. So we look at that future ourselves. Until its batch
is done the task waits for nothing else, and asyncio runs what `call_soon` was given during one step of a task before
it can run the task's next step: that is when the future is there to be found.

What stays open is open for every protocol without an acknowledgement: bytes were written, and the client gave up in
the time they took to reach it. It never tells the server, whose stream has ended. The lease runs out; a client that
wants it sooner asks again under the same ``request_id`` and releases what it is given.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cache, partial
from typing import cast

from governor.core.types import TicketId

_LOG = logging.getLogger(__name__)


class Delivery:
    """The grants on their way out; ``undelivered`` is told the ticket of one that did not leave."""

    def __init__(self, undelivered: Callable[[TicketId], None]) -> None:
        self._undelivered = undelivered
        # Whose handlers return in this turn of the loop. One look finds all their futures: one for each would cost
        # each call a turn of the loop's own machinery.
        self._returning: list[tuple[asyncio.Task[None], TicketId]] = []

    def watch(self, ticket: TicketId) -> None:
        """Take the running call's grant back if its reply does not leave; for the last step of a handler only.

        That is: from the handler's own task, and with no ``await`` between here and its return.
        """
        task = asyncio.current_task()
        assert task is not None
        if not self._returning:
            task.get_loop().call_soon(self._find)
        self._returning.append((task, ticket))

    def _find(self) -> None:
        returning, self._returning = self._returning, []
        for task, ticket in returning:
            batch = cast("asyncio.Future[None] | None", getattr(task, "_fut_waiter", None))
            if batch is not None:
                batch.add_done_callback(partial(self._judge, ticket))
            elif task.done():
                # Nothing was sent: the server had stopped under the handler's feet.
                self._undelivered(ticket)
            else:
                _complain()

    def _judge(self, ticket: TicketId, batch: asyncio.Future[None]) -> None:
        if batch.cancelled() or batch.exception() is not None:
            self._undelivered(ticket)


@cache
def _complain() -> None:
    # Only another grpc.aio or another asyncio can get us here, and then with every reply: once is enough. To take
    # back what may have arrived would lend the same permit twice; to leave it costs one lease's time.
    _LOG.error("cannot tell whether replies are delivered: this grpcio sends them in an unknown way")
