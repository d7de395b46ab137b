"""What every test may ask for. Fixtures of one area live in that area's own conftest."""

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.programs import needed

_HERE: Final = Path(__file__).parent

# No deadline: a slow machine is not a bug. In CI always the same examples: a red build is about the change.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# `make test-long`: every property, and above all the state machine of the engine, for minutes instead of seconds.
hypothesis.settings.register_profile("long", deadline=None, max_examples=3000, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


# Whoever was started in the background of a shell has these ignored, and so would have all that the tests start.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)


# What whoever starts the tests has said to programs in general, all that the tests start would hear as well. Python's
# buffers are as users have them: what is lost with them must be lost here.
_SAID: Final = {"PYTHONUNBUFFERED", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"}
for _name in list(os.environ):
    if _name in _SAID or _name.startswith(("GOVERNOR_", "OTEL_")):
        del os.environ[_name]
# Whoever reads a time of day here reads that of one place.
os.environ["TZ"] = "UTC"
time.tzset()
# Where there is a proxy, it leads away from here.
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, [os.environ.get(_name), "localhost", "127.0.0.1", "::1"]))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers what only this project's tests know."""
    parser.addoption(
        "--rewrite-transcripts",
        action="store_true",
        help="write today's answers of the engine into tests/core/transcripts (then review them line by line)",
    )


# What takes long, in files or folders: else one worker would be at it when the others have nothing left to do.
_LONG: Final = (
    "faults",
    "reloads",
    "deploy",
    "monitoring",
    "simulate",
    "cli",
    "e2e/test_restart.py",
    "client/test_lives.py",
)


_COMPUTES_S: Final = 1500


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what takes long; the order stays as it is otherwise.

    What computes all the time has longer than others until it is taken to hang: a machine may be twenty times slower.
    """
    if hypothesis.settings.get_current_profile_name() != "long":
        for item in items:
            if item.name == "runTest":  # a state machine of Hypothesis
                item.add_marker(pytest.mark.timeout(_COMPUTES_S))
    long = [_HERE / name for name in _LONG]
    late = {path: not any(path.is_relative_to(each) for each in long) for path in {item.path for item in items}}
    items.sort(key=lambda item: late[item.path])


def pytest_collection_finish() -> None:
    """All tests live to the end, at which pytest looks five times, in every worker, for what was left behind."""
    gc.freeze()


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Finds an outside program, or fails the test with the way to get it."""
    return needed


@pytest.fixture
def never_blocks() -> Iterator[BlockBuster]:
    """Fails a test in which governor's own code blocks the event loop: one such call stalls every lease."""
    with blockbuster_ctx(scanned_modules="governor") as watch:
        yield watch
