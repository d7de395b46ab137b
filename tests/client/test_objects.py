"""Clients, leases and errors as a program handles them, without a daemon: made, shown, pickled, caught."""

import asyncio
import copy
import inspect
import pickle
from collections.abc import AsyncIterator, Iterator

import pytest

import governor
from governor.client import (
    AsyncClient,
    AsyncLease,
    Client,
    GovernorError,
    Lease,
    LeaseLost,
    NotGranted,
    Unavailable,
    UsageError,
)
from governor.client.address import parse
from governor.client.held import Held, Member, State
from governor.client.link import Link

NAMES = ("acquire", "try_acquire", "adopt", "limit", "close", "address", "let_through")


def lease(*, state: State = State.HELD, length: int | None = 30 * 10**9) -> Lease:
    """One that no daemon knows."""
    link = Link(parse("127.0.0.1:1"), "tests", {}, "0")
    members = (Member("primary", {"endpoint": "db1:5432"}, 1, "orders-db"),)
    held = Held(7, (("orders-db", 1), ("api", 3)), members, length, 250_000_000, 1 << 60, None, link.pid, state)
    return Lease(link, held)


# --- what is there ------------------------------------------------------------------------------------------------


def test_programs_import_it_from_governor() -> None:
    """The names of the tree of errors, too."""
    for name in (
        "Client",
        "AsyncClient",
        "Lease",
        "AsyncLease",
        "GovernorError",
        "NotGranted",
        "LeaseLost",
        "Unavailable",
        "UsageError",
    ):
        assert getattr(governor, name) is getattr(governor.client, name)


def test_both_clients_have_the_same_names_and_arguments() -> None:
    """Who knows one knows the other."""
    for name in NAMES:
        one, other = getattr(Client, name), getattr(AsyncClient, name)
        if not isinstance(one, property):
            assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters), name
    assert list(inspect.signature(Client).parameters) == list(inspect.signature(AsyncClient).parameters)


def test_everything_public_is_documented() -> None:
    """Also what `help` shows of leases."""
    for kind in (Client, AsyncClient, Lease, AsyncLease, GovernorError, NotGranted, LeaseLost, Unavailable, UsageError):
        assert inspect.getdoc(kind)
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{kind.__name__}.{name}"


# --- clients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_making_a_client_does_nothing(kind: type[Client | AsyncClient], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be made at import time: no socket, no thread, not even a look at the environment."""
    monkeypatch.setattr("socket.socket", None)
    monkeypatch.setattr("threading.Thread", None)
    client = kind()
    monkeypatch.setenv("GOVERNOR_ADDRESS", "db9:1")

    assert client.address == "db9:1"
    assert client.let_through == 0


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_shows_where_it_looks(kind: type[Client | AsyncClient]) -> None:
    """In its repr."""
    assert repr(kind("db1:7411")) == f"{kind.__name__}('db1:7411')"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_that_is_pickled_is_made_anew(kind: type[Client | AsyncClient]) -> None:
    """With the same arguments; what it holds stays with whoever holds it."""
    client = kind("db1:7411", name="shop", labels={"team": "x"}, unavailable="allow")
    for other in (pickle.loads(pickle.dumps(client)), copy.copy(client), copy.deepcopy(client)):  # noqa: S301
        assert type(other) is kind
        assert other._settings.arguments() == client._settings.arguments()
        assert other._settings is not client._settings


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_that_makes_no_sense_is_told_when_it_is_needed(kind: type[Client | AsyncClient]) -> None:
    """As a mistake of the program, not as a daemon that is away."""
    client = kind("nonsense")
    with pytest.raises(UsageError, match="'nonsense' is no address"):
        _ = client.address


def test_closing_a_client_that_did_nothing_does_nothing() -> None:
    """Twice, and as a block."""
    with Client("127.0.0.1:1") as client:
        client.close()
    client.close()

    async def main() -> None:
        async with AsyncClient("127.0.0.1:1") as client:
            await client.close()

    asyncio.run(main())


def test_closing_ends_the_thread() -> None:
    """At once, when there is nothing left to say."""
    gov = Client("127.0.0.1:1")
    with pytest.raises(Unavailable):
        gov.acquire("orders-db")
    thread = gov._settings.link._thread
    assert thread is not None

    gov.close()

    assert not thread.is_alive()


def test_a_decorator_must_fit_the_function() -> None:
    """A coroutine function limited by threads would give its permit back before it runs, and so would a generator."""

    async def work() -> None: ...

    def toil() -> None: ...

    def yields() -> Iterator[int]:
        yield 1

    async def yields_too() -> AsyncIterator[int]:
        yield 1

    for function in (yields, yields_too):
        with pytest.raises(UsageError, match="yields: acquire within it"):
            Client().limit("x")(function)
    with pytest.raises(UsageError, match="limit it by an AsyncClient"):
        Client().limit("x")(work)
    with pytest.raises(UsageError, match="limit it by a Client"):
        AsyncClient().limit("x")(toil)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_decorator_that_makes_no_sense_is_told_where_it_is_written(kind: type[Client] | type[AsyncClient]) -> None:
    """And not when the function is called: without anything to acquire, or with what each call would be refused for."""

    def toil() -> None: ...

    client = kind()
    with pytest.raises(UsageError, match=r'write @gov.limit\("payments-api"\)'):
        client.limit(toil)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="permits are a whole number from 1"):
        client.limit("x", 0)
    with pytest.raises(UsageError, match="wait is a number of seconds"):
        client.limit("x", wait=-1)


