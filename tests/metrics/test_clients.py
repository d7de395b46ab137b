"""Clients: whose is what, for a bounded number of names, and never wrong about who holds how much."""

from collections import Counter
from random import Random

import pytest

from governor.core.effects import Abandoned, Denied, Effect, Granted, LeaseEnded
from governor.core.types import SECOND, Claim, Denial, EndReason, Grant, LeaseId, Nanos, Reason, TicketId
from governor.metrics import Metrics
from governor.metrics.clients import IDLE, Clients
from tests.metrics.messages import PROTOBUF, readings
from tests.metrics.reading import OPENMETRICS, read, resource, snapshot, text

# What a client may call itself: any text of at most 256 bytes. The config lets in less.
NAUGHTY = (
    'say "hi"',
    "back\\slash",
    "ends in \\",
    "\\n",
    "line\nbreak",
    'x"} 1\ngovernor_build_info{version="forged"} 1\n# EOF\n',
    "größe-日本-🦊",
    "{le=}",
    "# EOF",
    "\r",
    "\0",
    "\x1b[2J\u2028\u202e\x85\ufffe",
    "a" * 256,
)
DECLARED = snapshot(resource("jobs"), resource("api", "rate_limit"))
GRANTS = (Grant("jobs", 1),)
CLAIMS = (Claim("jobs", 1),)


class Story:
    """Metrics that are told what clients do, and a clock of their own."""

    def __init__(self, limit: int) -> None:
        self.now: Nanos = 0
        self.metrics = Metrics(lambda: DECLARED, version="1", now=lambda: self.now)
        self.metrics.show_clients(limit)

    def tell(self, *effects: Effect) -> None:
        """One step."""
        self.metrics.observe(effects)

    def grant(self, client: str, *, waited: Nanos = 0) -> None:
        """One lease."""
        self.tell(Granted(TicketId(1), LeaseId(1), GRANTS, 1, waited, client))

    def end(self, client: str, reason: EndReason = EndReason.RELEASED, *, held: Nanos = SECOND) -> None:
        """One lease less."""
        self.tell(LeaseEnded(LeaseId(1), reason, GRANTS, client, held, 0))

    def use(self, client: str) -> None:
        """Taken and given back."""
        self.grant(client)
        self.end(client)

    def clients(self) -> set[str]:
        """Who has series."""
        return read(self.metrics).labels("governor_client_leases", "client")

    def of(self, name: str, **labels: str) -> float:
        """A sample of the page."""
        return read(self.metrics).of(f"governor_client_{name}", **labels)


def test_each_client_has_its_own_numbers() -> None:
    """Leases, tickets by outcome, time in line and time held; what claims several resources counts once."""
    story = Story(10)
    both = (Grant("jobs", 1), Grant("api", 2))
    story.tell(Granted(TicketId(1), LeaseId(1), both, 1, 3 * SECOND, "shop"))
    story.use("shop")
    story.grant("shop")
    story.end("shop", EndReason.EXPIRED, held=30 * SECOND)
    story.tell(Granted(TicketId(1), LeaseId(1), both, 1, 3 * SECOND, "shop", repeated=True))
    story.tell(Denied(TicketId(2), Denial(Reason.WAIT_OVER), CLAIMS, 5 * SECOND, "cron"))
    story.tell(Abandoned(TicketId(3), CLAIMS, SECOND, "cron"))

    assert story.clients() == {"shop", "cron"}
    assert story.of("leases", client="shop") == 1
    assert story.of("leases", client="cron") == 0
    assert story.of("acquires_total", client="shop", outcome="granted") == 3
    assert story.of("acquires_total", client="shop", outcome="repeated") == 1
    assert story.of("acquires_total", client="cron", outcome="wait_over") == 1
    assert story.of("acquires_total", client="cron", outcome="abandoned") == 1
    assert story.of("wait_seconds_total", client="shop") == 3
    assert story.of("wait_seconds_total", client="cron") == 6
    assert story.of("lease_ends_total", client="shop", reason="released") == 1
    assert story.of("lease_ends_total", client="shop", reason="expired") == 1
    assert story.of("lease_ends_total", client="shop", reason="disconnected") == 0
    assert story.of("hold_seconds_total", client="shop") == 31


def test_what_is_spent_is_not_held() -> None:
    """A grant of rate limits only is a ticket that was granted, and no lease."""
    story = Story(10)
    story.tell(Granted(TicketId(1), LeaseId(1), (Grant("api", 1),), None, 0, "shop"))

    assert story.of("acquires_total", client="shop", outcome="granted") == 1
    assert story.of("leases", client="shop") == 0


def test_leases_from_before_a_restart_are_held() -> None:
    """... until they end, which makes 0 and not less."""
    story = Story(10)
    story.metrics.restored(["shop", "shop", "cron"])
    story.end("shop")

    assert story.of("leases", client="shop") == 1
    assert story.of("leases", client="cron") == 1
    assert story.of("acquires_total", client="shop", outcome="granted") == 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_more_clients_than_the_limit_are_shown_together(limit: int) -> None:
    """Who came first has a name; nothing is lost of the rest."""
    story = Story(limit)
    for n in range(50):
        story.grant(f"client-{n}")

    assert story.clients() == {f"client-{n}" for n in range(limit)} | {"other"}
    assert story.of("leases", client="other") == 50 - limit
    assert story.of("acquires_total", client="other", outcome="granted") == 50 - limit


