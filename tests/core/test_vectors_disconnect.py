"""What becomes of leases when their holder is gone: on_disconnect, to the nanosecond."""

import pytest

from governor.core.effects import LeaseEnded, LeaseExtended, LeaseOrphaned, LeaseState
from governor.core.resource import MAX_GRACES
from governor.core.types import MILLISECOND, SECOND, EndReason, LeaseId, Nanos, Outcome, Reason
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play
from tests.core.reborn import reborn, written

RELEASE: Nanos = 0
KEEP = None


def test_release_hands_on_in_the_same_step() -> None:
    """The lease ends as disconnected, and whoever is first in line has the permit."""
    play = Play(semaphore("db", 1, on_disconnect=RELEASE))
    holder, waiter = play.ask("db"), play.ask("db")
    play.at(3 * SECOND)

    play.disconnect(play.lease(holder))

    assert play.ends() == [(3 * SECOND, play.lease(holder), EndReason.DISCONNECTED)]
    assert play.granted(waiter).waited == 3 * SECOND


def test_a_grace_ends_at_its_instant() -> None:
    """Not a nanosecond before; then as disconnected, and the permit goes on in the same step."""
    play = Play(semaphore("db", 1, lease=30 * SECOND, on_disconnect=2 * SECOND))
    holder, waiter = play.ask("db"), play.ask("db")
    play.at(SECOND)

    assert play.disconnect(play.lease(holder)) == [LeaseOrphaned(play.lease(holder), 3 * SECOND)]
    play.at(3 * SECOND - 1)
    assert play.waits(waiter)
    play.at(3 * SECOND)

    assert play.ends() == [(3 * SECOND, play.lease(holder), EndReason.DISCONNECTED)]
    assert play.has(waiter)


def test_a_grace_makes_no_lease_longer() -> None:
    """With less to go than the grace it ends when it would have, and still because nobody came back."""
    play = Play(semaphore("db", 1, lease=10 * SECOND, on_disconnect=5 * SECOND))
    holder = play.ask("db")
    play.at(8 * SECOND)
    play.disconnect(play.lease(holder))

    assert play.deadline(holder) == 10 * SECOND
    play.at(10 * SECOND)

    assert play.ends() == [(10 * SECOND, play.lease(holder), EndReason.DISCONNECTED)]


def test_keep_changes_nothing() -> None:
    """The lease lives until its deadline, and expires."""
    play = Play(semaphore("db", 1, lease=10 * SECOND, on_disconnect=KEEP))
    holder = play.ask("db")
    play.at(8 * SECOND)

    assert play.disconnect(play.lease(holder)) == []
    play.at(10 * SECOND)

    assert play.ends() == [(10 * SECOND, play.lease(holder), EndReason.EXPIRED)]


def test_a_renewal_within_the_grace_undoes_it() -> None:
    """The lease is as good as any: it lasts for its length, and then expires."""
    play = Play(semaphore("db", 1, lease=10 * SECOND, on_disconnect=2 * SECOND))
    holder = play.ask("db")
    lease = play.lease(holder)
    play.disconnect(lease)
    play.at(2 * SECOND - 1)

    assert play.renew(lease)[0].remaining == 10 * SECOND
    extended = [effect for _, effect in play.record if isinstance(effect, LeaseExtended)]
    assert [(effect.left, effect.deadline) for effect in extended] == [(1, 12 * SECOND - 1)]
    play.at(12 * SECOND - 1)

    assert play.ends() == [(12 * SECOND - 1, lease, EndReason.EXPIRED)]


def test_a_renewal_at_the_end_of_the_grace_is_too_late() -> None:
    """As at any deadline; the answer says why it ended."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    lease = play.lease(play.ask("db"))
    play.disconnect(lease)
    play.unseen_until(2 * SECOND)

    (result,) = play.renew(lease)

    assert result.state is LeaseState.ENDED
    assert result.ended is not None
    assert (result.ended.reason, result.ended.ago) == (EndReason.DISCONNECTED, 0)


def test_a_refused_renewal_leaves_the_grace() -> None:
    """What changes nothing does not bring a holder back either."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    holder = play.ask("db")
    play.disconnect(play.lease(holder))

    assert play.renew(play.lease(holder), lease=0)[0].state is LeaseState.REFUSED
    play.at(2 * SECOND)

    assert play.ends() == [(2 * SECOND, play.lease(holder), EndReason.DISCONNECTED)]


def test_a_lease_given_back_within_the_grace_was_released() -> None:
    """Whoever comes back may give back."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    holder = play.ask("db")
    play.disconnect(play.lease(holder))
    play.at(SECOND)

    assert play.release(play.lease(holder))[0].state is LeaseState.RELEASED
    assert play.ends() == [(SECOND, play.lease(holder), EndReason.RELEASED)]


def test_to_disconnect_again_gives_no_second_grace() -> None:
    """The first grace goes on, and nothing is told twice."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    holder = play.ask("db")
    lease = play.lease(holder)
    assert len(play.disconnect(lease, lease)) == 1
    play.at(SECOND)

    assert play.disconnect(lease) == []
    assert play.deadline(holder) == 2 * SECOND


