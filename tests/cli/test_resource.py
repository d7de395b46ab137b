"""`governor resource`."""

import json

import pytest

from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import Claim
from tests.cli.conftest import Fake, Run
from tests.cli.desk import length
from tests.cli.test_leases import lease
from tests.cli.test_process import on_terminal
from tests.cli.test_status import resource

PRIMARY = pb.MemberState(
    id="primary", state=pb.MemberState.LENT, attributes={"endpoint": "db1:5432"}, generation=3, max_leases=1, lent=1
)
REPLICA = pb.MemberState(
    id="replica", state=pb.MemberState.QUARANTINED, generation=4, max_leases=1, failures=2, quarantined_for=length(9)
)


@pytest.fixture
def pool(fake: Fake) -> Fake:
    """One of which everything can be said."""
    listed = resource(
        "orders-db",
        "pool",
        capacity=2,
        in_use=1,
        available=0,
        leases=24,
        waiters=1,
        oldest_wait=12 * 10**9,
        paused=True,
        over_limit=1,
    )
    listed.override.settings["size"] = "2"
    listed.override.declared["size"] = "4"
    listed.override.remaining.CopyFrom(length(61))
    listed.members.quarantined = 1
    fake.desk.answers = {
        pb.GetResourceRequest: pb.GetResourceResponse(
            resource=listed, settings={"size": "2", "order": "lifo"}, members=[PRIMARY, REPLICA]
        ),
        pb.ListLeasesRequest: [pb.ListLeasesResponse(leases=[lease(17)])],
        pb.ListWaitersRequest: [
            pb.ListWaitersResponse(
                waiters=[pb.WaiterState(place=1, client="web", claims=[Claim(resource="orders-db", permits=1)])]
            )
        ],
    }
    return fake


def test_all_is_told_in_the_order_of_what_one_wants_to_know(run: Run, pool: Fake) -> None:
    """Its state, its numbers, what was done to it, its settings, members, leases and line."""
    ended = run("resource", "orders-db", "--limit", "1", "--address", pool.address)

    assert ended.exit == 0
    assert ended.out.splitlines()[:9] == [
        "orders-db: pool, paused, 1 over limit, size=2 for 1m01s, 1 quarantined",
        "  1 of 2 in use, 0 available, 24 leases, 1 waiting, the first for 12s",
        "  override: size 2 (the config says 4), for 1m01s yet",
        "  in force: order: lifo, size: 2",
        "",
        "members",
        "  MEMBER   STATE                LENT  GENERATION  FAILURES  LENDINGS  ATTRIBUTES",
        "  primary  lent                  1/1           3                   0  endpoint=db1:5432",
        "  replica  quarantined, 9s yet   0/1           4         2         0",
    ]
    assert "leases (the first 1 of 24)" in ended.out
    assert ended.out.splitlines()[-1].split() == ["1", "web", "orders-db", "0s", "-", "-", "-", "-", "-"]
    assert pool.desk.asked == [
        pb.GetResourceRequest(resource="orders-db"),
        pb.ListLeasesRequest(resource="orders-db", limit=1),
        pb.ListWaitersRequest(resource="orders-db", limit=1),
    ]


def test_tables_fit_the_terminal(pool: Fake) -> None:
    """Of 80 columns, with the indentation."""
    lines = on_terminal("resource", "orders-db", width=80, GOVERNOR_ADDRESS=pool.address, NO_COLOR="1").splitlines()

    assert max(map(len, lines)) <= 80


def test_a_quiet_resource_needs_few_lines(run: Run, fake: Fake) -> None:
    """No table of nothing. Of a rate limit there are windows."""
    fake.desk.answers[pb.GetResourceRequest] = pb.GetResourceResponse(
        resource=resource("api", "rate_limit", capacity=20, available=18),
        windows=[
            pb.WindowState(rate="10/s", burst=20, available=18),
            pb.WindowState(rate="1000/h", burst=1, available=0, next=length(3.6)),
        ],
    )
    assert run("resource", "api", "--address", fake.address).out.splitlines() == [
        "api: rate_limit, open",
        "  0 of 20 in use, 18 available, 0 leases, 0 waiting",
        "",
        "windows",
        "  RATE    BURST  AVAILABLE  NEXT IN",
        "  10/s       20         18        -",
        "  1000/h      1          0     3.6s",
    ]


def test_who_has_ordered_what_and_why_stands_beside_it(run: Run, fake: Fake) -> None:
    """Beside the resource, its override and each member that is kept out."""
    listed = resource("db", "pool", capacity=2, paused=True)
    listed.actor, listed.reason = "joe", "move"
    listed.override.settings["size"] = "2"
    listed.override.remaining.CopyFrom(length(61))
    listed.override.reason = "a \x1b[31msale"
    out = pb.MemberState.QUARANTINED
    fake.desk.answers[pb.GetResourceRequest] = pb.GetResourceResponse(
        resource=listed,
        members=[
            pb.MemberState(id="a", state=out, by_operator=True, actor="ann", actor_client="ops", reason="it\nlags"),
            pb.MemberState(id="b", state=out, by_operator=True, quarantined_for=length(9)),
        ],
    )
    told = run("resource", "db", "--address", fake.address).out.splitlines()
    members = json.loads(run("resource", "db", "-o", "json", "--address", fake.address).out)["members"]

    assert told[0] == "db: pool, paused (by joe: move), size=2 for 1m01s (a \\x1b[31msale)"
    assert "  override: size 2 (the config says nothing), for 1m01s yet (a \\x1b[31msale)" in told
    assert "quarantined by ann, client ops, until restored: it\\nlags " in told[-2]
    assert "quarantined by an operator, 9s yet " in told[-1]
    assert [(member["actor"], member["actor_client"], member["reason"]) for member in members] == [
        ("ann", "ops", "it\nlags"),
        (None, None, None),
    ]


def test_settings_are_for_programs_as_a_config_has_them(run: Run, fake: Fake) -> None:
    """Numbers are numbers; a rate, a length and a word are text, and so is a member whose name is a number."""
    settings = {"permits": "12", "lease": "30s", "rate": "10/s", "burst": "0", "on_disconnect": "keep", "members": "7"}
    fake.desk.answers[pb.GetResourceRequest] = pb.GetResourceResponse(
        resource=resource("api", "pool"), settings=settings
    )

    told = json.loads(run("resource", "api", "-o", "json", "--address", fake.address).out)["settings"]

    assert told == {**settings, "permits": 12, "burst": 0}


def test_the_record_has_all_of_it(run: Run, pool: Fake) -> None:
    """In the shapes of the commands that tell each part, under the names of the help page."""
    record = json.loads(run("resource", "orders-db", "-o", "json", "--address", pool.address).out)
    page = run("resource", "--help").out

    assert record["resource"]["paused"] is True
    assert record["settings"] == {"size": 2, "order": "lifo"}
    assert record["members"][1]["quarantined_for_seconds"] == 9.0
    assert record["leases"][0]["lease"] == 17
    assert record["waiters"][0]["client"] == "web"
    assert all(field in page for field in (*record, *record["members"][0]))
