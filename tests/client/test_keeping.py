"""Leases in a client's hands: until when they are relied on, how they are kept, given back, let go and lost."""

from itertools import pairwise

import pytest

from governor.client.asks import SECOND
from governor.client.contact import WINDOW
from governor.client.held import Held, State
from governor.v1 import governor_pb2 as pb
from tests.client.scene import (
    Scene,
    ended,
    granted,
    handled,
    kept_alive,
    queued,
    released,
    renewed,
    welcome,
)


def remaining(scene: Scene, held: Held) -> float:
    """Seconds for which it is safe to rely on it."""
    return (held.until - scene.now) / SECOND


def keep_alives(scene: Scene, seconds: float) -> list[float]:
    """When keep-alives are said, each being answered at once, in seconds from now."""
    start, said = scene.now, []
    end = start + round(seconds * SECOND)
    while scene.now < end:
        if any(message.keep_alive for message in scene.said()):
            said.append((scene.now - start) / SECOND)
            scene.hear(kept_alive(), handled(scene.talk._contact.said))
        probe, _ = scene.tick()
        if probe:
            scene.pong(scene.now)
        at = scene.talk.next_deadline()
        scene.now = end if at is None else min(end, max(at, scene.now + 1))
    return said


# --- until when ---------------------------------------------------------------------------------------------------


def test_a_lease_is_relied_on_from_when_it_was_asked_for() -> None:
    """Its time may have begun then. The margin is a tenth of it, at most a second."""
    for length, safe in ((30.0, 29.0), (5.0, 4.5), (0.5, 0.45)):
        scene = Scene()
        scene.greeted()
        ask = scene.ask()
        scene.said()
        scene.wait(0.1)
        scene.hear(granted(ask, 1, length))
        held = scene.answer(ask)

        assert isinstance(held, Held)
        assert remaining(scene, held) == pytest.approx(safe - 0.1)


def test_a_grant_that_waited_is_relied_on_from_when_it_was_made() -> None:
    """That was its wait after it came into line, which was after it was sent; its answer may have been delayed."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    scene.hear(queued(ask), handled(2))
    scene.run(7)
    scene.hear(granted(ask, 1, 10, waited=4))
    held = scene.answer(ask)

    assert isinstance(held, Held)
    assert remaining(scene, held) == pytest.approx(9 - 3)
    assert not any(message.keep_alive for message in scene.said())


def test_a_grant_to_an_ask_that_was_repeated_is_made_firm_at_once() -> None:
    """Nobody knows since when it waited: a keep-alive is said with the next message."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    scene.run(3)
    scene.break_off()
    scene.greeted()
    scene.run(2)
    scene.hear(granted(ask, 1, 10, waited=2))
    held = scene.answer(ask)
    assert isinstance(held, Held)
    (message,) = scene.said()

    assert message.keep_alive
    assert remaining(scene, held) == pytest.approx(9)
    scene.wait(0.5)
    scene.hear(kept_alive(), handled(scene.talk._contact.said))
    assert remaining(scene, held) == pytest.approx(8.5)


def test_a_keep_alive_counts_from_when_it_was_sent() -> None:
    """However late its answer comes, and answers come in order."""
    scene = Scene()
    scene.greeted()
    held = scene.held(length=3)
    (first,) = scene.run(1)
    assert first.keep_alive
    (second,) = scene.run(1)
    assert second.keep_alive
    scene.wait(0.5)
    scene.hear(kept_alive(), handled(scene.talk._contact.said - 1))

    assert remaining(scene, held) == pytest.approx(2.7 - 1.5)
    scene.hear(kept_alive(), handled(scene.talk._contact.said))
    assert remaining(scene, held) == pytest.approx(2.7 - 0.5)


def test_keep_alives_that_are_done_together_all_count() -> None:
    """The daemon says so once. If one were left over, each answer from then on would count for the one before it."""
    scene = Scene()
    scene.greeted()
    held = scene.held(length=3)
    said = scene.run(2)
    assert [message.keep_alive for message in said] == [True, True]
    scene.hear(kept_alive(), handled(scene.talk._contact.said))
    assert remaining(scene, held) == pytest.approx(2.7)

    (third,) = scene.run(1)
    assert third.keep_alive
    scene.wait(0.5)
    scene.hear(kept_alive(), handled(scene.talk._contact.said))
    assert remaining(scene, held) == pytest.approx(2.7 - 0.5)


