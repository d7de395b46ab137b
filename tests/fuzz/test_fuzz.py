"""A short form of what `make fuzz` does at length, and proof that it proves something.

The seed is another one each time, but under CI always the same. When it fails it says which, and what was sent is in
``build/fuzz``.
"""

import os
import random
import sys

import pytest

from governor.config import ConfigError
from tests.config.test_fuzz import read
from tests.fuzz import files
from tests.fuzz.campaign import KEPT, run
from tests.fuzz.surface import METHODS

SEED = 1 if os.environ.get("CI") else random.randrange(10**6)


@pytest.mark.parametrize("guarded", [False, True], ids=["open", "guarded"])
def test_no_call_is_a_fault_or_harms_anybody(guarded: bool) -> None:  # noqa: FBT001
    """Any method, any message, any order, any headers; a client beside it keeps what it holds."""
    outcome = run(SEED, 2_500, guarded=guarded)
    told = "\n".join([problem[:1000] for problem in outcome.problems[:5]])
    assert not outcome.problems, f"seed {SEED}, kept in {outcome.kept}:\n{told}"

    assert outcome.messages >= 2_500
    assert outcome.pairs > 0
    assert outcome.by_method.keys() >= {method.path for method in METHODS}
    # Some were answered well, some were malformed, and some came too late, or to nothing.
    assert outcome.statuses.keys() >= {0, 3, 5, 9}


def test_a_daemon_with_a_fault_is_found_out() -> None:
    """The proof proves something: by a status, and by the log."""
    outcome = run(1, 2_500, guarded=False, keep=False, command=(sys.executable, "-m", "tests.fuzz.faulty"))

    told = "\n".join(outcome.problems)
    assert "was answered INTERNAL: governor: a fault of its own" in told
    assert "the log has" in told


def test_any_file_is_a_config_or_refused_in_our_own_words() -> None:
    """Also those that are made to take long, or much memory."""
    outcome = files.run(SEED, 250, KEPT / "files")

    assert not outcome.problems, f"seed {SEED}, kept in {KEPT / 'files'}:\n" + "\n".join(outcome.problems[:5])
    assert outcome.legal > 0


@pytest.mark.parametrize("bomb", files.BOMBS, ids=lambda bomb: bomb.__name__.strip("_"))
def test_a_file_that_is_a_bomb_is_refused(bomb: files.Bomb) -> None:
    """Each in its worst forms; a file as large as one may be and all comment is empty, which is a mistake, too."""
    for seed in range(3):
        read(bomb(random.Random(seed)).encode())


def test_a_huge_value_is_refused_as_soon_as_a_large_one() -> None:
    """Nobody looks for a secret in what is never shown: half a megabyte of one letter took minutes."""
    for letter in "A9_":
        assert isinstance(read(f'semaphores: {{a: {{permits: "{letter * 500_000}"}}}}'.encode()), ConfigError)
