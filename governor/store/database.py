"""The state file: opened, read, written in transactions, folded together.

It knows SQLite and its write-ahead log. It must never know when to write, or what for.

A transaction goes to the end of the log (``state.db-wal``) and is not waited for: it then survives this process, for
the system has it. What moves the log into the file, and flushes both to the disk, is a second connection, in another
thread: a disk may take its time. With ``flush`` each transaction is flushed, and belongs into that thread as well.
"""

import contextlib
import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final, NoReturn

from governor.core.types import Nanos
from governor.process import boot
from governor.store import log, place, schema
from governor.store.batch import PROMISE, STAMP, Batch, wall_clock
from governor.store.errors import UNREADABLE, StoreError, store_error
from governor.store.rows import (
    FADING_COLUMNS,
    LEASE_COLUMNS,
    PAST_COLUMNS,
    RESOURCE_COLUMNS,
    Stored,
    fading_of,
    lease_of,
    past_of,
    resource_of,
)

NAME: Final = "state.db"
_LOG: Final = logging.getLogger("governor")

_FORGET: Final = (
    "BEGIN IMMEDIATE; DELETE FROM lease; DELETE FROM past; DELETE FROM resource; DELETE FROM fading; COMMIT"
)

# Bytes in a page of a new file. A transaction writes whole pages into the log, and as a rule changes one row on each of
# two or three: small ones are quicker than SQLite's 4096, and the log is a quarter as long.
_PAGE: Final = 1024

# Of the header of a file, as far as an application says there whose it is.
_HEADER: Final = 100


class Store:
    """The state file of one folder, which must be locked for as long as this is used."""

    def __init__(self, folder: Path, *, flush: bool = False) -> None:
        """Open it, make it, or make a present one of an older one; raises StoreError."""
        self.path = folder / NAME
        self._log = folder / f"{NAME}-wal"
        self._flush = flush
        self._file: place.Kept | None = None
        self._log_file: place.Which | None = None
        try:
            if not self.path.exists():
                self._make()
            recognise(self.path)
            self._file = place.Kept(self.path)
            self._begin_log()
            self._writer = self._opened(check=True)
            self._folder = connect(self.path, "NORMAL")
            self._look_for_files()
        except BaseException as error:
            if self._file is not None:
                self._file.close()
            if isinstance(error, (*UNREADABLE, OSError)):
                self._fail("cannot be opened", error)
            raise

    @property
    def total_changes(self) -> int:
        """How many rows were ever written."""
        return self._writer.total_changes

    def load(self) -> Stored:
        """All that is in it; raises StoreError."""
        try:
            return load(self._writer)
        except (sqlite3.Error, ValueError) as error:
            self._fail("cannot be read", error)

    def lease_ids(self) -> set[int]:
        """Which leases are in it; raises StoreError."""
        try:
            return {number for (number,) in self._writer.execute("SELECT id FROM lease")}
        except sqlite3.Error as error:
            self._fail("cannot be read", error)

    def write(self, batch: Batch) -> None:
        """All of it, or nothing; raises StoreError."""
        writer = self._writer
        try:
            if batch.stamp is not None:
                self._look_for_files()
            statements = list(batch.statements())
            if len(statements) == 1 and len(statements[0][1]) == 1:
                # On its own a statement is a transaction.
                writer.execute(statements[0][0], statements[0][1][0])
                return
            writer.execute("BEGIN IMMEDIATE")
            for statement, rows in statements:
                if len(rows) == 1:
                    writer.execute(statement, rows[0])
                else:
                    writer.executemany(statement, rows)
            writer.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            with contextlib.suppress(sqlite3.Error):
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
            self._fail("cannot be written", error)

    def restart(self, stamp: Nanos, now: Nanos, grace: Nanos, resources_by: Nanos, *, promise: Nanos = 0) -> None:
        """What counted as of ``stamp`` counts as of ``now``, all of it: who dies next leaves instants of one clock.

        No lease has a grace twice. ``promise``: the grace that the next daemon owes those who are told of it by this
        one. Raises StoreError.
        """
        by = now - stamp
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.execute(
                "UPDATE lease SET deadline = deadline + ? + iif(graced, 0, ?), granted_at = granted_at + ?, graced = 1",
                (by, grace, by),
            )
            self._writer.execute("UPDATE past SET ended_at = ended_at + ?", (by,))
            self._writer.execute(
                "UPDATE resource SET at = min(at + ?, ?), until = iif(override = '', 0, until + ?)",
                (resources_by, now, resources_by),
            )
            self._writer.execute("UPDATE fading SET at = min(at + ?, ?)", (resources_by, now))
            self._writer.execute(STAMP, (now, wall_clock(), boot()))
            self._writer.execute(PROMISE, (promise,))
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            self._fail("cannot be written", error)

    def forget_leases(self) -> None:
        """For a daemon that is to remember none; raises StoreError."""
        try:
            self._writer.executescript(_FORGET)
        except sqlite3.Error as error:
            self._fail("cannot be written", error)

    def damaged(self, why: str) -> StoreError:
        """What to say when its rows can be read, and make no sense together."""
        return store_error(self.path, "", ValueError(why))

    # --- the log --------------------------------------------------------------------------------------------

    def log_bytes(self) -> int:
        """How long the log is; it is as good as none when it cannot be seen."""
        return place.length(self._log)

    def room(self) -> int:
        """How much more there is room for, in bytes; none when that cannot be seen."""
        return place.room(self._log)

    def flush(self) -> None:
        """Move what the log has now into the file, both flushed; others may write meanwhile. Blocks on the disk."""
        self._checkpoint("PASSIVE")

    def fold(self) -> None:
        """The same for all of it, and empty the log, unless somebody reads it. Nobody may write meanwhile."""
        self._checkpoint("TRUNCATE")

    def _checkpoint(self, how: str) -> None:
        try:
            self._folder.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
        except sqlite3.Error as error:
            self._fail("cannot be written", error)

    # --- opening and closing --------------------------------------------------------------------------------

    def reopen(self) -> None:
        """Begin with the file anew, after a failure that may have left its traces; raises StoreError."""
        self._disconnect()
        try:
            self._begin_log()
            self._writer = self._opened(check=False)
            self._folder = connect(self.path, "NORMAL")
        except (*UNREADABLE, OSError) as error:
            self._fail("cannot be opened", error)
        # What was cut off the log may be the room that the file needs; if not, the next transaction says so.
        with contextlib.suppress(StoreError, OSError):
            self.fold()
            self._look_for_files()

    def close(self) -> None:
        """Safe twice. What could not be moved from the log into the file is there for the next start."""
        self._disconnect()
        if self._file is not None:
            self._file.close()

    def _disconnect(self) -> None:
        for connection in (self._folder, self._writer):
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _begin_log(self) -> None:
        """Before SQLite opens it: what it takes for the end of the log must be the end of what was written."""
        found = log.read(self._log)
        if found.problem:
            if log.may_be_cut_off(self.path, boot()):
                _LOG.warning("%s: %s: the machine went down while it was written", self.path, found.problem)
            else:
                raise sqlite3.DatabaseError(found.problem)
        log.cut(self._log, found.committed)

    def _look_for_files(self) -> None:
        """Whoever removes them is not noticed by SQLite, and what it writes then is on nobody's record."""
        assert self._file is not None, "it is open"
        self._file.check()
        if self._log_file or self._log.exists():
            self._log_file = place.same(self._log, self._log_file)

    def _opened(self, *, check: bool) -> sqlite3.Connection:
        # SQLite would make a new one of one that is gone.
        assert self._file is not None, "it is known before it is opened"
        self._file.check()
        self._log_file = None
        connection = connect(self.path, "FULL" if self._flush else "OFF")
        try:
            # `log.read` relies on it: each page is written once in a transaction, a log over another cuts that one off.
            connection.execute("PRAGMA cache_spill = OFF")
            connection.execute("PRAGMA journal_size_limit = 0").fetchone()
            if check:
                migrate(connection, self.path)
                look_over(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self) -> None:
        """A new file appears whole: an empty one is a damaged one."""
        if self._log.exists():
            raise StoreError(
                f"{self.path}: is missing, but its log {self._log.name} is there: bring the file back, or move the log "
                "away and start with nothing remembered",
                damaged=True,
            )
        new = self.path.with_suffix(".new")
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(new, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION}")
            migrate(connection, self.path)
        finally:
            connection.close()
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _fail(self, what: str, error: Exception) -> NoReturn:
        raise store_error(self.path, what, error) from error


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection that never waits for a lock, and leaves the log to `Store.flush`."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
        connection.execute(f"PRAGMA synchronous = {synchronous}")
    except BaseException:
        connection.close()
        raise
    return connection


