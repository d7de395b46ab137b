"""Which config is in force, in words and as a record.

It knows how instants read. It must never read a config.
"""

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from governor.wording import folded, printable

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from governor.v1.governor_pb2 import ConfigState

BUILT_IN: Final = "the built-in one"
_DIGITS: Final = 12
# A file may have hundreds of mistakes.
_MOST: Final = 10


def lines(state: "ConfigState", width: int | None) -> Iterator[str]:
    """For people, at a terminal of this width; what is wrong is red."""
    yield from folded(line(state), width)
    for each in _problems(state):
        yield from (click.style(part, fg="red") for part in folded(each, width))


def _problems(state: "ConfigState") -> Iterator[str]:
    if not state.problems:
        return
    yield f"a reload was refused at {instant(state.refused_at)}, and nothing of it is in force:"
    for problem in state.problems[:_MOST]:
        yield f"  {printable(problem)}"
    if len(state.problems) > _MOST:
        yield f"  and {len(state.problems) - _MOST} more: governor check {printable(state.source)}"


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
