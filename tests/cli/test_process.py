"""What only a process of its own shows: signals, broken pipes, encodings, and what start-up costs."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import metadata
from pathlib import Path

import click
import pytest

from governor.cli.commands import COMMANDS
from governor.v1 import governor_pb2 as pb
from tests.cli.conftest import Fake
from tests.cli.process import BOUND, COMMAND, ROOT, ended, running


@contextmanager
def nobody() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


@contextmanager
def full() -> Iterator[int]:
    """A disk without any room."""
    with Path("/dev/full").open("w") as device:
        yield device.fileno()


def test_ctrl_c_leaves_the_line_quietly(fake: Fake) -> None:
    """It dies of it, which is 130 to a shell, without a word, and the daemon sees the call end while it is in line."""
    fake.script.hold.clear()
    with running("acquire", "thumbnails", "--address", fake.address) as process:
        assert fake.script.arrived.wait(BOUND)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)

    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")
    assert fake.script.left.wait(BOUND)


def test_a_killed_acquire_leaves_the_line(fake: Fake) -> None:
    """Whatever ends the process ends its connection, and with it the ask."""
    fake.script.hold.clear()
    with running("acquire", "thumbnails", "--address", fake.address) as process:
        assert fake.script.arrived.wait(BOUND)
        process.kill()

    assert fake.script.left.wait(BOUND)


@pytest.mark.parametrize("command", ["status", "status -o json", "version", "-h", "status -h", "--version"])
def test_a_reader_that_went_away_is_no_error(fake: Fake, command: str) -> None:
    """Not a word, and the exit code of a program that SIGPIPE ended."""
    with nobody() as pipe:
        run = ended(*command.split(), stdout=pipe, GOVERNOR_ADDRESS=fake.address)

    assert (run.returncode, run.stderr) == (141, "")


@pytest.mark.parametrize("command", ["status", "version", "-h"])
def test_a_full_disk_is_one_line(fake: Fake, command: str) -> None:
    """The output is lost, which must not look like success."""
    with full() as device:
        run = ended(command, stdout=device, GOVERNOR_ADDRESS=fake.address)

    assert (run.returncode, run.stderr) == (74, "governor: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(("sink", "code"), [(nobody, 141), (full, 74)], ids=["pipe", "disk"])
def test_a_lease_that_nobody_heard_of_is_given_back(
    fake: Fake, sink: Callable[[], AbstractContextManager[int]], code: int
) -> None:
    """The id could not be printed, so the permits would be stuck for the whole lease."""
    fake.script.acquired = pb.AcquireResponse(lease=pb.Lease(id=17))
    with sink() as stdout:
        run = ended("acquire", "thumbnails", stdout=stdout, GOVERNOR_ADDRESS=fake.address)

    assert run.returncode == code
    assert fake.script.asked[-1] == pb.ReleaseRequest(lease_ids=[17])


@pytest.mark.parametrize("command", ["status", "acquire thumbnails"])
def test_a_closed_output_is_one_line(fake: Fake, command: str) -> None:
    """As a full disk is, and a lease that nobody heard of is given back."""
    fake.script.acquired = pb.AcquireResponse(lease=pb.Lease(id=17))
    line = f'"{sys.executable}" -m governor.cli --address {fake.address} {command} >&-'
    run = subprocess.run(["sh", "-c", line], timeout=BOUND, check=False, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    assert (run.returncode, run.stderr) == (74, "governor: [Errno 9] standard output is closed\n")
    if command != "status":
        assert fake.script.asked[-1] == pb.ReleaseRequest(lease_ids=[17])


def test_without_any_output_the_exit_code_still_speaks() -> None:
    """As under a supervisor that closes all files."""
    line = f'"{sys.executable}" -m governor.cli status --address unix:/nonexistent >&- 2>&-'

    assert subprocess.run(["sh", "-c", line], timeout=BOUND, check=False, cwd=ROOT).returncode == 3


def on_terminal(*arguments: str, width: int, **environment: str) -> str:
    """What `governor` writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            run = ended(*arguments, stdout=theirs, **environment)
            assert (run.returncode, run.stderr) == (0, "")
        finally:
            os.close(theirs)
        written = b""
        # Linux ends it with an error once nobody has the other side open.
        with suppress(OSError):
            while piece := terminal.read(4096):
                written += piece
    return written.decode().replace("\r\n", "\n")


def test_a_terminal_gets_a_table_that_fits(fake: Fake) -> None:
    """A bold header unless NO_COLOR is set, and a name that is too long for its column on a line of its own."""
    fake.script.resources = [
        pb.Resource(name="thumbnails", kind="semaphore", capacity=8, available=8),
        pb.Resource(name="tenants/eu-west-1/exports", kind="semaphore", capacity=2, available=2),
    ]
    bold = on_terminal("status", width=80, GOVERNOR_ADDRESS=fake.address)
    plain = on_terminal("status", width=80, GOVERNOR_ADDRESS=fake.address, NO_COLOR="1")
    wide = on_terminal("status", width=120, GOVERNOR_ADDRESS=fake.address, NO_COLOR="1")

    assert plain.splitlines() == [
        "NAME        KIND       CAPACITY  IN USE  AVAILABLE  WAITERS  OLDEST  LEASES",
        "thumbnails  semaphore         8       0          8        0       -       0",
        "tenants/eu-west-1/exports",
        "            semaphore         2       0          2        0       -       0",
    ]
    assert bold.startswith("\x1b[1mNAME")
    assert click.unstyle(bold) == plain
    assert "tenants/eu-west-1/exports  semaphore" in wide


