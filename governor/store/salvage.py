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

from governor.process import boot
from governor.store import log, schema, sense
from governor.store.batch import Batch
from governor.store.database import (
    NAME,
    Store,
    load,
    look_over,
    recognise,
    version_of,
)
from governor.store.errors import UNREADABLE, StoreError, store_error
from governor.store.rows import (
    FADING_COLUMNS,
    LEASE_COLUMNS,
    PAST_COLUMNS,
    RESOURCE_COLUMNS,
    Plain,
    Stored,
    fading_of,
    fading_row,
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


def read(path: Path) -> Stored:
    """All that is in a file, whether or not it makes sense together. Raises StoreError when it cannot be read."""
    with _reading(path) as database:
        try:
            if problem := _log_problem(path):
                raise sqlite3.DatabaseError(problem)
            look_over(database)
            return load(database)
        except (*UNREADABLE, ValueError) as error:
            raise store_error(path, "cannot be read", error) from error


def examine(path: Path) -> Stored:
    """All that is in a file, which is as it should be. Raises StoreError if a daemon would not start on it."""
    stored = read(path)
    if problems := sense.problems(stored):
        raise store_error(path, "", ValueError(problems))
    return stored


def save(path: Path) -> Saved:
    """Whatever can be read. Raises StoreError when that is nothing at all, or nothing is wrong with it but its age."""
    problem = _log_problem(path)
    lost = [f"what was written last: {problem}"] if problem else []
    with _reading(path, damaged=True) as database:
        meta = _meta(database, lost)
        leases = _rows(database, f"SELECT {LEASE_COLUMNS} FROM lease", "lease", lost, lease_of)  # noqa: S608
        past = _rows(database, f"SELECT {PAST_COLUMNS} FROM past", "past", lost, past_of)  # noqa: S608
        found = _rows(database, f"SELECT {RESOURCE_COLUMNS} FROM resource", "resource", lost, resource_of)  # noqa: S608
        faded = _rows(
            database,
            f"SELECT {FADING_COLUMNS} FROM fading",  # noqa: S608
            "resource that was declared before",
            lost,
            fading_of,
        )
    fading = list({(each.spec.name, each.spec.kind): each for each in faded}.values())
    resources = list({each.spec.name: each for each in found}.values())
    leases.sort(key=lambda row: row.held.id)
    highest = max([row.held.id for row in leases] + [each.id for each in past], default=0)
    if meta is None:
        lost.append(f"how high lease ids are: they go on {_MARGIN} above the highest that was found")
        meta = (highest + _MARGIN, 0, "", "", 0)
    reserved, stamp, written, booted, promised = meta
    resources += sense.stand_ins(leases, {each.spec.name for each in resources}, stamp, lost)
    stored = Stored(max(reserved, highest), stamp, written, booted, resources, leases, past, promised, fading)
    return Saved(sense.without_nonsense(stored, lost), lost)


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
                    fading=[fading_row(each) for each in stored.fading],
                    reserved=stored.reserved,
                    promised=stored.promised,
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
        try:
            problem = log.read(wal).problem
        except OSError as error:
            return f"its log {wal.name} cannot be read: {error.strerror}"
        if not problem:
            return ""
        time.sleep(_STILL_S)
        if _state(wal) == before:
            with suppress(*UNREADABLE):
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
def _reading(path: Path, *, damaged: bool = False) -> Iterator[sqlite3.Connection]:
    """Read-only, also beside a daemon that runs. ``damaged``: also a file that is shorter than it says."""
    try:
        recognise(path)
        # SQLite would make a log to read a file that has none. Where it cannot, nobody can write either.
        fixed = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
        how = "mode=ro&immutable=1" if fixed else "mode=ro"
        database = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, timeout=1)
    except FileNotFoundError as error:
        told = "there is no such file; name the state folder of a daemon, or the file in it"
        raise StoreError(f"{path}: {told}") from error
    except (OSError, sqlite3.Error) as error:
        raise store_error(path, "cannot be read", error) from error
    with closing(database):
        try:
            if damaged:
                database.execute("PRAGMA writable_schema = ON")
            version = version_of(database, path)
        except UNREADABLE as error:
            raise store_error(path, "cannot be read", error) from error
        if 0 < version < len(schema.MIGRATIONS):
            raise StoreError(f"{path}: is of an older governor (state version {version}): start this one on it first")
        if version < 1 and not damaged:
            raise store_error(path, "", ValueError("it is of no state version"))
        yield database


def _meta(database: sqlite3.Connection, lost: list[str]) -> tuple[int, int, str, str, int] | None:
    try:
        row = database.execute("SELECT reserved, stamp, written, boot, promised FROM meta").fetchone()
    except UNREADABLE as error:
        lost.append(f"meta: {error}")
        return None
    match row:
        case (int(reserved), int(stamp), str(written), str(boot), int(promised)):
            return reserved, stamp, written, boot, promised
        case _:
            lost.append(f"meta: {row!r} makes no sense")
            return None


def _rows(
    database: sqlite3.Connection, query: str, table: str, lost: list[str], read: Callable[[Plain], _Row]
) -> list[_Row]:
    """From either end until it fails: what lies between is on a page that cannot be read."""
    found: dict[object, _Row] = {}
    for order in ("ASC", "DESC"):
        try:
            for row in database.execute(f"{query} ORDER BY rowid {order}"):
                if row[:2] in found:  # no two rows begin with the same two columns
                    continue
                try:
                    found[row[:2]] = read(row)
                except ValueError as error:
                    if order == "ASC":
                        lost.append(str(error))
        except UNREADABLE as error:
            if order == "ASC":
                lost.append(f"some rows of {table}: {error}")
            continue
        break
    return list(found.values())


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists() or os.path.lexists(f"{aside}-wal"):
        number += 1
    return aside
