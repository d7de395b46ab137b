"""`python -m tests.fuzz`: random input for all that strangers can reach; exit code 1 if anything is wrong.

The seed of each campaign is printed, and each batch of it follows from the seed and the number of the batch: what was
wrong with one is kept in ``build/fuzz``, with both, and is sent again by ``--seed SEED --first NUMBER --messages 1``. A
file that was wrong is kept as it is: ``governor check FILE``.
"""

import argparse
import sys
import time

from tests.campaigns import ended, first_seed, told
from tests.fuzz import files
from tests.fuzz.campaign import KEPT, run

# So many are sent to one daemon.
_MESSAGES = 100_000


def main() -> int:
    """Campaign after campaign; a line of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="over gRPC, in all (%(default)d)")
    parser.add_argument("--files", type=int, default=10_000, help="for the reader of configs (%(default)d)")
    parser.add_argument("--seed", type=int, help="of the first campaign (chance)")
    parser.add_argument("--first", type=int, default=0, help="the first batch")
    parser.add_argument("--each", type=int, default=_MESSAGES, help="messages to one daemon (%(default)d)")
    parser.add_argument("--only", choices=["open", "guarded"])
    arguments = parser.parse_args()
    seed = first_seed(arguments.seed)
    wrong = sent = number = 0
    while sent < arguments.messages:
        guarded = bool(number % 2) if arguments.only is None else arguments.only == "guarded"
        began = time.monotonic()
        outcome = run(
            seed + number, min(arguments.each, arguments.messages - sent), guarded=guarded, first=arguments.first
        )
        wrong += told(
            f"{'guarded' if guarded else 'open'}: seed {seed + number}, {outcome.messages:,} messages in "
            f"{outcome.calls:,} calls over {outcome.connections} connections in {time.monotonic() - began:.0f} s, "
            f"{outcome.pairs:,} pairs beside them, {outcome.warm:.0f} then {outcome.resident:.0f} MiB, "
            f"statuses {dict(sorted(outcome.statuses.items()))}",
            outcome.problems,
            outcome.kept,
        )
        sent += max(1, outcome.messages)
        number += 1
    if arguments.files:
        wrong += _files(seed, arguments.files)
    print(f"messages: {sent:,}")
    return ended(wrong)


def _files(seed: int, number: int) -> bool:
    outcome = files.run(seed, number, KEPT / "files")
    took, which = outcome.slowest
    return told(
        f"files: seed {seed}, {outcome.files:,}, of which {outcome.legal:,} are configs, the slowest in {took:.2f} s "
        f"of processor time ({which}), {outcome.grown:+.0f} MiB",
        outcome.problems,
    )


if __name__ == "__main__":
    sys.exit(main())
