"""Reads the committed dashboards, as plain data."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from tests.monitoring.rules import MONITORING

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = dict[str, Json]

FILES: Final = sorted((MONITORING / "grafana" / "dashboards").glob("*.json"))
_NAME: Final = r"(?:governor|process|python|scrape)_\w+|up"
_SELECTOR: Final = re.compile(rf"\b({_NAME})\b(\{{[^}}]*\}})?")


@dataclass(frozen=True)
class Selector:
    """A metric as a query names it, and the matchers in its braces."""

    metric: str
    matchers: str


def boards() -> list[Object]:
    """All of them."""
    return [cast("Object", json.loads(path.read_text(encoding="utf-8"))) for path in FILES]


def objects(value: Json) -> list[Object]:
    """What is a list of objects, or nothing at all."""
    assert value is None or isinstance(value, list)
    found = [each for each in value or [] if isinstance(each, dict)]
    assert len(found) == len(value or [])
    return found


def at(value: Json, *keys: str) -> Json:
    """What is there on a way of keys; None if it leads nowhere."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(value: Json, *keys: str) -> str:
    """The same, where it is a text; empty if there is none."""
    found = at(value, *keys)
    assert found is None or isinstance(found, str), found
    return found or ""


def panels(board: Object) -> list[Object]:
    """Those that show something."""
    return [panel for panel in objects(board["panels"]) if panel["type"] != "row"]


def variables(board: Object) -> dict[str, Object]:
    """By name."""
    return {text(variable, "name"): variable for variable in objects(at(board, "templating", "list"))}


def annotations(board: Object) -> list[Object]:
    """What is marked on its panels."""
    return objects(at(board, "annotations", "list"))


def queries(board: Object) -> Iterator[tuple[str, str]]:
    """Each with the title of its panel."""
    for panel in panels(board):
        for target in objects(panel["targets"]):
            yield text(panel, "title"), text(target, "expr")


def selectors(expr: str) -> list[Selector]:
    """Each metric that is asked for."""
    return [Selector(metric, matchers) for metric, matchers in _SELECTOR.findall(expr)]


def filled(expr: str, values: Mapping[str, str]) -> str:
    """With the variables as Grafana fills them in."""
    for name, value in sorted(values.items(), reverse=True):
        expr = expr.replace(f"${name}", value)
    assert "$" not in expr, expr
    return expr
