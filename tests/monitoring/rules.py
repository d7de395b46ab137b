"""Reads the files of rules."""

from pathlib import Path
from typing import Final, TypedDict, cast

import yaml

MONITORING: Final = Path(__file__).parents[2] / "deploy" / "monitoring"
FILES: Final = sorted((MONITORING / "rules").glob("*.yaml"))

Rule = TypedDict(
    "Rule",
    {"alert": str, "record": str, "expr": str, "for": str, "labels": dict[str, str], "annotations": dict[str, str]},
    total=False,
)


def rules() -> list[Rule]:
    """All of them, in order."""
    groups = [group for path in FILES for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]
    return [cast("Rule", rule) for group in groups for rule in group["rules"]]


def alerts() -> list[Rule]:
    """Those that alert."""
    return [rule for rule in rules() if "alert" in rule]


def records() -> list[Rule]:
    """Those that record."""
    return [rule for rule in rules() if "record" in rule]
