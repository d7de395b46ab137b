"""From the bytes of a file to its tree.

It knows the grammar of YAML and none of the words of a config. It is stricter than YAML: no tag, no key given twice,
no merging, one document. Nothing is constructed, and whatever the file holds, the work is bounded: by `MAX_BYTES`, by
`MAX_DEPTH`, and by `MAX_NODES`, counted with every alias written out.
"""

import re
from contextlib import closing
from typing import TYPE_CHECKING, Final, cast

import yaml

from governor.config.nodes import TYPED, Broken, ListNode, MappingNode, Node, Scalar, found
from governor.config.problems import Problems, Trail, quoted, shortened
from governor.config.syntax import MAX_DEPTH, NO_TAGS, TOO_DEEP, explain
from governor.config.variables import VariableError, Variables

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_BYTES: Final = 2**20
MAX_NODES: Final = 100_000

# libyaml reads a full-sized file sixteen times faster; both readers emit the same events.
READER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# What YAML 1.1 makes of plain text, by its first character: a number, a date, a boolean or nothing.
_RESOLVERS: Final[dict[str | None, list[tuple[str, re.Pattern[str]]]]] = yaml.SafeLoader.yaml_implicit_resolvers

_NO_VARIABLE: Final = "a variable cannot be filled in here"

# What YAML does not allow in a text, and three that it calls the end of a line while editors do not.
_STRANGE: Final = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]")


def read(data: bytes, variables: Variables, problems: Problems) -> Node | None:
    """The tree of a file, or None if it has none; what is wrong with it goes to ``problems``."""
    text = _decoded(data, problems)
    return None if text is None else _Builder(text, variables, problems).document()


def _decoded(data: bytes, problems: Problems) -> str | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        looks = ", it looks like UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(line, (), f"this is not UTF-8 text{looks}: save the file as UTF-8")
        return None
    if strange := _STRANGE.search(text):
        line = text.count("\n", 0, strange.start()) + 1
        problems.add(line, (), f"the character U+{ord(strange[0]):04X} is not allowed: delete it")
        return None
    return text


class _EndError(Exception):
    """Reading cannot go on; why has been noted."""


