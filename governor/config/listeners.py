"""Where something listens, as YAML declares it: ``listen``, ``admin`` and ``http``, and what must not be the same.

It knows addresses in a file. It must never open one.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from governor.address import DEFAULT_MODE, Address, TcpAddress, UnixAddress
from governor.config import pages
from governor.config.accepts import Context, context_of
from governor.config.declared import SOME, Conflict, Declared, complain, given, optional, quietly
from governor.config.nodes import ListNode, MappingNode, Node, Scalar
from governor.config.pages import DEFAULT_HTTP
from governor.config.problems import Trail
from governor.config.values import ACCOUNT, ADDRESS, MODE, SOCKET, TRUE_OR_FALSE

# What an ordinary user can have: the least file there is must start.
DEFAULT_LISTEN: Final = (TcpAddress("127.0.0.1", 7411),)

# Where its address stands; for whoever writes it without a mapping, the key itself.
_HTTP: Final[Trail] = ("http", "address")

_OURS_ALONE: Final = (
    "expected a unix socket, or an address of this machine alone such as 127.0.0.1:7413, "
    "since nobody is asked who they are"
)


class Socket(Declared):
    """A unix socket, and who may connect to it."""

    shape: ClassVar[str] = ADDRESS.what

    unix: Annotated[Path, SOCKET, Field(description="The path of the socket.")]
    mode: Annotated[
        int,
        MODE,
        optional(
            "The mode of the socket: who may write to it may ask for permits.",
            default=f"0{DEFAULT_MODE:o}",
            examples=["0660", "0600"],
        ),
    ] = DEFAULT_MODE
    owner: Annotated[str | int | None, ACCOUNT, Field(description="The user whom the socket is given to.")] = None
    group: Annotated[str | int | None, ACCOUNT, Field(description="The group whom the socket is given to.")] = None


class Listener:
    """An item of ``listen`` or ``admin``: an address, or the mapping of a socket."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(node: object, _: object, info: ValidationInfo) -> Address:
            if not isinstance(node, MappingNode):
                return ADDRESS.read(node, context_of(info))
            socket = Socket.model_validate(node, context=info.context)
            return UnixAddress(socket.unix, socket.mode, socket.owner, socket.group)

        # The union is for the JSON Schema; pydantic would answer a mistake with the complaints of both.
        union = core_schema.union_schema(
            [handler.generate_schema(Annotated[Address, ADDRESS]), handler.generate_schema(Socket)]
        )
        return core_schema.with_info_wrap_validator_function(read, union)


