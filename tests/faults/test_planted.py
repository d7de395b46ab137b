"""The proof proves something: daemons that do forget are found out, by what their clients saw."""

import shutil
from collections.abc import Sequence

import pytest

from tests.faults.campaign import run
from tests.faults.harms import Harm
from tests.faults.scene import SPARE, Scene


def kill(scene: Scene) -> None:
    """While everybody is at work, and nothing else."""
    scene.kill()
    scene.start()
    scene.serves()


def lose_the_state(scene: Scene) -> None:
    """Its folder is empty when the next one starts."""
    scene.kill()
    shutil.rmtree(scene.state)
    scene.start()
    scene.serves()


@pytest.mark.parametrize(
    ("harm", "head", "rule"),
    [(kill, "durability: none\n", "I12"), (lose_the_state, "", "I7")],
    ids=["nothing is written", "the state is lost"],
)
def test_a_daemon_that_forgets_is_found_out(harm: Harm, head: str, rule: str) -> None:
    """By what it forgets: leases, or how high their ids were."""
    found_out("planted", [harm], {rule}, head=head)


def test_a_daemon_that_answers_too_soon_is_found_out() -> None:
    """It writes everything, but only after it has told of it: a kill in between is enough."""
    found_out("hasty", [kill] * 3, {"I1", "I7", "I8", "I12"}, module="tests.faults.hasty")


def found_out(
    name: str, harms: Sequence[Harm], rules: set[str], *, head: str | None = None, module: str = SPARE
) -> None:
    """Clients saw one of these rules broken, at the latest in the last of some campaigns.

    What nobody missed between the kill and its time to end was not seen to be forgotten, as happens on a busy machine.
    """
    problems: list[str] = []
    for seed in range(1, 9):
        problems += run(name, seed, harms, head=head, module=module, keep=False).problems
        if rules & {problem.partition(":")[0] for problem in problems}:
            return
    pytest.fail(f"none of {sorted(rules)} in {problems}")