def test_a_lease_may_have_another_length_from_a_renewal_on() -> None:
    """The operator shortened it: it is relied on for that long only, and kept alive as often as that needs."""
    scene = Scene()
    scene.greeted()
    held = scene.held(length=30)
    scene.run(9.5)
    assert any(message.keep_alive for message in scene.run(0.6))
    scene.hear(renewed(1, 3), kept_alive(), handled(scene.talk._contact.said))

    assert held.length == 3 * SECOND
    assert remaining(scene, held) <= 2.7
    assert len(keep_alives(scene, 9)) >= 8


def test_a_lease_that_became_short_is_lost_in_time() -> None:
    """Also if the daemon says later that the message is done which renewed it, or never."""
    scene = Scene()
    scene.greeted()
    held = scene.held(length=30)
    scene.run(10.05)
    scene.hear(renewed(1, 0.5))
    scene.run(0.39, alive=False)
    assert scene.lost == []

    scene.run(0.02, alive=False)
    assert scene.lost == [held]


def test_a_length_told_with_the_welcome_counts_from_the_hello() -> None:
    """It renewed what it claims."""
    scene = Scene()
    scene.greeted()
    held = scene.held(length=30)
    scene.break_off()
    scene.connect()
    scene.said()
    scene.wait(0.5)
    scene.hear(welcome(resumed=True), renewed(1, 10), handled(1))

    assert remaining(scene, held) == pytest.approx(8.5)


# --- keeping alive ------------------------------------------------------------------------------------------------


def test_who_holds_nothing_says_nothing() -> None:
    """Also after having held something."""
    scene = Scene()
    scene.greeted()
    held = scene.held()
    scene.release(held)
    (message,) = scene.said()
    scene.hear(released(1), handled(scene.talk._contact.said))

    assert list(message.releases) == [1]
    assert keep_alives(scene, 120) == []


@pytest.mark.parametrize(("length", "every"), [(0.9, 0.3), (6, 2), (30, 10), (3600, 10)])
def test_leases_are_kept_alive_every_third_of_the_shortest(length: float, every: float) -> None:
    """Or as often as the daemon suggests, if that is more often."""
    scene = Scene()
    scene.greeted(keep_alive=10)
    scene.held(length=length)
    said = keep_alives(scene, 10 * every + every / 2)

    assert said == pytest.approx([every * number for number in range(1, 11)], rel=0.01)
    assert scene.lost == []


def test_the_daemon_may_want_to_hear_more_often() -> None:
    """Its suggestion comes with the welcome."""
    scene = Scene()
    scene.greeted(keep_alive=1)
    scene.held(length=30)

    assert len(keep_alives(scene, 10.5)) == 10


def test_the_shortest_lease_sets_the_pace_as_long_as_it_is_held() -> None:
    """One keep-alive is for all."""
    scene = Scene()
    scene.greeted()
    scene.held(1, length=30)
    short = scene.held(2, length=3)
    assert len(keep_alives(scene, 9.5)) == 9

    scene.release(short)
    scene.said()
    scene.hear(released(2), handled(scene.talk._contact.said))
    assert len(keep_alives(scene, 3)) <= 3
    assert len(keep_alives(scene, 30)) == 3
    assert scene.lost == []


def test_the_shortest_of_leases_is_kept_without_a_flood() -> None:
    """However short it is: at most twenty times a second."""
    scene = Scene()
    scene.greeted()
    scene.held(length=0.06)

    assert len(keep_alives(scene, 1)) <= 20


def test_a_keep_alive_that_finds_no_room_is_said_when_there_is() -> None:
    """And does not keep the thread busy meanwhile."""
    scene = Scene()
    scene.greeted()
    scene.held(length=6)
    for _ in range(WINDOW):
        scene.ask(wait=30)
        scene.said()
    assert scene.run(2.5) == []

    scene.hear(handled(scene.talk._contact.said - WINDOW + 1))
    (message,) = scene.said()
    assert message.keep_alive


