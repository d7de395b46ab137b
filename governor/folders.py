"""The folder of a unix socket: made where there is none, and looked at where there is one.

It knows modes. It must never know what listens there.

Who may connect is said by the mode of the socket; but whoever may write to its folder can put a socket of his own
there, and hear what clients say to it.
"""

import shutil
import stat
from pathlib import Path
from typing import Final

from governor.lock import BindError

# For the owner and the group of the socket alone.
MODE: Final = 0o750


def make(folder: Path, owner: str | int | None, group: str | int | None) -> None:
    """Makes that one folder and gives it to whom its socket is given; nothing if it is there. Raises `BindError`."""
    try:
        folder.mkdir(mode=MODE)
    except FileExistsError:
        return
    except OSError as error:
        told = f"cannot be made: {error.strerror}; create it, or correct the path"
        raise BindError(f"the folder {folder} {told}") from error
    try:
        if owner is not None or group is not None:
            shutil.chown(folder, owner, group)  # type: ignore[arg-type] # None keeps it
        # Whatever the umask has taken away of it.
        folder.chmod(MODE)
    except (LookupError, OSError) as error:
        folder.rmdir()
        why = error.strerror if isinstance(error, OSError) else error
        raise BindError(f"the folder {folder} cannot be given its owner and mode: {why}") from error


def open_to_others(path: Path) -> str:
    """What others could do who are neither owner nor group of the folder of this socket; empty if nothing.

    Also if it cannot be looked at, which whoever listens there is told.
    """
    folder = path.parent
    try:
        mode = folder.stat().st_mode
    except OSError:
        return ""
    if not (stat.S_ISDIR(mode) and mode & stat.S_IWOTH):
        return ""
    when = ", while no daemon runs" if mode & stat.S_ISVTX else ""
    return (
        f"every user of this machine may put a socket of his own in the place of unix:{path}{when}, since all may "
        f"write to {folder}: choose a folder of mode 0750, which the daemon makes if there is none"
    )
