"""The simulator: worlds that were wrong once stay right, and a world in which something is wrong shows it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from governor.core import admission, reload
from governor.core.effects import Effect, LeaseEnded, LeaseExtended
from governor.core.kinds.semaphore import Semaphore
from governor.core.leases import Lease
from governor.core.lending import Lending
from governor.core.resource import Remembered, Resource
from governor.core.types import MILLISECOND, SECOND, Denial, LeaseId, Nanos, Reason
from tests.simulate.__main__ import kept
from tests.simulate.manner import Manner
from tests.simulate.run import run
from tests.simulate.store import Scribe, Tables, Transaction

# How many worlds it may take until a fault that was planted shows.
_WORLDS: Final = 150
_EVERYTHING: Final = Scribe.everything
_HEED: Final = reload.heed


@pytest.mark.parametrize("seed", [*kept(), 1, 2, 3])
def test_a_world_that_was_wrong_is_right(seed: int) -> None:
    """Those that are kept, and a few whose worlds never were wrong."""
    assert run(seed).problems == []


def test_a_seed_is_all_there_is_to_a_world() -> None:
    """Whatever happened happens again."""
    first, again = run(7), run(7)

    assert first.history == again.history
    assert (first.boots, first.freezes) == (again.boots, again.freezes)


def test_a_world_is_busy() -> None:
    """Daemons die and are stopped, and clients see all there is to see."""
    outcomes = [run(seed) for seed in range(20)]
    results = {call.result for outcome in outcomes for call in outcome.history.calls}

    assert sum(outcome.boots - 1 for outcome in outcomes) > len(outcomes)
    assert sum(outcome.freezes for outcome in outcomes) > 0
    assert results >= {
        "",
        "granted",
        "released",
        "renewed",
        "ended",
        "unknown",
        "none_free",
        "lease_ended",
        "wait_over",
    }


def shows(rule: str, but: Callable[[Manner], Manner] = lambda drawn: drawn) -> bool:
    """Whether some world breaks this rule."""
    return any(problem.startswith(rule) for seed in range(_WORLDS) for problem in run(seed, but).problems)


def test_an_answer_before_it_is_written_shows() -> None:
    """A lease that somebody was told he has, and that was not written yet when the daemon died."""
    assert shows("I12", lambda drawn: replace(drawn, hasty=True, to_disk=300 * MILLISECOND, dies=0.02))


def with_written(change: Callable[[Transaction], None]) -> Callable[[Transaction, Tables], None]:
    """A store that writes something else than it is told to."""
    write = Transaction.write

    def wrong(transaction: Transaction, tables: Tables) -> None:
        change(transaction)
        write(transaction, tables)

    return wrong


def forget_ids(transaction: Transaction) -> None:
    """How high lease ids have risen."""
    transaction.last_id = LeaseId(0)


def forget_past(transaction: Transaction) -> None:
    """Which request ids stand for leases that have ended."""
    transaction.past.clear()


def forget_some_leases(transaction: Transaction) -> None:
    """One of seven."""
    for lease in [lease for lease in transaction.leases if lease % 7 == 0]:
        del transaction.leases[lease]


def forget_what_was_spent(transaction: Transaction) -> None:
    """Rate limits begin anew with each restart."""
    for name, known in transaction.resources.items():
        if isinstance(known, Remembered) and known.spec.kind == "rate_limit":
            idle: Nanos = 0
            memory = known.spec.limit.build(idle).remember(idle)
            transaction.resources[name] = replace(known, memory=memory)


@pytest.mark.parametrize(
    ("forget", "rule"),
    [(forget_ids, "I7"), (forget_past, "I8"), (forget_some_leases, "I1"), (forget_what_was_spent, "I9")],
)
def test_a_store_that_forgets_shows(
    forget: Callable[[Transaction], None], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is that is forgotten, in what clients see."""
    monkeypatch.setattr(Transaction, "write", with_written(forget))

    assert shows(rule)


