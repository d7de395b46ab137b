"""What a good file becomes, and what is said of one that cannot be read."""

import hashlib
import os
import stat
import sys
from pathlib import Path

import pytest

from governor.access import Client, Verb
from governor.address import TcpAddress, UnixAddress
from governor.auditing import AuditEvents, Auditing, AuditPolicy
from governor.bounds import Bounds
from governor.config import DEFAULT, ConfigError, Problem, load, loads
from governor.config.clients import asked_at
from governor.config.pages import Http
from governor.config.settings import at_next_start, at_once
from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND
from governor.durability import Durability, OnStoreError
from governor.tls import Tls
from governor.token import digest
from governor.tracing import Tracing
from governor.units import DAY, HOUR, MINUTE, Rate
from tests.config.reading import ENVIRON, complaints, config

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"
# Where relative paths start from in these tests.
ETC = Path("/etc/governor")


def resource(text: str) -> ResourceSpec:
    """The only resource of a file."""
    (only,) = config(text).resources
    return only


def limit(text: str) -> LimitSpec:
    """What the core is told of the only resource of a file."""
    return resource(text).limit


def test_what_a_file_does_not_say_has_a_default() -> None:
    """Everything has one that an ordinary user can have, and the state is nowhere near the checkout."""
    read = config("{}")

    assert read.listen == (TcpAddress("127.0.0.1", 7411),)
    assert read.http == Http(TcpAddress("127.0.0.1", 7412))
    assert config("{}", {}).state == Path("/var/lib/governor")
    assert config("{}", {"HOME": "/home/ada"}).state == Path("/home/ada/.local/state/governor")
    assert read.drain_timeout == 10 * SECOND
    assert read.durability is Durability.PROCESS
    assert read.restart_grace == 5 * SECOND
    assert read.on_store_error is OnStoreError.REFUSE
    assert read.audit is None
    assert read.tracing is None
    assert read.clients is None
    assert read.watch
    assert read.bounds == Bounds()
    assert read.max_client_series == 100
    assert read.resources == ()
    assert read.warnings == ()


def test_what_survives_is_said_in_words() -> None:
    """Each in one of its words, and no other."""
    read = config("{durability: power, restart_grace: 0, on_store_error: continue}")

    assert (read.durability, read.restart_grace) == (Durability.POWER, 0)
    assert read.on_store_error is OnStoreError.CONTINUE


@pytest.mark.parametrize(
    ("text", "audit"),
    [
        ("off", None),
        ("/var/log/a.jsonl", Auditing(Path("/var/log/a.jsonl"), AuditPolicy.DROP, AuditEvents.LEASES, 100 * 2**20, 5)),
        ("'off'", Auditing(ETC / "off")),
        ("{file: a.jsonl}", Auditing(ETC / "a.jsonl")),
        (
            "{file: a, policy: block, events: all, max_size: unlimited, keep: 1}",
            Auditing(ETC / "a", AuditPolicy.BLOCK, AuditEvents.ALL, None, 1),
        ),
        (
            "{file: a, policy: drop, events: operators, max_size: 1GB, keep: 1000}",
            Auditing(ETC / "a", AuditPolicy.DROP, AuditEvents.OPERATORS, 10**9, 1000),
        ),
    ],
)
def test_the_audit_trail_is_a_path_or_all_of_it(text: str, audit: Auditing | None) -> None:
    """Or none; a relative path starts from the folder of the file."""
    assert config(f"audit: {text}").audit == audit


@pytest.mark.parametrize(
    ("text", "tracing"),
    [
        ("off", None),
        ("on", Tracing()),
        ("{}", Tracing()),
        ("http://otel:4318", Tracing("http://otel:4318")),
        ("https://otel", Tracing("https://otel:4317")),
        ("http://[::1]:4317/", Tracing("http://[::1]:4317")),
        ("http://[::1]", Tracing("http://[::1]:4317")),
        ("http://10.0.0.1:04318/", Tracing("http://10.0.0.1:4318")),
        ("HTTPS://Otel_1.example", Tracing("https://Otel_1.example:4317")),
        ("{endpoint: 'http://otel', ratio: 0.05}", Tracing("http://otel:4317", 0.05)),
        ("{ratio: 1, service_name: permits, timeout: 3s}", Tracing("", 1.0, "permits", 3 * SECOND)),
        ("{ratio: 0}", Tracing(ratio=0.0)),
    ],
)
def test_where_spans_are_sent_is_a_url_or_all_of_it(text: str, tracing: Tracing | None) -> None:
    """Or a word, which leaves all of it to the environment."""
    assert config(f"tracing: {text}").tracing == tracing


