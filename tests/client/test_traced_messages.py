"""What an ask follows from is said on a session: to who traces, and where nobody can know yet whether he does."""

from governor.client.asks import Ask
from governor.v1 import governor_pb2 as pb
from tests.client.scene import Scene, granted, handled, welcome


def _parent(of: str) -> str:
    return f"00-{ord(of):032x}-{ord(of):016x}-01"


def _traced(scene: Scene, of: str) -> Ask:
    """An ask that follows from something."""
    ask = scene.unasked()
    ask.trace = (_parent(of), "")
    scene.talk.ask(ask, scene.now)
    return ask


def _said(message: pb.SessionRequest) -> dict[int, str]:
    """What each ask follows from."""
    return {op: trace.traceparent for trace in message.traces for op in trace.ops}


def test_the_first_message_says_what_its_asks_follow_from() -> None:
    """Before anybody can know whether it is read; later ones only where it is."""
    scene = Scene()
    first = _traced(scene, "a")
    (hello,) = scene.greeted(alike=True)
    assert _said(hello) == {first.op: _parent("a")}
    _traced(scene, "b")
    (later,) = scene.said()
    assert not later.traces


def test_a_daemon_that_traces_is_told_each() -> None:
    """Those that follow from the same, and are alike, together."""
    scene = Scene()
    scene.connect()
    scene.said()
    told = welcome(alike=True)
    told.welcome.traces = True
    scene.hear(told, handled(1))
    asks = [_traced(scene, "a"), _traced(scene, "a"), scene.ask(), _traced(scene, "b")]
    (message,) = scene.said()

    assert [list(alike.ops) for alike in message.alike] == [[ask.op for ask in asks]]
    assert len(message.traces) == 2
    assert _said(message) == {asks[0].op: _parent("a"), asks[1].op: _parent("a"), asks[3].op: _parent("b")}
    scene.hear(*[granted(ask, number) for number, ask in enumerate(asks, 1)])


def test_an_ask_that_is_repeated_says_it_again() -> None:
    """On the next connection, whose daemon may be another."""
    scene = Scene()
    scene.greeted()
    ask = _traced(scene, "a")
    scene.said()
    scene.break_off()
    (hello,) = scene.greeted()

    assert _said(hello) == {ask.op: _parent("a")}


def test_no_message_is_longer_than_it_may_be_for_it() -> None:
    """However many asks follow from however much."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask() for _ in range(2000)]
    for number, ask in enumerate(asks):
        ask.trace = (f"00-{number:032x}-{number + 1:016x}-01", "s" * 512)
    scene.break_off()
    scene.connect()
    message = scene.talk.next_message(scene.now)

    assert message is not None
    assert 64 * 1024 < len(message) < 256 * 1024