def test_more_leases_than_can_be_claimed_are_not_believed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon takes back what is not claimed, without a word."""
    monkeypatch.setattr("governor.client.keeping._MOST_CLAIMED", 2)
    scene = Scene()
    scene.greeted()
    held = [scene.held(number) for number in (1, 2, 3)]
    scene.break_off()
    scene.connect()
    (first,) = scene.said()
    scene.hear(welcome(resumed=True), handled(1))
    assert list(first.hello.held) == [1, 2]

    assert scene.lost == held[2:]
    assert held[2].reason == "unclaimed"


# --- giving back --------------------------------------------------------------------------------------------------


def test_a_release_goes_with_what_is_known_of_the_member() -> None:
    """And without, if nothing is."""
    scene = Scene()
    scene.greeted()
    held = [scene.held(number) for number in (1, 2, 3)]
    held[1].outcome = pb.OUTCOME_BROKEN
    held[2].outcome = pb.OUTCOME_OK
    for each in held:
        scene.release(each)
    (message,) = scene.said()

    assert list(message.releases) == [1]
    assert [(each.lease_id, each.outcome) for each in message.outcomes] == [
        (2, pb.OUTCOME_BROKEN),
        (3, pb.OUTCOME_OK),
    ]


def test_a_release_is_said_until_the_daemon_has_it() -> None:
    """After each break again: claimed, so that it is not taken for somebody else's, and given back at once."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    held.outcome = pb.OUTCOME_BROKEN
    scene.release(held)
    scene.said()
    for _ in range(3):
        scene.break_off()
        assert scene.busy()
        (first,) = scene.greeted()
        assert list(first.hello.held) == [5]
        assert [each.lease_id for each in first.outcomes] == [5]
    scene.hear(released(5))

    assert not scene.busy()
    scene.break_off()
    (first,) = scene.greeted()
    assert list(first.hello.held) == []


@pytest.mark.parametrize("reason", ["", "expired", "released"])
def test_a_release_is_over_when_the_daemon_knows_no_such_lease(reason: str) -> None:
    """It had ended before: that is no loss, since it was given back."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    scene.release(held)
    scene.said()
    scene.hear(ended(5, reason), handled(scene.talk._contact.said))

    assert not scene.busy()
    assert scene.lost == []
    assert held.state is State.RELEASED


def test_a_release_is_given_up_when_its_lease_has_surely_ended() -> None:
    """A daemon that is away that long has it back; nothing is left to come back for."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5, length=10)
    scene.release(held)
    scene.said()
    scene.break_off()
    scene.run(10)
    assert scene.busy()

    scene.run(5)
    assert not scene.busy()
    assert scene.next() is None


def test_a_release_is_safe_in_any_state() -> None:
    """Twice, after a loss, after it was let go, and of what was never lent."""
    scene = Scene()
    scene.greeted()
    held = [scene.held(number) for number in (1, 2, 3)]
    spent = scene.held(4, length=None)
    scene.release(held[0])
    scene.hear(ended(2, "revoked"))
    scene.talk.keeping.detach(held[2])
    for each in [*held, spent]:
        scene.release(each)
    (message,) = scene.said()

    assert list(message.releases) == [1]
    assert list(message.detaches) == [3]
    assert [each.state for each in held] == [State.RELEASED, State.LOST, State.DETACHED]


def test_nobody_is_told_of_the_loss_of_what_was_given_back() -> None:
    """The program has given it back, but its thread does not know yet; then the daemon says that it ended."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    held.state = State.RELEASED
    scene.hear(ended(5, "expired"))

    assert scene.lost == []
    assert held.state is State.RELEASED


# --- letting go ---------------------------------------------------------------------------------------------------


def test_a_lease_that_is_let_go_is_kept_alive_no_longer() -> None:
    """The daemon is told; it lives on until its deadline."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    scene.talk.keeping.detach(held)
    (message,) = scene.said()
    scene.hear(handled(scene.talk._contact.said))

    assert (list(message.detaches), held.state) == ([5], State.DETACHED)
    assert not scene.busy()
    assert keep_alives(scene, 60) == []
    assert scene.lost == []