@pytest.mark.parametrize(
    ("text", "environ", "tracing"),
    [
        ("{}", {}, None),
        ("{}", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel"}, None),
        ("{}", {"OTEL_TRACES_EXPORTER": "none"}, None),
        ("{}", {"OTEL_TRACES_EXPORTER": "otlp"}, Tracing()),
        ("{}", {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "True"}, None),
        ("tracing: off", {"OTEL_TRACES_EXPORTER": "otlp"}, None),
        ("tracing: on", {"OTEL_SDK_DISABLED": "true"}, None),
        ("tracing: on", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, Tracing()),
        (
            "tracing: on",
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            Tracing(),
        ),
    ],
)
def test_the_variables_of_opentelemetry_count(text: str, environ: dict[str, str], tracing: Tracing | None) -> None:
    """One switches it on where the file says nothing, one switches it off whatever the file says."""
    read = config(text, environ)

    assert read.tracing == tracing
    assert read.warnings == ()


def test_a_protocol_that_is_not_spoken_is_refused_where_the_file_asks_for_it() -> None:
    """And warned of where only the environment does: then nothing is traced."""
    environ = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    why = "spans are exported by grpc alone: set OTEL_EXPORTER_OTLP_PROTOCOL to grpc, or not at all"
    with pytest.raises(ConfigError, match=f"tracing: {why}"):
        config("tracing: on", environ)
    read = config("{}", environ)

    assert read.tracing is None
    assert read.warnings == (f"nothing is traced, though OTEL_TRACES_EXPORTER asks for it: {why}",)


def test_who_wants_traces_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenTelemetry is not."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"tracing: OpenTelemetry is not installed: .*governord\[daemon,otel\]"):
        config("tracing: http://127.0.0.1:4317")
    (warning,) = config("{}", {"OTEL_TRACES_EXPORTER": "otlp"}).warnings

    assert "governord[daemon,otel]" in warning


@pytest.mark.parametrize(("word", "watched"), [("true", True), ("false", False), ("'false'", False)])
def test_a_switch_is_true_or_false(word: str, watched: bool) -> None:  # noqa: FBT001
    """Whatever YAML makes of those words."""
    assert config(f"watch: {word}").watch is watched


def test_a_resource_has_the_terms_of_itself_then_of_defaults_then_built_in() -> None:
    """Each of the four on its own."""
    text = """
        defaults: {lease: 1m, max_wait: 0}
        semaphores:
          a: {permits: 1}
          b: {permits: 1, lease: 2m, max_lease: 3m, max_wait: 4m, max_waiters: 0}
    """
    a, b = config(text).resources

    assert a == ResourceSpec("a", SemaphoreSpec(1), MINUTE, DAY, 2 * SECOND, 0, 1000)
    assert b == ResourceSpec("b", SemaphoreSpec(1), 2 * MINUTE, 3 * MINUTE, 2 * SECOND, 4 * MINUTE, 0)


@pytest.mark.parametrize(
    ("terms", "lease", "max_lease"),
    [
        ("max_lease: 10s", 10 * SECOND, 10 * SECOND),
        ("max_lease: 10m", 30 * SECOND, 10 * MINUTE),
        ("lease: 1d", DAY, DAY),
        ("lease: 25h, max_lease: 25h", 25 * HOUR, 25 * HOUR),
    ],
)
def test_a_lease_that_is_not_written_gives_way(terms: str, lease: int, max_lease: int) -> None:
    """Who shortens max_lease need not repeat lease, in defaults as in a resource."""
    for text in (
        f"semaphores: {{a: {{permits: 1, {terms}}}}}",
        f"defaults: {{{terms}}}\nsemaphores: {{a: {{permits: 1}}}}",
    ):
        assert (resource(text).lease, resource(text).max_lease) == (lease, max_lease)


@pytest.mark.parametrize(
    ("text", "grace"),
    [
        ("", 2 * SECOND),
        ("release", 0),
        ("keep", None),
        ("1ms", MILLISECOND),
        ("1m30s", 90 * SECOND),
        ("3650d", 3650 * DAY),
    ],
)
@pytest.mark.parametrize("kind", ["semaphores: {a: {permits: 1", "pools: {a: {size: 1", "rate_limits: {a: {rate: 1/s"])
def test_what_becomes_of_a_lease_without_its_holder(kind: str, text: str, grace: int | None) -> None:
    """Of a resource of any kind, by itself or by the defaults; at a rate limit, which lends nothing, it is idle."""
    own, default = (f", on_disconnect: {text}", f"defaults: {{on_disconnect: {text}}}\n") if text else ("", "")

    assert resource(f"{kind}{own}}}}}").on_disconnect == grace
    assert resource(f"{default}{kind}}}}}").on_disconnect == grace


@pytest.mark.parametrize(("own", "grace"), [("keep", None), ("release", 0), ("5s", 5 * SECOND)])
def test_a_resource_overrules_what_defaults_say_of_its_leases(own: str, grace: int | None) -> None:
    """Also by keep, which is not the same as not to say anything."""
    for default in ("keep", "release", "1s"):
        text = f"defaults: {{on_disconnect: {default}}}\nsemaphores: {{a: {{permits: 1, on_disconnect: {own}}}}}"
        assert resource(text).on_disconnect == grace


@pytest.mark.parametrize(("text", "permits"), [("8", 8), ("0", 0), ("2147483647", 2**31 - 1), ("unlimited", None)])
def test_a_semaphore_counts_permits(text: str, permits: int | None) -> None:
    """None at all and no bound are both legal."""
    assert limit(f"semaphores: {{a: {{permits: {text}}}}}") == SemaphoreSpec(permits)


def test_a_slip_in_max_leases_makes_no_attribute() -> None:
    """A letter too few, too many, wrong, or two exchanged, at every place, however it is written otherwise.

    But for a wrong one at the end, which makes another word of it.
    """
    right = "max_leases"
    slips = {
        made
        for at in range(len(right) + 1)
        for made in (
            right[:at] + right[at + 1 :],
            f"{right[:at]}k{right[at:]}",
            f"{right[:at]}k{right[at + 1 :]}",
            right[:at] + right[at : at + 2][::-1] + right[at + 2 :],
        )
    } - {right, "max_leasek"}
    for slip in {*slips, *map(str.upper, slips), *(slip.replace("_", "-") for slip in slips)}:
        told = complaints(f"pools: {{p: {{members: {{a: {{{slip}: 3}}}}}}}}")
        assert told == [
            f"1: pools.p.members.a.{slip}: too much like max_leases to be an attribute: did you mean max_leases?"
        ], slip
    for attribute in (
        "max_leased",
        "max_releases",
        "max_lag",
        "max_phases",
        "leases",
        "max",
        "release",
        "max_idle",
        "endpoint",
    ):
        assert complaints(f"pools: {{p: {{members: {{a: {{{attribute}: 3}}}}}}}}") == []


def test_a_pool_has_members_with_attributes() -> None:
    """Attributes are text as it was written, in the order of the file; max_leases is none of them."""
    text = """
        pools:
          a:
            members:
              primary: {port: 5432, max_leases: 10, version: 1.10, enabled: on, note: "", zip: 0123}
              "1": {}
              replica:
            order: least_used
            quarantine: 2s
            max_quarantine: 1h
            max_lifetime: 1d
            idle_timeout: 500ms
    """
    attributes = (("port", "5432"), ("version", "1.10"), ("enabled", "on"), ("note", ""), ("zip", "0123"))
    members = (MemberSpec("primary", attributes, 10), MemberSpec("1"), MemberSpec("replica"))

    assert limit(text) == PoolSpec(members, Order.LEAST_USED, 2 * SECOND, HOUR, DAY, 500 * MILLISECOND)


def test_a_pool_may_just_have_a_size() -> None:
    """Then its members are numbered, from 1."""
    assert limit("pools: {a: {size: 3}}") == PoolSpec((MemberSpec("1"), MemberSpec("2"), MemberSpec("3")))


@pytest.mark.parametrize("text", ["{size: 0}", "{members: {}}"])
def test_a_pool_of_nothing_is_closed(text: str) -> None:
    """As a semaphore without permits is."""
    assert limit(f"pools: {{a: {text}}}") == PoolSpec(())


@pytest.mark.parametrize(
    ("text", "quarantine", "longest"),
    [
        ("", SECOND, MINUTE),
        (", quarantine: 5m", 5 * MINUTE, 5 * MINUTE),
        (", max_quarantine: 100ms", 100 * MILLISECOND, 100 * MILLISECOND),
        (", quarantine: 0", 0, MINUTE),
        (", max_quarantine: 0", 0, 0),
    ],
)
def test_a_quarantine_that_is_not_written_gives_way(text: str, quarantine: int, longest: int) -> None:
    """Who writes one of the two need not write the other."""
    spec = limit(f"pools: {{a: {{size: 1{text}}}}}")

    assert isinstance(spec, PoolSpec)
    assert (spec.quarantine, spec.max_quarantine) == (quarantine, longest)


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("rate: 100/s", (Window(100, SECOND, 100),)),
        ("rate: 100/s, burst: 20", (Window(100, SECOND, 20),)),
        ("rate: 10/30s, burst: 1", (Window(10, 30 * SECOND, 1),)),
        ("rate: 0/s", (Window(0, SECOND, 0),)),
        ("rate: 0/s, burst: 20", (Window(0, SECOND, 0),)),
        ("rate: unlimited", ()),
        ("rate: unlimited, burst: 20", ()),
        ("windows: [10/s, {rate: 1000/h, burst: 50}]", (Window(10, SECOND, 10), Window(1000, HOUR, 50))),
        ("windows: [{rate: 10/s}, 0/m]", (Window(10, SECOND, 10), Window(0, MINUTE, 0))),
    ],
)
def test_a_rate_limit_has_windows(text: str, windows: tuple[Window, ...]) -> None:
    """A burst that is not written is the number of the rate; a closed rate grants nothing, whatever its burst."""
    assert limit(f"rate_limits: {{a: {{{text}}}}}") == RateLimitSpec(windows)


