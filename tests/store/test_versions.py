"""Files of older governors: what such a one has written is read, and goes on."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import Override, Remembered, ResourceSpec
from governor.core.types import SECOND, LeaseId, Said, Standing
from governor.store import NAME, Batch, Store
from governor.store.rows import resource_of, resource_row
from governor.store.salvage import examine, save

# As version 2 made it, and filled it, word for word.
VERSION_2 = """
    PRAGMA application_id = 0x676F7672;
    CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), reserved INTEGER NOT NULL, stamp INTEGER NOT NULL,
        written TEXT NOT NULL, boot TEXT NOT NULL) STRICT;
    CREATE TABLE resource (name TEXT PRIMARY KEY, kind TEXT NOT NULL, spec TEXT NOT NULL, memory TEXT NOT NULL,
        at INTEGER NOT NULL) STRICT;
    CREATE TABLE lease (id INTEGER PRIMARY KEY, client TEXT NOT NULL, request_id TEXT NOT NULL, grants TEXT NOT NULL,
        labels TEXT NOT NULL, granted_for INTEGER NOT NULL, granted_at INTEGER NOT NULL, waited INTEGER NOT NULL,
        deadline INTEGER NOT NULL, orphaned INTEGER NOT NULL, graced INTEGER NOT NULL) STRICT;
    CREATE TABLE past (id INTEGER PRIMARY KEY, client TEXT NOT NULL, request_id TEXT NOT NULL, claims TEXT NOT NULL,
        reason TEXT NOT NULL, ended_at INTEGER NOT NULL, waited INTEGER NOT NULL) STRICT;
    ALTER TABLE meta ADD COLUMN promised INTEGER NOT NULL DEFAULT 0;
    PRAGMA user_version = 2;
    INSERT INTO meta VALUES (1, 1000000, 70000000000, '2026-11-29T12:00:00.000+00:00', 'a-boot', 10000000000);
    INSERT INTO resource VALUES ('db', 'semaphore',
        '{"lease":30000000000,"max_lease":60000000000,"on_disconnect":null,"max_wait":0,"max_waiters":5,' ||
        '"limit":{"permits":3}}',
        '{}', 70000000000);
    INSERT INTO resource VALUES ('api', 'rate_limit',
        '{"lease":30000000000,"max_lease":60000000000,"on_disconnect":0,"max_wait":0,"max_waiters":5,' ||
        '"limit":{"windows":[{"permits":2,"period":1000000000,"burst":2}]}}',
        '{"spent":[1000000000],"last":0,"since":0}', 70000000000);
    INSERT INTO lease VALUES (7, 'ann', 'r7', '[{"resource":"db","permits":2}]', '{}', 30000000000, 60000000000, 0,
        90000000000, 0, 0);
    INSERT INTO past VALUES (5, 'ann', 'r5', '[{"resource":"db","permits":1}]', 'expired', 50000000000, 0);
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that version 2 has left behind."""
    with closing(sqlite3.connect(tmp_path / NAME)) as database:
        database.executescript(VERSION_2)
    return tmp_path


def test_a_file_of_version_2_goes_on(old: Path) -> None:
    """With all that it held; no operator has said anything of its resources."""
    with closing(Store(old)) as store:
        stored = store.load()
        db, api = stored.resources
        assert (db.spec.name, db.spec.limit, db.memory, db.at) == ("db", SemaphoreSpec(3), {}, 70 * SECOND)
        assert api.spec.limit == RateLimitSpec((Window(2, SECOND, 2),))
        assert {(each.standing, each.override) for each in stored.resources} == {(Standing.OPEN, None)}
        assert [(row.held.id, row.held.deadline) for row in stored.leases] == [(7, 90 * SECOND)]
        assert ([each.id for each in stored.past], stored.promised) == ([5], 10 * SECOND)
        store.fold()
    with closing(sqlite3.connect(old / NAME)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (5,)
    assert examine(old / NAME).resources == stored.resources


def test_what_is_said_of_a_resource_is_written_into_an_older_file(old: Path) -> None:
    """And read again."""
    with closing(Store(old)) as store:
        db, api = store.load().resources
        limit = RateLimitSpec((Window(5, SECOND, 9), Window(50, 60 * SECOND, 50)))
        joe, ann = Said("joe@web-1", "the provider\nis down", "ops"), Said("", "a sale")
        override = Override(limit, 99 * SECOND, ann)
        api = Remembered(api.spec, {"spent": [1, 2]}, 71 * SECOND, Standing.PAUSED, override, said=joe)
        db = replace(db, graces=((LeaseId(6), None), (LeaseId(9), 2 * SECOND)))
        store.write(Batch(resources=[resource_row(db), resource_row(api)]))

        assert store.load().resources == [db, api]
        store.restart(70 * SECOND, 170 * SECOND, 0, 100 * SECOND)
        moved = store.load().resources[1]
        assert (moved.at, moved.override, moved.said) == (170 * SECOND, Override(limit, 199 * SECOND, ann), joe)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("standing", "asleep", "'asleep' is not a valid Standing"),
        ("override", '{"permits":-1}', "-1 is below zero"),
        ("override", "[]", "1 errors"),
        ("override", '{"windows":[]}', "1 errors"),
        ("override", "{", "Expecting property name"),
        ("said", "{", "Expecting property name"),
        ("said", '{"actor":"joe"}', "KeyError: 'reason'"),
        ("said", '{"actor":"joe","reason":1}', "1 is not a text"),
        ("said", '{"actor":"joe","reason":"","client":1}', "1 is not a text"),
        ("graces", "[[1,2,3]]", "too many values"),
        ("graces", "[[1,-2]]", "-2 is below zero"),
        ("graces", '[["1",2]]', "'1' is not a number"),
        ("graces", "7", "not iterable"),
    ],
)
def test_what_nobody_can_have_said_is_not_read(old: Path, column: str, value: str, why: str) -> None:
    """It is named, and `repair` goes on without it."""
    with closing(Store(old)) as store:
        store.fold()
    with closing(sqlite3.connect(old / NAME)) as database:
        database.execute(f"UPDATE resource SET {column} = ? WHERE name = 'db'", (value,))  # noqa: S608 - of the table
        database.commit()

    saved = save(old / NAME)

    assert any("resource db makes no sense" in lost and why in lost for lost in saved.lost)
    assert [row.held.id for row in saved.stored.leases] == [7]


def test_who_has_ordered_something_is_read_as_the_version_before_has_written_it() -> None:
    """It did not write as which client he is known; of whom nobody knows as one it would have written the same."""
    spec = ResourceSpec("db", SemaphoreSpec(3), SECOND, SECOND, None, 0, 0)
    joe = Said("joe", "a move")
    row = resource_row(Remembered(spec, {}, 1, Standing.PAUSED, Override(spec.limit, 2, joe), said=joe))

    assert row.count('{"actor":"joe","reason":"a move"}') == 2
    before = resource_of(row)
    assert before.override is not None
    assert before.said == before.override.said == joe
    known = Said("joe", "a move", "ops")
    assert resource_of(resource_row(Remembered(spec, {}, 1, Standing.PAUSED, said=known))).said == known


def test_a_pool_with_another_limit_is_not_read() -> None:
    """Its members are what the config says."""
    pool = PoolSpec((MemberSpec("a"),))
    spec = ResourceSpec("conn", pool, SECOND, SECOND, None, 0, 0)
    row = resource_row(Remembered(spec, {}, 1, override=Override(pool, 2)))

    with pytest.raises(ValueError, match="the limit of a pool cannot be another for a while"):
        resource_of(row)


def test_what_makes_no_sense_of_an_overridden_limit_is_forgotten_alone(old: Path) -> None:
    """The override itself stays in force, with nothing spent of it."""
    with closing(Store(old)) as store:
        db, api = store.load().resources
        override = Override(RateLimitSpec((Window(5, SECOND, 9),)), 99 * SECOND)
        nonsense = Remembered(api.spec, {"spent": "all"}, api.at, override=override)
        store.write(Batch(resources=[resource_row(db), resource_row(nonsense)]))
        store.fold()

    saved = save(old / NAME)

    assert ["api" in lost for lost in saved.lost] == [True]
    assert [each.override for each in saved.stored.resources] == [None, override]
