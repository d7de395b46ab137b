"""What is declared, as the YAML would say it: written so that it reads the same, and without secrets."""

import pytest

from governor.config.override import MAX_SETTING, SettingError, overridden, overriding
from governor.config.written import changes, declared, limit_settings, settings
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from tests.config.reading import config


def spec(text: str) -> ResourceSpec:
    """The one resource of a section."""
    (only,) = config(text).resources
    return only


def semaphore(text: str) -> ResourceSpec:
    """One with these keys."""
    return spec(f"semaphores: {{a: {{{text}}}}}")


def rate_limit(text: str) -> ResourceSpec:
    """One with these keys."""
    return spec(f"rate_limits: {{a: {{{text}}}}}")


def pool(text: str) -> ResourceSpec:
    """One with these keys."""
    return spec(f"pools: {{a: {{{text}}}}}")


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        (semaphore("permits: 8"), {"permits": "8"}),
        (semaphore("permits: unlimited"), {"permits": "unlimited"}),
        (rate_limit("rate: 100/s"), {"rate": "100/s", "burst": "100"}),
        (rate_limit("rate: 10/90s, burst: 3"), {"rate": "10/1m30s", "burst": "3"}),
        (rate_limit("rate: 0/s, burst: 3"), {"rate": "0/s", "burst": "0"}),
        (rate_limit("rate: unlimited"), {"rate": "unlimited"}),
        (rate_limit("windows: [10/s, {rate: 1000/h, burst: 50}]"), {"windows": "10/s, 1000/h burst 50"}),
        (rate_limit("windows: [{rate: 10/s, burst: 50}]"), {"rate": "10/s", "burst": "50"}),
    ],
)
def test_the_limit_of_each_kind(resource: ResourceSpec, told: dict[str, str]) -> None:
    """Its own settings come first; what all have comes after them."""
    assert limit_settings(resource.limit) == told
    assert list(settings(resource).items())[: len(told)] == list(told.items())
    if not isinstance(resource.limit, PoolSpec) and "0/s" not in told.values():
        assert overridden(SemaphoreSpec(1) if "permits" in told else RateLimitSpec(()), told) == resource.limit


def test_what_all_resources_have() -> None:
    """Lengths in the units of the file, and its words."""
    resource = semaphore("permits: 1, lease: 90s, max_lease: 2h, on_disconnect: keep, max_wait: 0, max_waiters: 7")

    assert settings(resource) == {
        "permits": "1",
        "lease": "1m30s",
        "max_lease": "2h",
        "on_disconnect": "keep",
        "max_wait": "0s",
        "max_waiters": "7",
    }
    assert settings(semaphore("permits: 1, on_disconnect: release"))["on_disconnect"] == "release"


def test_a_pool() -> None:
    """Members by name, or their number when they are only numbered; a long list is cut."""
    named = settings(pool("members: {x: , y: {max_leases: 3}}, order: fifo, quarantine: 0, max_lifetime: 1h"))
    numbered = settings(pool("size: 30"))
    long = settings(pool(f"members: {{{', '.join(f'm{number}: ' for number in range(30))}}}"))

    assert {key: named[key] for key in ("members", "order", "quarantine", "max_quarantine", "max_lifetime")} == {
        "members": "x, y",
        "order": "fifo",
        "quarantine": "0s",
        "max_quarantine": "1m",
        "max_lifetime": "1h",
    }
    assert named["idle_timeout"] == "never"
    assert (numbered["size"], "members" in numbered) == ("30", False)
    assert long["members"].startswith("m0, m1, ")
    assert long["members"].endswith("m19 and 10 more")


def test_no_attribute_is_written() -> None:
    """Neither its value nor, when it changes, what it was."""
    one, other = (pool(f'members: {{x: {{password: "{word}", host: h}}, y: }}') for word in ("hunter1", "hunter2"))

    told = changes(one, other)

    assert [(change.name, change.before, change.after) for change in told] == [
        ("members.x.password", "(not shown)", "(not shown)")
    ]
    assert "hunter" not in f"{settings(one)} {declared(one)} {told}"


def test_only_what_differs_is_told() -> None:
    """By setting, as it was and as it will be; of another kind, all that is not of both."""
    one, other = semaphore("permits: 10, lease: 5s"), semaphore("permits: 4, lease: 5s")

    assert changes(one, one) == []
    assert [(change.name, change.before, change.after) for change in changes(one, other)] == [("permits", "10", "4")]
    kinds = [(change.name, change.before, change.after) for change in changes(one, rate_limit("rate: 5/s"))]
    assert kinds[:4] == [
        ("kind", "semaphore", "rate_limit"),
        ("permits", "10", ""),
        ("lease", "5s", "30s"),
        ("rate", "", "5/s"),
    ]


def test_many_changes_of_members_are_cut() -> None:
    """A pool of a thousand members may be replaced whole."""
    one = ResourceSpec("p", PoolSpec(tuple(MemberSpec(f"a{n}") for n in range(1000))), 1, 1, 0, 0, 0)
    other = ResourceSpec("p", PoolSpec(tuple(MemberSpec(f"b{n}") for n in range(1000))), 1, 1, 0, 0, 0)

    told = changes(one, other)

    assert len(told) == 52
    assert told[-1].after == "and 1950 more changes"


