"""The journal against chance: whatever happens, and whenever the disk fails, what is on record is what is."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from governor import changes, journal
from governor.changes import Changes
from governor.core import leases, restart
from governor.core.effects import (
    Effect,
    Frozen,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    OverrideOver,
    Steered,
)
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import MILLISECOND, SECOND, Claim, LeaseId, Outcome, Standing
from governor.durability import Durability, OnStoreError
from tests.test_journal import SPECS, Rig, Runs, until

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES: Final = ("one", "many", "db", "api")
_SEEDS: Final = range(40)
# How many ended leases are remembered here.
_FEW: Final = 2


class World:
    """One daemon after the other, and a program that does whatever chance says."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.runs = Runs(folder)
        self.leases: dict[LeaseId, None] = {}
        # What was ever found on record, so that somebody may have been told of it.
        self.told: set[LeaseId] = set()
        self._asks = 0

    async def live(self) -> list[str]:
        """A while; what is wrong with what is on record in between."""
        wrong: list[str] = []
        rig = await self._begin()
        for _ in range(5):
            for _ in range(self.chance.randint(1, 25)):
                await self._move(rig)
                if self.chance.random() < 0.5:
                    rig.driver.commit()
            await _write_all(rig)
            wrong += self._difference(rig)
            if self.chance.random() < 0.3:
                rig = await self._begin()
        await self.runs.kill()
        return wrong

    async def _begin(self) -> Rig:
        durability = self.chance.choice((Durability.PROCESS, Durability.POWER))
        return await self.runs.start(durability, self.chance.choice(list(OnStoreError)))

    async def _move(self, rig: Rig) -> None:
        chance, driver = self.chance, rig.driver
        some = tuple(chance.sample(list(self.leases), min(len(self.leases), chance.randint(1, 4))))
        moves: list[Callable[[], object]] = [
            *[lambda: self._ask(rig, chance.sample(_NAMES, chance.choice((1, 1, 2))))] * 3,
            lambda: self._ask(rig, [chance.choice(_NAMES)], again=True),
            lambda: driver.release(some, chance.choice(list(Outcome))),
            lambda: driver.release(tuple([lease for lease in some if driver.held(lease)]), settled=True),
            lambda: driver.renew(some, chance.choice((None, SECOND, 30 * SECOND))),
            lambda: driver.disconnect(some),
            lambda: rig.clock.advance(chance.choice((1, 100, 900, 5000)) * MILLISECOND),
            lambda: self._freeze(rig),
            lambda: driver.reconfigure(tuple([spec for spec in SPECS if chance.random() < 0.7])),
            lambda: self._fill(rig),
            lambda: driver.revoke(some),
            lambda: driver.set_standing(chance.choice(_NAMES), chance.choice(list(Standing))),
            lambda: self._override(rig),
            lambda: chance.choice((driver.recycle, driver.quarantine, driver.readmit))("db", chance.choice("ab")),
        ]
        chance.choice(moves)()
        if chance.random() < 0.2:
            await asyncio.sleep(0)

    def _ask(self, rig: Rig, names: list[str], *, again: bool = False) -> None:
        self._asks += not again
        number = self.chance.randint(1, self._asks) if again and self._asks else self._asks
        request_id = f"r{number}" if again or self.chance.random() < 0.5 else ""
        claims = tuple([Claim(name, 1) for name in names])
        answer = rig.driver.ask(claims, client="me", wait=0, request_id=request_id)
        if isinstance(answer, Granted):
            self.leases[answer.lease] = None
            if self.chance.random() < 0.1:
                rig.driver.abandon(answer.ticket)

    def _override(self, rig: Rig) -> None:
        chance = self.chance
        name, limit = chance.choice(
            (
                ("one", SemaphoreSpec(chance.randint(0, 3))),
                ("api", RateLimitSpec(tuple([Window(3, SECOND, 3)] * chance.randint(0, 2)))),
            )
        )
        length = chance.choice((1, 1000, 20_000)) * MILLISECOND
        rig.driver.set_override(name, limit if chance.random() < 0.8 else None, length)

    def _freeze(self, rig: Rig) -> None:
        rig.clock.time += self.chance.randint(1, 20) * SECOND
        rig.clock.advance(0)

    def _fill(self, rig: Rig) -> None:
        rig.store.full, rig.store.reopens = self.chance.random() < 0.5, self.chance.random() < 0.5

    def _difference(self, rig: Rig) -> list[str]:
        stored, driver = rig.on_record(), rig.driver
        rows = {row.held.id: row.held for row in stored.leases}
        live = {lease: held for lease in self.leases if (held := driver.held(lease)) is not None}
        wrong = [f"lease {lease} is {rows.get(lease)}, not {live.get(lease)}" for lease in {*rows} ^ {*live}]
        for lease in {*rows} & {*live}:
            # A freeze that was written late has made it longer on record: that harms nobody.
            deadline = max(live[lease].deadline, rows[lease].deadline)
            if rows[lease] != replace(live[lease], deadline=deadline):
                wrong.append(f"lease {lease} is {rows[lease]}, not {live[lease]}")
        ended = {past.id: past for past in stored.past}
        for lease in self.told - {*live}:
            past = driver.past(lease)
            if past is not None and ended.get(lease) != past:
                wrong.append(f"ended lease {lease} is {ended.get(lease)}, not {past}")
        if len(ended) > _FEW:
            wrong.append(f"{len(ended)} ended leases are on record, of {_FEW} that are remembered")
        if {each.spec.name for each in stored.resources} != {*driver.remembered()}:
            wrong.append(f"the resources are {stored.resources}, not {driver.remembered()}")
        for each in stored.resources:
            now = driver.remember(each.spec.name)
            if (each.spec, each.standing, each.override) != (now.spec, now.standing, now.override):
                wrong.append(f"{each.spec.name} is {each}, not {now}")
        self.told |= {*rows}
        return wrong