def recognise(path: Path) -> None:
    """Raise sqlite3.DatabaseError if this is no file of ours: before SQLite writes anything into it.

    Raises OSError when it cannot be read; of a pipe, that would take until somebody writes to it.
    """
    with open(path, "rb", opener=_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "not a regular file")
        header = file.read(_HEADER)
    if not header.startswith(b"SQLite format 3\0") or header[68:72] != schema.APPLICATION.to_bytes(4):
        raise sqlite3.DatabaseError("it does not begin like a state of governor")


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Make a present file of an older one, or of an empty one; raises StoreError for a newer one."""
    version = version_of(connection, path)
    if version < 1 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise sqlite3.DatabaseError("it is of no state version")
    for number, script in enumerate(schema.MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT")


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """Which version it is of; raises StoreError for a newer one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(schema.MIGRATIONS):
        raise StoreError(
            f"{path}: was written by a newer governor (state version {version}; this one knows "
            f"{len(schema.MIGRATIONS)}): start that one again, or this one with another state folder"
        )
    return version


def look_over(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if the file is not as SQLite left it."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def load(connection: sqlite3.Connection) -> Stored:
    """All rows; raises sqlite3.Error or ValueError."""
    meta = connection.execute("SELECT reserved, stamp, written, boot, promised FROM meta").fetchone()
    if meta is None:
        raise ValueError("the row of meta is missing")
    resources = connection.execute(f"SELECT {RESOURCE_COLUMNS} FROM resource ORDER BY rowid")  # noqa: S608
    fading = connection.execute(f"SELECT {FADING_COLUMNS} FROM fading ORDER BY rowid")  # noqa: S608
    leases = connection.execute(f"SELECT {LEASE_COLUMNS} FROM lease ORDER BY id")  # noqa: S608
    past = connection.execute(f"SELECT {PAST_COLUMNS} FROM past ORDER BY ended_at, id")  # noqa: S608
    reserved, stamp, written, booted, promised = meta
    return Stored(
        reserved,
        stamp,
        written,
        booted,
        [resource_of(row) for row in resources],
        [lease_of(row) for row in leases],
        [past_of(row) for row in past],
        promised,
        [fading_of(row) for row in fading],
    )
