"""Worlds: what an operator may declare next, as a config says it and as the checker counts it.

It knows both and that they agree. It must never know how a file gets its contents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.history.log import Bound, Nanos

SECOND: Final[Nanos] = 10**9

# A unit of time may change with a rate, too: versions of a limit that share no window.
_PERIODS: Final = {"s": SECOND, "m": 60 * SECOND}


@dataclass(frozen=True)
class World:
    """The text of a config but for its head, and the limits that it declares; none if it cannot be loaded."""

    text: str
    bounds: dict[str, Bound] | None


# By chance, by number, after what is in force.
Worlds = Callable[[Random, int, dict[str, Bound]], World]


def world(chance: Random, number: int, now: dict[str, Bound]) -> World:
    """Any; each is another one by its ``number``.

    ``now`` is in force: what is always lent can seldom change its kind, so that is tried seldom.
    """
    head = f"# {number}\ndefaults: {{lease: 2s, on_disconnect: 2s, max_wait: 2s}}\n"
    if chance.random() < 0.07:
        return World(head + chance.choice(_BAD), None)
    bounds: dict[str, Bound] = {}
    sections: dict[str, list[str]] = {"semaphores": [], "pools": [], "rate_limits": []}
    for name, numbers in (("one", [1, 1, 1, 2, 0]), ("many", [3, 10, 40])):
        bounds[name] = Bound(chance.choice(numbers))
        sections["semaphores"].append(f"  {name}: {{permits: {bounds[name].permits}}}")
    was = "gone" if "few" not in now else "pool" if now["few"].members else "semaphore"
    kind = was if was != "gone" and chance.random() < 0.9 else chance.choice(("semaphore", "pool", "gone"))
    if kind == "semaphore":
        bounds["few"] = Bound(chance.randrange(1, 6))
        sections["semaphores"].append(f"  few: {{permits: {bounds['few'].permits}}}")
    elif kind == "pool":
        _pool(chance, "few", bounds, sections)
    if chance.random() < 0.9:
        _pool(chance, "conn", bounds, sections)
    if chance.random() < 0.9:
        unit, permits, burst = chance.choice(("s", "s", "m")), chance.choice((5, 20, 50)), chance.choice((1, 3, 8))
        permits *= 30 if unit == "m" else 1
        bounds["api"] = Bound(windows=[(permits, _PERIODS[unit], burst)])
        sections["rate_limits"].append(f"  api: {{rate: {permits}/{unit}, burst: {burst}}}")
    lines = [line for section, entries in sections.items() if entries for line in (f"{section}:", *entries)]
    return World(head + "\n".join(lines) + "\n", bounds)


_BAD: Final = (
    "semaphores: {one: {permit: 1}}\n",
    "semaphores: [one\n",
    "semaphores: {one: {permits: 1}, one: {permits: 2}}\n",
    "rate_limits: {api: {rate: fast}}\n",
)


def _pool(chance: Random, name: str, bounds: dict[str, Bound], sections: dict[str, list[str]]) -> None:
    members = {member: chance.choice((1, 1, 2)) for member in chance.sample(("east", "west", "north"), k=2)}
    bounds[name] = Bound(sum(members.values()), members)
    told = ", ".join(f"{member}: {{max_leases: {most}}}" for member, most in members.items())
    sections["pools"].append(f"  {name}: {{members: {{{told}}}, quarantine: 50ms, max_quarantine: 200ms}}")
