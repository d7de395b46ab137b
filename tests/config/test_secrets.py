"""What a file, or the daemon's environment, may hold in secret is told to nobody who may not read it."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from governor.config import Config, ConfigError
from governor.config.load import parse
from governor.config.problems import Problem, Trail
from tests.config.reading import ENVIRON, Json
from tests.config.test_fuzz import FULL

# Digits, so that it would do as a number of permits; and as a length, or as text, with something beside it.
DIGITS = "12345678"
# Where the config in force has a variable: in the attribute of a member, which nobody is shown.
IN_FORCE = '{"pools": {"p": {"members": {"m": {"password": "${PASSWORD}"}}}}}'
WRITTEN = ["${PASSWORD}", "${PASSWORD}ms", "${PASSWORD}/s", "/${PASSWORD}", "127.0.0.1:${PASSWORD}"]
# Text that fits nowhere, of which nothing may show.
MARKED = "postgres://u:hunter2@h/x y"


def trails(node: Json, trail: Trail = ()) -> Iterator[Trail]:
    """Of all that stands in it, and of itself."""
    yield trail
    match node:
        case dict():
            for key, value in node.items():
                yield from trails(value, (*trail, key))
        case list():
            for index, value in enumerate(node):
                yield from trails(value, (*trail, index))
        case _:
            pass


def at(root: Json, trail: Trail) -> Json:
    """What stands there."""
    for step in trail:
        root = root[step]  # type: ignore[index]  # a trail leads to something
    return root


def replaced(trail: Trail, value: Json) -> str:
    """The full file with something else in one place."""
    root: Json = deepcopy(FULL)
    if not trail:
        return json.dumps(value)
    at(root, trail[:-1])[trail[-1]] = value  # type: ignore[index]  # as above
    return json.dumps(root)


def renamed(trail: Trail, name: str) -> str:
    """The full file with another key in one place."""
    root: Json = deepcopy(FULL)
    mapping = at(root, trail[:-1])
    assert isinstance(mapping, dict)
    mapping[name] = mapping.pop(str(trail[-1]))
    return json.dumps(root)


PLACES = list(trails(FULL))
LEAVES = [trail for trail in PLACES if not isinstance(at(FULL, trail), (dict, list))]
KEYS = [trail for trail in PLACES if trail and isinstance(trail[-1], str)]


def compared(text: str, in_force: str = IN_FORCE, held: str = DIGITS) -> Config:
    """A file that somebody wants to have compared with the one in force."""
    environ = ENVIRON | {"PASSWORD": held}
    running = parse(in_force.encode(), "running", Path("/etc"), environ)
    return parse(text.encode(), "new.yaml", Path("/etc"), environ, running.variables)


def problems(text: str) -> tuple[Problem, ...]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "governor.yaml", Path("/etc"), ENVIRON)
    return caught.value.problems


@pytest.mark.parametrize("trail", LEAVES, ids=str)
def test_a_variable_is_read_nowhere_but_where_the_config_in_force_has_it(trail: Trail) -> None:
    """Not in any value there is, in whatever form: it would be told there, or would tell by how it is refused."""
    for written in WRITTEN:
        with pytest.raises(ConfigError) as refused:
            compared(replaced(trail, written))
        (problem,) = refused.value.problems
        assert "a variable may be used only where the config in force has the same" in problem.message
        assert DIGITS not in str(problem)


@pytest.mark.parametrize(
    "text",
    [
        'pools: {p: {members: {m: {password: &x "${PASSWORD}", max_leases: *x}}}}',
        'pools: {p: {members: {m: {password: &x "${PASSWORD}"}}}}\nsemaphores: {s: {permits: *x}}',
        "pools: {p: {members: &x {m: {password: '${PASSWORD}'}}}, q: {members: *x}}",
        "pools: {p: {members: {m: {password: &x '${PASSWORD}'}}}}\nlisten: [*x]",
        "pools: {p: {members: {m: {password: '${PASSWORD}${PASSWORD}'}}}}",
        "pools: {p: {members: {m: {password: '${HOME}'}}}}",
        "pools: {p: {members: {m: {password: '${NOT_SET}'}}}}",
    ],
)
def test_no_alias_carries_it_elsewhere(text: str) -> None:
    """Nor is another text with it read in its place, nor is it said whether a variable is set."""
    with pytest.raises(ConfigError, match="a variable may be used only where the config in force has the same"):
        compared(text)


def test_a_variable_may_be_where_it_is_in_force() -> None:
    """Also as an alias of it, as long as the config in force has it there, too; and text that only looks like one."""
    aliased = "pools: {p: {members: &x {m: {password: '${PASSWORD}'}}}, q: {members: *x}}"
    assert compared(IN_FORCE + "\n").resources == compared(IN_FORCE).resources
    assert len(compared(aliased, aliased).resources) == 2
    assert compared("pools: {p: {members: {m: {other: '$${PASSWORD}'}}}}").variables == frozenset()


def test_how_much_may_be_filled_in_does_not_say_how_long_a_variable_is() -> None:
    """A key that is given twice is filled in once."""
    again = 'password: "${PASSWORD}", ' * 1000
    with pytest.raises(ConfigError) as refused:
        compared("pools: {p: {members: {m: {" + again + "}}}}", held="x" * 2000)

    assert not any("1 MiB" in problem.message for problem in refused.value.problems)


def test_what_stands_in_a_wrong_place_is_not_public() -> None:
    """Neither as a value, nor as a key, in no place that there is; where it is and what was expected there is."""
    found = 0
    for trail in PLACES:
        texts = [replaced(trail, MARKED), replaced(trail, [MARKED]), replaced(trail, {MARKED: MARKED})]
        texts += [renamed(trail, MARKED)] if trail in KEYS else []
        for text in texts:
            try:
                parse(text.encode(), "governor.yaml", Path("/etc"), ENVIRON)
            except ConfigError as error:
                for problem in error.problems:
                    found += 1
                    assert problem.public.startswith("governor.yaml:1: ")
                    assert not any(part in problem.public for part in ("hunter2", "postgres", "x y"))
    assert found > len(PLACES)


@pytest.mark.parametrize(
    "text",
    [
        "pools: {p: {members: {a: {password:hunter2}}}}",
        "pools: {p: {members: {a: {password: &hunter2 x, b: *hunter2y}}}}",
        "pools: {p: {members: {a: {'pass ${hunter2}': x}}}}",
        "pools: {p: {members: {a: {password: '${hunter2}'}}}}",
        "pools: {p: {members: {a: {? [hunter2] : x}}}}",
        "pools: {p: {members: {a: {hunter2: 1, hunter2: 2}}}}",
        "pools: {p: {members: {a: {password: !hunter2 x}}}}",
        "pools: {p: {members: {a: {password: 'hunter2}}}}",
        "pools:\n  p:\n    members:\n      a:\n        hunter2\n        : x: y\n",
        "pools: {p: {members: [hunter2]}}",
        "pools: {p: {members: hunter2}}",
        "semaphores: {s: {permits: 8hunter2}}",
        "semaphores: {s: {lease: 1d, max_lease: hunter2}}",
        "listen: [tcp://u:hunter2@h]",
        "audit: {file: x, policy: hunter2}",
        "tracing: http://u:hunter2@otel:4317",
        "tracing: {endpoint: 'hunter2'}",
        "hunter2: {}",
        "hunter2",
    ],
)
def test_no_slip_makes_it_public(text: str) -> None:
    """Also where a reader stumbles over what was meant to be text."""
    for problem in problems(text):
        assert "hunter2" not in problem.public
        assert problem.public != f"governor.yaml:{problem.line}: "


# What nobody would write there on purpose, and of which nothing may show wherever it stands.
KEPT = {
    "token": "gov_0aVeryLongTokenThatSomebodyHasPastedHere",
    "short token": "gov_x",
    "key": "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n",
    "url": "amqp://me:MIGHAgEAMBMG@host:5672/x",
    "word": "d41d8cd98f00b204e9800998ecf8427e",
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9xyz1",
}


def _said(text: str) -> str:
    """What is wrong with it, if anything is."""
    try:
        parse(text.encode(), "governor.yaml", Path("/etc"), ENVIRON)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KEPT)
def test_what_looks_like_a_secret_is_not_repeated_wherever_it_was_pasted(kind: str) -> None:
    """As a value, not even to whoever may read the file: what is said goes into logs and tickets."""
    pieces = [line[:20] for line in KEPT[kind].splitlines() if not line.startswith("-----")]
    told = {trail: _said(replaced(trail, KEPT[kind])) for trail in trails(FULL)}

    assert any(told.values())
    assert {trail: said for trail, said in told.items() if any(piece in said for piece in pieces)} == {}


@pytest.mark.parametrize("kind", ["token", "short token", "url"])
def test_nor_as_a_key(kind: str) -> None:
    """Its line is enough to find it."""
    places = [trail for trail in trails(FULL) if trail and isinstance(trail[-1], str)]
    told = {trail: _said(renamed(trail, KEPT[kind])) for trail in places}

    assert any(told.values())
    assert {trail: said for trail, said in told.items() if KEPT[kind][:20] in said} == {}
