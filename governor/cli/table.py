"""Lines of aligned columns, for a terminal and for grep alike.

It knows the widths of texts. It must never know what a column means.
"""

from collections.abc import Container, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

GAP: Final = "  "


def lay_out(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Container[int], width: int | None
) -> Iterator[str]:
    """The lines of a table: the columns of ``left`` align to the left, the others to the right.

    ``width`` is the terminal's. The first column is a name and is never cut: where the others would not fit
    beside it, it gets a line of its own, as df(1) does it. Width None keeps each row on one line.
    """
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    if width is not None:
        room = width - sum(widths[1:]) - len(GAP) * (len(widths) - 1)
        names = [cell_len(row[0]) for row in (header, *rows)]
        widths[0] = max((name for name in names if name <= room), default=len(header[0]))
    for row in (header, *rows):
        cells = list(row)
        if cell_len(cells[0]) > widths[0]:
            yield cells[0]
            cells[0] = ""
        padding = [" " * (size - cell_len(cell)) for size, cell in zip(widths, cells, strict=True)]
        line = GAP.join(
            cell + pad if column in left else pad + cell
            for column, (cell, pad) in enumerate(zip(cells, padding, strict=True))
        )
        yield line.rstrip()
