"""From a file, or its text, to a `Config`.

It knows the order: bytes, tree, models, specs. It must never show what an environment variable held.
"""

import difflib
import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, assert_never

from pydantic import ValidationError

from governor.access import ALL, Client
from governor.address import Address, AddressError, TcpAddress, UnixAddress, check_socket_path
from governor.auditing import Auditing
from governor.bounds import Bounds
from governor.config.accepts import MAX_WORD, OURS, REPORTED, Context, said
from governor.config.document import MAX_BYTES, read
from governor.config.models import DEFAULT_STATE, File
from governor.config.nodes import ListNode, MappingNode, Node
from governor.config.pages import Http
from governor.config.problems import Problems, Trail, path, telling
from governor.config.variables import Place, Variables
from governor.core.resource import ResourceSpec
from governor.core.types import Nanos
from governor.durability import Durability, OnStoreError
from governor.tls import Tls
from governor.tracing import Tracing, by_environment, disabled, hindrance

# What is served when no file is named.
DEFAULT: Final = Path(__file__).parents[1] / "default.yaml"

_WORLD_WRITABLE: Final = 0o002
# How many pairs of names are compared, at some ten microseconds each, for what is only a warning.
_MOST_COMPARED: Final = 10_000


@dataclass(slots=True, frozen=True)
class Config:
    """Everything that a file says, with every default filled in and every path absolute.

    ``source`` names the file and ``hash`` is the SHA-256 of its bytes, in hex. ``warnings``: what is legal and may
    still be a mistake, one sentence each. ``admin`` is empty when nothing is said of it, and ``clients`` is None then.
    ``variables``: where there are any in values.
    """

    listen: tuple[Address, ...]
    admin: tuple[Address, ...]
    clients: tuple[Client, ...] | None
    tls: Tls | None
    insecure: bool
    http: Http | None
    state: Path
    drain_timeout: Nanos
    durability: Durability
    restart_grace: Nanos
    on_store_error: OnStoreError
    audit: Auditing | None
    tracing: Tracing | None
    watch: bool
    bounds: Bounds
    max_client_series: int
    resources: tuple[ResourceSpec, ...]
    source: str
    hash: str
    variables: frozenset[Place] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def trusting(self) -> bool:
        """Whether nobody is asked who he is, and only who is on this machine can ask for anything."""
        ports = [each for each in (*self.listen, *self.admin) if isinstance(each, TcpAddress)]
        return self.clients is None and all(each.is_loopback for each in ports)


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Reads a file; raises `ConfigError` with everything that is wrong with it."""
    return parse(contents(path), str(path), folder_of(path), environ)


def contents(path: Path) -> bytes:
    """All of a file, or enough to see that it is too much; raises `ConfigError` when it cannot be read."""
    problems = Problems(str(path))
    try:
        return _bytes(path)
    except OSError as error:
        problems.add(None, (), _WHY.get(type(error), f"cannot be read: {error.strerror}"))
    except ValueError:  # a NUL, or half a character
        problems.add(None, (), "no file can have this name")
    raise problems.error()


def folder_of(path: Path) -> Path:
    """From where relative paths in a file start."""
    # Not the folder that a link leads to: that of a ConfigMap is another one after each update.
    return path.absolute().parent


def fingerprint(data: bytes) -> str:
    """What tells one text from another: its SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()


def loads(text: str, *, source: str, environ: Mapping[str, str], folder: Path | None = None) -> Config:
    """Reads text; messages call it ``source``, and relative paths start from ``folder`` or the current one."""
    return parse(text.encode("utf-8", "surrogatepass"), source, folder or Path.cwd(), environ)


def parse(
    data: bytes, source: str, folder: Path, environ: Mapping[str, str], only: Collection[Place] | None = None
) -> Config:
    """Reads the contents of a file; messages call it ``source``. Raises `ConfigError`.

    ``only``: where it may use environment variables, and how; None is everywhere.
    """
    problems = Problems(source)
    variables = Variables(environ, only)
    file = _file(data, folder, variables, problems)
    tracing, unheard = (None, ()) if file is None else _tracing(file, environ, problems)
    if file is None or problems:
        raise problems.error()
    resources = tuple(file.defaults.resource(name, own, own.limit()) for name, own in file.resources())
    return Config(
        listen=file.listen,
        admin=file.admin,
        clients=None if file.clients is None else tuple(each.client(name) for name, each in file.clients.items()),
        tls=None if file.tls is None else file.tls.tls(),
        insecure=file.insecure,
        http=file.http,
        state=file.state if "state" in file.model_fields_set else _default_state(environ),
        drain_timeout=file.drain_timeout,
        durability=file.durability,
        restart_grace=file.restart_grace,
        on_store_error=file.on_store_error,
        audit=None if file.audit is None else file.audit.auditing(),
        tracing=tracing,
        watch=file.watch,
        bounds=file.bounds.bounds(),
        max_client_series=file.max_client_series,
        resources=resources,
        source=source,
        hash=fingerprint(data),
        variables=frozenset(variables.used),
        warnings=(*_all_warnings(file), *_misspelt(file, {trail for trail, _ in variables.used}), *unheard),
    )


