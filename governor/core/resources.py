"""Resources: all that are declared, and those that are not any more but still lent.

It knows what a new declaration changes and what time alone will change. It must never know who waits or why.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from governor.core.agenda import Agenda
from governor.core.resource import Override, Remembered, Resource, ResourceSpec
from governor.core.types import LeaseId, Nanos

# As many as one config may declare.
MAX_FADING: Final = 2_000


@dataclass(slots=True, frozen=True)
class Change:
    """What a new declaration did. ``gone``: what nobody may wait for any more, removed or of another kind now."""

    added: tuple[Resource, ...]
    changed: tuple[Resource, ...]
    gone: tuple[Resource, ...]


class Resources:
    """Resources by name and key, in the order of their declaration.

    Keys on the agenda count up from ``first_key``. The end of an override has the complement of its resource's key,
    below all others: of one instant it comes first, for at that instant the declared limit is in force.
    """

    __slots__ = ("_agenda", "_by_agenda_key", "_by_name", "_fading", "_next_key", "get")

    def __init__(self, agenda: Agenda, first_key: int) -> None:
        self._by_name: dict[tuple[str, str], Resource] = {}
        # The resource of (name, key), also a removed one. Bound once: it is asked on the hottest path.
        self.get: Callable[[tuple[str, str]], Resource | None] = self._by_name.get
        self._by_agenda_key: dict[int, Resource] = {}
        self._next_key = first_key
        self._agenda = agenda
        # By name and kind. Neither declared nor lent, but spent: two reloads, there and back, must not refill a rate
        # limit. Meanwhile another kind may have the name.
        self._fading: dict[tuple[str, str], Resource] = {}

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_name.values())

    def ripen(self, resource: Resource, at: Nanos | None) -> None:
        """Time alone lets its line move at ``at``; None: it does not."""
        if at == resource.ripens_at:
            return
        if resource.ripens_at is not None:
            self._agenda.drop(resource.agenda_key, resource.ripens_at)
        resource.ripens_at = at
        if at is not None:
            self._agenda.add(resource.agenda_key, at)

    def override(self, resource: Resource, override: Override | None, now: Nanos) -> None:
        """Another limit is in force from now on; None is the declared one. Its end stands on the agenda."""
        if resource.override is not None:
            self._agenda.drop(~resource.agenda_key, resource.override.until)
        resource.obey(override, now)
        if override is not None:
            self._agenda.add(~resource.agenda_key, override.until)

    def by_key(self, key: int) -> Resource:
        """Whose ripening stands on the agenda under ``key``, or the end of whose override under its complement."""
        return self._by_agenda_key[key]

    def problems(self, specs: tuple[ResourceSpec, ...]) -> tuple[str, ...]:
        """Why these cannot be declared now."""
        found = []
        for spec in specs:
            resource = self._by_name.get((spec.name, ""))
            if resource is not None and resource.leases and resource.spec.kind != spec.kind:
                found.append(
                    f"{spec.name}: cannot become a {spec.kind} while it is lent as a {resource.spec.kind} (leases: "
                    f"{resource.leases}); wait for those to end, or give the {spec.kind} another name"
                )
        return tuple(found)

    def declare(self, specs: tuple[ResourceSpec, ...], now: Nanos, last_id: LeaseId) -> Change:
        """Exactly these from now on; only after ``problems`` found none. ``last_id``: of all leases so far."""
        before = dict(self._by_name)
        self._by_name.clear()
        added: list[Resource] = []
        changed: list[Resource] = []
        gone: list[Resource] = []
        for spec in specs:
            resource = before.pop((spec.name, ""), None)
            if resource is not None and resource.spec.kind != spec.kind:
                gone.append(resource)
                resource = None
            if resource is None:
                resource = self._new(spec, now, last_id)
                added.append(resource)
            elif resource.removed:
                resource.redeclare(spec, now, last_id)
                added.append(resource)
            elif resource.spec != spec:
                resource.redeclare(spec, now, last_id)
                changed.append(resource)
            self._by_name[spec.name, ""] = resource
        for name, resource in before.items():
            if not resource.removed:
                gone.append(resource)
            if resource.leases:
                self._by_name[name] = resource
        for resource in gone:
            # Also one of another kind now, whose name another has: nothing that was said of it is said of that one.
            self.override(resource, None, now)
            resource.remove()
        self._fade([resource for resource in gone if not resource.leases], now)
        return Change(tuple(added), tuple(changed), tuple(gone))

    def _new(self, spec: ResourceSpec, now: Nanos, last_id: LeaseId) -> Resource:
        """Idle, unless too much is spent of it since it was declared before: then it goes on from there."""
        resource = self._fading.pop((spec.name, spec.kind), None)
        if resource is not None:
            resource.agenda_key = self._next_key
            resource.redeclare(spec, now, last_id)
        else:
            resource = Resource(spec, self._next_key, now)
        self._by_agenda_key[self._next_key] = resource
        self._next_key += 1
        return resource

    def _fade(self, gone: list[Resource], now: Nanos) -> None:
        """Remember these until what they have spent is back; of too many, those for which that takes longest."""
        self._fading.update({(each.spec.name, each.spec.kind): each for each in gone})
        until = {key: resource.limit.matters_until(now) for key, resource in self._fading.items()}
        keys = sorted([key for key, at in until.items() if at > now], key=lambda key: until[key])
        self._fading = {key: self._fading[key] for key in keys[-MAX_FADING:]}

    @property
    def fading(self) -> list[Resource]:
        """Those that are neither declared nor lent, but spent; of each name one of each kind at most."""
        return list(self._fading.values())

    def fades(self, name: str) -> bool:
        """Whether one of those has this name."""
        return any(name == fading for fading, _ in self._fading)

    def recall_fading(self, remembered: Remembered) -> None:
        """Another engine had this among them; raises UnreadableError."""
        spec = remembered.spec
        resource = Resource(spec, agenda_key=0, now=remembered.at)
        resource.limit.recall(remembered.memory, remembered.at)
        resource.remove()
        self._fading[spec.name, spec.kind] = resource

    def retire(self, resource: Resource) -> None:
        """Forget one that is no longer declared, lent or waited for."""
        self.ripen(resource, None)
        del self._by_agenda_key[resource.agenda_key]
        if self._by_name.get((resource.spec.name, resource.key)) is resource:
            del self._by_name[resource.spec.name, resource.key]
