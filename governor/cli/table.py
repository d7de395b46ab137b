"""Lines of aligned columns, for a terminal and for grep alike.

It knows the widths of texts. It must never know what a column means.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

GAP: Final = "  "
# What a column that is cut keeps at least.
_LEAST: Final = 8
_NOTE: Final = "NOTE"


@dataclass(slots=True, frozen=True)
class Column:
    """One column: what is above it and in it.

    ``rank``: where there is not room for all, the highest go first; those of 0 stay, and are cut instead if they are
    ``elastic``. A column that is ``sparse`` is left out when it says nothing. ``least`` is how wide it is at least.
    """

    title: str
    cells: Sequence[str]
    left: bool = False
    rank: int = 0
    elastic: bool = False
    sparse: bool = False
    least: int = 0


def arrange(columns: Sequence[Column], *, width: int | None) -> Iterator[str]:
    """The lines of a table, its header first, of as many columns as a terminal of ``width`` has room for.

    Width None is no terminal: all of them, and each whole.
    """
    shown = [column for column in columns if not column.sparse or any(column.cells)]
    sizes = {each.title: max(each.least, *map(cell_len, (each.title, *each.cells))) for each in shown}
    if width is not None:
        while _sum(shown, sizes) > width and (last := max(shown, key=lambda column: column.rank)).rank:
            shown.remove(last)
        for _ in shown:
            over = _sum(shown, sizes) - width
            elastic = [column.title for column in shown if column.elastic and sizes[column.title] > _LEAST]
            if over <= 0 or not elastic:
                break
            widest = max(elastic, key=lambda title: sizes[title])
            sizes[widest] = max(_LEAST, sizes[widest] - over)
    for cells in zip(*((column.title, *column.cells) for column in shown), strict=True):
        parts = [
            _pad(clip(cell, sizes[column.title]), sizes[column.title], left=column.left)
            for column, cell in zip(shown, cells, strict=True)
        ]
        yield GAP.join(parts).rstrip()


def _sum(columns: Sequence[Column], sizes: dict[str, int]) -> int:
    return sum(sizes[column.title] for column in columns) + len(GAP) * (len(columns) - 1)


def clip(text: str, size: int) -> str:
    """The text in at most so many columns; what is cut ends with an ellipsis."""
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size - 1)) + "…"[:size]


def _pad(text: str, size: int, *, left: bool) -> str:
    room = " " * (size - cell_len(text))
    return text + room if left else room + text


def lay_out(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: AbstractSet[int],
    width: int | None,
    notes: Sequence[str] = (),
) -> Iterator[str]:
    """The lines of a table: the columns of ``left`` align to the left, the others to the right.

    ``width`` is the terminal's. The first column is a name and is never cut: where the others would not fit
    beside it, it gets a line of its own, as df(1) does it. Width None keeps each row on one line. ``notes``: one
    for each row, or none; if they do not all fit behind the rows, each has a line below.
    """
    if any(notes):
        noted = [(*row, note) for row, note in zip(rows, notes, strict=True)]
        lines = list(lay_out((*header, _NOTE), noted, left={*left, len(header)}, width=None))
        if width is None or max(map(cell_len, lines)) <= width:
            yield from lines
            return
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    if width is not None:
        room = width - sum(widths[1:]) - len(GAP) * (len(widths) - 1)
        names = [cell_len(row[0]) for row in (header, *rows)]
        widths[0] = max((name for name in names if name <= room), default=len(header[0]))
    for row, note in zip((header, *rows), ("", *(notes or [""] * len(rows))), strict=True):
        cells = list(row)
        if cell_len(cells[0]) > widths[0]:
            yield cells[0]
            cells[0] = ""
        parts = [
            _pad(cell, size, left=column in left) for column, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        yield GAP.join(parts).rstrip()
        if note:
            yield f"{GAP}^ {note}"
