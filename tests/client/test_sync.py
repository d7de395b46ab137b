"""What programs of threads do with a `Client`, against a real daemon."""

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from governor import Client, GovernorError, Lease, LeaseLost, NotGranted, UsageError
from tests.client.conftest import is_kept_alive
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  one: {permits: 1}
  two: {permits: 2}
  five: {permits: 5}
  kept: {permits: 1, on_disconnect: keep}
  crowd: {permits: 3, max_waiters: 1000}
  brief: {permits: 1, max_lease: 10s}
pools:
  db:
    members:
      primary: {endpoint: "db1:5432", max_leases: 1}
      replica: {endpoint: "db2:5432", max_leases: 1}
    quarantine: 1h
rate_limits:
  api: {rate: 1/h, burst: 5}
"""

SOON: Final = BOUND


def is_left(lease: Lease, length: float, since: float) -> bool:
    """Whether it is safe to rely on it for ``length``, in seconds from an instant between ``since`` and now."""
    left = lease.remaining
    assert left is not None
    return length - (time.monotonic() - since) <= left <= length


# --- blocks -------------------------------------------------------------------------------------------------------


def test_a_block_has_a_permit_and_gives_it_back(gov: Client, me: Raw) -> None:
    """Also when its body fails, with the body's own error."""
    with gov.acquire("one") as lease:
        assert (lease.granted, lease.claims, lease.permits, lease.lost, lease.ended) == (
            True,
            {"one": 1},
            1,
            False,
            False,
        )
        assert me.counts("one") == (1, 0)
    assert lease.ended
    assert not lease.lost
    until(lambda: me.counts("one") == (0, 0), "it is back")

    with pytest.raises(ZeroDivisionError), gov.acquire("one"):
        _ = 1 / 0
    until(lambda: me.counts("one") == (0, 0), "it is back again")


def test_leaving_a_block_does_not_wait_for_the_daemon(gov: Client, daemon: Daemon) -> None:
    """It is stopped meanwhile, and nobody notices; whoever waits for it waits for five seconds."""
    with gov.acquire("one"):
        daemon.signal(signal.SIGSTOP)
        left = time.monotonic()
    took = time.monotonic() - left
    daemon.signal(signal.SIGCONT)

    assert took < 4.5


def test_several_claims_are_granted_together(gov: Client, me: Raw) -> None:
    """Or not at all."""
    with gov.acquire({"two": 2, "five": 3}) as lease:
        assert lease.claims == {"two": 2, "five": 3}
        assert (me.counts("two"), me.counts("five")) == ((2, 0), (3, 0))
        assert gov.try_acquire({"two": 1, "five": 1}) is None
        assert me.counts("five") == (3, 0)


def test_a_number_of_permits_may_be_asked_for(gov: Client, me: Raw) -> None:
    """Of one resource, beside its name."""
    with gov.acquire("five", 3) as lease:
        assert lease.permits == 3
        assert me.counts("five") == (3, 0)


def test_a_lease_may_be_given_back_by_hand(gov: Client, me: Raw) -> None:
    """As often as one likes; leaving its block then does nothing more."""
    with gov.acquire("one") as lease:
        lease.release()
        lease.release()
        until(lambda: me.counts("one") == (0, 0), "it is back")
        with gov.acquire("one", wait=0) as other:
            assert other.id > lease.id
    assert repr(lease) == f"<Lease {lease.id} one: 1 released>"


def test_the_fence_rises(gov: Client) -> None:
    """Of two leases, the later has the higher id."""
    ids = []
    for _ in range(20):
        with gov.acquire("one") as lease:
            ids.append(lease.id)

    assert ids == sorted(set(ids))


def test_a_lease_says_how_long_it_is_safe(gov: Client) -> None:
    """The length that was asked for, less a margin."""
    asked = time.monotonic()
    with gov.acquire("one", lease=5) as lease:
        assert is_left(lease, 4.5, asked)
    assert lease.remaining == 0


def test_a_lease_is_no_longer_safe_than_who_is_cut_off_may_rely_on_it(gov: Client) -> None:
    """The daemon takes us for gone 4 s after it heard of us, and the lease outlives that by 2 s, less a margin."""
    asked = time.monotonic()
    with gov.acquire("one", lease=30) as lease:
        assert is_left(lease, 5.8, asked)
    with gov.acquire("kept", lease=30) as lease:
        assert is_left(lease, 29, asked)


def test_permits_of_a_rate_limit_are_spent(gov: Client) -> None:
    """There is nothing to keep or to give back; the refusal says when to come again."""
    with gov.acquire("api", 5) as lease:
        assert lease.remaining is None
        assert lease.id > 0
    with pytest.raises(NotGranted) as refusal:
        gov.acquire("api", wait=1)

    assert (refusal.value.reason, refusal.value.resource, refusal.value.never) == ("hopeless", "api", False)
    assert refusal.value.retry_after == pytest.approx(3600, rel=0.1)


