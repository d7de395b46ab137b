"""A daemon that knows its clients: the library, the command and a reload, each over real sockets."""

import json
from pathlib import Path

import pytest

from governor import Client, NotGranted, Unavailable
from governor.token import digest, new
from tests.cli.conftest import Ended
from tests.cli.process import forked, running
from tests.e2e.conftest import Start
from tests.e2e.process import Daemon, until
from tests.e2e.test_reload import edit

RESOURCES = "semaphores: {orders: {permits: 2}, mail: {permits: 1}}\n"

# What is granted just before a session is cut off comes back with it.
AT_ONCE = "defaults: {on_disconnect: release}\n" + RESOURCES


RIGHTS = {"orders": "orders", "mail": "mail", "boss": "'*'"}


def clients(**tokens: str) -> str:
    """The section: everybody by name and token; ``boss`` steps in."""
    lines = [f"  {name}: {{tokens: [{digest(token)}], verbs: [{_verbs(name)}]}}" for name, token in tokens.items()]
    return "\n".join(["clients:", *lines, ""])


def _verbs(name: str) -> str:
    return "admin" if name == "boss" else "acquire, read"


def command(daemon: Daemon, token: Path | None, *arguments: str, address: str = "") -> Ended:
    """Run to its end, with that token."""
    done = forked(
        *arguments, GOVERNOR_ADDRESS=address or daemon.address, GOVERNOR_TOKEN_FILE="" if token is None else str(token)
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Path]:
    """Files with the tokens of each."""
    made = {name: tmp_path / f"{name}.token" for name in ("orders", "mail", "boss")}
    for path in made.values():
        path.write_text(f"{new()}\n", encoding="utf-8")
    return made


def said(path: Path) -> str:
    """The token in a file."""
    return path.read_text(encoding="utf-8").strip()


def test_the_library_is_known_by_its_token(start: Start, tokens: dict[str, Path]) -> None:
    """Under the name that the config has for it; without one, or with another, it is told why it is not let in."""
    daemon = start(RESOURCES + clients(**{name: said(path) for name, path in tokens.items()}))
    with Client(daemon.address, name="whoever", token_file=tokens["orders"]) as gov, gov.acquire("orders", wait=0):
        listed = command(daemon, tokens["boss"], "leases", "-o", "json")
    with Client(daemon.address) as nobody, pytest.raises(Unavailable, match="not known who is asking"):
        nobody.acquire("orders", wait=0)
    with Client(daemon.address, token=new()) as stranger, pytest.raises(Unavailable, match="not known who is asking"):
        stranger.acquire("orders", wait=0)

    assert [lease["client"] for lease in json.loads(listed.out)["leases"]] == ["orders"]
    assert daemon.metric("governor_callers_refused_total", reason="unauthenticated") == 2


def test_a_token_is_changed_under_a_running_program(start: Start, tokens: dict[str, Path]) -> None:
    """When the old one is gone, the program comes back with the new one, and still holds its lease."""
    old, path = said(tokens["orders"]), tokens["orders"]
    daemon = start(RESOURCES + clients(orders=old))
    with Client(daemon.address, token_file=path) as gov, gov.acquire("orders", 2, wait=0) as lease:
        path.write_text(fresh := new(), encoding="utf-8")
        edit(daemon, RESOURCES + clients(orders=fresh))
        daemon.said(r"set clients\.orders\.tokens \(1 -> 1 \(1 added, 1 removed\)\)$")
        with gov.acquire("mail", wait=5):
            assert not lease.lost
        with Client(daemon.address, token=old) as late, pytest.raises(Unavailable):
            late.acquire("orders", wait=0)
    assert daemon.metric("governor_lease_ends_total", resource="orders", kind="semaphore", reason="released") == 1


def test_commands_do_what_their_token_may(start: Start, tokens: dict[str, Path]) -> None:
    """4 is the exit code for whoever may not; a lease of another client is not given back."""
    daemon = start(RESOURCES + clients(**{name: said(path) for name, path in tokens.items()}))
    granted = command(daemon, tokens["orders"], "acquire", "orders", "--wait", "0", "-o", "json")
    lease = str(json.loads(granted.out)["lease"])
    others = command(daemon, tokens["mail"], "release", lease)
    unknown = command(daemon, None, "status")
    by_port = command(daemon, tokens["boss"], "pause", "mail", address=daemon.addresses[1])
    not_boss = command(daemon, tokens["mail"], "pause", "mail")
    own = command(daemon, tokens["orders"], "release", lease)
    seen = command(daemon, tokens["boss"], "status", "-o", "json")

    assert (others.exit, "lease of another client" in others.err) == (4, True)
    assert (unknown.exit, "not known who is asking" in unknown.err) == (4, True)
    assert (not_boss.exit, by_port.exit, own.exit) == (4, 0, 0)
    assert {each["name"]: each["paused"] for each in json.loads(seen.out)["resources"]} == {
        "orders": False,
        "mail": True,
    }