async def _write_all(rig: Rig) -> None:
    """The disk has room again, and nothing is left to be written."""
    rig.store.full = False
    good = False
    while not good:
        await until(lambda: not rig.journal.broken)
        done = rig.journal._write(beat=True)
        good = (done if isinstance(done, bool) else await done) and not rig.journal.broken
    rig.clock.advance(0)
    rig.driver.renew(())
    done = rig.journal._write(beat=True)
    assert done if isinstance(done, bool) else await done


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is remembered, and nothing is waited for."""
    monkeypatch.setattr(journal, "_RETRY_S", (0.0,))
    for module in (changes, leases, restart):
        monkeypatch.setattr(module, "REMEMBERED", _FEW)


@pytest.mark.parametrize("seed", _SEEDS)
async def test_what_is_on_record_is_what_is(tmp_path: Path, seed: int) -> None:
    """Whoever was told anything is not forgotten, and nobody is remembered who is not there; after any failure."""
    assert await World(tmp_path, seed).live() == []


@pytest.mark.parametrize("unseen", [Granted, LeaseEnded, LeaseExtended, LeaseOrphaned, Frozen, Steered, OverrideOver])
async def test_a_journal_that_does_not_look_is_found_out(
    tmp_path: Path, unseen: type[Effect], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof proves something, of each effect that changes what is to be on record."""
    observe = Changes.observe
    monkeypatch.setattr(
        Changes,
        "observe",
        lambda self, effects: observe(self, [effect for effect in effects if not isinstance(effect, unseen)]),
    )

    assert await _found_out(tmp_path)


async def test_a_journal_that_forgets_what_failed_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a transaction that came to nothing had in it."""
    monkeypatch.setattr(Changes, "give_back", lambda _, taken: taken.tickets)

    assert await _found_out(tmp_path)


async def _found_out(folder: Path) -> bool:
    for seed in _SEEDS:
        (folder / str(seed)).mkdir()
        try:
            # An assertion that fails in the task of a transaction leaves whoever waits for that waiting.
            async with asyncio.timeout(5):
                if await World(folder / str(seed), seed).live():
                    return True
        except (AssertionError, TimeoutError):
            return True
    return False
