"""What is said at each path.

It knows the paths and the words. It must never know how they travel.
"""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from weakref import WeakSet

from governor.access import Client
from governor.http.details import Details
from governor.http.document import PAGE, PAGE_HEADERS
from governor.http.door import RESOURCES
from governor.http.live import Live
from governor.http.reply import Reply, say
from governor.http.sight import Sight
from governor.metrics import Facts, Metrics

_INDEX: Final = """\
governor

/                   in a browser: what is lent and who waits, live
/metrics            what is lent, who waits and what became of every ask, for Prometheus
/-/healthy          200 while the daemon runs
/-/ready            200 while it takes new asks, else 503 and why not
/-/events           what the page in the browser is told, as server-sent events
/-/resources/NAME   who holds a resource and who waits for it, as JSON
"""
# From so many pages of metrics on that are not read yet, new ones share what they say for so long: the numbers of
# thousands of resources take milliseconds and megabytes, and a page that is not read is kept for 20 seconds.
_PAGES_APART: Final = 4
_CROWDED_SECONDS: Final = 2.0
# How long until it is worth to ask for a place among those who watch once more.
_FULL_AGAIN_S: Final = 5


class Pages:
    """The answers to what may be asked over HTTP; nothing that is asked changes anything."""

    def __init__(self, metrics: Metrics, not_ready: Callable[[], str | None], sight: Sight) -> None:
        """``not_ready`` says in a word why new asks are not taken, None when they are."""
        self._metrics = metrics
        self._not_ready = not_ready
        self._live, self._details = Live(sight), Details(sight)
        # Called at each scrape, for the sake of the next one.
        self.scraped: Callable[[], object] = lambda: None
        # Those of this turn of the loop; the latest, for a crowd; and all that somebody has not read yet.
        self._facts: Facts | None = None
        self._latest: Facts | None = None
        self._alive: WeakSet[Facts] = WeakSet()
        self._by_path: dict[str, Callable[[str], Reply]] = {
            "/": _status_page,
            "/metrics": self._page,
            "/-/healthy": lambda _accept: say(HTTPStatus.OK, "healthy\n"),
            "/-/ready": lambda _accept: self._ready(),
            "/-/events": lambda _accept: self._events(),
        }

    def answer(self, method: str, path: str, headers: Mapping[str, str], reader: Client | None = None) -> Reply:
        """The answer to one request; of one to a HEAD, only the head is meant to be sent.

        ``reader``: who is told no name of a resource that is not his; None is told all.
        """
        page = self._by_path.get(path)
        if page is None:
            if not path.startswith(RESOURCES):
                return say(HTTPStatus.NOT_FOUND, "nothing is here; / lists what there is\n")
            page = lambda _accept: self._detail(path.removeprefix(RESOURCES), reader)  # noqa: E731
        if method not in {"GET", "HEAD"}:
            return say(HTTPStatus.METHOD_NOT_ALLOWED, "this can only be read: GET or HEAD\n", Allow="GET, HEAD")
        if headers.get("Sec-Fetch-Site", "") in {"cross-site", "same-site"} and path.startswith("/-/"):
            # It could not read the answer, but take the places of those who may watch.
            return say(HTTPStatus.FORBIDDEN, "this is not for the scripts of other sites\n")
        return page(headers.get("Accept", ""))

    def _events(self) -> Reply:
        if self._live.is_full:
            again = str(_FULL_AGAIN_S)
            return say(HTTPStatus.SERVICE_UNAVAILABLE, "too many watch; try again soon\n", **{"Retry-After": again})
        return Reply(HTTPStatus.OK, self._live.view(), "text/event-stream; charset=utf-8", {"X-Accel-Buffering": "no"})

    def _detail(self, resource: str, reader: Client | None) -> Reply:
        told = self._details.of(resource, reader)
        if told is None:
            return say(HTTPStatus.NOT_FOUND, "there is no such resource\n")
        return Reply(HTTPStatus.OK, told, "application/json")

    def _page(self, accept: str) -> Reply:
        page = self._metrics.page(accept, self._metrics_now())
        return Reply(HTTPStatus.OK, page.chunks, page.content_type, {"Vary": "Accept"})

    def _metrics_now(self) -> Facts:
        """What is true now; in a crowd of pages that are not read yet, what was true when the last was begun.

        Those who ask in one turn of the loop share one in any case: they must hold it up no longer than one.
        """
        if self._facts is None:
            if self._latest is not None:
                return self._latest
            loop = asyncio.get_running_loop()
            self._facts = self._metrics.facts()
            self._alive.add(self._facts)
            self.scraped()
            loop.call_soon(self._forget)
            if len(self._alive) > _PAGES_APART:
                self._latest = self._facts
                loop.call_later(_CROWDED_SECONDS, self._rested)
        return self._facts

    def _forget(self) -> None:
        self._facts = None

    def _rested(self) -> None:
        self._latest = None

    def _ready(self) -> Reply:
        why_not = self._not_ready()
        if why_not is None:
            return say(HTTPStatus.OK, "ready\n")
        return say(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {why_not}\n")


def _status_page(accept: str) -> Reply:
    """For a browser the page, for all else what there is."""
    if "text/html" in accept:
        return Reply(HTTPStatus.OK, PAGE, "text/html; charset=utf-8", PAGE_HEADERS)
    return say(HTTPStatus.OK, _INDEX, Vary="Accept")
