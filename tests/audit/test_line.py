"""A line of the audit file: one JSON object with what there is to say, and nothing else."""

import json

from hypothesis import given
from hypothesis import strategies as st

from governor.audit.line import line
from governor.core.types import MILLISECOND, SECOND, Claim, Grant, Member
from governor.entries import Asker, Entry, What

AT = 1_700_000_000 * SECOND + 1_500


def test_a_lease() -> None:
    """Its members are named, so that it can be told who had which; what an operator gave them is not."""
    grants = (Grant("workers", 1, (Member("w1", (("password", "hunter2"),)),)), Grant("db", 2))
    written = line(Entry(AT, What.GRANTED, ("workers", "db"), "web", 17, grants, waited=0, remaining=30 * SECOND))
    assert written == (
        b'{"time":"2023-11-14T22:13:20.000001Z","what":"granted","lease":17,"client":"web",'
        b'"resources":["workers","db"],"claims":[{"resource":"workers","permits":1,"members":["w1"]},'
        b'{"resource":"db","permits":2}],"waited_seconds":0.0,"remaining_seconds":30.0}\n'
    )


def test_a_grant_that_was_asked_for_on_a_session() -> None:
    """By which process of the client."""
    entry = Entry(AT, What.GRANTED, ("db",), "web", 7, asker=Asker("3f9c02aa", 4711, 'a"b'))
    said = json.loads(line(entry))
    assert (said["session"], said["pid"], said["host"]) == ("3f9c02aa", 4711, 'a"b')
    entry.asker = Asker("3f9c02aa", 0, "")
    assert json.loads(line(entry)).keys() == said.keys() - {"pid", "host"}


def test_an_act() -> None:
    """Who, what, to what, why, and the rest in words."""
    written = line(Entry(AT, What.PAUSED, ("db",), detail="to the end", actor="alice", reason="a move"))
    assert written == (
        b'{"time":"2023-11-14T22:13:20.000001Z","what":"paused","resources":["db"],"reason":"a move",'
        b'"detail":"to the end","actor":"alice"}\n'
    )
    known = json.loads(line(Entry(AT, What.PAUSED, ("db",), actor="alice", actor_client="ops")))
    assert (known["actor"], known["actor_client"]) == ("alice", "ops")


def test_everything_else() -> None:
    """A refusal, an end, and how many were missed."""
    entry = Entry(AT, What.REFUSED, claims=(Claim("api", 1, "k"),), reason="hopeless", held=MILLISECOND, missed=3)
    said = json.loads(line(entry))
    del said["time"]
    assert said == {
        "what": "refused",
        "claims": [{"resource": "api", "permits": 1, "key": "k"}],
        "reason": "hopeless",
        "held_seconds": 0.001,
        "missed": 3,
    }


@given(st.text(), st.text(), st.text(), st.integers(0, 10**18))
def test_every_text_and_length_is_read_back(client: str, name: str, key: str, length: int) -> None:
    """As json writes and reads it."""
    entry = Entry(length, What.GRANTED, (name,), client, 1, (Grant(name, 1, (Member(key),), key),), held=length)
    written = line(entry)
    said = json.loads(written)
    assert written.count(b"\n") == 1
    assert said.get("client", "") == client
    assert said["resources"] == [name]
    claim = {"resource": name, "permits": 1, "key": key, "members": [key]}
    assert said["claims"] == [{field: value for field, value in claim.items() if value != "" or field == "resource"}]
    assert said["held_seconds"] == length / SECOND


def test_names_are_whatever_they_are() -> None:
    """Nothing in one can end the line or the text, or act on a terminal; half a character is no reason to fail."""
    name = 'a"b\\c\n\x1b[31m\x9b\u202e{}ü\udc80'
    written = line(Entry(AT, What.GRANTED, (name,), detail=name))
    assert written.count(b"\n") == 1
    assert written.decode().strip().isprintable()
    assert json.loads(written)["resources"] == [name] == [json.loads(written)["detail"]]
