"""What a client says, and what it makes of the answers; each test is a short scene with hand-moved time."""

import pytest

from governor.client.contact import WINDOW
from governor.client.errors import GovernorError, LeaseLost, NotGranted, Unavailable
from governor.client.held import Held, Member, State
from governor.v1 import governor_pb2 as pb
from tests.client.scene import (
    ADDRESS,
    INSTANCE,
    Scene,
    ended,
    granted,
    handled,
    queued,
    refused,
    released,
    welcome,
)

# --- the first message --------------------------------------------------------------------------------------------


def test_nothing_is_said_without_a_connection() -> None:
    """An ask waits for one, and nothing but its patience is due."""
    scene = Scene()
    scene.ask()

    assert scene.said() == []
    assert scene.busy()
    assert scene.next() == 5


def test_the_hello_comes_first_and_brings_the_ask_along() -> None:
    """One message says who is there and what is wanted, so the first acquire costs one round trip."""
    scene = Scene(labels={"team": "shop"})
    ask = scene.ask("orders-db", 2, wait=3, lease=10)
    scene.connect()
    first = scene.said_once()

    assert first is not None
    assert (first.hello.client, first.hello.pid, first.hello.host) == ("tests", 42, "here")
    assert (first.hello.instance, first.hello.resume, list(first.hello.held)) == (INSTANCE, "", [])
    assert dict(first.hello.labels) == {"team": "shop"}
    (acquire,) = first.acquires
    assert acquire.op == ask.op > 0
    assert [(claim.resource, claim.permits) for claim in acquire.claims] == [("orders-db", 2)]
    assert (acquire.wait.seconds, acquire.lease.seconds) == (3, 10)


def test_what_is_not_said_is_left_to_the_daemon() -> None:
    """No wait and no lease: as the resource says. A wait of 0 is said: it is not at all."""
    scene = Scene()
    scene.ask()
    scene.ask(wait=0)
    scene.connect()
    (first,) = scene.said()

    assert [each.HasField("wait") for each in first.acquires] == [False, True]
    assert not first.acquires[0].HasField("lease")


def test_the_hello_is_said_once_on_each_connection() -> None:
    """And names the session to come back to."""
    scene = Scene()
    scene.ask()
    scene.connect()
    scene.said()
    scene.hear(welcome(session="mine"), handled(1))
    scene.ask()
    (second,) = scene.said()
    scene.break_off()
    scene.connect()
    (again,) = scene.said()

    assert not second.HasField("hello")
    assert again.hello.resume == "mine"
    assert again.hello.instance == INSTANCE


# --- pacing -------------------------------------------------------------------------------------------------------


def test_a_quiet_client_says_each_thing_at_once() -> None:
    """Two messages may be under way that the daemon has not handled."""
    scene = Scene()
    scene.greeted()
    first = scene.ask()
    (one,) = scene.said()
    second = scene.ask()
    (two,) = scene.said()

    assert [each.op for each in one.acquires] == [first.op]
    assert [each.op for each in two.acquires] == [second.op]


def test_what_comes_while_enough_are_under_way_gathers_into_the_next() -> None:
    """So batches form by themselves, and in order."""
    scene = Scene()
    scene.greeted()
    held = scene.held(7)
    for _ in range(WINDOW):
        scene.ask()
        assert len(scene.said()) == 1
    late = [scene.ask() for _ in range(20)]
    scene.release(held)
    assert scene.said() == []

    scene.hear(handled(scene.talk._contact.said - WINDOW + 1))
    (batch,) = scene.said()
    assert [each.op for each in batch.acquires] == [ask.op for ask in late]
    assert list(batch.releases) == [7]


