"""Aligned columns."""

from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from governor.cli.table import Column, arrange


def table(rows: Sequence[tuple[str, str, str]], width: int | None, notes: Sequence[str] = ()) -> list[str]:
    """The lines of one whose names are never cut, as of `governor status`."""
    names, kinds, numbers = zip(*rows, strict=True)
    columns = (
        Column("NAME", names, left=True, whole=True),
        Column("KIND", kinds, left=True),
        Column("IN USE", numbers),
        Column("NOTE", notes or [""] * len(rows), left=True, sparse=True, below=True),
    )
    return list(arrange(columns, width=width))


def test_columns_align_by_what_they_hold() -> None:
    """Texts to the left, numbers to the right, and a wide character counts as two."""
    rows = [("thumbnails", "semaphore", "8"), ("資源", "pool", "1000")]

    assert table(rows, None) == [
        "NAME        KIND       IN USE",
        "thumbnails  semaphore       8",
        "資源        pool         1000",
    ]


def test_a_long_name_has_a_line_of_its_own_on_a_terminal() -> None:
    """The other names stay in their column, which is as wide as the widest name that fits."""
    rows = [("a" * 30, "semaphore", "1"), ("short", "pool", "2")]

    assert table(rows, 40) == [
        "NAME   KIND       IN USE",
        "a" * 30,
        "       semaphore       1",
        "short  pool            2",
    ]


def test_without_a_terminal_a_row_is_a_line() -> None:
    """However long the name is: who greps for it finds its numbers."""
    rows = [("a" * 200, "semaphore", "1"), ("short", "pool", "2")]
    lines = table(rows, None)

    assert len(lines) == 3
    assert lines[1] == "a" * 200 + "  semaphore       1"


def test_a_terminal_too_narrow_for_anything_still_shows_all() -> None:
    """Nothing is cut away."""
    rows = [("thumbnails", "semaphore", "8")]

    assert table(rows, 10) == [
        "NAME  KIND       IN USE",
        "thumbnails",
        "      semaphore       8",
    ]


def test_notes_stand_behind_the_rows_or_below_them() -> None:
    """On a terminal that is too narrow for the longest, each row that has one is followed by it."""
    rows = [("thumbnails", "semaphore", "8"), ("orders-db", "pool", "10")]
    wide = table(rows, 80, ["", "paused"])
    narrow = table(rows, 30, ["", "paused, 2 over limit"])

    assert wide == [
        "NAME        KIND       IN USE  NOTE",
        "thumbnails  semaphore       8",
        "orders-db   pool           10  paused",
    ]
    assert narrow == [
        "NAME        KIND       IN USE",
        "thumbnails  semaphore       8",
        "orders-db   pool           10",
        "  ^ paused, 2 over limit",
    ]


def columns() -> list[Column]:
    """Four, of which two may go and one may be cut."""
    return [
        Column("ID", ["1", "22"]),
        Column("CLIENT", ["importer-of-everything", "web"], left=True, elastic=True),
        Column("PID", ["7", "8"], rank=1),
        Column("HOST", ["db7", "db8"], left=True, rank=2),
        Column("NOTE", ["", ""], left=True, sparse=True),
    ]


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    """Those that matter least go first, then texts are cut; without a terminal all is there, and whole."""
    wide = list(arrange(columns(), width=None))
    middle = list(arrange(columns(), width=34))
    narrow = list(arrange(columns(), width=14))

    assert wide[0] == "ID  CLIENT                  PID  HOST"
    assert middle == [
        "ID  CLIENT                  PID",
        " 1  importer-of-everything    7",
        "22  web                       8",
    ]
    assert narrow == ["ID  CLIENT", " 1  importer-…", "22  web"]


def test_of_two_long_texts_neither_takes_all_there_is() -> None:
    """The longer one is cut to the length of the other, and then both alike."""
    both = [Column("NAME", ["n" * 60], left=True, elastic=True), Column("NOTE", ["m" * 30], left=True, elastic=True)]

    assert [len(part) for part in [*arrange(both, width=72)][1].split()] == [40, 30]
    assert [len(part) for part in [*arrange(both, width=42)][1].split()] == [20, 20]


@pytest.mark.parametrize("width", range(1, 60))
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    """Until only what cannot be cut is left: a number, and eight columns of a text."""
    assert max(map(cell_len, arrange(columns(), width=width))) <= max(width, 2 + 2 + 8)
