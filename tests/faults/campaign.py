"""Campaign: one scene, some rounds of one harm, and what is wrong with it in the end.

It knows the order of things. It must never know how anything is broken, or judged.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.e2e.process import ROOT
from tests.faults.disk import small_disk
from tests.faults.harms import Harm, damage, fill
from tests.faults.scene import SPARE, Scene
from tests.history.check import check
from tests.history.log import History

# Where the folder of a campaign with a fault is kept.
KEPT: Final = ROOT / "build" / "faults"

# What daemons say of what is done to them.
_SAID: Final[dict[Harm, str]] = {
    fill: r"ERROR .*state\.db: cannot be (written|opened|read)",
    damage: r"^governor: .*state\.db: is damaged",
}


@dataclass(slots=True)
class Outcome:
    """What became of it: what is wrong, and how much there was to see."""

    problems: list[str]
    history: History
    daemons: int
    kept: Path | None = None
    seen: dict[str, int] = field(default_factory=dict)


def run(
    name: str,
    seed: int,
    harms: Sequence[Harm],
    *,
    head: str | None = None,
    module: str = SPARE,
    keep: bool = True,
) -> Outcome:
    """A round of each of these harms, under a name of the whole. ``head`` and ``module`` as of a `Scene`."""
    if head is None:
        head = f"restart_grace: {('1s', '1s', '5s')[seed % 3]}\ndurability: {('process', 'power')[seed // 3 % 2]}\n"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="governor-")))
        if fill in harms:
            stack.enter_context(small_disk(folder))
        scene = Scene(folder, seed, head=head, module=module)
        problems: list[str] = []
        with scene:
            try:
                for harm in harms:
                    harm(scene)
                    scene.at_work()
                problems += scene.finish()
            except AssertionError as error:
                problems.append(f"it did not come to its end: {error}")
        problems += scene.blemishes([_SAID[each] for each in set(harms) if each in _SAID])
        history = scene.history()
        problems += check(history)
        outcome = Outcome(problems, history, len(scene.daemons))
        for call in history.calls:
            outcome.seen[call.result] = outcome.seen.get(call.result, 0) + 1
        if problems and keep:
            scene.keep()
            outcome.kept = _keep(folder, f"{name}-{seed}", problems)
    return outcome


def _keep(folder: Path, name: str, problems: list[str]) -> Path:
    kept = KEPT / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("socket", "gate-*"))
    (kept / "problems.txt").write_text("\n".join(problems) + "\n", encoding="utf-8")
    return kept
