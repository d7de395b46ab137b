"""Every query of every dashboard, and every rule, asked of a real Prometheus that watches a real daemon under load."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from deploy.monitoring.together import Places, Together, TogetherError, Veil
from governor.metrics import families
from tests.certificates import Authority
from tests.monitoring.boards import (
    Json,
    annotations,
    at,
    boards,
    filled,
    objects,
    queries,
    text,
    variables,
)
from tests.monitoring.prometheus import data
from tests.monitoring.rules import alerts, records
from tests.ports import own_addresses

# What is shown, and what a rate is over; scrapes come twice a second.
_INTERVAL: Final = "500ms"
_GRAFANA: Final = {"__rate_interval": "5s", "__range": "1m", "job": ".+", "instance": ".+"}
# For what is waited for; what is right takes about half of it.
_BOUND_S: Final = 120.0


class Prometheus:
    """A Prometheus to ask."""

    def __init__(self, together: Together, address: str) -> None:
        self.together = together
        self.address = address

    def data(self, path: str, **parameters: str) -> Json:
        """What it answers."""
        return data(self.address, path, **parameters)

    def shows(self, expr: str) -> bool:
        """Whether a query has any number in its answer; one that is no PromQL raises."""
        values = [at(sample, "value") for sample in objects(at(self.data("query", query=expr), "result"))]
        return any(isinstance(value, list) and not math.isnan(float(str(value[1]))) for value in values)

    def values(self, label: str, metric: str) -> list[str]:
        """All that a label has been on a metric."""
        found = self.data(f"label/{label}/values", **{"match[]": metric})
        assert isinstance(found, list)
        return [str(value) for value in found]


@pytest.fixture(scope="module")
def prometheus(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes over TLS, has seen a reload and a restart, and the load goes on."""
    program("prometheus")
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    pair = authority.certify("daemon", "127.0.0.1")
    veil = Veil(pair.cert, pair.key, authority.cert)
    with ExitStack() as stack:
        grpc, http, prometheus = stack.enter_context(own_addresses(3))
        places = Places(tmp_path_factory.mktemp("monitoring"), grpc, http, prometheus, _INTERVAL, veil)
        together = stack.enter_context(Together(places))
        found = Prometheus(together, places.prometheus)
        _until(lambda: found.shows("governor_build_info"), "the daemon is scraped")
        _until(lambda: found.shows("rate(governor_acquires_total[5s]) > 0"), "it has work")
        together.running["daemon"].send_signal(signal.SIGHUP)
        _until(
            lambda: found.shows("changes(governor_config_last_reload_success_timestamp_seconds[2m]) > 0"), "reloaded"
        )
        together.restart_daemon()
        yield found
        together.check()


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """Where one more may listen, for as long as the first one does."""
    with own_addresses(1) as (address,):
        yield address


def test_every_panel_shows_something(prometheus: Prometheus) -> None:
    """Each query of each is in order and has data, for some resource or client that can be chosen."""
    asked = [
        (f"{board['title']}: {title}", expr, choice)
        for board in boards()
        for title, expr in queries(board)
        for choice in [set(variables(board)) & {"resource", "client"}]
    ]
    assert len(asked) > 80
    lacking = asked

    def all_shown() -> bool:
        nonlocal lacking
        lacking = [(title, expr, choice) for title, expr, choice in lacking if not _shown(prometheus, expr, choice)]
        return not lacking

    _until(all_shown, lambda: "\n".join(["every panel shows something; not:", *(f"{t}: {e}" for t, e, _ in lacking)]))


def test_reloads_and_restarts_are_marked(prometheus: Prometheus) -> None:
    """On every dashboard."""
    for board in boards():
        for mark in annotations(board):
            marked = partial(prometheus.shows, filled(text(mark, "expr"), _GRAFANA))
            _until(marked, f"{board['title']} marks {mark['name']}")


