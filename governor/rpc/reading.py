"""The time that a call's message may take to come: whoever starts a call and sends nothing must not stay for ever.

It knows which calls have not been read yet. It must never know what they ask.

One timer looks at all of them now and then, and only while there are any: a timer for each call would cost every
call several times as much, and an idle daemon is not woken.
"""

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grpc import aio

# A message comes with its call, or on a bad line soon after. At least one such time, less than two.
LOOK_SECONDS: Final = 5.0


class Reading:
    """The calls of one server whose message has not come."""

    def __init__(self) -> None:
        # Each with the number of the look that came before it.
        self._calls: dict[asyncio.Task[object], int] = {}
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None

    async def message(self, context: "aio.ServicerContext[bytes, bytes]") -> bytes | None:
        """The call's message; None if its sender ended the call without one, or took too long."""
        task = asyncio.current_task()
        assert task is not None
        if self._timer is None:
            self._timer = task.get_loop().call_later(LOOK_SECONDS, self._look)
        self._calls[task] = self._looks
        try:
            # The stubs say bytes, but at the end of a stream it is aio.EOF.
            raw: object = await context.read()
        except asyncio.CancelledError:
            if task not in self._calls and not task.uncancel():
                return None
            raise
        finally:
            self._calls.pop(task, None)
        return raw if isinstance(raw, bytes) else None

    def stop(self) -> None:
        """Wait for none of them any longer."""
        self._give_up(list(self._calls))

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look) if self._calls else None
        late = [task for task, looks in self._calls.items() if looks < self._looks]
        self._looks += 1
        self._give_up(late)

    def _give_up(self, late: "list[asyncio.Task[object]]") -> None:
        for task in late:
            del self._calls[task]
            task.cancel()
