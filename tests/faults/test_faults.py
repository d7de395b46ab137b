"""A short form of what `make faults` does at length: real daemons are broken, and what clients saw stays right.

The seed is another one each time, but under CI always the same. When a test fails it says which, and in which folder of
``build/faults`` everything is kept.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence

from tests.e2e.process import ROOT
from tests.faults.campaign import Outcome, run
from tests.faults.harms import Harm, cut, damage, freeze, freeze_programs, kill, stop, strand

SEED = 1 if os.environ.get("CI") else random.randrange(10**6)


def judged(name: str, harms: Sequence[Harm]) -> Outcome:
    """What became of it, if nothing is wrong with it."""
    outcome = run(name, SEED, harms)
    told = "\n".join([problem[:1000] for problem in outcome.problems[:5]])
    assert not outcome.problems, f"seed {SEED}, kept in {outcome.kept}:\n{told}"
    return outcome


def test_nothing_is_forgotten_when_the_daemon_is_killed() -> None:
    """Ten times, at any moment, while programs borrow; and there was something to forget."""
    outcome = judged("kill", [kill] * 10)

    assert outcome.daemons > 10
    assert outcome.seen["granted"] > 50
    assert outcome.seen["renewed"] > 100
    granted = {name for call in outcome.history.calls if call.result == "granted" for name in call.claims}
    assert granted == {"one", "few", "many", "conn", "api"}


def test_nothing_is_forgotten_whatever_else_is_done() -> None:
    """A restart, a frozen daemon, frozen programs, connections that break, a byte that the disk has changed."""
    outcome = judged("others", [stop, freeze, freeze_programs, strand, cut, damage])

    assert outcome.daemons > 2


def test_nothing_is_forgotten_when_the_disk_is_full() -> None:
    """Nothing is granted then; and afterwards all is as it was. By the command, which goes where it may have a disk."""
    run = subprocess.run(
        [sys.executable, *f"-m tests.faults --harm fill --rounds 1 --seed {SEED}".split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, f"{run.stdout}{run.stderr}"
    assert re.search(r"\b[1-9][\d,]* state_unwritable\b", run.stdout), run.stdout
