"""Keys of the daemon itself: what is said of when they take effect."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from governor.config import Config
from governor.config.settings import AT_ONCE

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("README.md", r"\n- (.*) take effect at once; the daemon's other keys"),
        ("DESIGN.md", r"\n- Keys of the daemon itself: (.*) hold from the reload on, all others from the next start"),
    ],
)
def test_each_key_that_takes_effect_at_once_is_said(page: str, sentence: str) -> None:
    """Those and no others, wherever it is said of all."""
    found = re.search(sentence, (ROOT / page).read_text(encoding="utf-8"))

    assert found is not None
    assert set(re.findall(r"`(\w+)`", found[1])) == AT_ONCE


def test_keys_that_take_effect_at_once_are_keys() -> None:
    """Under these names."""
    assert {field.name for field in fields(Config)} >= AT_ONCE
