"""`governor reload`, `governor info` and `governor diff`."""

import json
import subprocess
from pathlib import Path

import pytest

from governor.v1 import admin_pb2 as pb
from tests.cli.conftest import Fake, Run
from tests.cli.process import BOUND, COMMAND, ROOT
from tests.cli.test_status import config


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants are shown in the time of this machine."""
    monkeypatch.setenv("TZ", "UTC")


def test_a_reload_says_what_came_of_it(run: Run, fake: Fake) -> None:
    """What was added, changed and removed, and what waits for the next start."""
    fake.desk.answers[pb.ReloadRequest] = pb.ReloadResponse(
        added=["a", "b"], removed=["c"], at_next_start=["listen"], config=config()
    )
    ended = run("reload", "--wait", "--address", fake.address)
    record = json.loads(run("reload", "-o", "json", "--address", fake.address).out)

    assert (ended.exit, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "added: a, b",
        "removed: c",
        "at the next start only: listen",
        "config /etc/governor/governor.yaml (3fa9c1d23fa9) in force since 2025-11-29 21:00:00",
    ]
    assert (record["ok"], record["added"], record["config"]["hash"]) == (True, ["a", "b"], "3fa9c1d2" * 8)


def test_a_reload_that_changes_nothing_says_so(run: Run, fake: Fake) -> None:
    """Also if the daemon has seen the file change, and has read it before it was asked: it says since when."""
    fake.desk.answers[pb.ReloadRequest] = pb.ReloadResponse(config=config())

    assert run("reload", "--address", fake.address).out.splitlines() == [
        "no resource to change: what the file says of them is in force already",
        "config /etc/governor/governor.yaml (3fa9c1d23fa9) in force since 2025-11-29 21:00:00",
    ]


def test_a_bad_file_is_told_problem_by_problem(run: Run, fake: Fake) -> None:
    """As `check` tells them, and with the same exit code."""
    problems = ["g.yaml:2: semaphores.a.permits: wrong", "g.yaml:3: \x1b[31m"]
    fake.desk.answers[pb.ReloadRequest] = pb.ReloadResponse(problems=problems)
    ended = run("reload", "--address", fake.address)
    record = run("reload", "-o", "json", "--address", fake.address)

    assert (ended.exit, ended.out) == (78, "")
    assert ended.err.splitlines() == [problems[0], "g.yaml:3: \\x1b[31m", "governor: 2 problems: nothing was changed"]
    assert (record.exit, json.loads(record.out)["ok"], json.loads(record.out)["problems"]) == (78, False, problems)


def test_info_is_all_about_the_daemon(run: Run, fake: Fake) -> None:
    """In lines for people; the record's names are those of the help page."""
    told = pb.GetInfoResponse(
        version="0.1.0",
        pid=42,
        host="db7",
        start="abc",
        addresses=["unix:/run/governor/governor.sock", "127.0.0.1:7411"],
        state_folder="/var/lib/governor",
        durability="process",
        state_problem="No space left on device",
        audit_problem="the audit file cannot be written",
        config=config("governor.yaml:3: wrong"),
        draining=True,
        resources=3,
        leases=1,
        sessions=2,
        revoked=4,
        expired=5,
        last_lease_id=17,
        tracing="http://127.0.0.1:4317, all asks",
    )
    told.started_at.FromSeconds(1_764_450_000)
    fake.desk.answers[pb.GetInfoRequest] = told
    ended = run("info", "--address", fake.address)
    record = json.loads(run("info", "-o", "json", "--address", fake.address).out)
    page = run("info", "--help").out

    assert ended.exit == 0
    assert ended.out.splitlines() == [
        "governor 0.1.0 on db7, pid 42, draining: it is about to end",
        "  started   2025-11-29 21:00:00",
        "  listens   unix:/run/governor/governor.sock, 127.0.0.1:7411",
        "  admin     nowhere",
        "  pages     nowhere",
        "  state     /var/lib/governor, durability process",
        "            cannot be written: No space left on device",
        "  audit     nothing is granted: the audit file cannot be written",
        "  traces    to http://127.0.0.1:4317, all asks",
        "  config    /etc/governor/governor.yaml (3fa9c1d23fa9) in force since 2025-11-29 21:00:00",
        "            a reload was refused at 2025-11-29 22:00:00, and nothing of it is in force:",
        "              governor.yaml:3: wrong",
        "  now       3 resources, 1 lease, 0 waiting, 2 sessions",
        "  so far    lease id 17; since the start 4 revoked, 5 expired",
    ]
    assert record["http"] is None
    assert record["config"]["problems"] == ["governor.yaml:3: wrong"]
    assert all(field in page for field in record)


def change(name: str, before: str, after: str) -> pb.SettingChange:
    """What a key says, and would say."""
    return pb.SettingChange(name=name, before=before, after=after)


