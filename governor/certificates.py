"""The certificate of a daemon's ports: read when it starts, and again as soon as its files are others.

It knows files, and whether they make sense together. It must never know who connects. In one sentence: what was good
last is shown until there is something else that is good.

Whoever shakes hands asks for it, from whatever thread; what it costs to see that nothing has changed is a look at each
file.
"""

import datetime as dt
import logging
import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from governor.aside import aside
from governor.der import element
from governor.lock import BindError
from governor.tls import Tls

if TYPE_CHECKING:
    import asyncio

_LOG: Final = logging.getLogger("governor")

# Of one file. A whole store of authorities has some 200 KiB.
_MAX_BYTES: Final = 1 << 20

# What tells that a file has changed, also one that a link leads to.
_Seen = tuple[tuple[int, int, int, int] | None, ...]

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Of DER: a whole number, a version, and the two ways to write an instant.
_INTEGER, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x02, 0xA0, 0x17, 0x18

# X.509 writes years with two digits until then, and strptime reads some of them as later ones.
_LAST_SHORT_YEAR: Final = 2049


@dataclass(slots=True, frozen=True)
class Shown:
    """What is shown to whoever connects: PEM, and the same for the ssl module.

    ``authorities``: whom clients must have been certified by. From ``since`` to ``until`` it proves something, in
    seconds of Unix time.
    """

    cert: bytes
    key: bytes
    authorities: bytes | None
    context: ssl.SSLContext
    since: float
    until: float


class Certificates:
    """What is shown to whoever connects, and whom they must have been certified by.

    ``told`` of what is shown, at first and when it is another, and with None that what is there now is not in order.
    """

    def __init__(self, files: Tls, told: Callable[[Shown | None], None] = lambda _shown: None) -> None:
        """Raises `BindError`."""
        self._files = files
        self._told = told
        self._lock = Lock()
        self._looking: asyncio.Future[Shown] | None = None
        self._seen = self._look()
        try:
            self._shown = self._read()
        except (OSError, ValueError) as error:
            raise BindError(f"tls: {_why(error)}") from error
        told(self._shown)

    def now(self) -> Shown:
        """What is to be shown: the same object until there is another. It may block, and raises nothing."""
        with self._lock:
            seen = self._look()
            if seen == self._seen:
                return self._shown
            self._seen = seen
            try:
                self._shown = self._read()
            except (OSError, ValueError) as error:
                _LOG.error("tls: %s; the certificate of before is still shown", _why(error))
                self._told(None)
            else:
                _LOG.info("tls: a new certificate is shown from now on")
                self._told(self._shown)
            return self._shown

    def soon(self) -> "asyncio.Future[Shown]":
        """The same for the event loop. One look goes on at a time, whoever asks, so do not cancel it."""
        if self._looking is None or self._looking.done():
            self._looking = aside(self.now, "governor-tls")
        return self._looking

    def _look(self) -> _Seen:
        return tuple(_state(path) for path in (self._files.cert, self._files.key, self._files.client_ca) if path)

    def _read(self) -> Shown:
        """Raises OSError or ValueError, with the name of a file."""
        files = self._files
        cert, key = _contents(files.cert), _contents(files.key)
        authorities = None if files.client_ca is None else _contents(files.client_ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with _named(cert) as cert_name, _named(key) as key_name:
            try:
                context.load_cert_chain(cert_name, key_name, password=_no_password)
            except ssl.SSLError as error:
                pair = f"{files.cert} and {files.key}"
                raise ValueError(f"{pair}: they are no certificate and its key ({_reason(error)})") from error
        if authorities is not None:
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise ValueError(f"{files.client_ca}: there are no certificates in it") from error
        since, until = _validity(cert, files.cert)
        return Shown(cert, key, authorities, context, since, until)


def _state(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


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


# --- how long it proves anything ----------------------------------------------------------------------------


def _validity(cert: bytes, path: Path) -> tuple[float, float]:
    """From when and until when all certificates in this PEM count. The ssl module tells that of others' alone."""
    try:
        spans = [_span(ssl.PEM_cert_to_DER_cert(found.decode("ascii"))) for found in _PEM.findall(cert)]
        return max(since for since, _ in spans), min(until for _, until in spans)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path}: it does not say how long it counts") from error


def _span(der: bytes) -> tuple[float, float]:
    """Of one certificate: a sequence that begins with one of a version, a number, how it is signed, by whom, a span."""
    _, fields, _ = element(element(der)[1])
    tag, _, rest = element(fields)
    if tag == _VERSION:
        tag, _, rest = element(rest)
    if tag != _INTEGER:
        raise ValueError("there is no serial number")
    for _ in range(2):
        _, _, rest = element(rest)
    _, span, _ = element(rest)
    since_tag, since, rest = element(span)
    until_tag, until, _ = element(rest)
    return _instant(since_tag, since), _instant(until_tag, until)


def _instant(tag: int, text: bytes) -> float:
    if tag not in {_UTC_TIME, _GENERALIZED_TIME}:
        raise ValueError("there is no instant")
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    found = dt.datetime.strptime(text.decode("ascii"), form).replace(tzinfo=dt.UTC)
    if tag == _UTC_TIME and found.year > _LAST_SHORT_YEAR:
        found = found.replace(year=found.year - 100)
    return found.timestamp()


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _why(error: OSError | ValueError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
