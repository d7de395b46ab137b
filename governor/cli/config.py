"""Which config is in force, in words and as a record.

It knows how instants read. It must never read a config.
"""

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from governor.wording import printable

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from governor.v1.governor_pb2 import ConfigState

BUILT_IN: Final = "the built-in one"
_DIGITS: Final = 12
# A file may have hundreds of mistakes.
_MOST: Final = 10


def lines(state: "ConfigState") -> Iterator[str]:
    """For people; what is wrong is red."""
    yield line(state)
    if not state.problems:
        return
    yield click.style(f"a reload was refused at {instant(state.refused_at)}, and nothing of it is in force:", fg="red")
    for problem in state.problems[:_MOST]:
        yield click.style(f"  {printable(problem)}", fg="red")
    if len(state.problems) > _MOST:
        yield click.style(f"  and {len(state.problems) - _MOST} more: governor check {state.source}", fg="red")


def line(state: "ConfigState") -> str:
    """What is in force, since when."""
    source = printable(state.source) or BUILT_IN
    return f"config {source} ({state.hash[:_DIGITS]}) in force since {instant(state.since)}"


def record(state: "ConfigState") -> dict[str, object]:
    """For programs."""
    return {
        "source": state.source or None,
        "hash": state.hash,
        "since": state.since.ToJsonString(),
        "problems": list(state.problems),
        "refused_at": state.refused_at.ToJsonString() if state.HasField("refused_at") else None,
    }


def instant(at: "Timestamp") -> str:
    """In the time zone of this machine: ``2026-11-29 21:03:11``."""
    moment = dt.datetime.fromtimestamp(at.seconds, dt.UTC)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
