"""How long leases and waits are: of one resource, or as the default of all.

It knows how a resource's own terms, the file's defaults and the built-in ones add up. It must never know a kind.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Final

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from governor.config.accepts import Context
from governor.config.declared import Conflict, Declared, given
from governor.config.nodes import MappingNode, found
from governor.config.values import LEASE, LENGTH_OR_ZERO, ON_DISCONNECT, whole
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, Nanos
from governor.units import DAY, format_duration

# What holds where a file says nothing.
DEFAULT_LEASE: Final[Nanos] = 30 * SECOND
DEFAULT_MAX_LEASE: Final[Nanos] = DAY
DEFAULT_ON_DISCONNECT: Final[Nanos] = 2 * SECOND
DEFAULT_MAX_WAIT: Final[Nanos] = 30 * SECOND
DEFAULT_MAX_WAITERS: Final = 1000

MAX_WAITERS: Final = 1_000_000


class Terms(Declared):
    """How long leases and waits are, for one resource or as the default of all."""

    lease: Annotated[
        Nanos | None,
        LEASE,
        Field(
            description="How long a lease lasts when the ask does not say; by default 30s, or max_lease where it is "
            "shorter.",
            examples=["30s", "5m"],
        ),
    ] = None
    max_lease: Annotated[
        Nanos | None,
        LEASE,
        Field(
            description="The longest lease that an ask may say, and at least lease; by default 1d.",
            examples=["1h", "1d"],
        ),
    ] = None
    # None is a value here: whether it was written is in model_fields_set.
    on_disconnect: Annotated[
        Nanos | None,
        ON_DISCONNECT,
        Field(
            description="What becomes of a lease when the session that holds it ends: release ends it at once, keep "
            "lets it live until its deadline, and with a duration, by default 2s, it ends unless its holder is back by "
            "then. Of several resources the least patient decides; a rate limit lends nothing and has no say.",
            examples=["release", "2s", "keep"],
        ),
    ] = None
    max_wait: Annotated[
        Nanos | None,
        LENGTH_OR_ZERO,
        Field(
            description="The longest that an ask may wait in line, and how long it waits when it does not say; "
            "by default 30s, and with 0 nobody waits.",
            examples=["30s", "0"],
        ),
    ] = None
    max_waiters: Annotated[
        int | None,
        whole(0, MAX_WAITERS),
        Field(
            description="How many asks may wait in line at once, by default 1000; others are refused immediately.",
            examples=[1000],
        ),
    ] = None

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """A lease longer than leases may be."""
        lease = given(LEASE, node, "lease", context)
        inherited = context.defaults or MappingNode(node.line)
        longest: int | None = DEFAULT_MAX_LEASE
        if where := next((each for each in (node, inherited) if "max_lease" in each), None):
            longest = given(LEASE, where, "max_lease", context)
        if lease is None or longest is None or lease <= longest:
            return
        words = found(where["max_lease"]) if where else format_duration(longest)
        hint = ""
        if where is not node:
            words, hint = f"{words} by default", ": raise max_lease too"
        message = f"expected no more than max_lease, which is {words}; found {found(node['lease'])}{hint}"
        yield ("lease",), message


class Defaults(Terms):
    """What holds for every resource that does not say otherwise."""

    shape: ClassVar[str] = "a mapping such as {lease: 30s, max_wait: 30s}"
    or_nothing: ClassVar[bool] = True

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = super().__get_pydantic_json_schema__(core, handler)
        keys = handler.resolve_ref_schema(reference)["properties"]
        keys["lease"]["default"] = format_duration(DEFAULT_LEASE)
        keys["max_lease"]["default"] = format_duration(DEFAULT_MAX_LEASE)
        keys["on_disconnect"]["default"] = format_duration(DEFAULT_ON_DISCONNECT)
        keys["max_wait"]["default"] = format_duration(DEFAULT_MAX_WAIT)
        keys["max_waiters"]["default"] = DEFAULT_MAX_WAITERS
        return reference

    def resource(self, name: str, own: Terms, limit: LimitSpec) -> ResourceSpec:
        """What was declared as ``name``, with every default filled in.

        Where only one of lease and max_lease is written, the other gives way: nobody has to repeat a default.
        """
        wrote = next((each for each in (own, self) if "on_disconnect" in each.model_fields_set), None)
        max_lease = _first(own.max_lease, self.max_lease, DEFAULT_MAX_LEASE)
        return ResourceSpec(
            name=name,
            limit=limit,
            lease=_first(own.lease, min(_first(self.lease, DEFAULT_LEASE), max_lease)),
            max_lease=max_lease,
            on_disconnect=wrote.on_disconnect if wrote else DEFAULT_ON_DISCONNECT,
            max_wait=_first(own.max_wait, self.max_wait, DEFAULT_MAX_WAIT),
            max_waiters=_first(own.max_waiters, self.max_waiters, DEFAULT_MAX_WAITERS),
        )


def _first(*values: int | None) -> int:
    """The first that was written."""
    return next(value for value in values if value is not None)
