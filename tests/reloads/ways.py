"""Ways: one file behind every kind of link at once, which is changed in a way that chance picks.

It knows files. It must never know what is in them.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.e2e.files import File


class AnyWay(File):
    """``current/etc/governor.yaml``: a link to a release, a folder, a link into ``..data``, a link to a version."""

    def __init__(self, folder: Path, chance: Random) -> None:
        super().__init__(folder)
        self.path = folder / "current" / "etc" / "governor.yaml"
        self.used: dict[str, int] = {}
        self._chance = chance
        self._swap_release("")

    @property
    def _ways(self) -> tuple[Callable[[str], None], ...]:
        return (
            self._in_place,
            self._in_pieces,
            self._rename_over,
            self._with_backup,
            self._remove_and_make,
            self._swap_version,
            self._swap_file,
            self._swap_release,
            self._move_folder,
        )

    def write(self, text: str) -> None:
        """In any way."""
        way = self._chance.choice(self._ways)
        self.used[way.__name__] = self.used.get(way.__name__, 0) + 1
        way(text)

    def _real(self) -> Path:
        return self.path.resolve()

    def _in_place(self, text: str) -> None:
        self._real().write_text(text)

    def _in_pieces(self, text: str) -> None:
        with self._real().open("w") as file:
            for start in range(0, len(text), 50):
                file.write(text[start : start + 50])
                file.flush()

    def _rename_over(self, text: str) -> None:
        new = self._real().with_name("new")
        new.write_text(text)
        new.replace(self._real())

    def _with_backup(self, text: str) -> None:
        real = self._real()
        backup = real.with_name("governor.yaml~")
        real.rename(backup)
        real.write_text(text)
        backup.unlink()

    def _remove_and_make(self, text: str) -> None:
        real = self._real()
        real.unlink()
        real.write_text(text)

    def _swap_version(self, text: str) -> None:
        """As the kubelet does."""
        etc = self.path.parent
        data = etc / "..data"
        old = data.resolve()
        link = etc / "..data_tmp"
        link.symlink_to(self._version(etc, text))
        link.replace(data)
        shutil.rmtree(old)

    def _swap_file(self, text: str) -> None:
        """The last link, for one to a file of its own; then back, to where it was."""
        etc = self.path.parent
        target = etc / "..data" / "governor.yaml"
        other = self.fresh("other")
        other.write_text(text)
        link = self.fresh("link")
        link.symlink_to(other)
        link.replace(self.path)
        target.write_text(text)
        link.symlink_to("..data/governor.yaml")
        link.replace(self.path)

    def _swap_release(self, text: str) -> None:
        release = self.fresh("release")
        self._fill(release / "etc", text)
        link = self.fresh("link")
        link.symlink_to(release.name)
        link.replace(self.folder / "current")

    def _move_folder(self, text: str) -> None:
        new = self.fresh("etc")
        self._fill(new, text)
        etc = self.path.parent.resolve()
        etc.rename(self.fresh("old"))
        new.rename(etc)

    def _fill(self, etc: Path, text: str) -> None:
        etc.mkdir(parents=True)
        (etc / "..data").symlink_to(self._version(etc, text))
        (etc / "governor.yaml").symlink_to("..data/governor.yaml")

    def _version(self, etc: Path, text: str) -> str:
        version = self.fresh("..version").name
        (etc / version).mkdir()
        (etc / version / "governor.yaml").write_text(text)
        return version
