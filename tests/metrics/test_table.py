"""The table of the README, the page and the code name the same metrics, with the same labels and meaning."""

import re
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from governor.metrics import families
from governor.metrics.text import Family
from tests.metrics.reading import text
from tests.metrics.test_page import busy

README: Final = Path(__file__).parents[2] / "README.md"
_ROW: Final = re.compile(r"^\| `(governor_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", re.MULTILINE)
# Of a histogram's bucket, beside those of its family.
_BUCKET: Final = {"le"}


def row(family: Family) -> tuple[str, str, str, str]:
    """Its row in the table, in the order of the columns."""
    return family.name, family.type, ", ".join(f"`{label}`" for label in family.labels), family.help


def test_the_readme_has_a_row_for_each_family_in_the_order_of_the_code() -> None:
    """Name, type, labels and meaning, word for word."""
    assert _ROW.findall(README.read_text(encoding="utf-8")) == [row(family) for family in families.ALL]


@pytest.mark.parametrize("family", families.ALL, ids=lambda family: family.name)
def test_the_page_has_each_family_with_the_labels_that_it_says(family: Family) -> None:
    """On a page with a past, each has a sample, and each sample has these labels and no others."""
    shown = {
        sample.name: set(sample.labels) - _BUCKET
        for each in text_string_to_metric_families(text(busy()))
        for sample in each.samples
        if sample.name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") == family.name
    }

    assert shown
    assert set(map(frozenset, shown.values())) == {frozenset(family.labels)}


def test_the_page_has_nothing_else() -> None:
    """But for what every Prometheus client in Python shows of its process."""
    names = set(re.findall(r"^# TYPE (\w+) ", text(busy()), re.MULTILINE))

    assert {name for name in names if not name.startswith(("process_", "python_"))} == {
        family.name for family in families.ALL
    }
