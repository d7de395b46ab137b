"""The client library as the commands use it: a session with the daemon, and how its errors read.

It knows the errors of the library. It must never load gRPC, which a command that borrows does without.
"""

import logging
import os
from typing import TYPE_CHECKING

from governor.address import VARIABLE
from governor.cli.exits import BY_REASON, CommandError, Exit
from governor.cli.options import Where
from governor.tracing import of_environment
from governor.wording import SECOND, printable, span

if TYPE_CHECKING:
    from governor.client import Client, GovernorError


def client(where: Where, name: str, *, patient: bool = False) -> "Client":
    """A client that has said nothing yet. ``patient``: it waits for a daemon that goes away, too."""
    from governor.client import Client

    # What it would log, the command says in its own words.
    logger = logging.getLogger("governor.client")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    made = Client(str(where.address), name=name, unavailable="wait" if patient else "raise")
    # Whoever runs this within a trace finds its permits there; what a command is started with it hands on as it is.
    if (within := of_environment(os.environ)) is not None:
        made._settings.trace = within  # noqa: SLF001
    return made


def failure(error: "GovernorError", where: Where) -> CommandError:
    """The words and the exit code for what the library says went wrong with the daemon there."""
    from governor.cli import barred
    from governor.client import LeaseLost, NotGranted, Unavailable, UsageError

    sentence = printable(str(error)).removeprefix("governor: ")
    match error:
        case NotGranted():
            reason = error.reason.upper()
            retry = None if error.retry_after is None else round(error.retry_after * SECOND)
            if retry is not None and "try again in" not in sentence:
                sentence += f"; try again in {span(retry)}"
            usual = Exit.USAGE if error.never else Exit.TRY_LATER
            facts = {"resource": error.resource}
            return CommandError(BY_REASON.get(reason, usual), sentence, reason=reason, facts=facts, retry=retry)
        case Unavailable():
            # One that says nothing would say nothing to that either, for as long as a command waits.
            if "does not answer" not in sentence and (why := barred.why(where)) is not None:
                return why
            return CommandError(Exit.CANNOT_REACH, f"{sentence}. Another address: --address or {VARIABLE}.")
        case UsageError():
            return CommandError(Exit.USAGE, sentence)
        case LeaseLost():
            return CommandError(Exit.LEASE_LOST, sentence)
        case _:
            return CommandError(Exit.BUG, sentence)
