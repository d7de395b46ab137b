"""What pytest finds when governor is installed: the fixture ``governor_daemon``.

It knows pytest. It must never import the daemon before a test asks for one: pytest imports this in every run.
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governor.testing import StartDaemon


@pytest.fixture
def governor_daemon() -> "Iterator[StartDaemon]":
    """Starts daemons for one test, each with a clock that stands still until the test moves it.

    Called with what `governor.testing.Daemon` takes, it gives the running daemon; each ends with the test.

    Example:
        def test_only_one_at_a_time(governor_daemon):
            daemon = governor_daemon({"semaphores": {"thumbnails": {"permits": 1}}})
            gov = governor.Client(daemon.address)
            with gov.acquire("thumbnails"):
                assert gov.try_acquire("thumbnails") is None
    """
    from governor.testing import Daemon  # noqa: PLC0415 - see above

    with ExitStack() as running:
        yield lambda config: running.enter_context(Daemon(config))
