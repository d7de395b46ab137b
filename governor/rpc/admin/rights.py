"""What each call of Admin needs, where the config says who the clients are.

It knows a row for each method: the verb, and the resources that a call is about. It must never know what a call does. A
method without a row is refused to everybody, so none can be forgotten.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from governor.access import Client, Verb
from governor.core.types import Denial, Reason
from governor.rpc.guard import Caller, Guard
from governor.v1 import admin_pb2

Request = TypeVar("Request", bound=Message)


# The resources that a request is about; none is the whole daemon.
_Named = Callable[[bytes], Sequence[str]]


def _about(request: type[Request], named: Callable[[Request], Sequence[str]]) -> _Named:
    return lambda raw: named(request.FromString(raw))


def _whole(_raw: bytes) -> Sequence[str]:
    return ()


def _one(request: "_Names") -> Sequence[str]:
    return (request.resource,) if request.resource else ()


_Names = (
    admin_pb2.GetResourceRequest
    | admin_pb2.ListLeasesRequest
    | admin_pb2.ListWaitersRequest
    | admin_pb2.PauseResourceRequest
    | admin_pb2.ResumeResourceRequest
    | admin_pb2.DrainResourceRequest
    | admin_pb2.SetOverrideRequest
    | admin_pb2.ClearOverrideRequest
    | admin_pb2.RecycleMembersRequest
    | admin_pb2.QuarantineMemberRequest
    | admin_pb2.RestoreMemberRequest
)

_READ, _ADMIN = Verb.READ, Verb.ADMIN
# A lease may be of several resources, and a list or an event says who else there is: so whoever does not name the
# resources that it is about must be trusted with all.
_RIGHTS: Final[Mapping[str, tuple[Verb, _Named | None]]] = {
    "GetInfo": (_READ, None),
    "GetResource": (_READ, _about(admin_pb2.GetResourceRequest, _one)),
    "ListLeases": (_ADMIN, _about(admin_pb2.ListLeasesRequest, _one)),
    "ListWaiters": (_ADMIN, _about(admin_pb2.ListWaitersRequest, _one)),
    "ListSessions": (_ADMIN, _whole),
    "Watch": (_ADMIN, _about(admin_pb2.WatchRequest, lambda request: request.resources)),
    "Revoke": (_ADMIN, _whole),
    "PauseResource": (_ADMIN, _about(admin_pb2.PauseResourceRequest, _one)),
    "ResumeResource": (_ADMIN, _about(admin_pb2.ResumeResourceRequest, _one)),
    "DrainResource": (_ADMIN, _about(admin_pb2.DrainResourceRequest, _one)),
    "SetOverride": (_ADMIN, _about(admin_pb2.SetOverrideRequest, _one)),
    "ClearOverride": (_ADMIN, _about(admin_pb2.ClearOverrideRequest, _one)),
    "RecycleMembers": (_ADMIN, _about(admin_pb2.RecycleMembersRequest, _one)),
    "QuarantineMember": (_ADMIN, _about(admin_pb2.QuarantineMemberRequest, _one)),
    "RestoreMember": (_ADMIN, _about(admin_pb2.RestoreMemberRequest, _one)),
    "Reload": (_ADMIN, _whole),
    "Diff": (_ADMIN, _whole),
}

# What one would see by those calls of an operator that change nothing, in the sentence of a refusal.
_SEEN: Final[Mapping[str, str]] = {
    "ListLeases": "leases",
    "ListWaiters": "waiters",
    "ListSessions": "sessions",
    "Watch": "what happens",
}


def refusal_of(method: str, raw: bytes, caller: Caller, guard: Guard, *, asked: bool = True) -> Denial | None:
    """Why this caller may not call that; what cannot be read is refused as about the whole daemon.

    Not ``asked``: he does so by now, and may still go on with it.
    """
    if method not in _RIGHTS:
        return guard.told(
            Denial(
                Reason.PERMISSION_DENIED,
                expected=f"call {method}, which nobody has a right to",
                client=caller.client.name,
            )
        )
    denial = guard.too_fast(caller, asked=asked) or _denial(method, raw, caller.client)
    return None if denial is None else guard.told(denial)


def _denial(method: str, raw: bytes, client: Client) -> Denial | None:
    """In words of that method."""
    verb, named = _RIGHTS[method]
    if named is None:
        return client.refusal(verb)
    try:
        resources = named(raw)
    except DecodeError:
        resources = ()
    denial = client.refusal(verb, resources) if resources else client.refusal_of_all(verb)
    if denial is None or verb is not _ADMIN:
        return denial
    if method not in _SEEN:
        return replace(denial, expected=f"{denial.expected} ({method})")
    lacks = ": that needs the verb admin"
    if client.may(verb):
        lacks = "" if denial.resource else " of all resources"
    return replace(denial, expected=f"look at {_SEEN[method]}{lacks}")