def test_resources_keep_the_order_of_the_file_in_each_section() -> None:
    """Semaphores, pools, rate limits; names may be anything that can be printed."""
    text = """
        rate_limits: {z: {rate: 1/s}, y: {rate: 1/s}}
        pools: {b: {size: 1}, a b/&?c: {size: 1}}
        semaphores: {"Größe 🚀": {permits: 1}, "null": {permits: 1}, "1.5": {permits: 1}}
    """
    assert [each.name for each in config(text).resources] == ["Größe 🚀", "null", "1.5", "b", "a b/&?c", "z", "y"]


def test_variables_count_as_what_they_hold() -> None:
    """A lone variable is read as if its value stood there plainly; quotes around it are for the braces."""
    text = """
        listen: ["${POD_IP}:7411", "unix:${HOME}/x.sock"]
        insecure: true
        state: ${HOME}/state
        semaphores: {a: {permits: "${THUMBNAILS}", lease: "${THUMBNAILS}s"}}
        pools: {b: {members: {x: {dsn: "pg://me:${SECRET}@${DB_HOST}", raw: "$${SECRET}", none: "${EMPTY}"}}}}
    """
    read = config(text)
    a, b = read.resources

    assert read.listen == (TcpAddress("10.0.0.7", 7411), UnixAddress(Path("/home/me/x.sock")))
    assert read.state == Path("/home/me/state")
    assert (a.limit, a.lease) == (SemaphoreSpec(8), 8 * SECOND)
    attributes = (("dsn", "pg://me:hunter2@db1"), ("raw", "${SECRET}"), ("none", ""))
    assert b.limit == PoolSpec((MemberSpec("x", attributes),))


