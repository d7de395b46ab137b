"""Whatever stands in a file: it is a config, or a `ConfigError` in our own words with lines that exist."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from governor.config import Config, ConfigError, json_schema
from governor.config.load import parse
from tests.config.reading import ENVIRON, Json, as_an_editor_sees

SCHEMA = jsonschema.Draft202012Validator(json_schema())

# A file in which everything is used once, as data.
FULL: dict[str, Json] = {
    "listen": [
        "127.0.0.1:7411",
        "tls://127.0.0.1:7413",
        "unix:x.sock",
        {"unix": "y.sock", "mode": "0600", "owner": "me", "group": "us"},
    ],
    "clients": {
        "orders": {
            "tokens": [f"sha256:{'0' * 64}", f"sha256:{'1' * 64}"],
            "resources": ["orders-*", "b"],
            "verbs": ["acquire", "read"],
            "max_permits": 10,
            "max_waiters": 3,
            "max_lease": "5m",
            "max_rate": "100/s",
        },
        "boss": {"tokens": [f"sha256:{'2' * 64}"], "verbs": ["admin"], "sans": ["boss.internal"]},
    },
    "tls": {"cert": "tls.crt", "key": "tls.key", "client_ca": "clients.crt"},
    "insecure": True,
    "http": {"address": "tls://127.0.0.1:7412", "clients": True, "insecure": False},
    "state": "~/state",
    "drain_timeout": "10s",
    "durability": "power",
    "restart_grace": "1s",
    "on_store_error": "continue",
    "audit": {"file": "audit.jsonl", "policy": "block", "events": "all", "max_size": "1GiB", "keep": 3},
    "tracing": {"endpoint": "http://otel:4317", "ratio": 0.5, "service_name": "permits", "timeout": "3s"},
    "watch": False,
    "bounds": {
        "connections": 100,
        "streams": 100,
        "handshake": "5s",
        "sessions": 100,
        "sessions_per_client": 10,
        "http_connections": 10,
    },
    "max_client_series": 10,
    "defaults": {"lease": "1m", "max_lease": "1h", "on_disconnect": "2s", "max_wait": "30s", "max_waiters": 10},
    "semaphores": {
        "a": {
            "permits": 8,
            "lease": "2m",
            "max_lease": "2h",
            "on_disconnect": "release",
            "max_wait": "1s",
            "max_waiters": 1,
        }
    },
    "pools": {
        "b": {
            "members": {"x": {"endpoint": "db:5432", "max_leases": 10}, "y": {}},
            "order": "fifo",
            "quarantine": "1s",
            "max_quarantine": "1m",
            "max_lifetime": "1h",
            "idle_timeout": "5m",
        },
        "c": {"size": 3},
    },
    "rate_limits": {"d": {"rate": "10/s", "burst": 5}, "e": {"windows": ["10/s", {"rate": "100/h", "burst": 3}]}},
}

NASTY = [
    *("8", "-1", "0", "1e400", ".nan", ".inf", "1_0", "1:30", "010", "on", "~", "null", "true", "''", "' '", "'8'"),
    *(
        "1s",
        "0s",
        "1h30m",
        "9999999d",
        "1/s",
        "0/s",
        "x/s",
        "1/0s",
        "unlimited",
        "off",
        "lifo",
        "keep",
        "localhost:1",
        "unix:z",
    ),
    *("${SECRET}", "'${SECRET}'", "${UNSET}", "'${'", "$${X}", "!t x", "*a", "[]", "{}", "[[8]]", "|\n  x"),
    *('"\\u202e\\a"', "é", "9" * 5000, "x" * 5000, "'~root'", "2147483648", "@x", "&a 8", "<<", "'\t'"),
]


def read(data: bytes) -> Config | ConfigError:
    """What the bytes of a file make; anything else that is raised is a bug."""
    try:
        return parse(data, "governor.yaml", Path("/etc/governor"), ENVIRON)
    except ConfigError as error:
        told = error
    lines = data.count(b"\n") + data.count(b"\r") + 2
    assert told.problems
    for problem in told.problems:
        text = str(problem)
        assert text.isprintable()
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= lines
        assert "hunter2" not in text
        assert "Input should" not in text
    return told


def places(node: Json, trail: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where each value of ``node`` stands, from the root down."""
    found = [trail]
    if isinstance(node, dict):
        found += [place for key, value in node.items() for place in places(value, (*trail, key))]
    elif isinstance(node, list):
        found += [place for index, value in enumerate(node) for place in places(value, (*trail, index))]
    return found


