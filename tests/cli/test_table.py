"""Aligned columns."""

from governor.cli.table import lay_out

HEADER = ("NAME", "KIND", "IN USE")


def test_columns_align_by_what_they_hold() -> None:
    """Texts to the left, numbers to the right, and a wide character counts as two."""
    rows = [("thumbnails", "semaphore", "8"), ("資源", "pool", "1000")]

    assert list(lay_out(HEADER, rows, left=range(2), width=None)) == [
        "NAME        KIND       IN USE",
        "thumbnails  semaphore       8",
        "資源        pool         1000",
    ]


def test_a_long_name_has_a_line_of_its_own_on_a_terminal() -> None:
    """The other names stay in their column, which is as wide as the widest name that fits."""
    rows = [("a" * 30, "semaphore", "1"), ("short", "pool", "2")]

    assert list(lay_out(HEADER, rows, left=range(2), width=40)) == [
        "NAME   KIND       IN USE",
        "a" * 30,
        "       semaphore       1",
        "short  pool            2",
    ]


def test_without_a_terminal_a_row_is_a_line() -> None:
    """However long the name is: who greps for it finds its numbers."""
    rows = [("a" * 200, "semaphore", "1"), ("short", "pool", "2")]
    lines = list(lay_out(HEADER, rows, left=range(2), width=None))

    assert len(lines) == 3
    assert lines[1] == "a" * 200 + "  semaphore       1"


def test_a_terminal_too_narrow_for_anything_still_shows_all() -> None:
    """Nothing is cut away."""
    rows = [("thumbnails", "semaphore", "8")]

    assert list(lay_out(HEADER, rows, left=range(2), width=10)) == [
        "NAME  KIND       IN USE",
        "thumbnails",
        "      semaphore       8",
    ]