def test_members_of_a_pool_come_with_what_the_operator_wrote(gov: Client) -> None:
    """And one that came back broken is kept out."""
    with gov.acquire("db") as first, gov.acquire("db") as second:
        assert {first.member.id, second.member.id} == {"primary", "replica"}
        assert first.member.attributes["endpoint"] == {"primary": "db1:5432", "replica": "db2:5432"}[first.member.id]
        broken = first.member.id
        first.release("broken")
    for _ in range(3):
        with gov.acquire("db") as lease:
            assert lease.member.id != broken
            lease.release("ok")


# --- refusals -----------------------------------------------------------------------------------------------------


def test_what_is_not_free_is_not_waited_for_with_no_wait(gov: Client) -> None:
    """`acquire` says why; `try_acquire` says None."""
    with gov.acquire("one"):
        with pytest.raises(NotGranted) as refusal:
            gov.acquire("one", wait=0)
        assert (refusal.value.reason, refusal.value.resource, refusal.value.never) == ("none_free", "one", False)
        assert gov.try_acquire("one") is None
    with gov.acquire("one"):
        pass
    lease = gov.try_acquire("one")
    assert lease is not None
    lease.release()


@pytest.mark.parametrize("way", ["acquire", "try_acquire"])
@pytest.mark.parametrize(
    ("claims", "reason"),
    [({"two": 3}, "above_capacity"), ({"nowhere": 1}, "unknown_resource"), ({"x" * 1000: 1}, "malformed")],
)
def test_what_can_never_be_is_told_from_what_cannot_be_now(
    gov: Client, way: str, claims: dict[str, int], reason: str
) -> None:
    """In either way to ask."""
    with pytest.raises(NotGranted) as refusal:
        getattr(gov, way)(claims)

    assert (refusal.value.reason, refusal.value.never, refusal.value.retry_after) == (reason, True, None)
    assert str(refusal.value)


def test_a_lease_that_is_too_long_is_refused_for_good(gov: Client) -> None:
    """By the resource's own bound."""
    with pytest.raises(NotGranted) as refusal:
        gov.acquire("brief", lease=60)

    assert refusal.value.never
    assert "10" in str(refusal.value)


def test_a_mistake_is_told_without_a_daemon() -> None:
    """Nothing travels."""
    gov = Client("127.0.0.1:1")
    with pytest.raises(UsageError):
        gov.acquire("x", permits=0)
    with pytest.raises(UsageError):
        gov.acquire("x", wait=-1)
    with pytest.raises(UsageError):
        gov.acquire("x", labels={"a": 1})  # type: ignore[dict-item]


# --- lines --------------------------------------------------------------------------------------------------------


def test_a_wait_ends_with_a_permit(gov: Client, me: Raw) -> None:
    """As soon as there is one; the lease says how long it took."""
    with ThreadPoolExecutor(1) as pool:
        with gov.acquire("one"):
            waiting = pool.submit(gov.acquire, "one", wait=BOUND)
            until(lambda: me.counts("one") == (1, 1), "somebody waits")
        with waiting.result(SOON) as lease:
            assert 0 < lease.waited < SOON


def test_a_wait_that_is_over_says_so(gov: Client) -> None:
    """After the time that was asked for, and from the daemon."""
    with gov.acquire("one"):
        asked = time.monotonic()
        with pytest.raises(NotGranted) as refusal:
            gov.acquire("one", wait=0.3)
        took = time.monotonic() - asked

    assert refusal.value.reason == "wait_over"
    assert 0.3 <= took < BOUND


def test_who_waits_learns_their_place(gov: Client, me: Raw) -> None:
    """Now and then, with how many come before."""
    places: list[int] = []

    def note(ahead: int, expected: float | None) -> None:
        assert expected is None or expected >= 0
        places.append(ahead)

    with ThreadPoolExecutor(2) as pool:
        with gov.acquire("one"):
            first = pool.submit(gov.acquire, "one", wait=BOUND)
            until(lambda: me.counts("one") == (1, 1), "the first waits")
            second = pool.submit(gov.acquire, "one", wait=BOUND, on_queued=note)
            until(lambda: len(places) >= 2, "it was told twice")
        first.result(SOON).release()
        second.result(SOON).release()

    assert places[0] == 1
    assert set(places) <= {0, 1}


def test_a_thread_that_is_interrupted_leaves_the_line(gov: Client, me: Raw) -> None:
    """A signal's handler raises in the main thread, wherever that waits; what it was granted goes back."""

    def interrupt(number: int, frame: object) -> None:
        raise InterruptedError

    former = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with gov.acquire("one"):
            threading.Thread(target=lambda: _when(lambda: me.counts("one") == (1, 1), signal.SIGUSR1)).start()
            with pytest.raises(InterruptedError):
                gov.acquire("one", wait=BOUND)
            until(lambda: me.counts("one") == (1, 0), "nobody waits")
    finally:
        signal.signal(signal.SIGUSR1, former)


def _when(condition: Callable[[], bool], number: signal.Signals) -> None:
    until(condition, "it is time")
    signal.pthread_kill(threading.main_thread().ident or 0, number)


# --- more than one ------------------------------------------------------------------------------------------------


