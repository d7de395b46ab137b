"""The certificate of a daemon's ports: read when it starts, and again as soon as its files are others.

It knows files, and whether they make sense together. It must never know who connects. In one sentence: what was good
last is shown until there is something else that is good.

Whoever shakes hands asks for it, from whatever thread; what it costs to see that nothing has changed is a look at each
file.
"""

import logging
import os
import ssl
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from governor import x509
from governor.aside import aside
from governor.lock import BindError
from governor.tls import Tls
from governor.wording import printable

if TYPE_CHECKING:
    import asyncio

_LOG: Final = logging.getLogger("governor")

# Of one file. A whole store of authorities has some 200 KiB.
_MAX_BYTES: Final = 1 << 20

# What tells that a file has changed, also one that a link leads to.
_Seen = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(slots=True, frozen=True)
class Shown:
    """What is shown to whoever connects: PEM, and the same for the ssl module.

    ``name``: whose it is. ``authorities``: whom clients must have been certified by. From ``since`` to ``until`` it
    proves something, in seconds of Unix time.
    """

    name: str

    cert: bytes
    key: bytes
    authorities: bytes | None
    context: ssl.SSLContext
    since: float
    until: float

    def __str__(self) -> str:
        return f"{printable(self.name) or 'without a name'}, until {x509.written(self.until)}"

    def counts(self, now: float) -> bool:
        """Whether it proves anything then."""
        return self.since <= now <= self.until


class Certificates:
    """What is shown to whoever connects, and whom they must have been certified by.

    ``told`` of what is shown, at first and when it is another, and with None that what is there now is not in order.
    """

    def __init__(
        self,
        files: Tls,
        told: Callable[[Shown | None], None] = lambda _shown: None,
        *,
        time: Callable[[], float],
    ) -> None:
        """``time``: what it is, in seconds of Unix time. Raises `BindError`."""
        self._files = files
        self._time = time
        self._told = told
        self._lock = Lock()
        self._looking: asyncio.Future[Shown] | None = None
        # What is in the files and does not count yet, where another does.
        self._early: Shown | None = None
        self._seen = self._look()
        try:
            self._shown = _read(self._files)
        except (OSError, ValueError) as error:
            raise BindError(f"tls: {_why(error)}") from error
        told(self._shown)

    def now(self) -> Shown:
        """What is to be shown: the same object until there is another. It may block, and raises nothing."""
        with self._lock:
            seen = self._look()
            if seen == self._seen:
                if self._early is not None and self._early.counts(self._time()):
                    self._show(self._early)
                return self._shown
            self._seen, self._early = seen, None
            try:
                found = _read(self._files)
            except (OSError, ValueError) as error:
                _LOG.error("tls: %s; the certificate of before is still shown", _why(error))
                self._told(None)
                return self._shown
            now = self._time()
            if self._shown.counts(now) and not found.counts(now):
                # By it nobody would get through.
                self._early = found if now < found.since else None
                told = "tls: %s: %s; the one of before is still shown: %s"
                _LOG.warning(told, self._files.cert, _not_now(found, now), self._shown)
                self._told(None)
                return self._shown
            self._show(found)
            return found

    def _show(self, found: Shown) -> None:
        self._shown, self._early = found, None
        _LOG.info("tls: a new certificate is shown from now on: %s", found)
        self._told(found)

    def soon(self) -> "asyncio.Future[Shown]":
        """The same for the event loop. One look goes on at a time, whoever asks, so do not cancel it."""
        if self._looking is None or self._looking.done():
            self._looking = aside(self.now, "governor-tls")
        return self._looking

    def _look(self) -> _Seen:
        return tuple(_state(path) for path in (self._files.cert, self._files.key, self._files.client_ca) if path)


def doubts(files: Tls, now: float) -> list[str]:
    """What a daemon would say of these files if it started with them, and whether others could read its key."""
    told = []
    try:
        found = _read(files)
    except (OSError, ValueError) as error:
        told.append(f"tls: {_why(error)}: no daemon starts with that")
    else:
        if not found.counts(now):
            told.append(f"tls: {files.cert}: nobody believes it now: {_not_now(found, now)}")
    with suppress(OSError):  # which is told above
        if files.key.stat().st_mode & stat.S_IROTH:
            told.append(f"tls: every user of this machine may read the key: chmod o= {files.key}")
    return told


def _not_now(shown: Shown, now: float) -> str:
    """Why it proves nothing now."""
    return f"it does not count before {x509.written(shown.since)}" if now < shown.since else "it has ended"


def _read(files: Tls) -> Shown:
    """Raises OSError or ValueError, with the name of a file."""
    cert, key = _contents(files.cert), _contents(files.key)
    authorities = None if files.client_ca is None else _contents(files.client_ca)
    about = _about(cert)
    if isinstance(about, x509.About) and not about.serves:
        # OpenSSL may take it. What gRPC has in its place does not, and would show the one of before in silence.
        raise ValueError(f"{files.cert}: its key is {about.kind}: expected {x509.EXPECTED}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _named(cert) as cert_name, _named(key) as key_name:
        try:
            context.load_cert_chain(cert_name, key_name, password=_no_password)
        except ssl.SSLError as error:
            pair = f"{files.cert} and {files.key}"
            raise ValueError(f"{pair}: they are no certificate and its key ({_reason(error)})") from error
    if authorities is not None:
        try:
            # What is no ASCII is between them, and says whose each is.
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:  # nothing at all
            raise ValueError(f"{files.client_ca}: there are no certificates in it") from error
    if isinstance(about, x509.X509Error):
        raise ValueError(f"{files.cert}: {about}") from about  # noqa: TRY004 - of a text, not of a program
    return Shown(about.name, cert, key, authorities, context, about.since, about.until)


def _state(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _about(cert: bytes) -> x509.About | x509.X509Error:
    """What it says; what is no certificate at all is told in better words with its key."""
    try:
        return x509.read(cert)
    except x509.X509Error as error:
        return error


def _contents(path: Path) -> bytes:
    # Opening a pipe would wait for somebody to write to it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        data = file.read(_MAX_BYTES + 1) or b""
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{path}: it is larger than 1 MiB")
    return data


@contextmanager
def _named(data: bytes) -> Iterator[str]:
    """A name under which these very bytes can be read: what is checked must be what is shown."""
    descriptor = os.memfd_create("governor-tls", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _no_password() -> str:
    """Else OpenSSL would ask for it at the terminal."""
    raise ValueError("the key has a password: write it without one, in a file that only the daemon can read")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _why(error: OSError | ValueError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
