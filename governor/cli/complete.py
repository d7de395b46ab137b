"""Words that a shell may complete, as the running daemon has them.

It knows how to ask for them quickly. It must never fail, or keep a keyboard waiting: without an answer there
is nothing to complete.
"""

from typing import TYPE_CHECKING, Final

from governor.cli.exits import CommandError
from governor.cli.options import Settings, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click
    from click.shell_completion import CompletionItem

    from governor.cli.connection import Connection

    Source = Callable[[Connection, click.Context], Iterator[tuple[str, str]]]

# For the whole of it, but for what it takes to load gRPC.
SECONDS: Final = 1.0
_MOST: Final = 500


def resources(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Names of resources, each with its kind."""
    return _asked(ctx, incomplete, lambda daemon, _: _resources(daemon, ""))


def pools(ctx: "click.Context", _: "click.Parameter", incomplete: str) -> "list[CompletionItem]":
    """Names of pools."""
    return _asked(ctx, incomplete, lambda daemon, _: _resources(daemon, "pool"))


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
        from governor.cli.connection import channel

        with channel(where) as daemon:
            # A name that would act on the terminal is not offered.
            found = {word: about for word, about in source(daemon, ctx) if word.isprintable()}
    except CommandError:
        return []
    fitting = [CompletionItem(word, help=about) for word, about in found.items() if word.startswith(incomplete)]
    return fitting[:_MOST]


def _where(ctx: "click.Context") -> Where:
    return ctx.ensure_object(Settings).where()


def _resources(daemon: "Connection", kind: str) -> "Iterator[tuple[str, str]]":
    from governor.v1.governor_pb2 import ListResourcesRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    listed = daemon.ask(GovernorStub(daemon.channel).ListResources, ListResourcesRequest(), seconds=SECONDS)
    for resource in listed.resources:
        if kind in {"", resource.kind}:
            yield resource.name, resource.kind


def _members(daemon: "Connection", ctx: "click.Context") -> "Iterator[tuple[str, str]]":
    from governor.v1.admin_pb2 import GetResourceRequest, MemberState
    from governor.v1.admin_pb2_grpc import AdminStub

    request = GetResourceRequest(resource=ctx.params.get("pool") or "")
    for member in daemon.ask(AdminStub(daemon.channel).GetResource, request, seconds=SECONDS).members:
        yield member.id, MemberState.State.Name(member.state).lower()


def _leases(daemon: "Connection", _: "click.Context") -> "Iterator[tuple[str, str]]":
    from governor.cli.entries import claims
    from governor.v1.admin_pb2 import ListLeasesRequest
    from governor.v1.admin_pb2_grpc import AdminStub

    request = ListLeasesRequest(limit=_MOST)
    with daemon.listen(AdminStub(daemon.channel).ListLeases, request, seconds=SECONDS) as hearing:
        for part in hearing:
            for lease in part.leases:
                yield str(lease.id), f"{lease.client}: {claims(lease.grants)}"


def _clients(daemon: "Connection", _: "click.Context") -> "Iterator[tuple[str, str]]":
    from governor.v1.admin_pb2 import ListLeasesRequest
    from governor.v1.admin_pb2_grpc import AdminStub

    request = ListLeasesRequest(limit=_MOST)
    with daemon.listen(AdminStub(daemon.channel).ListLeases, request, seconds=SECONDS) as hearing:
        for part in hearing:
            for lease in part.leases:
                yield lease.client, ""
