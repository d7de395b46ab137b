"""The daemon looked at again and again, in a thread of its own.

It knows when to look and what to say while nobody answers. It must never draw.
"""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from governor.cli.admin import Admin
from governor.cli.connection import connect
from governor.cli.exits import CommandError
from governor.cli.live.painting import Seen
from governor.cli.looking import look
from governor.wording import SECOND

if TYPE_CHECKING:
    from governor.cli.about import About
    from governor.cli.options import Where
    from governor.v1.governor_pb2 import ListResourcesResponse

# Of leases and of waiters of the one that is looked into.
_MOST: Final = 200
# Whoever looks at a screen is told sooner than a script that nobody answers.
_ANSWER_SECONDS: Final = 3


class Feed:
    """What was seen last. ``wake`` is called, in the thread, whenever there is something new."""

    def __init__(self, where: "Where", interval: float, wake: Callable[[], None]) -> None:
        self._where = where
        self._interval = interval
        self._wake = wake
        self._changed = threading.Condition()
        self._inside: str | None = None
        self._hurry = self._over = False
        self._ends = ExitStack()
        self._admin: Admin | None = None
        self._answered_at = 0.0
        self._thread = threading.Thread(target=self._run, name="governor-top", daemon=True)
        self._fault: BaseException | None = None
        # Raises CommandError: whoever cannot be reached at first is most likely somewhere else.
        self._seen = Seen(self._ask())

    @property
    def seen(self) -> Seen:
        """What was seen last. Raises whatever ended the looking: old numbers are not shown as if they were of now."""
        if self._fault is not None:
            raise self._fault
        return self._seen

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def look_into(self, name: str | None) -> None:
        """Look at one resource as well, and soon."""
        with self._changed:
            if name == self._inside:
                return
            self._inside, self._hurry = name, True
            self._changed.notify()

    def _run(self) -> None:
        try:
            with self._ends:
                self._look()
        except BaseException as fault:  # noqa: BLE001 - not lost: the loop raises it where it can be told
            self._fault = fault
            self._wake()

    def _look(self) -> None:
        while self._pause():
            try:
                answer = self._ask()
                inside, problem = self._look_inside()
                seen = Seen(answer, inside=inside, inside_problem=problem)
            except CommandError as error:
                self._ends.close()
                self._admin = None
                away = round((time.monotonic() - self._answered_at) * SECOND)
                seen = Seen(self._seen.answer, error.sentence, away, self._seen.inside)
            self._seen = seen
            self._wake()

    def _pause(self) -> bool:
        """Until it is time to look; whether to look at all."""
        with self._changed:
            self._changed.wait_for(lambda: self._hurry or self._over, self._interval)
            self._hurry = False
            return not self._over

    def _ask(self) -> "ListResourcesResponse":
        if self._admin is None:
            self._admin = Admin(self._ends.enter_context(connect(self._where)), self._ends)
        answer = self._admin.resources(seconds=_ANSWER_SECONDS)
        self._answered_at = time.monotonic()
        return answer

    def _look_inside(self) -> "tuple[About | None, str]":
        """The resource that is looked into, or why it cannot be."""
        with self._changed:
            inside = self._inside
        if inside is None or self._admin is None:
            return None, ""
        try:
            return look(self._admin, inside, _MOST), ""
        except CommandError as error:
            return None, error.sentence
