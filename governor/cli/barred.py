"""Why the daemon takes no session of whoever runs a command, as other commands are told it.

It knows how to ask for that. It must never ask for anything else. To the library, a daemon that does not know us is
one that cannot be had; a person is to see to a token then, and not to an address.
"""

from governor.cli.exits import CommandError, Exit
from governor.cli.options import Where


def why(where: Where) -> CommandError | None:
    """What it has against us, if that is all that there is in the way."""
    from governor.cli.connection import connect
    from governor.v1.governor_pb2_grpc import GovernorStub

    try:
        with connect(where) as daemon:
            refused = daemon.refused(GovernorStub(daemon.channel).Session)
    except CommandError:
        return None
    return refused if refused is not None and refused.exit is Exit.DENIED else None
