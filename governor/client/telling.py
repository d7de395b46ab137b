"""Telling the program what there is to tell: its answers, its places in line, its losses.

It knows in which thread or event loop each is to be told. It must never wait for the program, nor fail with it.
"""

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from governor.client.asks import Ask
from governor.client.conversation import Answer, Conversation
from governor.client.held import Held

if TYPE_CHECKING:
    import asyncio

_LOG: Final = logging.getLogger("governor.client")

# Leases that are named in one line of the log.
_FEW: Final = 5


def tell(talk: Conversation) -> None:
    """All that a conversation has for the program."""
    # Places first: nobody is told where in line he stands when he has his answer.
    if talk.places:
        places, talk.places = talk.places, []
        for ask, ahead, expected in places:
            if ask.on_queued is not None:
                _place(ask, partial(ask.on_queued, ahead, expected))
    if talk.answers:
        answers, talk.answers = talk.answers, []
        _answer(talk, answers)
    if talk.keeping.losses:
        losses, talk.keeping.losses = talk.keeping.losses, []
        _complain(losses)
        for held in losses:
            _call(held.tell_loss)


def _complain(losses: list[Held]) -> None:
    """One line for each reason, however many leases are lost at once."""
    by_why: dict[str, list[Held]] = {}
    for held in losses:
        by_why.setdefault(held.why, []).append(held)
    for why, lost in by_why.items():
        if len(lost) == 1:
            (held,) = lost
            _LOG.warning("lease %d on %s is lost: %s", held.id, ", ".join(n for n, _ in held.claims), why)
        else:
            # What each was for could make it a long line.
            few = ", ".join(str(held.id) for held in lost[:_FEW])
            more = f" and {len(lost) - _FEW:,} more" if len(lost) > _FEW else ""
            _LOG.warning("%s leases are lost (%s%s): %s", f"{len(lost):,}", few, more, why)


def _place(ask: Ask, told: Callable[[], None]) -> None:
    if ask.loop is None:
        told()
    else:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits there
            ask.loop.call_soon_threadsafe(told)


def _answer(talk: Conversation, answers: list[tuple[Ask, Answer]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Ask, Answer]]] = {}
    for told in answers:
        ask, answer = told
        loop = ask.loop
        if loop is None:
            assert ask.settle is not None
            ask.settle(answer)
        elif (of_loop := by_loop.get(loop)) is not None:
            of_loop.append(told)
        else:
            by_loop[loop] = [told]
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, settled)
        except RuntimeError:  # the loop is closed, and nobody waits there
            for ask, _ in settled:
                talk.cancel(ask)


def _settle(settled: list[tuple[Ask, Answer]]) -> None:
    for ask, answer in settled:
        waiter = ask.waiter
        assert waiter is not None
        if not waiter.done():
            waiter.set_result(answer)


def _call(told: Callable[[], None]) -> None:
    """Tell of a loss. Whatever comes of it, the client's thread goes on."""
    try:
        told()
    except BaseException:  # noqa: BLE001 - it is the program's, also if it wants to end: this thread is not its own
        _LOG.exception("the program failed when it was told something")