def test_letting_go_outlives_a_break() -> None:
    """The daemon may not have read it. What is not claimed would be taken back with the session that comes back."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    scene.talk.keeping.detach(held)
    scene.said()
    for _ in range(2):
        scene.break_off()
        assert scene.busy()
        scene.connect()
        (first,) = scene.said()
        assert (list(first.hello.held), list(first.detaches)) == ([5], [5])
    scene.hear(welcome(resumed=True), handled(1))
    scene.break_off()

    assert not scene.busy()
    (first,) = scene.greeted()
    assert (list(first.hello.held), list(first.detaches)) == ([], [])


def test_letting_go_is_over_when_the_daemon_has_read_it() -> None:
    """Not when it has read what was said before."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    scene.ask(wait=30)
    scene.said()
    scene.talk.keeping.detach(held)
    (message,) = scene.said()
    assert list(message.detaches) == [5]
    scene.hear(handled(scene.talk._contact.said - 1))
    assert scene.talk.keeping.busy

    scene.hear(handled(scene.talk._contact.said))
    assert not scene.talk.keeping.busy


def test_a_lease_may_be_adopted_from_oneself() -> None:
    """The new one is held; the old one is nobody's, and to give it back does nothing."""
    scene = Scene()
    scene.greeted()
    old = scene.held(5)
    ask = scene.adopt(5)
    scene.said()
    scene.hear(granted(ask, 5), handled(scene.talk._contact.said))
    new = scene.answer(ask)
    assert isinstance(new, Held)
    scene.release(old)

    assert scene.said() == []
    assert (old.state, new.state) == (State.DETACHED, State.HELD)
    scene.hear(ended(5, "revoked"))
    assert scene.lost == [new]


# --- losses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["expired", "revoked", "disconnected", "released"])
def test_a_lease_that_ended_is_lost(reason: str) -> None:
    """The daemon says why."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    scene.hear(ended(5, reason))

    assert scene.lost == [held]
    assert (held.state, held.reason) == (State.LOST, reason)
    assert scene.said() == []


def test_a_lease_that_the_daemon_does_not_know_is_lost() -> None:
    """It was restarted, and nothing of it is left."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    scene.break_off()
    scene.connect()
    scene.said()
    scene.hear(welcome(session="s2"), ended(5), handled(1))

    assert scene.lost == [held]
    assert held.reason == "unknown"
    for said in ("its state was lost", "another state folder", "adopted", "acquire again"):
        assert said in held.why


def test_a_lease_is_lost_at_our_own_deadline() -> None:
    """The daemon gives signs of life, but does not renew it: it may lend it again soon."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5, length=10)
    scene.run(8.9)
    assert scene.lost == []

    scene.run(0.2)
    assert scene.lost == [held]
    assert held.reason == "unreachable"


def test_a_lease_that_was_lost_here_is_given_back() -> None:
    """The daemon may have been slow and not gone: the keep-alives for others would keep it for ever."""
    scene = Scene()
    scene.greeted()
    lost = scene.held(5, length=3)
    other = scene.held(6, length=30)
    said = scene.run(2.8)
    assert scene.lost == [lost]

    scene.hear(handled(scene.talk._contact.said))
    said += scene.run(1)
    assert [lease for message in said for lease in message.releases] == [5]
    assert other.state is State.HELD


def test_silence_on_a_connection_costs_a_lease_when_the_daemon_may_have_noticed() -> None:
    """It ends our session after four seconds without an answer, and the lease lives on for two."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    held = scene.held(length=60)
    scene.run(5.7, alive=False)
    assert scene.lost == []

    scene.run(0.2, alive=False)
    assert scene.lost == [held]


@pytest.mark.parametrize(("grace", "seconds"), [(2.0, 1.8), (0.5, 0.45), (10.0, 9.0)])
def test_a_break_costs_a_lease_when_its_grace_is_nearly_over(grace: float, seconds: float) -> None:
    """Counted from when the daemon was last heard of: it may have noticed the break since then."""
    scene = Scene()
    scene.greeted(on_disconnect=grace)
    held = scene.held(length=60)
    scene.break_off()
    scene.run(seconds - 0.01)
    assert scene.lost == []

    scene.run(0.02)
    assert scene.lost == [held]


