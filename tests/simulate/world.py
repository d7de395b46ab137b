"""World: what happens when, and whoever waits for it.

It knows an order of instants, and chance. It must never know what happens in it.
"""

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from random import Random
from typing import Final, Generic, TypeVar

from governor.core.types import Nanos

T = TypeVar("T")

# What somebody does, step by step: it waits for a length of time, or for a promise.
Life = Generator["Nanos | Promise[object]", object, None]


class Promise(Generic[T]):
    """Something that will be known, or will not: whoever waits for it goes on with it, or with None when time is up."""

    __slots__ = ("_world", "kept", "waiting")

    def __init__(self, world: "World", timeout: Nanos) -> None:
        self.kept = False
        self.waiting: Callable[[object], None] | None = None
        self._world = world
        world.after(timeout, lambda: self._keep(None))

    def keep(self, value: T) -> None:
        """Here it is, unless it is too late."""
        self._keep(value)

    def _keep(self, value: T | None) -> None:
        if not self.kept:
            self.kept = True
            if self.waiting is not None:
                self.waiting(value)


class World:
    """A clock that jumps from one thing that happens to the next."""

    def __init__(self, seed: int) -> None:
        self.chance: Final = Random(seed)
        self.now: Nanos = 0
        self._queue: list[tuple[Nanos, int, Callable[[], object]]] = []
        self._number = 0

    def after(self, length: Nanos, do: Callable[[], object]) -> None:
        """It happens that much later; of one instant, in the order in which it was arranged."""
        self._number += 1
        heappush(self._queue, (self.now + max(0, length), self._number, do))

    def live(self, life: Life) -> None:
        """Somebody begins to live."""
        self._go_on(life, None)

    def run(self, until: Nanos) -> None:
        """Let happen whatever does."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heappop(self._queue)
            do()
        self.now = until

    def between(self, least: Nanos, most: Nanos) -> Nanos:
        """Some length, short ones as likely as long ones."""
        return int(least * (most / least) ** self.chance.random())

    def _go_on(self, life: Life, value: object) -> None:
        try:
            awaited = life.send(value)
        except StopIteration:
            return
        if isinstance(awaited, Promise):
            awaited.waiting = lambda kept: self._go_on(life, kept)
        else:
            self.after(awaited, lambda: self._go_on(life, None))
