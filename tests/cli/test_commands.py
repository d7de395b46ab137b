"""The `governor` command as a whole: its help, its versions, its mistakes."""

import json
import platform
from importlib import metadata

import click
import pytest

import governor
from governor.cli import commands
from governor.cli.commands import COMMANDS, SECTIONS
from governor.cli.exits import MEANING
from tests.cli.conftest import Run


@pytest.fixture
def context() -> click.Context:
    """What a command is looked up with."""
    return click.Context(commands.governor)


def test_help_lists_all_commands_by_what_one_wants(run: Run) -> None:
    """With a sentence for each that is not cut off, on a page of 80 columns."""
    page = run("--help").out
    listed = [
        line for line in page[page.index("\nThe daemon:") : page.index("Exit codes:")].split("\n") if line.strip()
    ]
    names = [line.split()[0] for line in listed if line.startswith("  ")]

    assert [line for line in listed if not line.startswith(" ")] == [f"{title}:" for title in SECTIONS]
    assert names == list(COMMANDS)
    assert all(line.endswith((".", ":")) and not line.endswith("...") for line in listed)
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says_of_itself(context: click.Context, name: str) -> None:
    """So that neither can go stale: the list is read without loading the commands."""
    command = commands.governor.get_command(context, name)

    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name].sentence


def test_help_has_the_table_of_exit_codes(run: Run) -> None:
    """The same table that the code uses."""
    page = run("-h").out

    assert all(f"{code:>3}  {meaning}\n" in page for code, meaning in MEANING.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_an_example(run: Run, name: str) -> None:
    """And fits 80 columns."""
    ended = run(name, "--help")

    assert ended.exit == 0
    assert f"  governor {name}" in ended.out.split("Example")[1]
    assert max(map(len, ended.out.splitlines())) <= 80


def _lines_of_commands(page: str) -> list[str]:
    """What a page says of each of the commands below."""
    listed = page.partition("\nCommands:\n")[2].partition("\n\n")[0]
    return [line for line in listed.split("\n") if line]


@pytest.mark.parametrize("name", ["state", "token"])
def test_commands_below_others_are_told_whole(run: Run, name: str) -> None:
    """Each with its sentence, which is not cut off; and each has a page that fits 80 columns."""
    listed = _lines_of_commands(run(name, "--help").out)
    pages = [run(name, line.split()[0], "--help").out for line in listed]

    assert len(listed) > 1
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)
    assert max(len(line) for page in pages for line in page.splitlines()) <= 80


def test_a_command_that_there_is_not_comes_with_a_guess(run: Run) -> None:
    """If there is one like it; what it would act on the terminal is shown."""
    near, far, odd = run("statu"), run("frobnicate"), run("\x1b[2J")

    assert near.err.endswith("\n\ngovernor: there is no command 'statu'; did you mean 'status'?\n")
    assert far.err.endswith("\n\ngovernor: there is no command 'frobnicate'\n")
    assert "\x1b" not in odd.err


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

    usage, hint, empty, said = ended.err.split("\n", 3)
    assert (ended.exit, ended.out) == (2, "")
    assert usage.startswith("Usage: governor")
    assert (hint.startswith("Try 'governor"), empty, said.startswith("governor: ")) == (True, "", True)


def test_a_bug_is_called_one(run: Run, context: click.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw keeps its traceback, and has an exit code that no script takes for an answer."""

    def fail(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    command = commands.governor.get_command(context, "version")
    assert command is not None
    monkeypatch.setattr(command, "callback", fail)
    ended = run("version")

    assert ended.exit == 70
    assert "RuntimeError: nobody thought of this" in ended.err
    assert "this is a bug" in ended.err
