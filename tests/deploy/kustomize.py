"""What `kubectl kustomize` makes of a folder: plainly, as far as ours go, and with an error for whatever goes further.

One of the tests holds it against the real one, where there is one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

KUBERNETES: Final = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS: Final = sorted((KUBERNETES / "overlays").iterdir())
Resource = dict[str, Any]

_KEYS: Final = {
    "apiVersion",
    "kind",
    "resources",
    "configMapGenerator",
    "images",
    "namespace",
    "patches",
}


def built(folder: Path) -> list[Resource]:
    """All resources of a kustomization, as they would be applied."""
    asked = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert set(asked) <= _KEYS, set(asked) - _KEYS
    resources = [resource for name in asked["resources"] for resource in _read(folder / name)]
    resources += [_config_map(folder, each) for each in asked.get("configMapGenerator", ())]
    for resource in resources:
        if "namespace" in asked:
            resource["metadata"]["namespace"] = asked["namespace"]
        for image in asked.get("images", ()):
            _tag(resource, image)
    for patch in asked.get("patches", ()):
        _patch(resources, patch)
    return resources


def pods(resource: Resource) -> Iterator[Resource]:
    """The template of what runs it in pods."""
    if resource["kind"] in {"DaemonSet", "Deployment"}:
        yield resource["spec"]["template"]


def containers(resource: Resource) -> Iterator[Resource]:
    """All containers of it, also those that are there before the others."""
    for pod in pods(resource):
        yield from pod["spec"].get("initContainers", ())
        yield from pod["spec"]["containers"]


def _read(path: Path) -> list[Resource]:
    if path.is_dir():
        return built(path)
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def _config_map(folder: Path, asked: Resource) -> Resource:
    # With a suffix, every name that refers to it would have to follow.
    assert asked["options"] == {"disableNameSuffixHash": True}
    data = {name: (folder / name).read_text(encoding="utf-8") for name in asked["files"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": asked["name"]}, "data": data}


def _tag(resource: Resource, image: Resource) -> None:
    assert set(image) == {"name", "newTag"}
    for container in containers(resource):
        if container["image"] == image["name"]:
            container["image"] = f"{image['name']}:{image['newTag']}"


def _patch(resources: list[Resource], patch: Resource) -> None:
    kind, name = patch["target"]["kind"], patch["target"]["name"]
    (resource,) = (one for one in resources if (one["kind"], one["metadata"]["name"]) == (kind, name))
    for step in yaml.safe_load(patch["patch"]):
        assert step["op"] == "add"
        *way, last = step["path"].strip("/").split("/")
        assert last == "-"
        place: Any = resource
        for key in way:
            place = place[key]
        place.append(step["value"])
