"""Who watches the status page in these tests, on a clock that is moved by hand."""

import json
from collections.abc import Iterator
from typing import Any

from governor.core.types import SECOND
from governor.http.live import Live, View
from governor.testing.clock import FakeClock
from tests.core.declared import rate_limit, semaphore
from tests.http.scene import Scene

Told = list[tuple[str, Any]]


class Watched(Scene):
    """A scene and its viewers."""

    def __init__(self) -> None:
        self.time = FakeClock(5 * SECOND)
        super().__init__(self.time)
        self.declare(semaphore("db", 4), rate_limit("api", (10, SECOND, 10)))
        self.live = Live(self.sight)

    def view(self) -> View:
        """One more viewer, after its first look."""
        view = self.live.view()
        self.time.advance(0)
        return view

    def look(self) -> None:
        """A second later."""
        self.time.advance(SECOND)


async def told(view: View) -> Told:
    """All that is new for it, as events with their data."""
    chunks = await view.more()
    assert chunks is not None
    return read(chunks)


def read(chunks: Iterator[bytes]) -> Told:
    """Events as a browser reads them."""
    events = []
    for chunk in chunks:
        assert chunk.endswith(b"\n\n")
        name, data = chunk.decode("ascii").rstrip("\n").split("\n")
        assert name.startswith("event: ")
        assert data.startswith("data: ")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def is_quiet(view: View) -> bool:
    """Whether there is nothing that it has not been told."""
    return view._live.look <= view._seen


def rows(events: Told) -> list[str]:
    """Whose rows were told."""
    return [row["name"] for name, data in events if name == "rows" for row in data]


def row(events: Told, name: str) -> Any:  # noqa: ANN401  (what JSON says)
    """The row of one resource."""
    return next(row for kind, data in events if kind == "rows" for row in data if row["name"] == name)