def test_many_asks_go_in_shares() -> None:
    """So the daemon works on one while we work on the answers to another; and all of them go."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask() for _ in range(90)]
    shares = [[each.op for each in message.acquires] for message in scene.said()]
    while sum(map(len, shares)) < len(asks):
        scene.hear(handled(scene.talk._contact.said - 1))
        shares += [[each.op for each in message.acquires] for message in scene.said()]

    assert [len(share) for share in shares] == [45, 32, 13]
    assert [op for share in shares for op in share] == [ask.op for ask in asks]


def test_a_message_that_counts_nothing_changes_no_count() -> None:
    """The daemon leaves out what has not changed: a grant to a waiter must not close the window."""
    scene = Scene()
    scene.greeted()
    waiter = scene.ask(wait=30)
    scene.said()
    scene.hear(queued(waiter), handled(2))
    scene.wait(1)
    scene.hear(granted(waiter, 5, waited=1))
    other = scene.ask()
    (message,) = scene.said()

    assert [each.op for each in message.acquires] == [other.op]


def test_a_large_batch_is_cut_into_messages() -> None:
    """The daemon takes 256 KiB at once; what is more waits for the next."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask("a-resource-with-a-rather-long-name" * 3) for _ in range(4_000)]
    ops: list[int] = []
    while len(ops) < len(asks):
        message = scene.talk.next_message(scene.now)
        assert message is not None
        assert len(message) < 256 * 1024
        ops += [each.op for each in pb.SessionRequest.FromString(message).acquires]
        scene.hear(handled(scene.talk._contact.said))

    assert ops == [ask.op for ask in asks]


def test_no_answer_to_what_is_under_way_is_one_too_many_for_the_daemon() -> None:
    """It cuts off whom it has more to tell than 16,384 answers; to come back and ask for the same would never end."""
    scene = Scene()
    scene.greeted()
    for number in range(9000):
        scene.held(number + 1)
    for held in list(scene.talk.keeping._held.values())[:6000]:
        scene.release(held)
    for _ in range(9000):
        scene.ask("x" * 256)
    scene.break_off()
    scene.connect()
    said = scene.said()

    answers = 0
    for request in said:
        # A refusal has the name of its resource, in its words too: more than twice 256 bytes, which counts for three.
        answers += len(request.hello.held) + len(request.releases) + 3 * len(request.acquires) + 2
    assert len(said) == WINDOW
    assert answers < 16_384


def test_the_largest_hello_is_one_that_the_daemon_takes() -> None:
    """After a break: many leases to claim, many to give back, many asks to repeat, and many to cancel."""
    scene = Scene()
    scene.greeted()
    first = 1 << 40  # ids of many bytes
    for start in range(0, 30_000, 1_000):
        asks = [scene.ask() for _ in range(1_000)]
        while scene.said():
            scene.hear(handled(scene.talk._contact.said))
        scene.hear(*[granted(ask, first + start + number) for number, ask in enumerate(asks)])
        held = [answer for answer in scene.answers().values() if isinstance(answer, Held)]
        for each in held[:300]:
            scene.release(each)
    waiters = [scene.ask() for _ in range(30_000)]
    while scene.said():
        scene.hear(handled(scene.talk._contact.said))
    scene.break_off()
    scene.connect()
    while (message := scene.talk.next_message(scene.now)) is not None:
        assert len(message) < 256 * 1024
        scene.hear(handled(scene.talk._contact.said))
    for waiter in waiters:
        scene.talk.cancel(waiter)
    cancelled = 0
    while (message := scene.talk.next_message(scene.now)) is not None:
        assert len(message) < 256 * 1024
        cancelled += len(pb.SessionRequest.FromString(message).cancels)
        scene.hear(handled(scene.talk._contact.said))

    assert cancelled == len(waiters)


# --- answers ------------------------------------------------------------------------------------------------------


