"""The parts of `governor top` that touch no terminal: keys, what they change, and what is drawn."""

import pytest
from rich.cells import cell_len

from governor.cli.live.keys import Keyboard
from governor.cli.live.painting import Heading, Line, Seen, paint
from governor.cli.live.view import ORDERS, View, full
from governor.v1.governor_pb2 import ListResourcesResponse, Resource
from tests.cli.test_status import SECOND, config, resource

HEADING = Heading("unix:/run/governor/governor.sock", "21:03:11", SECOND)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"abc", ["a", "b", "c"]),
        ("größe".encode(), ["g", "r", "ö", "ß", "e"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        (b"\r\n\x7f\x15\x0c", ["enter", "enter", "backspace", "clear", "redraw"]),
        # Known to nobody: a function key, a mouse, a paste, and what no key sends.
        (b"\x1b[15~\x1b[<0;1;1M\x1b[200~x\x00\x01", ["x"]),
        (b"\x1bx", ["escape", "x"]),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_keys_are_read_from_bytes(data: bytes, keys: list[str], *, at_once: bool) -> None:
    """Whole or byte by byte, as a slow line brings them."""
    keyboard = Keyboard()
    pieces = [data] if at_once else [data[at : at + 1] for at in range(len(data))]

    assert [key for piece in pieces for key in keyboard.keys(piece)] == keys
    assert not keyboard.waits


def test_an_escape_alone_is_a_key_once_nothing_follows() -> None:
    """It is also how others begin."""
    keyboard = Keyboard()

    assert keyboard.keys(b"\x1b") == []
    assert keyboard.waits
    assert keyboard.keys(b"", final=True) == ["escape"]
    assert keyboard.keys(b"\x1b[") == []
    assert keyboard.keys(b"", final=True) == ["escape", "["]
    assert not keyboard.waits


def some() -> list[Resource]:
    """Five, by the names of what is to be seen of them."""
    return [
        resource("idle", "semaphore", capacity=8, available=8),
        resource("spent", "rate_limit", capacity=10, available=1),
        resource("full", "pool", capacity=2, in_use=2, available=0, leases=2),
        resource(
            "waited-for", "semaphore", capacity=8, in_use=1, available=7, waiters=1, oldest_wait=5 * SECOND, leases=1
        ),
        resource("boundless", "semaphore", in_use=100, leases=100),
    ]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("what hurts", ["waited-for", "full", "spent", "boundless", "idle"]),
        ("how full", ["full", "spent", "waited-for", "boundless", "idle"]),
        ("waiters", ["waited-for", "boundless", "full", "idle", "spent"]),
        ("leases", ["boundless", "full", "waited-for", "idle", "spent"]),
        ("kind", ["full", "spent", "boundless", "idle", "waited-for"]),
        ("name", ["boundless", "full", "idle", "spent", "waited-for"]),
    ],
)
def test_orders(order: str, names: list[str]) -> None:
    """By what there is most of, and then by name."""
    assert [each.name for each in View(order=order).rows(some())] == names


def test_each_order_is_tested() -> None:
    """Keys go through them in this order."""
    view, seen = View(), []
    for _ in ORDERS:
        seen.append(view.order)
        view.press("s", [], 10)

    assert seen == list(ORDERS)
    assert view.order == seen[0]
    view.press("<", [], 10)
    assert view.order == seen[-1]


def test_how_full_something_is() -> None:
    """Over its limit it is more than full; without one it is not said; closed or paused, it is not full either."""
    over = resource("over", "semaphore", capacity=4, in_use=6)
    closed = resource("closed", "semaphore", capacity=0, available=0)
    paused = resource("paused", "rate_limit", capacity=10, available=0, paused=True)

    assert [full(each) for each in (*some(), over, closed, paused)] == [0.0, 0.9, 1.0, 0.125, None, 1.5, 0.0, 0.0]


def test_keys_that_mean_nothing_change_nothing() -> None:
    """Wherever they are pressed."""
    for view in (View(), View(inside="a"), View(typing=True)):
        before = View(typing=view.typing, inside=view.inside)
        for key in ("tab", "left", "F5"):
            if not (view.inside and key == "left"):
                view.press(key, ["a"], 10)
        assert view == before


