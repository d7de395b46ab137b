"""Batch: all that one transaction writes, and in which statements.

It knows the tables. It must never know a file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from governor.clock import unix_nanos
from governor.core.types import SECOND, Nanos
from governor.process import boot
from governor.store.rows import FADING_COLUMNS, LEASE_COLUMNS, PAST_COLUMNS, RESOURCE_COLUMNS, Plain, SteeredRow
from governor.store.stretches import run, stretches

_PUT_LEASE: Final = f"INSERT OR REPLACE INTO lease ({LEASE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_DROP_LEASE: Final = "DELETE FROM lease WHERE id = ?"
_DROP_LEASES: Final = "DELETE FROM lease WHERE id BETWEEN ? AND ?"
_MOVE_LEASES: Final = "UPDATE lease SET deadline = ?, orphaned = ?, graced = ? WHERE id BETWEEN ? AND ?"
_PUT_PAST: Final = f"INSERT OR REPLACE INTO past ({PAST_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_DROP_PAST: Final = "DELETE FROM past WHERE id = ?"
_PUT_RESOURCE: Final = (
    f"INSERT OR REPLACE INTO resource ({RESOURCE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
)
_PUT_FADING: Final = f"INSERT INTO fading ({FADING_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
_DROP_RESOURCE: Final = "DELETE FROM resource WHERE name = ?"
_STEER: Final = (
    "UPDATE resource SET memory = ?, at = ?, standing = ?, override = ?, until = ?, said = ?, override_said = ?"
    " WHERE name = ?"
)
_REMEMBER: Final = "UPDATE resource SET memory = ?, at = ? WHERE name = ?"
STAMP: Final = "UPDATE meta SET stamp = ?, written = ?, boot = ?"
_RESERVE: Final = "UPDATE meta SET reserved = ?"
PROMISE: Final = "UPDATE meta SET promised = ?"


@dataclass(slots=True)
class Batch:
    """What one transaction writes; each row is the columns of its statement."""

    leases: list[Plain] = field(default_factory=list)
    gone: list[tuple[int]] = field(default_factory=list)
    # In the order of their ids.
    moved: list[tuple[Nanos, bool, bool, int]] = field(default_factory=list)
    past: list[Plain] = field(default_factory=list)
    gone_past: list[tuple[int]] = field(default_factory=list)
    # All of them, or None if they are as they were.
    resources: list[Plain] | None = None
    fading: list[Plain] | None = None
    gone_resources: list[tuple[str]] = field(default_factory=list)
    memories: list[tuple[str, Nanos, str]] = field(default_factory=list)
    # Of which something else is in force, or said, than before.
    steered: list[SteeredRow] = field(default_factory=list)
    # Every deadline moves by the first, and none stays before the second.
    freeze: tuple[Nanos, Nanos] | None = None
    reserved: int | None = None
    promised: Nanos | None = None
    stamp: Nanos | None = None

    def statements(self) -> Iterator[tuple[str, Sequence[Sequence[int | str]]]]:
        """Each with its rows, in an order in which they do not undo one another."""
        if self.freeze is not None:
            yield "UPDATE lease SET deadline = max(deadline + ?, ?)", [self.freeze]
        if self.resources is not None:
            yield "DELETE FROM resource", [()]
        if self.fading is not None:
            yield "DELETE FROM fading", [()]
        for statement, rows in (
            (_DROP_LEASES, together) if (together := run(self.gone)) else (_DROP_LEASE, self.gone),
            (_PUT_LEASE, self.leases),
            (_MOVE_LEASES, stretches(self.moved)),
            (_DROP_PAST, self.gone_past),
            (_PUT_PAST, self.past),
            (_DROP_RESOURCE, self.gone_resources),
            (_PUT_RESOURCE, self.resources),
            (_PUT_FADING, self.fading),
            (_REMEMBER, self.memories),
            (_STEER, self.steered),
        ):
            if rows:
                yield statement, rows
        if self.reserved is not None:
            yield _RESERVE, [(self.reserved,)]
        if self.promised is not None:
            yield PROMISE, [(self.promised,)]
        if self.stamp is not None:
            yield STAMP, [(self.stamp, wall_clock(), boot())]


def wall_clock() -> str:
    """Now, for people."""
    return datetime.fromtimestamp(unix_nanos() / SECOND, UTC).isoformat(timespec="milliseconds")