def test_a_grant_says_what_was_lent() -> None:
    """Its members with what the operator wrote beside them."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask("orders-db")
    scene.said()
    grant = granted(ask, 12, 30, waited=0.25)
    grant.grants[0].lease.grants[0].members.add(id="primary", attributes={"endpoint": "db1:5432"}, generation=3)
    scene.hear(grant)
    held = scene.answer(ask)

    assert isinstance(held, Held)
    assert (held.id, held.claims, held.state) == (12, (("orders-db", 1),), State.HELD)
    assert held.members == (Member("primary", {"endpoint": "db1:5432"}, 3, "orders-db"),)
    assert (held.length, held.waited) == (30 * 10**9, 250_000_000)
    assert held.owner == 42


def test_permits_of_a_rate_limit_are_spent_and_never_kept() -> None:
    """Nothing depends on the daemon afterwards."""
    scene = Scene()
    scene.greeted()
    held = scene.held(length=None)

    assert held.length is None
    assert not scene.busy()
    assert scene.run(60) == []
    assert scene.next() is None


def test_a_refusal_says_why_and_when() -> None:
    """In lower case, as a program wants it; not for good."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask()
    scene.said()
    scene.hear(refused(ask, "NONE_FREE", 8, retry_after=1.5))
    error = scene.answer(ask)

    assert isinstance(error, NotGranted)
    assert (error.reason, error.resource, error.retry_after, error.never) == ("none_free", "x", 1.5, False)
    assert not scene.busy() or scene.talk._contact.said > scene.talk._contact.done


@pytest.mark.parametrize(("code", "never"), [(3, True), (5, True), (11, True), (7, True), (8, False), (14, False)])
def test_some_refusals_are_for_good(code: int, never: bool) -> None:  # noqa: FBT001
    """Never and not-now are different words."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask()
    scene.said()
    scene.hear(refused(ask, code=code))
    error = scene.answer(ask)

    assert isinstance(error, NotGranted)
    assert error.never is never


def test_many_answers_in_one_message_go_to_those_who_asked() -> None:
    """Whatever their order."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask() for _ in range(4)]
    scene.said()
    scene.hear(granted(asks[2], 1), refused(asks[0]), granted(asks[3], 2), queued(asks[1], 5))
    answers = scene.answers()

    assert isinstance(answers[asks[0]], NotGranted)
    assert [answers[ask].id for ask in asks[2:] if isinstance(answers[ask], Held)] == [1, 2]  # type: ignore[union-attr]
    assert asks[1] not in answers
    assert asks[1].queued


def test_an_answer_to_nobody_is_ignored() -> None:
    """An op that was never used, or was answered before."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask()
    scene.said()
    scene.hear(granted(ask, 1))
    scene.answer(ask)
    scene.hear(granted(ask, 1), refused(ask), queued(ask), handled(2))

    assert scene.answers() == {}
    assert len(scene.talk.keeping) == 1


@pytest.mark.parametrize("garbage", [b"\xff", b"HTTP/1.1 400 Bad Request", b"\x0a\xff\xff\xff\xff\x0f"])
def test_what_is_no_message_is_said_to_be_none(garbage: bytes) -> None:
    """Whoever drives the conversation gives the connection up."""
    scene = Scene()
    scene.greeted()

    with pytest.raises(ValueError, match="not a SessionResponse"):
        scene.talk.hear(garbage, scene.now)


# --- places in line -----------------------------------------------------------------------------------------------


def test_whoever_wants_to_know_their_place_is_told_about_once_a_second() -> None:
    """With how many come before, and how long it may take; nobody else is asked for."""
    scene = Scene()
    scene.greeted()
    curious = scene.ask(wait=30, on_queued=lambda *_: None)
    scene.ask(wait=30)
    scene.said()
    scene.hear(queued(curious, 3, 1.5), handled(2))

    assert scene.talk.places == [(curious, 3, 1.5)]
    asked: list[int] = []
    for _ in range(50):
        for message in scene.run(0.1):
            asked += message.places
            scene.hear(handled(scene.talk._contact.said))
    assert asked == [curious.op] * 5


def test_nobody_is_asked_about_who_is_not_in_line() -> None:
    """Nor about one that was answered."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30, on_queued=lambda *_: None)
    scene.said()
    assert not any(message.places for message in scene.run(1))

    scene.hear(queued(ask), handled(scene.talk._contact.said))
    scene.hear(granted(ask, 1))
    assert not any(message.places for message in scene.run(3))


