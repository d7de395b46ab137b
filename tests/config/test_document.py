"""The tree of a file: what becomes of text, and that no file can make reading expensive."""

import random
from pathlib import Path

import pytest
import yaml

from governor.config import ConfigError, document, loads
from governor.config.document import MAX_BYTES, MAX_NODES, read
from governor.config.load import parse
from governor.config.nodes import Broken, ListNode, MappingNode, Node, Scalar, found
from governor.config.problems import MAX_PROBLEMS, Problems
from governor.config.syntax import MAX_DEPTH
from governor.config.variables import MAX_FILLED, Variables
from tests.config.reading import complaints, config


def tree(text: str, **environ: str) -> Node | None:
    """The tree of text that has nothing wrong with it."""
    problems = Problems("test")
    root = read(text.encode(), Variables(environ), problems)
    assert not problems, problems.error()
    return root


def told(data: bytes) -> list[str]:
    """What is wrong with the bytes of a file."""
    with pytest.raises(ConfigError) as caught:
        parse(data, "x", Path("/"), {})
    return str(caught.value).split("\n")


def test_scalars_stay_the_text_that_was_written() -> None:
    """YAML 1.1 would make 8, 60, 90, True and None of these."""
    root = tree("[0o10, 1_0, 1:30, 010, on, ~, 1.10, '7']")

    assert isinstance(root, ListNode)
    assert [item.text for item in root if isinstance(item, Scalar)] == [
        "0o10",
        "1_0",
        "1:30",
        "010",
        "on",
        "~",
        "1.10",
        "7",
    ]
    assert [item.quoted for item in root if isinstance(item, Scalar)] == [False] * 7 + [True]
    assert [item.null for item in root if isinstance(item, Scalar)] == [False] * 5 + [True, False, False]


def test_keys_keep_their_order_and_their_lines() -> None:
    """The line of a key is where it stands, also after a comment and with Windows line ends."""
    root = tree("b: 1\r\n# a comment\r\n\r\na:\r\n  c: 2\r\n'1': x\r\n")

    assert isinstance(root, MappingNode)
    assert list(root) == ["b", "a", "1"]
    assert root.lines == {"b": 1, "a": 4, "1": 6}
    assert root["a"] == MappingNode(5) | {"c": Scalar("2", "2", quoted=False, line=5)}


def test_an_alias_is_what_its_anchor_was() -> None:
    """Common values can be written once, and an anchor can be set anew."""
    root = tree("[&a {x: 1}, *a, &a 2, *a, &k key, *k]")

    assert isinstance(root, ListNode)
    assert root[1] is root[0]
    assert root[3] is root[2]
    assert root[5] is root[4]


def test_a_key_can_have_an_anchor() -> None:
    """Then it stands for the text of the key."""
    root = tree("&a x: *a")

    assert root == MappingNode(1) | {"x": Scalar("x", "x", quoted=False, line=1)}


def test_a_byte_order_mark_is_no_text() -> None:
    """Editors on Windows write one."""
    assert tree("\ufeffa: 1") == tree("a: 1")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "\ufeff", "---\n", "~\n", "null", "--- \n...\n"])
def test_an_empty_file_is_a_mistake(text: str) -> None:
    """An empty file is more often a failed write than a wish for nothing."""
    assert str(_error(text)) == "x: the file is empty: to declare nothing at all, write {}"


def test_to_declare_nothing_is_legal_when_it_is_said() -> None:
    """Two braces, or sections with nothing in them."""
    assert config("{}").resources == ()
    assert config("semaphores:\npools: ~\nrate_limits: {}\ndefaults:\n").resources == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb: \xff\n", "x:2: this is not UTF-8 text: save the file as UTF-8"),
        ("a: ö".encode("latin-1"), "x:1: this is not UTF-8 text: save the file as UTF-8"),
        ("a: 1".encode("utf-16"), "x:1: this is not UTF-8 text, it looks like UTF-16: save the file as UTF-8"),
        (b"\xed\xa0\x80", "x:1: this is not UTF-8 text: save the file as UTF-8"),
        (b"a: 1\n\nb: \x00\n", "x:3: the character U+0000 is not allowed: delete it"),
        (b"a: \x1b[31m\n", "x:1: the character U+001B is not allowed: delete it"),
        (b"a: \x7f", "x:1: the character U+007F is not allowed: delete it"),
        ("a: 1\nb: \u2028".encode(), "x:2: the character U+2028 is not allowed: delete it"),
        ("a: \x85".encode(), "x:1: the character U+0085 is not allowed: delete it"),
        ("a: \ufffe".encode(), "x:1: the character U+FFFE is not allowed: delete it"),
        (b"#" * (MAX_BYTES + 1), "x: the file is larger than 1 MiB"),
    ],
)
def test_what_is_no_text_is_refused_whole(data: bytes, message: str) -> None:
    """One problem, where the first of it stands."""
    assert told(data) == [message]


