"""The last ten minutes, bucket by bucket."""

from collections.abc import Iterable

import pytest

from governor.core.effects import Granted, Queued
from governor.core.engine import Engine
from governor.core.snapshot import Peak
from governor.core.types import SECOND, Claim, LeaseId
from governor.driver import Driver
from governor.history import BUCKET, BUCKETS, History
from governor.testing.clock import FakeClock
from tests.core.declared import rate_limit, semaphore


class Scene:
    """A driver on a clock that is moved by hand, with its history."""

    def __init__(self, *, at: int = 5 * SECOND) -> None:
        self.clock = FakeClock(at)
        self.driver = Driver(Engine(), self.clock)
        self.driver.reserve_ids(LeaseId(10**6))
        self.driver.reconfigure((semaphore("db", 4), rate_limit("api", (100, SECOND, 100))))
        self.history = History(self.driver.peaks, at)
        self.driver.turn, self.driver.turn_at = self.history.turn, self.history.ends_at

    def take(self, resource: str = "db", permits: int = 1) -> LeaseId:
        """One lease that is granted at once, and lasts for an hour."""
        answer = self.driver.ask((Claim(resource, permits),))
        assert isinstance(answer, Granted)
        return answer.lease

    def of(self, resource: str = "db") -> tuple[list[int], list[int]]:
        """What a viewer is shown now."""
        self.driver.catch_turn()
        return self.history.between(0, self.history.last, resource)


@pytest.fixture
def scene() -> Scene:
    """At the fifth second of bucket 0."""
    return Scene()


def test_a_bucket_is_shown_when_it_has_ended(scene: Scene) -> None:
    """Not a nanosecond before."""
    scene.take(permits=3)
    scene.clock.time = BUCKET - 1
    assert scene.of() == ([], [])

    scene.clock.time = BUCKET

    assert scene.of() == ([3], [0])
    assert scene.history.last == 0


def test_the_most_of_a_bucket_counts_and_its_end_begins_the_next(scene: Scene) -> None:
    """A peak of a moment shows in its own bucket and in no other."""
    kept, given_back = scene.take(), scene.take(permits=3)
    scene.driver.release((given_back,))
    scene.clock.time = BUCKET + 1
    scene.driver.release((kept,))
    scene.clock.time = 2 * BUCKET + 1

    assert scene.of() == ([4, 1], [0, 0])


def test_what_comes_after_the_end_of_a_bucket_is_of_the_next(scene: Scene) -> None:
    """Also if it is the very step that ends the bucket."""
    scene.take()
    scene.clock.time = BUCKET
    scene.take(permits=3)
    scene.clock.time = 2 * BUCKET

    assert scene.of() == ([1, 4], [0, 0])


def test_who_waited_is_shown(scene: Scene) -> None:
    """The most at once, and in the buckets in which nothing happened, those who went on waiting."""
    scene.driver.reconfigure((semaphore("db", 4, max_wait=3600 * SECOND),))
    scene.take(permits=4)
    tickets = [answer.ticket for _ in range(3) if isinstance(answer := scene.driver.ask((Claim("db", 1),)), Queued)]
    scene.driver.abandon(tickets[0])
    scene.clock.time = 3 * BUCKET

    assert scene.of() == ([4, 4, 4], [3, 2, 2])


def test_nothing_wakes_the_daemon_for_it(scene: Scene) -> None:
    """While nothing is lent there is no timer at all, and what was then is known all the same."""
    lease = scene.take(permits=2)
    scene.driver.release((lease,))
    scene.clock.advance(2 * SECOND)
    # The timers of that lease and of the heartbeat have come by then, or come once.
    scene.clock.advance(3600 * SECOND)

    assert scene.clock.pending == 0
    in_use, waiters = scene.of()
    assert in_use == [0] * BUCKETS
    assert waiters == [0] * BUCKETS


@pytest.mark.parametrize("idle", [1, 2, 59, 60, 61, 1000])
def test_what_is_held_all_along_is_shown_all_along(idle: int) -> None:
    """However many buckets end at once, and never more than the ring is long."""
    peaks = [Peak("db", 7, 2, 5, 1)]
    history = History(lambda: peaks, 0)

    assert history.turn(idle * BUCKET) == (idle + 1) * BUCKET

    in_use, waiters = history.between(0, history.last, "db")
    assert in_use == ([7] + [5] * (idle - 1))[-BUCKETS:]
    assert waiters == ([2] + [1] * (idle - 1))[-BUCKETS:]


def test_only_what_is_new_is_asked_for() -> None:
    """Of buckets from far ago, or that have not ended, nothing is known."""
    history = History(lambda: [Peak("db", 1, 0, 1, 0)], 100 * BUCKET)
    history.turn(103 * BUCKET)

    assert history.last == 102
    assert history.between(101, 102, "db") == ([1, 1], [0, 0])
    assert history.between(101, 101, "db") == ([1], [0])
    assert history.between(103, 999, "db") == history.between(0, 99, "db") == ([], [])
    assert history.between(0, 999, "db") == ([1, 1, 1], [0, 0, 0])
    assert history.between(0, 999, "other") == ([], [])


def test_a_rate_limit_shows_what_was_granted_in_each_bucket(scene: Scene) -> None:
    """And nothing where nobody asked."""
    for at in (5, 6, 7, 25):
        scene.clock.time = at * SECOND
        scene.driver.ask((Claim("api", 50),))
    scene.clock.time = 30 * SECOND

    assert scene.of("api") == ([150, 0, 50], [0, 0, 0])


def test_a_resource_has_no_past_from_before_it_was_declared(scene: Scene) -> None:
    """What it was is not known, which is not the same as nothing; what is removed is forgotten."""
    scene.clock.time = 5 * BUCKET
    scene.driver.reconfigure((semaphore("db", 4), semaphore("new", 4)))
    scene.take("new")
    scene.clock.time = 7 * BUCKET
    assert scene.of("new") == ([1, 1], [0, 0])
    assert len(scene.of("db")[0]) == 7

    scene.driver.reconfigure((semaphore("new", 4),))
    scene.clock.time = 8 * BUCKET

    assert scene.of("db") == ([], [])
    assert scene.of("api") == ([], [])


def test_the_same_bucket_ends_once() -> None:
    """To turn too early changes nothing: the peaks are not asked for."""
    asked = 0

    def peaks() -> Iterable[Peak]:
        nonlocal asked
        asked += 1
        return [Peak("db", asked, 0, 0, 0)]

    history = History(peaks, 0)
    assert history.turn(BUCKET - 1) == BUCKET
    assert history.turn(BUCKET) == 2 * BUCKET
    assert history.turn(BUCKET) == 2 * BUCKET

    assert history.between(0, history.last, "db") == ([2], [0])
