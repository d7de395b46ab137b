"""What tests do without a program that they need."""

import ast
from pathlib import Path

import pytest

from tests.programs import PROGRAMS, needed

ROOT = Path(__file__).parent


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_missing_program_fails_its_test(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(pytest.fail.Exception, match=f"needs `{name}` on PATH: .*install"):
        needed(name)


def test_no_test_is_skipped() -> None:
    """A check that did not run would look like one that found nothing."""
    found = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"skip", "skipif", "importorskip"}
    }

    assert found == set()
