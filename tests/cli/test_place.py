"""The line of who waits, in words and on a terminal."""

import io

import pytest

from governor.cli.place import Line, fit, line, text

CLEAR = "\r\x1b[K"


@pytest.mark.parametrize(
    ("ahead", "expected", "so_far", "words"),
    [
        (0, None, 0.0, "waiting for thumbnails: next in line, 0s so far"),
        (3, 12.4, 4.9, "waiting for thumbnails: 3 ahead, about 12s to go, 4s so far"),
        (1, 0.0, 59.6, "waiting for thumbnails: 1 ahead, about 1s to go, 59s so far"),
        (99, 7200.0, 3700.0, "waiting for thumbnails: 99 ahead, about 2h to go, 1h01m so far"),
        (100, None, 1.0, "waiting for thumbnails: 100 or more ahead, 1s so far"),
    ],
)
def test_it_says_place_expected_wait_and_elapsed_time(
    ahead: int, expected: float | None, so_far: float, words: str
) -> None:
    """In whole seconds; the daemon counts no further than 100, and may not know how long it takes."""
    assert text("thumbnails", ahead, expected, so_far) == words


@pytest.mark.parametrize(
    ("words", "width", "shown"),
    [
        ("waiting", 8, "waiting"),
        ("waiting", 7, "waiti…"),
        ("資源資源", 9, "資源資源"),
        ("資源資源", 8, "資源資…"),
        ("a", 1, "…"),
    ],
)
def test_it_is_never_as_wide_as_the_terminal(words: str, width: int, shown: str) -> None:
    """A full line would begin another, and the next drawing would not cover it. Some characters are two wide."""
    assert fit(words, width) == shown


class Clock:
    """Time by hand."""

    now = 100.0

    def __call__(self) -> float:
        """The instant."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


def test_it_draws_over_what_it_drew_and_leaves_nothing(clock: Clock) -> None:
    """Whatever comes after its end, from a thread that does not know of it, is not drawn."""
    terminal = io.StringIO()
    drawn = Line(["thumbnails", "orders-db"], terminal, clock)
    drawn.draw(1, 2.0)
    clock.now += 2
    drawn.draw(0, None)
    drawn.end()
    drawn.draw(0, None)

    assert terminal.getvalue() == (
        f"{CLEAR}waiting for thumbnails, orders-db: 1 ahead, about 2s to go, 0s so far"
        f"{CLEAR}waiting for thumbnails, orders-db: next in line, 2s so far"
        f"{CLEAR}"
    )


def test_who_did_not_wait_sees_nothing(clock: Clock) -> None:
    """Not even an empty line."""
    terminal = io.StringIO()
    Line(["thumbnails"], terminal, clock).end()

    assert terminal.getvalue() == ""


def test_a_name_moves_no_terminal(clock: Clock) -> None:
    """Control characters are shown, not obeyed."""
    terminal = io.StringIO()
    Line(["a\x1b[2Jb"], terminal, clock).draw(0, None)

    assert "a\\x1b[2Jb" in terminal.getvalue()


def test_a_terminal_that_goes_away_is_no_error(clock: Clock) -> None:
    """Who waits goes on waiting; the client's thread, which draws, must live."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    drawn = Line(["thumbnails"], Gone(), clock)
    drawn.draw(0, None)
    drawn.end()


def test_without_a_terminal_nobody_is_asked() -> None:
    """The daemon is not bothered for places that nobody sees."""
    with line(["thumbnails"]) as on_queued:
        assert on_queued is None


def test_a_notice_stands_above_the_line_and_stays() -> None:
    """It is asked for once, when one comes to stand in line, and costs nobody anything who does not."""
    asked = 0

    def notice() -> str:
        nonlocal asked
        asked += 1
        return "governor: nobody waits for long"

    screen = io.StringIO()
    line = Line(["a"], screen, lambda: 0, notice=notice)
    assert asked == 0
    line.draw(1, None)
    line.draw(0, None)
    line.end()

    assert asked == 1
    assert screen.getvalue().count("nobody waits for long") == 1
    assert screen.getvalue().startswith(f"{CLEAR}governor: nobody waits for long\n{CLEAR}waiting for a: 1 ahead")