def test_attempts_to_come_back_are_no_signs_of_life() -> None:
    """A connection that was begun says nothing of what the daemon has done meanwhile."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    held = scene.held(length=60)
    scene.break_off()
    for _ in range(4):
        scene.connect()
        scene.talk.heard(scene.now)  # it answers, but has not read a word yet
        scene.run(0.44)
        scene.break_off()
    assert scene.lost == []

    scene.connect()
    scene.run(0.1)
    assert scene.lost == [held]


def test_a_break_costs_nothing_to_who_is_back_in_time() -> None:
    """The hello claims what is held and renews it."""
    scene = Scene()
    scene.greeted()
    held = [scene.held(number, length=10) for number in (1, 2)]
    scene.run(1.1)
    scene.break_off()
    scene.run(1)
    scene.connect()
    (first,) = scene.said()
    assert (first.hello.resume, list(first.hello.held)) == ("s1", [1, 2])

    scene.hear(welcome(resumed=True), handled(1))
    assert scene.lost == []
    assert [remaining(scene, each) for each in held] == [pytest.approx(9)] * 2


def test_a_quiet_session_is_heard_of_often_enough_to_survive_a_break() -> None:
    """Whenever it breaks, there is time left to come back."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    scene.held(length=3600)
    scene.run(0.99)
    scene.break_off()
    scene.run(0.7)

    assert scene.lost == []


def test_what_came_while_we_were_stopped_revives_nothing() -> None:
    """A ping may lie there since before the daemon took us for gone, and lent our lease to somebody else."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    gone = scene.held(1, length=60)
    kept = scene.held(2, length=60, keeps=True)
    scene.wait(20)
    scene.talk.heard(scene.now)
    scene.tick()

    assert scene.lost == [gone]
    assert kept.state is State.HELD


@pytest.mark.parametrize("greeted", [True, False])
def test_a_grant_that_came_while_we_were_stopped_is_given_back(greeted: bool) -> None:  # noqa: FBT001
    """However long its time: the daemon may have taken us for gone since, and we have yet to hear of it."""
    scene = Scene()
    if greeted:
        scene.greeted(on_disconnect=2)
    else:
        scene.connect()
    ask = scene.ask(wait=30)
    scene.said()
    scene.wait(7)
    first = [] if greeted else [welcome(on_disconnect=2)]
    scene.hear(*first, granted(ask, 1, 60, waited=1), handled(scene.talk._contact.said))
    held = scene.answer(ask)

    assert isinstance(held, Held)
    assert (held.state, scene.lost) == (State.LOST, [held])
    (said,) = scene.said()
    assert list(said.releases) == [1]


def test_a_grant_that_was_long_in_coming_is_ours() -> None:
    """If the daemon was heard of meanwhile, or whoever grants it lets it live without us."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    ask = scene.ask(wait=30)
    scene.said()
    scene.run(7)
    scene.hear(granted(ask, 1, 60, waited=7), handled(2))
    held = scene.answer(ask)
    assert isinstance(held, Held)
    assert held.state is State.HELD

    ask = scene.ask("kept", wait=30)
    scene.said()
    scene.wait(7)
    scene.hear(granted(ask, 2, 60, waited=7, keeps=True), handled(3))
    held = scene.answer(ask)
    assert isinstance(held, Held)
    assert held.state is State.HELD


