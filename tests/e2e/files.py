"""All the ways in which a config file comes to say something else."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final


class File(ABC):
    """A config in an otherwise empty folder. ``path`` is what a daemon is given; there is something to write it to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.path = folder / "governor.yaml"
        self._count = 0

    @abstractmethod
    def write(self, text: str) -> None:
        """From now on, and not before all of it is there if this way can do that, the path means this text."""

    def fresh(self, name: str) -> Path:
        """A path in the folder that nothing ever had."""
        self._count += 1
        return self.folder / f"{name}{self._count}"


class InPlace(File):
    """`echo … > file`: it is cut to nothing and then filled."""

    def write(self, text: str) -> None:
        """Into the same file."""
        self.path.write_text(text)


class InPieces(File):
    """As `ssh host cat '>' file` does over a slow line, but without waiting."""

    def write(self, text: str) -> None:
        """A few characters at a time."""
        with self.path.open("w") as file:
            for start in range(0, len(text), 7):
                file.write(text[start : start + 7])
                file.flush()


class SameStamp(File):
    """`cp --preserve`, or a disk whose clock is coarse: neither the size nor the time of the file tells."""

    def write(self, text: str) -> None:
        """With the time of before; whoever uses it gives texts of one length."""
        before = self.path.stat()
        self.path.write_text(text)
        os.utime(self.path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Renamed(File):
    """`mv new file`, and whatever writes atomically."""

    def write(self, text: str) -> None:
        """Another file over it."""
        new = self.fresh("new")
        new.write_text(text)
        new.replace(self.path)


class Backup(File):
    """As vim does it: the old one is renamed out of the way first, so for a moment there is none."""

    def write(self, text: str) -> None:
        """Another file in the place of the old one, which is then removed."""
        old = self.folder / "governor.yaml~"
        self.path.rename(old)
        self.path.write_text(text)
        self.path.chmod(0o640)
        old.unlink()


class Gone(File):
    """`rm file; cat > file`."""

    def write(self, text: str) -> None:
        """A file that was not there."""
        self.path.unlink(missing_ok=True)
        self.path.write_text(text)


class HardLink(File):
    """`ln -f new file`: what has the name is a file that has another one as well, and is written to by that."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.other = folder / "other"
        self.other.touch()
        os.link(self.other, self.path)

    def write(self, text: str) -> None:
        """By the other name, in another folder's view."""
        self.other.write_text(text)


class ConfigMap(File):
    """As the kubelet does it: the file is a link into ``..data``, a link to a folder, and that link is swapped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "..data"
        (folder / "..first").mkdir()
        (folder / "..first" / "governor.yaml").touch()
        self.data.symlink_to("..first")
        self.path.symlink_to("..data/governor.yaml")

    def write(self, text: str) -> None:
        """A new folder, the link swapped, the old folder removed."""
        old, new = self.data.resolve(), self.fresh("..version")
        new.mkdir()
        (new / "governor.yaml").write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.replace(self.data)
        shutil.rmtree(old)


class Link(File):
    """`ln -sfn`: the path is a link, which is made anew."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path.symlink_to(self._target())

    def _target(self) -> Path:
        target = self.fresh("target")
        target.touch()
        return target

    def write(self, text: str) -> None:
        """To another file."""
        target = self._target()
        target.write_text(text)
        link = self.fresh("link")
        link.symlink_to(target)
        link.replace(self.path)


class LinkTarget(Link):
    """A link to a file in another folder, which is renamed over where it lies."""

    def _target(self) -> Path:
        (self.folder / "elsewhere").mkdir(exist_ok=True)
        target = self.folder / "elsewhere" / "real.yaml"
        target.touch()
        return target

    def write(self, text: str) -> None:
        """The link stays."""
        new = self.fresh("new")
        new.write_text(text)
        new.replace(self.folder / "elsewhere" / "real.yaml")


class LinkedFolder(File):
    """`current -> releases/7`, as deployments have it: the folder of the file is a link, which is swapped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "current" / "etc" / "governor.yaml"
        self._swap("")

    def _swap(self, text: str) -> None:
        release = self.fresh("release")
        (release / "etc").mkdir(parents=True)
        (release / "etc" / "governor.yaml").write_text(text)
        link = self.fresh("link")
        link.symlink_to(release.name)
        link.replace(self.folder / "current")

    def write(self, text: str) -> None:
        """Another release."""
        self._swap(text)


class MovedFolder(File):
    """`mv etc old; mv new etc`, two levels above the file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.top = folder / "top"
        self.path = self.top / "etc" / "governor.yaml"
        self.path.parent.mkdir(parents=True)

    def write(self, text: str) -> None:
        """For a moment there is no such folder."""
        new = self.fresh("new")
        (new / "etc").mkdir(parents=True)
        (new / "etc" / "governor.yaml").write_text(text)
        self.top.rename(self.fresh("old"))
        new.rename(self.top)


class RemovedFolder(File):
    """`rm -r etc; mkdir etc; …`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "top" / "etc" / "governor.yaml"
        self.path.parent.mkdir(parents=True)

    def write(self, text: str) -> None:
        """Folder by folder."""
        shutil.rmtree(self.folder / "top")
        self.path.parent.mkdir(parents=True)
        self.path.write_text(text)


WAYS: Final[tuple[Callable[[Path], File], ...]] = (
    InPlace,
    InPieces,
    SameStamp,
    Renamed,
    Backup,
    Gone,
    HardLink,
    ConfigMap,
    Link,
    LinkTarget,
    LinkedFolder,
    MovedFolder,
    RemovedFolder,
)
