"""Claims as words."""

import click
import pytest

from governor.cli.claims import parse


@pytest.mark.parametrize(
    ("words", "permits", "claims"),
    [
        (["thumbnails"], None, [("thumbnails", 1)]),
        (["thumbnails"], 3, [("thumbnails", 3)]),
        (["thumbnails=3"], None, [("thumbnails", 3)]),
        (["orders-db=1", "payments-api=20"], None, [("orders-db", 1), ("payments-api", 20)]),
        (["orders-db=2", "payments-api"], 7, [("orders-db", 2), ("payments-api", 7)]),
        (["env=prod"], None, [("env=prod", 1)]),
        (["shard=1=2"], None, [("shard=1", 2)]),
        (["a/b & c=2"], None, [("a/b & c", 2)]),
        (["資源=2"], None, [("資源", 2)]),
        (["=2=3"], None, [("=2", 3)]),
        (["shard=3=1"], 7, [("shard=3", 1)]),
        (["a=2147483647"], None, [("a", 2147483647)]),
    ],
)
def test_a_word_is_a_name_and_perhaps_a_number(
    words: list[str], permits: int | None, claims: list[tuple[str, int]]
) -> None:
    """The last `=` counts, and only with a number behind it."""
    assert parse(words, permits) == claims


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([""], "names no resource"),
        (["=3"], "names no resource"),
        (["a=0"], "from 1 to 2147483647"),
        (["a=2147483648"], "from 1 to 2147483647"),
        (["a=-1"], "from 1 to 2147483647"),
        ([f"a={2**63}"], "from 1 to 2147483647"),
        (["a=" + "9" * 10_000], "from 1 to 2147483647"),
        (["a", "b", "a=2"], "named twice"),
        (["\udcff"], "not valid UTF-8"),
    ],
)
def test_a_word_that_can_be_no_claim_is_refused(words: list[str], complaint: str) -> None:
    """The sentence names the word and what would be right."""
    with pytest.raises(click.UsageError, match=complaint):
        parse(words, None)
