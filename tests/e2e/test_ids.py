"""Lease ids: they rise across kills, and none is given out that is not on record."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from grpc import StatusCode

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client, Refusal
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import until

YAML = "semaphores: {one: {permits: 1, lease: 1h}, free: {permits: unlimited}}\nrate_limits: {api: {rate: unlimited}}\n"

# The daemon as it is, but for ids that it puts on record eight at a time.
FEW_IDS = """
import sys
from governor import daemon, journal
from governor.cli.main import main
journal.BLOCK = daemon.BLOCK = 8
sys.exit(main())
"""
COMMAND = (sys.executable, "-c", FEW_IDS, "serve")


def test_ids_rise_across_kills(start: Start, connect: Connect) -> None:
    """Also those of rate limits. What a dead daemon left of its socket holds up no start."""
    ids: list[int] = []
    for _ in range(2):
        daemon = start(YAML)
        me = connect(daemon)
        ids += [me.acquire(name).id for name in ("free", "api", "free")]
        daemon.kill()
        assert Path(daemon.address.removeprefix("unix:")).is_socket()
    me = connect(start(YAML))

    assert ids == sorted(set(ids))
    last = me.acquire("free").id
    assert last > ids[-1]
    me.release(*ids, last)
    for call in (me.release, me.renew):
        with pytest.raises(grpc.RpcError) as unknown:
            call(2**40)
        assert Refusal(unknown.value).code is StatusCode.NOT_FOUND
        assert Refusal(unknown.value).reason == "UNKNOWN_LEASE"
        assert Refusal(unknown.value).facts["lease"] == str(2**40)


def test_what_became_of_a_lease_is_told(start: Start, connect: Connect) -> None:
    """By its status if it is one, by each result if they are several; nothing of it is changed."""
    me = connect(start(YAML))
    released = me.acquire("one").id
    me.release(released)
    expired = me.acquire("one", lease=0.05).id
    until(lambda: me.counts("one") == (0, 0), "it has expired")
    spent = me.acquire("api").id
    live = me.acquire("one").id
    everything = [released, expired, spent, 2**62, live]

    for lease, reason in ((released, "released"), (expired, "expired"), (spent, "spent")):
        for call in (me.release, me.renew):
            with pytest.raises(grpc.RpcError) as ended:
                call(lease)
            refusal = Refusal(ended.value)
            assert (refusal.code, refusal.reason) == (StatusCode.FAILED_PRECONDITION, "LEASE_ENDED")
            assert refusal.facts["ended"] == reason
            assert int(refusal.facts["ended_ago_ms"]) >= 0

    unknown, ended_state = pb.LeaseResult.UNKNOWN, pb.LeaseResult.ENDED
    ends = [ended_state] * 3 + [unknown]
    assert [result.state for result in me.renew(*everything)] == [*ends, pb.LeaseResult.RENEWED]
    results = me.release(*everything)
    assert [result.state for result in results] == [*ends, pb.LeaseResult.RELEASED]
    assert [result.ended.reason for result in results] == ["released", "expired", "spent", "", ""]
    assert [result.lease_id for result in results] == everything


def test_grants_go_on_over_the_end_of_a_block(start: Start, connect: Connect) -> None:
    """Whoever comes while the next block is being written is asked to come again; no id is given out twice."""
    daemon = start(YAML, command=COMMAND)
    me = connect(daemon)

    ids = [_insist(me) for _ in range(100)]

    assert ids == sorted(set(ids))
    assert _on_record(daemon.state) >= ids[-1]
    daemon.kill()
    assert _insist(connect(start(YAML, command=COMMAND))) > ids[-1]


def _insist(client: Client) -> int:
    """A lease, given back at once, asked for until there are ids on record."""
    found: list[int] = []

    def granted() -> bool:
        try:
            found.append(client.acquire("free").id)
        except grpc.RpcError as error:
            assert Refusal(error).reason == "STATE_UNWRITABLE"  # noqa: PT017  (to be granted is as good an end)
        return bool(found)

    until(granted, "there are ids again")
    client.release(found[0])
    return found[0]


def _on_record(state: Path) -> int:
    with closing(sqlite3.connect(f"{(state / 'state.db').as_uri()}?mode=ro", uri=True)) as database:
        found: int = database.execute("SELECT reserved FROM meta").fetchone()[0]
    return found