def test_each_absence_has_its_own_grace() -> None:
    """Whoever came back and goes again is waited for again."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    holder = play.ask("db")
    lease = play.lease(holder)
    play.disconnect(lease)
    play.at(SECOND)
    play.renew(lease)
    play.at(5 * SECOND)

    assert play.disconnect(lease) == [LeaseOrphaned(lease, 7 * SECOND)]


def test_only_live_leases_can_lose_their_holder() -> None:
    """What ended, what never was and what was only spent are passed over."""
    play = Play(semaphore("db", 2, on_disconnect=RELEASE), rate_limit("api"))
    ended, live, spent = (play.lease(play.ask(name)) for name in ("db", "db", "api"))
    play.release(ended)

    play.disconnect(ended, LeaseId(99), spent, live)

    assert [lease for _, lease, _ in play.ends()] == [ended, live]


@pytest.mark.parametrize(
    ("db", "gpu", "until"),
    [
        (KEEP, 3 * SECOND, 3 * SECOND),
        (3 * SECOND, KEEP, 3 * SECOND),
        (3 * SECOND, 2 * SECOND, 2 * SECOND),
        (3 * SECOND, RELEASE, 0),
        (RELEASE, KEEP, 0),
        (KEEP, KEEP, 30 * SECOND),
    ],
)
def test_of_several_resources_the_least_patient_decides(db: Nanos | None, gpu: Nanos | None, until: Nanos) -> None:
    """A lease ends as a whole, so none of its resources waits longer than it says."""
    play = Play(semaphore("db", 1, on_disconnect=db), semaphore("gpu", 1, on_disconnect=gpu))
    holder = play.ask("db", "gpu")
    play.disconnect(play.lease(holder))
    play.at(30 * SECOND)

    assert [at for at, _, _ in play.ends()] == [until]


@pytest.mark.parametrize(("grace", "until"), [(RELEASE, 0), (3 * SECOND, 3 * SECOND), (KEEP, 30 * SECOND)])
def test_a_rate_limit_has_no_say(grace: Nanos | None, until: Nanos) -> None:
    """It lends nothing, so nothing of it can be left behind; and what was spent stays spent."""
    play = Play(semaphore("db", 1, on_disconnect=grace), rate_limit("api", (1, 60 * SECOND, 1)))
    holder = play.ask("db", "api")

    play.disconnect(play.lease(holder))
    play.at(30 * SECOND)

    assert play.ends()[0][0] == until
    assert play.resource("db").in_use == 0
    assert play.resource("api").available == 0


def test_a_member_comes_back_as_nobody_knows_how() -> None:
    """A holder that is gone says neither ok nor broken."""
    play = Play(pool("db", ["a"], on_disconnect=RELEASE))
    first = play.ask("db")
    play.release(play.lease(first), outcome=Outcome.BROKEN)
    play.at(SECOND)
    second = play.ask("db")

    play.disconnect(play.lease(second))
    third = play.granted(play.ask("db"))

    assert [member.generation for grant in third.grants for member in grant.members] == [2]
    play.release(third.lease, outcome=Outcome.BROKEN)
    play.at(3 * SECOND - 1)
    assert play.denial(play.ask("db", wait=0)).reason is Reason.NONE_FREE


def test_a_shorter_grace_is_for_what_is_granted_from_then_on() -> None:
    """Whoever holds something was told at the grant how long it outlives him, and relies on it while he is cut off."""
    play = Play(semaphore("db", 3, on_disconnect=5 * SECOND))
    early, late = play.ask("db"), play.ask("db")
    play.disconnect(play.lease(early))

    play.reconfigure(semaphore("db", 3, on_disconnect=SECOND))
    new = play.ask("db")
    play.at(SECOND)
    play.disconnect(play.lease(early), play.lease(late), play.lease(new))

    assert [play.deadline(each) for each in (early, late, new)] == [5 * SECOND, 6 * SECOND, 2 * SECOND]


def test_a_longer_grace_is_for_all() -> None:
    """And is kept for those who had it when it becomes less again."""
    play = Play(semaphore("db", 4, on_disconnect=RELEASE))
    first = play.ask("db")
    play.reconfigure(semaphore("db", 4, on_disconnect=3 * SECOND))
    second = play.ask("db")
    play.reconfigure(semaphore("db", 4, on_disconnect=SECOND))
    third = play.ask("db")
    play.reconfigure(semaphore("db", 4, on_disconnect=2 * SECOND))
    play.reconfigure(semaphore("db", 4, on_disconnect=RELEASE))
    last = play.ask("db")

    tickets = (first, second, third, last)
    assert [play.engine.grace(play.lease(each)) for each in tickets] == [3 * SECOND, 3 * SECOND, 2 * SECOND, 0]


def test_a_grace_to_the_end_is_kept_as_well() -> None:
    """Until the lease is over: what is granted later goes by what is declared then."""
    play = Play(semaphore("db", 1, lease=10 * SECOND, on_disconnect=KEEP))
    lease = play.lease(play.ask("db"))
    play.reconfigure(semaphore("db", 1, lease=10 * SECOND, on_disconnect=SECOND))

    assert play.disconnect(lease) == []
    play.release(lease)
    play.reconfigure(semaphore("db", 1, lease=10 * SECOND, on_disconnect=RELEASE))
    assert play.engine.grace(play.lease(play.ask("db"))) == 0


def test_what_is_declared_anew_keeps_its_word() -> None:
    """A resource may be removed in between, and the daemon may die: neither is known to who was told."""
    play = Play(semaphore("db", 2, on_disconnect=5 * SECOND))
    lease = play.lease(play.ask("db"))
    play.reconfigure()
    play.reconfigure(semaphore("db", 2, on_disconnect=SECOND))
    new = play.lease(play.ask("db"))
    assert (play.engine.grace(lease), play.engine.grace(new)) == (5 * SECOND, SECOND)

    declared = [semaphore("db", 2, on_disconnect=RELEASE)]
    again, _ = reborn(written(play.engine, play.now), declared, now=play.now, ceiling=LeaseId(100))

    assert (again.grace(lease), again.grace(new)) == (5 * SECOND, SECOND)


def test_only_so_many_graces_are_told_apart() -> None:
    """Of more, older leases have a longer one than they need; none has less than it was told."""
    play = Play(semaphore("db", 100, on_disconnect=100 * SECOND))
    leases = []
    for seconds in range(99, 59, -1):
        leases.append((play.lease(play.ask("db")), (seconds + 1) * SECOND))
        play.reconfigure(semaphore("db", 100, on_disconnect=seconds * SECOND))

    graces = [(play.engine.grace(lease), told) for lease, told in leases]

    assert all(grace is not None and grace >= told for grace, told in graces)
    assert [grace == told for grace, told in graces[-MAX_GRACES + 1 :]] == [True] * (MAX_GRACES - 1)
    assert len(play.engine.remember("db", now=play.now).graces) == MAX_GRACES  # type: ignore[union-attr]


def test_a_reload_names_what_changed() -> None:
    """Another on_disconnect is another declaration."""
    play = Play(semaphore("db", 1, on_disconnect=SECOND))

    changed = play.reconfigure(semaphore("db", 1, on_disconnect=KEEP))

    assert getattr(changed, "changed", None) == ("db",)


def test_what_is_no_longer_declared_keeps_its_say() -> None:
    """A removed resource drains by the terms that it had."""
    play = Play(semaphore("db", 1, on_disconnect=SECOND))
    holder = play.ask("db")
    play.reconfigure()

    play.disconnect(play.lease(holder))
    play.at(SECOND)

    assert play.engine.snapshot(now=play.now).resources == ()


def test_what_was_due_before_has_happened() -> None:
    """A lease whose time was over before its holder went has expired."""
    play = Play(semaphore("db", 1, lease=SECOND, on_disconnect=RELEASE))
    lease = play.lease(play.ask("db"))
    play.unseen_until(SECOND)

    play.disconnect(lease)

    assert play.ends() == [(SECOND, lease, EndReason.EXPIRED)]


def test_late_is_told_as_late() -> None:
    """When nobody looked in time, the end says by how much the grace was overdrawn."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    play.disconnect(play.lease(play.ask("db")))
    play.unseen_until(2 * SECOND + 7 * MILLISECOND)

    (end,) = play.at(play.now)

    assert isinstance(end, LeaseEnded)
    assert (end.reason, end.left, end.held) == (EndReason.DISCONNECTED, -7 * MILLISECOND, play.now)


def test_the_id_of_a_lease_within_its_grace_gives_that_lease() -> None:
    """A client that comes back and repeats its ask finds it, with what is left of its time."""
    play = Play(semaphore("db", 1, on_disconnect=2 * SECOND))
    lease = play.lease(play.ask("db", client="ann", request_id="1"))
    play.disconnect(lease)
    play.at(SECOND)

    again = play.granted(play.ask("db", client="ann", request_id="1"))

    assert (again.lease, again.deadline) == (lease, 2 * SECOND)
    play.at(2 * SECOND)
    denial = play.denial(play.ask("db", client="ann", request_id="1"))
    assert denial.ended is not None
    assert (denial.reason, denial.ended.reason) == (Reason.LEASE_ENDED, EndReason.DISCONNECTED)


def test_an_undelivered_grant_can_still_be_taken_back_within_the_grace() -> None:
    """To give up its ticket is as if it had never been, whatever became of its holder."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, 60 * SECOND, 1)))
    ticket = play.ask("db", "api", request_id="1")
    play.disconnect(play.lease(ticket))

    play.abandon(ticket)

    assert play.resource("api").available == 1
    assert not play.granted(play.ask("db", "api", request_id="1")).repeated
