"""What the status page looks at, with a real engine, and a clock and a config that tests change."""

from dataclasses import replace
from unittest.mock import create_autospec

from governor.belongings import Hello
from governor.clock import Clock
from governor.config import ConfigState
from governor.core.effects import Granted, Queued
from governor.core.engine import Engine
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, Claim, LeaseId, Nanos, TicketId
from governor.driver import Driver
from governor.history import History
from governor.http.sight import Head, Sight
from governor.sessions import Sessions
from governor.voice import Voice
from tests.core.declared import semaphore

STARTED = 1_800_000_000 * SECOND


class Scene:
    """A driver with sessions and a history; nothing is declared at first."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.driver = Driver(Engine(), clock)
        self.driver.reserve_ids(LeaseId(2**40))
        self.history = History(self.driver.peaks, clock.now())
        self.driver.turn, self.driver.turn_at = self.history.turn, self.history.ends_at
        self.sessions = Sessions(self.driver, reconfigured=lambda: None)
        self.head = Head(
            version="1.2.3",
            pid=4711,
            host="db-host-1",
            started_at=STARTED,
            config=ConfigState("/etc/governor.yaml", "ab" * 32, STARTED),
            state_problem="",
            not_ready=None,
        )
        self.sight = Sight(self.driver, clock, self.history, lambda: self.head, lambda: self.sessions)

    def declare(self, *specs: ResourceSpec) -> None:
        """Exactly these from now on."""
        self.driver.reconfigure(specs or (semaphore("db", 4),))

    def take(self, *resources: str, permits: int = 1, client: str = "", lease: Nanos | None = None) -> LeaseId:
        """A lease that is granted at once."""
        claims = tuple(Claim(resource, permits) for resource in resources)
        answer = self.driver.ask(claims, client=client, lease=lease)
        assert isinstance(answer, Granted), answer
        return answer.lease

    def wait(self, *resources: str, permits: int = 1, client: str = "") -> TicketId:
        """A place in line."""
        answer = self.driver.ask(tuple(Claim(resource, permits) for resource in resources), client=client)
        assert isinstance(answer, Queued), answer
        self.driver.tell(answer.ticket, lambda _answer: None)
        return answer.ticket

    def refuse(self, *problems: str) -> None:
        """A reload went wrong."""
        config = replace(self.head.config, problems=problems, refused_at=STARTED + 60 * SECOND)
        self.head = replace(self.head, config=config)

    def own(self, lease: LeaseId, *, pid: int, host: str) -> None:
        """It is held by a client process that is connected."""
        held = self.driver.held(lease)
        assert held is not None
        hello = Hello(held.client, f"{held.client}-{pid}", pid=pid, host=host)
        session = self.sessions.begin(hello)
        session.begin(hello, create_autospec(Voice, instance=True))
        self.sessions.owners[lease] = session
