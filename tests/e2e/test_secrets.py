"""Secrets that were planted, and all that comes out of a daemon and of its commands: none of them is in it.

What is planted: tokens, keys, what environment variables hold, attributes of members, labels, and what somebody has
pasted into a config where it does not belong. A command that is added fails here until it is asked, too.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from governor import Client, Unavailable
from governor.cli.commands import COMMANDS
from governor.cli.main import main
from governor.token import digest, new
from tests.certificates import Authority
from tests.e2e.conftest import starting
from tests.e2e.process import Daemon, serve_to_the_end, until

Out = Callable[..., str]

OF_THE_ENVIRONMENT: Final = "env-9f3kq2-never-shown"
UNRELATED: Final = "other-7c1xw8-of-the-environment"
ATTRIBUTE: Final = "attr-5b8zt4-of-a-member"
LABEL: Final = "labl-2d6ph9-of-a-client"
PASTED: Final = "gov_PaStEd0123456789abcdefghijklmnopqrstuvwxy"
URL: Final = "amqp://me:pw-4h7rm1@mq.internal:5672"
WORDS: Final = {"environment": OF_THE_ENVIRONMENT, "unrelated": UNRELATED, "attribute": ATTRIBUTE, "label": LABEL}

HEAD: Final = "listen: [unix:{folder}/governor.sock, tls://127.0.0.1:0]\ndrain_timeout: {drain}\n"
HTTP: Final = "http: {address: 127.0.0.1:0, clients: true}\n"


class Planted:
    """A daemon with all of that in it, and where it came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens = {name: new() for name in ("app", "boss", "reader")}
        self.files = {name: folder / f"{name}.token" for name in self.tokens}
        for name, path in self.files.items():
            path.write_text(self.tokens[name])
        self.authority = Authority(folder)
        self.pair = self.authority.certify("daemon", "localhost", "127.0.0.1")
        self.stray = folder / "stray.token"
        self.stray.write_text(self.wrong)

    wrong: Final = new()

    @property
    def yaml(self) -> str:
        """What it declares, in order."""
        verbs = {"app": "acquire", "boss": "admin", "reader": "read"}
        clients = "".join(
            f"  {name}: {{tokens: [{digest(token)}], verbs: [{verbs[name]}]}}\n" for name, token in self.tokens.items()
        )
        return (
            f"{HTTP}tls: {{cert: {self.pair.cert}, key: {self.pair.key}}}\naudit: {{file: audit.jsonl, events: all}}\n"
            f"clients:\n{clients}"
            "pools:\n  db:\n    members:\n"
            f'      one: {{dsn: "pg://app:${{DB_PASSWORD}}@db/orders", note: {ATTRIBUTE}, max_leases: 3}}\n'
            "semaphores: {jobs: {permits: 1}}\n"
        )

    @property
    def secrets(self) -> dict[str, str]:
        """By what each is; of keys, the lines that are nobody else's."""
        key = self.pair.key.read_text().splitlines()[1:-1]
        found = {f"token of {name}": token for name, token in self.tokens.items()}
        return found | WORDS | {f"line {at} of the key": line for at, line in enumerate(key)} | {"wrong": self.wrong}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Its files."""
    return Planted(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def daemon(planted: Planted) -> Iterator[Daemon]:
    """It holds a lease of a member, with a label; and somebody waits."""
    with pytest.MonkeyPatch.context() as patch, starting(planted.folder) as start:
        patch.setenv("DB_PASSWORD", OF_THE_ENVIRONMENT)
        patch.setenv("UNRELATED_SECRET", UNRELATED)
        made = start(planted.yaml, head=HEAD)
        with Client(made.address, token=planted.tokens["app"], labels={"password": LABEL}) as app:
            held = app.acquire({"db": 1, "jobs": 1}, wait=0)
            assert held.members[0].attributes["note"] == ATTRIBUTE
            yield made
            held.release()


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], planted: Planted, daemon: Daemon) -> Out:
    """All that a command says, as somebody whose token this is."""

    def governor(*arguments: str, who: str = "boss") -> str:
        monkeypatch.setenv("GOVERNOR_ADDRESS", daemon.address)
        monkeypatch.setenv("GOVERNOR_TOKEN_FILE", str(planted.files.get(who, planted.stray)))
        monkeypatch.setenv("DB_PASSWORD", OF_THE_ENVIRONMENT)
        monkeypatch.setattr("sys.argv", ["governor", *arguments])
        capsys.readouterr()
        main()
        said = capsys.readouterr()
        return said.out + said.err

    return governor


def leaked(planted: Planted, text: str, *, but: tuple[str, ...] = ()) -> list[str]:
    """Which of them are in it."""
    return [name for name, secret in planted.secrets.items() if secret in text and name not in but]


# With what each is asked; and what whoever steps in may see by it, since it is what he asks for.
ASKED: Final[dict[str, tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]]] = {
    "check": ((("check", "{config}"), ("check", "{bad}"), ("check", "{bad}", "-o", "json")), ()),
    "diff": ((("diff", "{config}"), ("diff", "{bad}"), ("diff", "{bad}", "-o", "json"), ("diff", "{changed}")), ()),
    "reload": ((("reload",), ("reload", "-o", "json")), ()),
    "schema": ((("schema",),), ()),
    "health": ((("health",), ("health", "-o", "json")), ()),
    "info": ((("info",), ("info", "-o", "json")), ()),
    "token": ((("token", "new", "--file", "{new}"),), ()),
    "state": ((("state", "check", "{state}"), ("state", "dump", "{state}"), ("state", "repair", "{state}")), ()),
    "renew": ((("renew", "1"), ("renew", "1", "-o", "json")), ()),
    "release": ((("release", "999"), ("release", "999", "-o", "json")), ()),
    "status": ((("status",), ("status", "-o", "json")), ()),
    "resource": ((("resource", "db"), ("resource", "db", "-o", "json")), ("attribute", "environment", "label")),
    "leases": ((("leases",), ("leases", "-o", "json")), ("label", "attribute", "environment")),
    "waiters": ((("waiters",), ("waiters", "-o", "json")), ("label",)),
    "sessions": ((("sessions",), ("sessions", "-o", "json")), ("label",)),
    "pause": ((("pause", "db"),), ()),
    "drain": ((("drain", "db"),), ()),
    "resume": ((("resume", "db"),), ()),
    "set": ((("set", "jobs", "permits=2", "--for", "1m"), ("set", "jobs", "--clear")), ()),
    "revoke": ((("revoke", "999"),), ()),
    "recycle": ((("recycle", "db"),), ()),
    "quarantine": ((("quarantine", "db", "one", "--for", "1m"),), ()),
    "restore": ((("restore", "db", "one"),), ()),
    "version": ((("version",), ("version", "-o", "json")), ()),
    "completion": ((("completion", "bash"),), ()),
}
# They go on until they are ended; are told as whoever is lent something; or are the daemon, below.
NOT_ASKED: Final = {"serve", "run", "acquire", "top", "watch"}


def test_every_command_is_asked() -> None:
    """Or it is said why not."""
    assert set(ASKED) | NOT_ASKED == set(COMMANDS)


def _places(planted: Planted, daemon: Daemon) -> dict[str, str]:
    bad, changed = planted.folder / "bad.yaml", planted.folder / "changed.yaml"
    bad.write_text(bad_yaml(planted))
    changed.write_text(
        daemon.config.read_text().replace(ATTRIBUTE, f"{ATTRIBUTE}-2").replace("permits: 1", "permits: 2")
    )
    return {
        "config": str(daemon.config),
        "bad": str(bad),
        "changed": str(changed),
        "new": str(planted.folder / f"new-{os.urandom(4).hex()}"),
        "state": str(daemon.state),
    }


def bad_yaml(planted: Planted) -> str:
    """A config into which secrets were pasted where they do not belong."""
    key = "".join(f"    {line}\n" for line in planted.pair.key.read_text().splitlines())
    return (
        f"clients:\n  app: {{tokens: [{PASTED}]}}\n  boss: {{tokens: {planted.tokens['boss']}}}\n  x: {PASTED}\n"
        f"tls:\n  cert: x\n  key: |\n{key}"
        f"semaphores: {{a: {{permits: {PASTED}}}, b: {{permits: ${{DB_PASSWORD}}}}, c: '{URL}'}}\n"
        f"rate_limits: {{d: {{rate: '${{DB_PASSWORD}}/s'}}}}\n"
        f"pools: {{e: {{members: {{m: '{URL}', n: {{dsn: ['{ATTRIBUTE}']}}}}}}}}\n"
        f"{PASTED}: 1\nstate: '~${{DB_PASSWORD}}'\nlisten: ['${{DB_PASSWORD}}', '{URL}']\n"
    )


PASTED_WORDS: Final = (PASTED, "pw-4h7rm1")


@pytest.mark.parametrize("command", sorted(ASKED))
@pytest.mark.parametrize("who", ["boss", "reader", "nobody"])
def test_no_command_tells_a_secret(planted: Planted, daemon: Daemon, out: Out, command: str, who: str) -> None:
    """Whoever asks: one who steps in, one who only reads, one whom nobody knows."""
    forms, seen_by_boss = ASKED[command]
    places = _places(planted, daemon)
    for form in forms:
        told = out(*(part.format(**places) for part in form), who=who)
        assert told, form
        assert leaked(planted, told, but=seen_by_boss if who == "boss" else ()) == [], (form, told)
        assert not [each for each in PASTED_WORDS if each in told], (form, told)


def test_no_page_tells_a_secret(planted: Planted, daemon: Daemon) -> None:
    """In whatever form, to whoever may read and to whoever may not; nothing that was sent comes back."""
    reader = {"Authorization": f"Bearer {planted.tokens['reader']}"}
    for headers in (reader, {"Authorization": f"Bearer {planted.wrong}"}, {}):
        for accept in ("*/*", "text/html", "application/openmetrics-text", "application/vnd.google.protobuf"):
            for path in ("/", "/metrics", "/-/healthy", "/-/ready", "/-/resources/db", f"/{planted.wrong}?q={LABEL}"):
                status, told = daemon.page(path, {**headers, "Accept": accept, "Cookie": LABEL, "Referer": LABEL})
                assert status in {200, 401, 404}
                assert leaked(planted, told) == [], path


def test_no_file_but_its_own_has_a_secret(planted: Planted, daemon: Daemon, out: Out) -> None:
    """Of tokens and keys, also the state has none; the audit file has no attribute and no label, either."""
    with Client(daemon.address, token=planted.wrong) as stranger, pytest.raises(Unavailable) as caught:
        stranger.acquire("db", wait=0)
    out("pause", "jobs", who="boss")
    out("resume", "jobs", who="boss")
    audit = planted.folder / "audit.jsonl"
    until(lambda: "resumed" in audit.read_text(), "it is on record")
    state = b"".join(path.read_bytes() for path in daemon.state.iterdir()).decode("latin-1")

    assert leaked(planted, audit.read_text() + str(caught.value)) == []
    # What members are must outlive a restart, and what holders said of themselves.
    assert leaked(planted, state, but=("attribute", "environment", "label")) == []


def test_a_reload_that_is_refused_tells_no_secret(planted: Planted, daemon: Daemon, out: Out) -> None:
    """Neither in the log nor to those who look."""
    good = daemon.config.read_text()
    daemon.expect("reload refused")
    daemon.config.write_text(bad_yaml(planted))
    try:
        told = out("reload", who="boss") + out("status", "-o", "json", who="reader")
        daemon.said("reload refused")
        assert leaked(planted, told + daemon.log) == []
        assert not [each for each in PASTED_WORDS if each in told + daemon.log]
    finally:
        daemon.config.write_text(good)
    assert "in force" in out("reload", who="boss")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_of_the_log_tells_a_secret(
    planted: Planted, form: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the start over all that befalls it to its death, and not as it crashes."""
    monkeypatch.setenv("DB_PASSWORD", OF_THE_ENVIRONMENT)
    monkeypatch.setenv("UNRELATED_SECRET", UNRELATED)
    file = folder / "governor.yaml"
    file.write_text(HEAD.format(folder=folder, drain="1s") + planted.yaml)
    daemon = Daemon(file, folder / "state", log_format=form)
    try:
        daemon.wait_until_it_serves()
        address = f"unix:{folder}/governor.sock"
        with Client(address, token=planted.tokens["app"], labels={"password": LABEL}) as app:
            app.acquire("db", wait=0)
            with Client(address, token=planted.wrong) as stranger, pytest.raises(Unavailable):
                stranger.acquire("db", wait=0)
            file.write_text(bad_yaml(planted))
            daemon.signal(signal.SIGHUP)
            daemon.said("reload refused")
            daemon.signal(signal.SIGABRT)
            daemon.exit_code()
    finally:
        daemon.kill()

    assert leaked(planted, daemon.log) == []
    assert not [each for each in PASTED_WORDS if each in daemon.log]