def test_a_name_that_the_terminal_cannot_show_is_escaped(fake: Fake) -> None:
    """An encoding without the characters ends no command, and loses nothing."""
    fake.script.resources = [pb.Resource(name="資源", kind="semaphore", capacity=1, available=1)]
    run = ended("status", GOVERNOR_ADDRESS=fake.address, PYTHONIOENCODING="latin-1")

    assert (run.returncode, run.stderr) == (0, "")
    assert "\\u8cc7\\u6e90" in run.stdout


def test_bytes_that_are_no_text_are_a_usage_error() -> None:
    """A shell passes any bytes on; the wire takes UTF-8 only."""
    run = subprocess.run([*COMMAND, "acquire", b"\xff\xfe"], capture_output=True, timeout=BOUND, check=False, cwd=ROOT)

    assert run.returncode == 2
    assert b"not valid UTF-8" in run.stderr


def imported_by(statement: str) -> set[str]:
    """The modules that are loaded once ``statement`` has run in a new interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
        cwd=ROOT,
    )
    return set(run.stdout.splitlines()[-1].split())


def test_a_command_pays_only_for_what_it_uses() -> None:
    """Of the commands the one that is called, and none of what only others need."""
    ask = "import sys; sys.argv = ['governor', 'status', '-h']\nfrom governor.cli.main import main; main()"
    loaded = imported_by(ask)

    assert "governor.cli.status" in loaded
    assert loaded.isdisjoint({"governor.cli.acquire", "governor.cli.top", "governor.core.types"})
    assert loaded.isdisjoint({"aiohttp", "asyncio", "grpc", "pydantic", "rich", "yaml", "governor.core.engine"})


@pytest.mark.parametrize(
    ("command", "others"),
    [("acquire", set()), ("run", {"grpc", "governor.cli.connection"})],
)
def test_a_length_of_time_is_read_without_the_config(command: str, others: set[str]) -> None:
    """What reads YAML takes longer to load than all that `governor run` needs."""
    words = ["governor", command, "jobs", "--wait", "1s", "--lease", "1m", "--address", "unix:/nonexistent"]
    loaded = imported_by(
        f"import sys; sys.argv = {[*words, *(['--', 'true'] if command == 'run' else [])]}\n"
        "from governor.cli.main import main; assert main() == 3"
    )

    assert "governor.units" in loaded
    assert loaded.isdisjoint(
        {"aiohttp", "pydantic", "rich", "yaml", "governor.config", "governor.core.engine"} | others
    )


def test_the_list_of_commands_loads_none_of_them() -> None:
    """However many there come to be, the page of all costs no more."""
    loaded = imported_by("import sys; sys.argv = ['governor', '-h']\nfrom governor.cli.main import main; main()")

    commands = {f"governor.cli.{entry.place.partition(':')[0]}" for entry in COMMANDS.values()}
    assert "governor.cli.commands" in loaded
    assert loaded.isdisjoint(commands)


def test_version_loads_neither_grpc_nor_the_daemon() -> None:
    """It names the version of grpc without loading it."""
    loaded = imported_by("import sys; sys.argv = ['governor', 'version']\nfrom governor.cli.main import main; main()")

    assert "governor.cli.version" in loaded
    assert loaded.isdisjoint({"grpc", "pydantic", "rich", "yaml", "governor.daemon"})


def test_serve_does_not_load_what_draws_tables() -> None:
    """The daemon starts without it, and keeps none of it in memory."""
    loaded = imported_by("import governor.cli.serve, governor.cli.commands, governor.daemon")

    assert "governor.core.engine" in loaded
    assert not any(module.partition(".")[0] in {"rich", "hypothesis", "pytest"} for module in loaded)


@pytest.mark.parametrize(
    ("package", "arguments"), [("click", ["version"]), ("yaml", ["check", "-"]), ("aiohttp", ["serve"])]
)
def test_without_the_extra_it_says_how_to_get_it(package: str, arguments: list[str]) -> None:
    """Whoever installs the client alone has the command as well, and gets one line for whatever is missing."""
    program = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = {arguments!r}\n"
        "from governor.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="",
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
        cwd=ROOT,
    )

    assert "daemon" in (metadata.metadata("governord").get_all("Provides-Extra") or ())
    line = (
        f"governor: the package {package} is missing, which the command needs and programs do not: "
        "pip install 'governord[daemon]', or '.[daemon]' in a checkout\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


@pytest.mark.parametrize("closed", ["", ">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("end", ["leave(7)", "sys.exit(die_of(signal.SIGTERM))"])
def test_a_process_without_its_outputs_ends_as_any_other(end: str, closed: str) -> None:
    """As a daemon does whose standard error was closed by whoever started it."""
    program = f"import signal, sys; from governor.cli.dying import die_of, leave; {end}"
    shell = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program]
    code = subprocess.run(shell, check=False, cwd=ROOT, timeout=BOUND).returncode

    assert code == (7 if end.startswith("leave") else -signal.SIGTERM)
