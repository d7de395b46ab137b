"""The fixture ``governor_daemon``, as whoever installed governor has it: in a pytest run of its own."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

# Strict about everything: the kit must not be what makes another project's run noisy.
_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")


def _run(folder: Path, text: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    done = subprocess.run([*_PYTEST, folder], capture_output=True, text=True, check=False, cwd=folder)
    return done.stdout + done.stderr


def test_the_readme_s_tests_pass(tmp_path: Path) -> None:
    """Word for word, and with nothing but governor and pytest installed."""
    section = (ROOT / "README.md").read_text().partition("\n## Test with it\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)

    assert len(blocks) == 1
    assert re.search(r"^2 passed in", _run(tmp_path, blocks[0]), re.MULTILINE)


def test_each_daemon_ends_with_its_test(tmp_path: Path) -> None:
    """Several at once, also when the test fails; and a config that cannot be used is an error of the test's."""
    said = _run(
        tmp_path,
        """
import threading
import pytest

def test_two(governor_daemon):
    one, two = governor_daemon("{}"), governor_daemon("{}")
    assert one.address != two.address

def test_failing(governor_daemon):
    governor_daemon("{}")
    assert False, "on purpose"

def test_misconfigured(governor_daemon):
    governor_daemon("semaphores: 7")

def test_nothing_is_left():
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
""",
    )

    assert re.search(r"^2 failed, 2 passed in", said, re.MULTILINE), said
    assert "on purpose" in said
    assert "ConfigError: config:1: semaphores" in said
