"""A short form of what `make reloads` does at length, and proof that it proves something.

The seed is another one each time, but under CI always the same. When it fails it says which, and in which folder of
``build/reloads`` everything is kept.
"""

import os
import random
import sys
from random import Random

from tests.history.log import Bound
from tests.reloads.campaign import run
from tests.reloads.worlds import SECOND, World

SEED = 1 if os.environ.get("CI") else random.randrange(10**6)


def test_no_reload_breaks_a_promise() -> None:
    """Forty in a row, in all ways in which a file can change, while programs borrow, wait and spend."""
    outcome = run(SEED, 40)
    told = "\n".join([problem[:1000] for problem in outcome.problems[:5]])
    assert not outcome.problems, f"seed {SEED}, kept in {outcome.kept}:\n{told}"

    assert outcome.reloads + outcome.refused == 40
    assert outcome.reloads > 20
    assert len(outcome.ways) > 5
    granted = [name for call in outcome.history.calls if call.result == "granted" for name in call.claims]
    assert {"many", "api"} < set(granted)
    assert granted.count("api") > 50


def slow(_chance: Random, number: int, _now: dict[str, Bound]) -> World:
    """What is refilled of it, time has not brought back: hours would."""
    windows = [(number, 3600 * SECOND, 4)]
    yaml = f"semaphores: {{one: {{permits: 1}}}}\nrate_limits: {{api: {{rate: {number}/h, burst: 4}}}}\n"
    return World(yaml, {"one": Bound(1), "api": Bound(windows=windows)})


def test_a_daemon_that_refills_its_limits_is_found_out() -> None:
    """The proof proves something: by what its clients were granted, however few of them a slow machine serves."""
    outcome = run(1, 12, worlds=slow, command=(sys.executable, "-m", "tests.reloads.generous"), keep=False)

    assert {problem.partition(":")[0] for problem in outcome.problems} == {"I9"}, outcome.problems
