"""What a session has yet to be told: one message while it is little, several when it is much, and never too much."""

import asyncio
from collections.abc import Callable

from governor.core.effects import Granted, LeaseResult, LeaseState
from governor.core.types import Grant, LeaseId, Member, TicketId
from governor.rpc.answers import MAX_FORMS, Answers, terms
from governor.rpc.outbox import MAX_UNREAD, Outbox
from governor.v1 import governor_pb2 as pb


def _nothing() -> None:
    pass


def _nothing_is_lent(_: LeaseId) -> None:
    pass


def _outbox(overflowed: Callable[[], None] = _nothing) -> Outbox:
    return Outbox(Answers(_nothing_is_lent), commit=lambda: True, overflowed=overflowed, superseded=_nothing)


def _granted(number: int, *members: Member, resource: str = "sem", waited: int = 0) -> Granted:
    grants = (Grant(resource, max(1, len(members)), members),)
    return Granted(TicketId(number), LeaseId(number), grants, 100, waited, "me")


async def _all(box: Outbox) -> list[pb.SessionResponse]:
    box.close()
    messages = []
    while (message := await box.message()) is not None:
        messages.append(pb.SessionResponse.FromString(message))
    return messages


async def test_all_that_there_is_is_one_message() -> None:
    """Answers of every kind, in their order."""
    box = _outbox()
    box.granted(1, _granted(10), 7)
    box.queued(2, 3, None)
    box.released([LeaseId(4), LeaseId(5)])
    box.result(LeaseResult(LeaseId(6), LeaseState.UNKNOWN))
    box.ended(LeaseResult(LeaseId(7), LeaseState.UNKNOWN))
    box.kept_alive()
    box.handled()
    box.handled()

    (message,) = await _all(box)

    assert [(grant.op, grant.lease.id, grant.lease.remaining.nanos) for grant in message.grants] == [(1, 10, 7)]
    assert message.queued == [pb.SessionPlace(op=2, ahead=3)]
    assert list(message.released) == [4, 5]
    assert [result.lease_id for result in (*message.results, *message.ended)] == [6, 7]
    assert (message.kept_alive, message.handled) == (True, 2)


async def test_much_of_it_goes_in_parts() -> None:
    """What comes last says how far all of it has come; nothing is lost or said twice."""
    box = _outbox()
    for op in range(1, 3001):
        box.granted(op, _granted(op), 7)
    box.released([LeaseId(number) for number in range(1, 2001)])
    box.kept_alive()
    box.handled()

    messages = await _all(box)

    assert len(messages) == 5
    assert [grant.op for message in messages for grant in message.grants] == list(range(1, 3001))
    assert [lease for message in messages for lease in message.released] == list(range(1, 2001))
    assert [(message.kept_alive, message.handled) for message in messages] == [(False, 0)] * 4 + [(True, 1)]


async def test_grants_that_are_told_together_count_as_many() -> None:
    """They go in parts with what else there is, in their order, and too many overflow."""
    calls: list[None] = []
    box = Outbox(
        Answers(_nothing_is_lent),
        commit=lambda: True,
        overflowed=lambda: calls.append(None),
        superseded=_nothing,
        alike=True,
    )
    for first in range(1, 3001, 250):
        ops = range(first, first + 250)
        box.all_granted(ops, [_granted(op) for op in ops], 7)
        box.ended(LeaseResult(LeaseId(first), LeaseState.UNKNOWN))
    taken = [await box.message() for _ in range(3)]
    messages = [pb.SessionResponse.FromString(message or b"") for message in taken]

    assert [sum(len(alike.ops) for alike in message.alike) for message in messages] == [1250, 1250, 500]
    told = [alike for message in messages for alike in message.alike]
    assert [op for alike in told for op in alike.ops] == list(range(1, 3001))
    assert [lease for alike in told for lease in alike.lease_ids] == list(range(1, 3001))
    assert {alike.grant.lease.remaining.nanos for alike in told} == {7}
    granted: set[int] = set()
    for message in messages:
        granted.update(lease for alike in message.alike for lease in alike.lease_ids)
        assert {result.lease_id for result in message.ended} <= granted, "it ended before it was granted"
    ops = range(1, MAX_UNREAD + 1)
    box.all_granted(ops, [_granted(op) for op in ops], 7)
    assert not calls
    box.all_granted(range(1, 2), [_granted(1)], 7)
    assert calls == [None]
    box.all_granted(range(1, 2), [_granted(1)], 7)
    assert await box.message() is None


async def test_it_overflows_once_and_keeps_nothing() -> None:
    """At its bound exactly; nothing is sent any more, nor kept."""
    calls: list[None] = []
    box = _outbox(lambda: calls.append(None))
    for number in range(MAX_UNREAD):
        box.queued(1, number, None)
    assert not calls
    box.released([LeaseId(1)])
    assert len(calls) == 1
    box.queued(1, 1, None)
    box.released([LeaseId(1)] * 100_000)
    assert await _all(box) == []
    assert len(calls) == 1


