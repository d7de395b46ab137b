"""The order of asking, over real connections."""

import pytest

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client, Refusal, ask
from tests.e2e.process import Daemon, until

YAML = """
defaults: {lease: 1h}
semaphores:
  fair: {permits: 1}
  large: {permits: 4}
  left: {permits: 1}
  right: {permits: 1}
  short: {permits: 1, max_waiters: 1}
pools:
  db: {members: {a: {endpoint: "a:1"}, b: {endpoint: "b:1"}}, order: fifo, quarantine: 1h, max_quarantine: 1h}
rate_limits:
  api: {rate: 20/s, burst: 1}
  slow: {rate: 1/h, burst: 1}
"""


def test_the_line_is_served_in_the_order_of_asking(daemon: Daemon, me: Client) -> None:
    """Whichever connection and transport each came by."""
    with Client(daemon.addresses[1]) as other:
        held = me.acquire("fair").id
        waiting = [(me, other)[number % 2].wait_in_line(ask("fair")) for number in range(10)]

        served = []
        for first, *others in (waiting[number:] for number in range(10)):
            me.release(held)
            held = first.lease().id
            served.append(held)
            assert not any(later.done() for later in others)
            assert me.counts("fair") == (1, len(others))
        me.release(held)

    assert served == sorted(served)


def test_a_large_ask_is_not_starved_by_small_ones(daemon: Daemon, me: Client) -> None:
    """Whoever comes after it waits behind it, though what they ask for is free."""
    held = me.acquire("large", permits=2).id
    large = me.wait_in_line(ask("large", permits=4))
    small = me.wait_in_line(ask("large"))
    with pytest.raises(Exception, match="not enough permits") as denied:
        me.acquire("large", wait=0)

    assert Refusal(denied.value).reason == "NONE_FREE"
    me.release(held)
    held = large.lease().id
    assert me.counts("large") == (4, 1)
    me.release(held)
    me.release(small.lease().id)


def test_several_claims_are_granted_together(daemon: Daemon, me: Client) -> None:
    """Nothing is held of one while the other is lent; and asks in opposite orders do not block each other."""
    left, right = me.acquire("left").id, me.acquire("right").id
    one = me.wait_in_line(ask("left", "right"))
    other = me.wait_in_line(ask("right", "left"))

    me.release(left)
    assert me.counts("left") == (0, 2)
    me.release(right)
    lease = one.lease()

    assert [(grant.resource, grant.permits) for grant in lease.grants] == [("left", 1), ("right", 1)]
    assert not other.done()
    me.release(lease.id)
    lease = other.lease()
    assert [grant.resource for grant in lease.grants] == ["right", "left"]
    me.release(lease.id)


def test_a_full_line_is_an_answer_at_once(daemon: Daemon, me: Client) -> None:
    """And whoever stands in it stays there."""
    held = me.acquire("short").id
    waiting = me.wait_in_line(ask("short"))
    with pytest.raises(Exception, match="its line is full") as denied:
        me.acquire("short")

    assert Refusal(denied.value).reason == "LINE_FULL"
    assert me.counts("short") == (1, 1)
    me.release(held)
    me.release(waiting.lease().id)


def test_a_pool_lends_members_and_keeps_broken_ones_out(daemon: Daemon, me: Client) -> None:
    """The grant names the member; one that came back broken is not lent again so soon."""
    first, second = me.acquire("db"), me.acquire("db")
    assert [lease.grants[0].members[0].id for lease in (first, second)] == ["a", "b"]
    assert dict(first.grants[0].members[0].attributes) == {"endpoint": "a:1"}
    waiting = me.wait_in_line(ask("db"))

    me.release(first.id, outcome=pb.OUTCOME_BROKEN)
    assert not waiting.done()
    me.release(second.id, outcome=pb.OUTCOME_OK)

    lease = waiting.lease()
    assert lease.grants[0].members[0].id == "b"
    assert daemon.metric("governor_pool_members", resource="db", state="quarantined") == 1
    me.release(lease.id)


def test_a_rate_limit_makes_its_line_wait_and_lends_nothing(daemon: Daemon, me: Client) -> None:
    """Permits come one by one, in order; there is nothing to give back, and an end to what is worth waiting for."""
    leases = [me.acquire("api") for _ in range(5)]

    assert not any(lease.HasField("remaining") for lease in leases)
    assert sum(lease.waited.ToNanoseconds() > 0 for lease in leases) > 0
    me.acquire("slow")
    with pytest.raises(Exception, match="only after this ask's wait would be over") as hopeless:
        me.acquire("slow")
    refusal = Refusal(hopeless.value)
    assert refusal.reason == "HOPELESS"
    assert refusal.retry is not None
    assert 30 < refusal.retry <= 3600


def test_the_metrics_show_who_waits(daemon: Daemon, me: Client) -> None:
    """And for how long, while it lasts."""
    held = me.acquire("fair").id
    waiting = me.wait_in_line(ask("fair"))
    until(lambda: daemon.metric("governor_oldest_waiter_seconds", resource="fair") > 0, "somebody has waited")

    assert daemon.metric("governor_waiters", resource="fair") == 1
    assert daemon.metric("governor_permits_in_use", resource="fair") == 1
    assert me.resource("fair").oldest_wait.ToNanoseconds() > 0
    me.release(held)
    me.release(waiting.lease().id)
    assert daemon.metric("governor_waiters", resource="fair") == 0
    assert not me.resource("fair").HasField("oldest_wait")