def test_a_filter_is_typed_and_dropped() -> None:
    """Q is a letter there."""
    view = View()
    for key in ("/", "q", "x", "backspace", "ö"):
        view.press(key, [], 10)
    assert (view.filter, view.typing, view.over) == ("qö", True, False)
    view.press("clear", [], 10)
    assert (view.filter, view.typing) == ("", True)
    view.press("a", [], 10)
    view.press("escape", [], 10)
    assert (view.filter, view.typing) == ("", False)


@pytest.mark.parametrize("width", [20, 40, 79, 80, 120, 250])
@pytest.mark.parametrize("height", [6, 10, 24, 60])
@pytest.mark.parametrize(
    "view", [View(), View(help=True), View(inside="x"), View(filter="zz"), View(typing=True)], ids=str
)
def test_a_screen_is_exactly_filled(view: View, width: int, height: int) -> None:
    """As many lines as it has; and no row of the table is cut where 80 columns are enough."""
    many = [resource(f"r{number}", "semaphore", capacity=1, in_use=number % 2) for number in range(100)]
    lines = paint(view, Seen(ListResourcesResponse(resources=many)), HEADING, width=width, height=height)

    assert len(lines) == height
    if width >= 80 and not view.help:
        assert max(cell_len(line.text) for line in lines) <= width


def painted(view: View, seen: Seen, height: int = 24) -> list[Line]:
    """On a usual screen."""
    return paint(view, seen, HEADING, width=80, height=height)


def test_the_chosen_row_is_always_in_sight() -> None:
    """However far down it is, and wherever the rows go."""
    many = [resource(f"r{number:02}", "semaphore", capacity=1) for number in range(60)]
    view = View(order="name")
    names = [each.name for each in many]
    for key in ("down",) * 30 + ("page down", "end", "page up", "up", "home", "end"):
        view.press(key, names, 19)
        chosen = [line.text for line in painted(view, Seen(ListResourcesResponse(resources=many))) if line.chosen]
        assert [text.split()[1] for text in chosen] == [view.selected]
    view.press("enter", names, 19)
    assert view.inside == "r59"


def test_a_row_that_is_gone_is_no_longer_chosen() -> None:
    """The first one is."""
    view = View(selected="gone")
    chosen = [line for line in painted(view, Seen(ListResourcesResponse(resources=some()))) if line.chosen]

    assert chosen[0].text.startswith("> waited-for")
    assert chosen[0].style == "red"


def test_colours_say_where_to_look() -> None:
    """Red where somebody waits, yellow where little is left."""
    lines = painted(View(order="name"), Seen(ListResourcesResponse(resources=some())))[4:9]

    assert [line.style for line in lines] == ["plain", "yellow", "plain", "yellow", "red"]


def test_the_top_says_what_concerns_all() -> None:
    """Totals and the config; below it the daemon that is away, else a reload that was refused, else a drain."""
    bad = config("g.yaml:3: wrong", "g.yaml:4: wrong")
    # One of the leases covers several resources, each of which counts it.
    answer = ListResourcesResponse(resources=some(), config=bad, draining=True, leases=102, waiters=1)
    away = painted(View(), Seen(answer, problem="cannot reach it", away=12 * SECOND))
    refused = painted(View(), Seen(answer))
    answer.config.CopyFrom(config())
    drains = painted(View(), Seen(answer))

    assert away[1].text.startswith("5 resources, 102 leases, 1 waiting, config governor.yaml since 20")
    assert away[2] == Line("no daemon for 12s: cannot reach it", "red")
    assert refused[2] == Line("a reload was refused: g.yaml:3: wrong (and 1 more)", "red")
    assert drains[2].style == "yellow"


def test_a_resource_that_cannot_be_looked_into_says_why() -> None:
    """Such as one that has gone, or a daemon that answers admin calls elsewhere."""
    view = View(inside="gone")
    asking = painted(view, Seen(ListResourcesResponse()))
    refused = painted(view, Seen(ListResourcesResponse(), inside_problem="no such resource " * 10))

    assert asking[4].text == "  gone: asking"
    assert refused[4].style == "red"
    assert len(refused[5].text) > 4
