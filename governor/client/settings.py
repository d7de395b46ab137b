"""What a client was made with, and the asks that follow from it.

It knows defaults. It must never know who waits.
"""

import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from governor import __version__
from governor.client.address import find
from governor.client.asks import SECOND, Ask, Shape, bounded, claims_of, is_whole, nanos, words
from governor.client.credentials import Credentials
from governor.client.errors import GovernorError, UsageError
from governor.client.link import Link
from governor.client.tracing import Trace, asking

if TYPE_CHECKING:
    from governor.client.spans import Asking

Unavail = Literal["raise", "wait", "allow"]

_LOG: Final = logging.getLogger("governor.client")
# An outage is a line now and then, not one for each ask.
_TOLD_EVERY: Final = 10 * SECOND
_MOST_SHAPES: Final = 256
# Characters, of up to four bytes each; the daemon takes 256 bytes.
_MOST_NAME: Final = 60


class Settings:
    """As the arguments of `Client` and `AsyncClient`."""

    def __init__(
        self,
        address: str | None,
        name: str | None,
        labels: Mapping[str, str],
        unavailable: Unavail,
        credentials: Credentials | None = None,
        *,
        tracing: bool = True,
    ) -> None:
        if unavailable not in {"raise", "wait", "allow"}:
            raise UsageError(f'unavailable is "raise", "wait" or "allow", not {unavailable!r}')
        bounded("name", [name or ""])
        words(labels)
        self._credentials = credentials or Credentials()
        self._address = address
        self._name = name
        self._labels = labels
        self.unavailable: Unavail = unavailable
        self._tracing = tracing
        # What asks follow from that have no span of their own: of a command that was started within a trace.
        self.trace: Trace | None = None
        self._told_at = -_TOLD_EVERY
        self._shapes: dict[object, Shape] = {}
        self._link: Link | None = None
        self._links: dict[str, Link] = {}

    @property
    def link(self) -> Link:
        """The way to the daemon; made when it is first needed, since the environment may change until then.

        Raises UsageError: what names it, or what is to be shown to it, makes no sense.
        """
        if self._link is None:
            name = self._name or _default_name()
            address = find(self._address)
            if address.tls:
                self._credentials.check()
            made = Link(address, name, self._labels, __version__, self._credentials)
            # Threads that come at once all get the same.
            self._link = self._links.setdefault("", made)
        return self._link

    def arguments(self) -> dict[str, object]:
        """What makes another client like this one."""
        return {
            "address": self._address,
            "name": self._name,
            "labels": self._labels,
            "unavailable": self.unavailable,
            "tracing": self._tracing,
            **self._credentials.arguments(),
        }

    def ask(
        self,
        claims: str | Mapping[str, int],
        permits: int | None,
        wait: float | None,
        lease: float | None,
        labels: Mapping[str, str] | None,
    ) -> Ask:
        """An ask, to be submitted. Raises UsageError."""
        shape = self._shape(claims, permits, wait, lease, labels)
        ask = Ask(shape, None, time.monotonic_ns(), self.unavailable == "wait" and shape.wait != 0)
        ask.fail_open = self.unavailable == "allow"
        return ask

    def follow(self, ask: Ask) -> "Asking | None":
        """The span of an ask that begins now, where the program traces; the ask takes along what it follows from."""
        asked = asking(ask.shape.claims) if self._tracing and not ask.adopt else None
        ask.trace = self.trace if asked is None else asked.trace
        return asked

    def _shape(
        self,
        claims: str | Mapping[str, int],
        permits: int | None,
        wait: float | None,
        lease: float | None,
        labels: Mapping[str, str] | None,
    ) -> Shape:
        if not isinstance(claims, str) or labels:
            return self._made(claims, permits, wait, lease, labels)
        # Most asks are for one resource, from a few places in a program.
        key = (claims, permits, wait, lease)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._made(claims, permits, wait, lease, None)
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shape
        return shape

    def _made(
        self,
        claims: str | Mapping[str, int],
        permits: int | None,
        wait: float | None,
        lease: float | None,
        labels: Mapping[str, str] | None,
    ) -> Shape:
        return Shape(claims_of(claims, permits), nanos("wait", wait), nanos("lease", lease), words(labels))

    def check_limit(
        self, claims: str | Mapping[str, int], permits: int | None, *, wait: float | None, lease: float | None
    ) -> None:
        """Raise UsageError where a function is decorated, if each of its calls would."""
        if callable(claims):
            raise UsageError('limit needs to know what to acquire: write @gov.limit("payments-api")')
        self._shape(claims, permits, wait, lease, None)

    def adoption(self, lease_id: int) -> Ask:
        """The wish to keep a lease alive. Raises UsageError."""
        if not (is_whole(lease_id) and lease_id >= 1):
            raise UsageError(f"a lease id is a whole number from 1, not {lease_id!r}")
        return Ask(Shape(()), None, time.monotonic_ns(), adopt=lease_id)

    def let_through(self, error: GovernorError) -> None:
        """Somebody goes on without a permit: count it, and say so now and then."""
        self.link.let_through += 1
        now = time.monotonic_ns()
        if now - self._told_at >= _TOLD_EVERY:
            self._told_at = now
            _LOG.warning("%s; going on without permits, for the %d. time", error, self.link.let_through)


def _default_name() -> str:
    """What a program is called unless it says so: the name of its script."""
    return Path(sys.argv[0] if sys.argv and sys.argv[0] not in {"", "-c", "-m"} else "python").name[:_MOST_NAME]
