"""The section ``clients``: who may ask, how each is known, and what each may do.

It knows its keys. It must never show what stands in the place of a token's digest: it may be the token.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from governor import access
from governor.access import ALL, Client, Verb
from governor.config.accepts import Accepts, Context, HintError, fault, refusal
from governor.config.declared import Conflict, Declared, list_of
from governor.config.nodes import ListNode, MappingNode, Scalar
from governor.config.problems import path
from governor.config.resources import window
from governor.config.terms import MAX_WAITERS
from governor.config.values import LEASE, MAX_NAME, RATE, one_of, whole
from governor.core.kinds.rate_limit import RateLimitSpec
from governor.core.types import MAX_PERMITS, Nanos
from governor.units import Rate

# Every token that is sent is compared with all of them, at some 100 ns each.
MAX_CLIENTS: Final = 256
MAX_TOKENS: Final = 8

_PREFIX: Final = "sha256:"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_GLOB: Final = f"a name, or a part of one with *, of at most {MAX_NAME} bytes"


def _digest(scalar: Scalar, _: Context) -> bytes:
    if not _DIGEST.fullmatch(scalar.text):
        raise fault(
            "expected the digest of a token, as `governor token hash` prints it: sha256: and 64 digits; "
            "what was found is not shown, as it may be a token"
        )
    return bytes.fromhex(scalar.text.removeprefix(_PREFIX))


def _glob(scalar: Scalar, _: Context) -> str:
    text = scalar.text
    if scalar.typed:
        raise HintError("put it in quotes")
    if not 1 <= len(text.encode("utf-8", "surrogatepass")) <= MAX_NAME or not text.isprintable():
        raise HintError
    return text


DIGEST: Final = Accepts(
    "the digest of a token, such as sha256:9f86d081…",
    _digest,
    {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
)
GLOB: Final = Accepts(_GLOB, _glob, {"type": "string", "minLength": 1, "maxLength": MAX_NAME})
SAN: Final = Accepts("a host's name or a URI", _glob, {"type": "string", "minLength": 1, "maxLength": MAX_NAME})
VERB: Final = one_of(Verb)


class ClientSection(Declared):
    """A client, how it is known, and what it may do."""

    model_config = ConfigDict(
        json_schema_extra={"if": {"not": {"required": ["sans"]}}, "then": {"required": ["tokens"]}}
    )
    shape: ClassVar[str] = "a mapping such as {tokens: [sha256:…], resources: [orders-*], verbs: [acquire]}"

    tokens: Annotated[
        tuple[Annotated[bytes, DIGEST], ...],
        list_of("[sha256:9f86d081…]"),
        Field(
            description="The SHA-256 of each of its tokens, as `governor token new` and `governor token hash` print "
            "it: the new one beside the old one while they are changed.",
            examples=[["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]],
            json_schema_extra={"minItems": 1, "maxItems": MAX_TOKENS},
        ),
    ] = ()
    sans: Annotated[
        tuple[Annotated[str, SAN], ...],
        list_of("[orders.internal]"),
        Field(
            description="Names in its certificate, of a host or a URI, for who comes by TLS and sends no token. The "
            "client_ca under tls must have certified it.",
            examples=[["orders.internal", "spiffe://prod/orders"]],
            json_schema_extra={"minItems": 1, "maxItems": MAX_TOKENS},
        ),
    ] = ()
    resources: Annotated[
        tuple[Annotated[str, GLOB], ...],
        list_of("[orders-*]"),
        Field(
            description="The resources that it may do this to: names, in which * is any text. Not written: all.",
            examples=[["orders-db", "reports-*"]],
            json_schema_extra={"minItems": 1, "maxItems": 16, "default": [ALL]},
        ),
    ] = (ALL,)
    verbs: Annotated[
        tuple[Annotated[Verb, VERB], ...],
        list_of("[acquire, read]"),
        Field(
            description="What it may do: acquire, which is to ask for permits; read, to look at resources; admin, to "
            "read, to touch what others hold, and to call the service Admin. Not written: acquire and read.",
            examples=[["acquire"], ["admin"]],
            json_schema_extra={"minItems": 1, "maxItems": 16, "default": [Verb.ACQUIRE, Verb.READ]},
        ),
    ] = (Verb.ACQUIRE, Verb.READ)
    max_permits: Annotated[
        int | None,
        whole(0, MAX_PERMITS),
        Field(description="The permits that it may hold and wait for at once, of all resources.", examples=[20]),
    ] = None
    max_waiters: Annotated[
        int | None,
        whole(0, MAX_WAITERS),
        Field(description="Its asks that may wait in line at once.", examples=[100]),
    ] = None
    max_lease: Annotated[
        Nanos | None,
        LEASE,
        Field(description="How long it may be lent anything, until it renews that.", examples=["5m"]),
    ] = None
    max_rate: Annotated[
        Rate | None,
        RATE,
        Field(
            description="How often it may ask, look or begin a session. What gives back and what keeps alive is free.",
            examples=["100/s"],
        ),
    ] = None

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """A client that nobody could be."""
        del context
        if not any(key in node or cls.mistyped(node, key) for key in ("tokens", "sans")):
            yield (), "nobody could be this client: expected tokens, as `governor token new` makes them, or sans"
        for key in ("tokens", "sans"):
            known = node.get(key)
            if isinstance(known, ListNode) and len(known) > MAX_TOKENS:
                yield (key,), f"expected at most {MAX_TOKENS} {key}; found {len(known)}"

    def client(self, name: str) -> Client:
        """What it is."""
        rate = self.max_rate
        return Client(
            name=name,
            tokens=self.tokens,
            sans=self.sans,
            verbs=frozenset(self.verbs),
            resources=self.resources,
            max_permits=self.max_permits,
            max_waiters=self.max_waiters,
            max_lease=self.max_lease,
            max_rate=None if rate is None else asked_at(rate),
        )


def asked_at(rate: Rate) -> access.Rate:
    """A rate of asks, which may come all at once."""
    return access.Rate(rate.permits, rate.period, RateLimitSpec((window(rate, None),)))


def conflicts(node: MappingNode) -> Iterator[Conflict]:
    """One token or name for two clients, names that nobody could show, or more clients than can be known quickly."""
    clients = node.get("clients")
    if not isinstance(clients, MappingNode):
        return
    if len(clients) > MAX_CLIENTS:
        yield ("clients",), f"expected at most {MAX_CLIENTS} clients; found {len(clients)}"
    for key, what in (("tokens", "token"), ("sans", "name")):
        taken: dict[str, tuple[str, int]] = {}
        for name, client in clients.items():
            known = client.get(key) if isinstance(client, MappingNode) else None
            for place, each in enumerate(known if isinstance(known, ListNode) else ()):
                if not isinstance(each, Scalar) or (key == "tokens" and not _DIGEST.fullmatch(each.text)):
                    continue
                if each.text in taken:
                    other, at = taken[each.text]
                    where = path(("clients", other, key, at))
                    yield ("clients", name, key, place), f"this {what} is taken by {where}: each is of one client"
                else:
                    taken[each.text] = (name, place)
    if not _asks_for_certificates(node) and (
        named := next((name for name in clients if _has_sans(clients[name])), None)
    ):
        yield ("clients", named, "sans"), "nobody shows a certificate here: expected tls with a client_ca in this file"


def _asks_for_certificates(node: MappingNode) -> bool:
    tls = node.get("tls")
    # One that is no mapping is complained about anyhow.
    return tls is not None and (not isinstance(tls, MappingNode) or "client_ca" in tls)


def _has_sans(client: object) -> bool:
    return isinstance(client, MappingNode) and "sans" in client


def _a_mapping(node: object) -> object:
    """That nobody may ask is too much to follow from a key with nothing after it."""
    if not isinstance(node, MappingNode):
        raise refusal("a mapping of names, such as {orders: {tokens: [sha256:…]}}, or {} for nobody", node)
    return node


class Clients:
    """The section as a whole: a mapping, and None only where there is no such key."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_a_mapping, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        mapping: JsonSchemaValue = handler(core)["anyOf"][0]
        return mapping
