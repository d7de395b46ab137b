"""How a server comes to an address, and leaves it: the checks that grpc does not make, made before it is asked.

It knows files, locks and ports. It must never know what is served there.

grpc on its own takes the path of a living server without a word, shares a port with one (its SO_REUSEPORT), says only
"failed to bind" about everything else, and unlinks the path when it stops, whoever's that is by then.
"""

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import shutil
import socket
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

import grpc
from grpc import aio

from governor import folders
from governor.address import MAX_SOCKET_PATH, TcpAddress, UnixAddress
from governor.lock import BindError, SocketLock

_LOG: Final = logging.getLogger("governor")


class UnixSocket:
    """One unix socket of ours: locked, bound under a name of its own, then put in place ready to use.

    Bound under another name first, because a rename is atomic: a client that finds the path finds a socket that is
    served and has its final owner and mode; a stale socket of a killed daemon is replaced in the same instant; and
    the name that grpc unlinks when it stops is gone, so that what stands at the path is never its business.
    """

    def __init__(self, address: UnixAddress) -> None:
        """Takes the lock and changes nothing else; raises `BindError`."""
        self.address = address
        self._inode: tuple[int, int] | None = None
        _check_path(address)
        self._lock = SocketLock(address.path)
        try:
            _check_free(address.path)
        except BaseException:
            self._lock.release()
            raise
        self._temporary = _temporary_name(address.path)

    def bind(self, server: aio.Server) -> None:
        """Binds the temporary name, open to nobody; raises `BindError`."""
        # The umask is the whole process's; this is one synchronous step, at a time when no other file is made.
        before = os.umask(0o777)
        try:
            # What stands after unix: is a URI, in which % and # and ? would mean something.
            server.add_insecure_port(f"unix:{quote(str(self._temporary))}")
        except RuntimeError as error:
            raise BindError(f"{self.address}: grpc cannot bind here; try another folder") from error
        finally:
            os.umask(before)

    def publish(self) -> None:
        """Gives the bound socket its owner and mode and moves it into place; raises `BindError`."""
        address = self.address
        try:
            if address.owner is not None or address.group is not None:
                shutil.chown(self._temporary, address.owner, address.group)  # type: ignore[arg-type] # None keeps it
            self._temporary.chmod(address.mode)
            found = self._temporary.lstat()
            self._temporary.rename(address.path)
        except LookupError as error:
            raise BindError(f"{address}: {error}; correct the owner or group in the config") from error
        except OSError as error:
            raise BindError(f"{address}: cannot set its owner and mode: {error.strerror}") from error
        self._inode = (found.st_dev, found.st_ino)

    def withdraw(self) -> None:
        """Removes what is still ours and lets go of the lock; safe at any point of the way, and twice."""
        with contextlib.suppress(FileNotFoundError):
            self._temporary.unlink()
        with contextlib.suppress(FileNotFoundError):
            found = self.address.path.lstat()
            if (found.st_dev, found.st_ino) == self._inode:
                self.address.path.unlink()
        self._inode = None
        self._lock.release()


async def bind_tcp(server: aio.Server, address: TcpAddress, shown: grpc.ServerCredentials | None = None) -> TcpAddress:
    """Binds all that the host stands for and returns the address with its real port; raises `BindError`.

    ``shown``: to whoever connects where TLS is spoken.
    """
    assert address.tls == (shown is not None), "a certificate is for where TLS is spoken, and there is one for it"
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BindError(f"{address}: no such host: {error.strerror}; correct the listen address") from error
    if address.port:
        # grpc is content when one of several addresses is free. We are not: half of the clients would be lost.
        for family, kind, protocol, _, place in found:
            _probe(address, socket.socket(family, kind, protocol), place)
    try:
        bare = address.bare
        port = server.add_insecure_port(bare) if shown is None else server.add_secure_port(bare, shown)
    except RuntimeError as error:
        raise BindError(f"{address}: grpc cannot bind here; choose another address") from error
    return TcpAddress(address.host, port, address.tls)


def _probe(address: TcpAddress, probe: socket.socket, place: tuple[str | int | bytes, ...]) -> None:
    with probe:
        # As grpc does: a connection in TIME_WAIT does not keep the port, a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if probe.family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind(place)
            probe.listen()
        except OSError as error:
            match error.errno:
                case errno.EADDRINUSE:
                    told = "is in use by another program; stop that one, or choose another port"
                case errno.EADDRNOTAVAIL:
                    told = "is no address of this machine; correct the listen address"
                case errno.EACCES:
                    told = "is not ours to bind; choose a port from 1024 up"
                case _:
                    told = f"cannot be bound: {error.strerror}"
            raise BindError(f"{address}: {told}") from error


def _check_path(address: UnixAddress) -> None:
    path = address.path
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH:
        raise BindError(
            f"unix:{path}: the path has {size} bytes, and a socket's may have {MAX_SOCKET_PATH}; shorten it"
        )
    folder = path.parent
    if folder.parent.is_dir():
        try:
            folders.make(folder, address.owner, address.group)
        except BindError as error:
            raise BindError(f"{address}: {error}") from error
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        raise BindError(f"unix:{path}: the folder {folder} does not exist; create it, or correct the path") from None
    except OSError as error:
        raise BindError(f"unix:{path}: cannot look into {folder}: {error.strerror}; correct the path") from error
    if not stat.S_ISDIR(mode):
        raise BindError(f"unix:{path}: {folder} is no folder; correct the path")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BindError(f"unix:{path}: the folder {folder} is not writable for this user; change its mode or owner")
    if told := folders.open_to_others(path):
        _LOG.warning("%s", told)


def _check_free(path: Path) -> None:
    """What stands at the path is nothing, or a socket that nobody serves; a lock alone says so only of governors."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BindError(f"unix:{path}: something that is no socket stands there; remove it, or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A listener with a full backlog must not hold us up: it is alive as well.
        probe.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError:
            pass
    raise BindError(f"unix:{path}: another program serves this socket; stop that one, or choose another path")


def _temporary_name(path: Path) -> Path:
    """A free name in the same folder, no longer than the final one: the limit on paths holds for both."""
    while True:
        name = secrets.token_hex(len(path.name))[: len(os.fsencode(path.name))]
        if not os.path.lexists(path.with_name(name)):
            return path.with_name(name)
