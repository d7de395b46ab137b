"""The screen as lines, made of what was seen and of what is wanted.

It knows columns and rows of characters. It must never know a terminal, nor read a clock.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from governor.cli import about, config
from governor.cli.live.view import View, full, spent
from governor.cli.marks import marks
from governor.cli.table import Column, arrange, clip
from governor.wording import count, printable, span

if TYPE_CHECKING:
    from governor.v1.governor_pb2 import ListResourcesResponse, Resource

Style = Literal["plain", "bold", "dim", "red", "yellow", "bar"]

# Below this, a resource is not near to full.
_NEAR: Final = 0.8
_BAR: Final = 20
# The lines above the rows, and below them.
ABOVE: Final = 4
BELOW: Final = 1

HELP: Final = (
    "up, down, page up, page down, home, end",
    "                    move",
    "enter, right        look into the resource: its leases, its line, its members",
    "escape, left        back; in the table: no filter",
    "s or >, <           sort by the next thing, the one before",
    "/                   filter by name or kind; enter keeps it, escape drops it",
    "ctrl-l              draw everything anew",
    "q, ctrl-c           end",
    "",
    "Sorted by what hurts: who has waited longest, then what is nearest to full.",
    "Red: somebody waits. Yellow: four fifths or more are lent or spent.",
    "Nothing can be changed here: see governor pause, revoke, set and the like.",
    "",
    "any key goes on",
)


class Line(NamedTuple):
    """One line; what is too long for the screen is cut there. ``chosen``: it is the one that keys are about."""

    text: str
    style: Style = "plain"
    chosen: bool = False


@dataclass(slots=True, frozen=True)
class Seen:
    """What was last heard of the daemon. Lengths are in nanoseconds.

    ``problem``: why there is nothing newer, for ``away``. ``inside``: the resource that is looked into; else why not.
    """

    answer: "ListResourcesResponse"
    problem: str = ""
    away: int = 0
    inside: about.About | None = None
    inside_problem: str = ""


@dataclass(slots=True, frozen=True)
class Heading:
    """What the first line says: where the daemon is, the time of day, the interval in nanoseconds."""

    where: str
    time: str
    interval: int


def paint(view: View, seen: Seen, heading: Heading, *, width: int, height: int) -> list[Line]:
    """Exactly ``height`` lines. It moves what is shown so that what is chosen can be seen."""
    room = max(1, height - ABOVE - BELOW)
    rows = view.rows(seen.answer.resources)
    if view.help:
        body = [Line(""), *(Line(f"  {line}") for line in HELP)]
    elif view.inside is not None:
        body = _inside(view, seen, width, room)
    else:
        body = _rows(view, rows, width, room)
    lines = [*_above(view, seen, heading, width), *body]
    lines = lines[: height - BELOW] + [Line("")] * (height - BELOW - len(lines))
    return [*lines, _below(view, len(rows), len(seen.answer.resources))][-height:]


def _above(view: View, seen: Seen, heading: Heading, width: int) -> Iterator[Line]:
    answer = seen.answer
    right = f"{heading.time}  every {span(heading.interval)}"
    left = clip(f"governor top  {heading.where}", max(len("governor top"), width - len(right) - 2))
    yield Line(f"{left}{' ' * max(2, width - len(left) - len(right))}{right}", "bold")
    totals = (
        count(len(answer.resources), "resource"),
        count(answer.leases, "lease"),
        f"{answer.waiters} waiting",
    )
    source = answer.config.source.rpartition("/")[2] or config.BUILT_IN
    since = f", config {printable(source)} since {config.instant(answer.config.since)[:-3]}"
    yield Line(", ".join(totals) + (since if answer.HasField("config") else ""))
    if seen.problem:
        yield Line(f"no daemon for {span(seen.away, passed=True)}: {seen.problem}", "red")
    elif answer.config.problems:
        more = f" (and {len(answer.config.problems) - 1} more)" if len(answer.config.problems) > 1 else ""
        yield Line(f"a reload was refused: {printable(answer.config.problems[0])}{more}", "red")
    elif answer.draining:
        yield Line("the daemon drains: it refuses new asks, and is about to end", "yellow")
    else:
        kept = f", only those with {printable(view.filter)!r}" if view.filter else ""
        yield Line("" if view.inside else f"sorted by {view.order}{kept}", "dim")


def _rows(view: View, rows: "Sequence[Resource]", width: int, room: int) -> list[Line]:
    if not rows:
        return [Line(""), Line("  no resource fits the filter" if view.filter else "  the config declares no resource")]
    names = [each.name for each in rows]
    at = names.index(view.selected) if view.selected in names else 0
    # The chosen one is seen, and no more lines are left empty than must be.
    view.top = min(max(view.top, at - room + 1), at, max(0, len(rows) - room))
    view.top = max(0, view.top)
    shown = rows[view.top : view.top + room]
    head, *lines = arrange(_columns(shown, rows), width=width - 2)
    chosen = at - view.top
    return [
        Line(f"  {head}", "bar"),
        *(
            Line(f"{'>' if number == chosen else ' '} {line}", _style(each), number == chosen)
            for number, (each, line) in enumerate(zip(shown, lines, strict=True))
        ),
    ]


def _columns(shown: "Sequence[Resource]", rows: "Sequence[Resource]") -> Sequence[Column]:
    # As wide as the widest name of all, so that nothing moves when rows do.
    widest = max(len(printable(each.name)) for each in rows)
    return (
        Column("NAME", [printable(each.name) for each in shown], left=True, elastic=True, least=min(widest, 24)),
        Column("KIND", [printable(each.kind) for each in shown], left=True, rank=2, least=10),
        Column("", [_bar(each) for each in shown], left=True, rank=3, least=_BAR),
        Column("IN USE", [_in_use(each) for each in shown], least=9),
        Column("FULL", [_percent(each) for each in shown], least=4),
        Column("WAITERS", [str(each.waiters) for each in shown]),
        Column("OLDEST", [_oldest(each) for each in shown], least=6),
        Column("LEASES", [str(each.leases) for each in shown], rank=1),
        Column("NOTE", [", ".join(marks(each)) for each in shown], left=True, elastic=True, sparse=True),
    )


def _in_use(each: "Resource") -> str:
    if not each.HasField("capacity"):
        return f"{each.in_use}/-"
    return f"{each.in_use or spent(each)}/{each.capacity}"


def _percent(each: "Resource") -> str:
    part = full(each)
    return "-" if part is None else f"{int(part * 100)}%"


def _bar(each: "Resource") -> str:
    part = full(each)
    return "" if part is None else "|" * min(_BAR, round(part * _BAR))


def _oldest(each: "Resource") -> str:
    return span(each.oldest_wait.ToNanoseconds(), passed=True) if each.HasField("oldest_wait") else "-"


def _style(each: "Resource") -> Style:
    if each.waiters:
        return "red"
    part = full(each)
    return "yellow" if part is not None and part >= _NEAR else "plain"


def _inside(view: View, seen: Seen, width: int, room: int) -> list[Line]:
    if seen.inside is None or seen.inside.resource.name != view.inside:
        name = printable(view.inside or "")
        why = seen.inside_problem or "asking"
        words = textwrap.wrap(f"{name}: {why}", width, initial_indent="  ", subsequent_indent="    ")
        return [Line(""), *(Line(line, "red" if seen.inside_problem else "dim") for line in words)]
    head, *lines = about.lines(seen.inside, width=width)
    view.top = max(0, min(view.top, len(lines) - room))
    return [Line(head, "bar"), *(Line(line) for line in lines[view.top : view.top + room])]


def _below(view: View, shown: int, total: int) -> Line:
    if view.typing:
        return Line(
            f"filter: {printable(view.filter)}_  ({shown} of {total}; enter keeps it, escape drops it)", chosen=True
        )
    if view.inside is not None:
        return Line("escape back   up/down scroll   h help   q quit", "dim")
    return Line("up/down move   enter look in   s sort   / filter   h help   q quit", "dim")