LIMIT = rate_limit("rate: 10/s").limit
BURSTING = rate_limit("rate: 10/s, burst: 30").limit
WINDOWS = rate_limit("windows: [10/s, 1000/h]").limit
UNLIMITED = rate_limit("rate: unlimited").limit


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        (SemaphoreSpec(8), {"permits": "12"}, SemaphoreSpec(12)),
        (SemaphoreSpec(8), {"permits": "0"}, SemaphoreSpec(0)),
        (SemaphoreSpec(None), {"permits": "3"}, SemaphoreSpec(3)),
        (SemaphoreSpec(8), {"permits": "unlimited"}, SemaphoreSpec(None)),
        (LIMIT, {"rate": "50/s"}, rate_limit("rate: 50/s").limit),
        (BURSTING, {"rate": "50/s"}, rate_limit("rate: 50/s, burst: 30").limit),
        (BURSTING, {"burst": "5"}, rate_limit("rate: 10/s, burst: 5").limit),
        (LIMIT, {"rate": "1/m", "burst": "5"}, rate_limit("rate: 1/m, burst: 5").limit),
        (LIMIT, {"rate": "0/s"}, rate_limit("rate: 0/s").limit),
        (BURSTING, {"rate": "unlimited"}, RateLimitSpec(())),
        (UNLIMITED, {"rate": "1/s"}, rate_limit("rate: 1/s").limit),
        (WINDOWS, {"rate": "5/s"}, rate_limit("rate: 5/s").limit),
        (WINDOWS, {"windows": "20/s,1000/h"}, rate_limit("windows: [20/s, 1000/h]").limit),
        (LIMIT, {"windows": " 20/s burst 5 , 9/h "}, rate_limit("windows: [{rate: 20/s, burst: 5}, 9/h]").limit),
    ],
)
def test_an_override_says_what_differs(before: LimitSpec, said: dict[str, str], after: LimitSpec) -> None:
    """The rest stays as declared; a burst that is just the number of its rate goes along with it."""
    assert overridden(before, said) == after


@pytest.mark.parametrize(
    ("limit", "said", "name", "expected"),
    [
        (SemaphoreSpec(8), {}, "", "permits, which a semaphore has"),
        (SemaphoreSpec(8), {"rate": "1/s"}, "rate", "permits, which a semaphore has"),
        (SemaphoreSpec(8), {"permits": "1", "lease": "5s"}, "lease", "permits, which a semaphore has"),
        (SemaphoreSpec(8), {"permits": "x"}, "permits", 'a whole number from 0 to 2147483647, or unlimited; found "x"'),
        (
            SemaphoreSpec(8),
            {"permits": ""},
            "permits",
            "a whole number from 0 to 2147483647, or unlimited; found nothing",
        ),
        (SemaphoreSpec(8), {"permits": "unlimted"}, "permits", "did you mean unlimited?"),
        (LIMIT, {"permits": "1"}, "permits", "rate, burst or windows, which a rate_limit has"),
        (LIMIT, {"rate": "100 per second"}, "rate", "write 100/s"),
        (LIMIT, {"rate": "100"}, "rate", "say in what time, as in 100/s"),
        (LIMIT, {"burst": "0"}, "burst", "a whole number from 1 to 2147483647; found 0"),
        (WINDOWS, {"burst": "5"}, "burst", "a rate beside it, since windows is what is declared"),
        (UNLIMITED, {"burst": "5"}, "burst", "a rate beside it, since no rate is what is declared"),
        (LIMIT, {"rate": "unlimited", "burst": "5"}, "burst", "nothing beside a rate that is unlimited"),
        (LIMIT, {"windows": "1/s", "burst": "5"}, "burst", "nothing beside windows"),
        (LIMIT, {"windows": "1/s", "rate": "5/s"}, "rate", "nothing beside windows"),
        (LIMIT, {"windows": ""}, "windows", "a rate such as 100/s, 1000/h or 10/30s; found nothing"),
        (LIMIT, {"windows": "1/s,,2/s"}, "windows", "a rate such as 100/s, 1000/h or 10/30s; found nothing"),
        (LIMIT, {"windows": "1/s burst x"}, "windows", 'a whole number from 1 to 2147483647; found "x"'),
        (LIMIT, {"windows": "unlimited"}, "windows", "a rate such as 100/s, 1000/h or 10/30s"),
        (LIMIT, {"windows": ",".join(["1/s"] * 17)}, "windows", "1 to 16 rates, and there are 17"),
        (LIMIT, {"rate": "1" * (MAX_SETTING + 1)}, "rate", "in at most 1000 characters"),
        (LIMIT, {"rate": "${SECRET}/s"}, "rate", "a rate such as 100/s, 1000/h or 10/30s, or unlimited"),
    ],
)
def test_an_override_that_will_not_do(limit: LimitSpec, said: dict[str, str], name: str, expected: str) -> None:
    """It names the setting and what was expected, in the words of a config that is wrong; and reads no variables."""
    with pytest.raises(SettingError) as caught:
        overridden(limit, said)

    assert caught.value.name == name
    assert expected in caught.value.expected
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("declared_", "limit", "sets", "instead_of"),
    [
        (SemaphoreSpec(8), SemaphoreSpec(12), {"permits": "12"}, {"permits": "8"}),
        (SemaphoreSpec(8), SemaphoreSpec(8), {"permits": "8"}, {"permits": "8"}),
        (BURSTING, rate_limit("rate: 10/s, burst: 5").limit, {"burst": "5"}, {"burst": "30"}),
        (WINDOWS, rate_limit("rate: 5/s").limit, {"rate": "5/s", "burst": "5"}, {"windows": "10/s, 1000/h"}),
    ],
)
def test_an_override_is_shown_beside_what_is_declared(
    declared_: LimitSpec, limit: LimitSpec, sets: dict[str, str], instead_of: dict[str, str]
) -> None:
    """Only what it sets; all of it when it is what is declared, as after a reload it may be."""
    assert overriding(declared_, limit) == (sets, instead_of)
