"""What whoever looks wants to see: the order, the filter, the resource that is looked into.

It knows keys and what they change. It must never know how it is drawn.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from governor.cli.lengths import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from governor.v1.governor_pb2 import Resource

    Key = Callable[[Resource], tuple[object, ...]]

_MAX_FILTER: Final = 60


def full(resource: "Resource") -> float | None:
    """How much of it is lent or spent, from 0 to 1 or, over the limit, above; None if it has no limit."""
    if not resource.HasField("capacity"):
        return None
    if not resource.capacity:
        return 0.0
    if resource.in_use:
        return resource.in_use / resource.capacity
    return spent(resource) / resource.capacity


def spent(resource: "Resource") -> int:
    """How much of it is not to be had just now, of a rate limit; what is paused has nothing to be had, spent or not."""
    stopped = resource.paused or resource.draining
    return resource.capacity - resource.available if resource.kind == "rate_limit" and not stopped else 0


def oldest(resource: "Resource") -> float:
    """How long the first in its line has waited, in seconds; below 0 if nobody waits."""
    return seconds(resource.oldest_wait) if resource.HasField("oldest_wait") else -1.0


# By what the table may be sorted, in the order of the keys < and >; what comes first is what there is most of.
ORDERS: Final[dict[str, "Key"]] = {
    "what hurts": lambda each: (-oldest(each), -(full(each) or 0.0)),
    "how full": lambda each: (-(full(each) or 0.0),),
    "waiters": lambda each: (-each.waiters,),
    "leases": lambda each: (-each.leases,),
    "kind": lambda each: (each.kind,),
    "name": lambda _: (),
}


@dataclass(slots=True)
class View:
    """What is looked at. ``selected`` and ``inside`` are names: rows move, and what one looks at does not."""

    order: str = "what hurts"
    filter: str = ""
    # The filter is being typed.
    typing: bool = False
    selected: str | None = None
    inside: str | None = None
    # The first row, or line, that is shown.
    top: int = 0
    help: bool = False
    over: bool = False
    # Draw everything anew: something else may have written on the terminal.
    torn: bool = False

    def rows(self, resources: "Iterable[Resource]") -> "list[Resource]":
        """Those to be shown, in order."""
        word = self.filter.casefold()
        chosen = [each for each in resources if word in each.name.casefold() or word in each.kind]
        return sorted(chosen, key=lambda each: (*ORDERS[self.order](each), each.name))

    def press(self, key: str, names: "Sequence[str]", page: int) -> None:
        """A key was pressed, with these rows in this order, and ``page`` lines of room for them."""
        if key == "redraw":
            self.torn = True
        elif self.typing:
            self._type(key)
        elif key == "q":
            self.over = True
        elif self.help:
            self.help = False
        elif key in {"h", "?"}:
            self.help = True
        elif self.inside is not None:
            self._scroll(key, page)
        else:
            self._choose(key, names, page)

    def _type(self, key: str) -> None:
        """Into the filter."""
        match key:
            case "enter":
                self.typing = False
            case "escape":
                self.typing, self.filter = False, ""
            case "backspace":
                self.filter = self.filter[:-1]
            case "clear":
                self.filter = ""
            case _ if len(key) == 1 and len(self.filter) < _MAX_FILTER:
                self.filter += key
            case _:
                pass

    def _choose(self, key: str, names: "Sequence[str]", page: int) -> None:
        """In the table."""
        match key:
            case "s" | ">":
                self._sort(1)
            case "<":
                self._sort(-1)
            case "/":
                self.typing = True
            case "escape":
                self.filter = ""
            case "enter" | "right" if names:
                self.inside, self.top = self._row(names, 0), 0
            case "up" | "k":
                self.selected = self._row(names, -1)
            case "down" | "j":
                self.selected = self._row(names, 1)
            case "page up":
                self.selected = self._row(names, -page)
            case "page down":
                self.selected = self._row(names, page)
            case "home":
                self.selected = self._row(names, -len(names))
            case "end":
                self.selected = self._row(names, len(names))
            case _:
                pass

    def _scroll(self, key: str, page: int) -> None:
        """In one resource."""
        match key:
            case "escape" | "left" | "enter" | "backspace":
                self.selected, self.inside, self.top = self.inside, None, 0
            case "up" | "k":
                self.top = max(0, self.top - 1)
            case "down" | "j":
                self.top += 1
            case "page up":
                self.top = max(0, self.top - page)
            case "page down":
                self.top += page
            case "home":
                self.top = 0
            case _:
                pass

    def _sort(self, step: int) -> None:
        orders = list(ORDERS)
        self.order = orders[(orders.index(self.order) + step) % len(orders)]
        # What comes first is what one wants to see.
        self.selected, self.top = None, 0

    def _row(self, names: "Sequence[str]", step: int) -> str | None:
        """The name so many rows below the selected one."""
        if not names:
            return None
        at = names.index(self.selected) if self.selected in names else 0
        return names[min(max(0, at + step), len(names) - 1)]
