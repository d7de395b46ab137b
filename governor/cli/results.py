"""What became of leases, as `release`, `renew` and `revoke` tell it.

It knows the states of a lease that a call was about. It must never know which call that was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from governor.cli import complete
from governor.cli.exits import CommandError, Exit
from governor.cli.options import Settings, Whole
from governor.cli.output import say, say_json
from governor.wording import MILLISECOND, SECOND, printable, span

if TYPE_CHECKING:
    from governor.v1.governor_pb2 import LeaseResult

leases_argument = click.argument(
    "leases", metavar="ID...", nargs=-1, required=True, type=Whole(1, 2**63 - 1), shell_complete=complete.leases
)

# What the calls are for; with any other state, something was not done.
DONE: Final = frozenset({"released", "renewed", "revoked"})


@dataclass(slots=True, frozen=True)
class Result:
    """What became of one lease. ``reason`` and ``ago`` are of one that had ended, ``remaining`` is of a renewed one.

    Lengths are in nanoseconds.
    """

    lease: int
    state: str
    reason: str | None = None
    ago: int | None = None
    remaining: int | None = None

    def line(self) -> str:
        """For people."""
        if self.reason is not None and self.ago is not None:
            word = f"had ended {span(self.ago, passed=True)} ago ({self.reason})"
        elif self.remaining is not None:
            word = f"ends in {span(self.remaining)}"
        elif self.state == "refused":
            word = "refused: longer than one of its resources allows; it lives on as it was"
        else:
            word = self.state
        return printable(f"lease {self.lease}: {word}")

    def record(self) -> dict[str, object]:
        """For programs."""
        ago = None if self.ago is None else self.ago / SECOND
        return {"lease": self.lease, "state": self.state, "reason": self.reason, "ended_seconds_ago": ago}

    def record_of_renewal(self) -> dict[str, object]:
        """The same, with how long it has from now."""
        remaining = None if self.remaining is None else self.remaining / SECOND
        return {**self.record(), "remaining_seconds": remaining}


def results_of(ask: "Callable[[], Sequence[LeaseResult]]", leases: Sequence[int], settings: Settings) -> list[Result]:
    """What ``ask`` brings, in one shape; raises CommandError.

    Of one lease alone the daemon tells in a status what it tells of several in their results: to people that is a
    sentence, programs need not know.
    """
    try:
        return [_result(result) for result in ask()]
    except CommandError as error:
        if error.exit is not Exit.NOTHING_CHANGED or not settings.json:
            raise
        return [_refused(leases[0], error)]


def tell(results: Sequence[Result], settings: Settings, record: Callable[[Result], dict[str, object]]) -> Exit:
    """Print them; the exit code says whether all was done."""
    if settings.json:
        say_json({"results": [record(result) for result in results]})
    else:
        say([result.line() for result in results])
    return Exit.OK if all(result.state in DONE for result in results) else Exit.NOTHING_CHANGED


def _result(result: "LeaseResult") -> Result:
    state = result.State.Name(result.state).lower()
    if result.HasField("ended"):
        return Result(result.lease_id, state, result.ended.reason, result.ended.ago.ToNanoseconds())
    remaining = result.remaining.ToNanoseconds() if result.HasField("remaining") else None
    return Result(result.lease_id, state, remaining=remaining)


def _refused(lease: int, error: CommandError) -> Result:
    if error.reason != "LEASE_ENDED":
        return Result(lease, "unknown")
    ago = error.facts.get("ended_ago_ms", "")
    return Result(lease, "ended", error.facts.get("ended"), int(ago) * MILLISECOND if ago.isdecimal() else None)