def _tracing(file: File, environ: Mapping[str, str], problems: Problems) -> tuple[Tracing | None, tuple[str, ...]]:
    """What is to be traced, and what to warn of; what the file itself asks for, and cannot be, is a problem."""
    said = "tracing" in file.model_fields_set
    asked = by_environment(environ) if not said else None if file.tracing is None else file.tracing.tracing()
    if asked is None or disabled(environ):
        return None, ()
    if why := hindrance(environ):
        if said:
            problems.add(None, ("tracing",), why)
            return None, ()
        return None, (f"nothing is traced, though OTEL_TRACES_EXPORTER asks for it: {why}",)
    return asked, ()


_WHY: Final[dict[type[OSError], str]] = {
    FileNotFoundError: "there is no such file",
    NotADirectoryError: "there is no such file: a part of its path is not a folder",
    IsADirectoryError: "this is a folder: name the file in it",
    PermissionError: "it cannot be read: permission denied",
}


def _bytes(path: Path) -> bytes:
    # Opening a pipe waits for somebody to write to it, and a reload cannot wait.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data: bytes | None = file.read(MAX_BYTES + 1)
    # Some that the kernel makes up say that they are regular, and have nothing for whoever does not wait.
    if data is None:
        raise OSError(errno.EAGAIN, "it is not a regular file")
    return data


def _default_state(environ: Mapping[str, str]) -> Path:
    """Where a user can write; a system service without a home has its own place."""
    home = environ.get("HOME")
    return Path(home, DEFAULT_STATE.removeprefix("~/")) if home else Path("/var/lib/governor")


def _file(data: bytes, folder: Path, variables: Variables, problems: Problems) -> File | None:
    if len(data) > MAX_BYTES:
        problems.add(None, (), "the file is larger than 1 MiB")
        return None
    root = read(data, variables, problems)
    if root is None:
        return None
    defaults = root.get("defaults") if isinstance(root, MappingNode) else None
    context = Context(folder, variables.environ.get("HOME"), defaults if isinstance(defaults, MappingNode) else None)
    try:
        return File.model_validate(root, context=context)
    except ValidationError as error:
        for report in error.errors(include_url=False, include_input=False):
            # Anything else would be a bug: pydantic also reports an assertion that fails in a validator.
            assert report["type"] in {OURS, REPORTED.type}, report
            if report["type"] == OURS:
                problems.add(*_place(root, report["loc"]), *said(report))
        return None


def _place(root: Node, steps: Trail) -> tuple[int, Trail]:
    """The line and the path of what pydantic calls ``steps``, which may go further than the file does."""
    node, line = root, root.line
    trail: Trail = ()
    for step in steps:
        if isinstance(node, MappingNode) and isinstance(step, str) and step in node:
            line, node = node.lines[step], node[step]
        elif isinstance(node, ListNode) and isinstance(step, int):
            node = node[step]
            line = node.line
        else:
            break
        trail = (*trail, step)
    return line, trail


def _all_warnings(file: File) -> Iterator[str]:
    asked = file.clients is not None
    yield from chain(*(_warnings(address, asked=asked) for address in file.listen))
    yield from chain(*(_admin_warnings(address, asked=asked) for address in file.admin))
    # Whoever says of the pages alone that others are kept from them need not be told; a token is another matter.
    if (http := file.http) is not None and (http.clients or not http.insecure):
        yield from _warnings(http.address, asked=http.clients)


def _misspelt(file: File, filled: Collection[Trail]) -> Iterator[str]:
    """Resources of clients that there are not, and that are much like one that there is; not what a variable said.

    One that is like none may be declared later.
    """
    names = dict(file.resources())
    left = _MOST_COMPARED // max(1, len(names))
    for client, section in (file.clients or {}).items():
        for index, glob in enumerate(section.resources):
            trail = ("clients", client, "resources", index)
            if ALL in glob or glob in names or trail in filled or len(glob) > MAX_WORD or telling(glob):
                continue
            if left == 0:
                return
            left -= 1
            if near := difflib.get_close_matches(glob, names, n=1):
                yield f"{path(trail)}: there is no resource {glob}: did you mean {near[0]}?"


def _warnings(address: Address, *, asked: bool) -> Iterator[str]:
    match address:
        case TcpAddress():
            if not address.is_loopback and not (address.tls and asked):
                known = "tokens can be read on the way" if asked else "nobody is asked who they are"
                yield (
                    f"other machines may reach {address}, and {known}: "
                    "listen on 127.0.0.1, or let a firewall decide who gets through"
                )
        case UnixAddress():
            try:
                check_socket_path(address.path)
            except AddressError as error:
                # Not refused here: the same file elsewhere, or with another HOME, has other paths.
                yield f"{address} cannot be listened on: {error}"
            if address.mode & _WORLD_WRITABLE and not asked:
                yield f"every user of this machine may use {address}, whose mode is 0{address.mode:o}"
        case _:
            assert_never(address)


def _admin_warnings(address: Address, *, asked: bool) -> Iterator[str]:
    if isinstance(address, TcpAddress) and asked:
        return
    if isinstance(address, TcpAddress):
        yield (
            f"every user of this machine may step in at {address}, as nobody is asked who they are: "
            "a unix socket has a mode and an owner"
        )
    else:
        # A socket for operators asks nobody who they are, whatever clients there are.
        yield from _warnings(address, asked=False)
