"""`python -m tests.simulate`: as many worlds as fit into some seconds; exit code 1 if anything is wrong in one.

A seed in whose world something is wrong is printed, and kept in `seeds.txt`: from then on every test runs it.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final

from tests.simulate.run import run

SEEDS: Final = Path(__file__).with_name("seeds.txt")


def kept() -> list[int]:
    """The seeds that something was wrong with once."""
    lines = SEEDS.read_text(encoding="utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def main() -> int:
    """Run worlds until the time is over or a few are wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for how long (%(default)g)")
    parser.add_argument(
        "--first", type=int, help="the first seed; the others follow it (chance, but under CI always 1)"
    )
    parser.add_argument("--only", type=int, action="append", help="this seed only; may be repeated")
    arguments = parser.parse_args()
    first = arguments.first or (1 if os.environ.get("CI") else random.randrange(1, 10**9))
    began, seen, wrong = time.monotonic(), Counter[str](), 0
    for seed in arguments.only or count(first):
        outcome = run(seed)
        seen["worlds"] += 1
        seen["calls"] += len(outcome.history.calls)
        seen["restarts"] += outcome.boots - 1
        seen["freezes"] += outcome.freezes
        if outcome.problems:
            wrong += 1
            print(f"seed {seed}: {outcome.problems[0]}")
            _keep(seed, outcome.problems[0])
        if wrong == 3 or (not arguments.only and time.monotonic() - began > arguments.seconds):
            break
    took = time.monotonic() - began
    told = ", ".join(f"{number:,} {what}" for what, number in seen.items())
    print(f"{told}; from seed {first}, {seen['worlds'] / took * 60:,.0f} worlds a minute; wrong: {wrong}")
    return 1 if wrong else 0


def _keep(seed: int, problem: str) -> None:
    if seed not in kept():
        with SEEDS.open("a", encoding="utf-8") as seeds:
            seeds.write(f"{seed}  {problem[:100]}\n")


if __name__ == "__main__":
    sys.exit(main())