def test_a_crowd_of_strangers_is_not_kept() -> None:
    """Names that are never used again take no memory, also if nobody scrapes; their counts stay."""
    clients = Clients(5)
    for n in range(20_000):
        clients[f"stranger-{n}"].granted += 1
        clients[f"stranger-{n}"].released += 1

    assert len(clients) < 2500
    assert clients.shown()["other"].granted == 20_000 - 5


def test_a_client_without_a_name_is_called_unnamed() -> None:
    """An empty label would be none; whoever calls itself so is counted with them."""
    story = Story(10)
    story.grant("")
    story.grant("unnamed")

    assert story.clients() == {"unnamed"}
    assert story.of("leases", client="unnamed") == 2


def test_a_client_that_calls_itself_other_is_one_of_them() -> None:
    """Two series of one label would be a page that no scraper reads."""
    story = Story(1)
    for name in ("other", "a", "b"):
        story.grant(name)

    assert story.clients() == {"a", "other"}
    assert story.of("leases", client="other") == 2


@pytest.mark.parametrize("name", NAUGHTY)
def test_any_name_survives(name: str) -> None:
    """Nobody has said what a client may call itself but how long that is; in each format it is a label and no more."""
    story = Story(10)
    story.grant(name)
    pages = [read(story.metrics), read(story.metrics, OPENMETRICS)]
    pages.append(readings(b"".join(story.metrics.page(PROTOBUF).chunks)))

    assert [page.of("governor_client_leases", client=name) for page in pages] == [1] * 3
    assert len({frozenset(key for key in page if key[0].startswith("governor_")) for page in pages}) == 1


class TestRoom:
    """Who has a name of its own when there are more clients than names."""

    def test_who_has_been_idle_for_an_hour_makes_room(self) -> None:
        """What the newcomer did before stays with the others, and what it holds comes with it."""
        story = Story(1)
        story.use("old")
        story.grant("new")
        story.grant("new")
        story.end("new")
        assert story.clients() == {"old", "other"}

        story.now += IDLE
        assert story.clients() == {"new", "other"}
        assert story.of("leases", client="new") == 1
        assert story.of("leases", client="other") == 0
        assert story.of("acquires_total", client="new", outcome="granted") == 0
        assert story.of("acquires_total", client="other", outcome="granted") == 2

        story.end("new")
        assert story.of("leases", client="new") == 0
        assert story.of("lease_ends_total", client="new", reason="released") == 1

    def test_nobody_makes_room_who_holds_something(self) -> None:
        """However long ago it took it."""
        story = Story(1)
        story.grant("old")
        story.grant("new")
        for _ in range(3):
            assert story.clients() == {"old", "other"}
            story.now += IDLE

    def test_nobody_makes_room_for_nobody(self) -> None:
        """A night without work ends no series."""
        story = Story(1)
        story.use("old")
        for _ in range(3):
            assert story.clients() == {"old"}
            story.now += IDLE

    def test_news_begin_the_hour_anew(self) -> None:
        """Every kind of it."""
        story = Story(1)
        story.use("old")
        story.grant("new")
        grant = Granted(TicketId(1), LeaseId(1), (Grant("api", 1),), None, 0, "old")
        denied = Denied(TicketId(2), Denial(Reason.WAIT_OVER), CLAIMS, 0, "old")
        for news in (grant, denied, Abandoned(TicketId(3), CLAIMS, 0, "old")):
            assert "old" in story.clients()
            story.now += IDLE - 1
            story.tell(news)
        assert "old" in story.clients()

    def test_a_lower_limit_leaves_the_first(self) -> None:
        """Whoever is shown no more is among the others with what it holds, and not with its past."""
        story = Story(3)
        for name in ("a", "b", "c"):
            story.use(name)
            story.grant(name)
        story.metrics.show_clients(1)

        assert story.clients() == {"a", "other"}
        assert story.of("leases", client="other") == 2
        assert story.of("acquires_total", client="other", outcome="granted") == 0

        story.metrics.show_clients(3)
        assert story.clients() == {"a", "b", "c"}
        assert story.of("leases", client="b") == 1


@pytest.mark.parametrize("seed", range(10))
def test_the_leases_of_all_are_the_leases_that_live(seed: int) -> None:
    """Whatever happens in whatever order, also to the limit: never negative, never counted twice."""
    random = Random(seed)
    story = Story(random.randrange(6))
    truth: Counter[str] = Counter()
    names = ["", "other", "unnamed", *(f"c{n}" for n in range(9))]
    for _ in range(600):
        name, roll = random.choice(names), random.random()
        if roll < 0.45:
            story.grant(name)
            truth[name or "unnamed"] += 1
        elif roll < 0.85 and truth[name or "unnamed"]:
            story.end(name, random.choice((EndReason.RELEASED, EndReason.EXPIRED)))
            truth[name or "unnamed"] -= 1
        elif roll < 0.9:
            story.now += random.choice((SECOND, IDLE))
        elif roll < 0.92:
            story.metrics.show_clients(random.randrange(6))
        else:
            page = read(story.metrics)
            clients = page.labels("governor_client_leases", "client")
            shown = {client: page.of("governor_client_leases", client=client) for client in clients}
            assert sum(shown.values()) == truth.total()
            assert all(leases == truth[client] for client, leases in shown.items() if client != "other"), shown
            assert shown.get("other", 0) >= 0


def test_the_page_names_nobody_before_anybody_came() -> None:
    """Not even the others."""
    assert 'client="' not in text(Story(10).metrics)
