"""The table of exit codes."""

import grpc
import pytest

from governor.cli.exits import BY_REASON, BY_STATUS, MEANING, Exit
from governor.core.types import Reason


def test_every_grpc_status_has_an_exit_code() -> None:
    """A daemon cannot answer with a status that the table does not know."""
    assert {status.name for status in grpc.StatusCode} == set(BY_STATUS)


def test_every_exit_code_is_explained() -> None:
    """The help page says what each code means, in a line that fits 80 columns."""
    assert set(Exit) == set(MEANING)
    assert max(len(meaning) for meaning in MEANING.values()) <= 72


def test_reasons_of_the_table_are_reasons_of_the_daemon() -> None:
    """A reason that was renamed in the core cannot linger here."""
    assert set(BY_REASON) <= {reason.name for reason in Reason}


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (Exit.OK, 0),
        (Exit.USAGE, 2),
        (Exit.CANNOT_REACH, 3),
        (Exit.DENIED, 4),
        (Exit.CANNOT_START, 71),
        (Exit.TRY_LATER, 75),
        (Exit.BAD_CONFIG, 78),
        (Exit.LEASE_LOST, 79),
        (Exit.TIMED_OUT, 124),
        (Exit.CANNOT_RUN, 126),
        (Exit.NOT_FOUND, 127),
        (Exit.INTERRUPTED, 130),
    ],
)
def test_scripts_rely_on_these_numbers(code: Exit, number: int) -> None:
    """Whoever changes one breaks scripts."""
    assert code == number