DIFFERENCES = (
    (
        pb.Difference(
            resource="orders-db",
            what=pb.Difference.CHANGED,
            changes=[change("size", "10", "4")],
            in_use=8,
            leases=8,
            over_limit=4,
            refused_waiters=2,
            most_asked=5,
        ),
        (
            "orders-db 10 -> 4: 8 held, nothing is taken back, 4 must return before the next grant; "
            "2 waiters would be refused: they ask for up to 5"
        ),
    ),
    (
        pb.Difference(
            resource="thumbnails",
            what=pb.Difference.CHANGED,
            changes=[change("permits", "4", "8"), change("max_wait", "30s", "1m")],
            in_use=4,
            leases=2,
            waiters=3,
            granted_waiters=3,
        ),
        "thumbnails 4 -> 8, max_wait 30s -> 1m: 4 held, nothing is taken back; 3 waiters would be granted at once",
    ),
    (
        pb.Difference(
            resource="old", kind="pool", what=pb.Difference.REMOVED, in_use=1, leases=1, refused_waiters=1, most_asked=2
        ),
        "old (pool) is removed: 1 held, it goes on until given back; 1 waiter would be refused",
    ),
    (
        pb.Difference(resource="new", kind="semaphore", what=pb.Difference.ADDED, changes=[change("permits", "", "3")]),
        "new is new: semaphore, permits 3",
    ),
    (
        pb.Difference(
            resource="a",
            what=pb.Difference.CHANGED,
            changes=[change("kind", "pool", "semaphore")],
            problem="it is lent",
        ),
        "a kind pool -> semaphore: the whole reload would be refused: it is lent",
    ),
    (
        pb.Difference(
            resource="b",
            what=pb.Difference.CHANGED,
            changes=[change("burst", "9", "")],
            refused_waiters=1,
            most_asked=7,
        ),
        "b burst 9 -> none: 1 waiter would be refused: it asks for 7",
    ),
)


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    """A file to compare."""
    path = tmp_path / "governor.yaml"
    path.write_text("semaphores: {a: {permits: 1}}\n")
    return path


@pytest.mark.parametrize(("difference", "sentence"), DIFFERENCES, ids=[each.resource for each, _ in DIFFERENCES])
def test_a_difference_is_a_sentence(run: Run, fake: Fake, yaml: Path, difference: pb.Difference, sentence: str) -> None:
    """What changes, and what that does to holders and waiters."""
    fake.desk.answers[pb.DiffRequest] = pb.DiffResponse(differences=[difference])
    ended = run("diff", str(yaml), "--address", fake.address)

    assert (ended.exit, ended.err) == (78 if difference.problem else 1, "")
    assert ended.out == f"{sentence}\n"


def test_the_exit_code_of_diff_is_that_of_diff(run: Run, fake: Fake, yaml: Path) -> None:
    """0 if nothing would change, 1 if anything would, also of the daemon itself."""
    same = run("diff", str(yaml), "--address", fake.address)
    fake.desk.answers[pb.DiffRequest] = pb.DiffResponse(
        settings=[change("drain_timeout", "30s", "1m")], at_next_start=[change("http", "", "127.0.0.1:7412")]
    )
    other = run("diff", str(yaml), "--address", fake.address)

    assert (same.exit, same.out) == (0, "nothing would change\n")
    assert other.exit == 1
    assert other.out.splitlines() == [
        "drain_timeout 30s -> 1m",
        "http none -> 127.0.0.1:7412: at the next start only",
    ]
    assert fake.desk.asked[0] == pb.DiffRequest(yaml=yaml.read_bytes(), name=str(yaml))


def test_a_wrong_file_is_told_as_check_tells_it(run: Run, fake: Fake, yaml: Path) -> None:
    """Its problems on stderr, and 78."""
    fake.desk.answers[pb.DiffRequest] = pb.DiffResponse(problems=["governor.yaml:1: wrong"])
    ended = run("diff", str(yaml), "--address", fake.address)

    assert (ended.exit, ended.out, ended.err) == (78, "", "governor.yaml:1: wrong\n")


def test_a_difference_has_a_documented_record(run: Run, fake: Fake, yaml: Path) -> None:
    """What there is not is null."""
    fake.desk.answers[pb.DiffRequest] = pb.DiffResponse(differences=[each for each, _ in DIFFERENCES])
    ended = run("diff", str(yaml), "-o", "json", "--address", fake.address)
    record = json.loads(ended.out)
    page = run("diff", "--help").out

    assert ended.exit == 78
    assert record["differences"][3]["what"] == "added"
    assert record["differences"][3]["changes"] == [{"name": "permits", "before": None, "after": "3"}]
    assert all(field in page for field in record["differences"][0])


def test_a_large_file_goes_in_parts(run: Run, fake: Fake, tmp_path: Path) -> None:
    """No message has more than 256 KiB; and more than a mebibyte is no config."""
    large, huge, empty = tmp_path / "large", tmp_path / "huge", tmp_path / "empty"
    large.write_bytes(b"#" * (1 << 20))
    huge.write_bytes(b"#" * ((1 << 20) + 1))
    empty.write_bytes(b"")
    ends = [run("diff", str(file), "--address", fake.address) for file in (large, huge, empty)]

    assert [ended.exit for ended in ends] == [0, 78, 0]
    assert fake.desk.asked == [
        pb.DiffRequest(yaml=large.read_bytes(), name=str(large)),
        pb.DiffRequest(name=str(empty)),
    ]
    assert ends[1].err == f"{huge}: longer than 1 MiB, which no config is\n"


def test_a_file_that_is_not_there_is_a_bad_one(run: Run, fake: Fake) -> None:
    """As for `check`."""
    ended = run("diff", "/nonexistent/g.yaml", "--address", fake.address)

    assert (ended.exit, ended.err) == (78, "/nonexistent/g.yaml: No such file or directory\n")


def test_diff_reads_a_pipe(fake: Fake) -> None:
    """So that what a template makes need not be kept."""
    done = subprocess.run(
        [*COMMAND, "diff", "-", "--address", fake.address],
        input=b"semaphores: {}\n",
        capture_output=True,
        timeout=BOUND,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 0
    assert fake.desk.asked == [pb.DiffRequest(yaml=b"semaphores: {}\n", name="<stdin>")]
