"""The certificate of a daemon's ports: read when it starts, and again as soon as its files are others.

It knows files, and whether they make sense together. It must never know who connects. In one sentence: what was good
last is shown until there is something else that is good.

gRPC asks for it at each handshake, in a thread of its own; what it costs to see that nothing has changed is a look at
each file.
"""

import logging
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

import grpc

from governor.lock import BindError
from governor.tls import Tls

_LOG: Final = logging.getLogger("governor")

# Of one file. A whole store of authorities has some 200 KiB.
_MAX_BYTES: Final = 1 << 20

# What tells that a file has changed, also one that a link leads to.
_Seen = tuple[tuple[int, int, int, int] | None, ...]


class Certificates:
    """What is shown to whoever connects, and whom they must have been certified by.

    ``reread`` is told of each attempt to read anew, and whether it went well; from a thread of gRPC's.
    """

    def __init__(self, files: Tls, reread: Callable[[bool], None] = lambda _good: None) -> None:
        """Raises `BindError`."""
        self._files = files
        self._reread = reread
        self._lock = Lock()
        self._seen = self._look()
        try:
            self._first = self._read()
        except (OSError, ValueError) as error:
            raise BindError(f"tls: {_why(error)}") from error

    def credentials(self) -> grpc.ServerCredentials:
        """What a port is bound with."""
        return grpc.dynamic_ssl_server_credentials(
            self._first,
            self._changed,  # type: ignore[arg-type] # None is "as before", says gRPC's own description
            require_client_authentication=self._files.client_ca is not None,
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """The new one if there is one; None: as before."""
        with self._lock:
            seen = self._look()
            if seen == self._seen:
                return None
            self._seen = seen
            try:
                read = self._read()
            except (OSError, ValueError) as error:
                _LOG.error("tls: %s; the certificate of before is still shown", _why(error))
                self._reread(False)  # noqa: FBT003 - whether it went well
                return None
            _LOG.info("tls: a new certificate is shown from now on")
            self._reread(True)  # noqa: FBT003
            return read

    def _look(self) -> _Seen:
        return tuple(_state(path) for path in (self._files.cert, self._files.key, self._files.client_ca) if path)

    def _read(self) -> grpc.ServerCertificateConfiguration:
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
        return grpc.ssl_server_certificate_configuration([(key, cert)], root_certificates=authorities)


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


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _why(error: OSError | ValueError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
