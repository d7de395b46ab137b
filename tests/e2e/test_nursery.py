"""What is forked is as it would be had it been started."""

import os
import signal
import subprocess
import sys

import pytest

from tests.e2e.nursery import NURSERY, ROOT
from tests.e2e.process import BOUND

# A module that runs what it is told.
RUN = (sys.executable, "-m", "timeit", "-n1", "-r1")


def forked(*command: str, **environment: str) -> tuple[int, str]:
    """How it ends, and what it says to standard error."""
    told, tells = os.pipe()
    process = NURSERY.begin(command, tells, environ={**os.environ, **environment})
    os.close(tells)
    with os.fdopen(told, encoding="utf-8") as said:
        whole = said.read()
    return process.wait(BOUND), whole


def started(*command: str, **environment: str) -> tuple[int, str]:
    """The same of a process of its own."""
    run = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        text=True,
        timeout=BOUND,
        check=False,
        cwd=ROOT,
    )
    return run.returncode, run.stderr


@pytest.mark.parametrize(
    "arguments", [("version",), ("serve", "one.yaml"), ("serve", "--config", "/nowhere"), ("serve", "--state", "é")]
)
def test_it_ends_and_speaks_as_one_that_was_started(arguments: tuple[str, ...]) -> None:
    """Exit code and standard error, also where an environment variable is what is wrong."""
    command = (sys.executable, "-m", "governor.cli", *arguments)
    code, said = forked(*command, GOVERNOR_LOG_FORMAT="xml")

    assert (code, said) == started(*command, GOVERNOR_LOG_FORMAT="xml")
    assert "xml" in said or not code


def test_it_has_the_descriptors_and_signals_of_one_that_was_started() -> None:
    """None of those by which others are reported of; and Ctrl-C is what it is anywhere."""
    look = (
        "import os, signal, sys; print(sorted(os.listdir('/proc/self/fd')), os.getcwd(), signal.set_wakeup_fd(-1), "
        "*(signal.getsignal(n) for n in signal.valid_signals()), signal.pthread_sigmask(0, ()), file=sys.stderr)"
    )
    code, seen = forked(*RUN, look)

    assert (code, seen) == started(*RUN, look)
    assert "default_int_handler" in seen


def test_a_signal_that_ends_it_is_told() -> None:
    """As subprocess does."""
    told, tells = os.pipe()
    process = NURSERY.begin((*RUN, "import sys, time; print(file=sys.stderr, flush=True); time.sleep(600)"), tells)
    os.close(tells)
    with os.fdopen(told, encoding="utf-8") as said:
        said.readline()
        assert process.poll() is None
        process.kill()

        assert process.wait(BOUND) == -signal.SIGKILL
    assert process.poll() == -signal.SIGKILL
    process.send_signal(signal.SIGTERM)
