"""`governor health`."""

import json

import pytest
from grpc_health.v1 import health_pb2

from tests.cli.conftest import Fake, Run

Status = health_pb2.HealthCheckResponse


@pytest.mark.parametrize(
    ("status", "code", "word"), [(Status.SERVING, 0, "serving"), (Status.NOT_SERVING, 75, "not serving")]
)
def test_the_exit_code_is_the_answer(run: Run, fake: Fake, status: int, code: int, word: str) -> None:
    """A container's health check looks at nothing else; people get a word, programs a boolean."""
    fake.health.set("", status)
    table = run("health", "--address", fake.address)
    record = run("health", "-o", "json", "--address", fake.address)

    assert (table.exit, table.out, table.err) == (code, f"{word}\n", "")
    assert (record.exit, json.loads(record.out)) == (code, {"serving": code == 0})
