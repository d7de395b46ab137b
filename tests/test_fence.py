"""The fence of before: what governor 0.1 had on record is read, and nothing else is taken for it."""

import os
from pathlib import Path

import pytest

from governor.fence import FenceError, FormerFence


def record(folder: Path) -> Path:
    """The file with the number."""
    return folder / "fence"


def test_a_folder_without_one_says_nothing(tmp_path: Path) -> None:
    """And nothing is written."""
    fence = FormerFence(tmp_path)
    fence.retire()

    assert fence.reserved == 0
    assert list(tmp_path.iterdir()) == []


def test_what_was_reserved_counts_until_it_is_on_record_elsewhere(tmp_path: Path) -> None:
    """Then it is gone, so that nobody takes it for the truth."""
    record(tmp_path).write_text("governor fence 1\n7000000\n", encoding="ascii")

    fence = FormerFence(tmp_path)
    assert fence.reserved == FormerFence(tmp_path).reserved == 7_000_000
    fence.retire()
    assert FormerFence(tmp_path).reserved == 0


def test_a_record_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """It is not taken for a missing one."""
    record(tmp_path).mkdir()

    with pytest.raises(FenceError, match=r"^[^\n]+fence: cannot be read \(Is a directory\); [^\n]+$"):
        FormerFence(tmp_path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_one_line(tmp_path: Path, kind: str) -> None:
    """A pipe is not waited for, and a device is not read."""
    if kind == "pipe":
        os.mkfifo(record(tmp_path))
    else:
        record(tmp_path).symlink_to("/dev/null")

    with pytest.raises(FenceError, match=r"^[^\n]+fence: cannot be read \(not a regular file\); [^\n]+$"):
        FormerFence(tmp_path)


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
        FormerFence(tmp_path)

    assert record(tmp_path).read_bytes() == damage


def test_a_damaged_record_can_be_repaired_as_the_message_says(tmp_path: Path) -> None:
    """By hand, with any number that is high enough."""
    record(tmp_path).write_bytes(b"")
    with pytest.raises(FenceError, match="'governor fence 1'"):
        FormerFence(tmp_path)

    record(tmp_path).write_text("governor fence 1\n7000000\n", encoding="ascii")

    assert FormerFence(tmp_path).reserved == 7_000_000