def test_what_can_be_chosen_is_what_there_is(prometheus: Prometheus) -> None:
    """The queries of variables, as Grafana puts them."""

    def choices() -> dict[str, set[str]]:
        seen = {}
        for board in boards():
            for name, variable in variables(board).items():
                if variable["type"] == "query":
                    inside = text(variable, "query").removeprefix("label_values(").removesuffix(f", {name})")
                    seen[name] = set(prometheus.values(name, filled(inside, _GRAFANA)))
        return seen

    there = {
        "job": {"governor"},
        "instance": {prometheus.together.places.http},
        "resource": {"thumbnails", "nightly-report", "orders-db", "payments-api"},
        "client": {"web", "batch", "payments", "leaky", "impatient"},
    }
    _until(lambda: choices() == there, lambda: f"this can be chosen: {there}; it was {choices()}")


def test_every_rule_is_in_order_and_records_something(prometheus: Prometheus) -> None:
    """As Prometheus itself evaluates them; no alert is in error."""

    def healthy() -> dict[str, str]:
        groups = objects(at(prometheus.data("rules"), "groups"))
        return {text(rule, "name"): text(rule, "health") for group in groups for rule in objects(group["rules"])}

    names = [rule["alert"] for rule in alerts()] + [rule["record"] for rule in records()]
    _until(lambda: healthy() == dict.fromkeys(names, "ok"), lambda: f"all rules are in order: {healthy()}")
    for rule in records():
        _until(partial(prometheus.shows, rule["record"]), f"{rule['record']} has data")


def test_the_sample_load_leaks_and_is_seen(prometheus: Prometheus) -> None:
    """The alert about it waits for its five minutes; its expression is true."""
    (leak,) = [rule for rule in alerts() if rule["alert"] == "GovernorLeaseExpiries"]
    _until(lambda: prometheus.shows(leak["expr"]), "the leak is seen")

    found = objects(at(prometheus.data("query", query=leak["expr"]), "result"))
    assert [at(sample, "metric", "client") for sample in found] == ["leaky"]


def test_a_scraper_that_wants_native_histograms_gets_them(prometheus: Prometheus, other: str) -> None:
    """Quantiles of every histogram that has anything in it, without a bucket in the query; and all else as well."""
    prometheus.together.start_prometheus("native", other, enable_feature="native-histograms")
    native = Prometheus(prometheus.together, other)
    for family in families.ALL:
        if family.type == "histogram":
            quantile = f"histogram_quantile(0.9, sum(rate({family.name}[5s])))"
            _until(partial(native.shows, quantile), f"there are native buckets of {family.name}")
            assert not native.shows(f"{family.name}_bucket"), "it keeps one kind of them"
        else:
            _until(partial(native.shows, family.name), f"{family.name} is there")
    _until(partial(native.shows, "rate(process_cpu_seconds_total[5s])"), "the process is there")
    assert native.shows("python_info")
    for name in ("hold_seconds", "acquire_wait_seconds"):
        exact = f"sum(governor_{name}_count)"
        _until(partial(prometheus.shows, exact), "the other one has them as before")


def _shown(prometheus: Prometheus, expr: str, choice: set[str]) -> bool:
    metric = {"resource": "governor_permits_limit", "client": "governor_client_leases"}
    for name in choice:
        return any(
            prometheus.shows(filled(expr, {**_GRAFANA, name: value})) for value in prometheus.values(name, metric[name])
        )
    return prometheus.shows(filled(expr, _GRAFANA))


def _until(condition: Callable[[], bool], what: str | Callable[[], str]) -> None:
    end = time.monotonic() + _BOUND_S
    while not condition():
        assert time.monotonic() < end, f"it never came to pass that {what if isinstance(what, str) else what()}"
        time.sleep(0.2)


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    """In the words of its own log, and nothing is left running."""
    (tmp_path / "state").write_text("where the folder of the state should be")
    with (
        own_addresses(3) as (grpc, http, prometheus),
        pytest.raises(TogetherError, match=r"the daemon has ended with 71; [\s\S]*state folder .*: cannot be made"),
        (together := Together(Places(tmp_path, grpc, http, prometheus))),
    ):
        pass

    assert together.running == {}
