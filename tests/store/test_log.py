"""The log of the state file: whatever a disk has changed in it is found, and whatever a kill leaves behind is right."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from governor.core.snapshot import Held
from governor.core.types import Grant, LeaseId
from governor.store import NAME, Batch, Store, StoreError, database, log
from governor.store.rows import lease_row
from governor.store.salvage import read

FRAME: Final = 24 + 1024
HEAD: Final = 32


def batch(*leases: int) -> Batch:
    """These leases, each larger than a page, so that a transaction of several has several frames."""
    rows = [
        Held(LeaseId(n), (Grant("jobs", 1),), 50, "me" * 1000, 30, f"r{n}", (), 30, 20, 0, orphaned=False)
        for n in leases
    ]
    return Batch(leases=[lease_row(each, graced=False) for each in rows], stamp=7)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One that has begun as a daemon does, with its boot in the file."""
    (tmp_path / "state").mkdir()
    store = Store(tmp_path / "state")
    store.write(Batch(stamp=5))
    store.fold()
    yield store
    store.close()


def killed(store: Store, into: Path) -> Path:
    """The folder as it would be if the daemon died now; its log."""
    into.mkdir(exist_ok=True)
    for name in (NAME, f"{NAME}-wal"):
        (into / name).write_bytes((store.path.parent / name).read_bytes())
    return into / f"{NAME}-wal"


def change(wal: Path, place: int, byte: int) -> None:
    """One byte, in place."""
    with wal.open("r+b") as file:
        file.seek(place)
        file.write(bytes([byte]))


def leases(folder: Path) -> list[int]:
    """What a daemon that starts there remembers, and leaves behind as if it had died, too."""
    with closing(Store(folder)) as store:
        return [row.held.id for row in store.load().leases]


def test_any_byte_of_the_log_that_is_changed_is_found(store: Store, tmp_path: Path) -> None:
    """All of its beginning and of its last frame, and many between: SQLite would only take them for the end."""
    for stamp in range(3):
        store.write(Batch(stamp=stamp))
    wal = killed(store, tmp_path / "copy")
    whole = wal.read_bytes()
    assert len(whole) == HEAD + 3 * FRAME
    places = [*range(HEAD), *range(HEAD, len(whole) - FRAME, 61), *range(len(whole) - FRAME, len(whole))]

    assert log.read(wal) == log.Read(len(whole))
    for place in places:
        change(wal, place, whole[place] ^ 1 << place % 8)
        found = log.read(wal)
        change(wal, place, whole[place])
        assert found.problem, f"byte {place} of {len(whole)} is not missed"
        assert f"frame {max(0, place - HEAD) // FRAME + 1} " in found.problem or place < HEAD


@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
def test_a_block_of_the_log_that_is_gone_is_found(store: Store, tmp_path: Path, fill: bytes) -> None:
    """As when a disk gives back something else than was written."""
    store.write(batch(1))
    store.write(batch(2))
    wal = killed(store, tmp_path / "copy")
    data = bytearray(wal.read_bytes())
    data[-4608:] = fill * 4608
    wal.write_bytes(data)

    with pytest.raises(
        StoreError, match=r"^[^\n]+is damaged \(in its log state.db-wal, frame \d+ is not what was"
    ) as no:
        Store(tmp_path / "copy")
    assert no.value.damaged
    assert wal.read_bytes() == bytes(data), "it is left as it is"


def test_what_a_kill_leaves_is_right_wherever_it_strikes(store: Store, tmp_path: Path) -> None:
    """Of a transaction that was just being written nothing is remembered, and all before it is."""
    store.write(batch(1, 2))
    first = len(killed(store, tmp_path / "copy").read_bytes())
    store.write(batch(3, 4, 5))
    wal = killed(store, tmp_path / "copy")
    whole = wal.read_bytes()
    chance = Random(1)
    for length in [first, len(whole) - 1, *[chance.randrange(first, len(whole)) for _ in range(40)], len(whole)]:
        wal.write_bytes(whole[:length])
        (tmp_path / "copy" / NAME).write_bytes(store.path.read_bytes())

        assert leases(tmp_path / "copy") == ([1, 2, 3, 4, 5] if length == len(whole) else [1, 2]), length


def test_what_came_to_nothing_is_no_damage_to_what_comes_after_it(store: Store, tmp_path: Path) -> None:
    """A shorter transaction over the traces of a longer one that was killed; and a kill after that."""
    store.write(batch(1))
    store.write(batch(2, 3, 4, 5))
    wal = killed(store, tmp_path / "copy")
    wal.write_bytes(wal.read_bytes()[:-FRAME])
    with closing(Store(tmp_path / "copy")) as second:
        second.write(batch(6))
        killed(second, tmp_path / "again")

    assert leases(tmp_path / "again") == [1, 6]


