"""Sessions: all of them, and whose lease has ended.

It knows which sessions there are and which of them can be resumed. It must never know how a client is reached, nor
what one of them is told about anything but the end of its leases.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Sequence

from governor.belongings import NAME, Belongings, Hello, Shared
from governor.core.effects import Effect, Granted, LeaseEnded, Reconfigured
from governor.core.types import Claim, LeaseId, Nanos
from governor.driver import Driver
from governor.entries import Asker
from governor.pace import Pace
from governor.session import Session


class Sessions:
    """All sessions that can be told something, or come back for their leases."""

    def __init__(self, driver: Driver, *, reconfigured: Callable[[], None]) -> None:
        """``reconfigured`` is called after each reload."""
        self._driver = driver
        self._reconfigured = reconfigured
        self._pace = Pace()
        # Whose each lease is that is anybody's.
        self.owners: dict[LeaseId, Belongings] = {}
        self._shared = Shared(driver, self._pace, self.owners, self._forget)
        self._by_name: dict[str, Session] = {}
        # How many each client has, by its name.
        self._of_client: Counter[str] = Counter()
        # The latest of each client process, by its client's name and its instance.
        self._by_process: dict[tuple[str, str], Session] = {}
        driver.observers.append(self._observe)

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, session_id: str) -> Session | None:
        """The one of this id, if it is remembered."""
        session = self.named(session_id)
        return session if session is not None and session.id == session_id else None

    def named(self, name: str) -> Session | None:
        """The one whose name this is, or begins with."""
        session = self._by_name.get(name[:NAME])
        return session if session is not None and session.id.startswith(name) else None

    def names(self) -> list[str]:
        """Of all of them, in the order in which they began."""
        return list(self._by_name)

    def of_request(self, client: str, request_id: str) -> Session | None:
        """The one whose ask waits under this request id, if it is a session's."""
        instance, _, op = request_id.rpartition("/")
        session = self._by_process.get((client, instance))
        if session is None or not op.isdecimal() or session.ticket(int(op)) is None:
            return None
        return session

    def asker(self, lease: LeaseId, client: str) -> Asker | None:
        """The process whose session has asked for a lease of this client that is granted just now."""
        instance, slash, _ = self._driver.request_id(lease).rpartition("/")
        session = self._by_process.get((client, instance)) if slash else None
        return None if session is None else Asker(session.name, session.pid, session.host)

    def expected(
        self, claims: Sequence[Claim], ahead: int, at_least: Nanos, *, waited: Nanos, now: Nanos
    ) -> Nanos | None:
        """How long an ask in line is likely to take yet, as its session would be told; None when nothing is known."""
        return self._pace.expected(claims, ahead, at_least, waited=waited, now=now)

    def known(self, hello: Hello) -> Session | None:
        """The one that whoever said hello resumes."""
        known = self.find(hello.resume)
        same = known is not None and (known.client, known.instance) == (hello.client, hello.instance)
        return known if same else None

    def number_of(self, client: str) -> int:
        """How many there are of one client."""
        return self._of_client[client]

    def begin(self, hello: Hello) -> Session:
        """A new one, of whoever said hello, which is to `begin` now."""
        session = Session(self._shared, self._new_id(), hello)
        self._of_client[session.client] += 1
        self._by_name[session.name] = self._by_process[session.client, session.instance] = session
        return session

    def _new_id(self) -> str:
        while True:
            session_id = secrets.token_hex(16)
            if session_id[:NAME] not in self._by_name:
                return session_id

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

    def _forget(self, session: Belongings) -> None:
        if self._by_name.pop(session.name, None) is not None:
            self._of_client[session.client] -= 1
            if not self._of_client[session.client]:
                del self._of_client[session.client]
        process = (session.client, session.instance)
        if self._by_process.get(process) is session:
            del self._by_process[process]
