"""`governor release`: leases given back, from the command line."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from governor.cli.exits import CommandError, Exit
from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json
from governor.wording import MILLISECOND, SECOND, printable, span

if TYPE_CHECKING:
    from governor.v1.governor_pb2 import LeaseResult


@click.command(epilog=examples("governor release 17", "governor release 17 18 --outcome broken"))
@click.argument("leases", metavar="ID...", nargs=-1, required=True, type=click.IntRange(1, 2**63 - 1))
@click.option(
    "--outcome",
    type=click.Choice(["ok", "broken", "unknown"]),
    default="unknown",
    show_default=True,
    help="How the pool members were; a broken one is set aside for a while.",
)
@address_option
@output_option
@with_settings
def release(settings: Settings, *, leases: tuple[int, ...], outcome: str) -> Exit:
    """Give leases back, by their ids.

    Exits with 1 where a lease had ended before or is unknown: what it protected was not protected to the end.
    The others are released all the same.

    JSON: {"results": [...]} in the order asked, each with lease, state (released, ended or unknown), reason
    and ended_seconds_ago. For a lease that had ended, reason is released, expired, revoked, disconnected or
    spent; else the last two are null.
    """
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import Outcome, ReleaseRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    request = ReleaseRequest(lease_ids=leases, outcome=Outcome.Value(f"OUTCOME_{outcome.upper()}"))
    with connect(settings.where()) as daemon:
        stub = GovernorStub(daemon.channel)
        try:
            results = [_result(result) for result in daemon.ask(stub.Release, request).results]
        except CommandError as error:
            # Of one lease alone the status tells what several say in their results.
            if error.exit is not Exit.NOTHING_CHANGED or not settings.json:
                raise
            results = [_refused(leases[0], error)]
    if settings.json:
        say_json({"results": [result.record() for result in results]})
    else:
        say([result.line() for result in results])
    return Exit.OK if all(result.state == "released" for result in results) else Exit.NOTHING_CHANGED


@dataclass(slots=True, frozen=True)
class Result:
    """What became of one lease; ``reason`` and ``ago`` (nanoseconds) are of one that had ended."""

    lease: int
    state: str
    reason: str | None = None
    ago: int | None = None

    def line(self) -> str:
        """For people."""
        if self.reason is None or self.ago is None:
            return f"lease {self.lease}: {self.state}"
        return printable(f"lease {self.lease}: had ended {span(self.ago)} ago ({self.reason})")

    def record(self) -> dict[str, object]:
        """For programs."""
        ago = None if self.ago is None else self.ago / SECOND
        return {"lease": self.lease, "state": self.state, "reason": self.reason, "ended_seconds_ago": ago}


def _result(result: "LeaseResult") -> Result:
    state = result.State.Name(result.state).lower()
    if not result.HasField("ended"):
        return Result(result.lease_id, state)
    return Result(result.lease_id, state, result.ended.reason, result.ended.ago.ToNanoseconds())


def _refused(lease: int, error: CommandError) -> Result:
    if error.reason != "LEASE_ENDED":
        return Result(lease, "unknown")
    ago = error.facts.get("ended_ago_ms", "")
    return Result(lease, "ended", error.facts.get("ended"), int(ago) * MILLISECOND if ago.isdecimal() else None)