class _Builder:
    """Builds the tree of one text. It calls itself for each level, and `MAX_DEPTH` bounds that."""

    def __init__(self, text: str, variables: Variables, problems: Problems) -> None:
        self._text = text
        self._events = cast("Generator[yaml.Event]", yaml.parse(text, Loader=READER))
        self._variables = variables
        self._problems = problems
        self._nodes = 0
        # What each anchor stands for, and how many nodes that is.
        self._anchors: dict[str, tuple[Node, int]] = {}

    def document(self) -> Node | None:
        """The root, or None when there is none or reading had to end."""
        with closing(self._events):
            try:
                return self._root()
            except yaml.MarkedYAMLError as error:
                self._problems.add(*explain(error, self._text))
            except _EndError:
                pass
        return None

    def _root(self) -> Node | None:
        next(self._events)  # the start of the stream
        start = next(self._events)
        root = None if isinstance(start, yaml.StreamEndEvent) else self._node(next(self._events), (), 0)
        if root is None or (isinstance(root, Scalar) and root.null):
            self._problems.add(None, (), "the file is empty: to declare nothing at all, write {}")
            return None
        next(self._events)  # the end of the document
        after = next(self._events)
        if isinstance(after, yaml.DocumentStartEvent):
            self._problems.add(_line(after), (), "a second document starts here: a config is one document")
        return root

    def _node(self, event: yaml.Event, trail: Trail, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._problems.add(_line(event), (), TOO_DEEP)
            raise _EndError
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event, trail)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        line = _line(event)
        before = self._nodes
        self._count(1, line)
        node: Node
        match event:
            case yaml.ScalarEvent():
                node = self._scalar(event, line, trail)
            case yaml.SequenceStartEvent():
                node = self._list(line, trail, depth)
            case _:
                node = self._mapping(line, trail, depth)
        if event.tag is not None:
            self._problems.add(line, trail, NO_TAGS)
            node = Broken(line)
        if event.anchor is not None:
            self._anchors[event.anchor] = node, self._nodes - before
        return node

    def _mapping(self, line: int, trail: Trail, depth: int) -> MappingNode:
        node = MappingNode(line)
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, node, trail, depth)
            value = self._node(next(self._events), trail if key is None else (*trail, key), depth + 1)
            if key is not None and key not in node:
                node[key] = value
                node.lines[key] = _line(event)
        return node

    def _key(self, event: yaml.Event, node: MappingNode, trail: Trail, depth: int) -> str | None:
        """The text of a key; None when it is refused, which is then noted."""
        line = _line(event)
        match event:
            case yaml.ScalarEvent(value=str(key)):
                if event.anchor is not None:
                    self._anchors[event.anchor] = Scalar(key, key, bool(event.style), line), 1
                refusal = _why_no_key(event)
                if key in node and refusal is None:
                    self._problems.add(line, (*trail, key), f"given twice, first on line {node.lines[key]}: keep one")
                if refusal is None:
                    return key
            case yaml.AliasEvent():
                refusal = "a key cannot be an alias: write it out", ""
            case _:
                stands = self._node(event, trail, depth + 1)
                node.partial = True
                if isinstance(stands, Broken):
                    return None
                bare = "a key must be text"
                refusal = f"{bare}; found {found(stands)}", bare
        self._problems.add(line, trail, *refusal)
        node.partial = True
        return None

    def _list(self, line: int, trail: Trail, depth: int) -> ListNode:
        node = ListNode(line)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node.append(self._node(event, (*trail, len(node)), depth + 1))
        return node

    def _scalar(self, event: yaml.ScalarEvent, line: int, trail: Trail) -> Scalar | Broken:
        try:
            text = self._variables.fill(event.value, trail)
        except VariableError as error:
            self._problems.add(line, trail, str(error), _NO_VARIABLE)
            return Broken(line)
        return Scalar(text, event.value, bool(event.style), line)

    def _aliased(self, event: yaml.AliasEvent, trail: Trail) -> Node:
        line, anchor = _line(event), str(event.anchor)
        node, size = self._anchors.get(anchor, (Broken(line), 0))
        if size == 0:
            name = shortened(anchor)
            nothing = "stands for nothing that ends before it"
            self._problems.add(line, trail, f"*{name} {nothing}", f"an alias {nothing}")
        self._count(size, line)
        try:
            self._stand(node, trail)
        except VariableError as error:
            self._problems.add(line, trail, str(error), _NO_VARIABLE)
            return Broken(line)
        return node

    def _stand(self, node: Node, trail: Trail) -> None:
        """What an alias stands for stands here, too; raises `VariableError`."""
        match node:
            case Scalar():
                self._variables.stand(node.written, trail)
            case MappingNode():
                for key, value in node.items():
                    self._stand(value, (*trail, key))
            case ListNode():
                for index, item in enumerate(node):
                    self._stand(item, (*trail, index))
            case Broken():
                pass

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._problems.add(line, (), f"there are more than {MAX_NODES} values, with every alias written out")
            raise _EndError


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return event.start_mark.line + 1


def _why_no_key(event: yaml.ScalarEvent) -> tuple[str, str] | None:
    """The message, and without the key; None when it will do."""
    if event.tag is not None:
        return NO_TAGS, ""
    if event.value == "<<" and not event.style:
        return "merging with << is not supported: put what is common under defaults, or write it out", ""
    key: str = event.value
    if "${" in key:
        bare = "variables are filled into values, not into names"
        return f"{bare} such as {quoted(key)}", bare
    if key and not event.style and _is_ambiguous(key):
        # A name that an editor, Helm or yq reads as another one, or as none, is a trap for whoever asks for it.
        why = "other readers of YAML do not take {} for text: put it in quotes".format
        return why(shortened(key)), why("this name")
    return None


def _is_ambiguous(plain: str) -> bool:
    """Whether YAML 1.1 or 1.2 makes something else than text of it."""
    patterns = [*_RESOLVERS.get(plain[0], ()), *_RESOLVERS.get(None, ())]
    return TYPED.fullmatch(plain) is not None or any(pattern.match(plain) for _, pattern in patterns)
