"""The state file: what is written is read, whole or not at all, and nothing that cannot be read is replaced."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import Remembered, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import SECOND, Claim, EndReason, Grant, LeaseId, Member
from governor.store import NAME, Batch, Store, StoreError, schema
from governor.store.rows import lease_row, past_row, resource_row

LIMITS: tuple[LimitSpec, ...] = (
    SemaphoreSpec(8),
    SemaphoreSpec(None),
    PoolSpec((MemberSpec("a", (("endpoint", "db1:5432"),), 2), MemberSpec("b")), Order.FIFO, 5, 6, None, 7),
    RateLimitSpec((Window(10, SECOND, 20), Window(0, SECOND, 1))),
    RateLimitSpec(()),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty one."""
    store = Store(tmp_path)
    yield store
    store.close()


def lease(number: int, *, orphaned: bool = False) -> Held:
    """One that holds a permit of each kind."""
    grants = (
        Grant("jobs", 3),
        Grant("db", 2, (Member("a", (("endpoint", "db1:5432"),), 4), Member("b"))),
    )
    asked = (("team", "blau"),), 30, 20, 7
    return Held(LeaseId(number), (*grants, Grant("api", 1)), 50, "me", 30, f"r{number}", *asked, orphaned, ("api",))


def reopened(store: Store) -> Store:
    """The same file, in another daemon."""
    store.close()
    return Store(store.path.parent)


def test_what_is_written_is_read(store: Store) -> None:
    """Leases, ended ones, resources of every kind, ids, and the last sign of life."""
    specs = [ResourceSpec(f"r{n}", limit, 1, 2, None, 4, 5) for n, limit in enumerate(LIMITS)]
    remembered = [Remembered(spec, {"spent": [1, 2**70], "name": "ä"}, 12) for spec in specs]
    remembered[0] = replace(remembered[0], declared=False)
    past = Past(LeaseId(3), (Claim("jobs", 1),), "me", "r3", EndReason.EXPIRED, 11, 2)
    store.write(
        Batch(
            leases=[lease_row(lease(1), graced=False), lease_row(lease(2, orphaned=True), graced=True)],
            past=[past_row(past)],
            resources=[resource_row(each) for each in remembered],
            reserved=1000,
            stamp=17,
        )
    )

    again = reopened(store)
    stored = again.load()
    again.close()
    assert [(row.held, row.graced) for row in stored.leases] == [(lease(1), False), (lease(2, orphaned=True), True)]
    assert stored.past == [past]
    assert stored.resources == remembered
    assert (stored.reserved, stored.stamp) == (1000, 17)


def test_what_has_changed_is_changed(store: Store) -> None:
    """Ends, renewals, memories, a freeze: each finds its row."""
    spec = ResourceSpec("jobs", SemaphoreSpec(8), 1, 2, 3, 4, 5)
    rows = [lease_row(lease(number), graced=True) for number in (1, 2, 3)]
    store.write(Batch(leases=rows, resources=[resource_row(Remembered(spec, {}, 1))]))

    store.write(Batch(gone=[(1,)], moved=[(90, True, False, 2)], memories=[('{"a":1}', 9, "jobs")]))
    store.write(Batch(freeze=(100, 160), stamp=60))

    stored = store.load()
    assert [(row.held.id, row.held.deadline) for row in stored.leases] == [(2, 190), (3, 160)]
    assert [(row.held.orphaned, row.graced) for row in stored.leases] == [(True, False), (False, True)]
    assert [(each.memory, each.at) for each in stored.resources] == [({"a": 1}, 9)]
    store.write(Batch(gone_resources=[("jobs",)]))
    assert store.load().resources == []


def test_leases_that_end_alike_are_moved_alike(store: Store) -> None:
    """Side by side or not, and no other with them."""
    store.write(Batch(leases=[lease_row(lease(number), graced=False) for number in range(1, 10)]))
    moved = [(90, False, False, 1), (90, False, False, 2), (90, False, False, 4), (90, True, False, 5)]
    moved += [(90, True, True, 6), (91, True, True, 7), (91, True, True, 8)]

    store.write(Batch(moved=moved))

    rows = [(row.held.deadline, row.held.orphaned, row.graced, row.held.id) for row in store.load().leases]
    untouched = lease(1)
    assert rows == sorted(
        [*moved, *[(untouched.deadline, untouched.orphaned, False, number) for number in (3, 9)]],
        key=lambda row: row[3],
    )


