"""The documents for people: whatever they link to within the checkout is there, and the README says what is in it."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("deploy/**/*.md"), *ROOT.glob("tests/*.md"))
)
_LINK: Final = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def headings(document: Path) -> list[tuple[int, str]]:
    """How deep each is, and what it says; lines of code that look like one are none."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [(len(marks), said) for marks, said in re.findall(r"^(#+) (.+)$", text, re.MULTILINE)]


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings: of several of one name, the later ones are numbered. And those of our own."""
    found: list[str] = re.findall(r'<a id="([^"]+)"></a>', document.read_text(encoding="utf-8"))
    slugs: list[str] = []
    for _, said in headings(document):
        slug = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
        earlier = sum(each == slug for each in slugs)
        slugs.append(slug)
        found.append(f"{slug}-{earlier}" if earlier else slug)
    return set(found)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    """To a file that is there, and to a heading in it."""
    document = ROOT / name
    for place, anchor in _LINK.findall(document.read_text(encoding="utf-8")):
        target = (document.parent / place).resolve() if place else document
        assert target.exists(), place
        assert not anchor or anchor in anchors(target), f"{place}#{anchor}"


def test_the_readme_says_at_its_beginning_what_is_in_it() -> None:
    """Each of its sections, in their order, with the words of their headings."""
    document = ROOT / "README.md"
    beginning = document.read_text(encoding="utf-8").partition("\n## ")[0]
    sections = [said for depth, said in headings(document) if depth == 2]

    contents = re.findall(r"\[([^]]+)\]\(#([^)]+)\)", beginning)
    assert [said for said, _ in contents] == [section[0].lower() + section[1:] for section in sections]
    assert all(anchor == said.replace(" ", "-") for said, anchor in contents)
