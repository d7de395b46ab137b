"""Route: which entries of which folders lead to a file, through all links.

It knows how a path is resolved, and has the kernel watch each stage of it. It must never know what is in the file.

A path may come to mean another file without that file being touched: an entry is renamed over, a link is made anew (a
ConfigMap swaps its `..data`), a folder on the way is moved. And a file may change without its entry being touched.
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from governor.inotify import (
    ATTRIB,
    CLOSE_WRITE,
    CREATE,
    DELETE,
    DELETE_SELF,
    IGNORED,
    MODIFY,
    MOVE_SELF,
    MOVED_FROM,
    MOVED_TO,
    ONLY_FOLDER,
    OVERFLOW,
    Event,
    Inotify,
)

# As many as the kernel follows.
_MAX_LINKS: Final = 40

# Of a folder that is only on the way nothing is heard but that it is another one now: what else happens in / or /tmp
# is nobody's business here. The writes into a file are heard of that file alone, for the same reason.
_ON_THE_WAY: Final = ONLY_FOLDER | MOVE_SELF | DELETE_SELF
_ENTRIES: Final = _ON_THE_WAY | CREATE | DELETE | MOVED_FROM | MOVED_TO
_FILE: Final = MODIFY | CLOSE_WRITE | ATTRIB | MOVE_SELF | DELETE_SELF


@dataclass(slots=True)
class Stages:
    """What leads to a file: entries by the folder they are in, folders on the way, and the file if it is there."""

    entries: dict[str, set[bytes]] = field(default_factory=dict)
    on_the_way: set[str] = field(default_factory=set)
    file: str | None = None


def stages(path: Path) -> Stages:
    """As they are now. Of a path that ends too early, the entry that is missing is the last."""
    found = Stages()
    left = list(reversed(path.absolute().parts[1:]))
    at, links = "/", 0
    while left:
        name = left.pop()
        if name == "..":
            at = at.rpartition("/")[0] or "/"  # right, since no link is left in it
            continue
        here = f"/{name}" if at == "/" else f"{at}/{name}"
        try:
            mode = os.lstat(here).st_mode
            target = str(Path(here).readlink()) if stat.S_ISLNK(mode) else ""
        except OSError:
            found.entries.setdefault(at, set()).add(os.fsencode(name))
            return found
        if target:
            found.entries.setdefault(at, set()).add(os.fsencode(name))
            links += 1
            if links > _MAX_LINKS:
                return found
            at = "/" if target.startswith("/") else at
            left.extend(part for part in reversed(target.split("/")) if part not in {"", "."})
        elif left:
            found.on_the_way.add(here)
            at = here
        else:
            found.entries.setdefault(at, set()).add(os.fsencode(name))
            found.file = here
    return found


class Route:
    """The stages to one file, watched. ``follow`` may be called in another thread, one at a time."""

    def __init__(self, path: Path) -> None:
        """Raises OSError when the kernel has no more queues of events to give."""
        self._path = path
        self._inotify = Inotify()
        # Which entries of a watched folder matter, None for the file itself. Replaced as a whole.
        self._watches: dict[int, frozenset[bytes] | None] = {}
        self._following = Lock()
        self._closed = False
        # Somebody has the file open and has written to it.
        self.writing = False

    @property
    def fd(self) -> int:
        """It is readable when something has happened."""
        return self._inotify.fd

    def follow(self) -> str:
        """Watch the stages as they are now; which of them cannot be watched, and why, or nothing."""
        with self._following:
            problem = "" if self._closed else self._follow()
            if self._closed:
                self._inotify.close()
            return problem

    def _follow(self) -> str:
        now = stages(self._path)
        problems: list[str] = []
        watches: dict[int, frozenset[bytes] | None] = {}

        def watch(path: str, mask: int, names: frozenset[bytes] | None) -> None:
            try:
                watches[self._inotify.watch(path, mask)] = names
            except OSError as error:
                problems.append(f"{path}: {error.strerror}")

        for folder in now.on_the_way - now.entries.keys():
            watch(folder, _ON_THE_WAY, frozenset())
        for folder, names in now.entries.items():
            watch(folder, _ENTRIES, frozenset(names))
        if now.file is not None:
            watch(now.file, _FILE, None)
        for former in self._watches.keys() - watches.keys():
            self._inotify.unwatch(former)
        self._watches = watches
        return problems[0] if problems else ""

    def stirred(self) -> bool:
        """Whether anything has happened since that may make another file of it."""
        stirred = False
        for event in self._inotify.read():
            stirred = self._matters(event) or stirred
        return stirred

    def _matters(self, event: Event) -> bool:
        if event.mask & OVERFLOW:
            self.writing = False
            return True
        if event.mask & IGNORED:
            return False
        names = self._watches.get(event.watch)
        if names is not None:
            if event.name and event.name not in names:
                return False
            # Whatever was written to, this is another file now.
            self.writing = False
            return True
        # The file itself, or one that has just become it.
        self.writing = bool(event.mask & MODIFY) or (self.writing and not event.mask & CLOSE_WRITE)
        return True

    def close(self) -> None:
        """Nothing is watched any more. Safe while it is followed in another thread, which may take for ever."""
        self._closed = True
        if self._following.acquire(blocking=False):
            try:
                self._inotify.close()
            finally:
                self._following.release()