def test_a_restart_moves_everything_to_its_own_clock(store: Store) -> None:
    """With a grace for those that have not had one."""
    past = Past(LeaseId(3), (Claim("jobs", 1),), "me", "r3", EndReason.SPENT, 11, 0)
    rows = [lease_row(lease(1), graced=False), lease_row(lease(2), graced=True)]
    jobs = resource_row(Remembered(ResourceSpec("jobs", SemaphoreSpec(8), 1, 2, 3, 4, 5), {}, 35))
    store.write(Batch(leases=rows, past=[past_row(past)], resources=[jobs], stamp=40))

    store.restart(40, 1000, 5, 960, promise=7)

    stored = store.load()
    assert stored.promised == 7
    assert [row.held.deadline for row in stored.leases] == [1015, 1010]
    assert [(row.held.granted_at, row.graced) for row in stored.leases] == [(980, True)] * 2
    assert (stored.past[0].ended_at, stored.resources[0].at, stored.stamp) == (971, 995, 1000)


def test_a_transaction_that_fails_has_written_nothing(store: Store) -> None:
    """Its first half neither; and the next one works."""
    bad = (*lease_row(lease(2), graced=False)[:-1], "not a number")
    with pytest.raises(StoreError, match=r"^[^\n]+state.db: cannot be written \([^\n]+\); [^\n]+$"):
        store.write(Batch(leases=[lease_row(lease(1), graced=False), bad]))

    assert store.load().leases == []
    store.write(Batch(leases=[lease_row(lease(1), graced=False)]))
    assert len(store.load().leases) == 1


