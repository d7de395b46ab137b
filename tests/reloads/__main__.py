"""`python -m tests.reloads`: so many reloads in a row; exit code 1 if anything is wrong.

The seed of each campaign is printed. The same seed declares the same in the same ways; what programs were just doing is
another matter. What everybody wrote down is kept in ``build/reloads`` when something is wrong.
"""

import argparse
import sys
import time
from typing import Final

from tests.campaigns import ended, first_seed, told
from tests.reloads.campaign import run

# So many are of one daemon.
_RELOADS: Final = 100


def main() -> int:
    """Campaign after campaign; a line of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.reloads", description=__doc__)
    parser.add_argument("--reloads", type=int, default=1000, help="in all (%(default)d)")
    parser.add_argument("--seed", type=int, help="of the first campaign (chance)")
    arguments = parser.parse_args()
    seed = first_seed(arguments.seed)
    wrong = 0
    for number, first in enumerate(range(0, arguments.reloads, _RELOADS)):
        began = time.monotonic()
        outcome = run(seed + number, min(_RELOADS, arguments.reloads - first))
        late = sorted(outcome.latencies) or [0]
        wrong += told(
            f"seed {seed + number}: {outcome.reloads} reloads and {outcome.refused} refused in "
            f"{time.monotonic() - began:.0f} s, by watch within {late[len(late) // 2] / 1e6:.0f} ms (half of them) or "
            f"{late[-1] / 1e6:.0f} ms (all), {len(outcome.history.calls):,} calls, "
            f"{outcome.seen.get('granted', 0):,} granted",
            outcome.problems,
            outcome.kept,
        )
    return ended(wrong)


if __name__ == "__main__":
    sys.exit(main())