def test_what_a_variable_holds_is_data() -> None:
    """No braces, no comments and no line breaks of it are YAML."""
    held = "a: b\n- [c, {d}] # e ${HOME} *f !g"
    spec = limit_with({"HELD": held}, "pools: {a: {members: {x: {k: '${HELD}'}}}}")

    assert spec == PoolSpec((MemberSpec("x", (("k", held),)),))


def limit_with(environ: dict[str, str], text: str) -> LimitSpec:
    """The limit of the only resource, in an environment of its own."""
    (only,) = config(text, environ).resources
    return only.limit


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/x.sock", UnixAddress(Path("/run/x.sock"), 0o660)),
        ("unix:run/x.sock", UnixAddress(Path("/etc/governor/run/x.sock"))),
        ("unix:~/x.sock", UnixAddress(Path("/home/me/x.sock"))),
        ("{unix: /run/x.sock}", UnixAddress(Path("/run/x.sock"))),
        ("{unix: x.sock, mode: '0600'}", UnixAddress(Path("/etc/governor/x.sock"), 0o600)),
        ("{unix: /x, mode: 0666, owner: me, group: 100}", UnixAddress(Path("/x"), 0o666, "me", 100)),
        ("{unix: /x, mode: 700, owner: 0}", UnixAddress(Path("/x"), 0o700, 0)),
        ("'[::1]:7411'", TcpAddress("::1", 7411)),
        ("localhost:0", TcpAddress("localhost", 0)),
    ],
)
def test_what_is_listened_on(text: str, address: UnixAddress | TcpAddress) -> None:
    """By default a socket is for the daemon's own user and group; relative paths start at the file's folder."""
    assert config(f"listen: [{text}]").listen == (address,)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("unix:admin.sock", (UnixAddress(Path("/etc/governor/admin.sock")),)),
        ("{unix: /x, mode: '0600'}", (UnixAddress(Path("/x"), 0o600),)),
        ("[unix:/x, 'localhost:7413']", (UnixAddress(Path("/x")), TcpAddress("localhost", 7413))),
    ],
)
def test_operators_may_be_served_elsewhere(text: str, addresses: tuple[UnixAddress | TcpAddress, ...]) -> None:
    """At one address or several; without the key nothing is said of it."""
    assert config(f"admin: {text}").admin == addresses
    assert config("{}").admin == ()


def test_operators_over_tcp_are_warned_of() -> None:
    """Every process of the machine may connect there, whoever's it is."""
    (warning,) = config("admin: [unix:/x, 127.0.0.1:7413]").warnings

    assert "every user of this machine may step in at 127.0.0.1:7413" in warning


@pytest.mark.parametrize(
    ("text", "http"), [("off", None), ("'off'", None), ("localhost:80", TcpAddress("localhost", 80))]
)
def test_http_can_be_switched_off(text: str, http: TcpAddress | None) -> None:
    """With a word that an older YAML would have made a boolean."""
    assert config(f"http: {text}").http == (None if http is None else Http(http))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/var/lib/x", "/var/lib/x"),
        ("state", "/etc/governor/state"),
        ("../x", "/etc/governor/../x"),
        (".", "/etc/governor"),
        ("~/x", "/home/me/x"),
        ("~/", "/home/me"),
        ("x~/y", "/etc/governor/x~/y"),
        ("'~'", "/home/me"),
    ],
)
def test_a_path_starts_somewhere(text: str, path: str) -> None:
    """At the root, at the folder of the file, or at home."""
    assert config(f"state: {text}").state == Path(path)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_home_must_be_known_to_be_used(environ: dict[str, str]) -> None:
    """A service of the system may have none."""
    told = complaints("state: ~/x", environ)

    assert told == [
        '1: state: expected a path of at most 4096 bytes; found "~/x": HOME is not set, so ~ stands for nothing'
    ]


@pytest.mark.parametrize(
    ("listen", "warning"),
    [
        (
            "0.0.0.0:7411",
            (
                "other machines may reach 0.0.0.0:7411, and nobody is asked who they are: "
                "listen on 127.0.0.1, or let a firewall decide who gets through"
            ),
        ),
        (
            "{unix: /run/x.sock, mode: '0666'}",
            "every user of this machine may use unix:/run/x.sock, whose mode is 0666",
        ),
    ],
)
def test_what_is_open_to_everybody_is_warned_of(listen: str, warning: str) -> None:
    """It is legal, and more often meant for a moment than for good."""
    assert config(f"listen: [127.0.0.1:1, {listen}, '[::1]:1', unix:/x]\ninsecure: true").warnings == (warning,)


def test_a_socket_path_that_is_too_long_is_warned_of() -> None:
    """In bytes, a letter may be two. Whoever starts a daemon with it is refused by that."""
    long = "/run/" + "ö" * 52
    warning = "the path of a unix socket has at most 107 bytes, and this one has 109"

    assert config(f"listen: ['unix:{long}']").warnings == (f"unix:{long} cannot be listened on: {warning}",)
    assert config(f"listen: [{{unix: '{long[:-1]}'}}]").warnings == ()


def test_the_largest_config_is_read() -> None:
    """Two thousand resources, or a pool of a thousand members with attributes."""
    resources = "".join(f"  r{n}: {{permits: {n}}}\n" for n in range(2_000))
    members = "".join(f"      m{n}: {{endpoint: 'db{n}:5432', max_leases: 10}}\n" for n in range(1_000))

    assert len(config(f"semaphores:\n{resources}").resources) == 2_000
    spec = limit(f"pools:\n  p:\n    members:\n{members}")
    assert isinstance(spec, PoolSpec)
    assert spec.members[-1] == MemberSpec("m999", (("endpoint", "db999:5432"),), 10)


def test_more_than_that_is_refused() -> None:
    """Each bound is told with what was found."""
    resources = "".join(f"  r{n}: {{permits: {n}}}\n" for n in range(2_001))
    members = "".join(f"m{n}: , " for n in range(10_001))
    attributes = ", ".join(f"a{n}: 1" for n in range(65))
    pools = "".join(f"  p{n}: {{size: 1000}}\n" for n in range(101))

    assert complaints(f"semaphores:\n{resources}") == ["1: expected at most 2000 resources; found 2001"]
    assert complaints(f"pools: {{p: {{members: {{{members}}}}}}}") == [
        "1: pools.p.members: expected at most 1000 members; found 10001"
    ]
    assert complaints(f"pools: {{p: {{members: {{x: {{{attributes}}}}}}}}}") == [
        "1: pools.p.members.x: expected at most 64 keys; found 65"
    ]
    assert complaints(f"pools:\n{pools}") == [
        "1: pools: expected at most 100000 members in all pools together; found 101000"
    ]
    assert complaints(f"pools: {{p: {{members: {{x: {{k: {'ö' * 2049}}}}}}}}}") == [
        f'1: pools.p.members.x.k: expected text of at most 4096 bytes; found "{"ö" * 79}…": it has 4098 bytes'
    ]


def test_the_hash_is_of_the_bytes(tmp_path: Path) -> None:
    """So that any change of the file shows, and sha256sum says the same."""
    file = tmp_path / "governor.yaml"
    file.write_bytes(b"\xef\xbb\xbf# hello\r\n{}")

    assert load(file, {}).hash == hashlib.sha256(file.read_bytes()).hexdigest()
    assert config("{}").hash == hashlib.sha256(b"{}").hexdigest()


def test_a_file_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    """In the config as in its problems."""
    file = tmp_path / "governor.yaml"
    file.write_text("state: data")
    assert load(file, {}).source == str(file)
    assert load(file, {}).state == tmp_path / "data"

    file.write_text("\nstate: []")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    expected = "expected a path of at most 4096 bytes"
    assert caught.value.problems == (Problem(str(file), 2, "state", f"{expected}; found a list", expected),)


def test_relative_paths_start_where_the_link_is(tmp_path: Path) -> None:
    """A ConfigMap's file is a link into a folder that is another one after each update."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "governor.yaml").write_text("state: data")
    (tmp_path / "governor.yaml").symlink_to(Path("..2026") / "governor.yaml")

    assert load(tmp_path / "governor.yaml", {}).state == tmp_path / "data"


def test_relative_paths_of_mere_text_start_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As those of a program that reads from a pipe do."""
    monkeypatch.chdir(tmp_path)

    assert loads("state: data", source="-", environ={}).state == tmp_path / "data"


