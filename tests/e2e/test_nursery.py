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


def forked(*command: str, **environment: str) -> tuple[int, str, str]:
    """How it ends, and what it says."""
    run = NURSERY.run(command, BOUND, environ={**os.environ, **environment})
    return run.returncode, run.stdout, run.stderr


def started(*command: str, **environment: str) -> tuple[int, str, str]:
    """The same of a process of its own."""
    run = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **environment},
        text=True,
        timeout=BOUND,
        check=False,
        cwd=ROOT,
    )
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize(
    "arguments", [("version",), ("serve", "one.yaml"), ("serve", "--config", "/nowhere"), ("serve", "--state", "é")]
)
def test_it_ends_and_speaks_as_one_that_was_started(arguments: tuple[str, ...]) -> None:
    """Exit code, output and standard error, also where an environment variable is what is wrong."""
    command = (sys.executable, "-m", "governor.cli", *arguments)
    code, out, said = forked(*command, GOVERNOR_LOG_FORMAT="xml")

    assert (code, out, said) == started(*command, GOVERNOR_LOG_FORMAT="xml")
    assert "xml" in said or (out and not code)


def test_it_has_the_descriptors_and_signals_of_one_that_was_started() -> None:
    """None of those by which others are reported of; and Ctrl-C is what it is anywhere."""
    look = (
        "import os, signal, sys; print(sorted(os.listdir('/proc/self/fd')), os.getcwd(), signal.set_wakeup_fd(-1), "
        "*(signal.getsignal(n) for n in signal.valid_signals()), signal.pthread_sigmask(0, ()), file=sys.stderr)"
    )
    ended = forked(*RUN, look)

    assert ended[::2] == started(*RUN, look)[::2]
    assert "default_int_handler" in ended[2]


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
