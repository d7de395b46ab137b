"""`governor set`."""

import json

import grpc
import pytest

from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import Resource
from tests.cli.conftest import Fake, Run
from tests.cli.desk import Refusal, length


@pytest.fixture
def overridden(fake: Fake) -> Fake:
    """Its answer to another limit."""
    resource = Resource(name="thumbnails", kind="semaphore", capacity=4, in_use=6, over_limit=2)
    resource.override.settings["permits"] = "4"
    resource.override.declared["permits"] = "8"
    resource.override.remaining.CopyFrom(length(600))
    fake.desk.answers[pb.SetOverrideRequest] = pb.OverrideResponse(resource=resource, changed=True)
    fake.desk.answers[pb.ClearOverrideRequest] = pb.OverrideResponse(resource=Resource(name="thumbnails"), changed=True)
    return fake


def test_another_limit_is_set_for_a_while(run: Run, overridden: Fake) -> None:
    """What it is, what the config says, for how long, and what is lent beyond it."""
    ended = run("set", "thumbnails", "permits=4", "--for", "10m", "--address", overridden.address)
    record = json.loads(
        run("set", "thumbnails", "permits=4", "--for", "10m", "-o", "json", "--address", overridden.address).out
    )

    assert overridden.desk.asked[0] == pb.SetOverrideRequest(
        resource="thumbnails", settings={"permits": "4"}, length=length(600)
    )
    assert (ended.exit, ended.out) == (
        0,
        "thumbnails: permits 4 (the config says 8) for 10m; 2 lent beyond it must return before the next grant\n",
    )
    assert record["override"] == {
        "settings": {"permits": 4},
        "declared": {"permits": 8},
        "remaining_seconds": 600.0,
        "actor": None,
        "actor_client": None,
        "reason": None,
    }
    assert (record["resource"]["name"], record["changed"]) == ("thumbnails", True)


def test_it_is_ended_before_its_time(run: Run, overridden: Fake) -> None:
    """To do so twice is no mistake."""
    first = run("set", "thumbnails", "--default", "--address", overridden.address)
    overridden.desk.answers[pb.ClearOverrideRequest] = pb.OverrideResponse(resource=Resource(name="thumbnails"))
    second = run("set", "thumbnails", "--default", "--address", overridden.address)

    assert overridden.desk.asked[0] == pb.ClearOverrideRequest(resource="thumbnails")
    assert (first.exit, first.out) == (0, "thumbnails: as the config declares it\n")
    assert (second.exit, second.out) == (0, "thumbnails: as the config declares it already\n")


def test_values_are_the_daemon_s_to_judge(run: Run, overridden: Fake) -> None:
    """Several at once, with whatever stands after the first =."""
    run("set", "api", "rate=50/s", "windows=10/s,a=b", "--for", "1h", "--address", overridden.address)

    (asked,) = overridden.desk.asked
    assert isinstance(asked, pb.SetOverrideRequest)
    assert dict(asked.settings) == {"rate": "50/s", "windows": "10/s,a=b"}


def test_what_is_refused_of_it_is_called_as_it_was_typed(run: Run, overridden: Fake) -> None:
    """Not by the name of a field in a message; and of which resource."""
    overridden.desk.answers[pb.SetOverrideRequest] = Refusal(
        grpc.StatusCode.INVALID_ARGUMENT, "settings.permit: expected permits", reason="MALFORMED"
    )
    ended = run("set", "thumbnails", "permit=4", "--for", "1m", "--address", overridden.address)

    assert (ended.exit, ended.err) == (2, "governor: thumbnails: permit: expected permits\n")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["permits=4"], "say for how long, such as --for 10m; what is to last belongs in the config"),
        ([], "say what to set, such as permits=12 --for 10m"),
        (["--for", "1m"], "say what to set, such as permits=12 --for 10m"),
        (["--default", "permits=4"], "--default ends what was set: it stands alone after RES"),
        (["--default", "--for", "1m"], "--default ends what was set: it stands alone after RES"),
        (["permits", "--for", "1m"], "write NAME=VALUE, such as permits=12"),
        (["=4", "--for", "1m"], "write NAME=VALUE, such as permits=12"),
        (["permits=4", "permits=5", "--for", "1m"], "permits is set twice"),
        (["permits=4", "--for", "0s"], "'--for': '0s' is too short: write one from 1s to 30d"),
        (["permits=4", "--for", "999ms"], "'--for': '999ms' is too short: write one from 1s to 30d"),
        (["permits=4", "--for", "31d"], "'--for': '31d' is too long: write one from 1s to 30d"),
    ],
    ids=str,
)
def test_half_an_order_is_a_mistake(run: Run, overridden: Fake, arguments: list[str], hint: str) -> None:
    """With what is missing; nothing was asked."""
    ended = run("set", "thumbnails", *arguments, "--address", overridden.address)

    assert ended.exit == 2
    assert hint in " ".join(ended.err.split())
    assert overridden.desk.asked == []
