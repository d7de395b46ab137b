"""Programs of their own trace by themselves, or do not and pay nothing for it."""

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.client import traced
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, ROOT, Daemon, until
from tests.trace.collector import Collector

YAML: Final = "semaphores: {many: {permits: unlimited}}"
# Of this module: one that traces, and what it sends its spans to.
collector = traced.collector
daemon = traced.daemon


def _said_by(lines: list[str], daemon: Daemon) -> str:
    """What a program of these lines prints, which finds the daemon's address in its arguments."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines), daemon.address],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
        cwd=ROOT,
    ).stdout


def _traces(collector: Collector) -> set[str]:
    """In which they are."""
    return {span.trace_id.hex() for span in list(collector.spans)}


@pytest.mark.parametrize("loads", ["", "import opentelemetry.trace"])
def test_a_program_that_does_not_trace_pays_nothing_for_it(daemon: Daemon, me: Raw, loads: str) -> None:
    """One that has not loaded OpenTelemetry loads nothing of it; one without a provider has no span."""
    lines = [
        "import sys",
        loads,
        "import governor",
        "with governor.Client(sys.argv[1], name='plain') as gov, gov.acquire('many') as lease:",
        "    print(lease.id > 0, lease._held.span, *sorted(m for m in sys.modules if m.startswith('opentelemetry')))",
    ]
    said = _said_by(lines, daemon)
    works, span, *loaded = said.split()

    assert (works, span) == ("True", "None")
    assert bool(loaded) is bool(loads)


@pytest.mark.parametrize(("name", "loaded"), [("", False), ("the default", True)])
def test_the_api_alone_is_not_even_asked(name: str, loaded: bool) -> None:  # noqa: FBT001
    """Some library may have loaded it; but a provider may be named, and is made when the API is first asked for it."""
    lines = [
        "import os, sys",
        f"os.environ.update({{'OTEL_PYTHON_TRACER_PROVIDER': {name!r}}} if {name!r} else {{}})",
        "import opentelemetry.trace",
        "from governor.client import tracing",
        "tracing.asking((('many', 1),))",
        "print('governor.client.spans' in sys.modules)",
    ]
    environ = {key: value for key, value in os.environ.items() if key != "OTEL_PYTHON_TRACER_PROVIDER"}
    said = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=environ, capture_output=True, check=True, text=True
    )

    assert said.stdout == f"{loaded}\n"


def test_a_program_with_a_provider_traces_by_itself(daemon: Daemon, me: Raw, collector: Collector) -> None:
    """Nothing has to be said to the client."""
    lines = [
        "import sys",
        "from opentelemetry import trace",
        "from opentelemetry.sdk.trace import TracerProvider",
        "import governor",
        "trace.set_tracer_provider(TracerProvider())",
        "with trace.get_tracer('x').start_as_current_span('order') as order:",
        "    with governor.Client(sys.argv[1]) as gov, gov.acquire('many'):",
        "        print(trace.format_trace_id(order.get_span_context().trace_id))",
    ]
    said = _said_by(lines, daemon)
    until(lambda: said.strip() in _traces(collector), "the daemon tells of it")


@pytest.mark.parametrize("command", [["run", "many", "--", "sh", "-c", "echo $TRACEPARENT"], ["acquire", "many"]])
def test_a_command_within_a_trace_hands_it_on(
    daemon: Daemon, me: Raw, collector: Collector, command: list[str]
) -> None:
    """To the daemon, and to what it runs."""
    parent = f"00-{len(command):032x}-b7ad6b7169203331-01"
    run = subprocess.run(
        [sys.executable, "-m", "governor.cli", *command[:2], "--address", daemon.address, *command[2:]],
        env={**os.environ, "TRACEPARENT": parent, "TRACESTATE": "a=1"},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
        cwd=ROOT,
    )
    if command[0] == "run":
        assert run.stdout == f"{parent}\n"
    else:
        me.release(int(run.stdout.split()[1]))
    until(lambda: f"{len(command):032x}" in _traces(collector), "the daemon tells of it")