class OneOrSome:
    """Lets an item stand for the list of it alone."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        some = {**handler(core), **SOME}
        return {"anyOf": [some["items"], some]}


def _listed(node: object) -> object:
    if not isinstance(node, (Scalar, MappingNode)) or (isinstance(node, Scalar) and node.null):
        return node
    listed = ListNode(node.line)
    listed.append(node)
    return listed


def here(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
    """Refuses what other machines can reach."""
    complain(
        ((place,), _OURS_ALONE)
        for place, address in enumerate(addresses)
        if isinstance(address, TcpAddress) and not address.is_loopback
    )
    return addresses


def apart(key: str) -> AfterValidator:
    """Refuses two addresses that cannot both be listened on."""

    def check(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
        taken = ((place, _taken(address, addresses[:place])) for place, address in enumerate(addresses))
        complain(((place,), f"already taken by {key}[{other}]") for place, other in taken if other is not None)
        return addresses

    return AfterValidator(check)


def _taken(address: Address, others: Iterable[Address | None]) -> int | None:
    """Which of ``others`` cannot be listened on beside ``address``."""
    return next((place for place, other in enumerate(others) if other and _overlap(address, other)), None)


def _overlap(one: Address, other: Address) -> bool:
    match one, other:
        case TcpAddress(), TcpAddress():
            return one.overlaps(other)
        case UnixAddress(), UnixAddress():
            return one.path == other.path
        case _:
            return False


def conflicts(node: MappingNode, context: Context) -> Iterator[Conflict]:
    """One address for two things."""
    yield from _http_taken(node, context)
    yield from _in_the_clear(node, context)
    yield from _admin_taken(node, context)
    if pages.says(node, "clients", context) and "clients" not in node:
        yield ("http", "clients"), "nobody could read there: expected clients in this file"


def _http_taken(node: MappingNode, context: Context) -> Iterator[Conflict]:
    http = pages.address(node, context)
    if http is None:
        return
    place = _taken(http, _listeners(node, "listen", DEFAULT_LISTEN, context))
    if place is None:
        return
    if "http" in node:
        other = f"listen[{place}]" if "listen" in node else "listen, as it is by default"
        yield _HTTP, f"already taken by {other}: choose another port"
    else:
        other = f"http, as it is by default ({DEFAULT_HTTP})"
        yield ("listen", place), f"already taken by {other}: choose another port"


def _in_the_clear(node: MappingNode, context: Context) -> Iterator[Conflict]:
    """Addresses that other machines reach, and where nothing is secret; and what TLS there lacks."""
    found: list[tuple[Trail, Address | None]] = [
        ((key, place), address) for key in ("listen", "admin") for place, address in _all(key, node, context)
    ]
    if (http := pages.address(node, context)) is not None:
        found.append((_HTTP, http))
    ports = [(trail, address) for trail, address in found if isinstance(address, TcpAddress)]
    insecure = given(TRUE_OR_FALSE, node, "insecure", context) if "insecure" in node else False
    for trail, address in ports:
        if address.tls and "tls" not in node:
            yield trail, "there is no certificate for it: expected tls: {cert: …, key: …} in this file"
        # That admin is where others reach it is complained about anyhow.
        elif address.tls or address.is_loopback or insecure is not False or trail[0] == "admin":
            continue
        elif trail != _HTTP or not pages.says(node, "insecure", context):
            hint = f"write tls://{address.bare}, or insecure: true if something else keeps strangers from it"
            yield trail, f"other machines reach it, and nothing is encrypted: {hint}"
    if "tls" in node and not any(address.tls for _, address in ports) and all(address for _, address in found):
        yield ("tls",), "nothing is encrypted by it: write tls:// before an address of listen, as in tls://0.0.0.0:7411"


def _all(key: str, node: MappingNode, context: Context) -> Iterator[tuple[int, Address | None]]:
    return enumerate(_listeners(node, key, (), context))


def _admin_taken(node: MappingNode, context: Context) -> Iterator[Conflict]:
    http = pages.address(node, context)
    listen = _listeners(node, "listen", DEFAULT_LISTEN, context)
    for place, address in enumerate(_listeners(node, "admin", (), context)):
        if address is None:
            continue
        taken = _taken(address, listen)
        if taken is not None:
            where = f"listen[{taken}]" if "listen" in node else "listen, as it is by default"
            yield ("admin", place), f"already taken by {where}: choose another, or leave admin out"
        elif http is not None and _overlap(address, http):
            where = "http" if "http" in node else f"http, as it is by default ({DEFAULT_HTTP})"
            yield ("admin", place), f"already taken by {where}: choose another port"


def _listeners(node: MappingNode, key: str, usual: tuple[Address, ...], context: Context) -> tuple[Address | None, ...]:
    """What ``key`` says, None for each item that is refused; ``usual`` when nothing is said."""
    if key not in node:
        return usual
    listed = _listed(node[key])
    return tuple(_listener(item, context) for item in listed) if isinstance(listed, ListNode) else ()


def _listener(item: Node, context: Context) -> Address | None:
    if not isinstance(item, MappingNode):
        return quietly(ADDRESS, item, context)
    path = given(SOCKET, item, "unix", context)
    return None if path is None else UnixAddress(path)
