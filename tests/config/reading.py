"""How the tests of this folder read text, and how an editor would."""

import re
from collections.abc import Mapping
from pathlib import Path

from governor.config import Config, ConfigError, loads
from governor.config.document import read
from governor.config.nodes import ListNode, MappingNode, Node, Scalar
from governor.config.problems import Problems
from governor.config.variables import Variables

ENVIRON = {
    "HOME": "/home/me",
    "POD_IP": "10.0.0.7",
    "THUMBNAILS": "8",
    "DB_HOST": "db1",
    "SECRET": "hunter2",
    "EMPTY": "",
}

# What a config may hold, as YAML 1.2 types it: an editor sees these, the loader only text.
Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


def config(text: str, environ: Mapping[str, str] = ENVIRON) -> Config:
    """The config that ``text`` makes, in a folder of its own."""
    return loads(text, source="governor.yaml", environ=environ, folder=Path("/etc/governor"))


def complaints(text: str, environ: Mapping[str, str] = ENVIRON) -> list[str]:
    """What is wrong with ``text``, each problem without the name of the file."""
    try:
        config(text, environ)
    except ConfigError as error:
        lines = str(error).split("\n")
        assert all(line.startswith("governor.yaml:") for line in lines)
        return [line.removeprefix("governor.yaml:") for line in lines]
    return []


def as_an_editor_sees(text: str) -> Json:
    """``text`` with the types of YAML 1.2's core schema."""
    problems = Problems("editor")
    root = read(text.encode(), Variables({}), problems)
    assert root is not None
    return _typed(root)


def _typed(node: Node) -> Json:
    match node:
        case MappingNode():
            return {key: _typed(value) for key, value in node.items()}
        case ListNode():
            return [_typed(item) for item in node]
        case Scalar() if node.null:
            return None
        case Scalar() if node.quoted:
            return node.written
        case Scalar() if node.written in {"true", "false"}:
            return node.written == "true"
        case Scalar() if re.fullmatch(r"[-+]?[0-9]+", node.written):
            return int(node.written)
        case Scalar() if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", node.written):
            return float(node.written)
        case Scalar():
            return node.written
        case _:
            # An unset variable: to an editor it is text.
            return "${UNSET}"
