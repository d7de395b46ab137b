"""Variables are filled into values, as data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.config.variables import VariableError, Variables, is_only_variable


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("", ""),
        ("$A", "$A"),
        ("$$A", "$$A"),
        ("{A}", "{A}"),
        ("${A}", "1"),
        ("x${A}y${B_2}z", "x1y${A}z"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("${A}${A}", "11"),
    ],
)
def test_only_what_is_written_so_is_replaced(text: str, filled: str) -> None:
    """And what was put in is not looked at again."""
    assert Variables({"A": "1", "B_2": "${A}"}).fill(text, ()) == filled


@pytest.mark.parametrize("text", ["${", "${}", "${1}", "${A", "${A-b}", "${A:-b}", "${ A }", "${A}${", "${Ä}"])
def test_what_looks_like_a_variable_and_is_none_is_a_mistake(text: str) -> None:
    """Half a variable is a slip, not text."""
    with pytest.raises(VariableError, match=r"a variable is written \$\{NAME\}"):
        Variables({"A": "1"}).fill(text, ())


def test_a_variable_that_is_not_set_is_named() -> None:
    """A typo shows, and no value does."""
    with pytest.raises(VariableError, match=r"^the environment variable TOKEN is not set$"):
        Variables({"A": "1"}).fill("${A}${TOKEN}", ())


@given(st.text(alphabet=st.characters(exclude_characters="$", codec="utf-8")), st.text(alphabet="${}A"))
def test_a_value_is_never_read_as_anything_else(before: str, value: str) -> None:
    """Whatever it holds comes out as it was."""
    assert Variables({"X": value}).fill(f"{before}${{X}}", ()) == before + value


@pytest.mark.parametrize(
    ("text", "only"), [("${A}", True), ("$${", False), ("${A} ", False), ("x", False), ("${", False)]
)
def test_a_lone_variable_is_known(text: str, only: bool) -> None:  # noqa: FBT001 - a column of the table
    """It is what may stand for a number."""
    assert is_only_variable(text) is only