@pytest.mark.parametrize("broken", [True, False], ids=["and the connection broke", "and nothing else happened"])
def test_what_lay_unread_is_as_old_as_what_it_answers(broken: bool) -> None:  # noqa: FBT001
    """The daemon knew us when it was sent, and nobody knows whether it has since: we may have been stopped, or late."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    ask = scene.ask(wait=60)
    scene.said()
    scene.hear(queued(ask), handled(2))
    gone = scene.held(1, length=60)
    scene.run(0.5)
    scene.ask()
    assert scene.said()
    number = scene.talk._contact.said
    scene.wait(5)
    scene.hear(granted(ask, 2, 60, waited=0.5), handled(number))
    late = scene.answer(ask)
    assert isinstance(late, Held)
    if broken:
        scene.break_off()
    scene.tick()
    assert scene.lost == ([gone, late] if broken else [])

    # Sent 0.5 s after the lease was asked for, so 4 s of patience and 1.8 s of grace began then.
    scene.run(0.79, alive=False)
    assert scene.lost == ([gone, late] if broken else [])
    scene.run(0.02, alive=False)
    assert scene.lost == [gone, late]


def test_who_was_late_asks_for_a_sign_of_life_at_once() -> None:
    """What it read says too little; the answer is there long before anything is lost."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    scene.held(1, length=60)
    pinged = scene.now
    scene.wait(5)
    scene.pong(pinged)
    assert scene.tick() == (True, False)
    scene.pong(scene.now)
    assert scene.tick() == (False, False)
    scene.run(30)

    assert scene.lost == []


def test_signs_of_life_are_asked_for_a_second_apart_at_least() -> None:
    """However late and in whatever order answers come: a daemon does not put up with more."""
    scene = Scene()
    scene.greeted()
    held = scene.held(1, length=60)
    pinged: list[int] = []
    for _ in range(20):
        scene.wait(0.9)
        scene.ask()
        (*_, number) = [scene.talk._contact.said for _ in scene.said()]
        for _ in range(20):
            scene.wait(0.05)
            if scene.tick()[0]:
                pinged.append(scene.now)
        scene.hear(handled(number))
        if scene.tick()[0]:
            pinged.append(scene.now)
        if pinged:
            scene.pong(pinged[-1])

    assert len(pinged) > 10
    assert all(after - before >= SECOND for before, after in pairwise(pinged))
    assert held.state is State.HELD


def test_what_the_daemon_says_by_itself_does_not_say_that_it_hears_us() -> None:
    """Whoever hears but is not heard is taken for gone as well: he asks, and without an answer he is."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    ask = scene.ask(wait=60)
    held = scene.held(1, length=60)
    scene.answers()
    for _ in range(5):
        scene.run(1, alive=False)
        scene.hear(queued(ask))
    assert scene.lost == []
    scene.run(0.79, alive=False)
    assert scene.lost == []

    scene.run(0.02, alive=False)
    assert scene.lost == [held]


def test_a_grant_says_that_its_ask_was_read() -> None:
    """Which it may say before it says how many messages are done; nothing else was heard for long."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    scene.wait(60)
    ask = scene.ask()
    scene.said()
    scene.hear(granted(ask, 1, 30))
    scene.tick()

    assert scene.lost == []
    assert isinstance(held := scene.answer(ask), Held)
    assert scene.talk.ours_until(held) == scene.now + round(5.8 * SECOND)


def test_whoever_looks_at_the_clock_is_told_what_will_be_lost_then() -> None:
    """Whatever becomes of the connection: it is the instant at which the lease is lost if nothing is heard."""
    for lease in (
        {"length": 60.0},
        {"length": 3.0},
        {"length": 60.0, "keeps": True},
        {"length": 60.0, "on_disconnect": 0.5},
    ):
        for broken in (False, True):
            scene = Scene()
            scene.greeted(on_disconnect=2)
            scene.run(10)
            held = scene.held(1, **lease)  # type: ignore[arg-type]
            scene.run(0.4)
            if broken:
                scene.break_off()
            until = scene.talk.ours_until(held)
            scene.now = until - 1
            scene.tick()
            assert (held.state, scene.talk.keeping.look_at <= until) == (State.HELD, True), (lease, broken)

            scene.now = until
            assert scene.talk.keeping.look_at <= scene.now
            scene.tick()
            assert scene.lost == [held], (lease, broken)


def test_who_was_told_that_it_is_lost_is_believed() -> None:
    """By the clock, an instant before an answer that would have saved it: it is told as lost, and goes back."""
    scene = Scene()
    scene.greeted()
    held = scene.held(1, length=3)
    (message,) = scene.run(1)
    assert message.keep_alive
    held.lose("unreachable")
    scene.hear(kept_alive(), handled(scene.talk._contact.said))
    scene.tick()

    assert scene.lost == [held]
    (message,) = scene.said()
    assert list(message.releases) == [1]


