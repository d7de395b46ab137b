"""What is counted: each ended ticket once under each resource it claims, each ended lease likewise."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.effects import (
    Abandoned,
    Denied,
    Effect,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    LeaseResult,
    LeaseState,
    Queued,
    Reconfigured,
    ReconfigureRefused,
    Released,
    Renewed,
)
from governor.core.types import (
    MILLISECOND,
    SECOND,
    Claim,
    Denial,
    EndReason,
    Grant,
    LeaseId,
    Nanos,
    Reason,
    TicketId,
)
from governor.metrics.histogram import TIMES, Histogram
from governor.metrics.tally import Counted, Tallies
from tests.metrics.reading import resource, snapshot

NAMES = ("jobs", "db", "api")
DECLARED = snapshot(*(resource(name) for name in NAMES))
TICKET = TicketId(1)
LEASE = LeaseId(1)


def granted(*names: str, waited: Nanos = 0, repeated: bool = False) -> Granted:
    """A grant of one permit of each."""
    grants = tuple(Grant(name, 1) for name in names)
    return Granted(TICKET, LEASE, grants, 30 * SECOND, waited, "client", repeated)


def denied(reason: Reason, *names: str, waited: Nanos = 0) -> Denied:
    """A refusal of one permit of each."""
    return Denied(TICKET, Denial(reason), tuple(Claim(name, 1) for name in names), waited)


def ended(reason: EndReason, *names: str, held: Nanos = SECOND, left: Nanos = SECOND) -> LeaseEnded:
    """The end of a lease of one permit of each."""
    return LeaseEnded(LEASE, reason, tuple(Grant(name, 1) for name in names), "client", held, left)


@pytest.fixture
def tallies() -> Tallies:
    """Nothing has happened to three declared resources."""
    return Tallies(lambda: DECLARED)


def outcomes(tallies: Tallies | Counted, name: str) -> dict[str, int]:
    """How many tickets ended in each way."""
    return {outcome: count for outcome, count in tallies.by_resource[name].tickets.items() if count}


class TestTickets:
    """How asks ended."""

    def test_a_grant_of_two_resources_counts_once_under_each(self, tallies: Tallies) -> None:
        """... and under no other."""
        tallies.observe([granted("jobs", "db")])

        assert outcomes(tallies, "jobs") == {"granted": 1}
        assert outcomes(tallies, "db") == {"granted": 1}
        assert outcomes(tallies, "api") == {}

    def test_a_repeated_grant_is_a_ticket_but_no_second_grant(self, tallies: Tallies) -> None:
        """The answer to a request id that was granted before lends nothing new."""
        tallies.observe([granted("jobs")])
        tallies.observe([granted("jobs", repeated=True)])

        assert outcomes(tallies, "jobs") == {"granted": 1, "repeated": 1}

    def test_a_repeated_grant_of_what_is_gone_is_a_stray(self, tallies: Tallies) -> None:
        """What was spent of a rate limit is answered again also when the rate limit is not there any more."""
        tallies.follow(snapshot())
        tallies.observe([granted("api", repeated=True)])

        assert tallies.strays == {"repeated": 1}

    @pytest.mark.parametrize("reason", Reason)
    def test_a_refusal_counts_under_its_reason(self, tallies: Tallies, reason: Reason) -> None:
        """The label is the value of the reason, for every reason there is."""
        tallies.observe([denied(reason, "db", "api", waited=3 * SECOND)])

        assert outcomes(tallies, "db") == {reason.value: 1}
        assert outcomes(tallies, "api") == {reason.value: 1}
        assert tallies.by_resource["db"].waits[reason.value].total == 3 * SECOND

    def test_an_abandoned_ticket_counts_as_such(self, tallies: Tallies) -> None:
        """With the time that it stood in line."""
        tallies.observe([Abandoned(TICKET, (Claim("jobs", 2),), 5 * SECOND)])

        assert outcomes(tallies, "jobs") == {"abandoned": 1}
        assert tallies.by_resource["jobs"].waits["abandoned"].total == 5 * SECOND

    def test_an_ask_for_the_same_resource_twice_counts_once(self, tallies: Tallies) -> None:
        """It is malformed, and one ticket."""
        tallies.observe([denied(Reason.MALFORMED, "jobs", "jobs")])

        assert outcomes(tallies, "jobs") == {"malformed": 1}

    def test_names_that_clients_choose_make_no_tallies(self, tallies: Tallies) -> None:
        """Whoever claims nothing declared is a stray; whoever claims anything declared counts there."""
        tallies.observe([denied(Reason.UNKNOWN_RESOURCE, f"guess-{n}") for n in range(100)])
        tallies.observe([denied(Reason.UNKNOWN_RESOURCE, "jobs", "guess")])
        tallies.observe([denied(Reason.MALFORMED)])

        assert set(tallies.by_resource) == set(NAMES)
        assert tallies.strays == {"unknown_resource": 100, "malformed": 1}
        assert outcomes(tallies, "jobs") == {"unknown_resource": 1}

    def test_a_ticket_that_waits_has_not_ended(self, tallies: Tallies) -> None:
        """Only its end is counted."""
        tallies.observe([Queued(TICKET, 0, 0, (), "")])

        assert all(outcomes(tallies, name) == {} for name in NAMES)


class TestLeases:
    """How leases ended and how close they came to it."""

    def test_a_release_records_how_long_it_was_held_and_how_much_was_left(self, tallies: Tallies) -> None:
        """Under each resource of the lease."""
        tallies.observe([ended(EndReason.RELEASED, "jobs", "db", held=2 * SECOND, left=28 * SECOND)])

        for name in ("jobs", "db"):
            tally = tallies.by_resource[name]
            assert tally.ends[EndReason.RELEASED] == 1
            assert (sum(tally.hold.counts), tally.hold.total) == (1, 2 * SECOND)
            assert (sum(tally.margin.counts), tally.margin.total) == (1, 28 * SECOND)
            assert sum(tally.lag.counts) == 0

    def test_one_resource_is_counted_like_several(self, tallies: Tallies) -> None:
        """The short way through the commonest case makes no difference."""
        alone, along = Tallies(lambda: DECLARED), Tallies(lambda: DECLARED)
        for reason in EndReason:
            alone.observe([ended(reason, "jobs", held=7 * MILLISECOND, left=-2 * MILLISECOND)])
            along.observe([ended(reason, "jobs", "db", held=7 * MILLISECOND, left=-2 * MILLISECOND)])
        for waited in (0, 1, SECOND):
            alone.observe([granted("jobs", waited=waited)])
            along.observe([granted("jobs", "db", waited=waited)])

        one, other = alone.by_resource["jobs"], along.by_resource["jobs"]
        assert one.ends == other.ends
        for mine, theirs in ((one.hold, other.hold), (one.margin, other.margin), (one.lag, other.lag)):
            assert (mine.counts, mine.total) == (theirs.counts, theirs.total)
        assert (one.granted.counts, one.granted.total) == (other.granted.counts, other.granted.total)

    def test_an_expiry_records_how_late_it_was(self, tallies: Tallies) -> None:
        """What was left is negative then, and no margin."""
        tallies.observe([ended(EndReason.EXPIRED, "jobs", held=30 * SECOND, left=-4 * MILLISECOND)])

        tally = tallies.by_resource["jobs"]
        assert tally.ends[EndReason.EXPIRED] == 1
        assert (sum(tally.lag.counts), tally.lag.total) == (1, 4 * MILLISECOND)
        assert sum(tally.margin.counts) == 0

    def test_a_renewal_records_how_much_was_left(self, tallies: Tallies) -> None:
        """A lease that was renewed has not ended."""
        tallies.observe([LeaseExtended(LEASE, (Grant("db", 1),), 9 * SECOND, 99 * SECOND, "")])

        tally = tallies.by_resource["db"]
        assert (sum(tally.margin.counts), tally.margin.total) == (1, 9 * SECOND)
        assert not any(tally.ends.values())

    def test_a_lease_whose_holder_is_gone_counts_when_it_ends(self, tallies: Tallies) -> None:
        """Its grace is no end, and an end at its deadline is no lag of an expiry."""
        tallies.observe([LeaseOrphaned(LEASE, 2 * SECOND)])
        tally = tallies.by_resource["db"]
        assert not any(tally.ends.values())

        tallies.observe([ended(EndReason.DISCONNECTED, "db", held=9 * SECOND, left=0)])
        assert tally.ends[EndReason.DISCONNECTED] == 1
        assert (sum(tally.hold.counts), sum(tally.lag.counts), sum(tally.margin.counts)) == (1, 0, 0)

    def test_each_id_of_a_release_or_renewal_is_counted_by_what_became_of_it(self, tallies: Tallies) -> None:
        """Also those that were not live, which no resource can be named for."""
        states = (LeaseState.ENDED, LeaseState.UNKNOWN, LeaseState.ENDED)
        results = tuple(LeaseResult(LEASE, state) for state in states)
        tallies.observe([Released((*results, LeaseResult(LEASE, LeaseState.RELEASED)))])
        tallies.observe([Renewed((LeaseResult(LEASE, LeaseState.RENEWED), LeaseResult(LEASE, LeaseState.REFUSED)))])

        assert +Counter(tallies.releases) == {"released": 1, "ended": 2, "unknown": 1}
        assert +Counter(tallies.renewals) == {"renewed": 1, "refused": 1}

    def test_the_end_of_a_lease_may_name_a_rate_limit_that_is_gone(self, tallies: Tallies) -> None:
        """It was spent, not lent, so nothing kept it in the config."""
        tallies.follow(snapshot(resource("jobs")))
        tallies.observe([ended(EndReason.RELEASED, "jobs", "api"), ended(EndReason.DISCONNECTED, "api")])

        assert set(tallies.by_resource) == {"jobs"}
        assert tallies.by_resource["jobs"].ends[EndReason.RELEASED] == 1


class TestReload:
    """What exists follows the config."""

    def test_counts_follow_what_is_declared(self) -> None:
        """What was added starts at nothing, what stays keeps its counts, what is gone is forgotten."""
        shown = [snapshot(resource("jobs"), resource("db"))]
        tallies = Tallies(lambda: shown[0])
        tallies.observe([granted("jobs"), granted("db")])
        shown[0] = snapshot(resource("db"), resource("new"))
        tallies.observe([Reconfigured(added=("new",), changed=(), removed=("jobs",))])
        tallies.observe([granted("new")])

        assert set(tallies.by_resource) == {"db", "new"}
        assert outcomes(tallies, "db") == {"granted": 1}
        assert outcomes(tallies, "new") == {"granted": 1}

    def test_another_kind_under_the_same_name_starts_at_nothing(self) -> None:
        """It is another resource, and shows under another label."""
        shown = [snapshot(resource("jobs"))]
        tallies = Tallies(lambda: shown[0])
        tallies.observe([granted("jobs")])
        shown[0] = snapshot(resource("jobs", "pool"))
        tallies.observe([Reconfigured(added=("jobs",), changed=(), removed=("jobs",))])

        assert outcomes(tallies, "jobs") == {}

    def test_the_waiters_of_what_is_removed_are_no_strays(self) -> None:
        """They did claim something declared, and are told in the step that removes it."""
        shown = [snapshot(resource("jobs"))]
        tallies = Tallies(lambda: shown[0])
        shown[0] = snapshot()
        tallies.observe([Reconfigured((), (), ("jobs",)), denied(Reason.UNKNOWN_RESOURCE, "jobs")])

        assert tallies.strays == {}
        assert tallies.by_resource == {}

    def test_a_refused_reload_changes_nothing(self, tallies: Tallies) -> None:
        """Everything is as it was."""
        tallies.observe([granted("jobs"), ReconfigureRefused(("jobs cannot be",))])

        assert outcomes(tallies, "jobs") == {"granted": 1}


class TestHistogram:
    """Counts by duration."""

    @given(st.lists(st.integers(-1, 5000 * SECOND) | st.sampled_from(TIMES)))
    def test_each_duration_is_under_the_smallest_bound_it_does_not_exceed(self, values: list[Nanos]) -> None:
        """As Prometheus defines it: at most `le`."""
        histogram = Histogram(TIMES)
        for value in values:
            histogram.add(value)

        for index, bound in enumerate(TIMES):
            assert sum(histogram.counts[: index + 1]) == sum(value <= bound for value in values)
        assert sum(histogram.counts) == len(values)
        assert histogram.total == sum(values)

    def test_a_copy_stays_as_it_is(self, tallies: Tallies) -> None:
        """What is counted later is not on a page that was begun before."""
        tallies.observe([granted("jobs"), denied(Reason.LINE_FULL, "guess")])
        copy = tallies.copy()
        tallies.observe([granted("jobs"), ended(EndReason.RELEASED, "jobs"), denied(Reason.LINE_FULL, "guess")])
        tallies.observe([Released((LeaseResult(LEASE, LeaseState.RELEASED),))])

        assert outcomes(copy, "jobs") == {"granted": 1}
        assert sum(copy.by_resource["jobs"].hold.counts) == 0
        assert not any(copy.by_resource["jobs"].ends.values())
        assert copy.strays["line_full"] == 1
        assert copy.releases[LeaseState.RELEASED] == 0


@dataclass
class Ledger:
    """The same count again, in the plainest way: one line for each fact."""

    tickets: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    sums: Counter[tuple[str, str]] = field(default_factory=Counter)
    strays: Counter[str] = field(default_factory=Counter)

    def write(self, effect: Effect) -> None:
        """Note what one effect says."""
        if isinstance(effect, Granted):
            self._ticket(
                {g.resource for g in effect.grants},
                "repeated" if effect.repeated else "granted",
                effect.waited,
            )
        elif isinstance(effect, Denied):
            self._ticket({c.resource for c in effect.claims}, effect.denial.reason.value, effect.waited)
        elif isinstance(effect, Abandoned):
            self._ticket({c.resource for c in effect.claims}, "abandoned", effect.waited)
        elif isinstance(effect, LeaseEnded):
            for grant in effect.grants:
                self.ends[grant.resource, effect.reason.value] += 1
                self.sums[grant.resource, "hold"] += effect.held

    def _ticket(self, names: set[str], outcome: str, waited: Nanos) -> None:
        ours = names & set(NAMES)
        for name in ours:
            self.tickets[name, outcome] += 1
            self.sums[name, outcome] += waited
        if not ours:
            self.strays[outcome] += 1


waits = st.sampled_from((0, 0, 1, MILLISECOND, 30 * SECOND)) | st.integers(0, 5000 * SECOND)
lent = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
asked = st.lists(st.sampled_from((*NAMES, "guess", "other guess")), max_size=4)
effects = st.one_of(
    st.builds(
        lambda names, waited, repeated: granted(*names, waited=waited, repeated=repeated),
        lent,
        waits,
        st.booleans(),
    ),
    st.builds(
        lambda reason, names, waited: denied(reason, *names, waited=waited),
        st.sampled_from(Reason),
        asked,
        waits,
    ),
    st.builds(lambda names, waited: Abandoned(TICKET, tuple(Claim(n, 1) for n in names), waited), lent, waits),
    st.builds(
        lambda reason, names, held, left: ended(reason, *names, held=held, left=left),
        st.sampled_from(EndReason),
        lent,
        waits,
        st.integers(-SECOND, 30 * SECOND),
    ),
)


@given(st.lists(st.lists(effects, max_size=5), max_size=30))
def test_i11_counters_equal_a_ledger_of_the_same_effects(steps: list[list[Effect]]) -> None:
    """I11, metrics equal the state: here against an independent account of any effects whatever."""
    tallies, ledger = Tallies(lambda: DECLARED), Ledger()
    for step in steps:
        tallies.observe(step)
        for effect in step:
            ledger.write(effect)

    for name in NAMES:
        tally = tallies.by_resource[name]
        for outcome in {*tally.tickets, *(outcome for _, outcome in ledger.tickets)}:
            assert tally.tickets.get(outcome, 0) == ledger.tickets[name, outcome]
        for outcome, histogram in tally.waits.items():
            assert histogram.total == ledger.sums[name, outcome]
        for reason in EndReason:
            assert tally.ends[reason] == ledger.ends[name, reason.value]
        assert sum(tally.hold.counts) == sum(tally.ends.values())
        assert tally.hold.total == ledger.sums[name, "hold"]
    assert tallies.strays == ledger.strays