def test_what_was_committed_is_there_without_a_goodbye(store: Store, tmp_path: Path) -> None:
    """As after a kill: the file and its log are copied as they lie there."""
    store.write(Batch(leases=[lease_row(lease(1), graced=False)], stamp=1))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (NAME, f"{NAME}-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())

    with closing(Store(copy)) as other:
        assert len(other.load().leases) == 1


def test_the_log_is_folded_into_the_file(store: Store) -> None:
    """What came and went leaves nothing, however often."""
    for number in range(2000):
        store.write(Batch(leases=[lease_row(lease(number), graced=False)]))
        store.write(Batch(gone=[(number,)]))
    assert store.log_bytes() > 1_000_000

    store.flush()
    store.fold()

    assert store.log_bytes() == 0
    assert store.path.stat().st_size < 100_000


def test_a_reader_sees_readable_tables_while_it_is_written(store: Store) -> None:
    """And keeps nobody from writing; the log stays until it is done."""
    store.write(Batch(leases=[lease_row(lease(1), graced=False)]))
    with closing(sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT client, json_extract(grants, '$[0].permits') FROM lease").fetchall() == [
            ("me", 3)
        ]
        store.write(Batch(gone=[(1,)]))
        store.fold()
        assert reader.execute("SELECT count(*) FROM lease").fetchone() == (1,)
        assert store.log_bytes() > 0
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_a_writer_is_not_waited_for(store: Store) -> None:
    """Somebody else has the file locked: that is an error like a full disk, and passes like one."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            store.write(Batch(stamp=5))
        other.execute("ROLLBACK")

    store.write(Batch(stamp=5))
    store.reopen()
    assert store.load().stamp == 5


class TestOtherFiles:
    """What is found where the state should be."""

    def test_an_older_one_is_migrated(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """Step by step, with what it held."""
        store.write(Batch(leases=[lease_row(lease(1), graced=False)]))
        more = "ALTER TABLE meta ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'"
        monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, more])

        again = reopened(store)

        assert len(again.load().leases) == 1
        with closing(sqlite3.connect(store.path)) as database:
            assert database.execute("SELECT colour FROM meta").fetchone() == ("blue",)
            assert database.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
        again.close()

    def test_a_newer_one_is_refused(self, store: Store) -> None:
        """It is not damaged; it is only too good."""
        store.close()
        with closing(sqlite3.connect(store.path)) as database:
            database.execute("PRAGMA user_version = 99")

        with pytest.raises(StoreError, match=r"^[^\n]+ newer governor \(state version 99; [^\n]+$") as refused:
            Store(store.path.parent)
        assert not refused.value.damaged

    @pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0", b"\0" * 8192, b"hello" * 2000])
    def test_a_damaged_one_is_left_as_it_is(self, tmp_path: Path, damage: bytes) -> None:
        """An empty one too: a file of ours was never empty."""
        (tmp_path / NAME).write_bytes(damage)

        with pytest.raises(StoreError, match=r"^[^\n]+state.db: is damaged \([^\n]+`governor state repair`[^\n]+$"):
            Store(tmp_path)

        assert (tmp_path / NAME).read_bytes() == damage

    def test_a_damaged_page_is_found_at_the_start(self, store: Store) -> None:
        """Not when somebody happens to look at it."""
        store.write(Batch(leases=[lease_row(lease(number), graced=False) for number in range(500)]))
        store.fold()
        store.close()
        data = bytearray(store.path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 64] = os.urandom(64)
        store.path.write_bytes(data)

        with pytest.raises(StoreError) as damaged:
            Store(store.path.parent).load()
        assert damaged.value.damaged

    @pytest.mark.parametrize("grants", ["", "[", "[1]", '[{"resource":"a"}]', '[{"resource":"a","permits":"x"}]'])
    def test_a_row_that_makes_no_sense_is_named(self, store: Store, grants: str) -> None:
        """SQLite has no objection; we have."""
        store.write(Batch(leases=[lease_row(lease(7), graced=False)]))
        with closing(sqlite3.connect(store.path)) as database, database:
            database.execute("UPDATE lease SET grants = ?", (grants,))

        with pytest.raises(StoreError, match=r"is damaged \(lease 7 makes no sense [^\n]+$") as damaged:
            store.load()
        assert damaged.value.damaged

    def test_a_log_without_its_file_is_not_taken_for_a_new_start(self, store: Store, tmp_path: Path) -> None:
        """Somebody has removed one of the two."""
        store.write(Batch(stamp=1))
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / f"{NAME}-wal").write_bytes((tmp_path / f"{NAME}-wal").read_bytes())

        with pytest.raises(StoreError, match="is missing, but its log"):
            Store(copy)

    def test_a_file_that_is_taken_away_is_not_made_anew(self, store: Store) -> None:
        """Under the running daemon: what it holds it would have to write, whole, into an empty one."""
        store.path.unlink()

        with pytest.raises(StoreError, match=r"cannot be opened \(state.db is gone\)"):
            store.reopen()
        assert not store.path.exists()

    @pytest.mark.parametrize("name", [NAME, f"{NAME}-wal"])
    def test_a_file_that_is_taken_away_is_missed(self, store: Store, name: str) -> None:
        """With the next sign of life: SQLite goes on writing into what no start will find."""
        path = store.path.with_name(name)
        store.write(Batch(leases=[lease_row(lease(1), graced=False)], stamp=1))
        path.rename(path.with_suffix(".away"))

        with pytest.raises(StoreError, match=rf"cannot be written \({name} is gone\)"):
            store.write(Batch(stamp=2))

        path.touch()
        with pytest.raises(StoreError, match=rf"cannot be written \({name} is another file now"):
            store.write(Batch(leases=[lease_row(lease(2), graced=False)], stamp=2))

        path.with_suffix(".away").replace(path)
        store.write(Batch(stamp=3))
        store.reopen()
        store.write(Batch(stamp=4))
        assert [row.held.id for row in store.load().leases] == [1]

    def test_another_file_in_its_place_is_not_written(self, store: Store, tmp_path: Path) -> None:
        """Such as a copy of last week's: what is held now is not in it."""
        copy = tmp_path / "copy"
        copy.write_bytes(store.path.read_bytes())
        copy.replace(store.path)

        with pytest.raises(StoreError, match=r"cannot be opened \(state.db is another file now"):
            store.reopen()

    def test_a_file_that_another_uses_is_left_alone(self, store: Store, tmp_path: Path) -> None:
        """Whatever is done with it, also when nothing else says that it is in use; and at the end it is free."""
        ways: tuple[Callable[[], None], ...] = (
            lambda: store.write(Batch(leases=[lease_row(lease(1), graced=False)], stamp=1)),
            store.flush,
            store.fold,
            store.reopen,
            lambda: _read_by_another(store.path),
            lambda: store.write(Batch(stamp=2)),
        )
        for way in ways:
            way()
            with pytest.raises(
                StoreError, match=r"state.db: another daemon uses it, though nobody has locked its folder"
            ):
                Store(tmp_path)
            store.write(Batch(stamp=3))
        with closing(reopened(store)) as again:
            assert [row.held.id for row in again.load().leases] == [1]

    def test_what_is_gone_keeps_its_inode(self, store: Store) -> None:
        """Else a copy could get it, and be taken for the file itself, when the connections have been closed for it."""
        store.path.unlink()
        with pytest.raises(StoreError, match="is gone"):
            store.reopen()

        assert _is_open(store.path)
        store.close()
        store.close()
        assert not _is_open(store.path)

    def test_a_start_that_fails_keeps_nothing_open(self, tmp_path: Path) -> None:
        """Of a file that it knew already."""
        Store(tmp_path).close()
        (tmp_path / f"{NAME}-wal").mkdir()

        with pytest.raises(StoreError):
            Store(tmp_path)
        assert not _is_open(tmp_path / NAME)

    def test_of_what_a_kill_left_half_made_nothing_is_used(self, tmp_path: Path) -> None:
        """The file appears whole."""
        (tmp_path / "state.new").write_bytes(b"half")

        with closing(Store(tmp_path)) as store:
            assert store.load().leases == []
        assert not (tmp_path / "state.new").exists()
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def _read_by_another(path: Path) -> None:
    """As by sqlite3."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as reader:
        reader.execute("SELECT count(*) FROM lease").fetchone()


def _is_open(path: Path) -> bool:
    """Whether any descriptor of this process leads to it, also when it has no name any more."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(each.readlink()).removesuffix(" (deleted)"))
    return str(path) in found
