"""Asks and grants that are told together: what is said of them, and what is heard."""

from itertools import groupby

import pytest
from google.protobuf.message import DecodeError

from governor.client.asks import Ask
from governor.client.errors import NotGranted
from governor.client.grants import MAX_KNOWN, Grants, Terms
from governor.client.held import Held
from governor.v1 import governor_pb2 as pb
from tests.client.scene import Scene, granted_alike, handled, refused, welcome


def _runs(message: pb.SessionRequest) -> list[tuple[str, list[int]]]:
    """What is asked for, and under which ops, in the order in which it is told."""
    runs = [(each.claims[0].resource, each.op) for each in message.acquires]
    alone = [(resource, [op for _, op in run]) for resource, run in groupby(runs, key=lambda each: each[0])]
    assert not [alike.ask.op for alike in message.alike if alike.ask.op]
    return alone + [(alike.ask.claims[0].resource, list(alike.ops)) for alike in message.alike]


def _ops(*asks: Ask) -> list[int]:
    return [ask.op for ask in asks]


def test_asks_in_a_row_that_are_alike_are_told_together() -> None:
    """In the order in which they were asked."""
    scene = Scene()
    scene.greeted(alike=True)
    a = [scene.ask("a", wait=5) for _ in range(3)]
    b = [scene.ask("b") for _ in range(2)]
    again = [scene.ask("a", wait=5) for _ in range(2)]
    longer = [scene.ask("a", wait=6)]
    (message,) = scene.said()

    assert not message.acquires
    assert _runs(message) == [("a", _ops(*a)), ("b", _ops(*b)), ("a", _ops(*again)), ("a", _ops(*longer))]
    assert [alike.ask.wait.seconds for alike in message.alike] == [5, 0, 5, 6]
    assert [alike.ask.HasField("wait") for alike in message.alike] == [True, False, True, True]


def test_asks_of_which_hardly_any_are_alike_are_told_one_by_one() -> None:
    """Else each would take more than it saves. All of a message are told in one way, so that their order stays."""
    scene = Scene()
    scene.greeted(alike=True)
    asks = [scene.ask(resource) for resource in ("a", "b", "b", "c")]
    (message,) = scene.said()

    assert not message.alike
    assert [(acquire.op, acquire.claims[0].resource) for acquire in message.acquires] == [
        (ask.op, ask.shape.claims[0][0]) for ask in asks
    ]


def test_a_daemon_that_has_not_said_that_it_reads_them_is_told_one_by_one() -> None:
    """One of before, and each daemon in the first message."""
    scene = Scene()
    first = [scene.ask() for _ in range(3)]
    (hello,) = scene.greeted(alike=True)
    assert [acquire.op for acquire in hello.acquires] == _ops(*first)
    assert hello.hello.alike
    scene.break_off()
    scene.connect()
    (again,) = scene.said()
    assert [acquire.op for acquire in again.acquires] == _ops(*first)
    scene.hear(welcome("s2"), handled(1))
    more = [scene.ask() for _ in range(3)]
    (message,) = scene.said()

    assert not message.alike
    assert [acquire.op for acquire in message.acquires] == _ops(*more)


def test_what_was_given_up_or_adopts_is_not_among_them() -> None:
    """The rest is."""
    scene = Scene()
    scene.greeted(alike=True)
    first, second, third = (scene.ask() for _ in range(3))
    adoption = scene.adopt(7)
    fourth = scene.ask()
    scene.talk.cancel(second)
    (message,) = scene.said()

    assert _runs(message) == [("x", _ops(first, third, fourth))]
    assert [(adopt.op, adopt.lease_id) for adopt in message.adopts] == [(adoption.op, 7)]


def test_each_has_what_is_left_of_its_own_wait() -> None:
    """Those that waited here for as long are alike."""
    scene = Scene()
    early = [scene.ask(wait=30), scene.ask(wait=30)]
    scene.wait(2)
    late = [scene.ask(wait=30), scene.ask(wait=30)]
    scene.connect()
    scene.talk._reads_alike = True
    (message,) = scene.said()

    assert _runs(message) == [("x", _ops(*early)), ("x", _ops(*late))]
    assert [alike.ask.wait.seconds for alike in message.alike] == [28, 30]


def test_a_large_batch_is_cut_into_messages() -> None:
    """As when they are told one by one: what all of them may be answered is bounded."""
    scene = Scene()
    scene.greeted(alike=True)
    asks = [scene.ask("a-resource-with-a-rather-long-name" * 3) for _ in range(4_000)]
    ops: list[int] = []
    while len(ops) < len(asks):
        message = scene.said_once()
        assert message is not None
        ((_, told),) = _runs(message)
        assert len(told) <= 1_000
        ops += told
        scene.hear(handled(scene.talk._contact.said))

    assert ops == _ops(*asks)


def test_grants_that_are_told_together_are_as_told_one_by_one() -> None:
    """Each with its own id, until the same instant; who was given up or refused meanwhile is not there."""
    scene = Scene()
    scene.greeted(alike=True)
    asks = [scene.ask("a", 2) for _ in range(5)]
    scene.said()
    scene.talk.cancel(asks[1])
    scene.hear(refused(asks[2]))
    scene.hear(granted_alike([asks[0], asks[1], asks[3]], [11, 12, 13]))
    answers = scene.answers()

    assert set(answers) == {asks[0], asks[2], asks[3]}
    assert isinstance(answers[asks[2]], NotGranted)
    first, second = answers[asks[0]], answers[asks[3]]
    assert isinstance(first, Held)
    assert isinstance(second, Held)
    assert (first.id, second.id) == (11, 13)
    assert first.claims == second.claims == (("a", 2),)
    assert first.until == second.until > scene.now
    scene.release(first)
    assert scene.talk.keeping.busy
    assert list(scene.talk.keeping._held) == [13]


def test_grants_that_have_no_lease_each_are_no_message() -> None:
    """Nobody could tell which is whose."""
    scene = Scene()
    scene.greeted(alike=True)
    asks = [scene.ask() for _ in range(2)]
    scene.said()

    with pytest.raises(ValueError, match="SessionResponse"):
        scene.talk.hear(granted_alike(asks, [1]).SerializeToString(), scene.now)
    assert not scene.answers()


def test_what_is_said_of_several_leases_is_read_once() -> None:
    """And remembered as what is said of one: bounded, and nothing that a program might write to."""
    grants = Grants()
    lease = pb.Lease(grants=[pb.Grant(resource="db", permits=1)])
    lease.remaining.seconds = 2
    first = grants.read_alike(lease.SerializeToString())
    assert first == Terms((("db", 1),), (), 2_000_000_000, 0)
    assert grants.read_alike(lease.SerializeToString()) is first
    lease.id = 9
    assert grants.read(lease.SerializeToString()) == (9, first)
    lease.ClearField("id")
    lease.grants[0].members.add(id="m", attributes={"a": "b"})
    assert grants.read_alike(lease.SerializeToString()) is not grants.read_alike(lease.SerializeToString())
    for number in range(3 * MAX_KNOWN):
        grants.read_alike(pb.Lease(grants=[pb.Grant(resource=str(number))]).SerializeToString())
        assert len(grants) <= MAX_KNOWN
    with pytest.raises(DecodeError):
        grants.read_alike(b"\x0a")
