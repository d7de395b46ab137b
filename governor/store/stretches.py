"""Stretches: leases whose ids lie side by side, as one row of a statement.

It knows that what was granted together is as a rule renewed and ended together. It must never know what a lease is.
"""

from governor.core.types import Nanos


def run(ids: list[tuple[int]]) -> list[tuple[int, int]]:
    """The first and the last, when all between are there, too: as a rule what was granted together ends together."""
    if len(ids) > 1 and max(ids)[0] - min(ids)[0] == len(ids) - 1:
        return [(min(ids)[0], max(ids)[0])]
    return []


def stretches(moved: list[tuple[Nanos, bool, bool, int]]) -> list[tuple[Nanos, bool, bool, int, int]]:
    """Those that lie side by side and end alike, as one: what was granted to one client it keeps alive together."""
    found: list[tuple[Nanos, bool, bool, int, int]] = []
    deadline, orphaned, graced, first, last = -1, False, False, -1, -1
    for row in moved:
        if row[3] == last + 1 and row[0] == deadline and row[1] == orphaned and row[2] == graced:
            last = row[3]
            continue
        if last >= 0:
            found.append((deadline, orphaned, graced, first, last))
        deadline, orphaned, graced, first = row
        last = first
    if last >= 0:
        found.append((deadline, orphaned, graced, first, last))
    return found