def test_fifty_threads_share_a_client(gov: Client, me: Raw) -> None:
    """Never more of them inside than there are permits, and everybody gets in."""
    lock, inside, most, entered = threading.Lock(), 0, 0, 0

    def work(_: int) -> None:
        nonlocal inside, most, entered
        for _ in range(4):
            with gov.acquire("crowd", wait=BOUND):
                with lock:
                    inside += 1
                    entered += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(work, range(50)))

    assert entered == 200
    assert most <= 3
    until(me.idle, "all is back")


def test_many_asks_of_one_process_are_one_session(gov: Client, daemon: Daemon) -> None:
    """Whatever threads they come from."""
    before = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        for lease in list(pool.map(lambda _: gov.acquire("crowd", wait=BOUND), range(3))):
            lease.release()
        threads = {thread.name for thread in threading.enumerate() if thread.name.startswith("governor")}

    assert threads == {"governor-client"}
    assert threading.active_count() <= before + 1


def test_a_decorated_function_runs_under_a_lease(gov: Client, me: Raw) -> None:
    """Each call under one of its own, with what it was called with."""

    @gov.limit("two", wait=BOUND)
    def add(one: int, *, other: int) -> int:
        assert 1 <= me.counts("two")[0] <= 2
        return one + other

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(lambda number: add(number, other=1), range(5))) == [1, 2, 3, 4, 5]
    until(me.idle, "all is back")


def test_a_decorated_function_that_gets_none_is_not_run(gov: Client) -> None:
    """The refusal is raised instead."""
    ran = []

    @gov.limit({"one": 1}, wait=0)
    def work() -> None:
        ran.append(True)

    with gov.acquire("one"), pytest.raises(NotGranted):
        work()
    assert not ran


# --- letting go ---------------------------------------------------------------------------------------------------


def test_a_lease_outlives_its_block(gov: Client, me: Raw) -> None:
    """And is taken on by whoever knows its id, in the same program."""
    with gov.acquire("one", lease=20) as lease:
        lease_id = lease.detach()
    assert (lease.ended, lease.lost) == (True, False)
    assert me.counts("one") == (1, 0)

    asked = time.monotonic()
    with gov.adopt(lease_id) as adopted:
        assert (adopted.id, adopted.claims) == (lease_id, {"one": 1})
        assert is_left(adopted, 5.8, asked)
    until(lambda: me.counts("one") == (0, 0), "it is back")


def test_a_lease_goes_from_one_program_to_another(gov: Client, daemon: Daemon, me: Raw) -> None:
    """The one that had it may end meanwhile, and the one that takes it keeps it alive."""
    with Client(daemon.address) as other:
        lease_id = other.acquire("one", lease=5).detach()
    with gov.adopt(lease_id) as adopted:
        is_kept_alive(adopted)
        assert me.counts("one") == (1, 0)


def test_a_lease_that_is_adopted_away_is_lost(gov: Client, daemon: Daemon, me: Raw) -> None:
    """It has one holder; the other one is told, and gives nothing back."""
    lease = gov.acquire("one")
    with Client(daemon.address) as other, other.adopt(lease.id):
        until(lambda: lease.lost, "the first has heard of it")
        with pytest.raises(LeaseLost) as lost, lease:
            pass
        assert lost.value.lease == lease.id
        assert me.counts("one") == (1, 0)


def test_what_has_ended_cannot_be_adopted(gov: Client) -> None:
    """Nor what never was."""
    with gov.acquire("one") as lease:
        pass
    for lease_id in (lease.id, 2**40):
        with pytest.raises(LeaseLost) as lost:
            gov.adopt(lease_id)
        assert lost.value.lease == lease_id


# --- the end ------------------------------------------------------------------------------------------------------


def test_a_client_that_is_closed_has_given_all_back(daemon: Daemon, me: Raw) -> None:
    """When it returns, the daemon has it; whoever waited is told; and it may be used again."""
    gov = Client(daemon.address)
    lease = gov.acquire("one")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gov.acquire, "one", wait=BOUND)
        until(lambda: me.counts("one") == (1, 1), "somebody waits")
        gov.close()
        assert me.counts("one") == (0, 0)
        with pytest.raises(Exception, match="the client was closed"):
            waiting.result(SOON)

    assert (lease.ended, lease.lost) == (True, False)
    with gov.acquire("one"):
        assert me.counts("one") == (1, 0)
    gov.close()
    assert gov._settings.link._thread is None


def _more(answers: list[Lease | GovernorError | None]) -> None:
    before = len(answers)
    until(lambda: len(answers) >= before + 10, "they go on")


def test_asks_that_come_while_a_client_closes_are_answered(daemon: Daemon) -> None:
    """By a lease or by an error, but nobody hangs."""
    gov = Client(daemon.address)
    stop = threading.Event()
    answers: list[Lease | GovernorError | None] = []

    def work() -> None:
        while not stop.is_set():
            try:
                lease = gov.try_acquire("five")
            except GovernorError as error:
                answers.append(error)
            else:
                answers.append(lease)
                if lease is not None:
                    lease.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        _more(answers)
        gov.close()
    stop.set()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    gov.close()

    assert any(isinstance(answer, Lease) for answer in answers)
    assert {str(answer) for answer in answers if isinstance(answer, GovernorError)} <= {"the client was closed"}
