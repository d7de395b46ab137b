"""The dashboards: committed as they are written, and by the rules."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Final

import pytest
import yaml

from deploy.monitoring.dashboards.__main__ import main, stale
from tests.monitoring import lint
from tests.monitoring.boards import FILES, Json, Object, at, boards, objects, panels, text, variables
from tests.monitoring.rules import MONITORING

BOARDS: Final = {text(board, "uid"): board for board in boards()}


def test_the_committed_files_are_what_the_python_says() -> None:
    """If not: make dashboards."""
    assert stale() == []
    assert main(["--check"]) == 0


def test_there_are_four_and_each_is_in_the_file_of_its_name() -> None:
    """All resources, one resource, one client, the daemon itself."""
    assert {path.stem for path in FILES} == set(BOARDS)
    assert set(BOARDS) == {"governor-overview", "governor-resource", "governor-client", "governor-daemon"}


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("uid", BOARDS)
def test_each_rule_holds(uid: str, rule: Callable[[Object], Iterator[str]]) -> None:
    """In every panel."""
    assert list(rule(BOARDS[uid])) == []


def _first(board: Object) -> Object:
    return next(panel for panel in panels(board) if panel["type"] == "timeseries")


def _target(board: Object) -> Object:
    return objects(_first(board)["targets"])[0]


FAULTS: Final[dict[str, Callable[[Object], object]]] = {
    "template_datasource": lambda board: variables(board)["datasource"].update(name="prom"),
    "template_job_and_instance": lambda board: variables(board)["job"].update(multi=False),
    "template_queries": lambda board: variables(board)["job"].update(refresh=1),
    "panel_datasource": lambda board: _target(board).update(datasource={"type": "prometheus", "uid": "abc"}),
    "panel_title_description": lambda board: _first(board).update(description=""),
    "panel_units": lambda board: _first(board).update(fieldConfig={"defaults": {"unit": "apples"}}),
    "panel_targets": lambda board: _first(board).update(targets=[]),
    "target_legends": lambda board: _target(board).update(legendFormat=""),
    "target_rate_interval": lambda board: _target(board).update(expr="rate(governor_acquires_total[5m])"),
    "target_job_and_instance": lambda board: _target(board).update(expr='sum(governor_leases{job=~"$job"})'),
    "target_counters": lambda board: _target(board).update(expr="sum(governor_acquires_total{})"),
    "uneditable": lambda board: board.update(editable=True),
    "metrics_exist": lambda board: _target(board).update(expr="governor_lease{}"),
    "layout": lambda board: _first(board).update(gridPos={"x": 0, "y": 0, "w": 24, "h": 8}),
    "marks": lambda board: board.update(annotations={"list": []}),
    "links": lambda board: board.update(links=[]),
}


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_each_rule_finds_what_is_against_it(rule: Callable[[Object], Iterator[str]]) -> None:
    """A rule that finds nothing would hold for everything."""
    board = deepcopy(BOARDS["governor-resource"])
    FAULTS[rule.__name__](board)

    assert list(rule(board))


def test_links_from_panels_lead_to_dashboards_that_there_are() -> None:
    """... and give them the variable that they are about."""
    found = {link for board in BOARDS.values() for link in re.findall(r"/d/([\w-]+)\?var-(\w+)=", json.dumps(board))}

    assert found == {("governor-resource", "resource"), ("governor-client", "client")}
    assert all(variable in variables(BOARDS[uid]) for uid, variable in found)


def test_numbers_are_coloured_by_thresholds() -> None:
    """What a number means is seen before it is read."""
    for board in BOARDS.values():
        for panel in panels(board):
            steps = at(panel, "fieldConfig", "defaults", "thresholds", "steps")
            assert panel["type"] != "stat" or steps, panel["title"]


def test_provisioning_finds_them() -> None:
    """What Grafana is told at its start names the folder with the dashboards, and a Prometheus."""
    provisioning = MONITORING / "grafana" / "provisioning"
    source: Json = _yaml(provisioning / "datasources" / "prometheus.yaml")
    provider: Json = _yaml(provisioning / "dashboards" / "governor.yaml")

    assert [(each["type"], each["url"]) for each in objects(at(source, "datasources"))] == [
        ("prometheus", "$PROMETHEUS_URL")
    ]
    assert [at(each, "options", "path") for each in objects(at(provider, "providers"))] == ["$GOVERNOR_DASHBOARDS"]


def _yaml(path: Path) -> Json:
    loaded: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded
