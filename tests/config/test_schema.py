"""The JSON Schema knows what the loader knows, as far as a schema can."""

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from governor.config import DEFAULT, json_schema
from tests.config.reading import Json, as_an_editor_sees, complaints

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"
SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def mistakes(text: str) -> list[str]:
    """What an editor would underline."""
    return [error.json_path for error in VALIDATOR.iter_errors(as_an_editor_sees(text))]


def test_it_is_a_schema_of_the_draft_that_it_names() -> None:
    """Editors choose how to read it by that."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("path", [DEFAULT, *sorted(EXAMPLES.glob("*.yaml"))], ids=lambda path: path.name)
def test_every_example_passes(path: Path) -> None:
    """What the loader takes, an editor does not underline."""
    assert mistakes(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "semaphores:\npools:\nrate_limits:\ndefaults:\n",
        "semaphores: {a: {permits: unlimited, max_wait: 0, max_waiters: 0}}",
        "defaults: {on_disconnect: 2s}\nsemaphores: {a: {permits: 1, on_disconnect: release}}",
        "pools: {a: {size: 1, on_disconnect: keep}}\nrate_limits: {b: {rate: 1/s, on_disconnect: 1m30s}}",
        "semaphores: {a: {permits: '${N}', lease: '${L}', max_wait: '${A}${B}'}}",
        "pools: {a: {members: {x: , y: {port: 5432, ratio: 0.5, live: true, name: z}}}}",
        "pools: {a: {size: 0, order: fifo, quarantine: 0s, max_lifetime: 1h30m, idle_timeout: 1.5s}}",
        "rate_limits: {a: {rate: unlimited}, b: {rate: 0/s, burst: 1}, c: {windows: [10/30s, {rate: 1/1m30s}]}}",
        "listen: [unix:/x, {unix: x, mode: '0600', owner: me, group: 100}, {unix: y, mode: 0660}, '[::1]:1']",
        "admin: unix:/x",
        "admin: [{unix: x, mode: '0600'}, 127.0.0.1:7413]",
        "clients: {}",
        "listen: ['tls://0.0.0.0:7411']\ntls: {cert: a, key: b, client_ca: c}\nclients: {a: {sans: [x, 'spiffe://y']}}",
        "listen: [0.0.0.0:7411]\ninsecure: true",
        "http: tls://127.0.0.1:7412\ntls: {cert: a, key: b}",
        "clients: {}\nhttp: {address: '0.0.0.0:7412', clients: true, insecure: true}",
        f"clients: {{a: {{tokens: [sha256:{'0' * 64}], verbs: [admin], resources: ['*']}}}}",
        "clients: {a: {tokens: ['${HASH}'], max_permits: 1, max_waiters: 0, max_lease: 5m, max_rate: 10/s}}",
        "http: off\nstate: ~/x\ndrain_timeout: 0\nmax_client_series: 0",
        "bounds: {connections: 1, streams: 10, handshake: 1ms, sessions: 100000}",
        "http: 'off'",
        "durability: power\nrestart_grace: 0\non_store_error: continue",
        "audit: off",
        "audit: /var/log/governor/audit.jsonl",
        "audit: {file: a, policy: block, events: all, max_size: 100MiB, keep: 5}",
        "audit: {file: a, max_size: unlimited}",
        "tracing: off",
        "tracing: on",
        "tracing: {}",
        "tracing: http://127.0.0.1:4317",
        "tracing: http://[::1]:4317/",
        "tracing: {endpoint: 'https://otel.example', ratio: 0.05, service_name: permits, timeout: 3s}",
        "tracing: {ratio: 1}",
        "durability: power\nrestart_grace: 0\non_store_error: continue\nwatch: false",
    ],
)
def test_what_is_legal_passes(text: str) -> None:
    """Every form that the documentation shows."""
    assert mistakes(text) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "$"),
        ("semaphore: {}", "$"),
        ("semaphores: []", "$.semaphores"),
        ("semaphores: {a: 8}", "$.semaphores.a"),
        ("semaphores: {a: }", "$.semaphores.a"),
        ("semaphores: {a: {}}", "$.semaphores.a"),
        ("semaphores: {a: {permit: 8, permits: 8}}", "$.semaphores.a"),
        ("semaphores: {'': {permits: 8}}", "$.semaphores"),
        ("semaphores: {' a': {permits: 8}}", "$.semaphores"),
        ("semaphores: {a: {permits: eight}}", "$.semaphores.a.permits"),
        ("semaphores: {a: {permits: '8'}}", "$.semaphores.a.permits"),
        ("semaphores: {a: {permits: -1}}", "$.semaphores.a.permits"),
        ("semaphores: {a: {permits: 8.5}}", "$.semaphores.a.permits"),
        ("semaphores: {a: {permits: 2147483648}}", "$.semaphores.a.permits"),
        ("semaphores: {a: {permits: .inf}}", "$.semaphores.a.permits"),
        ("semaphores: {a: {permits: 8, lease: 30}}", "$.semaphores.a.lease"),
        ("semaphores: {a: {permits: 8, lease: 0}}", "$.semaphores.a.lease"),
        ("semaphores: {a: {permits: 8, lease: 5min}}", "$.semaphores.a.lease"),
        ("semaphores: {a: {permits: 8, max_waiters: 1000001}}", "$.semaphores.a.max_waiters"),
        ("semaphores: {a: {permits: 8, on_disconnect: 0}}", "$.semaphores.a.on_disconnect"),
        ("semaphores: {a: {permits: 8, on_disconnect: expire}}", "$.semaphores.a.on_disconnect"),
        ("defaults: {permits: 8}", "$.defaults"),
        ("defaults: {max_wait: -1s}", "$.defaults.max_wait"),
        ("pools: {a: {}}", "$.pools.a"),
        ("pools: {a: {size: 1, members: {}}}", "$.pools.a"),
        ("pools: {a: {size: 10001}}", "$.pools.a.size"),
        ("pools: {a: {size: 1, order: random}}", "$.pools.a.order"),
        ("pools: {a: {members: [x]}}", "$.pools.a.members"),
        ("pools: {a: {members: {x: {max_leases: 0}}}}", "$.pools.a.members.x.max_leases"),
        ("pools: {a: {members: {x: {tags: [y]}}}}", "$.pools.a.members.x.tags"),
        ("rate_limits: {a: {}}", "$.rate_limits.a"),
        ("rate_limits: {a: {rate: 100}}", "$.rate_limits.a.rate"),
        ("rate_limits: {a: {rate: 100/sec}}", "$.rate_limits.a.rate"),
        ("rate_limits: {a: {rate: 1/s, burst: 0}}", "$.rate_limits.a.burst"),
        ("rate_limits: {a: {rate: 1/s, windows: [1/s]}}", "$.rate_limits.a"),
        ("rate_limits: {a: {windows: [1/s], burst: 1}}", "$.rate_limits.a"),
        ("rate_limits: {a: {windows: []}}", "$.rate_limits.a.windows"),
        ("rate_limits: {a: {windows: [unlimited]}}", "$.rate_limits.a.windows[0]"),
        ("listen: []", "$.listen"),
        ("listen: 127.0.0.1:1", "$.listen"),
        ("listen: [7411]", "$.listen[0]"),
        ("listen: [localhost]", "$.listen[0]"),
        ("listen: [{mode: '0600'}]", "$.listen[0]"),
        ("listen: [{unix: x, mode: '0444'}]", "$.listen[0]"),
        ("admin: []", "$.admin"),
        ("admin: 7413", "$.admin"),
        ("admin: {mode: '0600'}", "$.admin"),
        ("clients:", "$.clients"),
        ("tls: {cert: a}", "$.tls"),
        ("insecure: yes", "$.insecure"),
        ("clients: {a: {}}", "$.clients.a"),
        ("clients: {a: {tokens: [secret]}}", "$.clients.a.tokens[0]"),
        ("clients: {a: {tokens: ['${H}'], verbs: [all]}}", "$.clients.a.verbs[0]"),
        ("http: 7412", "$.http"),
        ("http: false", "$.http"),
        ("http: {clients: true}", "$.http"),
        ("http: {address: off}", "$.http"),
        ("state: 3", "$.state"),
        ("drain_timeout: 10", "$.drain_timeout"),
        ("durability: disk", "$.durability"),
        ("audit: {policy: drop}", "$.audit"),
        ("audit: {file: a, events: leases and asks}", "$.audit"),
        ("audit: {file: a, max_size: 100M}", "$.audit"),
        ("tracing: 127.0.0.1:4317", "$.tracing"),
        ("tracing: true", "$.tracing"),
        ("tracing: 'http://otel:'", "$.tracing"),
        ("tracing: http://otel:0", "$.tracing"),
        ("tracing: http://otel?:4317", "$.tracing"),
        ("tracing: http://@otel:4317", "$.tracing"),
        ("tracing: {ratio: 2}", "$.tracing"),
        ("tracing: {endpoint: 'http://otel/v1/traces'}", "$.tracing"),
        ("max_client_series: unlimited", "$.max_client_series"),
        ("bounds: {streams: 9}", "$.bounds.streams"),
        ("bounds: {sessions: unlimited}", "$.bounds.sessions"),
    ],
)
def test_a_typical_mistake_is_underlined(text: str, where: str) -> None:
    """Once, at the place of the mistake."""
    assert where in mistakes(text)


def test_a_variable_is_no_name() -> None:
    """Variables stand for values alone."""
    assert not VALIDATOR.is_valid({"semaphores": {"${A}": {"permits": 8}}})


@pytest.mark.parametrize("name", ["404", "1.5", "on", "no", "null", "~", "1:30", "2026-11-29", "0x1f", "1_000", "="])
def test_a_name_that_yaml_may_read_as_something_else_is_refused_by_both(name: str) -> None:
    """An editor with a reader of YAML 1.1 sees no text there; in quotes both take it."""
    plain, quoted = f"semaphores: {{{name}: {{permits: 1}}}}", f"semaphores: {{'{name}': {{permits: 1}}}}"

    assert "put it in quotes" in complaints(plain)[0]
    assert complaints(quoted) == []
    assert VALIDATOR.is_valid(yaml.safe_load(quoted))
    if name != "=":  # PyYAML itself refuses that one
        assert [type(key) for key in yaml.safe_load(plain)["semaphores"]] != [str]


def test_every_key_is_explained() -> None:
    """An editor shows the text when the pointer rests on a key."""
    assert [where for where, schema in keys(SCHEMA) if not described(schema)] == []


def test_every_mapping_is_closed() -> None:
    """But for the attributes of a member, which are text."""
    definitions = SCHEMA["$defs"]
    assert isinstance(definitions, dict)

    closed = {name: _mapping(each)["additionalProperties"] for name, each in definitions.items()}
    assert closed.pop("Member") == {
        "title": "text of at most 4096 bytes",
        "anyOf": [
            {"type": ["string", "number", "boolean"], "maxLength": 4096},
            {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"},
        ],
    }
    assert set(closed.values()) == {False}


def test_defaults_and_examples_are_legal() -> None:
    """What an editor offers to insert can be inserted."""
    offered = 0
    for where, schema in keys(SCHEMA):
        for value in [*schema.get("examples", []), *([schema["default"]] if "default" in schema else [])]:
            part = VALIDATOR.evolve(schema={**schema, "$defs": SCHEMA["$defs"]})
            assert part.is_valid(value), (where, value)
            offered += 1
    assert offered > 30


def test_built_in_defaults_are_told_where_they_can_be_changed() -> None:
    """In `defaults` they are what holds without it; in a resource the default depends on the file."""
    definitions = SCHEMA["$defs"]
    assert isinstance(definitions, dict)
    terms = {"lease": "30s", "max_lease": "1d", "on_disconnect": "2s", "max_wait": "30s", "max_waiters": 1000}

    assert {key: definitions["Defaults"]["properties"][key]["default"] for key in terms} == terms
    assert not any("default" in definitions["Semaphore"]["properties"][key] for key in terms)


def keys(schema: object, where: str = "$") -> Iterator[tuple[str, dict[str, list[Json]]]]:
    """Every key that the schema knows, with its own part of it."""
    if isinstance(schema, dict):
        for name, part in schema.items():
            if name == "properties":
                yield from ((f"{where}.{key}", each) for key, each in part.items())
            yield from keys(part, f"{where}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from keys(part, where)


def described(schema: dict[str, list[Json]]) -> bool:
    """Whether there is something to show, here or where it refers to."""
    definitions = SCHEMA["$defs"]
    assert isinstance(definitions, dict)
    return "description" in definitions.get(str(schema.get("$ref")).removeprefix("#/$defs/"), schema)


def _mapping(schema: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    return schema["anyOf"][-1] if "anyOf" in schema else dict(schema)
