"""Where to connect next, and when: the addresses of one daemon in turn, and pauses that grow while none of them works.

It knows how a connection is begun. It must never know what is said on one, nor read a clock: instants come in, in
nanoseconds of the monotonic clock.
"""

import errno
import os
import random
import socket
from collections import deque
from typing import Final

from governor.client.address import Address, Candidate
from governor.client.asks import SECOND
from governor.client.stream import Ended

_FIRST_PAUSE: Final = SECOND // 20
_LONGEST_PAUSE: Final = 2 * SECOND
# Of what is left of the time in which leases can be saved, a pause is this share at most.
_SHARE: Final = 10


class Dial:
    """The attempts to reach one daemon; ``next_try`` is when the next one may begin."""

    def __init__(self, address: Address) -> None:
        self.next_try = 0
        self._address = address
        # The addresses that are left to try, if this one fails.
        self._candidates: deque[Candidate] = deque()
        self._pause = 0
        self._tried_at = 0

    @property
    def first_time(self) -> bool:
        """Whether nothing has failed since the daemon was last there."""
        return not self._pause

    def hurry(self) -> None:
        """Somebody does not wait for a daemon that is away, and is to be told so soon."""
        self.next_try = min(self.next_try, self._tried_at + _FIRST_PAUSE)

    def make_it(self, until: int, now: int) -> None:
        """Whatever depends on the daemon does so ``until`` then: no pause takes more than a tenth of what is left."""
        self.next_try = min(self.next_try, now + max(_FIRST_PAUSE, (until - now) // _SHARE))

    def begin(self, now: int) -> socket.socket | None:
        """A socket that is about to connect; None: not just now. Raises Ended if none can be had."""
        self._tried_at = now
        why = "no such host"
        try:
            if not self._candidates:
                self._candidates.extend(self._address.candidates())
            while self._candidates:
                sock, code = _begin(*self._candidates.popleft())
                if code == errno.EAGAIN:  # of a unix socket: the daemon is there, and takes nobody in just now
                    self.next_try = now + _FIRST_PAUSE
                    return None
                if sock is not None:
                    return sock
                why = os.strerror(code)
        except OSError as error:
            why = error.strerror or str(error)
        except ValueError as error:  # a name that can be no host, or no path
            why = str(error)
        raise Ended(None, why)

    @property
    def knows_where(self) -> bool:
        """Whether there are addresses left to try, so that none must be looked up."""
        return bool(self._candidates)

    def found(self, candidates: list[Candidate], now: int) -> None:
        """Where its name is."""
        self._candidates.extend(candidates)
        self.next_try = now

    def reached(self) -> None:
        """The daemon is there: its other addresses are not needed."""
        self._candidates.clear()

    def goes_on(self, now: int, *, lasted: bool) -> bool:
        """A connection is no more. Whether another address is tried at once; else ``next_try`` says how long to pause.

        ``lasted``: it was good for a while, so there is no reason to pause.
        """
        if self._candidates:
            self.next_try = now
            return True
        if lasted:
            self._pause, self.next_try = 0, now
        else:
            self._pause = min(_LONGEST_PAUSE, self._pause * 2 or _FIRST_PAUSE)
            # Clients that lost the same daemon do not come back all at once.
            self.next_try = now + int(self._pause * random.uniform(0.5, 1))  # noqa: S311
        return False

    def forget(self) -> None:
        """Begin anew: nothing has failed yet."""
        self._candidates.clear()
        self._pause = 0


def _begin(family: socket.AddressFamily, where: str | tuple[str, int]) -> tuple[socket.socket | None, int]:
    """A socket that is about to connect, or None and why not. Raises OSError or ValueError when it cannot even try."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(where)
    except BaseException:
        sock.close()
        raise
    if code in {0, errno.EINPROGRESS}:
        return sock, code
    sock.close()
    return None, code
