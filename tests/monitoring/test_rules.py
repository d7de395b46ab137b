"""Rules and alerts, judged by promtool."""

import importlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from governor.cli.commands import COMMANDS
from governor.metrics import families
from tests.monitoring.rules import FILES, MONITORING, Rule, alerts, records, rules
from tests.monitoring.scenarios import HEALTHY, SCENARIOS, Scenario

RUNBOOK: Final = (MONITORING / "RUNBOOK.md").read_text(encoding="utf-8")
_NAME: Final = re.compile(r"\b(?:\w+:)?governor_\w+(?::\w+)?")


def test_promtool_accepts_every_file(program: Callable[[str], str]) -> None:
    """Expressions, templates and names."""
    check = subprocess.run(
        [program("promtool"), "check", "rules", "--lint-fatal", *map(str, FILES)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert check.returncode == 0, check.stdout + check.stderr


def test_alerts_fire_when_they_should_and_are_silent_when_not(program: Callable[[str], str], tmp_path: Path) -> None:
    """In each story, at each minute that it names, exactly the alerts that it names."""
    file = tmp_path / "stories.yaml"
    stories = {"rule_files": [str(path) for path in FILES], "tests": [_test(scenario) for scenario in SCENARIOS]}
    file.write_text(yaml.safe_dump(stories), encoding="utf-8")
    run = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, timeout=120, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_what_is_told_is_filled_in(program: Callable[[str], str]) -> None:
    """Labels and values stand in the words of every alert that has them; written out for some."""
    file = Path(__file__).with_name("words.test.yaml")
    run = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_every_alert_fires_in_some_story() -> None:
    """... but for the one that fires when there is nothing at all, which is in the file of words."""
    told = {alert.split("{")[0] for scenario in SCENARIOS for minute in scenario.fires.values() for alert in minute}

    assert told | {"GovernorAbsent"} == {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule.get("record"))
def test_rules_ask_for_metrics_that_there_are(rule: Rule) -> None:
    """Each is on the daemon's page, or recorded by another rule."""
    parts = {family.name: ("", "_bucket", "_sum", "_count") for family in families.ALL}
    there = {name + part for name, suffixes in parts.items() for part in suffixes}
    there |= {record["record"] for record in records()}

    assert set(_NAME.findall(rule["expr"])) <= there


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
class TestAlerts:
    """What every alert has."""

    def test_it_says_how_bad_and_what_and_for_how_long(self, rule: Rule) -> None:
        """Two severities; a line that names what is wrong, and sentences that say what it means."""
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["labels"] == {"severity": rule["labels"]["severity"]}
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert not rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith(".")
        assert rule["alert"].startswith("Governor")

    def test_its_runbook_has_a_section(self, rule: Rule) -> None:
        """At the anchor that the URL points to, with something to look at and something to do."""
        path, anchor = rule["annotations"]["runbook_url"].split("#")
        page = (MONITORING.parents[1] / path).read_text(encoding="utf-8")
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
        by_anchor = {title.lower(): text for title, text in sections.items()}

        assert anchor == rule["alert"].lower()
        assert "**Look.**" in by_anchor[anchor]
        assert "**Do.**" in by_anchor[anchor]


def test_the_runbook_has_no_section_without_an_alert() -> None:
    """Nor a link to one that is not there."""
    titles = set(re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE))

    assert titles == {rule["alert"] for rule in alerts()}
    assert {link.lower() for link in re.findall(r"\(#(\w+)\)", RUNBOOK)} <= {title.lower() for title in titles}


@pytest.mark.parametrize("told", sorted(set(re.findall(r"`governor ([^`]+)`", RUNBOOK))))
def test_the_runbook_tells_of_commands_that_there_are(told: str) -> None:
    """With arguments and options that they take."""
    name, *arguments = told.replace("ID", "17").split()
    place, _, attribute = COMMANDS[name].place.partition(":")
    command = getattr(importlib.import_module(f"governor.cli.{place}"), attribute)

    assert command.make_context(name, arguments).args == []


def _test(scenario: Scenario) -> dict[str, object]:
    """As promtool takes it: alerts that fire are series of Prometheus's own."""
    series = [{"series": name, "values": values} for name, values in (HEALTHY | dict(scenario.series)).items()]
    return {
        "name": scenario.name,
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": 'count without (severity, alertstate) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": _labels(alert), "value": 1} for alert in fires],
            }
            for minute, fires in scenario.fires.items()
        ],
    }


def _labels(alert: str) -> str:
    name, labels = alert[:-1].split("{")
    return f'{{alertname="{name}",{labels}}}'