def test_half_a_character_in_mere_text_is_told() -> None:
    """Text can hold what no file can."""
    with pytest.raises(ConfigError) as caught:
        loads("a: \ud800", source="-", environ={})

    assert str(caught.value) == "-:1: this is not UTF-8 text: save the file as UTF-8"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.yaml", "there is no such file"),
        (".", "this is a folder: name the file in it"),
        ("file/x.yaml", "there is no such file: a part of its path is not a folder"),
        ("pipe", "it is not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("a\0b", "no file can have this name"),
        ("a\ud800b", "no file can have this name"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(name: str, message: str, tmp_path: Path) -> None:
    """Without a line, and a pipe that nobody writes to keeps nobody waiting."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name, {})

    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (None, "")
    assert problem.message.endswith(message)


def test_a_file_that_only_says_that_it_is_regular_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As /proc/kmsg, which has nothing to say for now."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(stat, "S_ISREG", lambda _mode: True)
    writer = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(ConfigError, match="it is not a regular file"):
            load(path, {})
    finally:
        os.close(writer)


def test_a_file_that_may_not_be_read_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Root may read everything, so the kernel's answer is given by hand."""

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "x.yaml", {})
    assert str(caught.value) == f"{tmp_path}/x.yaml: it cannot be read: permission denied"


def test_a_name_that_a_terminal_would_obey_is_written_out() -> None:
    """One problem is one line, whatever the file is called."""
    with pytest.raises(ConfigError) as caught:
        loads("[]", source="a\nb\x1b[0m.yaml", environ={})

    assert str(caught.value).startswith(r"a\nb\x1b[0m.yaml:1: expected")


@pytest.mark.parametrize("path", [DEFAULT, *sorted(EXAMPLES.glob("*.yaml"))], ids=lambda path: path.name)
def test_every_example_can_be_used_as_it_is(path: Path) -> None:
    """An example with a mistake in it teaches the mistake."""
    read = load(path, ENVIRON)

    assert read.resources
    assert read.warnings == ()


def test_the_default_starts_for_an_ordinary_user() -> None:
    """It needs no folder that only root can make, and nobody else can reach it."""
    read = load(DEFAULT, ENVIRON)

    assert read.listen == (TcpAddress("127.0.0.1", 7411),)
    assert read.http == Http(TcpAddress("127.0.0.1", 7412))
    assert read.state == Path("/home/me/.local/state/governor")


def test_the_default_says_what_holds_without_it() -> None:
    """Its comments promise that these are also the values of an absent key."""
    without = config("semaphores: {thumbnails: {permits: 4}}")
    read = load(DEFAULT, ENVIRON)

    assert read.drain_timeout == without.drain_timeout
    assert read.max_client_series == without.max_client_series
    assert read.resources[0] == without.resources[0]


def test_a_client_is_what_its_section_says() -> None:
    """With what holds where it says nothing; a section without clients is nobody, no section is everybody."""
    told = config(
        f"clients: {{a: {{tokens: [sha256:{'0' * 62}ff]}}, b: {{tokens: [sha256:{'1' * 64}], resources: [x-*, y],"
        " verbs: [admin], max_permits: 7, max_waiters: 0, max_lease: 5m, max_rate: 10/2s}}"
    ).clients

    assert told == (
        Client("a", (b"\0" * 31 + b"\xff",), frozenset({Verb.ACQUIRE, Verb.READ}), ("*",)),
        Client(
            "b",
            (b"\x11" * 32,),
            frozenset({Verb.ADMIN}),
            ("x-*", "y"),
            7,
            0,
            300 * SECOND,
            asked_at(Rate(10, 2 * SECOND)),
        ),
    )
    assert config("clients: {}").clients == ()


def test_whoever_knows_its_clients_is_not_told_that_nobody_is_asked() -> None:
    """Where tokens go in the clear, it is said that they do; a socket for operators asks nobody all the same."""
    listen = "insecure: true\nlisten: [0.0.0.0:7411, {unix: x, mode: '0666'}]"
    admin = "admin: [127.0.0.1:7413, {unix: y, mode: '0666'}]"
    known, unknown = config(f"{listen}\n{admin}\nclients: {{}}"), config(f"{listen}\n{admin}")

    assert len(unknown.warnings) == 4
    assert [warning.split(":")[0] for warning in known.warnings] == [
        "other machines may reach 0.0.0.0",
        "every user of this machine may use unix",
    ]
    assert "tokens can be read on the way" in known.warnings[0]


def _said(before: str, after: str) -> list[tuple[str, str, str]]:
    return [(each.name, each.before, each.after) for each in at_once(config(before), config(after))]


def test_a_change_of_clients_is_said_client_by_client() -> None:
    """Who is new or gone, and of the others the keys that have changed: nothing of who is as before."""
    one, two, three = (digest(text) for text in ("one", "two", "three"))
    same = f"same: {{tokens: [{three}]}}"
    old = (
        f"clients: {{a: {{tokens: [{one}], max_permits: 3, max_rate: 9/s}}, gone: {{tokens: [{digest('4')}]}}, {same}}}"
    )
    new = (
        f"clients: {{{same}, a: {{tokens: [{one}, {two}], verbs: [acquire], max_permits: 4}}, "
        f"new: {{tokens: [{digest('5')}], max_waiters: 2, max_lease: 5m}}}}"
    )

    assert _said(old, new) == [
        ("clients.a.verbs", "acquire read", "acquire"),
        ("clients.a.tokens", "1", "2 (1 added, 0 removed)"),
        ("clients.a.max_permits", "3", "4"),
        ("clients.a.max_rate", "9/1s", ""),
        ("clients.gone", "verbs acquire read, resources *, tokens 1", ""),
        ("clients.new", "", "verbs acquire read, resources *, tokens 1, max_waiters 2, max_lease 5m"),
    ]


def test_tokens_that_change_places_with_others_are_counted_and_not_shown() -> None:
    """Not even their digests. In another order they are the same."""
    one, two, three = (digest(text) for text in ("one", "two", "three"))
    said = _said(f"clients: {{a: {{tokens: [{one}, {two}]}}}}", f"clients: {{a: {{tokens: [{three}, {one}]}}}}")

    assert said == [("clients.a.tokens", "2", "2 (1 added, 1 removed)")]
    assert not _said(f"clients: {{a: {{tokens: [{one}, {two}]}}}}", f"clients: {{a: {{tokens: [{two}, {one}]}}}}")


def test_that_everybody_may_ask_or_no_more_is_said_first() -> None:
    """By names, of which a few; and what each of those may do who may now."""
    token = digest("the token")
    few = f"clients: {{a: {{tokens: [{token}]}}}}"
    many = f"clients: {{{', '.join(f'c{number}: {{tokens: [{digest(str(number))}]}}' for number in range(30))}}}"

    assert _said("{}", "clients: {}") == [("clients", "everybody", "nobody")]
    assert _said("{}", few) == [
        ("clients", "everybody", "a"),
        ("clients.a", "", "verbs acquire read, resources *, tokens 1"),
    ]
    assert _said(many, "{}") == [
        ("clients", f"{', '.join(f'c{number}' for number in range(20))}, and 10 more", "everybody")
    ]


@pytest.mark.parametrize(
    ("clients", "warned"), [("", True), ("clients: {}", False), ("clients: {a: {sans: [a.internal]}}", False)]
)
def test_where_tls_is_spoken_only_strangers_are_warned_of(clients: str, *, warned: bool) -> None:
    """Other machines may reach it, and nobody can read what they say there."""
    read = config(f"listen: ['tls://0.0.0.0:7411', 127.0.0.1:7413]\ntls: {{cert: a, key: /b, client_ca: c}}\n{clients}")

    assert read.listen[0] == TcpAddress("0.0.0.0", 7411, tls=True)  # noqa: S104 - nothing listens here
    assert (read.tls, read.insecure) == (Tls(ETC / "a", Path("/b"), ETC / "c"), False)
    assert bool(read.warnings) is warned


@pytest.mark.parametrize(
    ("listed", "guess"),
    [
        ("thumbnals", "there is no resource thumbnals: did you mean thumbnails?"),
        ("Thumbnails", "there is no resource Thumbnails: did you mean thumbnails?"),
        ("thumbnails", None),
        ("thumbnal*", None),
        ("reports", None),
        ("${NAME}", None),
        ("gov_" + "thumbnails" * 5, None),
        ("t" * 65, None),
    ],
)
def test_a_resource_of_a_client_that_is_much_like_another_is_warned_of(listed: str, guess: str | None) -> None:
    """It may be declared later, so it is legal; what a variable held is shown nowhere, nor what looks like a secret."""
    text = (
        "semaphores: {thumbnails: {permits: 1}}\n"
        f"clients: {{a: {{tokens: ['{digest('a')}'], resources: [x-*, '{listed}']}}}}"
    )
    read = config(text, {**ENVIRON, "NAME": "thumbnals"})

    assert read.warnings == ((f"clients.a.resources[1]: {guess}",) if guess else ())


def test_no_more_names_are_compared_than_a_start_has_time_for() -> None:
    """However many resources there are, and clients with names like theirs."""
    names = ", ".join(f"resource-{number:04}: {{permits: 1}}" for number in range(2000))
    listed = ", ".join(f"resource-{number:04}x" for number in range(16))
    clients = ", ".join(
        f"c{number}: {{tokens: ['{digest(str(number))}'], resources: [{listed}]}}" for number in range(20)
    )

    assert len(config(f"semaphores: {{{names}}}\nclients: {{{clients}}}").warnings) == 5


def test_a_change_of_certificates_is_said_by_their_files() -> None:
    """It takes effect at the next start; what is in the files, at once."""
    head = "listen: ['tls://127.0.0.1:1']"
    before = config(f"{head}\ntls: {{cert: /a, key: /b}}")
    after = config(f"{head}\ntls: {{cert: /a, key: /b, client_ca: /c}}")

    assert [(each.before, each.after) for each in at_next_start(before, after)] == [
        ("cert /a key /b", "cert /a key /b client_ca /c")
    ]


@pytest.mark.parametrize(
    ("http", "warned"),
    [
        ("tls://0.0.0.0:7412", "nobody is asked who they are"),
        ("{address: '0.0.0.0:7412', insecure: true}", None),
        ("{address: '0.0.0.0:7412', insecure: true, clients: true}", "tokens can be read on the way"),
        ("{address: 'tls://0.0.0.0:7412', clients: true}", None),
        ("{address: 127.0.0.1:7412}", None),
    ],
)
def test_pages_that_others_may_read_are_warned_of(http: str, warned: str | None) -> None:
    """As any address is, unless it is said of them alone that something else keeps others from them."""
    read = config(f"http: {http}\nlisten: ['tls://127.0.0.1:1']\ntls: {{cert: a, key: b}}\nclients: {{}}")

    assert [f"{warned}:" in warning for warning in read.warnings] == ([True] if warned else [])


def test_a_change_of_what_is_traced_is_said() -> None:
    """It takes effect at the next start."""
    files = ["{}", "tracing: on", "tracing: {endpoint: 'http://otel', ratio: 0.05, service_name: permits, timeout: 3s}"]
    nothing, before, after = [config(file) for file in files]

    assert [(each.before, each.after) for each in at_next_start(nothing, before)] == [("off", "on")]
    assert [(each.before, each.after) for each in at_next_start(before, after)] == [
        ("on", "http://otel:4317 ratio 0.05 service_name permits timeout 3s")
    ]


def test_a_change_of_who_reads_is_said() -> None:
    """It takes effect at the next start."""
    before, after = config("clients: {}"), config("clients: {}\nhttp: {address: 127.0.0.1:7412, clients: true}")

    assert [(each.before, each.after) for each in at_next_start(before, after)] == [
        ("127.0.0.1:7412", "127.0.0.1:7412 clients")
    ]