@pytest.mark.parametrize("harm", ["config", "key", "state"])
def test_a_start_that_fails_tells_no_secret(
    planted: Planted, harm: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config with mistakes, a key that is none, a state that is damaged."""
    monkeypatch.setenv("DB_PASSWORD", OF_THE_ENVIRONMENT)
    file, state = folder / "governor.yaml", folder / "state"
    good = HEAD.format(folder=folder, drain="1s") + planted.yaml
    match harm:
        case "config":
            file.write_text(bad_yaml(planted))
        case "key":
            torn = folder / "torn.key"
            torn.write_text(planted.pair.key.read_text().replace("-----END", "----END"))
            file.write_text(good.replace(str(planted.pair.key), str(torn)))
        case _:
            file.write_text(good)
            state.mkdir()
            (state / "state.db").write_bytes(b"x" * 5000)
    ended = serve_to_the_end(file, state)

    assert ended.code in {71, 78}
    assert leaked(planted, ended.stderr) == []
    assert not [each for each in PASTED_WORDS if each in ended.stderr]


def test_what_is_planted_would_be_found(planted: Planted, daemon: Daemon, out: Out) -> None:
    """The state has attributes, and whoever is told to sees them: so that none is found elsewhere means something."""
    told = out("state", "dump", "--secrets", str(daemon.state))

    assert set(leaked(planted, told)) == {"attribute", "environment"}
    assert json.loads(told)["leases"]
    assert set(leaked(planted, "".join(path.read_text() for path in planted.files.values()))) == {
        f"token of {name}" for name in planted.tokens
    }
