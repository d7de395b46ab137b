"""`python -m tests.faults`: rounds of every harm, as many as are asked for; exit code 1 if anything is wrong.

The seed of each campaign is printed. The same seed breaks the same things in the same order; what the processes were
just doing is another matter, so a fault may take several goes to show again: ``--repeat``. What everybody wrote down is
kept in ``build/faults`` when something is wrong.
"""

import argparse
import os
import sys
import time
from typing import Final

from tests.campaigns import ended, first_seed, told
from tests.faults.campaign import run
from tests.faults.disk import NoDiskError, leave
from tests.faults.harms import HARMS

# So many rounds are of one campaign, between which programs and state begin anew.
_ROUNDS: Final = 10


def main() -> int:
    """Campaign after campaign; a line of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="of each harm (%(default)d)")
    parser.add_argument("--harm", choices=[*HARMS], action="append", help="this one only; may be repeated")
    parser.add_argument("--seed", type=int, help="of the first campaign (chance)")
    parser.add_argument("--repeat", action="store_true", help="the same seed in each campaign")
    arguments = parser.parse_args()
    harms = arguments.harm or [*HARMS]
    wrong = 0
    if "fill" in harms and (why := _no_disk()):
        print(f"fill: cannot be done: {why}", flush=True)
        harms = [name for name in harms if name != "fill"]
        wrong += 1
    seed = first_seed(arguments.seed)
    for name in harms:
        for number, first in enumerate(range(0, arguments.rounds, _ROUNDS)):
            its = seed if arguments.repeat else seed + number
            rounds = min(_ROUNDS, arguments.rounds - first)
            wrong += _campaign(name, its, rounds)
    return ended(wrong)


def _no_disk() -> str:
    """Why no disk can be filled here; where one may be had in a namespace alone, all of this begins anew in there."""
    try:
        words = leave()
    except NoDiskError as error:
        return str(error)
    if words:
        os.execvp(words[0], [*words, sys.executable, "-m", "tests.faults", *sys.argv[1:]])  # noqa: S606
    return ""


def _campaign(name: str, seed: int, rounds: int) -> bool:
    began = time.monotonic()
    outcome = run(name, seed, [HARMS[name]] * rounds)
    seen = ", ".join(f"{number:,} {result or 'unanswered'}" for result, number in sorted(outcome.seen.items()))
    return told(
        f"{name}: seed {seed}, {rounds} rounds in {time.monotonic() - began:.0f} s, {outcome.daemons} daemons, "
        f"{len(outcome.history.calls):,} lines ({seen})",
        outcome.problems,
        outcome.kept,
    )


if __name__ == "__main__":
    sys.exit(main())
