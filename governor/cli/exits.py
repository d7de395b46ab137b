"""How a command can end: every exit code of `governor`, in one table.

It knows what each ending means to a script. It must never know how a command comes to it.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """The exit codes. The high ones are those of sysexits.h, timeout(1) and the shells."""

    OK = 0
    NOTHING_CHANGED = 1
    # As diff(1) has it.
    DIFFERS = 1
    USAGE = 2
    CANNOT_REACH = 3
    DENIED = 4
    BUG = 70
    CANNOT_START = 71
    SYSTEM_REFUSED = 74
    TRY_LATER = 75
    BAD_CONFIG = 78
    LEASE_LOST = 79
    TIMED_OUT = 124
    CANNOT_RUN = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANING: Final[dict[Exit, str]] = {
    Exit.OK: "done",
    Exit.NOTHING_CHANGED: "renew, release, revoke: not each lease, or none; diff: it differs",
    Exit.USAGE: "what was asked is wrong; asking again will not help",
    Exit.CANNOT_REACH: "no daemon answers at the address",
    Exit.DENIED: "the daemon does not know you, or you may not",
    Exit.BUG: "a bug, here or in the daemon",
    Exit.CANNOT_START: "serve, state: cannot listen, or the state is closed, damaged or in use",
    Exit.SYSTEM_REFUSED: "the system refused, such as to write the output",
    Exit.TRY_LATER: "not now: none free, line full, draining; health: not serving",
    Exit.BAD_CONFIG: "the config is wrong, or a reload of it is refused",
    Exit.LEASE_LOST: "run: the lease was lost before the command had ended",
    Exit.TIMED_OUT: "the wait is over; drain --wait: something is still held",
    Exit.CANNOT_RUN: "run: the command cannot be executed",
    Exit.NOT_FOUND: "run: there is no such command",
    Exit.INTERRUPTED: "Ctrl-C",
    Exit.BROKEN_PIPE: "whoever read the output went away",
}

# What the daemon answers, by the name of the gRPC status. A test checks that no status is missing.
BY_STATUS: Final[dict[str, Exit]] = {
    "OK": Exit.OK,
    "INVALID_ARGUMENT": Exit.USAGE,
    "NOT_FOUND": Exit.USAGE,
    "OUT_OF_RANGE": Exit.USAGE,
    "ALREADY_EXISTS": Exit.USAGE,
    "FAILED_PRECONDITION": Exit.USAGE,
    "UNAUTHENTICATED": Exit.DENIED,
    "PERMISSION_DENIED": Exit.DENIED,
    "RESOURCE_EXHAUSTED": Exit.TRY_LATER,
    "UNAVAILABLE": Exit.TRY_LATER,
    "ABORTED": Exit.TRY_LATER,
    "DEADLINE_EXCEEDED": Exit.TIMED_OUT,
    # A daemon older than this command, or no governor at all.
    "UNIMPLEMENTED": Exit.CANNOT_REACH,
    "CANCELLED": Exit.CANNOT_REACH,
    "INTERNAL": Exit.BUG,
    "UNKNOWN": Exit.BUG,
    "DATA_LOSS": Exit.BUG,
}

# Where the reason says more than the status that carries it.
BY_REASON: Final[dict[str, Exit]] = {
    "WAIT_OVER": Exit.TIMED_OUT,
    "UNKNOWN_LEASE": Exit.NOTHING_CHANGED,
    "LEASE_ENDED": Exit.NOTHING_CHANGED,
    "UNAUTHENTICATED": Exit.DENIED,
    "PERMISSION_DENIED": Exit.DENIED,
}


class CommandError(Exception):
    """A command cannot go on, for a reason that is no bug: ``message`` goes to stderr, ``exit`` to the shell.

    ``bare``: the message has lines that each say whence they come. ``reason``, ``facts`` and ``retry`` (after how
    many nanoseconds to try again) are the daemon's own, if it was the daemon who refused.
    """

    def __init__(
        self,
        code: Exit,
        message: str,
        *,
        bare: bool = False,
        reason: str = "",
        facts: Mapping[str, str] | None = None,
        retry: int | None = None,
    ) -> None:
        super().__init__(message)
        self.sentence = message
        self.exit = code
        self.message = message if bare else f"governor: {message}"
        self.reason = reason
        self.facts = facts or {}
        self.retry = retry

    def but(self, sentence: str) -> "CommandError":
        """The same in better words."""
        return CommandError(self.exit, sentence, reason=self.reason, facts=self.facts, retry=self.retry)
