"""The fence: an id that was given out is never given out again, whatever becomes of the disk."""

import os
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from governor import fence
from governor.core.types import LeaseId
from governor.fence import BLOCK, Fence, FenceError


def record(folder: Path) -> Path:
    """The file with the number."""
    return folder / "fence"


def test_a_fresh_folder_starts_at_nothing(tmp_path: Path) -> None:
    """And nothing is written before somebody needs an id."""
    assert Fence(tmp_path).reserved == 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_reserved_is_on_record_first(tmp_path: Path) -> None:
    """Whoever reads the folder afterwards sees at least as much."""
    mine = Fence(tmp_path)

    ceilings = [mine.reserve() for _ in range(3)]

    assert ceilings == [BLOCK, 2 * BLOCK, 3 * BLOCK]
    assert mine.reserved == Fence(tmp_path).reserved == 3 * BLOCK


def test_a_restart_skips_ahead(tmp_path: Path) -> None:
    """Whatever was left of the last block is nobody's (I7)."""
    given_out: list[range] = []
    for _ in range(5):
        start = Fence(tmp_path)
        given_out.append(range(start.reserved + 1, start.reserve() + 1))

    assert all(former[-1] < later[0] for former, later in pairwise(given_out))
    assert len(given_out[0]) == BLOCK


def test_a_start_that_reserved_nothing_repeats_nothing(tmp_path: Path) -> None:
    """Reading alone moves nothing."""
    Fence(tmp_path).reserve()

    assert Fence(tmp_path).reserved == Fence(tmp_path).reserved == BLOCK


def test_the_record_is_durable_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new text reaches the disk before it takes the old one's place, and so does the place."""
    steps: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        steps.append("fsync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync file")
        fsync(descriptor)

    def watched_replace(path: Path, target: Path) -> Path:
        steps.append(f"replace {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    Fence(tmp_path).reserve()

    assert steps == ["fsync file", "replace fence", "fsync folder"]


@pytest.mark.parametrize("step", [0, 1, 2])
def test_whichever_step_fails_no_id_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Nothing more may be given out, what was on record stays there, and the next try works."""
    mine = Fence(tmp_path)
    before = mine.reserve()
    with monkeypatch.context() as broken:
        _fail_at(broken, step)
        with pytest.raises(FenceError, match="fence: cannot be written"):
            mine.reserve()

    assert mine.reserved == before
    assert Fence(tmp_path).reserved >= before
    assert mine.reserve() > before
    assert Fence(tmp_path).reserved == mine.reserved


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """Which says what, where and what to do; when there is room again, it works again."""
    mine = Fence(tmp_path)
    before = mine.reserve()
    blocked = tmp_path / "fence.new"
    blocked.symlink_to("/dev/full")

    with pytest.raises(FenceError) as caught:
        mine.reserve()

    message = f"{record(tmp_path)}: cannot be written (No space left on device); check the disk and the folder's owner"
    assert str(caught.value) == message
    assert Fence(tmp_path).reserved == mine.reserved == before
    blocked.unlink()
    assert mine.reserve() == before + BLOCK


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    """Somebody removed it under the running daemon."""
    folder = tmp_path / "state"
    folder.mkdir()
    mine = Fence(folder)
    folder.rmdir()

    with pytest.raises(FenceError, match=r"^[^\n]+ \(No such file or directory\); [^\n]+$"):
        mine.reserve()


def test_a_record_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """It is not taken for a missing one."""
    record(tmp_path).mkdir()

    with pytest.raises(FenceError, match=r"^[^\n]+fence: cannot be read \(Is a directory\); [^\n]+$"):
        Fence(tmp_path)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_one_line(tmp_path: Path, kind: str) -> None:
    """A pipe is not waited for, and a device is not read."""
    if kind == "pipe":
        os.mkfifo(record(tmp_path))
    else:
        record(tmp_path).symlink_to("/dev/null")

    with pytest.raises(FenceError, match=r"^[^\n]+fence: cannot be read \(not a regular file\); [^\n]+$"):
        Fence(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\n",
        b"\x00" * 24,
        b"governor fence 1",
        b"governor fence 1\n",
        b"governor fence 1\n1000",  # the end is missing, so digits may be, too
        b"governor fence 1\n\n",
        b"governor fence 1\n-5\n",
        b"governor fence 1\n1e6\n",
        b"governor fence 1\n1_000_000\n",
        b"governor fence 1\n1000000\n2000000\n",
        b"governor fence 1\n\xd9\xa1\xd9\xa2\n",
        b"governor fence 1\n\xff\n",
        b"governor fence 2\n1000000\n",
        b"1000000\n",
        b"governor fence 1\n" + str(2**62).encode() + b"\n",
        b"governor fence 1\n" + b"9" * 5_000 + b"\n",
        b"governor fence 1\n" + b"0" * 100_000 + b"1\n",
    ],
    ids=lambda damage: f"{damage[:28]!r}~{len(damage)}",
)
def test_a_damaged_record_is_one_line(tmp_path: Path, damage: bytes) -> None:
    """It is never taken for a fresh start: that would give out ids again. The file stays as it is, to be looked at."""
    record(tmp_path).write_bytes(damage)

    with pytest.raises(FenceError, match=r"^[^\n]+fence: is damaged: [^\n]+$"):
        Fence(tmp_path)

    assert record(tmp_path).read_bytes() == damage


def test_a_damaged_record_can_be_repaired_as_the_message_says(tmp_path: Path) -> None:
    """By hand, with any number that is high enough."""
    record(tmp_path).write_bytes(b"")
    with pytest.raises(FenceError, match="'governor fence 1'"):
        Fence(tmp_path)

    record(tmp_path).write_text("governor fence 1\n7000000\n", encoding="ascii")

    assert Fence(tmp_path).reserved == 7_000_000


def test_what_a_crash_left_half_written_is_not_read(tmp_path: Path) -> None:
    """Killed before the new record took its place, the old one counts."""
    Fence(tmp_path).reserve()
    (tmp_path / "fence.new").write_bytes(b"governor fe")

    again = Fence(tmp_path)

    assert again.reserved == BLOCK
    assert again.reserve() == 2 * BLOCK


def test_ids_do_not_rise_for_ever(tmp_path: Path) -> None:
    """After the last block that fits there is none, and the record says no more than what fits."""
    text = f"governor fence 1\n{2**62 - 1 - BLOCK}\n"
    record(tmp_path).write_text(text, encoding="ascii")
    mine = Fence(tmp_path)

    assert mine.reserve() == 2**62 - 1
    with pytest.raises(FenceError, match="used up"):
        mine.reserve()
    assert Fence(tmp_path).reserved == 2**62 - 1


def test_a_block_is_as_long_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others count on it to know when to reserve the next one."""
    monkeypatch.setattr(fence, "BLOCK", 5)

    assert LeaseId(Fence(tmp_path).reserve()) == LeaseId(5)


def _fail_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """The disk refuses the first fsync, the replacing, or the second fsync."""
    calls = iter(range(3))

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if next(calls) == step:
                raise OSError(5, "Input/output error")
            return real(*arguments)

        return call

    patch.setattr(os, "fsync", failing(os.fsync))
    patch.setattr(Path, "replace", failing(Path.replace))
