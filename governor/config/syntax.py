"""What a YAML reader could not understand, in words that help.

It knows the complaints of both readers that PyYAML has, libyaml and the one in Python: they find the same mistakes
and word them differently. It must never repeat more of the file than one character: values may be secrets.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

import yaml

from governor.config.problems import Trail
from governor.wording import printable


@dataclass(slots=True, frozen=True)
class _Complaint:
    """Words for what matches ``pattern``.

    In the words, ``{opened}`` is the line where the unfinished thing began and ``{character}`` what stands at the
    mistake. ``opening``: the first is also the line to show. ``about`` picks a closer look at the line.
    """

    pattern: str
    words: str
    opening: bool = False
    about: Literal["colon", "brackets", ""] = ""


# Deeper than any config; libyaml has a bound of its own, which it meets first when brackets are all there is.
MAX_DEPTH: Final = 32
TOO_DEEP: Final = f"this is nested more than {MAX_DEPTH} levels deep"
NO_TAGS: Final = "tags (words that start with !) are not accepted: take it off"
_NO_SPACE: Final = "a space is missing after the colon: write key: value"
_NO_COLON: Final = "a colon is missing after the key: write key: value"
_TAB: Final = "a tab cannot indent YAML: use spaces"

# The first that matches counts, and the last matches always.
_COMPLAINTS: Final = (
    _Complaint(r"nesting depth", TOO_DEEP),
    _Complaint(r"a tab character", _TAB),
    _Complaint(
        r"find expected ':'",
        _NO_COLON,
        opening=True,
        about="colon",
    ),
    _Complaint(
        r"mapping values are not",
        "a colon cannot stand here: indent the keys of one mapping alike, and put text with a colon in quotes",
        about="colon",
    ),
    _Complaint(r"sequence entries are not", "a dash cannot stand here: start each item of a list on its own line"),
    _Complaint(r"mapping keys are not", "a question mark cannot stand here: put the text in quotes"),
    _Complaint(r"cannot start any", "text cannot start with {character}: put it in quotes"),
    _Complaint(r"quoted scalar found unexpected", "the quotes that open here are never closed", opening=True),
    _Complaint(r"quoted scalar", r"no such escape: for a backslash itself write \\, or use single quotes"),
    _Complaint(r"block scalar", "only a line break can follow | or >"),
    _Complaint(r"scanning an a", "a name is missing after & or *: put text that starts with one in quotes"),
    _Complaint(r"ing a tag|tag handle", NO_TAGS),
    _Complaint(r"directive|incompatible", "lines that start with % are not accepted: delete it"),
    _Complaint(r"flow sequence", "expected a comma, or the ] that closes the [ of line {opened}", about="brackets"),
    _Complaint(r"flow mapping", "expected a comma, or the }} that closes the {{ of line {opened}", about="brackets"),
    _Complaint(r"node content", "a value is missing before {character}"),
    _Complaint(r"", "this does not fit what comes before it: check its indentation, or put the whole text in quotes"),
)

_GLUED: Final = re.compile(r"\s*(?:- )?[\w-]+:[^\s:/]")
_BARE_KEY: Final = re.compile(r"\s*[\w-]+\s*")


def explain(error: yaml.MarkedYAMLError, text: str) -> tuple[int, Trail, str]:
    """Line, no trail, and message for what stopped the reader."""
    heard = f"{error.context} {error.problem}"
    complaint = next(row for row in _COMPLAINTS if re.search(row.pattern, heard))
    mark = error.problem_mark
    assert mark is not None
    opened = (error.context_mark or mark).line + 1
    line = opened if complaint.opening else mark.line + 1
    # With an empty line at each end, so that the line before the first and the one after the last can be looked at.
    lines = ["", *text.splitlines(), ""]
    if complaint.about == "colon" and (closer := _about_colons(line, lines)):
        return closer
    if complaint.about == "brackets" and "${" in lines[line]:
        return line, (), 'inside [ ] and { } a variable needs quotes: "${NAME}"'
    character = lines[line][mark.column : mark.column + 1]
    if character == "\t":
        return line, (), _TAB
    return line, (), complaint.words.format(opened=opened, character=printable(character) or "the end")


def _about_colons(line: int, lines: list[str]) -> tuple[int, Trail, str] | None:
    """A slip that the reader notices only later, when the text goes on: on this line or on the one above."""
    for number in (line, line - 1):
        if _GLUED.match(lines[number]):
            return number, (), _NO_SPACE
    return (line - 1, (), _NO_COLON) if _BARE_KEY.fullmatch(lines[line - 1]) else None
