"""The proof proves something: daemons that do forget are found out, by what their clients saw."""

import shutil

import pytest

from tests.faults.campaign import run
from tests.faults.harms import Harm
from tests.faults.scene import Scene


def kill(scene: Scene) -> None:
    """While everybody is at work, and nothing else."""
    scene.daemon.kill()
    scene.start()
    scene.serves()


def lose_the_state(scene: Scene) -> None:
    """Its folder is empty when the next one starts."""
    scene.daemon.kill()
    shutil.rmtree(scene.state)
    scene.start()
    scene.serves()


def bring_back_a_copy(scene: Scene) -> None:
    """Of a little while ago: what was lent, given back and spent since is forgotten."""
    scene.daemon.kill()
    copy = scene.folder / "copy"
    shutil.copytree(scene.state, copy)
    scene.start()
    scene.serves()
    scene.at_work()
    scene.daemon.kill()
    shutil.rmtree(scene.state)
    copy.rename(scene.state)
    scene.start()
    scene.serves()


@pytest.mark.parametrize(
    ("harm", "head", "rules"),
    [
        (kill, "durability: none\n", {"I12"}),
        (lose_the_state, "", {"I7"}),
        (bring_back_a_copy, "", {"I12"}),
    ],
    ids=["nothing is written", "the state is lost", "an old copy is brought back"],
)
def test_a_daemon_that_forgets_is_found_out(harm: Harm, head: str, rules: set[str]) -> None:
    """Whatever it is that it forgets it by."""
    outcome = run("planted", 1, [harm], head=head, keep=False)
    found = {problem.partition(":")[0] for problem in outcome.problems}

    assert found >= rules, outcome.problems
