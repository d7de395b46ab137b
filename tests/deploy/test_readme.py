"""What the README names in its section on production is there."""

import re
from collections.abc import Iterator
from typing import Final

from governor.config import json_schema
from tests.e2e.process import ROOT
from tests.monitoring.rules import alerts

_README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
_SECTION: Final = _README.partition("## Run it in production\n")[2].partition("\n## ")[0]


def test_every_alert_that_it_names_is_one() -> None:
    """Those to take first, and those that it mentions."""
    named = set(re.findall(r"`(Governor[A-Z]\w+)`", _SECTION))

    assert len(named) >= 5
    assert named <= {rule["alert"] for rule in alerts()}


def test_every_key_that_it_would_set_is_one() -> None:
    """Of the config, wherever in it."""
    table = _SECTION.partition("| key | why |")[2].partition("\n\n")[0]
    keys = {key for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}
    known = set(_properties(json_schema()))

    assert len(keys) >= 8
    assert keys <= known


def _properties(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node.get("properties", ())
        for each in node.values():
            yield from _properties(each)
