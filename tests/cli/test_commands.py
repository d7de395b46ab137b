"""The `governor` command as a whole: its help, its versions, its mistakes."""

import json
import platform
from importlib import metadata

import pytest

import governor
from governor.cli import commands
from governor.cli.exits import MEANING
from tests.cli.conftest import Run

NAMES = ("serve", "check", "schema", "status", "run", "acquire", "renew", "release", "health", "state", "version")


def test_help_lists_the_commands_as_they_are_met(run: Run) -> None:
    """From starting the daemon to asking what runs; each with a sentence that is not cut off."""
    page = run("--help").out
    listed = page[page.index("Commands:") : page.index("Exit codes:")].split("\n")[1:]
    listed = [line for line in listed if line.strip()]

    assert [line.split()[0] for line in listed] == list(NAMES)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)
    assert max(map(len, page.splitlines())) <= 80


def test_help_has_the_table_of_exit_codes(run: Run) -> None:
    """The same table that the code uses."""
    page = run("-h").out

    assert all(f"{code:>3}  {meaning}\n" in page for code, meaning in MEANING.items())


@pytest.mark.parametrize("name", NAMES)
def test_each_command_shows_an_example(run: Run, name: str) -> None:
    """And fits 80 columns."""
    ended = run(name, "--help")

    assert ended.exit == 0
    assert f"  governor {name}" in ended.out.split("Example")[1]
    assert max(map(len, ended.out.splitlines())) <= 80


def test_durations_are_explained_where_they_are_asked_for(run: Run) -> None:
    """With their units."""
    assert "250ms, 30s, 5m, 2h" in run("acquire", "--help").out


def test_version_says_what_runs_here(run: Run) -> None:
    """Of governor, Python and gRPC; the option is the short form."""
    record = json.loads(run("version", "-o", "json").out)

    assert record == {
        "version": governor.__version__,
        "python": platform.python_version(),
        "grpc": metadata.version("grpcio"),
    }
    assert all(version in run("version").out for version in record.values())
    assert run("--version").out == f"governor {governor.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["--frobnicate"], ["health", "surplus"], ["-o", "xml"]])
def test_mistakes_are_usage_errors(run: Run, arguments: list[str]) -> None:
    """Exit code 2, and where to look, on stderr."""
    ended = run(*arguments)

    assert (ended.exit, ended.out) == (2, "")
    assert "Usage: governor" in ended.err


def test_a_bug_is_called_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw keeps its traceback, and has an exit code that no script takes for an answer."""

    def fail(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(commands.governor.commands["version"], "callback", fail)
    ended = run("version")

    assert ended.exit == 70
    assert "RuntimeError: nobody thought of this" in ended.err
    assert "this is a bug" in ended.err


def test_shells_can_complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is the one that the completion scripts of click set."""
    monkeypatch.setenv("_GOVERNOR_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "governor st")
    monkeypatch.setenv("COMP_CWORD", "1")

    assert run().out == "plain,status\nplain,state\n"
