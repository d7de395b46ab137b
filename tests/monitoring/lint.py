"""The rules of Grafana's dashboard-linter that are for Prometheus, and some of our own.

Each rule takes a dashboard and says what is wrong with it, in a line for each fault. That queries are valid PromQL is
for a real Prometheus to say, in test_queries.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from governor.metrics import families
from tests.monitoring.boards import Object, annotations, at, objects, panels, queries, selectors, text, variables

_SOURCE: Final = "${datasource}"
# Of those that Grafana has, the ones that fit here.
_UNITS: Final = {"short", "percentunit", "s", "ops", "wps", "bytes", "bool_yes_no", "string"}
_RANGED: Final = re.compile(r"(\w+)\(\s*\w+(?:\{[^}]*\})?\[([^\]]+)\]")
# Shown by every process in Python, and by Prometheus of each scrape.
_OTHERS: Final = ("process_", "python_", "scrape_")


def template_datasource(board: Object) -> Iterator[str]:
    """One variable chooses the Prometheus; it has the name and the label that people know."""
    found = [each for each in variables(board).values() if each["type"] == "datasource"]
    if [(each["name"], each["label"], each["query"]) for each in found] != [
        ("datasource", "Data source", "prometheus")
    ]:
        yield "no variable `datasource`, labelled `Data source`, of Prometheus"


def template_job_and_instance(board: Object) -> Iterator[str]:
    """Any of them, and by default all."""
    for name in ("job", "instance"):
        variable = variables(board).get(name)
        told = variable and (variable["type"], variable["label"], variable["multi"], variable["allValue"])
        if told != ("query", name.capitalize(), True, ".+"):
            yield f"{name}: {told}"


def template_queries(board: Object) -> Iterator[str]:
    """They ask the chosen Prometheus for the values of a label, anew when the time changes."""
    for name, variable in variables(board).items():
        if variable["type"] != "query":
            continue
        if text(variable, "datasource", "uid") != _SOURCE:
            yield f"{name}: another data source"
        if not re.fullmatch(rf"label_values\(governor_\w+(\{{.*\}})?, {name}\)", text(variable, "query")):
            yield f"{name}: {variable['query']}"
        if variable["refresh"] != 2:
            yield f"{name}: not asked anew when the time range changes"
        if not any(f"${name}" in expr for _, expr in queries(board)):
            yield f"{name}: used in no panel"


def panel_datasource(board: Object) -> Iterator[str]:
    """Panels, their queries and annotations ask the chosen one."""
    for panel in panels(board):
        if {text(each, "datasource", "uid") for each in (panel, *objects(panel["targets"]))} != {_SOURCE}:
            yield f"{panel['title']}"
    for mark in annotations(board):
        if text(mark, "datasource", "uid") != _SOURCE:
            yield f"annotation {mark['name']}"


def panel_title_description(board: Object) -> Iterator[str]:
    """Both, and the description is a sentence."""
    for panel in panels(board):
        if not text(panel, "title") or not text(panel, "description").endswith("."):
            yield f"{panel['id']}: {panel.get('title')!r}, {panel.get('description')!r}"


def panel_units(board: Object) -> Iterator[str]:
    """One of those that Grafana knows."""
    for panel in panels(board):
        if (unit := text(panel, "fieldConfig", "defaults", "unit")) not in _UNITS:
            yield f"{panel['title']}: {unit!r}"


def panel_targets(board: Object) -> Iterator[str]:
    """At least one, each with a name of its own."""
    for panel in panels(board):
        refs = [text(target, "refId") for target in objects(panel["targets"])]
        if not refs or len(set(refs)) != len(refs):
            yield f"{panel['title']}: {refs}"


def target_legends(board: Object) -> Iterator[str]:
    """What is drawn over time says what it is."""
    for panel in panels(board):
        for target in objects(panel["targets"]):
            if panel["type"] == "timeseries" and not text(target, "legendFormat"):
                yield f"{panel['title']}: {target['expr']}"


def target_rate_interval(board: Object) -> Iterator[str]:
    """A rate is over $__rate_interval; a total, over what is shown."""
    for title, expr in queries(board):
        for function, length in _RANGED.findall(expr):
            if (function, length) not in {("rate", "$__rate_interval"), ("increase", "$__range")}:
                yield f"{title}: {function} over {length}"


def target_job_and_instance(board: Object) -> Iterator[str]:
    """Every metric is asked for of the chosen daemons alone."""
    marks = [(text(mark, "name"), text(mark, "expr")) for mark in annotations(board)]
    for title, expr in (*queries(board), *marks):
        for selector in selectors(expr):
            if not {'job=~"$job"', 'instance=~"$instance"'} <= set(selector.matchers.strip("{}").split(",")):
                yield f"{title}: {selector.metric}{selector.matchers}"


def target_counters(board: Object) -> Iterator[str]:
    """What only rises is shown as a rate or as an increase; a histogram, as quantiles."""
    for title, expr in queries(board):
        for selector in selectors(expr):
            if selector.metric.endswith(("_total", "_bucket", "_count", "_sum")):
                before = expr[: expr.index(selector.metric)]
                if not before.endswith(("rate(", "increase(")):
                    yield f"{title}: {selector.metric}"
                if selector.metric.endswith("_bucket") and not expr.startswith("histogram_quantile("):
                    yield f"{title}: {selector.metric} without a quantile"


def uneditable(board: Object) -> Iterator[str]:
    """The Python is what is edited."""
    if board["editable"]:
        yield "it can be edited"


def metrics_exist(board: Object) -> Iterator[str]:
    """Each is on the page, or of the process or the scrape."""
    there = {family.name for family in families.ALL}
    for title, expr in queries(board):
        for selector in selectors(expr):
            name = re.sub(r"_(bucket|sum|count)$", "", selector.metric)
            if name not in there and selector.metric not in there and not name.startswith(_OTHERS):
                yield f"{title}: {selector.metric}"


def layout(board: Object) -> Iterator[str]:
    """No two panels lie on one another, none leaves the page, and each has a number of its own."""
    taken: dict[tuple[int, int], str] = {}
    for panel in objects(board["panels"]):
        x, y, width, height = (at(panel, "gridPos", key) for key in "xywh")
        assert isinstance(x, int)
        assert isinstance(y, int)
        assert isinstance(width, int)
        assert isinstance(height, int)
        title = text(panel, "title")
        if x + width > 24:
            yield f"{title}: beyond the right edge"
        for place in [(x + dx, y + dy) for dx in range(width) for dy in range(height)]:
            if place in taken:
                yield f"{title}: on {taken[place]}"
                break
            taken[place] = title
    ids = [panel["id"] for panel in objects(board["panels"])]
    if len(set(map(str, ids))) != len(ids):
        yield f"ids: {ids}"


def marks(board: Object) -> Iterator[str]:
    """Reloads and restarts are marked on every panel."""
    if {text(mark, "name") for mark in annotations(board) if mark["enable"]} != {"Reloads", "Restarts"}:
        yield "no marks for reloads and restarts"


def links(board: Object) -> Iterator[str]:
    """To the others, by their tag, with the same daemons and time."""
    told = [(each["type"], each["tags"], each["includeVars"], each["keepTime"]) for each in objects(board["links"])]
    if told != [("dashboards", ["governor"], True, True)] or board["tags"] != ["governor"]:
        yield f"{told}, {board['tags']}"


RULES: Final[tuple[Callable[[Object], Iterator[str]], ...]] = (
    template_datasource,
    template_job_and_instance,
    template_queries,
    panel_datasource,
    panel_title_description,
    panel_units,
    panel_targets,
    target_legends,
    target_rate_interval,
    target_job_and_instance,
    target_counters,
    uneditable,
    metrics_exist,
    layout,
    marks,
    links,
)
