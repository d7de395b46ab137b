"""What a mistaken file is told, word by word. The transcripts in `mistakes/` are the messages that people read.

A transcript has a title, the YAML, two dashes, and every complaint in full.
"""

from pathlib import Path

import pytest
import yaml
from _pytest.mark import ParameterSet

from governor.config import document
from tests.config.reading import ENVIRON, complaints

FOLDER = Path(__file__).parent / "mistakes"


def transcripts() -> list[ParameterSet]:
    """Every case of every file."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        for part in path.read_text(encoding="utf-8").split("== ")[1:]:
            title, _, rest = part.partition("\n")
            text, _, told = rest.partition("\n--\n")
            found.append(pytest.param(f"{text}\n", told.strip().split("\n"), id=f"{path.stem}: {title}"))
    return found


@pytest.mark.parametrize("reader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(("text", "told"), transcripts())
def test_every_mistake_is_told_at_once_and_in_full(
    text: str, told: list[str], reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same words from libyaml and from PyYAML's own reader, in the order of the lines."""
    monkeypatch.setattr(document, "READER", getattr(yaml, reader))
    environ = {**ENVIRON, "FLOW": "1, lease: 3s}", "SPAN": "5 seconds", "FAST": "1.5/s"}

    assert complaints(text, environ) == told
    assert "hunter2" not in str(told)


@pytest.mark.parametrize(
    "word", ["Input should", "pydantic", "validation error", "NoneType", "dict", "str ", "int ", "scalar", "node"]
)
def test_no_message_is_in_the_words_of_a_library(word: str) -> None:
    """Whoever reads these has never seen the code."""
    for path in FOLDER.glob("*.txt"):
        for part in path.read_text(encoding="utf-8").split("== ")[1:]:
            assert word not in part.partition("\n--\n")[2]