async def test_long_answers_count_for_more() -> None:
    """So bytes are bounded as well."""
    calls: list[None] = []
    box = _outbox(lambda: calls.append(None))
    members = tuple([Member(f"member-{number}", (("endpoint", "x" * 200),)) for number in range(100)])
    number = 0
    while not calls:
        number += 1
        box.granted(number, _granted(number, *members), 7)
    assert number <= MAX_UNREAD // 80


async def test_a_message_is_waited_for() -> None:
    """And comes as soon as there is something to say."""
    box = _outbox()
    waiting = asyncio.ensure_future(box.message())
    await asyncio.sleep(0)
    assert not waiting.done()
    box.handled()
    message = await waiting
    assert message is not None
    assert pb.SessionResponse.FromString(message) == pb.SessionResponse(handled=1)


def test_forms_are_bounded_and_hold_nothing_of_the_last_answer() -> None:
    """The same shape again and again, others between, more shapes than are kept."""
    answers = Answers(_nothing_is_lent)
    for number in (1, 2, 3):
        for granted in (
            _granted(number),
            _granted(number, Member("one")),
            _granted(number, waited=5),
            _granted(number, resource="other"),
        ):
            said = pb.SessionResponse.FromString(answers.grant(number, granted, 7)).grants[0]
            assert (said.op, said.lease.id, said.lease.grants[0].resource) == (
                number,
                number,
                granted.grants[0].resource,
            )
            assert [member.id for member in said.lease.grants[0].members] == [
                member.id for member in granted.grants[0].members
            ]
            assert said.lease.waited.nanos == granted.waited
    for number in range(1, MAX_FORMS + 2):
        for alike in (_granted(number), _granted(number, resource=str(number))):
            key = terms(alike, number)
            assert key is not None
            told = pb.SessionResponse.FromString(answers.alike(key, alike, [number], [alike.lease])).alike[0]
            assert (list(told.ops), list(told.lease_ids)) == ([number], [number])
            assert (told.grant.lease.grants[0].resource, told.grant.lease.id) == (alike.grants[0].resource, 0)
        answers.grant(number, _granted(number, resource=str(number)), number)
    assert len(answers) <= 2 * MAX_FORMS


class Slow:
    """Stands in for a disk that always has something to write, of others too."""

    def __init__(self) -> None:
        self.flights: list[asyncio.Future[bool]] = []
        self.box = Outbox(Answers(_nothing_is_lent), commit=self.commit, overflowed=_nothing, superseded=_nothing)

    def commit(self) -> asyncio.Future[bool]:
        """One more transaction, which takes its time."""
        self.flights.append(asyncio.get_running_loop().create_future())
        return self.flights[-1]

    async def begin(self) -> "asyncio.Future[bytes | None]":
        """A message is about to leave, but that it is not on record yet."""
        leaves = asyncio.ensure_future(self.box.message())
        await asyncio.sleep(0)
        assert len(self.flights) == 1
        return leaves


async def test_what_is_on_record_leaves_whatever_else_is_to_be_written() -> None:
    """It waits for one transaction, and what is said meanwhile waits for its own."""
    disk = Slow()
    disk.box.granted(1, _granted(10), 7)
    first = await disk.begin()
    disk.box.granted(2, _granted(11), 7)
    disk.flights[0].set_result(True)
    message = await first
    assert message is not None
    assert [grant.op for grant in pb.SessionResponse.FromString(message).grants] == [1]

    second = asyncio.ensure_future(disk.box.message())
    await asyncio.sleep(0)
    assert not second.done()
    disk.flights[1].set_result(True)
    message = await second
    assert message is not None
    assert [grant.op for grant in pb.SessionResponse.FromString(message).grants] == [2]


async def test_what_could_not_be_put_on_record_is_told_with_its_end() -> None:
    """In one message, so that nobody ever works under it."""
    disk = Slow()
    disk.box.granted(1, _granted(10), 7)
    leaves = await disk.begin()
    disk.box.ended(LeaseResult(LeaseId(10), LeaseState.ENDED))
    disk.flights[0].set_result(False)
    message = await leaves
    assert message is not None
    told = pb.SessionResponse.FromString(message)

    assert [grant.lease.id for grant in told.grants] == [result.lease_id for result in told.ended] == [10]


async def test_nothing_leaves_any_more_of_what_was_dropped() -> None:
    """Not even what was just being put on record."""
    disk = Slow()
    disk.box.granted(1, _granted(10), 7)
    leaves = await disk.begin()
    disk.box.drop()
    disk.flights[0].set_result(True)

    assert await leaves is None