PLACES = places(FULL)
SCALARS = [place for place in PLACES if not any(other[: len(place)] == place and other != place for other in PLACES)]


# What is lent says nothing to the rest of a file, nor the rest to it.
_LENT = {"defaults", "semaphores", "pools", "rate_limits"}


def around(place: tuple[str | int, ...]) -> dict[str, Json]:
    """Of the file in which everything is used, the half that can have to do with ``place``: half as much to read."""
    lent = place[0] in _LENT
    return {key: value for key, value in FULL.items() if (key in _LENT) is lent}


def written(node: Json, put: dict[tuple[str | int, ...], str], trail: tuple[str | int, ...] = ()) -> str:
    """``node`` in one line of YAML, with some of its values replaced."""
    if trail in put:
        return put[trail]
    if isinstance(node, dict):
        pairs = (f"{key}: {written(value, put, (*trail, key))}" for key, value in node.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(node, list):
        return f"[{', '.join(written(value, put, (*trail, index)) for index, value in enumerate(node))}]"
    return json.dumps(node)


def test_the_full_file_is_legal() -> None:
    """Else the tests below would mutate a mistake."""
    read_back = read(written(FULL, {}).encode())

    assert isinstance(read_back, Config)
    assert len(read_back.resources) == 5


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"a: \xc2\x85b: \xe2\x80\xa8c")
def test_any_bytes_are_answered(data: bytes) -> None:
    """Mostly with a complaint."""
    read(data)


@given(st.text(alphabet="ab:-?&*!|>%@`'\"{}[],#\t\n \\${}<~0", max_size=80))
@example("? ")
@example("!<x> a")
@example("a: &a\n  b: *a")
@example("{a, b: }")
@example("- - -\n -")
@example('"\\')
@example("? |\n a\n: b")
@example("&a : *a")
@example("{!t {a: b}: c}")
@example("? !t [a]\n: b")
@example("%TAG ! x\n--- !y z")
def test_any_grammar_is_answered(text: str) -> None:
    """The characters that mean something to YAML, in any order."""
    read(text.encode())


@given(
    st.dictionaries(
        st.sampled_from(PLACES),
        st.sampled_from([*NASTY, "{x: 8}", "{unix: /x}", "{rate: 1/s}"]),
        min_size=1,
        max_size=4,
    )
)
def test_any_values_in_any_places_are_answered(put: dict[tuple[str | int, ...], str]) -> None:
    """And what the loader takes, the schema takes as well: editors underline nothing that works."""
    text = written(FULL, put)

    if isinstance(read(text.encode()), Config):
        SCHEMA.validate(as_an_editor_sees(text))


@pytest.mark.parametrize("place", SCALARS, ids=lambda place: ".".join(map(str, place)))
def test_one_mistake_is_one_problem(place: tuple[str | int, ...]) -> None:
    """One bad value is answered once, whatever it is and wherever it stands; one that is none the schema takes."""
    for value in NASTY:
        text = written(around(place), {place: value})
        outcome = read(text.encode())
        if isinstance(outcome, ConfigError):
            assert len(outcome.problems) == 1, f"{value}\n{outcome}"
        else:
            SCHEMA.validate(as_an_editor_sees(text))


@given(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=12, unique=True))
def test_all_mistakes_are_told_at_once(wrong: list[tuple[str | int, ...]]) -> None:
    """As many problems as there are bad values, each at its place."""
    outcome = read(written(FULL, dict.fromkeys(wrong, "[[8]]")).encode())

    assert isinstance(outcome, ConfigError)
    assert len(outcome.problems) == len(wrong)
