"""Who may do what: names with stars, verbs, and whose a token is."""

import fnmatch
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.access import Client, Policy, Verb, digest_of
from governor.core.types import Reason

WORDS = st.text("ab-*[?", max_size=12)


@given(glob=WORDS, name=st.text("ab-[?", max_size=12))
def test_a_star_is_any_text_and_nothing_else_is_special(glob: str, name: str) -> None:
    """As a regular expression says it in which all else is escaped."""
    pattern = ".*".join(re.escape(part) for part in glob.split("*"))
    assert Client("c", resources=(glob,)).covers(name) is bool(re.fullmatch(pattern, name, re.DOTALL))


@given(glob=st.text("ab*", max_size=8), name=st.text("ab", max_size=8))
def test_it_is_what_a_shell_makes_of_it(glob: str, name: str) -> None:
    """Where there are only stars."""
    assert Client("c", resources=(glob,)).covers(name) is fnmatch.fnmatchcase(name, glob)


def test_a_name_made_to_be_slow_is_not() -> None:
    """A pattern with many stars takes no longer than its length and the name's: no name makes it try again."""
    assert not Client("c", resources=("*a" * 90 + "b",)).covers("a" * 200)


@pytest.mark.parametrize(
    ("verbs", "may"),
    [
        ({Verb.ACQUIRE}, {Verb.ACQUIRE}),
        ({Verb.READ}, {Verb.READ}),
        ({Verb.ADMIN}, {Verb.ADMIN, Verb.READ}),
        (set(Verb), set(Verb)),
        (set(), set()),
    ],
)
def test_whoever_steps_in_may_also_look(verbs: set[Verb], may: set[Verb]) -> None:
    """And no verb stands for another otherwise."""
    client = Client("c", verbs=frozenset(verbs))
    assert {verb for verb in Verb if client.may(verb)} == may
    assert {verb for verb in Verb if client.refusal(verb, ["x"]) is None} == may


def test_all_resources_must_be_its_own() -> None:
    """Of several the first that is not is named, and nothing tells whether it exists."""
    client = Client("c", resources=("orders-*", "mail"))

    assert client.refusal(Verb.ACQUIRE, ["orders-db", "mail"]) is None
    denial = client.refusal(Verb.ACQUIRE, ["orders-db", "mails", "x"])
    assert denial is not None
    assert (denial.reason, denial.resource) == (Reason.PERMISSION_DENIED, "mails")


def test_only_whoever_has_all_resources_may_touch_the_whole_daemon() -> None:
    """Names that happen to match everything today are not all."""
    assert Client("c", verbs=frozenset({Verb.ADMIN})).refusal_of_all(Verb.ADMIN) is None
    assert Client("c", verbs=frozenset({Verb.ADMIN}), resources=("a*", "b*")).refusal_of_all(Verb.ADMIN) is not None
    assert Client("c").refusal_of_all(Verb.ADMIN) is not None


def test_a_refusal_says_of_what() -> None:
    """Of one resource, of none in particular, of the daemon as a whole."""
    client = Client("c", verbs=frozenset({Verb.ACQUIRE}))
    denials = (client.refusal(Verb.READ, ["x"]), client.refusal(Verb.READ), client.refusal_of_all(Verb.READ))

    assert [denial and (denial.resource, denial.expected) for denial in denials] == [
        ("x", "look at it"),
        ("", "look at resources"),
        ("", "look at the whole daemon"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (Client("c"), Client("c", tokens=(b"x" * 32,)), False),
        (Client("c"), Client("c", max_permits=1), False),
        (Client("c", resources=("a",)), Client("c", resources=("b", "a")), False),
        (Client("c", resources=("a",)), Client("c"), False),
        (Client("c"), Client("c", resources=("a",)), True),
        (Client("c", resources=("a", "b")), Client("c", resources=("a",)), True),
        (Client("c"), Client("c", verbs=frozenset(Verb)), False),
        (Client("c"), Client("c", verbs=frozenset({Verb.READ})), True),
    ],
)
def test_it_is_known_who_may_do_less_than_before(before: Client, after: Client, *, lost: bool) -> None:
    """A client that gets another token beside its own, or more rights, is left alone."""
    assert before.lost_any(after) is lost


def test_each_of_its_tokens_is_a_clients() -> None:
    """The old one beside the new one, and no other."""
    one = Client("one", (digest_of(b"old"), digest_of(b"new")))
    two = Client("two", (digest_of(b"other"),))
    policy = Policy([one, two])

    assert [policy.of_token(digest_of(each)) for each in (b"old", b"new", b"other", b"none", b"")] == [
        one,
        one,
        two,
        None,
        None,
    ]


def test_all_tokens_are_compared_whoever_is_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a time that does not depend on how much of one was right, and to the end, also after one was found."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def compare(known: bytes, said: bytes) -> bool:
        compared.append((known, said))
        return real(known, said)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    digests = [digest_of(bytes([number])) for number in range(5)]
    policy = Policy([Client(str(number), (digest,)) for number, digest in enumerate(digests)])
    for said in (digests[0], digests[4], digest_of(b"none")):
        compared.clear()
        policy.of_token(said)
        assert compared == [(each, said) for each in digests]
