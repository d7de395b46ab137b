"""The whole config file.

It knows the daemon's own keys, and what must hold over all sections together.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, JsonValue

from governor.address import Address
from governor.config import clients, listeners
from governor.config.accepts import Context
from governor.config.audits import AUDIT_OR_OFF, Audit
from governor.config.bounds import BoundsSection
from governor.config.clients import Clients, ClientSection
from governor.config.declared import SOME, Conflict, Declared, given, list_of, mapping_of, optional
from governor.config.encryption import TlsSection
from governor.config.listeners import DEFAULT_LISTEN, Listener, OneOrSome, apart, here
from governor.config.nodes import MappingNode
from governor.config.pages import DEFAULT_HTTP, Http, HttpAt
from governor.config.pools import SIZE, Pool
from governor.config.problems import path
from governor.config.resources import RateLimit, Resource, Semaphore
from governor.config.terms import Defaults
from governor.config.traces import TRACES_OR_OFF, Traces
from governor.config.values import LENGTH_OR_ZERO, NAMES, PATH, TRUE_OR_FALSE, Name, one_of, whole
from governor.core.types import SECOND, Nanos
from governor.durability import Durability, OnStoreError

# Whoever lists or scrapes them all gets their numbers of one instant, and every other call waits while those are taken:
# 7 ms for 1,000 resources, as measured, and 300 to 500 ms for 10,000.
MAX_RESOURCES: Final = 2_000
MAX_MEMBERS_IN_ALL: Final = 100_000

# What an ordinary user can have: the least file there is must start.
DEFAULT_STATE: Final = "~/.local/state/governor"
DEFAULT_DRAIN_TIMEOUT: Final[Nanos] = 10 * SECOND
DEFAULT_RESTART_GRACE: Final[Nanos] = 5 * SECOND
# Each client is some ten series, which Prometheus keeps for as long as it keeps anything.
DEFAULT_CLIENT_SERIES: Final = 100
MAX_CLIENT_SERIES: Final = 10_000

# The sections of resources. A name is used in one of them only.
SECTIONS: Final = ("semaphores", "pools", "rate_limits")
_SECTION: Final[dict[str, JsonValue]] = {**NAMES, "type": ["object", "null"]}


class File(Declared):
    """The limits that governor keeps, and where it listens."""

    shape: ClassVar[str] = "a mapping with keys such as semaphores, pools and rate_limits"
    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(Defaults.model_fields, "it belongs under defaults")

    listen: Annotated[
        tuple[Annotated[Address, Listener()], ...],
        list_of("[127.0.0.1:7411]"),
        apart("listen"),
        Field(
            description="Where gRPC is served: host:port, unix:/path, or a mapping for a socket with a mode, an "
            "owner and a group. Relative paths start from the folder of this file.",
            examples=[["unix:/run/governor/governor.sock", "127.0.0.1:7411"]],
            json_schema_extra={**SOME, "default": [str(address) for address in DEFAULT_LISTEN]},
        ),
    ] = DEFAULT_LISTEN
    admin: Annotated[
        tuple[Annotated[Address, Listener()], ...],
        list_of("[unix:/run/governor/admin.sock]"),
        OneOrSome(),
        apart("admin"),
        AfterValidator(here),
        Field(
            description="Where operators are served, apart from everybody else: one address or several, as in listen, "
            "though none that other machines can reach. Not written: on the unix sockets of listen, or, if it has "
            "none, on admin.sock in the state folder.",
            examples=[{"unix": "/run/governor/admin.sock", "mode": "0600"}, ["unix:admin.sock", "127.0.0.1:7413"]],
        ),
    ] = ()
    clients: Annotated[
        dict[Name, ClientSection] | None,
        Clients(),
        Field(
            description="Who may ask, by name: with this section, whoever is none of these is refused, but on a unix "
            "socket of admin. Without it, nobody is asked who they are.",
            examples=[{"orders": {"tokens": [f"sha256:{'0' * 64}"], "resources": ["orders-*"], "verbs": ["acquire"]}}],
            json_schema_extra=NAMES,
        ),
    ] = None
    tls: Annotated[
        TlsSection | None,
        Field(
            description="The files behind the addresses of listen and admin that are written tls://host:port.",
            examples=[{"cert": "/etc/governor/tls.crt", "key": "/etc/governor/tls.key"}],
        ),
    ] = None
    insecure: Annotated[
        bool,
        TRUE_OR_FALSE,
        optional(
            "Whether to listen where other machines reach it although nothing is encrypted: something else "
            "must keep it from strangers then.",
            default=False,
            examples=[True],
        ),
    ] = False
    http: Annotated[
        Http | None,
        HttpAt(),
        optional(
            "Where the status page, /metrics and health are served: host:port, tls://host:port, or off; "
            "or a mapping that also says who may read them.",
            default=str(DEFAULT_HTTP),
            examples=["127.0.0.1:7412", "off", {"address": "tls://0.0.0.0:7412", "clients": True}],
        ),
    ] = Http(DEFAULT_HTTP)
    state: Annotated[
        Path,
        PATH,
        optional(
            "The folder of the durable state. A relative one starts from the folder of this file, ~/ from your own.",
            default=DEFAULT_STATE,
            examples=["/var/lib/governor", "~/.local/state/governor"],
        ),
    ] = Path(DEFAULT_STATE)
    drain_timeout: Annotated[
        Nanos,
        LENGTH_OR_ZERO,
        optional("How long a shutdown waits for the leases that are held.", default="10s"),
    ] = DEFAULT_DRAIN_TIMEOUT
    durability: Annotated[
        Durability,
        one_of(Durability),
        optional(
            "What leases survive: process, the death of the daemon; power, also that of the machine, at "
            "the price of a disk write for each answer; none, neither.",
            default=str(Durability.PROCESS),
            examples=list(Durability),
        ),
    ] = Durability.PROCESS
    restart_grace: Annotated[
        Nanos,
        LENGTH_OR_ZERO,
        optional(
            "How much longer leases live after a restart, so that their holders can come back; not again "
            "for one that was not renewed since the restart before.",
            default="5s",
        ),
    ] = DEFAULT_RESTART_GRACE
    on_store_error: Annotated[
        OnStoreError,
        one_of(OnStoreError),
        optional(
            "What to do while the state cannot be written: refuse grants nothing; continue goes on, and "
            "forgets at a restart what could not be written.",
            default=str(OnStoreError.REFUSE),
            examples=list(OnStoreError),
        ),
    ] = OnStoreError.REFUSE
    audit: Annotated[
        Audit | None,
        AUDIT_OR_OFF,
        Field(
            description="The audit trail: a file that says who held what, and what operators did. Without this key "
            "there is none.",
            examples=["/var/log/governor/audit.jsonl", "off"],
        ),
    ] = None
    tracing: Annotated[
        Traces | None,
        TRACES_OR_OFF,
        Field(
            description="Spans of asks and holds, for OpenTelemetry; needs the extra otel. Without this key there are "
            "none, unless OTEL_TRACES_EXPORTER is otlp.",
            examples=["http://127.0.0.1:4317", "on", "off", {"endpoint": "http://127.0.0.1:4317", "ratio": 0.05}],
        ),
    ] = None
    watch: Annotated[
        bool,
        TRUE_OR_FALSE,
        optional(
            "Whether this file is read anew when it changes. Without it, SIGHUP or `governor reload` does.",
            default=True,
            examples=[True, False],
        ),
    ] = True
    bounds: Annotated[
        BoundsSection,
        Field(
            description="How much of the daemon itself its clients may take, beside what it lends them.",
            examples=[{"sessions_per_client": 100, "streams": 1000}],
        ),
    ] = BoundsSection.model_construct()
    max_client_series: Annotated[
        int,
        whole(0, MAX_CLIENT_SERIES),
        optional(
            "For how many clients there are metrics of their own; all others are shown together, as other.",
            default=DEFAULT_CLIENT_SERIES,
            examples=[100, 0],
        ),
    ] = DEFAULT_CLIENT_SERIES
    defaults: Annotated[Defaults, Field(description="What holds for every resource that does not say otherwise.")] = (
        Defaults.model_construct()
    )
    semaphores: Annotated[
        dict[Name, Semaphore],
        mapping_of("{thumbnails: {permits: 8}}", or_nothing=True),
        Field(
            description="Semaphores by name: so many permits, lent.", json_schema_extra=_SECTION, default_factory=dict
        ),
    ]
    pools: Annotated[
        dict[Name, Pool],
        mapping_of("{workers: {size: 10}}", or_nothing=True),
        Field(description="Pools by name: members, lent one by one.", json_schema_extra=_SECTION, default_factory=dict),
    ]
    rate_limits: Annotated[
        dict[Name, RateLimit],
        mapping_of("{payments-api: {rate: 100/s}}", or_nothing=True),
        Field(description="Rate limits by name: permits, spent.", json_schema_extra=_SECTION, default_factory=dict),
    ]

    def resources(self) -> tuple[tuple[str, Resource], ...]:
        """Every resource by name."""
        return (*self.semaphores.items(), *self.pools.items(), *self.rate_limits.items())

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """What no single key can tell: names used twice, more than can be served, one port for two things."""
        yield from _crowded(node, context)
        yield from listeners.conflicts(node, context)
        yield from clients.conflicts(node)


def _crowded(node: MappingNode, context: Context) -> Iterator[Conflict]:
    taken: dict[str, tuple[str, int]] = {}
    count = members = 0
    for section in node:
        entries = node[section]
        if section not in SECTIONS or not isinstance(entries, MappingNode):
            continue
        count += len(entries)
        for name, entry in entries.items():
            if name in taken:
                other, line = taken[name]
                yield (
                    (section, name),
                    f"the name is taken by {path((other, name))} on line {line}: choose another",
                )
            else:
                taken[name] = section, entries.lines[name]
            if section == "pools" and isinstance(entry, MappingNode):
                named = entry.get("members")
                members += len(named) if isinstance(named, MappingNode) else given(SIZE, entry, "size", context) or 0
    if count > MAX_RESOURCES:
        yield (), f"expected at most {MAX_RESOURCES} resources; found {count}"
    if members > MAX_MEMBERS_IN_ALL:
        yield (
            ("pools",),
            f"expected at most {MAX_MEMBERS_IN_ALL} members in all pools together; found {members}",
        )
