"""`make monitoring`, from its start to Ctrl-C."""

import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.monitoring.together import Places, Together, TogetherError, this_python
from tests.e2e.process import until
from tests.ports import own_addresses

_ROOT: Final = Path(__file__).parents[2]
_BOUND_S: Final = 120.0


_NAMES: Final = ("grpc", "http", "prometheus")


@pytest.fixture
def own() -> Iterator[list[str]]:
    """Where the three may listen."""
    with own_addresses(len(_NAMES)) as addresses:
        yield addresses


def _answers(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _shown(hint: str) -> str:
    """What is said to whoever pastes a command."""
    return subprocess.run(shlex.split(hint), cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize("taken", ["grpc", "http", "prometheus"])
def test_a_port_that_is_taken_is_said_before_anything_is_started(taken: str, tmp_path: Path, own: list[str]) -> None:
    """Whoever has it may well be another daemon, which would answer as if all were well."""
    folder = tmp_path / "together"
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = dict(zip(_NAMES, own, strict=True))
        where[taken] = f"127.0.0.1:{other.getsockname()[1]}"
        with (
            pytest.raises(TogetherError) as error,
            Together(Places(folder, where["grpc"], where["http"], where["prometheus"])),
        ):
            pass
    said = str(error.value)

    assert said.startswith(f"nothing was started: {where[taken]}: Address already in use; ")
    # With the Python that has all that it needs, whatever environment is active where it is typed.
    assert said.endswith(f"; another: {this_python()} -m deploy.monitoring --{taken} HOST:PORT")
    assert not folder.exists()


def test_a_command_with_the_python_of_a_checkout_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the README has it; one of elsewhere is named whole, and what a shell would take apart is quoted."""
    monkeypatch.chdir(tmp_path)
    told = []
    for program in (tmp_path / ".venv" / "bin" / "python", Path("/opt/a b/bin/python3")):
        monkeypatch.setattr(sys, "executable", str(program))
        told.append(this_python())

    assert told == [".venv/bin/python", "'/opt/a b/bin/python3'"]


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_where_to_look_and_ends_everything(
    program: Callable[[str], str], tmp_path: Path, own: list[str], ends: signal.Signals
) -> None:
    """Nothing of it listens any more, and it exits as if all had been well; however impatient somebody is."""
    program("prometheus")
    where = dict(zip(_NAMES, own, strict=True))
    command = [sys.executable, "-m", "deploy.monitoring", "--folder", str(tmp_path)]
    command += [each for name, address in where.items() for each in (f"--{name}", address)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        told = [line for line, _ in zip(iter(run.stdout.readline, ""), range(4), strict=False)]
        try:
            assert f"http://{where['http']}/metrics" in told[0]
            assert f"http://{where['prometheus']}/alerts" in told[1]
            assert str(tmp_path) in told[3]
            assert all(map(_answers, where.values()))
            if ends is signal.SIGINT:
                assert _shown(told[0].partition(": ")[2]).split()[:2] == ["NAME", "KIND"]
        finally:
            run.send_signal(ends)
            run.send_signal(signal.SIGINT)
        assert run.wait(_BOUND_S) == 0
    until(lambda: not any(map(_answers, where.values())), "all have ended")
