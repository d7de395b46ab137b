"""What may have been meant by an ask for a resource that there is not.

It knows how to look at what there is. It must never ask for anything.
"""

from collections.abc import Sequence
from contextlib import suppress

from governor.cli.exits import CommandError
from governor.cli.names import meant_by_claim
from governor.cli.options import Where


def hinted(error: CommandError, where: Where, words: Sequence[str], asked: Sequence[tuple[str, int]]) -> CommandError:
    """The refusal, with what may have been meant, if it is about an unknown resource and there is one like it.

    ``words`` are as they were typed, ``asked`` as they were read.
    """
    unknown = error.facts.get("resource", "")
    word = next((word for word, (name, _) in zip(words, asked, strict=True) if name == unknown), None)
    if error.reason != "UNKNOWN_RESOURCE" or word is None:
        return error
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import ListResourcesRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    with suppress(CommandError), connect(where) as daemon:
        listed = daemon.ask(GovernorStub(daemon.channel).ListResources, ListResourcesRequest()).resources
        return error.but(error.sentence + meant_by_claim(word, unknown, listed))
    return error
