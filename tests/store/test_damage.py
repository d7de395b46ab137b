"""Damaged files: a daemon refuses one, or starts on it after all; `check` says which, and `repair` helps."""

import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from governor.core.engine import Engine
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import Override, Remembered, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import SECOND, Claim, EndReason, Grant, LeaseId, Member, Standing
from governor.driver import Driver
from governor.restart import RestartError, go_on
from governor.store import NAME, Batch, Store, StoreError
from governor.store.rows import lease_row, past_row, resource_row
from governor.store.salvage import examine, replace, save
from governor.testing.clock import FakeClock

LEASES: Final = 60
# What a byte or a number may have become.
ODD: Final[tuple[object, ...]] = (0, -1, 1, 2**70, 1.5, True, None, "x", "", [], {}, [1], {"a": 1})


def resource(name: str, limit: LimitSpec) -> ResourceSpec:
    """With lengths that an operator might have written."""
    return ResourceSpec(name, limit, SECOND, 60 * SECOND, 2 * SECOND, SECOND, 5)


RESOURCES: Final = (
    Remembered(resource("many", SemaphoreSpec(None)), {}, 5),
    Remembered(resource("db", PoolSpec((MemberSpec("a"), MemberSpec("b")))), {}, 5),
    Remembered(resource("api", RateLimitSpec((Window(2, SECOND, 2),))), {"spent": [SECOND], "last": 0, "since": 0}, 5),
    Remembered(
        resource("web", RateLimitSpec(())),
        {"spent": [SECOND], "last": 0, "since": 0},
        5,
        Standing.PAUSED,
        Override(RateLimitSpec((Window(1, SECOND, 1),)), 90 * SECOND),
    ),
)


