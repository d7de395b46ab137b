"""`governor` against the daemon itself: real processes, real sockets, every exit code that a daemon can cause."""

import json
import re
import signal

import pytest

from tests.cli.conftest import Run, lease_of
from tests.cli.daemon import Daemon, resources, stands_in_line
from tests.cli.process import BOUND, running


def test_a_permit_goes_out_and_comes_back(run: Run, daemon: Daemon) -> None:
    """Acquire, status and release tell one story."""
    lease = lease_of(run, "thumbnails=2")
    during = resources(daemon.address)["thumbnails"]
    released = run("release", str(lease))
    after = resources(daemon.address)["thumbnails"]

    assert (during.in_use, during.available, during.leases) == (2, 0, 1)
    assert (released.exit, released.out) == (0, f"lease {lease}: released\n")
    assert (after.in_use, after.available, after.leases) == (0, 2, 0)


def test_the_whole_ask_is_granted_at_once(run: Run, daemon: Daemon) -> None:
    """Over kinds, with the member of the pool and what the operator wrote beside it."""
    ended = run("acquire", "orders-db", "a/b & c, größe=1")
    lines = ended.out.splitlines()
    lease = lines[0].split()[1]

    assert ended.exit == 0
    assert lines[1] == "  orders-db: 1 permit"
    assert lines[2] in {
        "    primary (generation 1)  endpoint=db1:5432",
        "    replica (generation 1)  endpoint=db2:5432",
    }
    assert lines[3] == "  a/b & c, größe: 1 permit"
    assert lines[4] == f"ends in 30s; to give it back: governor release {lease}"
    assert run("release", lease, "--outcome", "ok").exit == 0


def test_a_rate_limit_is_spent(run: Run, own: Daemon) -> None:
    """There is nothing to give back, and no more until time brings it."""
    first = run("acquire", "payments-api=5")
    second = run("acquire", "payments-api", "--wait", "0")

    assert first.out.endswith("spent: there is nothing to give back\n")
    assert second.exit == 75
    assert "try again in " in second.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nosuch"], 2, "no such resource"),
        (["thumbnails=3"], 2, "3 permits"),
        (["thumbnails", "--lease", "3650d"], 2, "lease"),
        (["x" * 100_000], 2, "resource"),
        (["thumbnails", "--client", "x" * 300], 2, "client"),
        (["thumbnails", *(f"r{number}" for number in range(100))], 2, "claims"),
    ],
    ids=lambda value: value[0][:10] if isinstance(value, list) else "",
)
def test_an_ask_that_is_wrong_is_refused_for_good(
    run: Run, daemon: Daemon, arguments: list[str], code: int, said: str
) -> None:
    """Exit code 2 and the daemon's sentence: asking again will not help."""
    ended = run("acquire", *arguments)

    assert (ended.exit, ended.out) == (code, "")
    assert ended.err.startswith("governor: ")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_not_now_is_told_from_too_late(run: Run, daemon: Daemon) -> None:
    """Who does not wait is told to try later; whose wait is over has timed out, by own wish or by max_wait."""
    lease = lease_of(run, "hurried")
    at_once = run("acquire", "hurried", "--wait", "0")
    own_wish = run("acquire", "hurried", "--wait", "1ms")
    max_wait = run("acquire", "hurried")
    run("release", str(lease))

    assert (at_once.exit, own_wish.exit, max_wait.exit) == (75, 124, 124)


def test_a_full_line_is_try_later(run: Run, daemon: Daemon) -> None:
    """And Ctrl-C leaves the line at once."""
    lease = lease_of(run, "crowded")
    with running("acquire", "crowded") as waiting:
        stands_in_line(daemon.address, "crowded")
        crowded = run("acquire", "crowded")
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=BOUND)
        after = resources(daemon.address)["crowded"]
    run("release", str(lease))

    assert (crowded.exit, waiting.returncode) == (75, -signal.SIGINT)
    assert "line is full" in crowded.err
    assert after.waiters == 0


def test_a_lease_is_released_once(run: Run, daemon: Daemon) -> None:
    """The second time is told what had become of it, and so is whoever names a lease that never was."""
    lease = str(lease_of(run, "thumbnails"))
    run("release", lease)
    again = run("release", lease)
    record = run("release", lease, "-o", "json")
    several = run("release", lease, "999999999", "-o", "json")

    assert (again.exit, record.exit, several.exit) == (1, 1, 1)
    assert "released" in again.err
    (ended,) = json.loads(record.out)["results"]
    assert (ended["state"], ended["reason"]) == ("ended", "released")
    assert 0 <= ended["ended_seconds_ago"] < BOUND
    assert [result["state"] for result in json.loads(several.out)["results"]] == ["ended", "unknown"]


def test_the_same_request_id_gets_the_same_lease(run: Run, daemon: Daemon) -> None:
    """So that a script may ask again after it lost the answer."""
    first = lease_of(run, "thumbnails", "--request-id", "nightly")
    second = lease_of(run, "thumbnails", "--request-id", "nightly")
    run("release", str(first))

    assert first == second


def test_both_addresses_lead_to_the_same_daemon(run: Run, daemon: Daemon) -> None:
    """The port is one that the kernel chose, and `serve` said which."""
    port = daemon.said[-1].split("127.0.0.1:")[1].split()[0]
    lease = lease_of(run, "thumbnails")

    assert run("release", str(lease), "--address", f"127.0.0.1:{port}").exit == 0


def test_a_killed_holder_loses_its_permit_to_the_next(run: Run, daemon: Daemon) -> None:
    """The command ends without releasing; the lease ends by itself, and whoever waits is granted then."""
    dead = lease_of(run, "crowded", "--lease", "300ms")
    heir = lease_of(run, "crowded")
    late = run("release", str(dead))
    run("release", str(heir))

    assert heir > dead
    assert late.exit == 1
    assert "expired" in late.err


