"""Aside: work that may block, in a thread that nobody has to wait for.

It knows threads. It must never know what the work is.

Each has a thread of its own, which does not hold up the end of the process: a file on a network's disk may never be
read to its end, and one that is kept for the next work costs memory until then.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """What it returns or raises. Cancelling stops nothing: the thread goes on, and nobody hears of it."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def do() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(result)

    thread = Thread(target=do, name=name, daemon=True)
    waited_for = asyncio.wrap_future(done)
    thread.start()
    return waited_for
