"""Where orders go: to the daemon that was named, as whoever gives them."""

import getpass
import socket
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from governor.cli import admin
from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import Resource
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal

CALLS = (
    ["leases"],
    ["waiters"],
    ["sessions"],
    ["resource", "a"],
    ["revoke", "1"],
    ["revoke", "--client", "a"],
    ["pause", "a"],
    ["resume", "a"],
    ["drain", "a"],
    ["recycle", "a"],
    ["quarantine", "a", "b"],
    ["restore", "a", "b"],
    ["set", "a", "permits=1", "--for", "1m"],
    ["set", "a", "--default"],
    ["reload"],
    ["info"],
    ["diff", "/dev/null"],
)


def elsewhere(address: str, start: str = "one") -> Refusal:
    """What is said to whoever comes by TCP."""
    return Refusal(
        grpc.StatusCode.PERMISSION_DENIED,
        f"governor: admin calls are not answered here; they are at {address}",
        reason="ADMIN_ELSEWHERE",
        metadata={"admin": address, "start": start},
    )


@pytest.fixture
def by_tcp(fake: Fake) -> Fake:
    """Admin is on its unix socket alone."""
    fake.desk.answers[pb.GetInfoRequest] = pb.GetInfoResponse(start="one")
    fake.desk.elsewhere = elsewhere(fake.address)
    return fake


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_each_call_says_who_makes_it(run: Run, fake: Fake, call: list[str]) -> None:
    """For the daemon's records; nothing proves it."""
    run(*call, "--address", fake.address)

    assert set(fake.desk.actors) == {f"{getpass.getuser()}@{socket.gethostname()}"}


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_each_call_follows_to_the_socket_of_the_same_daemon(run: Run, by_tcp: Fake, call: list[str]) -> None:
    """As if its address had been named."""
    by_tcp_ended = run(*call, "--address", by_tcp.tcp)
    asked = [each for each in by_tcp.desk.asked if not isinstance(each, pb.GetInfoRequest)]
    by_tcp.desk.asked.clear()
    by_socket = run(*call, "--address", by_tcp.address)

    assert by_tcp_ended == by_socket
    assert asked == [each for each in by_tcp.desk.asked if not isinstance(each, pb.GetInfoRequest)]


def test_another_daemon_at_the_same_path_is_left_alone(run: Run, by_tcp: Fake) -> None:
    """The port was forwarded, or is another machine's: an order must not reach the wrong one."""
    by_tcp.desk.elsewhere = elsewhere(by_tcp.address, start="another")
    ended = run("pause", "a", "--address", by_tcp.tcp)

    assert (ended.exit, ended.out) == (4, "")
    assert "here another daemon has that socket. Run this there" in ended.err
    assert not any(isinstance(each, pb.PauseResourceRequest) for each in by_tcp.desk.asked)


def test_a_socket_that_is_not_here_is_named(run: Run, by_tcp: Fake, tmp_path: Path) -> None:
    """With what to do about it."""
    by_tcp.desk.elsewhere = elsewhere(f"unix:{tmp_path}/none.sock")
    ended = run("pause", "a", "--address", by_tcp.tcp)

    assert (ended.exit, ended.out) == (4, "")
    assert ended.err == (
        f"governor: {by_tcp.tcp}: admin calls are answered at unix:{tmp_path}/none.sock of the daemon's machine, "
        f"which is not here; run this there, with --address unix:{tmp_path}/none.sock\n"
    )


def test_an_address_of_tcp_is_not_followed(run: Run, by_tcp: Fake) -> None:
    """Whoever gives orders over a network says so."""
    by_tcp.desk.elsewhere = elsewhere("127.0.0.1:7499")
    ended = run("pause", "a", "--address", by_tcp.tcp)

    assert ended.exit == 4
    assert "admin calls are answered at 127.0.0.1:7499; name that address there: --address 127.0.0.1:7499" in ended.err


@pytest.mark.parametrize("said", ["", "no address", "unix:"])
def test_without_an_address_the_daemon_s_words_stand(run: Run, by_tcp: Fake, said: str) -> None:
    """There is nothing to follow."""
    by_tcp.desk.elsewhere = elsewhere(said)
    ended = run("pause", "a", "--address", by_tcp.tcp)

    assert (ended.exit, ended.err) == (4, f"governor: admin calls are not answered here; they are at {said}\n")


def test_an_actor_is_short_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    """As metadata must be; with whoever was somebody else before sudo."""
    monkeypatch.setattr(getpass, "getuser", lambda: "jürgen")
    monkeypatch.setattr(socket, "gethostname", lambda: "db7")
    monkeypatch.setenv("SUDO_USER", "alice\n" + "x" * 500)
    said = admin.actor()

    assert said.startswith("j?rgen@db7 (sudo by alice?xxx")
    assert len(said) == 256


@pytest.mark.parametrize(
    ("call", "request_type"),
    [
        (["leases", "a"], pb.ListLeasesRequest),
        (["waiters", "a"], pb.ListWaitersRequest),
        (["resource", "a"], pb.GetResourceRequest),
        (["pause", "a"], pb.PauseResourceRequest),
        (["resume", "a"], pb.ResumeResourceRequest),
        (["drain", "a"], pb.DrainResourceRequest),
        (["drain", "a", "--wait"], pb.DrainResourceRequest),
        (["watch", "a"], pb.WatchRequest),
        (["recycle", "a"], pb.RecycleMembersRequest),
        (["quarantine", "a", "b"], pb.QuarantineMemberRequest),
        (["restore", "a", "b"], pb.RestoreMemberRequest),
        (["set", "a", "permits=1", "--for", "1m"], pb.SetOverrideRequest),
        (["set", "a", "--default"], pb.ClearOverrideRequest),
    ],
    ids=str,
)
def test_an_unknown_name_comes_with_a_guess(run: Run, fake: Fake, call: list[str], request_type: type[Message]) -> None:
    """After the daemon's own sentence."""
    fake.script.resources = [Resource(name="ab", kind="pool")]
    fake.desk.answers[request_type] = Refusal(
        grpc.StatusCode.NOT_FOUND, "a: no such resource", reason="UNKNOWN_RESOURCE", metadata={"resource": "a"}
    )
    ended = run(*call, "--address", fake.address)

    assert (ended.exit, ended.out) == (2, "")
    assert ended.err == "governor: a: no such resource; did you mean 'ab'?\n"


def test_what_is_removed_is_not_what_was_meant(run: Run, fake: Fake) -> None:
    """It has that very name, but nobody can ask for it any more."""
    fake.script.resources = [Resource(name="a", kind="pool", draining=True, removed=True), Resource(name="ab")]
    fake.desk.answers[pb.PauseResourceRequest] = Refusal(
        grpc.StatusCode.NOT_FOUND, "a: no such resource", reason="UNKNOWN_RESOURCE", metadata={"resource": "a"}
    )

    ended = run("pause", "a", "--address", fake.address)

    assert ended.err == "governor: a: no such resource; it is removed from the config, and goes with its last lease\n"