# --- cancels ------------------------------------------------------------------------------------------------------


def test_an_ask_that_was_not_sent_is_never_sent() -> None:
    """Nobody waits for it, so nothing is said of it."""
    scene = Scene()
    ask = scene.ask()
    other = scene.ask()
    scene.talk.cancel(ask)
    (first,) = scene.greeted()

    assert [each.op for each in first.acquires] == [other.op]
    assert list(first.cancels) == []

    scene.talk.cancel(other)
    scene.said()
    late = scene.ask()
    scene.talk.cancel(late)
    assert scene.said() == []


def test_an_ask_that_was_cancelled_before_it_was_made_is_not_made() -> None:
    """A task may be gone before its ask has left the event loop's turn."""
    scene = Scene()
    scene.greeted()
    ask = scene.unasked()
    scene.talk.cancel(ask)
    scene.talk.ask(ask, scene.now)

    assert scene.said() == []
    assert not scene.busy()


@pytest.mark.parametrize("in_line", [False, True])
def test_an_ask_that_was_sent_is_cancelled_by_its_op(in_line: bool) -> None:  # noqa: FBT001
    """In line or not: the daemon knows best what to do about it."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    if in_line:
        scene.hear(queued(ask), handled(2))
    scene.talk.cancel(ask)
    (message,) = scene.said()

    assert list(message.cancels) == [ask.op]
    assert scene.answers() == {}


def test_a_grant_that_crosses_its_cancel_is_not_ours() -> None:
    """The daemon takes it back when it reads the cancel: it is neither held here nor given back twice."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    scene.talk.cancel(ask)
    (message,) = scene.said()
    scene.hear(granted(ask, 9))

    assert list(message.cancels) == [ask.op]
    assert scene.answers() == {}
    assert len(scene.talk.keeping) == 0
    assert scene.said() == []


def test_an_ask_that_was_granted_meanwhile_is_given_back() -> None:
    """The answer lies ready, but who asked is gone."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    scene.hear(granted(ask, 9), handled(2))
    scene.talk.cancel(ask)
    (message,) = scene.said()

    assert (list(message.releases), list(message.cancels)) == ([9], [])


def test_to_cancel_what_was_refused_says_nothing() -> None:
    """It is over."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask()
    scene.said()
    scene.hear(refused(ask), handled(2))
    scene.talk.cancel(ask)
    scene.talk.cancel(ask)

    assert scene.said() == []


def test_an_adoption_that_is_cancelled_lets_go_again() -> None:
    """Its lease is whoever's it was to be: it is neither given back nor kept alive."""
    scene = Scene()
    scene.greeted()
    asks = [scene.adopt(7), scene.adopt(8), scene.adopt(9)]
    scene.said()
    scene.hear(granted(asks[0], 7), handled(scene.talk._contact.said))
    for ask in asks[:2]:
        scene.talk.cancel(ask)
    (message,) = scene.said()

    assert sorted(message.detaches) == [7, 8]
    assert (list(message.releases), list(message.cancels)) == ([], [])


def test_asks_that_are_cancelled_without_a_connection_take_no_room() -> None:
    """However long the daemon is away, and however often somebody gives up."""
    scene = Scene()
    for _ in range(10_000):
        scene.talk.cancel(scene.ask(patient=True))

    assert len(scene.talk._unsaid) < 1_000
    assert not scene.busy()


# --- a connection that breaks -------------------------------------------------------------------------------------


