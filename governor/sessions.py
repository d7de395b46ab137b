"""Sessions: all of them, and whose lease has ended.

It knows which sessions there are and which of them can be resumed. It must never know how a client is reached, nor
what one of them is told about anything but the end of its leases.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from governor.core.effects import Effect, Granted, LeaseEnded, Reconfigured
from governor.driver import Driver
from governor.pace import Pace
from governor.session import Hello, Session, Shared

if TYPE_CHECKING:
    from governor.core.types import LeaseId


class Sessions:
    """All sessions that can be told something, or come back for their leases."""

    def __init__(self, driver: Driver, *, reconfigured: Callable[[], None]) -> None:
        """``reconfigured`` is called after each reload."""
        self._driver = driver
        self._reconfigured = reconfigured
        self._pace = Pace()
        # Whose each lease is that is anybody's.
        self.owners: dict[LeaseId, Session] = {}
        self._shared = Shared(driver, self._pace, self.owners, self._forget)
        self._by_id: dict[str, Session] = {}
        driver.observers.append(self._observe)

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, session_id: str) -> Session | None:
        """The one of this id, if it is remembered."""
        return self._by_id.get(session_id)

    def of(self, hello: Hello) -> tuple[Session, bool]:
        """The session of whoever said hello, which is to `begin` now; whether it is the one to be resumed."""
        known = self.find(hello.resume)
        if known is not None and (known.client, known.instance) == (hello.client, hello.instance):
            return known, True
        session = Session(self._shared, secrets.token_hex(16), hello)
        self._by_id[session.id] = session
        return session, False

    def close(self) -> None:
        """See nothing more of what happens; safe twice."""
        if self._observe in self._driver.observers:
            self._driver.observers.remove(self._observe)

    def _observe(self, effects: Sequence[Effect]) -> None:
        """Tell whose lease has ended, and see how lines move; for most steps this is all there is to do."""
        owners = self.owners
        for effect in effects:
            if isinstance(effect, LeaseEnded):
                owner = owners.pop(effect.lease, None)
                if owner is not None:
                    owner.lost(effect)
            elif isinstance(effect, Granted):
                if effect.waited and not effect.repeated:
                    self._pace.granted(effect.grants, effect.waited, self._driver.stepped_at)
            elif isinstance(effect, Reconfigured):
                self._pace.forget(effect.removed)
                self._reconfigured()

    def _forget(self, session: Session) -> None:
        self._by_id.pop(session.id, None)
