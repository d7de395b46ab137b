"""Rows: what a lease, a resource and the whole look like in the file, and back.

It knows columns and JSON. It must never know SQL, or what a kind remembers and why.

Whatever is wrong with a row is a ValueError that names it: nothing that was read is guessed at.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from typing import Final, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from governor.core.kinds import KINDS
from governor.core.kinds.pool import PoolSpec
from governor.core.limit import LimitSpec
from governor.core.resource import Grace, Override, Remembered, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import UNSAID, Claim, EndReason, Grant, LeaseId, Member, Nanos, Said, Standing

_Row = TypeVar("_Row")

# Columns in the order of the tables.
LEASE_COLUMNS: Final = (
    "id, client, request_id, grants, labels, granted_for, granted_at, waited, deadline, orphaned, graced"
)
PAST_COLUMNS: Final = "id, client, request_id, claims, reason, ended_at, waited"
FADING_COLUMNS: Final = "name, kind, spec, memory, at"
RESOURCE_COLUMNS: Final = f"{FADING_COLUMNS}, standing, override, until, declared, said, override_said, graces"

Plain = tuple[int | str, ...]
SteeredRow = tuple[str, Nanos, str, str, Nanos, str, str, str]

# What of a resource may be nothing.
_OPTIONAL: Final = frozenset({"on_disconnect"})

# How many texts of grants are kept, with what they mean: there are few, for as many leases as there are.
_CACHED: Final = 1024


@dataclass(slots=True)
class LeaseRow:
    """A live lease. ``graced``: a restart has made it longer, and it was not renewed since."""

    held: Held
    graced: bool


@dataclass(slots=True)
class Stored:
    """All that was in a file; its instants count as the ``stamp`` does.

    ``written``: when, by the wall clock, for people. ``boot``: the boot whose clock that was, if it is known.
    ``promised``: how much longer than it had left each lease lives, by the word of the daemon that wrote it.
    ``fading``: what is neither declared nor lent, but spent.
    """

    reserved: int
    stamp: Nanos
    written: str
    boot: str
    resources: list[Remembered]
    leases: list[LeaseRow]
    past: list[Past]
    promised: Nanos = 0
    fading: list[Remembered] = field(default_factory=list)


# --- leases -------------------------------------------------------------------------------------------------


def lease_row(held: Held, *, graced: bool) -> Plain:
    """Its columns."""
    return (
        held.id,
        held.client,
        held.request_id,
        _grants_text(held),
        _dumps(dict(held.labels)) if held.labels else "{}",
        held.granted_for,
        held.granted_at,
        held.waited,
        held.deadline,
        int(held.orphaned),
        int(graced),
    )


def lease_of(row: Plain) -> LeaseRow:
    """The lease of its columns; raises ValueError."""
    return _read("lease", row, _lease)


def _lease(row: Plain) -> LeaseRow:
    # The tables are STRICT: a column holds what it says. A start may have a hundred thousand of these to read.
    number, client, request_id, grants, labels, granted_for, granted_at, waited, deadline, orphaned, graced = cast(
        "tuple[LeaseId, str, str, str, str, int, int, int, int, int, int]", row
    )
    held_grants, spent = _grants_of(grants)
    its_labels = () if labels == "{}" else tuple(json.loads(labels).items())
    held = Held(
        number,
        held_grants,
        deadline,
        client,
        granted_for,
        request_id,
        its_labels,
        granted_for,
        granted_at,
        waited,
        orphaned != 0,
        spent,
    )
    return LeaseRow(held, graced != 0)


def past_row(past: Past) -> Plain:
    """Its columns."""
    claims = _dumps([{"resource": claim.resource, "permits": claim.permits} for claim in past.claims])
    return (past.id, past.client, past.request_id, claims, past.reason.value, past.ended_at, past.waited)


def past_of(row: Plain) -> Past:
    """The ended lease of its columns; raises ValueError."""
    return _read("past lease", row, _past)


def _past(row: Plain) -> Past:
    number, client, request_id, claims, reason, ended_at, waited = row
    return Past(
        LeaseId(_int(number)),
        tuple([Claim(str(plain["resource"]), _int(plain["permits"])) for plain in json.loads(str(claims))]),
        str(client),
        str(request_id),
        EndReason(str(reason)),
        _int(ended_at),
        _int(waited),
    )


def _grants_text(held: Held) -> str:
    """The same for most leases that hold no members: so many permits of one resource."""
    grants = held.grants
    if len(grants) == 1 and not grants[0].members and not held.spent and not grants[0].key:
        return _permits_text(grants[0].resource, grants[0].permits)
    return _dumps([_grant_plain(grant, held.spent) for grant in grants])


@lru_cache(_CACHED)
def _permits_text(resource: str, permits: int) -> str:
    return _dumps([{"resource": resource, "permits": permits}])


@lru_cache(_CACHED)
def _grants_of(text: str) -> tuple[tuple[Grant, ...], tuple[str, ...]]:
    plain = json.loads(text)
    spent = [str(grant["resource"]) for grant in plain if grant.get("spent")]
    return tuple([_grant(grant) for grant in plain]), tuple(spent)


def _grant_plain(grant: Grant, spent: tuple[str, ...]) -> dict[str, object]:
    plain: dict[str, object] = {"resource": grant.resource, "permits": grant.permits}
    if grant.resource in spent:
        plain["spent"] = True
    if grant.key:
        plain["key"] = grant.key
    if grant.members:
        plain["members"] = [_member_plain(member) for member in grant.members]
    return plain


def _member_plain(member: Member) -> dict[str, object]:
    plain: dict[str, object] = {"id": member.id, "generation": member.generation}
    if member.attributes:
        plain["attributes"] = dict(member.attributes)
    return plain


def _grant(plain: dict[str, object]) -> Grant:
    members = cast("list[dict[str, object]]", plain.get("members", []))
    return Grant(
        str(plain["resource"]),
        _int(plain["permits"]),
        tuple([_member(member) for member in members]),
        str(plain.get("key", "")),
    )


def _member(plain: dict[str, object]) -> Member:
    attributes = cast("dict[str, str]", plain.get("attributes", {}))
    return Member(str(plain["id"]), tuple(attributes.items()), _int(plain["generation"]))


# --- resources ----------------------------------------------------------------------------------------------


def resource_row(resource: Remembered) -> Plain:
    """Its columns."""
    standing, override, until, said, override_said = _ordered(resource)
    graces = _dumps(resource.graces) if resource.graces else ""
    return (*fading_row(resource), standing, override, until, int(resource.declared), said, override_said, graces)


def fading_row(resource: Remembered) -> Plain:
    """The columns of one that is declared no more: nobody can say anything of it."""
    spec = resource.spec
    return (spec.name, spec.kind, _spec_text(spec), memory_text(resource.memory), resource.at)


def steered_row(resource: Remembered) -> SteeredRow:
    """All of it that changes while the same is declared, and its name."""
    return (memory_text(resource.memory), resource.at, *_ordered(resource), resource.spec.name)


def _ordered(resource: Remembered) -> tuple[str, str, Nanos, str, str]:
    """What operators have ordered of it, and what they say besides."""
    standing, said, override = resource.standing.value, _said_text(resource.said), resource.override
    if override is None:
        return (standing, "", 0, said, "")
    return (standing, _dumps(_limit_plain(override.limit)), override.until, said, _said_text(override.said))


def _said_text(said: Said) -> str:
    return "" if said == UNSAID else _dumps(said.plain())


def _said(text: str) -> Said:
    if not text:
        return UNSAID
    plain = json.loads(text)
    return Said(_str(plain["actor"]), _str(plain["reason"]), _str(plain.get("client", "")))


def _graces(text: str) -> tuple[Grace, ...]:
    plain = json.loads(text) if text else []
    _nothing_below_zero(plain)
    return tuple([(LeaseId(_int(up_to)), None if grace is None else _int(grace)) for up_to, grace in plain])


def resource_of(row: Plain) -> Remembered:
    """The resource of its columns; raises ValueError."""
    return _read("resource", row, _resource)


def fading_of(row: Plain) -> Remembered:
    """The one that is declared no more, of its columns; raises ValueError."""
    return _read("resource declared before", (*row, Standing.OPEN.value, "", 0, 0, "", "", ""), _resource)


def _resource(row: Plain) -> Remembered:
    name, kind, spec, memory, at, standing, other, until, present, said, other_said, graces = row
    override = None
    if other:
        override = Override(_limit(str(kind), json.loads(str(other))), _int(until), _said(str(other_said)))
    if override is not None and override.limit.kind == PoolSpec.kind:
        raise ValueError("the limit of a pool cannot be another for a while")
    declared = _spec(str(name), str(kind), json.loads(str(spec)))
    stands, remembered = Standing(str(standing)), json.loads(str(memory))
    return Remembered(
        declared, remembered, _int(at), stands, override, present != 0, _said(str(said)), _graces(str(graces))
    )


def memory_text(memory: object) -> str:
    """As JSON."""
    return _dumps(memory)


def _spec_text(spec: ResourceSpec) -> str:
    plain = {each.name: getattr(spec, each.name) for each in fields(spec) if each.name not in {"name", "limit"}}
    return _dumps({**plain, "limit": _limit_plain(spec.limit)})


def _limit_plain(limit: LimitSpec) -> object:
    return _adapter(limit.kind).dump_python(limit, mode="json")


def _limit(kind: str, plain: object) -> LimitSpec:
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    _nothing_below_zero(plain)
    limit = _adapter(kind).validate_python(plain)
    try:
        limit.build(0)
    except AssertionError as error:
        raise ValueError(f"its limit cannot be: {error}") from error
    return limit


def _spec(name: str, kind: str, plain: dict[str, object]) -> ResourceSpec:
    limit = _limit(kind, plain.pop("limit"))
    _nothing_below_zero(plain)
    lengths = {key: value if value is None and key in _OPTIONAL else _int(value) for key, value in plain.items()}
    return ResourceSpec(name, limit, **cast("dict[str, int]", lengths))


def _nothing_below_zero(plain: object) -> None:
    """Nothing that an operator may write is."""
    if isinstance(plain, dict):
        plain = list(plain.values())
    if isinstance(plain, list):
        for each in plain:
            _nothing_below_zero(each)
    elif isinstance(plain, (int, float)) and plain < 0:
        raise ValueError(f"{plain} is below zero")


@cache
def _adapter(kind: str) -> TypeAdapter[LimitSpec]:
    return TypeAdapter(KINDS[kind])


# --- both ---------------------------------------------------------------------------------------------------


def _read(what: str, row: Plain, read: Callable[[Plain], _Row]) -> _Row:
    try:
        return read(row)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"{error.error_count()} errors" if isinstance(error, ValidationError) else f"{error}"
        raise ValueError(f"{what} {row[0]} makes no sense ({type(error).__name__}: {why})") from error


def _int(plain: object) -> int:
    if not isinstance(plain, int) or isinstance(plain, bool):
        raise ValueError(f"{plain!r} is not a number")  # noqa: TRY004 - what is read is wrong, not how it is called
    return plain


def _str(plain: object) -> str:
    if not isinstance(plain, str):
        raise ValueError(f"{plain!r} is not a text")  # noqa: TRY004 - as above
    return plain


# Made once: `json.dumps` would make one for each call that wants other separators than its own.
_dumps: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
