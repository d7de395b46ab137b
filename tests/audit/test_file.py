"""The audit file: every line is there once and whole, whatever others and the disk do meanwhile."""

import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from governor.audit.file import AuditFile, AuditFileError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "audit.jsonl"


@pytest.fixture
def complaints() -> list[str]:
    """What went wrong without keeping lines from being written."""
    return []


@pytest.fixture
def file(path: Path, complaints: list[str]) -> Iterator[AuditFile]:
    """Of 100 bytes at most, and two former ones."""
    file = AuditFile(path, 100, 2, complaints.append)
    yield file
    file.close()


def write(file: AuditFile, *texts: str) -> None:
    """Add these lines, which are all taken."""
    lines = deque(f"{text}\n".encode() for text in texts)
    file.write(lines)
    assert not lines


class FullDisk:
    """`os.write` on a disk that takes so many bytes, and says that it is full when it has."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr("governor.audit.file.os.write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        """As `os.write`."""
        if not self.room:
            raise OSError(28, "No space left on device")
        written = self._write(fd, data[: self.room])
        self.room -= written
        return written


class TestWriting:
    """Lines are added at the end."""

    def test_it_is_made_for_its_owner_and_group(self, file: AuditFile, path: Path) -> None:
        """And for nobody else."""
        assert stat.S_IMODE(path.stat().st_mode) == 0o640 & ~_umask()

    def test_what_is_there_stays(self, path: Path, complaints: list[str]) -> None:
        """Of a daemon before this one, with the mode that somebody gave it."""
        path.write_text("before\n")
        path.chmod(0o604)
        file = AuditFile(path, None, 1, complaints.append)
        write(file, "one", "two")
        file.close()

        assert path.read_text() == "before\none\ntwo\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o604

    def test_a_torn_line_of_before_is_ended(self, path: Path, complaints: list[str]) -> None:
        """So that the first of ours is a line of its own."""
        path.write_text('{"time":"2026')
        file = AuditFile(path, None, 1, complaints.append)
        write(file, "one")
        file.close()
        assert path.read_text() == '{"time":"2026\none\n'

    def test_more_than_is_handed_over_at_once(self, path: Path, complaints: list[str]) -> None:
        """In order."""
        file = AuditFile(path, None, 1, complaints.append)
        texts = [f"{number:06}" + "x" * 100 for number in range(10_000)]
        write(file, *texts)
        file.close()
        assert path.read_text().splitlines() == texts

    @pytest.mark.parametrize("what", ["no folder", "a folder", "a socket"])
    def test_what_cannot_be_opened(self, what: str, tmp_path: Path, complaints: list[str]) -> None:
        """It is said in one line which, why, and what to do."""
        path = tmp_path / "x" / "audit.jsonl"
        if what == "a folder":
            path.mkdir(parents=True)
        elif what == "a socket":
            path = _socket(tmp_path)
        with pytest.raises(AuditFileError) as error:
            AuditFile(path, None, 1, complaints.append)
        assert str(error.value).startswith(f"audit file {path}: cannot be opened: ")
        assert str(error.value).endswith("; make its folder, or name another under audit")
        assert "\n" not in str(error.value)


class TestFull:
    """A disk that is full has taken a part of what there was; the rest follows, and nothing twice."""

    def test_at_any_byte(self, path: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """Lines that are there are out of the way; once there is room all of them are there once."""
        texts = ["one", "", "three and more", "4"]
        whole = "".join(f"{text}\n" for text in texts)
        for room in range(len(whole)):
            path.unlink(missing_ok=True)
            file = AuditFile(path, None, 1, complaints.append)
            disk = FullDisk(room, monkeypatch)
            lines = deque(f"{text}\n".encode() for text in texts)
            with pytest.raises(OSError, match="No space"):
                file.write(lines)
            assert path.read_text() == whole[:room]
            assert whole.endswith(b"".join(lines).decode())
            lines.append(b"5\n")
            disk.room = 1000
            file.write(lines)
            file.close()
            monkeypatch.undo()

            assert path.read_text() == whole + "5\n"

    def test_another_file_gets_the_whole_line(
        self, path: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of which a part is in the one that was moved away."""
        file = AuditFile(path, None, 1, complaints.append)
        disk = FullDisk(6, monkeypatch)
        lines = deque([b"one\n", b"two\n"])
        with pytest.raises(OSError, match="No space"):
            file.write(lines)
        path.rename(path.with_name("moved"))
        file.reopen()
        disk.room = 1000
        file.write(lines)
        file.close()

        assert path.with_name("moved").read_text() == "one\ntw"
        assert path.read_text() == "two\n"

    def test_the_same_file_opened_anew_gets_it_on_a_line_of_its_own(
        self, path: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is torn stays so."""
        file = AuditFile(path, None, 1, complaints.append)
        disk = FullDisk(2, monkeypatch)
        lines = deque([b"one\n"])
        with pytest.raises(OSError, match="No space"):
            file.write(lines)
        file.reopen()
        disk.room = 1000
        file.write(lines)
        file.close()
        assert path.read_text() == "on\none\n"


class TestBeginningAnew:
    """A file that would be too long becomes the first of the former ones."""

    def test_none_is_too_long(self, file: AuditFile, path: Path, complaints: list[str]) -> None:
        """No line is in two files, and so many former ones are kept."""
        for number in range(40):
            write(file, f"{number:09}")

        former = [path.with_name(f"audit.jsonl.{number}") for number in (2, 1)]
        assert [kept.stat().st_size for kept in (*former, path)] == [100, 100, 100]
        lines = [line for kept in (*former, path) for line in kept.read_text().splitlines()]
        assert lines == [f"{number:09}" for number in range(10, 40)]
        assert sorted(each.name for each in path.parent.iterdir()) == [
            "audit.jsonl",
            "audit.jsonl.1",
            "audit.jsonl.2",
        ]
        assert complaints == []

    def test_in_one_go(self, file: AuditFile, path: Path) -> None:
        """However much comes at once."""
        write(file, *[f"{number:09}" for number in range(25)])
        assert path.read_text().splitlines() == [f"{number:09}" for number in range(20, 25)]

    def test_a_line_that_is_longer_than_a_file_may_be(self, file: AuditFile, path: Path) -> None:
        """It has one of its own."""
        write(file, "a", "b" * 200, "c")
        texts = [path.with_name(name).read_text() for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")]
        assert texts == ["a\n", "b" * 200 + "\n", "c\n"]

    def test_one_that_others_have_cut_off(self, file: AuditFile, path: Path) -> None:
        """It is as long as it is, not as long as what was written."""
        write(file, "x" * 90)
        path.write_text("")  # as logrotate's copytruncate does
        write(file, "y" * 90)
        assert path.read_text() == "y" * 90 + "\n"
        assert not path.with_name("audit.jsonl.1").exists()

    def test_a_link(self, tmp_path: Path, complaints: list[str]) -> None:
        """The former ones are beside what it leads to, and it stays."""
        (tmp_path / "there").mkdir()
        link = tmp_path / "audit"
        link.symlink_to(tmp_path / "there" / "real")
        file = AuditFile(link, 100, 2, complaints.append)
        write(file, "x" * 90, "y" * 90)
        file.close()

        assert link.is_symlink()
        assert sorted(each.name for each in (tmp_path / "there").iterdir()) == ["real", "real.1"]

    def test_where_none_can_be_begun(
        self, file: AuditFile, path: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More is added to what there is, which is said once for each time that it should have been."""

        def refuse(_self: Path, _target: Path) -> Path:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("governor.audit.file.Path.replace", refuse)
        write(file, *["x" * 9] * 25)

        assert path.read_text().splitlines() == ["x" * 9] * 25
        assert complaints == [f"audit file {path}: no new one can be begun: Permission denied; it grows on"] * 2

    @pytest.mark.parametrize("links", ["to itself", "in a circle", "to nowhere"])
    def test_where_the_path_leads_nowhere(self, links: str, file: AuditFile, path: Path, complaints: list[str]) -> None:
        """As where none can be begun; once it leads somewhere, there is a new one."""
        write(file, "x" * 90)
        path.rename(path.with_name("moved"))
        other = path.with_name("other")
        if links == "in a circle":
            other.symlink_to(path)
        path.symlink_to({"to itself": path, "in a circle": other, "to nowhere": path.with_name("no") / "where"}[links])
        write(file, "y" * 90)

        assert path.with_name("moved").read_text() == f"{'x' * 90}\n{'y' * 90}\n"
        why = "No such file or directory" if links == "to nowhere" else "Too many levels of symbolic links"
        assert complaints == [f"audit file {path}: no new one can be begun: {why}; it grows on"]
        path.unlink()
        write(file, "z" * 90)
        assert path.read_text() == f"{'z' * 90}\n"

    def test_a_pipe_and_a_device_never_do(self, tmp_path: Path, complaints: list[str]) -> None:
        """Nor do they need somebody at the other end."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        for path in (pipe, Path("/dev/null")):
            file = AuditFile(path, 10, 1, complaints.append)
            write(file, "one", "two", "three", "four")
            if path == pipe:
                reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                assert os.read(reader, 100) == b"one\ntwo\nthree\nfour\n"
                os.close(reader)
            file.close()
        assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


class TestReopening:
    """Others may move the file away, and say so."""

    def test_a_new_one_is_made(self, file: AuditFile, path: Path) -> None:
        """Until it is said, what was moved is written on."""
        write(file, "one")
        path.rename(path.with_name("moved"))
        write(file, "two")
        file.reopen()
        write(file, "three")

        assert path.with_name("moved").read_text() == "one\ntwo\n"
        assert path.read_text() == "three\n"

    def test_if_there_can_be_none_it_goes_on(self, file: AuditFile, path: Path) -> None:
        """With the one that there was."""
        path.rename(path.with_name("moved"))
        path.mkdir()
        with pytest.raises(OSError, match="directory"):
            file.reopen()
        write(file, "one")
        assert path.with_name("moved").read_text() == "one\n"


@pytest.mark.parametrize("max_size", [None, 100])
class TestDeleted:
    """Others may delete it, and say nothing: what is written to it then could be read by nobody."""

    @pytest.mark.parametrize("by", ["rm", "mv", "a link"])
    def test_a_new_one_is_begun(
        self, by: str, max_size: int | None, path: Path, complaints: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """With the next line, which is said once."""
        file = AuditFile(path, max_size, 1, complaints.append)
        write(file, "one")
        other = path.with_name("other")
        if by == "mv":
            other.write_text("other\n")
            other.replace(path)
        else:
            path.unlink()
        if by == "a link":
            path.symlink_to(other)
        write(file, "two")
        write(file, "three")
        file.close()

        assert path.read_text() == ("other\n" if by == "mv" else "") + "two\nthree\n"
        told = f"audit file {path}: was deleted, with the lines in it; a new one is begun"
        assert [record.getMessage() for record in caplog.records] == [told]
        assert complaints == []

    def test_with_its_folder(self, max_size: int | None, path: Path, complaints: list[str]) -> None:
        """That is a failure until there is one again; nothing is taken to be written meanwhile."""
        folder = path.with_name("folder")
        folder.mkdir()
        file = AuditFile(folder / "audit", max_size, 1, complaints.append)
        write(file, "one")
        (folder / "audit").unlink()
        folder.rmdir()
        lines = deque([b"two\n"])
        for _ in range(3):
            with pytest.raises(FileNotFoundError):
                file.write(lines)
        assert lines == deque([b"two\n"])
        folder.mkdir()
        file.write(lines)
        file.close()
        assert (folder / "audit").read_text() == "two\n"

    def test_to_make_room_on_a_full_disk(
        self, max_size: int | None, path: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However much of a line was in it, the new one has all of it."""
        for room in range(4):
            path.unlink(missing_ok=True)
            file = AuditFile(path, max_size, 1, complaints.append)
            disk = FullDisk(room, monkeypatch)
            lines = deque([b"one\n", b"two\n"])
            with pytest.raises(OSError, match="No space"):
                file.write(lines)
            path.unlink()
            disk.room = 1000
            file.write(lines)
            file.close()
            monkeypatch.undo()
            assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("seed", range(30))
def test_whatever_befalls_it(seed: int, path: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Full disks, files moved away, new ones: every line is there once and whole, in order. The seed is in the name."""
    random = Random(seed)
    disk = FullDisk(0, monkeypatch)
    file = AuditFile(path, 200, 1000, complaints.append)
    lines: deque[bytes] = deque()
    moved = put = 0
    for _ in range(100):
        for _ in range(random.randrange(5)):
            lines.append(f"[{put:05}{'x' * random.randrange(60)}]\n".encode())
            put += 1
        disk.room = random.choice([0, random.randrange(80), 10_000])
        if random.random() < 0.1:
            path.rename(path.with_name(f"moved.{moved:04}"))
            moved += 1
            file.reopen()
        try:
            file.write(lines)
        except OSError:
            assert lines
    disk.room = 10**6
    file.write(lines)
    file.close()

    found: list[str] = []
    for each in sorted(path.parent.iterdir()):
        found += [line for line in each.read_text().splitlines() if line.startswith("[") and line.endswith("]")]
    assert sorted(line[1:6] for line in found) == [f"{number:05}" for number in range(put)]
    assert complaints == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _socket(folder: Path) -> Path:
    path = folder / "socket"
    os.mknod(path, stat.S_IFSOCK | 0o600)
    return path
