"""Lines: what is out of the ordinary is said, in words and in fields, and a storm of it in a few lines."""

import logging

import pytest

from governor.chronicle import Chronicle, Entry, What
from governor.core.effects import Granted, LeaseEnded, OverrideOver
from governor.core.engine import Engine
from governor.core.kinds.pool import MemberSpec
from governor.core.types import MILLISECOND, SECOND, Claim, EndReason, Grant, LeaseId, Member, Outcome, Reason, Said
from governor.driver import Driver
from governor.lines import ACTS_A_SECOND, LEASES_A_SECOND, REFUSALS_A_SECOND, Lines
from governor.testing.clock import FakeClock
from tests.core.declared import pool, semaphore


class Rig:
    """The lines about a daemon, by a clock that is moved by hand."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, "governor")
        self.clock = FakeClock()
        self.driver = Driver(Engine(), self.clock, beating=False)
        self.driver.reserve_ids(LeaseId(1000))
        self.chronicle = Chronicle(self.driver, self.clock.now)
        self.lines = Lines(self.clock, self.chronicle.act)
        self.acts: list[Entry] = []
        self.chronicle.act_listeners += [self.lines.acted, self.acts.append]
        self.driver.broken_observers.append(self.lines.broken)
        self._next = 0

    def ends(self, number: int, reason: EndReason = EndReason.EXPIRED) -> None:
        """So many leases end so."""
        for _ in range(number):
            self._next += 1
            self.lines.observe([LeaseEnded(LeaseId(self._next), reason, (Grant("db", 1),), "web", 2 * SECOND, 0)])

    def said(self) -> list[str]:
        """The lines since this was asked last."""
        said = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return said

    def fields(self) -> dict[str, object]:
        """Of the last line."""
        fields: dict[str, object] = self._caplog.records[-1].__dict__["fields"]
        return fields


def lent(driver: Driver, client: str, resource: str = "conn") -> LeaseId:
    """A lease of one of it."""
    granted = driver.ask((Claim(resource, 1),), client=client)
    assert isinstance(granted, Granted)
    return granted.lease


@pytest.fixture
def rig(caplog: pytest.LogCaptureFixture) -> Rig:
    """Nothing has happened yet."""
    return Rig(caplog)


class TestLeases:
    """An end is worth a line unless the holder gave the lease back."""

    @pytest.mark.parametrize("reason", [EndReason.EXPIRED, EndReason.REVOKED, EndReason.DISCONNECTED])
    def test_one(self, rig: Rig, reason: EndReason) -> None:
        """Which, why, of what, for how long and whose."""
        grants = (Grant("db", 2), Grant("workers", 1, (Member("w1", (("password", "hunter2"),)),)), Grant("gpu", 1))
        rig.lines.observe([LeaseEnded(LeaseId(17), reason, grants, "web", 30_500 * MILLISECOND, 0)])

        assert rig.fields() == {
            "lease": 17,
            "resources": ["db", "workers", "gpu"],
            "client": "web",
            "reason": reason.value,
            "held_seconds": 30.5,
        }
        assert rig.said() == [f"lease 17 {reason}: 2 of db, member w1 of workers, gpu, held for 30.5s by web"]

    def test_of_nobody_in_particular(self, rig: Rig) -> None:
        """And what a client says of itself can do nothing to a terminal."""
        for client in ("", "a\x1b[2Jb\nc"):
            rig.lines.observe([LeaseEnded(LeaseId(1), EndReason.EXPIRED, (Grant("db", 1),), client, 0, 0)])
        assert rig.said() == [
            "lease 1 expired: db, held for 0s by a client without a name",
            "lease 1 expired: db, held for 0s by a\\x1b[2Jb\\nc",
        ]

    def test_a_release_is_not_worth_one(self, rig: Rig) -> None:
        """It is what everybody does."""
        rig.ends(3, EndReason.RELEASED)
        assert rig.said() == []

    def test_a_storm(self, rig: Rig) -> None:
        """The first of a second are said; the rest in one line when it is over, and the next second is as new."""
        rig.ends(15_000)
        rig.clock.advance(500 * MILLISECOND)
        rig.ends(4_980)
        rig.ends(20, EndReason.REVOKED)
        assert len(rig.said()) == LEASES_A_SECOND
        rig.clock.advance(500 * MILLISECOND)
        rig.ends(1)
        assert rig.said() == [
            "and 19980 more leases within the same second: 19960 expired, 20 revoked",
            "lease 20001 expired: db, held for 2s by web",
        ]
        rig.clock.advance(10 * SECOND)
        assert rig.said() == []
        assert rig.clock.pending == 0

    def test_as_many_as_there_may_be(self, rig: Rig) -> None:
        """Then there is nothing to add, and no timer."""
        for _ in range(3):
            rig.ends(LEASES_A_SECOND)
            assert len(rig.said()) == LEASES_A_SECOND
            assert rig.clock.pending == 0
            rig.clock.advance(SECOND)

    def test_the_end_comes_first(self, rig: Rig) -> None:
        """What is left to be said is said then."""
        rig.ends(LEASES_A_SECOND + 1)
        rig.lines.close()
        rig.lines.close()
        assert rig.said()[-1] == "and 1 more lease within the same second: 1 expired"
        assert rig.clock.pending == 0


class TestActs:
    """What operators do is worth a line each."""

    def test_one(self, rig: Rig) -> None:
        """What, to what, the rest of it, and who says he did it."""
        rig.chronicle.act(What.OVERRIDDEN, ["db"], "permits 12 for 10m", Said("alice\n"))
        assert rig.fields() == {
            "what": "overridden",
            "resources": ("db",),
            "detail": "permits 12 for 10m",
            "actor": "alice\n",
        }
        assert rig.said() == ["overridden db: permits 12 for 10m (by alice\\n)"]

    def test_who_is_known(self, rig: Rig) -> None:
        """Whatever he calls himself; also if he says nothing."""
        rig.chronicle.act(What.PAUSED, ["db"], said=Said("boss@vm", client="orders\n"))
        rig.chronicle.act(What.RESUMED, ["db"], said=Said(client="orders"))
        assert rig.said() == ["paused db (by boss@vm, client orders\\n)", "resumed db (by client orders)"]

    def test_why(self, rig: Rig) -> None:
        """In his words, which do nothing to a terminal."""
        rig.chronicle.act(What.PAUSED, ["db"], said=Said("alice", "a \x1b[31mmove"))
        assert rig.fields()["reason"] == "a \x1b[31mmove"
        assert rig.said() == ["paused db (by alice); reason: a \\x1b[31mmove"]

    def test_a_broken_member(self, rig: Rig) -> None:
        """Which, of what, who says so, and for how long it is kept out; once for each report that is heeded."""
        driver, clock = rig.driver, rig.clock
        driver.reconfigure(
            (pool("conn", [MemberSpec("a", max_leases=3), "b"], quarantine=4 * SECOND, lease=60 * SECOND),)
        )
        first = [lent(driver, "web\n") for _ in range(4)]
        for _ in range(2):
            driver.release(tuple(first[:2]), Outcome.BROKEN)
            driver.release(tuple(first[2:3]), Outcome.BROKEN)
        assert rig.said() == ["quarantined conn: a for 4s: it came back broken (from web\\n)"]
        assert rig.acts[-1] == Entry(0, What.QUARANTINED, ("conn",), "web\n", detail="a for 4s: it came back broken")

        clock.advance(5 * SECOND)
        driver.release((lent(driver, ""),), Outcome.BROKEN)
        driver.release((first[3],), Outcome.OK)
        assert rig.said() == ["quarantined conn: a for 8s: it came back broken, for the 2nd time in a row"]

    def test_a_broken_member_that_is_kept_out_anyway(self, rig: Rig) -> None:
        """Until it is restored, by an operator; and one that is kept out for no time at all is not worth a line."""
        rig.driver.reconfigure((pool("conn", ["a"], quarantine=0), semaphore("db", 1)))
        rig.driver.release((lent(rig.driver, "web"),), Outcome.BROKEN)
        rig.driver.release((lent(rig.driver, "web", "db"),), Outcome.BROKEN)
        assert rig.said() == []
        lease = lent(rig.driver, "web")
        rig.driver.quarantine("conn", "a")
        rig.driver.release((lease, LeaseId(99)), Outcome.BROKEN)
        assert rig.said() == ["quarantined conn: a: it came back broken, for the 2nd time in a row (from web)"]

    def test_what_is_said_elsewhere(self, rig: Rig) -> None:
        """The start and the end, and reloads, have lines of their own; the drain of one resource has not."""
        for what in (What.STARTED, What.RELOADED, What.RELOAD_REFUSED, What.DRAINING, What.STOPPING):
            rig.chronicle.act(what)
        rig.chronicle.act(What.DRAINING, ["db"])
        assert rig.said() == ["draining db"]

    def test_an_override_that_is_over(self, rig: Rig) -> None:
        """Nobody does it, so it is told to everybody here."""
        told = []
        rig.chronicle.listen(lambda entries: told.extend([(entry.what, entry.resources) for entry in entries]))
        rig.lines.observe([OverrideOver("db")])
        assert rig.said() == ["override over db: its time is over"]
        assert told == [(What.OVERRIDE_OVER, ("db",))]

    def test_a_storm(self, rig: Rig) -> None:
        """It leaves those of leases their lines."""
        for _ in range(500):
            rig.chronicle.act(What.PAUSED, ["db"])
            rig.chronicle.act(What.RESUMED, ["db"])
        assert len(rig.said()) == ACTS_A_SECOND
        rig.ends(1)
        rig.clock.advance(SECOND)
        assert rig.said() == [
            "lease 1 expired: db, held for 2s by web",
            "and 950 more acts within the same second: 475 paused, 475 resumed",
        ]


class TestRefusals:
    """Who wants what he may not have is worth a line; that somebody is at his cap is not."""

    def refused(self, rig: Rig, client: str = "orders", *resources: str, times: int = 1, detail: str = "") -> None:
        """As whoever does not let it tells it."""
        rig.chronicle.refused(
            client, resources, Reason.PERMISSION_DENIED, detail or "may not acquire it", (Claim("db", 1),), times
        )

    def test_one(self, rig: Rig) -> None:
        """Who, what, of what, and how often."""
        rig.chronicle.refusal_listeners.append(rig.lines.refused)
        self.refused(rig, "orders", "db", "api", times=999)
        assert rig.fields() == {
            "what": "refused",
            "client": "orders",
            "resources": ("db", "api"),
            "reason": "permission_denied",
            "detail": "may not acquire it",
            "times": 999,
        }
        self.refused(rig)
        rig.chronicle.refused("", (), Reason.UNAUTHENTICATED, "from 10.0.0.7", (), 1)
        rig.chronicle.refused("", (), Reason.UNAUTHENTICATED, "", (), 2)
        rig.chronicle.refused("orders", ("db",), Reason.CLIENT_LIMIT, "may hold 2 permits at most", (), 7)
        assert rig.said() == [
            'refused: client "orders" may not acquire it: db, api (999 times)',
            'refused: client "orders" may not acquire it',
            "refused: a caller whom nobody knows from 10.0.0.7",
            "refused: a caller whom nobody knows (2 times)",
        ]

    def test_no_name_reads_like_the_rest_of_a_line(self, rig: Rig) -> None:
        """What a caller has named is quoted unless it is plain, and acts on nothing."""
        rig.chronicle.refusal_listeners.append(rig.lines.refused)
        for name in ('x (9 times)\nrefused: client "boss" may not step in', "\x1b[2J", "\u202e", "größe/1", 'a"b'):
            self.refused(rig, 'a"b', name)
        said = rig.said()
        assert all(line.isprintable() for line in said)
        assert said == [
            r'refused: client "a\"b" may not acquire it: "x (9 times)\nrefused: client \"boss\" may not step in"',
            r'refused: client "a\"b" may not acquire it: "\u001b[2J"',
            r'refused: client "a\"b" may not acquire it: "\u202e"',
            r'refused: client "a\"b" may not acquire it: größe/1',
            r'refused: client "a\"b" may not acquire it: "a\"b"',
        ]

    def test_a_storm(self, rig: Rig) -> None:
        """Of very many clients the first are said, and how many more there were."""
        rig.chronicle.refusal_listeners.append(rig.lines.refused)
        for number in range(200):
            self.refused(rig, f"c{number}")
        assert len(rig.said()) == REFUSALS_A_SECOND
        rig.clock.advance(SECOND)
        assert rig.said() == ["and 180 more refusals within the same second: 180 permission denied"]
        self.refused(rig)
        for _ in range(REFUSALS_A_SECOND):
            self.refused(rig)
        rig.lines.close()
        assert rig.said()[-1] == "and 1 more refusal within the same second: 1 permission denied"
        assert rig.clock.pending == 0