@pytest.mark.parametrize("unseen", [LeaseEnded, LeaseExtended])
def test_a_scribe_who_does_not_look_shows(unseen: type[Effect], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends and renewals must be written as grants are."""
    observe = Scribe.observe

    def blind(scribe: Scribe, effects: Sequence[Effect]) -> None:
        observe(scribe, [effect for effect in effects if not isinstance(effect, unseen)])

    monkeypatch.setattr(Scribe, "observe", blind)

    assert any(run(seed).problems for seed in range(_WORLDS))


def test_a_renewal_that_is_written_late_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next heartbeat, a second at most after its holder was told: a daemon that dies before forgets it."""
    observe, transaction = Scribe.observe, Scribe.transaction
    late: dict[Scribe, list[Effect]] = {}

    def put_off(scribe: Scribe, effects: Sequence[Effect]) -> None:
        late.setdefault(scribe, []).extend([effect for effect in effects if isinstance(effect, LeaseExtended)])
        observe(scribe, [effect for effect in effects if not isinstance(effect, LeaseExtended)])

    def write(scribe: Scribe, now: Nanos, *, heartbeat: bool = False) -> Transaction | None:
        if heartbeat:
            observe(scribe, late.pop(scribe, []))
        return transaction(scribe, now, heartbeat=heartbeat)

    monkeypatch.setattr(Scribe, "observe", put_off)
    monkeypatch.setattr(Scribe, "transaction", write)

    # A daemon that dies often, and gives nothing that would hide what is missing.
    assert shows("I12", lambda drawn: replace(drawn, grace=0, dies=0.02))


def often_reloaded(drawn: Manner) -> Manner:
    """The operator changes his mind often, and a daemon lives long enough to be held to its word."""
    return replace(drawn, reloads=2 * SECOND, dies=0)


def forget_longer_grace(resource: Resource, lease: LeaseId) -> Nanos | None:
    """A shorter `on_disconnect` holds at once, also for what is lent."""
    del lease
    return resource.spec.on_disconnect


def promise_nothing(scribe: Scribe, now: Nanos, promise: Nanos) -> Transaction:
    """The next daemon gives what it is told to, and no more."""
    del promise
    return _EVERYTHING(scribe, now, 0)


def half(lease: Lease) -> Nanos:
    """A renewal that does not say how long is for half of what was granted."""
    return lease.ask.length // 2


def shorten(lending: Lending, resource: Resource, now: Nanos, effects: list[Effect]) -> None:
    """A shorter `max_lease` holds at once, also for what is lent."""
    _HEED(lending, resource, now, effects)
    for lease in list(lending.leases):
        deadline = now + resource.spec.max_lease
        if lease.deadline is not None and resource in [each for each, _ in lease.ask.wants]:
            lending.leases.move(lease, min(lease.deadline, deadline), lease.ends_as)


def lose_patience(lending: Lending, resource: Resource, now: Nanos, effects: list[Effect]) -> None:
    """A shorter `max_wait` holds at once, also for who waits."""
    _HEED(lending, resource, now, effects)
    for ask in list(resource.line):
        if ask.since + admission.longest_wait(ask.wants, None) <= now:
            lending.deny(ask, Denial(Reason.WAIT_OVER), now, effects)


@pytest.mark.parametrize(
    ("where", "what", "fault", "rule"),
    [
        (Resource, "grace", forget_longer_grace, "I12"),
        (Scribe, "everything", promise_nothing, "I12"),
        (Lease, "length", property(half), "I12"),
        (reload, "heed", shorten, "I12"),
        (reload, "heed", lose_patience, "told"),
    ],
    ids=["on_disconnect", "restart_grace", "lease", "max_lease", "max_wait"],
)
def test_a_daemon_that_does_not_keep_its_word_shows(
    where: object, what: str, fault: object, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What clients were told holds over reloads and restarts: for how long they have it, also cut off, and may wait."""
    monkeypatch.setattr(where, what, fault)

    assert shows(rule, often_reloaded)


def test_an_engine_that_lends_too_much_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One permit more than there are, now and then."""

    def generous(semaphore: Semaphore, permits: int, now: Nanos) -> bool:
        return semaphore._permits is None or semaphore.in_use + permits <= max(2, semaphore._permits)

    monkeypatch.setattr(Semaphore, "can_take", generous)

    assert shows("I1")
