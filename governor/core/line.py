"""Line: who waits for a resource, in the order of asking.

It knows waiting asks and their order. It must never know whether one can be granted.
One invariant: ``permits`` is what all of them want together, so 0 means that nobody waits. ``most`` is how many have
stood here at once since it was last set.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Final

from governor.core.ask import Ask, Place

# How many of a line are looked at to tell somebody where they stand in it.
COUNTED: Final = 100


class Line:
    """The asks that wait for one resource."""

    __slots__ = ("_waiters", "most", "permits")

    def __init__(self) -> None:
        # An OrderedDict: a plain dict takes ever longer to find its first entry as entries before it go.
        # With each ask what it wants here: to look for that among all its claims, for each who waits, may take long.
        self._waiters: OrderedDict[Place, tuple[Ask, int]] = OrderedDict()
        self.permits = 0
        self.most = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Ask]:
        return iter([ask for ask, _ in self._waiters.values()])

    @property
    def head(self) -> Ask | None:
        """The first in line."""
        for ask, _ in self._waiters.values():
            return ask
        return None

    @property
    def head_permits(self) -> int:
        """How many permits the first in line wants here; 0 when nobody waits."""
        for _, permits in self._waiters.values():
            return permits
        return 0

    def ahead_of(self, ask: Ask) -> tuple[int, int]:
        """How many stand before ``ask``, and the permits that they want here.

        Of the first ``COUNTED`` alone: to be asked again and again must stay cheap.
        """
        number = wanted = 0
        for other, permits in islice(self._waiters.values(), COUNTED):
            if other is ask:
                break
            number += 1
            wanted += permits
        return number, wanted

    def join(self, ask: Ask, permits: int) -> None:
        """Stand behind everybody."""
        self._waiters[ask.place] = (ask, permits)
        self.permits += permits
        if len(self._waiters) > self.most:
            self.most = len(self._waiters)

    def leave(self, ask: Ask, permits: int) -> None:
        """Step out, from anywhere in the line."""
        del self._waiters[ask.place]
        self.permits -= permits
