"""Salvage: a state file looked at without a daemon, and what can be had of a damaged one.

It knows how to read a file that may be damaged, row by row. It must never change it: what it saves goes into a new
file, and the damaged one is kept beside it.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from governor.core.snapshot import Past
from governor.store import log, schema
from governor.store.database import (
    NAME,
    Batch,
    Store,
    StoreError,
    boot,
    load,
    look_over,
    recognise,
    store_error,
)
from governor.store.rows import (
    LEASE_COLUMNS,
    PAST_COLUMNS,
    RESOURCE_COLUMNS,
    LeaseRow,
    Plain,
    Stored,
    lease_of,
    lease_row,
    past_of,
    past_row,
    resource_of,
    resource_row,
)

_Row = TypeVar("_Row")

# A new file's ids begin so far above the highest that was seen, when nobody can tell how many were given out.
_MARGIN: Final = 1_000_000_000
# How often a log is looked at that is being written, and how long it lies still when it is not, in seconds.
_LOOKS: Final = 4
_STILL_S: Final = 0.05


@dataclass(slots=True)
class Saved:
    """What could be read of a damaged file, and in a sentence each what could not."""

    stored: Stored
    lost: list[str] = field(default_factory=list)


def examine(path: Path) -> Stored:
    """All that is in a file, which is as it should be. Raises StoreError otherwise."""
    with _reading(path) as database:
        try:
            if problem := _log_problem(path):
                raise sqlite3.DatabaseError(problem)
            look_over(database)
            return load(database)
        except (sqlite3.Error, ValueError) as error:
            raise store_error(path, "cannot be read", error) from error


def save(path: Path) -> Saved:
    """Whatever can be read. Raises StoreError when that is nothing at all, or nothing is wrong with it but its age."""
    problem = _log_problem(path)
    lost = [f"what was written last: {problem}"] if problem else []
    with _reading(path) as database:
        meta = _meta(database, lost)
        leases = _rows(database, f"SELECT {LEASE_COLUMNS} FROM lease", "lease", lost, lease_of)  # noqa: S608
        past = _rows(database, f"SELECT {PAST_COLUMNS} FROM past", "past", lost, past_of)  # noqa: S608
        found = _rows(database, f"SELECT {RESOURCE_COLUMNS} FROM resource", "resource", lost, resource_of)  # noqa: S608
    resources = list({each.spec.name: each for each in found}.values())
    leases = _fitting(leases, {each.spec.name for each in resources}, lost)
    highest = max([row.held.id for row in leases] + [each.id for each in past], default=0)
    if meta is None:
        lost.append(f"how high lease ids are: they go on {_MARGIN} above the highest that was found")
        meta = (highest + _MARGIN, 0, "", "")
    reserved, stamp, written, boot = meta
    return Saved(Stored(max(reserved, highest), stamp, written, boot, resources, leases, _ended(past, leases)), lost)


def replace(path: Path, saved: Saved) -> Path:
    """Put what was saved in the place of the damaged file, which must not be in use; where that is now."""
    fresh = path.parent / "repaired"
    fresh.mkdir(mode=0o700, exist_ok=False)
    stored = saved.stored
    try:
        with closing(Store(fresh)) as store:
            store.write(
                Batch(
                    leases=[lease_row(row.held, graced=row.graced) for row in stored.leases],
                    past=[past_row(each) for each in stored.past],
                    resources=[resource_row(each) for each in stored.resources],
                    reserved=stored.reserved,
                    stamp=stored.stamp,
                )
            )
            store.fold()
        aside = _aside(path)
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
        if path.exists():
            path.rename(aside)
        (fresh / NAME).rename(path)
    finally:
        for left in fresh.iterdir():
            left.unlink()
        fresh.rmdir()
    return aside


def _log_problem(path: Path) -> str:
    """What is wrong with its log. What is written while it is read looks like damage: only what lies still counts."""
    wal = path.with_name(f"{path.name}-wal")
    for _ in range(_LOOKS):
        before = _state(wal)
        problem = log.read(wal).problem
        if not problem:
            return ""
        time.sleep(_STILL_S)
        if _state(wal) == before:
            with suppress(sqlite3.Error):
                return "" if log.may_be_cut_off(path, boot()) else problem
            return problem
    return ""  # a daemon is busy with it, and has looked at it itself


def _state(wal: Path) -> tuple[int, int] | None:
    try:
        stat = wal.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Read-only, also beside a daemon that runs."""
    try:
        recognise(path)
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=1)
    except (OSError, sqlite3.Error) as error:
        raise store_error(path, "cannot be read", error) from error
    with closing(database):
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise store_error(path, "cannot be read", error) from error
        if version != len(schema.MIGRATIONS):
            raise StoreError(
                f"{path}: is of state version {version}, and this governor knows {len(schema.MIGRATIONS)}: use the one "
                "that wrote it, or start this one on it first"
            )
        yield database


def _meta(database: sqlite3.Connection, lost: list[str]) -> tuple[int, int, str, str] | None:
    try:
        row: tuple[int, int, str, str] | None = database.execute(
            "SELECT reserved, stamp, written, boot FROM meta"
        ).fetchone()
    except sqlite3.Error as error:
        lost.append(f"meta: {error}")
        return None
    return row


def _rows(
    database: sqlite3.Connection, query: str, table: str, lost: list[str], read: Callable[[Plain], _Row]
) -> list[_Row]:
    """From either end until it fails: what lies between is on a page that cannot be read."""
    found: dict[object, _Row] = {}
    for order in ("ASC", "DESC"):
        try:
            for row in database.execute(f"{query} ORDER BY rowid {order}"):
                if row[0] in found:
                    continue
                try:
                    found[row[0]] = read(row)
                except ValueError as error:
                    if order == "ASC":
                        lost.append(str(error))
        except sqlite3.Error as error:
            if order == "ASC":
                lost.append(f"some rows of {table}: {error}")
            continue
        break
    return list(found.values())


def _fitting(leases: list[LeaseRow], names: set[str], lost: list[str]) -> list[LeaseRow]:
    """Those whose resources are known; of a request id only one can stand."""
    fitting: list[LeaseRow] = []
    requests: set[tuple[str, str]] = set()
    for row in sorted(leases, key=lambda each: each.held.id):
        held = row.held
        request = (held.client, held.request_id)
        missing = [grant.resource for grant in held.grants if grant.resource not in names | set(held.spent)]
        if missing:
            lost.append(f"lease {held.id}: of its resource {missing[0]} nothing is known")
        elif held.request_id and request in requests:
            lost.append(f"lease {held.id}: another one has its request id")
        else:
            requests.add(request)
            fitting.append(row)
    return fitting


def _ended(past: list[Past], leases: list[LeaseRow]) -> list[Past]:
    live = {row.held.id for row in leases}
    return [each for each in past if each.id not in live]


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists() or os.path.lexists(f"{aside}-wal"):
        number += 1
    return aside
