"""How long an ask may have no answer: the daemon is blamed for the time that it had, and for no other."""

from collections.abc import Callable

import pytest

from governor.client.asks import PATIENCE, Ask
from governor.client.contact import WINDOW
from governor.client.errors import NotGranted, Unavailable
from governor.client.held import Held
from governor.v1 import governor_pb2 as pb
from tests.client.scene import Scene, granted, handled, queued

CROWD = 30_000
# Of the daemon for one message. A thousand asks are one.
TAKES = 0.8 / WINDOW


def _keep_up(scene: Scene, asks: list[Ask], seconds: float, answer: Callable[[Ask], pb.SessionResponse]) -> None:
    """So long the daemon does what it is sent, one message after the other."""
    by_op = {ask.op: ask for ask in asks}
    sent = [[by_op[each.op] for each in message.acquires] for message in scene.said()]
    for _ in range(round(seconds / TAKES)):
        scene.run(TAKES)
        if sent:
            answers = [answer(ask) for ask in sent.pop(0) if not ask.given_up]
            scene.hear(*answers, handled(scene.talk._contact.done + 1))
        sent += [[by_op[each.op] for each in message.acquires] for message in scene.said()]


@pytest.mark.parametrize("wait", [0, None])
def test_what_lies_here_is_not_the_daemons_silence(wait: float | None) -> None:
    """More asks at once than it can be sent within their patience, and it keeps up with what it is sent."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask(wait=wait) for _ in range(CROWD)]
    _keep_up(scene, asks, 20, lambda ask: granted(ask, ask.op))

    answers = scene.answers()
    assert len(answers) == CROWD
    assert {type(answer) for answer in answers.values()} == {Held}
    assert asks[-1].sent_at - asks[-1].asked_at > PATIENCE


@pytest.mark.parametrize(("wait", "patience"), [(0, 1), (None, 5)])
def test_a_daemon_that_stops_keeping_up_is_blamed(wait: float | None, patience: float) -> None:
    """By those that it was sent and by those that it was not, so long after it last did something."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask(wait=wait) for _ in range(CROWD)]
    _keep_up(scene, asks, 2, lambda ask: granted(ask, ask.op))
    answered = scene.answers()
    scene.run(patience - 0.5)
    assert not scene.answers()
    scene.run(0.5)

    silent = scene.answers()
    assert len(answered) + len(silent) == CROWD
    assert any(ask.message for ask in silent)
    assert {str(answer) for answer in silent.values()} == {"db1:7411: the daemon does not answer"}
    assert {type(answer) for answer in silent.values()} == {Unavailable}


def test_its_own_wait_bounds_what_lies_here() -> None:
    """And it is told what is true: that it was not even sent."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask("orders-db", wait=2) for _ in range(CROWD)]
    _keep_up(scene, asks, 1.6, queued)
    assert not scene.answers()
    _keep_up(scene, asks, 0.4, queued)

    answers = scene.answers()
    assert set(answers) == {ask for ask in asks if not ask.message}
    for answer in answers.values():
        assert isinstance(answer, NotGranted)
        assert (answer.reason, answer.resource, answer.never) == ("wait_over", "orders-db", False)
        assert "orders-db: the wait was over before this ask could be sent" in str(answer)


def test_one_that_was_sent_late_has_the_time_of_an_answer() -> None:
    """It lay here for most of its wait; the daemon has had a tenth of a second."""
    scene = Scene()
    scene.greeted()
    before = [scene.ask(wait=30) for _ in range(4)]
    for _ in range(WINDOW):
        before.append(scene.ask(wait=30))
        scene.said()
    late = scene.ask(wait=1)
    scene.run(0.9)
    assert not late.message
    scene.hear(*[queued(ask) for ask in before], handled(scene.talk._contact.said))
    scene.said()
    scene.run(0.9)

    assert not scene.answers()
    scene.run(0.1)
    assert isinstance(scene.answer(late), Unavailable)


@pytest.mark.parametrize("wait", [0, 1, None])
def test_one_that_came_late_to_us_is_tried(wait: float | None) -> None:
    """The program asked for so much in one turn of its event loop that the first was old when the turn was over."""
    scene = Scene()
    ask = scene.unasked(wait=wait)
    scene.wait(7)
    scene.talk.ask(ask, scene.now)
    scene.run(0.5)
    assert not scene.answers()
    scene.run(5)

    assert isinstance(scene.answer(ask), Unavailable)