def test_what_had_no_answer_is_asked_again_with_the_same_op() -> None:
    """So a lost reply costs nothing: sent, in line or not sent yet, in the order of asking."""
    scene = Scene()
    scene.greeted()
    sent, in_line = scene.ask(wait=30), scene.ask(wait=30)
    scene.said()
    scene.hear(queued(in_line), handled(2))
    answered = scene.ask()
    scene.said()
    scene.hear(granted(answered, 1))
    scene.break_off()
    new = scene.ask()
    scene.connect()
    (again,) = scene.said()

    assert [each.op for each in again.acquires] == [sent.op, in_line.op, new.op]
    assert list(scene.answers()) == [answered]


def test_a_grant_that_was_over_before_we_came_back_is_asked_for_anew() -> None:
    """Nobody ever had it; under the same op the daemon can only say that it has ended."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=30)
    scene.said()
    scene.break_off()
    scene.connect()
    (again,) = scene.said()
    first = again.acquires[0].op
    scene.hear(welcome(), handled(1), refused(ask, "LEASE_ENDED", 9))
    (anew,) = scene.said()

    assert [each.op for each in anew.acquires] == [ask.op]
    assert ask.op > first
    assert not scene.answers()


def test_a_daemon_that_drains_is_away_for_whoever_waits_for_one() -> None:
    """It is asked again when there is one; whoever does without is let through, and whoever does neither is told."""
    scene = Scene()
    scene.greeted()
    told, patient, open_ = scene.ask(wait=30), scene.ask(wait=30, patient=True), scene.ask(wait=30)
    open_.fail_open = True
    scene.said()
    scene.hear(*[refused(ask, "DRAINING", 14, retry_after=1, resource="") for ask in (told, patient, open_)])
    answers = scene.answers()
    assert isinstance(answers.pop(told), NotGranted)
    assert isinstance(answers.pop(open_), Unavailable)
    assert not answers
    scene.break_off()
    scene.connect()
    (again,) = scene.said()

    assert [each.op for each in again.acquires] == [patient.op]


def test_a_resource_that_is_drained_makes_no_daemon_away() -> None:
    """Everybody is told, however patient, and nobody is let through."""
    scene = Scene()
    scene.greeted()
    told, patient, open_ = scene.ask(wait=30), scene.ask(wait=30, patient=True), scene.ask(wait=30)
    open_.fail_open = True
    scene.said()
    scene.hear(*[refused(ask, "DRAINING", 14, retry_after=1) for ask in (told, patient, open_)])

    assert [type(answer) for answer in scene.answers().values()] == [NotGranted] * 3


def test_who_gave_up_is_told_on_the_next_connection_too() -> None:
    """A daemon that died may have granted it just before; it is said until it is heard, and not for ever."""
    scene = Scene()
    scene.greeted()
    said, late = scene.ask(wait=30), scene.ask(wait=30)
    scene.said()
    scene.talk.cancel(said)
    (cancel,) = scene.said()
    assert list(cancel.cancels) == [said.op]
    scene.break_off()
    scene.talk.cancel(late)
    assert scene.busy()

    scene.connect()
    (first,) = scene.said()
    assert list(first.cancels) == [said.op, late.op]
    assert list(first.hello.held) == []
    assert list(first.acquires) == []
    scene.hear(handled(1))
    assert not scene.busy()


def test_nobody_looks_for_a_daemon_for_ever_to_tell_it_that_he_gave_up() -> None:
    """A minute; and of very many the last ones."""
    scene = Scene()
    scene.greeted()
    asks = [scene.ask(wait=30) for _ in range(12_000)]
    while scene.said():
        scene.hear(handled(scene.talk._contact.said))
    scene.break_off()
    for ask in asks:
        scene.talk.cancel(ask)
    scene.talk.tick(scene.now)
    assert len(scene.talk._cancels._unsaid) == 10_000
    scene.wait(59)
    scene.talk.tick(scene.now)
    assert scene.busy()
    scene.wait(1)
    scene.talk.tick(scene.now)

    assert not scene.busy()


def test_an_ask_that_is_repeated_has_what_is_left_of_its_wait() -> None:
    """However often it is sent, it ends when its caller expects it."""
    scene = Scene()
    scene.greeted()
    scene.ask(wait=30)
    scene.said()
    scene.wait(12)
    scene.break_off()
    scene.connect()
    (again,) = scene.said()

    assert again.acquires[0].wait.seconds == 18


def test_an_adoption_is_repeated_too() -> None:
    """With the same op, and the lease that it is about."""
    scene = Scene()
    scene.greeted()
    ask = scene.adopt(77)
    (first,) = scene.said()
    scene.break_off()
    scene.connect()
    (again,) = scene.said()

    assert [(each.op, each.lease_id) for each in first.adopts] == [(ask.op, 77)]
    assert [(each.op, each.lease_id) for each in again.adopts] == [(ask.op, 77)]


# --- a daemon that is away ----------------------------------------------------------------------------------------


def test_whoever_is_not_patient_is_told_at_once_that_nobody_listens() -> None:
    """Each by an error of their own: it will be raised in another thread."""
    scene = Scene()
    asks = [scene.ask(), scene.ask(wait=30)]
    patient = scene.ask(wait=30, patient=True)
    scene.talk.refused("no governor daemon at db1:7411: Connection refused", for_good=False)
    answers = scene.answers()

    assert set(answers) == set(asks)
    assert answers[asks[0]] is not answers[asks[1]]
    error = answers[asks[0]]
    assert isinstance(error, Unavailable)
    assert error.address == ADDRESS
    assert str(error) == "no governor daemon at db1:7411: Connection refused"
    assert scene.talk._asks == {patient.op: patient}


def test_whoever_may_wait_does_while_there_is_no_room() -> None:
    """The daemon is there: not to be taken in is no way round it, and is told as such when the wait is over."""
    scene = Scene()
    at_once, waits, open_to_all = scene.ask(wait=0), scene.ask(wait=3), scene.ask(wait=3)
    open_to_all.fail_open = True
    scene.talk.refused("db1:7411: 10 sessions are there", full=True)
    answers = scene.answers()

    assert set(answers) == {at_once}
    scene.run(3.1)
    answers |= scene.answers()

    assert set(answers) == {at_once, waits, open_to_all}
    assert all(isinstance(error, NotGranted) and error.reason == "busy" for error in answers.values())


def test_a_daemon_that_goes_after_it_had_no_room_is_away() -> None:
    """What was last found out is what is told."""
    scene = Scene()
    ask = scene.ask(wait=1, patient=True)
    scene.talk.refused("db1:7411: 10 sessions are there", full=True)
    scene.talk.refused("no governor daemon at db1:7411: Connection refused", for_good=False)
    scene.run(1.1)

    assert isinstance(scene.answer(ask), Unavailable)


def test_everybody_is_told_when_it_is_for_good() -> None:
    """Also those who are patient, and those who were in line."""
    scene = Scene()
    scene.greeted()
    in_line = scene.ask()
    scene.said()
    scene.break_off()
    patient = scene.ask(patient=True)
    scene.talk.refused("db1:7411: you may not", for_good=True)

    assert set(scene.answers()) == {in_line, patient}


def test_asks_in_line_outlive_a_restart_of_the_daemon() -> None:
    """They are repeated for a while, though they are not patient; then they hear why nothing came of it."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=60)
    scene.said()
    scene.hear(queued(ask), handled(2))
    scene.wait(20)
    scene.break_off()
    scene.talk.refused("no governor daemon at db1:7411: Connection refused", for_good=False)
    assert scene.answers() == {}

    scene.run(4.9)
    assert scene.answers() == {}
    scene.run(0.2)
    assert str(scene.answer(ask)) == "no governor daemon at db1:7411: Connection refused"


