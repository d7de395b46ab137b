"""Where to connect next, and when, by hand-moved time."""

import errno
import socket

import pytest

from governor.client import dial
from governor.client.address import Address, Candidate, parse
from governor.client.asks import SECOND
from governor.client.dial import Dial
from governor.client.stream import Ended

Tried = tuple[socket.socket | None, int]


def fails(monkeypatch: pytest.MonkeyPatch, code: int = errno.ECONNREFUSED) -> list[object]:
    """Nothing can be connected to; what was tried."""
    tried: list[object] = []

    def begin(family: socket.AddressFamily, where: object) -> Tried:
        del family
        tried.append(where)
        return None, code

    monkeypatch.setattr(dial, "_begin", begin)
    return tried


def test_every_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the last of them says why there is none."""
    found: list[Candidate] = [(socket.AF_INET6, ("::1", 1)), (socket.AF_INET, ("127.0.0.1", 1))]
    monkeypatch.setattr(Address, "candidates", lambda _: list(found))
    tried = fails(monkeypatch)

    with pytest.raises(Ended, match="refused"):
        Dial(parse("db1:1")).begin(0)
    assert tried == [where for _, where in found]


def test_an_address_that_is_left_is_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to the first came about and broke. When the daemon has greeted us, the others are not needed."""
    monkeypatch.setattr(Address, "candidates", lambda _: [(socket.AF_INET, (host, 1)) for host in ("a", "b")])
    made = socket.socket()
    monkeypatch.setattr(dial, "_begin", lambda *_: (made, 0))
    tries = Dial(parse("db1:1"))
    assert tries.begin(5) is made
    assert tries.goes_on(7, lasted=False)
    assert tries.next_try == 7
    assert tries.begin(7) is made
    assert not tries.goes_on(8, lasted=True)

    assert tries.begin(9) is made
    tries.reached()
    assert not tries.goes_on(10, lasted=True)
    made.close()


def test_pauses_grow_to_two_seconds_until_a_connection_lasts() -> None:
    """Each is up to a half shorter, so that many clients do not come back at once."""
    tries = Dial(parse("db1:1"))
    before = tries.first_time
    assert before
    longest = SECOND // 20
    for _ in range(9):
        assert not tries.goes_on(0, lasted=False)
        assert longest // 2 <= tries.next_try <= longest
        again = not tries.first_time
        assert again
        longest = min(2 * SECOND, longest * 2)
    tries.goes_on(SECOND, lasted=True)

    assert tries.next_try == SECOND
    assert tries.first_time


def test_what_is_left_is_not_slept_away() -> None:
    """A pause takes a tenth of it at most, but never less than the first pause does; and it only becomes shorter."""
    tries = Dial(parse("db1:1"))
    for _ in range(9):
        tries.goes_on(0, lasted=False)
    before = tries.next_try
    tries.make_it(100 * SECOND, 0)
    assert tries.next_try == before
    tries.make_it(5 * SECOND, 0)
    assert tries.next_try == SECOND // 2
    tries.make_it(5 * SECOND, SECOND // 4)
    assert tries.next_try == SECOND // 2
    tries.make_it(0, SECOND // 4)
    assert tries.next_try == SECOND // 4 + SECOND // 20


def test_whoever_is_not_patient_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of a second after the last attempt, however long the pause has become."""
    fails(monkeypatch)
    tries = Dial(parse("127.0.0.1:1"))
    for _ in range(9):
        tries.goes_on(0, lasted=False)
    with pytest.raises(Ended):
        tries.begin(5 * SECOND)
    tries.goes_on(5 * SECOND, lasted=False)
    tries.hurry()

    assert tries.next_try == 5 * SECOND + SECOND // 20


def test_a_full_unix_socket_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is there, and nobody is told that it is not."""
    fails(monkeypatch, errno.EAGAIN)
    tries = Dial(parse("unix:/run/x.sock"))

    assert tries.begin(SECOND) is None
    assert tries.next_try == SECOND + SECOND // 20
