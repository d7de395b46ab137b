"""What is said at each path.

It knows the paths and the words. It must never know how they travel.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from governor.metrics import Facts, Metrics

TEXT: Final = "text/plain; charset=utf-8"

_INDEX: Final = """\
governor

/metrics     what is lent, who waits and what became of every ask, for Prometheus
/-/healthy   200 while the daemon runs
/-/ready     200 while it takes new asks, else 503 and why not
"""


@dataclass(slots=True, frozen=True)
class Reply:
    """One answer; a long body comes in chunks that are made as they are sent."""

    status: HTTPStatus
    body: bytes | Iterator[bytes]
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)


class Pages:
    """The answers to what may be asked over HTTP; nothing that is asked changes anything."""

    def __init__(self, metrics: Metrics, not_ready: Callable[[], str | None]) -> None:
        """``not_ready`` says in a word why new asks are not taken, None when they are."""
        self._metrics = metrics
        self._not_ready = not_ready
        self._facts: Facts | None = None
        self._by_path: dict[str, Callable[[str], Reply]] = {
            "/": lambda _accept: _say(HTTPStatus.OK, _INDEX),
            "/metrics": self._page,
            "/-/healthy": lambda _accept: _say(HTTPStatus.OK, "healthy\n"),
            "/-/ready": lambda _accept: self._ready(),
        }

    def answer(self, method: str, path: str, accept: str) -> Reply:
        """The answer to one request; of one to a HEAD, only the head is meant to be sent."""
        page = self._by_path.get(path)
        if page is None:
            return _say(HTTPStatus.NOT_FOUND, "nothing is here; / lists what there is\n")
        if method not in {"GET", "HEAD"}:
            return _say(HTTPStatus.METHOD_NOT_ALLOWED, "this can only be read: GET or HEAD\n", Allow="GET, HEAD")
        return page(accept)

    def _page(self, accept: str) -> Reply:
        if self._facts is None:
            # Shared by all who ask in this turn of the loop: a crowd of scrapers must hold it up no longer than one.
            self._facts = self._metrics.facts()
            asyncio.get_running_loop().call_soon(self._forget)
        page = self._metrics.page(accept, self._facts)
        return Reply(HTTPStatus.OK, page.chunks, page.content_type, {"Vary": "Accept"})

    def _forget(self) -> None:
        self._facts = None

    def _ready(self) -> Reply:
        why_not = self._not_ready()
        if why_not is None:
            return _say(HTTPStatus.OK, "ready\n")
        return _say(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {why_not}\n")


def _say(status: HTTPStatus, text: str, **headers: str) -> Reply:
    return Reply(status, text.encode(), headers=headers)
