"""Pools as YAML declares them, and what the core is told of each.

It knows the keys of pools and members and how they relate. It must never know who is lent what.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from governor.config.accepts import Context
from governor.config.declared import Conflict, Declared, given, mapping_of, optional
from governor.config.nodes import MappingNode, found
from governor.config.resources import Resource
from governor.config.values import LENGTH, LENGTH_OR_ZERO, NAMES, ORDER, TEXT, Name, whole, why_no_name
from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.types import SECOND, Nanos

DEFAULT_QUARANTINE: Final[Nanos] = SECOND
DEFAULT_MAX_QUARANTINE: Final[Nanos] = 60 * SECOND

MAX_MEMBERS: Final = 1_000
MAX_MEMBER_LEASES: Final = 1_000_000
MAX_ATTRIBUTES: Final = 64


def _slips(word: str) -> Iterator[str]:
    """What it is mistyped as, as patterns: a letter too few, too many, exchanged with the next, or a wrong one.

    A wrong last one makes another word of many.
    """
    for at in range(len(word) + 1):
        begun, rest, after = word[:at], word[at:], word[at + 1 :]
        yield from (begun + after, f"{begun}.{rest}", begun + rest[1::-1] + rest[2:])
        if after:
            yield f"{begun}.{after}"


_LIKE_THE_BOUND: Final = re.compile("|".join(_slips("maxleases")))

SIZE: Final = whole(0, MAX_MEMBERS)


class Member(Declared):
    """One member of a pool. Other keys than max_leases are attributes: a grant hands them to the borrower."""

    model_config = ConfigDict(extra="allow")
    shape: ClassVar[str] = 'a mapping such as {endpoint: "db1:5432", max_leases: 10}'
    or_nothing: ClassVar[bool] = True

    max_leases: Annotated[
        int,
        whole(1, MAX_MEMBER_LEASES),
        Field(description="How many leases may share this member at once.", examples=[10]),
    ] = 1
    __pydantic_extra__: dict[str, Annotated[str, TEXT]]  # type: ignore[mutable-override]  # pydantic's own way

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """Attributes whose names will not do."""
        del context
        if len(node) > MAX_ATTRIBUTES:
            yield (), f"expected at most {MAX_ATTRIBUTES} keys; found {len(node)}"
        for key in node:
            if key == "max_leases":
                continue
            # An attribute of such a name would take the place of the bound that was meant, and nobody would notice.
            if _LIKE_THE_BOUND.fullmatch(re.sub(r"[^a-z]", "", key.lower())):
                yield (key,), "too much like max_leases to be an attribute: did you mean max_leases?"
            elif why := why_no_name(key):
                yield (key,), why

    def spec(self, name: str) -> MemberSpec:
        """What the core is told of it; the attributes in the order of the file."""
        return MemberSpec(name, tuple(self.__pydantic_extra__.items()), self.max_leases)


class Pool(Resource):
    """Members that are lent one by one, by name."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["members"]}, {"required": ["size"]}]})
    shape: ClassVar[str] = "a mapping such as {size: 10}"

    members: Annotated[
        dict[Name, Member],
        mapping_of('{primary: {endpoint: "db1:5432"}}'),
        Field(
            description="The members by id, and what a grant tells of each.",
            default_factory=dict,
            json_schema_extra=NAMES,
        ),
    ]
    size: Annotated[
        int | None,
        SIZE,
        Field(
            description="Instead of members: so many of them, named 1, 2, 3, …; 0 closes the pool.",
            examples=[10],
        ),
    ] = None
    order: Annotated[
        Order,
        ORDER,
        Field(
            description="Which free member is lent next: the one that came back last (lifo), the one that came "
            "back first (fifo), or the one with the fewest leases so far (least_used)."
        ),
    ] = Order.LIFO
    quarantine: Annotated[
        Nanos | None,
        LENGTH_OR_ZERO,
        optional(
            "How long a member that came back broken is kept out; doubled each time it is broken "
            "again, up to max_quarantine. 0: not at all.",
            default="1s",
        ),
    ] = None
    max_quarantine: Annotated[
        Nanos | None,
        LENGTH_OR_ZERO,
        optional("The longest quarantine; at least quarantine.", default="1m", examples=["5m"]),
    ] = None
    max_lifetime: Annotated[
        Nanos | None,
        LENGTH,
        Field(
            description="A member older than this is recycled when it is next lent: its generation rises, and "
            "what was opened on it should be opened anew. Not written: never.",
            examples=["30m"],
        ),
    ] = None
    idle_timeout: Annotated[
        Nanos | None,
        LENGTH,
        Field(
            description="A member that nobody had for longer than this is recycled when it is next lent. "
            "Not written: never.",
            examples=["5m"],
        ),
    ] = None

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """Members named and counted at once, or neither; a quarantine longer than quarantines may be."""
        yield from super().conflicts(node, context)
        yield from cls._one_of(node, "members", "size")
        members = node.get("members")
        if isinstance(members, MappingNode) and len(members) > MAX_MEMBERS:
            yield ("members",), f"expected at most {MAX_MEMBERS} members; found {len(members)}"
        quarantine = given(LENGTH_OR_ZERO, node, "quarantine", context)
        longest = given(LENGTH_OR_ZERO, node, "max_quarantine", context)
        if quarantine is not None and longest is not None and quarantine > longest:
            words = f"which is {found(node['max_quarantine'])}; found {found(node['quarantine'])}"
            yield ("quarantine",), f"expected no more than max_quarantine, {words}"

    def limit(self) -> PoolSpec:
        """Its members. Where only one of quarantine and max_quarantine is written, the other gives way."""
        if self.size is None:
            members = tuple(member.spec(name) for name, member in self.members.items())
        else:
            members = tuple(MemberSpec(str(number)) for number in range(1, self.size + 1))
        longest, quarantine = self.max_quarantine, self.quarantine
        if longest is None:
            longest = max(DEFAULT_MAX_QUARANTINE, quarantine or 0)
        if quarantine is None:
            quarantine = min(DEFAULT_QUARANTINE, longest)
        return PoolSpec(members, self.order, quarantine, longest, self.max_lifetime, self.idle_timeout)
