"""The life of one call: it is read, carried out, and answered, whatever happens.

It knows messages, refusals and faults. It must never know what is asked.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import grpc
from grpc import aio

from governor.access import Client
from governor.rpc import status, translate
from governor.rpc.reading import Reading

# Raw messages in and out: a handler that parses for itself can answer what cannot be parsed, where grpc.aio would
# say UNKNOWN; and one that serializes for itself can take a grant back when that fails.
Context = aio.ServicerContext[bytes, bytes]
Answer = bytes | status.Refusal
# Synchronous unless there is something to wait for: a coroutine for each call would cost each call.
Method = Callable[[bytes, Context], Answer | Awaitable[Answer]]
# Any number of messages; a refusal is the last.
Telling = Callable[[bytes, Context], AsyncGenerator[Answer, None]]
# The same for whoever may not see everything, and for None, who may.
Told = Callable[[bytes, Context, Client | None], AsyncGenerator[Answer, None]]
# Why one that is under way must not go on, if so.
Again = Callable[[], status.Refusal | None]

# How long a client may take to read one message of a stream. One that is frozen is not noticed otherwise if its unix
# socket is full: no ping gets through either.
WRITE_SECONDS: Final = 20.0

_LOG: Final = logging.getLogger(__name__)


def unary(name: str, method: Method, reading: Reading) -> "grpc.RpcMethodHandler[bytes, bytes]":
    """What a server is given for a method that answers with one message."""

    async def answer(_requests: object, context: Context) -> bytes:
        try:
            raw = await reading.message(context)
            made = method(raw, context) if raw is not None else status.refusal(translate.NO_MESSAGE)
            answer = made if isinstance(made, (bytes, status.Refusal)) else await made
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the caller is gone, or gRPC cuts the call off: there is nobody to answer
            # Something we waited for was cancelled under us. Let out, this would leave a living caller hanging
            # until its deadline: grpc.aio takes it for the caller's own doing and sends nothing.
            _LOG.exception("%s: cancelled from within", name)
            answer = status.FAULT
        except aio.BaseError:
            raise  # the transport's own: the call or the server has ended, and must not be touched any more
        except Exception:  # noqa: BLE001 - the caller is answered and the log has all of it
            _LOG.exception("%s failed", name)
            answer = status.FAULT
        if isinstance(answer, status.Refusal):
            await context.abort(answer.code, answer.message, answer.metadata)
        return answer

    # Served as if requests were a stream, since that lets us do the reading: grpc.aio leaves a unary call that came
    # without its message open for ever, unanswered, and every stop waits for it.
    return grpc.stream_unary_rpc_method_handler(answer)


class Tellings:
    """Calls that are answered with a stream of messages, which end when told to: else they would hold up a stop."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        # Those that end with the daemon; and of those that are asked again, how.
        self._tasks: set[asyncio.Task[object]] = set()
        self._again: dict[asyncio.Task[object], Again] = {}
        # Why each that has been cut off was.
        self._ends: dict[asyncio.Task[object], status.Refusal] = {}
        self._stopping = False

    def stop(self) -> None:
        """End all of them, and any that come yet."""
        self._stopping = True
        for task in self._tasks:
            self._end(task, status.STOPPING)

    def ask_again(self) -> None:
        """Who may be told what has changed: whoever may not go on is told so."""
        for task, again in list(self._again.items()):
            if (refusal := again()) is not None:
                self._end(task, refusal)

    def of_this_call(self, again: Again) -> None:
        """The call that is being answered is asked again by this."""
        task = asyncio.current_task()
        assert task is not None, "a call is answered outside of any task"
        self._again[task] = again

    def _end(self, task: asyncio.Task[object], refusal: status.Refusal) -> None:
        if task not in self._ends:
            self._ends[task] = refusal
            task.cancel()

    def handler(self, name: str, method: Telling, *, cut: bool = True) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """What a server is given. Not ``cut``: it ends by itself when the daemon does."""

        async def tell(_requests: object, context: Context) -> None:
            raw = await self._reading.message(context)
            refusal: status.Refusal | None
            if raw is None:
                refusal = status.refusal(translate.NO_MESSAGE)
            elif self._stopping:
                refusal = status.STOPPING
            else:
                # On their own, as those of a session: an end that comes while the first message is on its way would
                # send them once more, and gRPC then sends nothing at all.
                await context.send_initial_metadata(())
                refusal = await self._tell(name, method(raw, context), context, cut=cut)
            if refusal is not None:
                await context.abort(refusal.code, refusal.message, refusal.metadata)

        return grpc.stream_stream_rpc_method_handler(tell)

    async def _tell(
        self, name: str, messages: AsyncGenerator[Answer, None], context: Context, *, cut: bool
    ) -> status.Refusal | None:
        """All of them, as fast as the client reads; why, if it does not end well."""
        if self._stopping:
            return status.STOPPING
        task = asyncio.current_task()
        assert task is not None, "a call is answered outside of any task"
        if cut:
            self._tasks.add(task)
        try:
            async with aclosing(messages):
                async for message in messages:
                    if isinstance(message, status.Refusal):
                        return message
                    async with asyncio.timeout(WRITE_SECONDS):
                        await context.write(message)
        except asyncio.CancelledError:
            end = self._ends.get(task)
            if end is None or task.uncancel():
                raise  # the client is gone, or gRPC cuts the call off: there is nobody to tell
            return end
        except TimeoutError:
            return status.UNREAD
        except aio.BaseError:
            raise  # as above
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("%s failed", name)
            return status.FAULT
        finally:
            self._tasks.discard(task)
            self._again.pop(task, None)
            self._ends.pop(task, None)
        return None
