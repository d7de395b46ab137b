"""Names that are empty, as of a shell variable that is not set."""

import pytest

from tests.cli.conftest import Fake, Run

# Whatever would mean all without its name.
COMMANDS = (
    ("revoke", "--client", ""),
    ("revoke", "--session", ""),
    ("recycle", "db", ""),
    ("quarantine", "db", ""),
    ("restore", "db", ""),
    ("pause", ""),
    ("drain", ""),
    ("resume", ""),
    ("set", "", "permits=1", "--for", "1m"),
    ("set", "", "--default"),
    ("resource", ""),
    ("status", ""),
    ("leases", ""),
    ("leases", "--client", ""),
    ("leases", "--session", ""),
    ("waiters", ""),
    ("waiters", "--client", ""),
    ("waiters", "--session", ""),
    ("sessions", "--client", ""),
    ("watch", ""),
    ("watch", "--client", ""),
    ("watch", "--what", ""),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_empty_name_names_nothing(run: Run, fake: Fake, command: tuple[str, ...]) -> None:
    """Not all, nor whatever the daemon makes of it: it is a mistake, and nobody is asked anything."""
    ended = run(*command, "--address", fake.address)

    assert ended.exit == 2
    assert "it is empty, which names nothing" in ended.err
    assert fake.desk.asked == fake.script.asked == []
