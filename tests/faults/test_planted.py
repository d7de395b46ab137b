"""The proof proves something: daemons that do forget are found out, by what their clients saw."""

import shutil

import pytest

from tests.faults.campaign import Outcome, run
from tests.faults.harms import Harm
from tests.faults.scene import Scene


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
    outcome = run("planted", 1, [harm], head=head, keep=False)

    assert rule in found(outcome), outcome.problems


def test_a_daemon_that_answers_too_soon_is_found_out() -> None:
    """It writes everything, but only after it has told of it: a kill in between is enough."""
    outcome = run("hasty", 1, [kill] * 3, module="tests.faults.hasty", keep=False)

    assert found(outcome) & {"I1", "I7", "I8", "I12"}, outcome.problems


def found(outcome: Outcome) -> set[str]:
    """The rules that were broken."""
    return {problem.partition(":")[0] for problem in outcome.problems}