def test_a_connection_that_never_greeted_us_gives_nobody_more_time() -> None:
    """However often one is tried: an ask without a wait ends when its patience does."""
    scene = Scene()
    ask = scene.ask()
    for _ in range(49):
        scene.connect()
        scene.said()
        scene.run(0.1)
        scene.break_off()
        assert scene.answers() == {}
    scene.connect()
    scene.run(0.2)

    assert isinstance(scene.answer(ask), Unavailable)


def test_patience_lasts_as_long_as_the_wait() -> None:
    """Also when the daemon goes away in between: who waits for it does so until the wait is over."""
    scene = Scene()
    ask = scene.ask(wait=30, patient=True)
    scene.run(10)
    scene.greeted()
    scene.hear(queued(ask))
    scene.run(5)
    scene.break_off()
    scene.run(14.5)
    assert scene.answers() == {}

    scene.run(1)
    assert isinstance(scene.answer(ask), Unavailable)


def test_whoever_waits_for_ever_does() -> None:
    """Patient and without a wait: nothing is due without a connection."""
    scene = Scene()
    scene.ask(patient=True)
    assert scene.next() is None

    scene.run(86_400)
    assert scene.answers() == {}


@pytest.mark.parametrize(("wait", "seconds"), [(1, 1), (0.2, 1), (0, 1), (7, 7), (None, 5)])
def test_a_daemon_that_does_not_answer_costs_the_wait(wait: float | None, seconds: float) -> None:
    """At least a second: to answer takes time, also if the ask is not to wait in line."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=wait)
    scene.said()
    scene.run(seconds - 0.01)
    assert scene.answers() == {}

    (message,) = [each for each in scene.run(0.02) if each.cancels]
    error = scene.answer(ask)
    assert isinstance(error, Unavailable)
    assert str(error) == "db1:7411: the daemon does not answer"
    assert list(message.cancels) == [ask.op]


def test_an_ask_without_waiting_outlives_a_break() -> None:
    """A reply that was lost costs nothing, also to those who do not wait in line."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=0)
    scene.said()
    scene.wait(0.1)
    scene.break_off()
    scene.run(0.5)
    (again,) = scene.greeted()

    assert [each.op for each in again.acquires] == [ask.op]
    assert scene.answers() == {}


