"""Lines of aligned columns, for a terminal and for grep alike.

It knows the widths of texts. It must never know what a column means.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

GAP: Final = "  "
# What a column that is cut keeps at least.
_LEAST: Final = 8


@dataclass(slots=True, frozen=True)
class Column:
    """One column: what is above it and in it.

    ``rank``: where there is not room for all, the highest go first; those of 0 stay, and are cut instead if they are
    ``elastic``. A column that is ``sparse`` is left out when it says nothing. ``least`` is how wide it is at least.
    Of a first column that is ``whole`` nothing is cut: a cell beside which the others do not fit has a line of its
    own, as df(1) does it. What a last column says that is ``below`` stands below the rows if it does not fit behind.
    """

    title: str
    cells: Sequence[str]
    left: bool = False
    rank: int = 0
    elastic: bool = False
    sparse: bool = False
    least: int = 0
    whole: bool = False
    below: bool = False


def arrange(columns: Sequence[Column], *, width: int | None) -> Iterator[str]:
    """The lines of a table, its header first, of as many columns as a terminal of ``width`` has room for.

    Width None is no terminal: all of them, and each whole.
    """
    shown = [column for column in columns if not column.sparse or any(column.cells)]
    sizes = {each.title: max(each.least, *map(cell_len, (each.title, *each.cells))) for each in shown}
    below: Sequence[str] = ()
    if width is not None:
        if shown[-1].below and _sum(shown, sizes) > width:
            below = ("", *shown.pop().cells)
        _fit(shown, sizes, width)
    for number, cells in enumerate(zip(*((column.title, *column.cells) for column in shown), strict=True)):
        parts = [
            _pad(clip(cell, sizes[column.title]), sizes[column.title], left=column.left)
            for column, cell in zip(shown, cells, strict=True)
        ]
        if shown[0].whole and cell_len(cells[0]) > sizes[shown[0].title]:
            yield cells[0]
            parts[0] = " " * sizes[shown[0].title]
        yield GAP.join(parts).rstrip()
        if below and below[number]:
            yield f"{GAP}^ {below[number]}"


def _fit(shown: list[Column], sizes: dict[str, int], width: int) -> None:
    """Leave out columns, and make others narrower, as far as they allow it."""
    while _sum(shown, sizes) > width and (last := max(shown, key=lambda column: column.rank)).rank:
        shown.remove(last)
    elastic = [column.title for column in shown if column.elastic]
    # Column by column of the terminal, so that of a long name and a long note neither takes all there is.
    for _ in range(_sum(shown, sizes) - width):
        widest = max(elastic, key=lambda title: sizes[title], default=None)
        if widest is None or sizes[widest] <= _LEAST:
            break
        sizes[widest] -= 1
    first = shown[0]
    if first.whole and (over := _sum(shown, sizes) - width) > 0:
        fitting = [size for size in map(cell_len, (first.title, *first.cells)) if size <= sizes[first.title] - over]
        sizes[first.title] = max(fitting, default=cell_len(first.title))


def _sum(columns: Sequence[Column], sizes: dict[str, int]) -> int:
    return sum(sizes[column.title] for column in columns) + len(GAP) * (len(columns) - 1)


def clip(text: str, size: int) -> str:
    """The text in at most so many columns; what is cut ends with an ellipsis."""
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size - 1)) + "…"[:size]


def _pad(text: str, size: int, *, left: bool) -> str:
    room = " " * (size - cell_len(text))
    return text + room if left else room + text
