"""What every test may ask for. Fixtures of one area live in that area's own conftest."""

import os
from collections.abc import Callable, Iterator

import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.programs import needed

# No deadline: a slow machine is not a bug. In CI always the same examples: a red build is about the change.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# `make test-long`: every property, and above all the state machine of the engine, for minutes instead of seconds.
hypothesis.settings.register_profile("long", deadline=None, max_examples=3000, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers what only this project's tests know."""
    parser.addoption(
        "--rewrite-transcripts",
        action="store_true",
        help="write today's answers of the engine into tests/core/transcripts (then review them line by line)",
    )


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Finds an outside program, or fails the test with the way to get it."""
    return needed


@pytest.fixture
def never_blocks() -> Iterator[BlockBuster]:
    """Fails a test in which governor's own code blocks the event loop: one such call stalls every lease."""
    with blockbuster_ctx(scanned_modules="governor") as watch:
        yield watch