def test_a_file_may_be_one_mebibyte() -> None:
    """The limit is the last size that is read."""
    assert config("#" * (MAX_BYTES - 3) + "\n{}").resources == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[" * 200_000, 1),
        ("{a: " * 200_000, 1),
        ("- " * 200_000, 1),
        ("? " * 200_000, 1),
        ("\n".join(" " * depth + "a:" for depth in range(1000)), MAX_DEPTH + 2),
        ("a: " + "[" * 200_000 + "]" * 200_000, 1),
    ],
)
@pytest.mark.parametrize("reader", ["CSafeLoader", "SafeLoader"])
def test_nesting_has_a_floor(text: str, line: int, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of brackets is refused at the first one too many, long before any stack is full."""
    monkeypatch.setattr(document, "READER", getattr(yaml, reader))

    assert complaints(text) == [f"{line}: this is nested more than {MAX_DEPTH} levels deep"]


def test_aliases_count_as_what_they_stand_for() -> None:
    """Nine lines of nine aliases each stand for 400 million values; none of them is ever made."""
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for name, before in zip("bcdefghi", "abcdefgh", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"

    assert complaints(bomb) == ["6: there are more than 100000 values, with every alias written out"]


def test_a_chain_of_aliases_is_bounded_as_well() -> None:
    """Each list holds the one before: depth that no bracket shows."""
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))

    assert complaints(chain) == ["446: there are more than 100000 values, with every alias written out"]


def test_values_are_counted_without_aliases_too() -> None:
    """More values than the largest config can need."""
    text = "semaphores: [" + "1," * MAX_NODES + "]"

    assert complaints(text) == ["1: there are more than 100000 values, with every alias written out"]


def test_variables_cannot_make_a_small_file_large() -> None:
    """What they hold is counted over the whole file."""
    text = "".join(f"k{n}: ${{LONG}}\n" for n in range(20))

    told = complaints(text, {"LONG": "x" * (MAX_FILLED // 10)})

    assert told[10] == "11: k10: with LONG put in here, the variables of this file fill more than 1 MiB"


def test_a_variable_must_be_text() -> None:
    """The environment is bytes, and not all bytes are UTF-8."""
    told = complaints("state: ${BYTES}", {"BYTES": "/a\udcff"})

    assert told == ["1: state: the environment variable BYTES does not hold UTF-8 text"]


def test_a_file_of_mistakes_is_answered_with_the_first_thousand() -> None:
    """The rest is counted; guesses at what was meant are bounded, too."""
    told = complaints("".join(f"permit{n}: 8\n" for n in range(3000)))

    assert len(told) == MAX_PROBLEMS + 1
    assert told[0] == "1: permit0: unknown key: " + told[-2].partition("unknown key: ")[2]
    assert told[-1] == " and 2000 more problems"


def test_problems_come_in_the_order_of_their_lines() -> None:
    """Whatever found them: first the grammar, then the models."""
    lines = [f"  a{n}: {{permits: {'x' if n % 2 else '!t 8'}}}" for n in range(20)]
    random.Random(7).shuffle(lines)

    told = complaints("semaphores:\n" + "\n".join(lines))

    assert [int(line.partition(":")[0]) for line in told] == list(range(2, 22))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (MappingNode(1), "a mapping"),
        (ListNode(1), "a list"),
        (Scalar("", "", quoted=False, line=1), "nothing"),
        (Scalar("", "", quoted=True, line=1), '""'),
        (Scalar("~", "~", quoted=True, line=1), '"~"'),
        (Scalar("8", "8", quoted=False, line=1), "8"),
        (Scalar("8", "8", quoted=True, line=1), '"8"'),
        (Scalar("8" * 50, "8" * 50, quoted=False, line=1), '"' + "8" * 50 + '"'),
        (Scalar("x", "x", quoted=False, line=1), '"x"'),
        (Scalar('a"\n\x1b\u202e', 'a"\n\x1b\u202e', quoted=True, line=1), r'"a\"\n\u001b\u202e"'),
        (Scalar("x" * 100, "x" * 100, quoted=False, line=1), '"' + "x" * 79 + '…"'),
        (Scalar("pw", "${PW}", quoted=False, line=1), "what ${PW} holds"),
        (Scalar("pw:1", "${PW}:1", quoted=False, line=1), '"${PW}:1"'),
        (Scalar("", "${PW}", quoted=True, line=1), "nothing in ${PW}"),
        (Scalar("${PW}", "$${PW}", quoted=False, line=1), '"$${PW}"'),
    ],
)
def test_what_was_found_is_shown_as_it_was_written(node: Node, words: str) -> None:
    """Shortened, safe on a terminal, and with variables by their name."""
    assert found(node) == words


def test_nobody_describes_what_was_refused_already() -> None:
    """To complain twice about one thing is a bug."""
    with pytest.raises(AssertionError):
        found(Broken(1))


def _error(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loads(text, source="x", environ={})
    return caught.value


def test_half_a_character_is_refused_by_whoever_meets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The escape is none to libyaml; PyYAML's own reader does, and then it is no text that could be sent."""
    text = r'pools: {a: {members: {x: {k: "\ud800"}}}}'
    escape = r"1: no such escape: for a backslash itself write \\, or use single quotes"
    meaning = r'1: pools.a.members.x.k: expected text of at most 4096 bytes; found "\ud800": it has half a character'

    told = {}
    for reader in ("CSafeLoader", "SafeLoader"):
        monkeypatch.setattr(document, "READER", getattr(yaml, reader))
        told[reader] = complaints(text)

    assert told == {"CSafeLoader": [escape], "SafeLoader": [meaning]}
