"""Diary: what one program asked and was told, written down at once, and what it believes of its leases meanwhile.

It knows a file and the monotonic clock. It must never know what is right.
"""

import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from governor.client import Lease, LeaseLost
from tests.faults.declared import ON_DISCONNECT, SECOND
from tests.history.log import GRANTED, RENEWED, Call, Nanos, Verb, line

# How long the library relies on a lease at most after it was cut off. To say no more of any lease is to say what holds
# whatever happens next: also when the program is stopped, and its connection breaks without its knowing.
_SURE: Final[Nanos] = ON_DISCONNECT - ON_DISCONNECT // 10
# What the library says when it is not the daemon that says so: a lease may live on, but is relied on no more.
_GIVEN_UP: Final = frozenset({"unreachable", "unclaimed"})


class Diary:
    """One file, of one client name; many threads may write. A line is there as soon as it is written."""

    def __init__(self, path: Path, client: str) -> None:
        self.client: Final = client
        # What the library says of losses is in the diary, and is no fault.
        logging.getLogger("governor.client").addHandler(logging.NullHandler())
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def begin(self, verb: Verb, *, lease: int | None = None) -> Call:
        """A call that is made now."""
        return Call(self.client, verb, time.monotonic_ns(), lease=lease)

    def write(self, call: Call) -> None:
        """As it is by now."""
        os.write(self._file, f"{line(call)}\n".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


class Belief:
    """One lease as the client library shows it to its program, which looks now and then whether it still is one."""

    def __init__(self, diary: Diary, call: Call, lease: Lease) -> None:
        """It was granted just now, by this call."""
        call.answered, call.result, call.lease = time.monotonic_ns(), GRANTED, lease.id
        call.remaining = None if lease.remaining is None else _sure(lease)
        for member in lease.members:
            call.members.setdefault(member.resource, []).append(member.id)
        diary.write(call)
        self._diary = diary
        self._lease = lease
        # When it was last seen to be held; what is lost is so from some moment after it.
        self._seen = call.answered

    def holds(self) -> bool:
        """Look; whether it is still there. If not, it is written down who says so."""
        call = self._diary.begin("renew", lease=self._lease.id)
        sure = _sure(self._lease)
        if call.asked - self._seen > _SURE and not self._lease.lost:
            # We have not run for longer than was sure: the library has to look first, as we do.
            self._seen = call.asked
            return True
        if sure and not self._lease.lost:
            call.answered, call.result, call.remaining = call.asked, RENEWED, sure
            self._diary.write(call)
            self._seen = call.asked
            return True
        # What has no time left is not relied on, also before the library says that it is lost.
        call = Call(self._diary.client, "gone", self._seen, lease=self._lease.id)
        try:
            self._lease.check()
            self._lease.release()
        except LeaseLost as error:
            if error.reason not in _GIVEN_UP:
                call.verb, call.answered = "renew", time.monotonic_ns()
                call.result = "unknown" if error.reason == "unknown" else "ended"
        self._diary.write(call)
        return False

    def give_back(self, outcome: str) -> None:
        """Which is not waited for."""
        self._diary.write(self._diary.begin("release", lease=self._lease.id))
        if outcome == "broken":
            self._lease.release("broken")
        else:
            self._lease.release("ok")


def _sure(lease: Lease) -> Nanos:
    return min(_SURE, int((lease.remaining or 0.0) * SECOND))
