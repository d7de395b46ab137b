"""`governor token`, and what commands do with the token that the environment names."""

import json
import re
import stat
from io import StringIO
from pathlib import Path

import pytest

from governor import token
from tests.cli.conftest import Fake, Run

DIGEST = re.compile(r"sha256:[0-9a-f]{64}\n")


def test_a_new_token_is_in_its_file_alone(run: Run, tmp_path: Path) -> None:
    """For nobody but its owner; what is printed is for the config."""
    path = tmp_path / "token"
    made = run("token", "new", "--file", str(path))
    written = path.read_text()

    assert (made.exit, made.err) == (0, "")
    assert DIGEST.fullmatch(made.out)
    assert made.out.strip() == token.digest(written.strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch(r"gov_[\w-]{43}\n", written)


def test_no_two_are_alike(run: Run, tmp_path: Path) -> None:
    """Programs get the digest and the file as JSON."""
    told = [json.loads(run("token", "new", "--file", str(tmp_path / name), "-o", "json").out) for name in "ab"]

    assert [each["file"] for each in told] == [str(tmp_path / name) for name in "ab"]
    assert told[0]["digest"] != told[1]["digest"]


def test_a_file_that_is_there_is_left_alone(run: Run, tmp_path: Path) -> None:
    """It may be the token that a program uses."""
    path = tmp_path / "token"
    path.write_text("mine")
    done = run("token", "new", "--file", str(path))

    assert (done.exit, path.read_text()) == (2, "mine")
    assert "is there already" in done.err


@pytest.mark.parametrize("said", ["x" * 32, f"  {'x' * 32}\r\n", f"{'x' * 32}\nmore"])
def test_the_digest_of_a_token_that_is_there(run: Run, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """From its first line on stdin, without the white space around it."""
    monkeypatch.setattr("sys.stdin", StringIO(said))
    assert run("token", "hash").out == f"{token.digest('x' * 32)}\n"


@pytest.mark.parametrize("said", ["", "\n", "hunter2", "hunter2 " * 8, "ä" * 40])
def test_what_can_be_guessed_is_refused_and_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Others can read the digest, and try words."""
    monkeypatch.setattr("sys.stdin", StringIO(said))
    done = run("token", "hash")

    assert (done.exit, done.out) == (2, "")
    assert not said.strip() or said.strip() not in done.err


def test_the_digest_of_a_token_in_a_file(run: Run, tmp_path: Path) -> None:
    """As a client reads it; what is wrong with it is said with the name of the file, and without the token."""
    path = tmp_path / "orders.token"
    path.write_text(f"{'x' * 32}\n")
    assert run("token", "hash", str(path)).out == f"{token.digest('x' * 32)}\n"
    for text in ("", "hunter2", "hunter2 " * 8):
        path.write_text(text)
        done = run("token", "hash", str(path))
        assert (done.exit, done.out) == (2, "")
        assert str(path) in done.err
        assert "hunter2" not in done.err


def test_a_token_in_the_place_of_its_file_is_not_shown(run: Run) -> None:
    """It is on the command line already; it need not get into a log as well."""
    made = token.new()
    done = run("token", "hash", made)

    assert (done.exit, done.out) == (2, "")
    assert "no such file" in done.err
    assert made not in done.err


def test_calls_carry_the_token(run: Run, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the file that the environment names, to a socket and to loopback; also the calls of operators."""
    heard: list[list[str | bytes]] = []
    note = fake.script._note

    def noted(request: object, context: object) -> None:
        metadata = context.invocation_metadata()  # type: ignore[attr-defined]
        heard.append([value for key, value in metadata if key == "authorization"])
        note(request, context)  # type: ignore[arg-type]

    monkeypatch.setattr(fake.script, "_note", noted)
    path = tmp_path / "token"
    path.write_text("the-token\n")
    run("status", "--address", fake.address)
    monkeypatch.setenv("GOVERNOR_TOKEN_FILE", str(path))
    for address in (fake.address, fake.tcp):
        assert run("status", "--address", address).exit == 0

    assert heard == [[], ["Bearer the-token"], ["Bearer the-token"]]


@pytest.mark.parametrize(("text", "why"), [(None, "No such file"), ("", "nothing in it"), ("a b", "one word")])
def test_a_file_without_a_token_is_said(
    run: Run, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, why: str
) -> None:
    """With its name, and without what is in it."""
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("GOVERNOR_TOKEN_FILE", str(path))
    done = run("status", "--address", fake.address)

    assert done.exit == 2
    assert str(path) in done.err
    assert why in done.err


def test_a_token_does_not_leave_the_machine_in_the_clear(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is on the way could use it."""
    path = tmp_path / "token"
    path.write_text("the-token")
    monkeypatch.setenv("GOVERNOR_TOKEN_FILE", str(path))
    monkeypatch.setattr("governor.cli.connection.reach", lambda _where: None)
    done = run("status", "--address", "192.0.2.1:7411")

    assert done.exit == 2
    assert "not sent in the clear to 192.0.2.1:7411" in done.err
    assert "the-token" not in done.err