def test_a_decorated_function_keeps_its_name_and_words() -> None:
    """For tracebacks and for `help`; what it is, too."""

    def toil() -> None:
        """Toils."""

    async def work() -> None:
        """Works."""

    limited, async_limited = Client().limit("x")(toil), AsyncClient().limit("x")(work)

    assert (limited.__name__, limited.__doc__) == ("toil", "Toils.")
    assert (async_limited.__name__, async_limited.__doc__) == ("work", "Works.")
    assert inspect.iscoroutinefunction(async_limited)


# --- leases -------------------------------------------------------------------------------------------------------


def test_a_lease_says_what_it_is() -> None:
    """Its id, what it covers, and what was lent."""
    made = lease()

    assert (made.id, made.claims, made.permits, made.waited) == (7, {"orders-db": 1, "api": 3}, 4, 0.25)
    assert (made.granted, made.lost, made.ended) == (True, False, False)
    assert made.member.attributes["endpoint"] == "db1:5432"
    assert made.remaining is not None
    assert made.remaining > 0
    assert repr(made) == "<Lease 7 orders-db: 1, api: 3 held>"


def test_a_lease_that_is_over_has_nothing_left() -> None:
    """Whatever became of it."""
    for state in (State.RELEASED, State.DETACHED, State.LOST):
        made = lease(state=state)

        assert (made.remaining, made.ended, made.lost) == (0.0, True, state is State.LOST)
        assert repr(made).endswith(f"{state.name.lower()}>")


def test_permits_that_are_spent_have_no_time() -> None:
    """There is nothing to keep."""
    assert lease(length=None).remaining is None


def test_the_one_member_is_asked_for_where_there_is_one() -> None:
    """Else it would be a guess."""
    made = lease()
    assert made._held is not None
    made._held.members = ()

    with pytest.raises(ValueError, match="pool members"):
        _ = made.member


def test_who_was_let_through_has_a_lease_of_nothing() -> None:
    """It can be used like any other, and says what it is."""
    made = Lease(Link(parse("127.0.0.1:1"), "tests", {}, "0"), None)
    with made as entered:
        assert entered is made
    made.release("broken")
    made.check()

    assert (made.granted, made.id, made.permits, made.members, made.lost) == (False, 0, 0, (), False)
    assert (made.remaining, made.waited, made.detach()) == (None, 0.0, 0)
    assert repr(made) == "<Lease let through>"


def test_a_lease_that_is_over_cannot_be_entered() -> None:
    """The block would run without a permit; in a forked child, too, since its parent holds it."""
    over = lease(state=State.RELEASED)
    with pytest.raises(UsageError, match="acquire again"), over:
        pytest.fail("it ran")
    with pytest.raises(LeaseLost), lease(state=State.LOST):
        pytest.fail("it ran")


@pytest.mark.parametrize("claims", [5, None, ["thumbnails"]])
def test_what_to_acquire_is_a_name_or_permits_by_resource(claims: object) -> None:
    """Whatever a program without type checks passes."""
    for kind in (Client, AsyncClient):
        with pytest.raises(UsageError, match="what to acquire"):
            kind("127.0.0.1:1").acquire(claims)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("address", [7411, "http://127.0.0.1:7411", "127.0.0.1/x:1"])
def test_what_is_no_address_is_a_mistake_of_the_program(address: object) -> None:
    """And no daemon that is away, which one might wait for or do without."""
    with pytest.raises(UsageError):
        Client(address, unavailable="allow").acquire("x")  # type: ignore[arg-type]  # on purpose


def test_what_a_loss_does_is_checked_before_anything_is_asked() -> None:
    """Not when it is lost."""
    with pytest.raises(UsageError, match="on_loss"):
        Client("127.0.0.1:1").acquire("x", on_loss="cancel")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(UsageError, match="on_loss"):
        _ = AsyncClient("127.0.0.1:1").acquire("x", on_loss="explode")  # type: ignore[arg-type]  # on purpose


def test_an_outcome_is_one_of_three() -> None:
    """A slip of the pen is told, and gives nothing back."""
    made = lease()
    with pytest.raises(UsageError, match="outcome is"):
        made.release("borken")  # type: ignore[arg-type]

    assert not made.ended


# --- errors -------------------------------------------------------------------------------------------------------

ERRORS = (
    NotGranted("x: no permit is free", reason="none_free", resource="x", retry_after=1.5, never=False),
    LeaseLost("lease 7 on x is lost: expired", lease=7, reason="expired"),
    Unavailable("no governor daemon at db1:7411: Connection refused", address="db1:7411"),
    UsageError("permits are a whole number"),
    GovernorError("the client was closed"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whoever_catches_governor_error_has_caught_all(error: GovernorError) -> None:
    """And its text is what a person reads."""
    assert isinstance(error, GovernorError)
    assert str(error) == error.args[0]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_travel_between_processes(error: GovernorError) -> None:
    """As a pool of workers or a task queue sends them, with all they say."""
    other = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert type(other) is type(error)
    assert (str(other), vars(other)) == (str(error), vars(error))
