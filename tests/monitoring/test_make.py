"""`make monitoring`, from its start to Ctrl-C."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.monitoring.together import Places, Together, TogetherError
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
    assert said.endswith(f" --{taken} HOST:PORT")
    assert not folder.exists()


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
        finally:
            run.send_signal(ends)
            run.send_signal(signal.SIGINT)
        assert run.wait(_BOUND_S) == 0
    until(lambda: not any(map(_answers, where.values())), "all have ended")