def test_a_lease_is_kept_by_renewing_it(run: Run, daemon: Daemon) -> None:
    """As long as it was granted for, or as long as is asked; and what has ended does not come back."""
    lease = str(lease_of(run, "thumbnails", "--lease", "20s"))
    other = str(lease_of(run, "thumbnails", "--lease", "20s"))
    same = run("renew", lease)
    longer = run("renew", lease, other, "--lease", "1h", "-o", "json")
    run("release", lease)
    late = run("renew", lease)
    mixed = run("renew", lease, other, "999999999")
    record = run("renew", lease, "-o", "json")
    run("release", other)

    assert (same.exit, same.out, same.err) == (0, f"lease {lease}: ends in 20s\n", "")
    assert longer.exit == 0
    assert [(each["state"], each["remaining_seconds"]) for each in json.loads(longer.out)["results"]] == [
        ("renewed", 3600.0),
        ("renewed", 3600.0),
    ]
    assert (late.exit, late.out) == (1, "")
    assert late.err.startswith(f"governor: lease {lease}: released ")
    assert mixed.exit == 1
    ended, renewed, unknown = mixed.out.splitlines()
    assert re.fullmatch(rf"lease {lease}: had ended \S+ ago \(released\)", ended)
    assert (renewed, unknown) == (f"lease {other}: ends in 20s", "lease 999999999: unknown")
    (result,) = json.loads(record.out)["results"]
    assert (record.exit, result["state"], result["reason"]) == (1, "ended", "released")
    assert result["remaining_seconds"] is None


def test_a_lease_is_not_renewed_for_longer_than_it_may_last(run: Run, daemon: Daemon) -> None:
    """Alone it is the daemon's sentence, among several a result; either way it lives on."""
    lease = str(lease_of(run, "thumbnails"))
    alone = run("renew", lease, "--lease", "1000d")
    several = run("renew", lease, "999999999", "--lease", "1000d")
    released = run("release", lease)

    assert (alone.exit, alone.out) == (2, "")
    assert "max_lease" in alone.err
    assert several.exit == 1
    assert several.out.splitlines()[0].startswith(f"lease {lease}: refused: longer than")
    assert released.exit == 0


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("thumbnals", "; did you mean 'thumbnails'?"),
        ("Thumbnails=2", "; did you mean 'thumbnails'?"),
        ("thumbnails=x", "; of 'thumbnails', ask for a whole number of permits from 1 to 2147483647"),
        ("thumbnails=1.5", "; of 'thumbnails', ask for a whole number of permits from 1 to 2147483647"),
        ("shard=3", "; for one permit of 'shard=3' write shard=3=1"),
        ("nothing like it", "declare it in governor's config"),
    ],
)
def test_an_unknown_resource_comes_with_a_guess(run: Run, daemon: Daemon, word: str, hint: str) -> None:
    """Where there is one, after the daemon's own sentence; nothing is asked for in its place."""
    ended = run("acquire", word)

    assert (ended.exit, ended.out) == (2, "")
    assert "no such resource" in ended.err
    assert ended.err.endswith(f"{hint}\n")


@pytest.mark.parametrize(("word", "guess"), [("grantd", "; did you mean 'granted'?"), ("zzz", ", stopping")])
@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_an_unknown_what_comes_with_a_guess(
    run: Run, daemon: Daemon, word: str, guess: str, follow: tuple[str, ...]
) -> None:
    """After all that there are; by the name of the option, and not of the field that it becomes."""
    ended = run("watch", "--what", "released", "--what", word, *follow)

    assert (ended.exit, ended.out) == (2, "")
    assert ended.err.startswith(f"governor: --what {word}: expected one of queued, ")
    assert ended.err.endswith(f"{guess}\n")


def test_a_resource_that_is_called_like_a_claim_can_be_had(run: Run, daemon: Daemon) -> None:
    """The last = counts, so it is written with a number of its own."""
    lease = run("acquire", "shard=3=1")

    assert lease.out.splitlines()[1] == "  shard=3: 1 permit"
    assert run("release", lease.out.split()[1]).exit == 0


def test_json_says_errors_in_json(run: Run, daemon: Daemon) -> None:
    """One object on stderr, whoever refused: the daemon, the way to it, or the command line."""
    lease = lease_of(run, "crowded")
    busy = run("acquire", "crowded", "--wait", "0", "-o", "json")
    run("acquire", "payments-api=5", "--wait", "0")
    spent = run("-o", "json", "acquire", "payments-api=5", "--wait", "0")
    away = run("status", "-o", "json", "--address", "127.0.0.1:1")
    usage = run("-o", "json", "acquire", "crowded=0")
    run("release", str(lease))

    errors = [json.loads(ended.err)["error"] for ended in (busy, spent, away, usage)]
    assert [ended.out for ended in (busy, spent, away, usage)] == [""] * 4
    assert [(error["code"], error["reason"]) for error in errors] == [
        (75, "NONE_FREE"),
        (75, "NONE_FREE"),
        (3, None),
        (2, None),
    ]
    assert [ended.exit for ended in (busy, spent, away, usage)] == [error["code"] for error in errors]
    assert errors[0]["message"].startswith("crowded: ")
    assert errors[1]["retry_after_seconds"] > 0
    assert errors[2]["message"].startswith("cannot reach the daemon at 127.0.0.1:1")
    assert errors[3]["message"] == "'crowded=0': ask for a whole number of permits from 1 to 2147483647"