@pytest.mark.parametrize("asks", [("run", "orders", "--", "true"), ("acquire", "orders")])
def test_who_may_not_is_told_so_by_each_command_alike(
    start: Start, tokens: dict[str, Path], tmp_path: Path, asks: tuple[str, ...]
) -> None:
    """On a session as by a call, what is in the way is not the address: no token, one of nobody's, one that may not."""
    daemon = start(RESOURCES + clients(mail=said(tokens["mail"]), boss=said(tokens["boss"])).replace("acquire, ", ""))
    stranger = tokens["orders"]
    nobody, unknown, reader = (command(daemon, token, *asks) for token in (None, stranger, tokens["mail"]))

    for told in (nobody, unknown, reader):
        assert (told.exit, told.out) == (4, "")
        assert "--address" not in told.err
    assert nobody.err.endswith("send the token of a client with the call; GOVERNOR_TOKEN_FILE names the file with it\n")
    assert unknown.err.startswith(
        f"governor: the daemon knows no client by the token in {stranger} (GOVERNOR_TOKEN_FILE)"
    )
    assert 'client "mail" may not acquire' in reader.err


def test_clients_are_declared_and_withdrawn_without_a_restart(start: Start, tokens: dict[str, Path]) -> None:
    """Whoever came before is asked then; a file that is refused changes nothing of it."""
    daemon = start(AT_ONCE)
    with Client(daemon.address, unavailable="raise") as gov:
        gov.acquire("orders", wait=0).release()
        edit(daemon, AT_ONCE + clients(orders=said(tokens["orders"])))
        daemon.said(r"set clients \(everybody -> orders\), clients\.orders \(none -> verbs ")
        with pytest.raises(Unavailable, match="not known who is asking"):
            until(lambda: gov.acquire("orders", wait=0) is None, "it is asked who it is")
    daemon.expect("reload refused")
    edit(daemon, AT_ONCE + "clients: {orders: {tokens: [not a digest]}}")
    assert "not a digest" not in daemon.said("reload refused")
    assert command(daemon, None, "status").exit == 4
    edit(daemon, AT_ONCE)
    daemon.said(r"set clients \(orders -> everybody\)")
    assert command(daemon, None, "status").exit == 0


def test_who_was_refused_what_and_why_is_told(
    start: Start, tokens: dict[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log, on the audit trail and by `governor watch`; a loop of it in few entries, which add up."""
    keys = "".join(
        f"  {name}: {{tokens: [{digest(said(path))}], verbs: [{_verbs(name)}], resources: [{RIGHTS[name]}]}}\n"
        for name, path in tokens.items()
    )
    daemon = start(f"audit: audit.jsonl\n{RESOURCES}clients:\n{keys}")
    monkeypatch.setenv("GOVERNOR_TOKEN_FILE", str(tokens["boss"]))
    with running("watch", "--what", "refused", "-o", "json", "--address", daemon.address) as watch:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["what"] == "watching"
        with Client(daemon.address, name="boss", token_file=tokens["mail"]) as gov:
            for _ in range(100):
                with pytest.raises(NotGranted, match='client "mail" may not acquire it') as caught:
                    gov.acquire("orders", wait=0)
                assert (caught.value.reason, caught.value.resource) == ("permission_denied", "orders")
        assert command(daemon, tokens["mail"], "pause", "mail").exit == 4
        assert "GOVERNOR_TOKEN_FILE names the file" in command(daemon, None, "acquire", "mail").err
        daemon.said(r'refused: client "mail" may not acquire it: orders$')
        daemon.said(r'refused: client "mail" may not step in \(PauseResource\): mail$')
        daemon.said(r"refused: a caller whom nobody knows from a unix socket")
        counted = sum(
            daemon.metric("governor_callers_refused_total", reason=reason)
            for reason in ("permission_denied", "unauthenticated", "client_limit")
        )
        daemon.end()
        watched = [json.loads(line) for line in watch.stdout]

    audited = [json.loads(line) for line in (folder / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    on_trail = [line for line in audited if line["what"] == "refused"]
    seen = [line for line in watched if line["what"] == "refused"]
    for lines in (on_trail, seen):
        assert sum(line.get("times") or 1 for line in lines) == counted >= 102
        assert len(lines) < counted
        assert {(line.get("client") or "", *line.get("resources", ()), line["reason"]) for line in lines} == {
            ("mail", "orders", "permission_denied"),
            ("mail", "mail", "permission_denied"),
            ("", "unauthenticated"),
        }
    assert not any(said(path) in f"{audited}{watched}{daemon.log}" for path in tokens.values())


def test_a_client_at_its_cap_is_told_so(start: Start, tokens: dict[str, Path]) -> None:
    """As not now, which it can wait out."""
    token = said(tokens["orders"])
    daemon = start(RESOURCES + f"clients: {{orders: {{tokens: [{digest(token)}], max_permits: 1}}}}\n")
    with Client(daemon.address, token=token) as gov:
        with gov.acquire("orders", wait=0), pytest.raises(NotGranted, match="1 permit at most") as caught:
            gov.acquire("mail", wait=0)
        gov.acquire("mail", wait=0).release()

    assert (caught.value.reason, caught.value.never) == ("client_limit", False)