def held(number: int, grant: Grant) -> Held:
    """A lease."""
    length = 30 * SECOND
    return Held(
        LeaseId(number), (grant,), 50 * SECOND, "me", length, f"r{number}", (), length, 4, 0, orphaned=number % 2 == 0
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a daemon that has ended."""
    with closing(Store(tmp_path)) as store:
        leases = [held(number, Grant("many", 1)) for number in range(1, LEASES)]
        leases.append(held(LEASES, Grant("db", 1, (Member("a"),))))
        past = [
            Past(LeaseId(100 + number), (Claim("many", 1),), "me", f"p{number}", EndReason.RELEASED, 3, 0)
            for number in range(20)
        ]
        store.write(
            Batch(
                leases=[lease_row(lease, graced=False) for lease in leases],
                past=[past_row(each) for each in past],
                resources=[resource_row(each) for each in RESOURCES],
                reserved=1000,
                promised=7,
                stamp=10,
            )
        )
        store.fold()
    return tmp_path / NAME


def start(path: Path) -> int:
    """As a daemon does, and let it work a little; how many leases live. Raises StoreError as a daemon would."""
    with closing(Store(path.parent)) as store:
        stored = store.load()
        clock = FakeClock()
        driver = Driver(Engine(first_id=stored.reserved + 1), clock)
        try:
            go_on(driver, stored, [each.spec for each in stored.resources], 5 * SECOND, clock.time, "")
        except RestartError as error:
            raise store.damaged(str(error)) from error
        lives = driver.live_leases
        driver.reserve_ids(LeaseId(stored.reserved + 1000))
        for each in stored.resources:
            for permits in (1, 2):
                driver.ask((Claim(each.spec.name, permits),), wait=SECOND)
            resource_row(driver.remember(each.spec.name))
        clock.advance(100 * SECOND)
        driver.close()
    return lives


# --- what may become of a file ------------------------------------------------------------------------------------


def cut_short(path: Path, chance: random.Random) -> None:
    """A disk was full when it was copied."""
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(1, len(data))])


def pages_zeroed(path: Path, chance: random.Random) -> None:
    """But for the first page, without which nobody knows what it is."""
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 3)):
        page = chance.randrange(1024, len(data), 1024)
        data[page : page + 1024] = bytes(1024)
    path.write_bytes(data)


def pages_swapped(path: Path, chance: random.Random) -> None:
    """What is read is a page, but of something else."""
    data = path.read_bytes()
    pages = [data[at : at + 1024] for at in range(0, len(data), 1024)]
    one, other = chance.sample(range(1, len(pages)), 2)
    pages[one], pages[other] = pages[other], pages[one]
    path.write_bytes(b"".join(pages))


def bytes_changed(path: Path, chance: random.Random) -> None:
    """Anywhere behind the header."""
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 40)):
        data[chance.randrange(100, len(data))] = chance.randrange(256)
    path.write_bytes(data)


def schema_garbled(path: Path, chance: random.Random) -> None:
    """Where SQLite quotes what it read, which is no text any more."""
    data = bytearray(path.read_bytes())
    at = data.index(b"CREATE TABLE") + chance.randrange(12)
    data[at] = 0x80 + chance.randrange(0x80)
    path.write_bytes(data)


def a_column_changed(path: Path, chance: random.Random) -> None:
    """By somebody with sqlite3, so that each row is well and all of them together are not."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        table = chance.choice(("lease", "past", "resource", "meta"))
        columns = [(row[1], row[2]) for row in database.execute(f"PRAGMA table_info({table})")]
        column, kind = chance.choice(columns)
        odd = chance.choice(
            (0, -1, 5, 2**63 - 1) if kind == "INTEGER" else ("", "{}", "[]", "null", "nonsense", "[" * 3000)
        )
        rowid = database.execute(f"SELECT rowid FROM {table} ORDER BY rowid LIMIT 1").fetchone()[0]  # noqa: S608
        database.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?", (odd, rowid))  # noqa: S608


def something_in_json_changed(path: Path, chance: random.Random) -> None:
    """One number, one text, or one part of what is declared, remembered or lent."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        table, column = chance.choice(
            (
                ("resource", "spec"),
                ("resource", "spec"),
                ("resource", "memory"),
                ("lease", "grants"),
                ("past", "claims"),
            )
        )
        rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()  # noqa: S608
        rowid, text = chance.choice(rows)
        whole = [json.loads(text)]
        chance.choice(list(places(whole)))(chance.choice(ODD))
        changed = json.dumps(whole[0])
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, rowid))  # noqa: S608


def places(plain: object) -> Iterator[Callable[[object], None]]:
    """Each puts something else into one place of it."""
    items: list[tuple[object, object]] = []
    if isinstance(plain, dict):
        items = list(plain.items())
    elif isinstance(plain, list):
        items = list(enumerate(plain))
    for key, value in items:

        def put(other: object, key: object = key) -> None:
            plain[key] = other  # type: ignore[index]  # it is one of the two

        yield put
        yield from places(value)


def a_table_lost(path: Path, chance: random.Random) -> None:
    """Or emptied, or of another shape."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        table = chance.choice(("lease", "past", "resource", "meta"))
        what = chance.choice(("DROP TABLE {}", "DELETE FROM {}", "ALTER TABLE {} RENAME TO other"))
        database.execute(what.format(table))


def the_version_lost(path: Path, chance: random.Random) -> None:
    """It says that it is of no version."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version = {chance.choice((0, -5))}")


DAMAGES: Final = (
    cut_short,
    pages_zeroed,
    pages_swapped,
    bytes_changed,
    schema_garbled,
    a_column_changed,
    something_in_json_changed,
    a_table_lost,
    the_version_lost,
)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_has_become_of_a_file(path: Path, damage: Callable[[Path, random.Random], None], seed: int) -> None:
    """It is refused as damaged and left alone, or a daemon works on it; `check` knows which; `repair` makes it work."""
    damage(path, random.Random(f"{damage.__name__} {seed}"))
    before = path.read_bytes()

    started, checked = outcome(start, path), outcome(lambda path: len(examine(path).leases), path)

    if isinstance(started, int):
        assert checked == started
        return
    assert isinstance(checked, StoreError)
    assert (started.damaged, checked.damaged, str(started).count("\n")) == (True, True, 0)
    assert path.read_bytes() == before
    try:
        saved = save(path)
    except StoreError:
        assert damage in {cut_short, schema_garbled, bytes_changed}, "what SQLite can read is saved"
        return
    aside = replace(path, saved)
    assert aside.read_bytes() == before
    assert start(path) == len(saved.stored.leases) == len(examine(path).leases)


def outcome(do: Callable[[Path], int], path: Path) -> int | StoreError:
    """What came of it."""
    try:
        return do(path)
    except StoreError as error:
        return error


def test_leases_outlive_what_was_known_of_their_resources(path: Path) -> None:
    """They are what must not be forgotten: the config says anyway what the resources are."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DROP TABLE resource")

    saved = save(path)
    replace(path, saved)

    assert len(saved.stored.leases) == LEASES
    assert [line for line in saved.lost if "all but what is lent" in line] == [
        "resource many: all but what is lent of it",
        "resource db: all but what is lent of it",
    ]
    assert examine(path).promised == 7, "clients rely on what they were told"
    assert start(path) == LEASES


def test_a_copy_where_nothing_can_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what nobody can change, for SQLite would make a log beside it. It is played: root may write anywhere."""
    asked: list[str] = []
    connect = sqlite3.connect

    def listen(place: str, *, uri: bool, isolation_level: None, timeout: float) -> sqlite3.Connection:
        asked.append(place)
        return connect(place, uri=uri, isolation_level=isolation_level, timeout=timeout)

    monkeypatch.setattr(sqlite3, "connect", listen)
    monkeypatch.setattr(os, "access", lambda *_: False)

    assert len(examine(path).leases) == LEASES
    assert asked.pop().endswith("?mode=ro&immutable=1")
    path.with_name(f"{NAME}-wal").touch()
    examine(path)
    assert asked.pop().endswith("?mode=ro"), "of one with a log the log is part"
