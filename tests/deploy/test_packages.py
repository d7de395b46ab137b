"""What is built and what is installed from it, each in an environment that has nothing else.

The wheel is made from the sdist, so whatever it needs is in there, too.
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

import governor
from tests.e2e.conftest import Start
from tests.e2e.process import BOUND, ROOT

_YAML: Final = "semaphores: {one: {permits: 1}}\n"
# For pip, which asks its index.
_INSTALLED_WITHIN_S: Final = 250.0
# An environment of its own does not see the checkout.
_CLEAN: Final = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _run(*command: str | Path, cwd: Path = ROOT, within: float = BOUND) -> str:
    run = subprocess.run(command, cwd=cwd, env=_CLEAN, capture_output=True, text=True, timeout=within, check=False)
    assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"
    return run.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source, packed and unpacked again."""
    folder = tmp_path_factory.mktemp("sdist")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as file:
        file.extractall(folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip installs."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=sdist)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _installed(folder: Path, what: str) -> Path:
    """The programs of a new environment that has this and what it needs, in the pinned versions."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python")
    constraints = ("--constraint", ROOT / "constraints.txt")
    _run(*pip, "install", "--quiet", "--no-compile", *constraints, what, within=_INSTALLED_WITHIN_S)
    return folder / "bin"


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install governord`: its programs."""
    return _installed(tmp_path_factory.mktemp("client"), str(wheel))


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install governord[daemon]`: its programs."""
    return _installed(tmp_path_factory.mktemp("daemon"), f"{wheel}[daemon]")


def test_the_wheel_has_all_that_is_no_python(wheel: Path) -> None:
    """The page, the defaults as a file, the contract, and that it is typed; no tests, and no other package."""
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        defaults = file.read("governor/default.yaml")
        contract = file.read("governor/v1/governor.proto")

    assert {
        "governor/http/page.html",
        "governor/py.typed",
        "governor/v1/admin.proto",
        "governor/v1/governor_pb2.pyi",
    } <= names
    assert defaults == (ROOT / "config/governor.yaml").read_bytes()
    assert contract == (ROOT / "proto/governor/v1/governor.proto").read_bytes()
    assert {name.partition("/")[0] for name in names} == {"governor", f"governord-{governor.__version__}.dist-info"}
    assert not [name for name in names if name.endswith((".pyc", "~")) or "/tests/" in name]


def test_every_module_of_the_checkout_is_in_the_wheel(wheel: Path) -> None:
    """Also those that git does not know yet."""
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if name.endswith(".py")}

    assert packed == {str(path.relative_to(ROOT)) for path in ROOT.glob("governor/**/*.py")}


def test_the_sdist_has_what_a_checkout_has(sdist: Path) -> None:
    """All that `make test` needs, and every picture and file that the README leads to."""
    for name in ("Makefile", "constraints.txt", "proto/generate.py", "tests/conftest.py", "deploy/Dockerfile"):
        assert (sdist / name).is_file(), name
    readme = (sdist / "README.md").read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", readme) if "://" not in link}
    assert not [link for link in links if not (sdist / link).exists()]


def test_the_library_alone_is_small(client: Path) -> None:
    """It needs four packages; the command says what it would need as well."""
    listing = _run(sys.executable, "-m", "pip", "--python", client / "python", "list", "--format=freeze")
    assert {line.partition("==")[0] for line in listing.split()} == {
        "governord",
        "h2",
        "hpack",
        "hyperframe",
        "protobuf",
    }

    command = subprocess.run(
        [client / "governor", "status"], env=_CLEAN, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert command.returncode == 2
    assert "pip install 'governord[daemon]'" in command.stderr


def test_the_daemon_serves_the_library(client: Path, whole: Path, start: Start) -> None:
    """Both as installed: it is healthy, shows its page, and lends to a program that has only the library."""
    unset = (f"--unset={name}" for name in os.environ if name.startswith("PYTHON"))
    daemon = start(_YAML, command=("env", *unset, str(whole / "governor"), "serve"))
    here = _run(whole / "python", "-P", "-c", "import governor; print(governor.__file__)").strip()
    assert Path(here).is_relative_to(whole.parent)

    assert _run(whole / "governor", "health", "--address", daemon.address) == "serving\n"
    assert "<title>governor" in daemon.page("/", {"Accept": "text/html"})[1]
    program = ROOT / "tests/client/bare.py"
    told = subprocess.run(
        [client / "python", "-P", program],
        env={**_CLEAN, "GOVERNOR_ADDRESS": daemon.address},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    works, packages, _ = told.stdout.splitlines()
    assert works == "True True"
    assert set(packages.split()) == {"governor", "google", "h2", "hpack", "hyperframe"}
    assert daemon.metric("governor_lease_ends_total", resource="one", reason="released") == 2