def test_a_log_that_is_begun_over_another_is_right(store: Store, tmp_path: Path) -> None:
    """Also while the first transaction is being written over the earlier one, wherever a kill strikes."""
    for number in range(1, 6):
        store.write(batch(number))
    earlier = killed(store, tmp_path / "copy").read_bytes()
    store.flush()
    folded = store.path.read_bytes()
    store.write(batch(6))
    wal = killed(store, tmp_path / "copy")
    later = wal.read_bytes()
    assert len(later) < len(earlier), "nothing of the earlier one is left behind the first commit"

    for length in (HEAD, HEAD + 10, HEAD + 24, HEAD + 2000, HEAD + FRAME, len(later) - FRAME + 20):
        wal.write_bytes(later[:length] + earlier[length:])
        (tmp_path / "copy" / NAME).write_bytes(folded)
        assert leases(tmp_path / "copy") == [1, 2, 3, 4, 5], length


def test_a_large_transaction_is_written_once(store: Store, tmp_path: Path) -> None:
    """Much larger than what SQLite keeps in memory otherwise, and with pages that change twice."""
    store.write(batch(*range(1, 1500)))
    store.write(Batch(leases=[*batch(*range(1, 1500)).leases, *batch(*range(1, 1500)).leases]))
    wal = killed(store, tmp_path / "copy")
    pages = (wal.stat().st_size - HEAD) // FRAME

    assert log.read(wal) == log.Read(HEAD + pages * FRAME)
    assert len(leases(tmp_path / "copy")) == 1499


def test_after_the_machine_went_down_the_rest_is_remembered(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was not flushed may be there in part, which no disk is to blame for; it is said, and done with."""
    store.write(batch(1))
    store.write(batch(2))
    wal = killed(store, tmp_path / "copy")
    data = bytearray(wal.read_bytes())
    data[-4096:] = bytes(4096)
    wal.write_bytes(data)
    monkeypatch.setattr(database, "boot", lambda: "another")

    with closing(Store(tmp_path / "copy")) as second:
        second.write(batch(3))
        killed(second, tmp_path / "again")
    assert "frame" in caplog.text
    monkeypatch.undo()
    assert leases(tmp_path / "again") == [1, 3]


@pytest.mark.parametrize("frame", [0, 2])
def test_what_is_found_when_it_begins_anew_is_told_as_at_a_start(store: Store, frame: int) -> None:
    """After a failure, too: what was promised behind it is not cut off without a word, and is left as it is."""
    for lease in (1, 2, 3):
        store.write(batch(lease))
    wal = store.path.with_name(f"{NAME}-wal")
    # Else SQLite moves the log into the file as it closes it, unless whatever failed keeps it from that.
    with closing(sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True)) as reader:
        reader.execute("SELECT * FROM meta").fetchall()
        whole = wal.read_bytes()
        change(wal, HEAD + frame * FRAME + 100, whole[HEAD + frame * FRAME + 100] ^ 1)
        for _ in range(2):
            with pytest.raises(
                StoreError, match=rf"is damaged \(in its log state.db-wal, frame {frame + 1} is"
            ) as told:
                store.reopen()
            assert told.value.damaged
        assert len(wal.read_bytes()) == len(whole)

        change(wal, HEAD + frame * FRAME + 100, whole[HEAD + frame * FRAME + 100])
        store.reopen()
        assert [row.held.id for row in store.load().leases] == [1, 2, 3]


def test_a_reader_is_not_disturbed_by_what_is_cut_off(store: Store, tmp_path: Path) -> None:
    """Somebody looks at the tables with another program while the daemon starts."""
    store.write(batch(1))
    store.write(batch(2, 3, 4))
    wal = killed(store, tmp_path / "copy")
    wal.write_bytes(wal.read_bytes()[:-FRAME])
    with closing(sqlite3.connect(f"{(tmp_path / 'copy' / NAME).as_uri()}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT id FROM lease").fetchall()
        with closing(Store(tmp_path / "copy")) as second:
            second.write(batch(5))
            assert reader.execute("SELECT id FROM lease").fetchall() == before == [(1,)]
            reader.execute("COMMIT")
            assert reader.execute("SELECT id FROM lease").fetchall() == [(1,), (5,)]


def test_a_log_that_is_being_written_is_not_taken_for_damaged(store: Store) -> None:
    """Whoever looks at the state of a busy daemon reads while it writes, over the earlier log as well."""
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            store.write(batch(*range(number % 7 + 1)))
            if number % 20 == 0:
                store.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            read(store.path)
    finally:
        done.set()
        writer.join()
