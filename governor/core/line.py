"""Line: who waits for a resource, in the order of asking.

It knows waiting asks and their order. It must never know whether one can be granted.
One invariant: ``permits`` is what all of them want together, so 0 means that nobody waits. ``most`` is how many have
stood here at once since it was last set.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final

from governor.core.ask import Ask, Place

# How many of a line are looked at to tell somebody where they stand in it.
COUNTED: Final = 100


class Line:
    """The asks that wait for one resource."""

    __slots__ = ("_waiters", "most", "permits")

    def __init__(self) -> None:
        # An OrderedDict: a plain dict takes ever longer to find its first entry as entries before it go.
        self._waiters: OrderedDict[Place, Ask] = OrderedDict()
        self.permits = 0
        self.most = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Ask]:
        return iter(self._waiters.values())

    @property
    def head(self) -> Ask | None:
        """The first in line."""
        for ask in self._waiters.values():
            return ask
        return None

    def ahead_of(self, ask: Ask) -> list[Ask]:
        """Who stands before ``ask``, of the first ``COUNTED``: to be asked again and again must stay cheap."""
        return list(takewhile(lambda other: other is not ask, islice(self._waiters.values(), COUNTED)))

    def join(self, ask: Ask, permits: int) -> None:
        """Stand behind everybody."""
        self._waiters[ask.place] = ask
        self.permits += permits
        if len(self._waiters) > self.most:
            self.most = len(self._waiters)

    def leave(self, ask: Ask, permits: int) -> None:
        """Step out, from anywhere in the line."""
        del self._waiters[ask.place]
        self.permits -= permits
