"""What `kubectl kustomize` makes of an overlay, and the parts of what is in it.

It knows how to ask kubectl. It must never know what is right.
"""

import subprocess
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml

from tests.e2e.process import BOUND
from tests.programs import needed

KUBERNETES: Final = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS: Final = sorted((KUBERNETES / "overlays").iterdir())
Resource = dict[str, Any]


def built(folder: Path) -> list[Resource]:
    """All resources of a kustomization, as they would be applied."""
    return deepcopy(_built(folder))


@cache
def _built(folder: Path) -> list[Resource]:
    command = (needed("kubectl"), "kustomize", folder)
    run = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return [cast("Resource", one) for one in yaml.safe_load_all(run.stdout)]


def pods(resource: Resource) -> Iterator[Resource]:
    """The template of what runs it in pods."""
    if resource["kind"] in {"DaemonSet", "Deployment"}:
        yield resource["spec"]["template"]


def containers(resource: Resource) -> Iterator[Resource]:
    """All containers of it, also those that are there before the others."""
    for pod in pods(resource):
        yield from pod["spec"].get("initContainers", ())
        yield from pod["spec"]["containers"]
