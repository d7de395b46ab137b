"""SIGHUP: an edited file takes effect whole, or not at all."""

import hashlib
import re
import signal
import time

from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import Refusal, ask
from tests.e2e.conftest import HEAD, Connect, Start
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  grows: {permits: 1}
  goes: {permits: 1}
  stays: {permits: 1}
"""


def edit(daemon: Daemon, yaml: str, *, drain: str = "100ms", head: str = HEAD, by_signal: bool = True) -> None:
    """Another text in the place of its file, and as a rule the signal."""
    text = head.format(folder=daemon.config.parent, drain=drain) + yaml
    if by_signal:
        daemon.reload(text)
        return
    new = daemon.config.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(daemon.config)


def test_a_good_file_takes_effect(start: Start, connect: Connect) -> None:
    """Growing wakes whoever waits, the waiters of what was removed are told, what is the same keeps its state."""
    daemon = start(YAML)
    me = connect(daemon)
    grows, goes, stays = (me.acquire(name).id for name in ("grows", "goes", "stays"))
    woken = me.wait_in_line(ask("grows"))
    told = me.wait_in_line(ask("goes"))
    undisturbed = me.wait_in_line(ask("stays"))

    edit(daemon, "semaphores: {grows: {permits: 2}, stays: {permits: 1}, comes: {permits: 1}}")

    assert woken.lease().id > stays
    assert Refusal(told.refusal()).reason == "UNKNOWN_RESOURCE"
    assert not undisturbed.done()
    assert "added comes; changed grows (permits 1 -> 2); removed goes" in daemon.said("reloaded")
    assert [(r.name, r.in_use, r.waiters, r.draining) for r in me.resources()] == [
        ("grows", 2, 0, False),
        ("stays", 1, 1, False),
        ("comes", 0, 0, False),
        ("goes", 1, 0, True),
    ]
    me.release(goes)
    assert "goes" not in {resource.name for resource in me.resources()}
    assert not any(("resource", "goes") in labels for _, labels in daemon.metrics())
    me.release(grows, stays, woken.lease().id)
    me.release(undisturbed.lease().id)


def test_a_bad_file_changes_nothing(start: Start, connect: Connect) -> None:
    """It is refused whole, and that stays visible until a good one has been read."""
    daemon = start(YAML)
    me = connect(daemon)
    held = me.acquire("grows").id
    waiting = me.wait_in_line(ask("grows", wait=25))
    before = me.resources()
    good = _config_info(daemon)
    assert daemon.metric("governor_config_last_reload_successful") == 1

    daemon.expect("reload refused")
    edit(daemon, "semaphores: {grows: {permits: 2}, other: {permit: 1}}\n")
    line = daemon.said("reload refused")
    assert f"{daemon.config}:4: semaphores.other" in line
    assert daemon.metric("governor_config_last_reload_successful") == 0
    assert _config_info(daemon) == good
    assert not waiting.done()
    assert [_without_time(resource) for resource in me.resources()] == [_without_time(r) for r in before]

    edit(daemon, "semaphores: {grows: {permits: 2}}\n")
    me.release(waiting.lease().id, held)
    assert daemon.metric("governor_config_last_reload_successful") == 1
    assert _config_info(daemon) != good
    assert abs(daemon.metric("governor_config_last_reload_success_timestamp_seconds") - time.time()) < 3600


def test_a_file_that_is_gone_changes_nothing(start: Start, connect: Connect) -> None:
    """Nor does one that became another kind of resource under a lease."""
    daemon = start(YAML)
    me = connect(daemon)
    held = me.acquire("grows").id
    daemon.expect("reload refused")

    text = daemon.config.read_text(encoding="utf-8")
    daemon.config.unlink()
    daemon.signal(signal.SIGHUP)
    assert "there is no such file" in daemon.said("reload refused")
    edit(daemon, "pools: {grows: {size: 1}}")
    daemon.said("reload refused: .*grows")
    assert [resource.name for resource in me.resources()] == ["grows", "goes", "stays"]

    daemon.config.write_text(text, encoding="utf-8")
    me.release(held)


def test_shrinking_takes_nothing_back(start: Start, connect: Connect) -> None:
    """Nobody is granted until use is below, and an ask that became impossible is told so."""
    daemon = start("semaphores: {shrinks: {permits: 3}}\n")
    me = connect(daemon)
    held = [me.acquire("shrinks").id for _ in range(3)]
    impossible = me.wait_in_line(ask("shrinks", permits=2))
    waiting = me.wait_in_line(ask("shrinks"))

    edit(daemon, "semaphores: {shrinks: {permits: 1}}\n")

    assert Refusal(impossible.refusal()).reason == "ABOVE_CAPACITY"
    assert daemon.metric("governor_permits_over_limit", resource="shrinks") == 2
    me.release(*held[:2])
    assert not waiting.done()
    me.release(held[2])
    me.release(waiting.lease().id)


def test_growing_grants_all_who_fit_though_nobody_gives_back(start: Start, connect: Connect) -> None:
    """Five wait behind one; with three more permits, the first three of them have one in the same instant."""
    daemon = start("semaphores: {grows: {permits: 1}}\n")
    me = connect(daemon)
    held = me.acquire("grows").id
    waiting = [me.wait_in_line(ask("grows")) for _ in range(5)]

    edit(daemon, "semaphores: {grows: {permits: 4}}\n")
    granted = [each.lease().id for each in waiting[:3]]
    assert granted == sorted(granted)
    assert me.counts("grows") == (4, 2)

    edit(daemon, "semaphores: {grows: {permits: unlimited}}\n")
    granted += [each.lease().id for each in waiting[3:]]
    me.release(held, *granted)


def test_a_kind_changes_once_nothing_is_lent_of_it(start: Start, connect: Connect) -> None:
    """Until then all of that file is refused; who waits for it stays in line, and is told when it has changed."""
    daemon = start("semaphores: {turns: {permits: 1}, other: {permits: 1}}\n")
    me = connect(daemon)
    held = me.acquire("turns").id
    waiting = me.wait_in_line(ask("turns"))
    daemon.expect("reload refused")
    edit(daemon, "pools: {turns: {members: {east: }}}\nsemaphores: {other: {permits: 2}}\n")
    assert "turns: cannot become a pool while it is lent as a semaphore" in daemon.said("reload refused")
    assert not waiting.done()
    assert me.resource("other").capacity == 1

    waiting.cancel()
    until(lambda: me.counts("turns") == (1, 0), "nobody waits for it")
    me.release(held)
    daemon.signal(signal.SIGHUP)
    daemon.said("reloaded")
    lease = me.acquire("turns")
    assert [member.id for member in lease.grants[0].members] == ["east"]
    me.release(lease.id)


def test_a_rate_limit_is_not_refilled_by_a_detour(start: Start, connect: Connect) -> None:
    """Neither by other numbers and back, nor by removing it, over a restart, and declaring it again."""
    api, one = "rate_limits: {api: {rate: 3/h, burst: 3}}\n", "semaphores: {one: {permits: 1}}\n"
    daemon = start(api + one)
    me = connect(daemon)
    for _ in range(3):
        me.acquire("api")
    edit(daemon, api.replace("burst: 3", "burst: 1") + one)
    daemon.said("reloaded")
    edit(daemon, one)
    daemon.said("reloaded", times=2)
    assert daemon.end() == 0
    daemon = start(one)
    edit(daemon, api + one)
    daemon.said("reloaded")

    assert connect(daemon).resource("api").available == 0


def test_whoever_calls_is_told_what_became_of_it(start: Start, connect: Connect) -> None:
    """The very reading that began after the call."""
    daemon = start("watch: false\n" + YAML)
    me = connect(daemon)
    admin = AdminStub(me.channel)
    edit(daemon, "semaphores: {grows: {permits: 2}, comes: {permits: 1}}\ndurability: none\n", by_signal=False)
    daemon.expect("takes? effect at the next start")
    answer = admin.Reload(admin_pb2.ReloadRequest(), timeout=BOUND)
    assert (list(answer.added), list(answer.changed), list(answer.removed)) == (["comes"], ["grows"], ["goes", "stays"])
    assert list(answer.at_next_start) == ["durability"]
    assert answer.config.hash == hashlib.sha256(daemon.config.read_bytes()).hexdigest()
    assert answer.config.source == str(daemon.config)

    daemon.expect("reload refused")
    edit(daemon, "semaphores: {grows: {permit: 2}}\n", by_signal=False)
    refused = admin.Reload(admin_pb2.ReloadRequest(), timeout=BOUND)
    assert "unknown key" in refused.problems[0]
    assert refused.config.hash == answer.config.hash
    assert [problem.rpartition(": unknown key")[0] for problem in refused.config.problems] == [f"{daemon.config}:4"]
    assert me.resource("grows").capacity == 2


def test_what_needs_a_start_says_so_for_as_long_as_it_does(start: Start, connect: Connect) -> None:
    """Other addresses take effect at the next start; back to those of this one, there is nothing to say."""
    daemon = start(YAML)
    me = connect(daemon)
    warning = "reload: listen takes effect at the next start"
    daemon.expect(warning)
    elsewhere = HEAD.replace("governor.sock", "other.sock")

    edit(daemon, YAML, head=elsewhere)
    daemon.said(warning)
    edit(daemon, YAML + "  more: {permits: 1}\n", head=elsewhere)
    daemon.said(warning, times=2)
    edit(daemon, YAML, drain="200ms")
    assert daemon.said("reloaded", times=3).endswith("; removed more; set drain_timeout (100ms -> 200ms)")
    edit(daemon, YAML + "  more: {permits: 1}\n", drain="200ms")
    daemon.said("reloaded", times=4)
    edit(daemon, YAML + "  more: {permits: 1}\n", drain="200ms")
    assert daemon.said("reloaded", times=5).endswith("; nothing changed")

    assert daemon.log.count(warning) == 2
    assert len(me.resources()) == 4


def test_many_signals_at_once_are_one_reload_after_the_other(start: Start, connect: Connect) -> None:
    """In the end the last text is in force."""
    daemon = start(YAML)
    me = connect(daemon)

    for permits in range(2, 30):
        edit(daemon, f"semaphores: {{grows: {{permits: {permits}}}}}\n")

    until(lambda: me.resources()[0].capacity == 29, "the last text is in force")
    assert [resource.name for resource in me.resources()] == ["grows"]


def test_of_very_many_mistakes_the_first_are_logged(start: Start, connect: Connect) -> None:
    """And how many more there are, with the command that lists them all."""
    daemon = start(YAML)
    daemon.expect("reload refused")
    edit(daemon, "semaphores:\n" + "".join(f"  s{n}: {{permit: 1}}\n" for n in range(900)))

    last = daemon.said("reload refused: and")

    # Each of them lacks one key and has one that does not exist.
    assert re.search(rf"and \d+ more; `governor check {daemon.config}` lists them all", last)
    assert daemon.log.count("reload refused: ") == 201
    assert connect(daemon).counts("grows") == (0, 0)


def _config_info(daemon: Daemon) -> list[dict[str, str]]:
    return [dict(labels) for name, labels in daemon.metrics() if name == "governor_config_info"]


def _without_time(resource: pb.Resource) -> pb.Resource:
    resource.ClearField("oldest_wait")
    return resource
