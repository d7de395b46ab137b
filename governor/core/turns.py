"""Turns: whose turn it is among the members of a pool that can be lent.

It knows the members in their declared order and the key that ranks them. It must never know why a member can
be lent or cannot. One invariant: a member has a place if, and only if, it takes turns; the least is next.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from governor.core.member import PoolMember


class Turns:
    """A heap of places.

    A place is one integer, which a heap compares fastest: the member's key times the number of members, plus
    the member's index. A member that moves gets a new place; its old one is dropped when it comes up, or when
    most of the heap is such.
    """

    __slots__ = ("_heap", "_key", "_members")

    def __init__(self, members: Sequence[PoolMember], key: Callable[[PoolMember], int]) -> None:
        """Nobody takes turns yet; the least ``key`` will be next, among equals the first of ``members``."""
        self._members = members
        self._key = key
        self._heap: list[int] = []
        for member in members:
            member.place = None

    def next(self) -> PoolMember:
        """Whose turn it is; only while somebody takes turns."""
        heap, members = self._heap, self._members
        while (member := members[heap[0] % len(members)]).place != heap[0]:
            heappop(heap)
        return member

    def enter(self, member: PoolMember) -> None:
        """It takes turns, at the place that its key says by now; from its former place it moves there."""
        place = self._key(member) * len(self._members) + member.index
        if place == member.place:
            return
        member.place = place
        heappush(self._heap, place)
        if len(self._heap) > 2 * len(self._members) + 16:
            self._heap = [each.place for each in self._members if each.place is not None]
            heapify(self._heap)

    def leave(self, member: PoolMember) -> None:
        """It takes no turns any more."""
        member.place = None
