"""Words that a shell may complete, as the running daemon has them.

It knows how to ask for them quickly. It must never fail, or keep a keyboard waiting: without an answer there
is nothing to complete.
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from governor.cli.exits import CommandError
from governor.cli.options import Settings, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click
    from click.shell_completion import CompletionItem

    from governor.cli.admin import Admin

    Source = Callable[[Admin, click.Context], Iterator[tuple[str, str]]]

# For the whole of it, but for what it takes to load gRPC.
SECONDS: Final = 1.0
_MOST: Final = 500


def resources(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Names of resources, each with its kind."""
    return _asked(ctx, incomplete, lambda admin, _: _resources(admin, ""))


def pools(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Names of pools."""
    return _asked(ctx, incomplete, lambda admin, _: _resources(admin, "pool"))


def members(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Ids of the members of the pool that was named before."""
    return _asked(ctx, incomplete, _members)


def leases(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Ids of leases, each with its client and what it lends."""
    return _asked(ctx, incomplete, _leases)


def clients(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Names of clients that hold something."""
    return _asked(ctx, incomplete, _clients)


def _asked(ctx: "click.Context", incomplete: str, source: "Source") -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    from governor.cli.reach import is_there

    try:
        where = _where(ctx)
        if not is_there(where, SECONDS / 2):
            return []
        from governor.cli.admin import Admin
        from governor.cli.connection import channel

        with ExitStack() as ends:
            admin = Admin(ends.enter_context(channel(where)), ends)
            # A name that would act on the terminal is not offered.
            found = {word: about for word, about in source(admin, ctx) if word.isprintable()}
    except CommandError:
        return []
    fitting = [CompletionItem(word, help=about) for word, about in found.items() if word.startswith(incomplete)]
    return fitting[:_MOST]


def _where(ctx: "click.Context") -> Where:
    return ctx.ensure_object(Settings).where()


def _resources(admin: "Admin", kind: str) -> "Iterator[tuple[str, str]]":
    for resource in admin.resources(seconds=SECONDS).resources:
        if kind in {"", resource.kind}:
            yield resource.name, resource.kind


def _members(admin: "Admin", ctx: "click.Context") -> "Iterator[tuple[str, str]]":
    from governor.v1.admin_pb2 import GetResourceRequest, MemberState

    request = GetResourceRequest(resource=ctx.params.get("pool") or "")
    for member in admin.ask(lambda stub: stub.GetResource, request, seconds=SECONDS).members:
        yield member.id, MemberState.State.Name(member.state).lower()


def _leases(admin: "Admin", _: "click.Context") -> "Iterator[tuple[str, str]]":
    from governor.cli.entries import claims
    from governor.v1.admin_pb2 import ListLeasesRequest

    request = ListLeasesRequest(limit=_MOST)
    for part in admin.listed(lambda stub: stub.ListLeases, request, seconds=SECONDS):
        for lease in part.leases:
            yield str(lease.id), f"{lease.client}: {claims(lease.grants)}"


def _clients(admin: "Admin", _: "click.Context") -> "Iterator[tuple[str, str]]":
    from governor.v1.admin_pb2 import ListLeasesRequest

    request = ListLeasesRequest(limit=_MOST)
    for part in admin.listed(lambda stub: stub.ListLeases, request, seconds=SECONDS):
        for lease in part.leases:
            yield lease.client, ""
