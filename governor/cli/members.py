"""`governor recycle`, `governor quarantine` and `governor restore`: the members of a pool."""

from typing import TYPE_CHECKING

import click

from governor.cli import complete
from governor.cli.options import (
    NAME,
    WHILE,
    Settings,
    address_option,
    examples,
    output_option,
    reason_option,
    with_settings,
)
from governor.cli.output import say, say_json
from governor.wording import count, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from governor.cli.admin import Admin
    from governor.v1.admin_pb2 import MembersResponse, MemberState

_POOL = click.argument("pool", metavar="POOL", type=NAME, shell_complete=complete.pools)
_MEMBER = click.argument("member", metavar="MEMBER", type=NAME, shell_complete=complete.members)


@click.command(epilog=examples("governor recycle orders-db", "governor recycle orders-db primary"))
@_POOL
@click.argument("member", metavar="[MEMBER]", type=NAME, required=False, shell_complete=complete.members)
@reason_option
@address_option
@output_option
@with_settings
def recycle(settings: Settings, *, pool: str, member: str | None, reason: str) -> None:
    """Have members of a pool opened anew by whoever is lent them next.

    Of one MEMBER, or of all, the generation rises by one: that tells each borrower to open what it stands for anew,
    such as a connection. Whoever has one now keeps it until it gives it back.

    JSON: {"changed", "members": [...]}, each as in `governor resource`.
    """
    from governor.v1.admin_pb2 import RecycleMembersRequest

    request = RecycleMembersRequest(resource=pool, member=member or "", reason=reason)
    _order(settings, pool, member or "", "recycled", lambda admin: admin.ask(lambda stub: stub.RecycleMembers, request))


@click.command(
    epilog=examples("governor quarantine orders-db primary --for 10m", "governor quarantine orders-db primary")
)
@_POOL
@_MEMBER
@click.option("--for", "length", type=WHILE, help="It comes back by itself then. Default: when it is restored.")
@reason_option
@address_option
@output_option
@with_settings
def quarantine(settings: Settings, *, pool: str, member: str, length: int | None, reason: str) -> None:
    """Keep a member of a pool out, for a while or until restored.

    It is lent to nobody. Whoever has it keeps it until it gives it back.

    JSON: {"changed", "members": [...]}, each as in `governor resource`; changed is false if it was so already.
    """
    from governor.v1.admin_pb2 import QuarantineMemberRequest

    request = QuarantineMemberRequest(resource=pool, member=member, reason=reason)
    if length is not None:
        request.length.FromNanoseconds(length)
    _order(settings, pool, member, "quarantined", lambda admin: admin.ask(lambda stub: stub.QuarantineMember, request))


@click.command(epilog=examples("governor restore orders-db primary"))
@_POOL
@_MEMBER
@reason_option
@address_option
@output_option
@with_settings
def restore(settings: Settings, *, pool: str, member: str, reason: str) -> None:
    """End the quarantine of a member of a pool.

    Whoever began it: an operator, or a holder that has reported it as broken.

    JSON: {"changed", "members": [...]}, each as in `governor resource`; changed is false if it was in none.
    """
    from governor.v1.admin_pb2 import RestoreMemberRequest

    request = RestoreMemberRequest(resource=pool, member=member, reason=reason)
    _order(settings, pool, member, "restored", lambda admin: admin.ask(lambda stub: stub.RestoreMember, request))


def _order(settings: Settings, pool: str, member: str, word: str, order: "Callable[[Admin], MembersResponse]") -> None:
    """Give it, and tell how the members are now."""
    from governor.cli import about, hints
    from governor.cli.admin import reached

    with (
        reached(settings.where()) as admin,
        hints.guessing(admin, pool),
        hints.guessing_member(admin, pool, member),
    ):
        answer = order(admin)
    if settings.json:
        records = [about.member_record(member) for member in answer.members]
        say_json({"changed": answer.changed, "members": records})
        return
    if answer.changed:
        say([f"{printable(pool)}: {word} {count(len(answer.members), 'member')}", *map(_line, answer.members)])
    else:
        say([f"{printable(pool)}: nothing changed", *map(_line, answer.members)])


def _line(member: "MemberState") -> str:
    from governor.cli.about import state

    return f"  {printable(member.id)}: {state(member)}, generation {member.generation}"