def test_a_daemon_that_does_not_answer_in_time_after_the_wait_is_given_up() -> None:
    """It said that we stand in line, and then nothing: a second after the wait is over it must have answered."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=10)
    scene.said()
    scene.hear(queued(ask), handled(2))
    scene.run(10.9)
    assert scene.answers() == {}

    scene.run(0.2)
    assert isinstance(scene.answer(ask), Unavailable)


def test_an_ask_in_line_waits_as_long_as_the_daemon_lets_it() -> None:
    """Without a wait of its own: a minute and more, as long as the daemon gives signs of life."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask()
    scene.said()
    scene.hear(queued(ask, 3), handled(2))
    scene.run(90)
    assert scene.answers() == {}

    scene.hear(granted(ask, 1, waited=90))
    assert isinstance(scene.answer(ask), Held)


# --- signs of life ------------------------------------------------------------------------------------------------


def test_an_idle_session_asks_for_nothing() -> None:
    """Nothing depends on the daemon, so nothing is due."""
    scene = Scene()
    scene.ask(wait=0)
    scene.talk.cancel(next(iter(scene.talk._asks.values())))
    scene.greeted()

    assert not scene.busy()
    assert scene.run(60) == []
    assert scene.next() is None
    assert scene.tick() == (False, False)


def test_silence_is_probed_and_then_no_connection() -> None:
    """While something depends on it: one ping after a second, and after eight it is given up."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=60)
    scene.said()
    scene.hear(queued(ask), handled(2))
    scene.wait(1)
    assert scene.tick() == (True, False)
    assert scene.tick() == (False, False)

    scene.wait(6.9)
    assert scene.tick() == (False, False)
    scene.wait(0.1)
    assert scene.tick() == (False, True)


def test_who_answers_each_ping_is_asked_again_a_second_later() -> None:
    """For as long as anything depends on it."""
    scene = Scene()
    scene.greeted()
    ask = scene.ask(wait=60)
    scene.said()
    scene.hear(queued(ask), handled(2))
    for _ in range(20):
        scene.wait(1)
        assert scene.tick() == (True, False)
        scene.pong(scene.now)


def test_the_beginning_of_a_connection_counts_for_its_silence_alone() -> None:
    """A connection that was just begun is not given up for what happened before it."""
    scene = Scene()
    scene.greeted()
    scene.ask(wait=60)
    scene.said()
    scene.wait(8)
    scene.break_off()
    scene.connect()

    assert scene.tick() == (False, False)


# --- the end ------------------------------------------------------------------------------------------------------


def test_a_client_that_closes_gives_all_back() -> None:
    """What is held, what is on its way, and everybody who waits is told."""
    scene = Scene()
    scene.greeted()
    held = scene.held(3)
    ask = scene.ask(wait=30)
    scene.said()
    scene.talk.give_all_back()
    (message,) = scene.said()

    assert (list(message.releases), list(message.cancels)) == ([3], [ask.op])
    assert held.state is State.RELEASED
    error = scene.answer(ask)
    assert type(error) is GovernorError
    assert scene.busy()
    scene.hear(released(3), handled(scene.talk._contact.said))
    assert not scene.busy()


def test_an_adoption_of_what_has_ended_says_what_became_of_it() -> None:
    """It is a lease that is lost, not one that was not granted."""
    for code, reason in ((5, "UNKNOWN_LEASE"), (9, "LEASE_ENDED")):
        scene = Scene()
        scene.greeted()
        ask = scene.adopt(77)
        scene.said()
        scene.hear(refused(ask, reason, code))
        error = scene.answer(ask)

        assert isinstance(error, LeaseLost)
        assert (error.lease, error.reason) == (77, reason.lower())


def test_an_adopted_lease_is_held_like_any_other() -> None:
    """Its claims are what the daemon says they are."""
    scene = Scene()
    scene.greeted()
    ask = scene.adopt(77)
    scene.said()
    grant = granted(ask, 77, 30)
    grant.grants[0].lease.grants.add(resource="y", permits=4)
    scene.hear(grant)
    held = scene.answer(ask)

    assert isinstance(held, Held)
    assert held.claims == (("y", 4),)
    scene.hear(ended(77, "revoked"))
    assert held.state is State.LOST


@pytest.mark.parametrize("when", ["sent", "adopted", "answered", "away"])
def test_an_adoption_that_is_given_up_leaves_a_lease_as_it_was(when: str) -> None:
    """Nobody keeps it alive, and nobody gives it back: whoever tries again finds it."""
    scene = Scene()
    scene.greeted()
    ask = scene.adopt(77)
    scene.said()
    if when == "answered":
        scene.hear(granted(ask, 77))
    if when == "away":
        said = scene.run(5.5)
        assert isinstance(scene.answer(ask), Unavailable)
    else:
        scene.talk.cancel(ask)
        said = scene.said()
    if when == "adopted":
        scene.hear(granted(ask, 77))
    (message,) = said
    scene.hear(handled(scene.talk._contact.said))

    assert list(message.detaches) == [77]
    assert (list(message.releases), list(message.cancels)) == ([], [])
    assert not scene.busy()


def test_an_adoption_from_oneself_that_is_given_up_changes_nothing() -> None:
    """It is held as before, and the daemon must go on to renew it."""
    scene = Scene()
    scene.greeted()
    held = scene.held(5)
    ask = scene.adopt(5)
    scene.said()
    scene.talk.cancel(ask)

    assert scene.said() == []
    assert held.state is State.HELD