def test_who_was_told_that_it_is_lost_is_so_when_all_is_given_back() -> None:
    """A program that ends just then has lost it all the same."""
    scene = Scene()
    scene.greeted()
    held = scene.held(1)
    held.lose("unreachable")
    scene.talk.give_all_back()

    assert held.state is State.LOST
    (message,) = scene.said()
    assert list(message.releases) == [1]


def test_whoever_does_not_greet_us_keeps_no_lease() -> None:
    """It may send us away again and again: each time it is heard of, and knows nothing of what we hold."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    gone = scene.held(1, length=60)
    for _ in range(3):
        scene.break_off()
        scene.wait(1)
        scene.connect()
        scene.said()
        scene.talk.heard(scene.now)
        scene.tick()

    assert scene.lost == [gone]


def test_a_lease_that_ends_with_the_stream_is_lost_with_it() -> None:
    """Its resource says so: nobody could come back for it."""
    scene = Scene()
    scene.greeted(on_disconnect=2)
    quick = scene.held(1, length=60, on_disconnect=0)
    slow = scene.held(2, length=60)
    scene.break_off()
    scene.tick()

    assert scene.lost == [quick]
    assert slow.state is State.HELD


def test_a_lease_that_is_kept_is_relied_on_to_its_deadline() -> None:
    """Whatever becomes of the stream: by its grant, or by the terms of the daemon."""
    scene = Scene()
    scene.greeted(on_disconnect=None)
    by_terms = scene.held(1, length=10)
    by_grant = scene.held(2, length=20, keeps=True)
    scene.break_off()
    scene.run(8.9)
    assert scene.lost == []

    scene.run(0.2)
    assert scene.lost == [by_terms]
    scene.run(9.8)
    assert scene.lost == [by_terms]
    scene.run(0.2)
    assert scene.lost == [by_terms, by_grant]


def test_the_terms_of_a_welcome_hold_for_what_is_granted_with_it() -> None:
    """The first message of the daemon may bring both."""
    scene = Scene()
    ask = scene.ask()
    scene.connect()
    scene.said()
    scene.hear(granted(ask, 1, 60), welcome(on_disconnect=0), handled(1))
    held = scene.answer(ask)
    assert isinstance(held, Held)
    scene.break_off()
    scene.tick()

    assert scene.lost == [held]


def test_a_loss_is_told_once() -> None:
    """Whatever is said of it afterwards."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5, length=5)
    scene.hear(ended(5, "revoked"))
    scene.hear(ended(5, "expired"))
    scene.run(20)

    assert scene.lost == [held]
    assert held.reason == "revoked"


def test_a_grant_that_comes_after_its_time_is_lost_at_once() -> None:
    """Its answer was on the way for longer than the lease: whoever asked has it, and hears that it is over."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    scene.hear(queued(ask), handled(2))
    scene.wait(4)
    scene.hear(granted(ask, 1, 1, waited=2))
    held = scene.answer(ask)
    assert isinstance(held, Held)
    scene.tick()

    assert scene.lost == [held]


# --- watching -----------------------------------------------------------------------------------------------------


def test_who_watches_is_told_once_also_when_it_is_late() -> None:
    """The lease may have been lost before its holder came to watch it."""
    scene = Scene()
    scene.greeted()
    early, late, never = (scene.held(number) for number in (1, 2, 3))
    told: list[str] = []
    early.watch(lambda: told.append("early"))
    never.watch(lambda: told.append("never"))
    scene.hear(ended(1), ended(2))
    for held in scene.lost:
        held.tell_loss()
    late.watch(lambda: told.append("late"))
    late.tell_loss()

    assert told == ["early", "late"]


# --- forks --------------------------------------------------------------------------------------------------------


def test_a_forked_child_has_nothing_of_its_parent() -> None:
    """What was held, or on its way back, is the parent's business."""
    scene = Scene()
    scene.greeted()
    held = [scene.held(number) for number in (1, 2, 3)]
    scene.release(held[1])
    scene.said()
    scene.release(held[2])
    scene.talk.keeping.disown()

    assert [each.state for each in held] == [State.DETACHED] * 3
