"""What may have been meant by an ask for a resource that there is not.

It knows how to look at what there is. It must never ask for anything.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from governor.cli.exits import CommandError
from governor.cli.names import MAX_KNOWN, meant, meant_by_claim, near
from governor.cli.options import Where
from governor.wording import printable, span

# The field of the message, and which words the daemon knows.
_NO_WHAT: Final = re.compile(r"what\[(?P<at>\d+)\]: (?P<why>expected one of (?P<known>.+))")

if TYPE_CHECKING:
    from governor.cli.admin import Admin
    from governor.cli.connection import Connection
    from governor.v1.governor_pb2 import Resource


def hinted(error: CommandError, where: Where, words: Sequence[str], asked: Sequence[tuple[str, int]]) -> CommandError:
    """The refusal, with what may have been meant, if it is about an unknown resource and there is one like it.

    ``words`` are as they were typed, ``asked`` as they were read.
    """
    unknown = error.facts.get("resource", "")
    word = next((word for word, (name, _) in zip(words, asked, strict=True) if name == unknown), None)
    if error.reason != "UNKNOWN_RESOURCE" or word is None:
        return error
    from governor.cli.connection import connect

    with suppress(CommandError), connect(where) as daemon:
        return error.but(error.sentence + meant_by_claim(word, unknown, _listed(daemon)))
    return error


@contextmanager
def guessing(admin: "Admin", *names: str) -> "Iterator[None]":
    """An order about a resource that there is not is refused with what may have been meant."""
    try:
        yield
    except CommandError as error:
        if error.reason != "UNKNOWN_RESOURCE":
            raise
        guess = ""
        with suppress(CommandError):
            guess = meant(error.facts.get("resource", names[0]), admin.resources().resources)
        raise error.but(error.sentence + guess) from None


@contextmanager
def guessing_member(admin: "Admin", pool: str, member: str) -> "Iterator[None]":
    """An order about a member that there is not is refused with what may have been meant."""
    try:
        yield
    except CommandError as error:
        if error.reason != "UNKNOWN_MEMBER":
            raise
        from governor.v1.admin_pb2 import GetResourceRequest

        guess = ""
        with suppress(CommandError):
            there = admin.ask(lambda stub: stub.GetResource, GetResourceRequest(resource=pool)).members
            guess = near(member, [each.id for each in there[:MAX_KNOWN]])
        raise error.but(error.sentence + guess) from None


@contextmanager
def guessing_what(words: Sequence[str]) -> "Iterator[None]":
    """A ``--what`` that there is not is refused by the name of the option, with what may have been meant."""
    try:
        yield
    except CommandError as error:
        if (refused := _NO_WHAT.fullmatch(error.sentence)) is None:
            raise
        word = words[int(refused["at"])]
        raise error.but(
            f"--what {printable(word)}: {refused['why']}{near(word, refused['known'].split(', '))}"
        ) from None


def about_wait(where: Where, names: Sequence[str], wait: int | None) -> "Callable[[], str] | None":
    """What is to be known of such a wait once one waits; None if nothing was said of it."""
    return None if wait is None else lambda: _cut_short(where, names, wait)


def _cut_short(where: Where, names: Sequence[str], wait: int) -> str:
    """That whoever asked for a wait of so many nanoseconds gets a shorter one; else nothing."""
    from governor.cli.connection import connect

    with suppress(CommandError), connect(where) as daemon:
        asked = [resource for resource in _listed(daemon) if resource.name in names]
        shortest = min(asked, key=lambda resource: resource.max_wait.ToNanoseconds(), default=None)
        if shortest is not None and (longest := shortest.max_wait.ToNanoseconds()) < wait:
            name = printable(shortest.name)
            return f"governor: {name}: nobody waits for longer than its max_wait of {span(longest)}, nor does this"
    return ""


def _listed(daemon: "Connection") -> "Sequence[Resource]":
    from governor.v1.governor_pb2 import ListResourcesRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    return daemon.ask(GovernorStub(daemon.channel).ListResources, ListResourcesRequest()).resources
