"""`governor check` and `governor schema`."""

import json
import subprocess
from pathlib import Path

import pytest

from governor.config import json_schema
from tests.certificates import Authority
from tests.cli.conftest import Run
from tests.cli.process import BOUND, COMMAND, ROOT
from tests.privileges import shut_away

GOOD = """\
semaphores:
  thumbnails: {permits: 8}
  uploads: {permits: 2}
rate_limits:
  payments-api: {rate: 100/s, burst: 20}
"""
BAD = """\
semaphores:
  thumbnails: {permits: many}
  uploads: {permit: 2}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    """A config without a mistake."""
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    return str(file)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """A config with mistakes on lines 2 and 3."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    return str(file)


def test_a_good_file_is_summed_up(run: Run, good: str) -> None:
    """How many resources there are, by kind."""
    ended = run("check", good)

    assert (ended.exit, ended.err) == (0, "")
    assert ended.out == f"{good}: OK, 3 resources (1 rate_limit, 2 semaphores)\n"


def test_a_bad_file_is_answered_with_every_mistake(run: Run, bad: str) -> None:
    """On stderr, a line each, as compilers and editors write and read them; nothing is OK."""
    ended = run("check", bad)

    assert (ended.exit, ended.out) == (78, "")
    assert f"{bad}:2: " in ended.err
    assert f"{bad}:3: " in ended.err
    assert all(line.startswith(bad) for line in ended.err.splitlines())


def test_json_says_the_same(run: Run, good: str, bad: str) -> None:
    """With one shape for both."""
    fine, wrong = run("check", good, "-o", "json"), run("check", bad, "-o", "json")
    record = json.loads(wrong.out)

    assert (fine.exit, wrong.exit, wrong.err) == (0, 78, "")
    assert json.loads(fine.out) == {
        "ok": True,
        "resources": {"semaphore": 2, "rate_limit": 1},
        "warnings": [],
        "problems": [],
    }
    assert record["ok"] is False
    assert {problem["line"] for problem in record["problems"]} >= {2, 3}
    assert all(set(problem) == {"file", "line", "path", "message"} for problem in record["problems"])


def test_a_folder_that_others_may_write_to_is_a_warning(run: Run, tmp_path: Path) -> None:
    """As far as it is here; one that is not there yet is made for nobody else."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    file = tmp_path / "g.yaml"
    file.write_text(
        f"listen: ['unix:{tmp_path}/open/g.sock', 'unix:{tmp_path}/none/g.sock', 'unix:{tmp_path}/g.sock']\n"
    )

    told = run("check", str(file), "-o", "json")

    (warning,) = json.loads(told.out)["warnings"]
    assert told.exit == 0
    assert f"in the place of unix:{tmp_path}/open/g.sock" in warning


def test_what_may_be_a_mistake_is_a_warning(run: Run, tmp_path: Path) -> None:
    """It does not change the exit code."""
    file = tmp_path / "open.yaml"
    file.write_text("listen: [0.0.0.0:7411]\ninsecure: true\n")

    ended = run("check", str(file))

    assert ended.exit == 0
    assert ": OK, no resources\n" in ended.out
    assert ": warning: " in ended.out
    assert len(json.loads(run("check", str(file), "-o", "json").out)["warnings"]) == 1


@pytest.mark.parametrize("command", ["check", "diff"])
def test_a_file_that_may_not_be_read_is_a_bad_config(run: Run, good: str, command: str) -> None:
    """As to the daemon, which would end with the same code; it is no mistake in how the command was called."""
    with shut_away(Path(good)):
        ended = run(command, good)

    assert (ended.exit, ended.out, ended.err.count("\n")) == (78, "", 1)
    assert ended.err.startswith(f"{good}: ")
    assert "permission denied" in ended.err.lower()


def test_a_missing_file_is_a_bad_config(run: Run, tmp_path: Path) -> None:
    """As it is for `serve`."""
    ended = run("check", str(tmp_path / "none.yaml"))

    assert (ended.exit, ended.out) == (78, "")
    assert "none.yaml" in ended.err


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (GOOD.encode(), 0, b"<stdin>: OK, 3 resources"),
        (BAD.encode(), 78, b"<stdin>:2: "),
        (b"\xff\xfe\xff", 78, b"<stdin>"),
        (b"# " + b"x" * (1 << 20), 78, b"larger than 1 MiB"),
        (b"", 78, b"<stdin>"),
    ],
    ids=["good", "bad", "no text", "too large", "empty"],
)
def test_a_dash_reads_what_is_piped_in(given: bytes, code: int, said: bytes) -> None:
    """Whatever the bytes are."""
    ended = subprocess.run(
        [*COMMAND, "check", "-"], input=given, capture_output=True, timeout=BOUND, check=False, cwd=ROOT
    )

    assert ended.returncode == code
    assert said in ended.stdout + ended.stderr
    assert b"Traceback" not in ended.stderr


def test_schema_prints_the_json_schema(run: Run) -> None:
    """As one JSON document."""
    ended = run("schema")

    assert (ended.exit, json.loads(ended.out)) == (0, json_schema())


def test_files_of_tls_with_which_no_daemon_starts_are_warnings(run: Run, tmp_path: Path) -> None:
    """Each of them, and so is a key that all may read: they may be others where the daemon runs."""
    authority = Authority(tmp_path)
    good, old = authority.certify("good", "localhost"), authority.certify("old", "localhost", since=-3, until=-1)
    early = authority.certify("early", "localhost", since=1, until=2)
    file = tmp_path / "tls.yaml"

    def warnings(cert: Path, key: Path) -> list[str]:
        file.write_text(f"{{listen: ['tls://127.0.0.1:0'], tls: {{cert: {cert}, key: {key}}}}}\n")
        ended = run("check", str(file), "-o", "json")
        assert ended.exit == 0
        told: list[str] = json.loads(ended.out)["warnings"]
        return told

    for pair in (good, old, early):
        pair.key.chmod(0o640)
    assert warnings(*good.both) == []
    (gone,) = warnings(tmp_path / "gone.crt", good.key)
    (other,) = warnings(old.cert, good.key)
    (ended,) = warnings(*old.both)
    (begins,) = warnings(*early.both)
    good.key.chmod(0o644)
    (shown,) = warnings(*good.both)

    assert gone == f"tls: {tmp_path}/gone.crt: No such file or directory: no daemon starts with that"
    assert "they are no certificate and its key" in other
    assert ended == f"tls: {old.cert}: nobody believes it now: it has ended"
    assert f"{early.cert}: nobody believes it now: it does not count before 20" in begins
    assert shown == f"tls: every user of this machine may read the key: chmod o= {good.key}"
