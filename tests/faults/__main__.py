"""`python -m tests.faults`: rounds of every harm, as many as are asked for; exit code 1 if anything is wrong.

The seed of each campaign is printed. The same seed breaks the same things in the same order; what the processes were
just doing is another matter, so a fault may take several goes to show again: ``--repeat``. What everybody wrote down is
kept in ``build/faults`` when something is wrong.
"""

import argparse
import os
import random
import sys
import time
from typing import Final

from tests.faults.campaign import run
from tests.faults.harms import HARMS, why_no_mount

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
    seed = arguments.seed if arguments.seed is not None else random.randrange(1, 10**6)
    wrong = 0
    for name in arguments.harm or HARMS:
        if name == "fill" and (why := why_no_mount()):
            print(f"{name}: skipped, {why}")
            continue
        for number, first in enumerate(range(0, arguments.rounds, _ROUNDS)):
            its = seed if arguments.repeat else seed + number
            rounds = min(_ROUNDS, arguments.rounds - first)
            wrong += _campaign(name, its, rounds)
    print(f"campaigns with something wrong: {wrong}")
    return 1 if wrong else 0


def _campaign(name: str, seed: int, rounds: int) -> bool:
    began = time.monotonic()
    outcome = run(name, seed, [HARMS[name]] * rounds)
    took = time.monotonic() - began
    seen = outcome.seen
    print(
        f"{name}: seed {seed}, {rounds} rounds in {took:.0f} s, {outcome.daemons} daemons, "
        f"{len(outcome.history.calls):,} lines, {seen.get('granted', 0):,} granted, {seen.get('', 0):,} unanswered: "
        f"{f'{len(outcome.problems)} WRONG' if outcome.problems else 'nothing wrong'}",
        flush=True,
    )
    for problem in outcome.problems[:3]:
        print(f"  {problem[:300]}")
    if outcome.kept is not None:
        print(f"  kept in {os.path.relpath(outcome.kept)}", flush=True)
    return bool(outcome.problems)


if __name__ == "__main__":
    sys.exit(main())
