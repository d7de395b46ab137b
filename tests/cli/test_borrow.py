"""How the client library is asked, and how its errors read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

import governor.client
from governor.address import TcpAddress, UnixAddress
from governor.cli import borrow
from governor.cli.exits import Exit
from governor.cli.options import Where
from governor.client import GovernorError, LeaseLost, NotGranted, Unavailable, UsageError
from tests.cli.conftest import Fake, Run

WHERE = Where(TcpAddress("127.0.0.1", 7411), "default")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NotGranted("a: none free", reason="none_free", resource="a"), Exit.TRY_LATER, "a: none free"),
        (
            NotGranted("a: full", reason="line_full", resource="a", retry_after=1.17),
            Exit.TRY_LATER,
            "a: full; try again in 1.2s",
        ),
        (
            NotGranted("a: full; try again in 2s", reason="line_full", retry_after=2),
            Exit.TRY_LATER,
            "a: full; try again in 2s",
        ),
        (NotGranted("a: no permits came", reason="wait_over"), Exit.TIMED_OUT, "a: no permits came"),
        (NotGranted("governor: draining", reason="draining"), Exit.TRY_LATER, "draining"),
        (NotGranted("a: no such resource", reason="unknown_resource", never=True), Exit.USAGE, "a: no such resource"),
        (NotGranted("who are you", reason="unauthenticated", never=True), Exit.DENIED, "who are you"),
        (NotGranted("not you", reason="permission_denied", never=True), Exit.DENIED, "not you"),
        (
            Unavailable("no governor daemon at x: gone", address="x"),
            Exit.CANNOT_REACH,
            "no governor daemon at x: gone. Another address: --address or GOVERNOR_ADDRESS.",
        ),
        (UsageError("wait is a number"), Exit.USAGE, "wait is a number"),
        (LeaseLost("lease 3 is lost", lease=3, reason="expired"), Exit.LEASE_LOST, "lease 3 is lost"),
        (GovernorError("oh no\x1b[2J"), Exit.BUG, "oh no\\x1b[2J"),
    ],
    ids=str,
)
def test_each_error_has_words_and_an_exit_code(error: GovernorError, code: Exit, sentence: str, tmp_path: Path) -> None:
    """The daemon's words, safe to show, and the codes that a call of its own would have had."""
    where = Where(UnixAddress(tmp_path / "nobody.sock"), "default")
    failure = borrow.failure(error, where)

    assert (failure.exit, failure.sentence) == (code, sentence)


def test_a_refusal_keeps_what_programs_want_to_know() -> None:
    """Its reason as on the wire, and when to come again."""
    failure = borrow.failure(NotGranted("a: full", reason="line_full", resource="a", retry_after=1.5), WHERE)

    assert (failure.reason, dict(failure.facts), failure.retry) == ("LINE_FULL", {"resource": "a"}, 1_500_000_000)


class AskedError(GovernorError):
    """What a client was asked for, instead of an answer."""

    def __init__(self, address: str, name: str | None, claims: Mapping[str, int], words: Mapping[str, object]) -> None:
        super().__init__(f"{address} {name} {dict(claims)}")
        self.seen = (address, name, dict(claims), {key: words[key] for key in ("wait", "lease", "labels", "away")})


class Listening:
    """A client that refuses everything with what it was asked."""

    asked: "list[AskedError]" = []  # noqa: RUF012 - one list for all, emptied by each test

    def __init__(self, address: str, *, name: str | None = None, unavailable: str = "raise") -> None:
        self._address = address
        self._name = name
        self._away = unavailable

    def acquire(self, claims: Mapping[str, int], **words: object) -> None:
        """Note it."""
        asked = AskedError(self._address, self._name, claims, {**words, "away": self._away})
        self.asked.append(asked)
        raise asked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def test_run_asks_for_what_the_words_say(run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds for durations; what was not said is left to the daemon."""
    monkeypatch.setattr(governor.client, "Client", Listening)
    monkeypatch.setattr(Listening, "asked", [])
    full = ["--wait", "250ms", "--lease", "1h", "--label", "job=nightly", "--label", "of=a=b", "--client", "cron"]
    run("run", "a=2", "b", "--permits", "3", *full, "--address", fake.address, "--", "true")
    run("run", "a", "--wait", "0", "--address", fake.address, "--", "true")
    run("run", "a", "--address", fake.address, "--", "true")

    assert [asked.seen for asked in Listening.asked] == [
        (
            fake.address,
            "cron",
            {"a": 2, "b": 3},
            {"wait": 0.25, "lease": 3600.0, "labels": {"job": "nightly", "of": "a=b"}, "away": "wait"},
        ),
        (fake.address, "governor-run", {"a": 1}, {"wait": 0.0, "lease": None, "labels": {}, "away": "wait"}),
        (fake.address, "governor-run", {"a": 1}, {"wait": None, "lease": None, "labels": {}, "away": "raise"}),
    ]
