"""Admission: why an ask is refused at once, if it is.

It knows the rules of asking and waiting. It must never change anything: every function here only looks.
"""

from typing import Final

from governor.core.ask import Ask
from governor.core.events import Acquire
from governor.core.resource import Resource
from governor.core.resources import Resources
from governor.core.types import MAX_CLAIMS, MAX_PERMITS, MILLISECOND, MIN_LEASE, Claim, Denial, Nanos, Reason, Standing

Wants = list[tuple[Resource, int]]

_REASONS: Final = {Standing.PAUSED: Reason.PAUSED, Standing.DRAINING: Reason.DRAINING}


def malformed(event: Acquire) -> Denial | None:
    """What makes no sense about it, whatever the resources are."""
    claims = event.claims
    count = len(claims)
    if not 1 <= count <= MAX_CLAIMS:
        return _bad("claims", f"1 to {MAX_CLAIMS} claims")
    for claim in claims:
        if not 1 <= claim.permits <= MAX_PERMITS or claim.key:
            return _bad_claim(claims)
    if count > 1 and len({claim.resource for claim in claims}) < count:
        return _bad_claim(claims)
    if event.wait is not None and event.wait < 0:
        return _bad("wait", "a length of 0 or more")
    if event.lease is not None and event.lease < MIN_LEASE:
        return _bad("lease", f"a length of at least {MIN_LEASE // MILLISECOND}ms")
    return None


def closed(resources: Resources, claims: tuple[Claim, ...]) -> Denial:
    """Of one of these there is nothing: what is not declared is said first, for it will not come back by itself."""
    for claim in claims:
        resource = resources.get((claim.resource, claim.key))
        if resource is None or resource.removed:
            return _unknown(claims, claim)
    standings = [(claim.resource, resources.get((claim.resource, claim.key))) for claim in claims]
    return next(
        Denial(_REASONS[resource.standing], name)
        for name, resource in standings
        if resource is not None and resource.standing in _REASONS
    )


def _unknown(claims: tuple[Claim, ...], claim: Claim) -> Denial:
    """Nothing of this name is declared; without a name, nothing was asked for."""
    if claim.resource:
        return Denial(Reason.UNKNOWN_RESOURCE, claim.resource)
    return _bad(f"claims[{claims.index(claim)}].resource", "the name of a resource")


def lease_refusal(length: Nanos, wants: Wants) -> Denial | None:
    """Why none of these may be lent for ``length``."""
    if length < MIN_LEASE:
        return _bad("lease", f"a length of at least {MIN_LEASE // MILLISECOND}ms")
    for resource, _ in wants:
        longest = resource.spec.max_lease
        if resource.limit.lends and length > longest:
            return Denial(
                Reason.MALFORMED, resource.spec.name, field="lease", expected="at most its max_lease", longest=longest
            )
    return None


def above_capacity(wants: Wants) -> Denial | None:
    """Which claim asks for more than there ever is."""
    for resource, permits in wants:
        largest = resource.limit.largest
        if largest is not None and permits > largest:
            return Denial(Reason.ABOVE_CAPACITY, resource.spec.name, asked=permits, limit=largest)
    return None


def longest_wait(wants: Wants, wait: Nanos | None) -> Nanos:
    """How long an ask may stand in line: what it said, but no longer than any of the resources lets it."""
    longest = min([resource.spec.max_wait for resource, _ in wants])
    return longest if wait is None else min(longest, wait)


def not_before(wants: Wants, now: Nanos) -> tuple[Nanos, str]:
    """The first instant at which a newcomer could be granted, and the resource that says so.

    Those already in line count as going first. A lower bound: nothing makes it earlier but others giving up.
    """
    latest, name = now, wants[0][0].spec.name
    for resource, permits in wants:
        instant = resource.limit.not_before(permits, resource.line.permits, now)
        if instant > latest:
            latest, name = instant, resource.spec.name
    return latest, name


def standing(ask: Ask, now: Nanos) -> tuple[int, Nanos]:
    """How many stand before an ask in the longest of its lines, and the first instant at which it could be granted.

    Of a long line only the first ``COUNTED`` are looked at.
    """
    longest, latest = 0, now
    for resource, permits in ask.wants:
        before, wanted = resource.line.ahead_of(ask)
        longest = max(longest, before)
        latest = max(latest, resource.limit.not_before(permits, wanted, now))
    return longest, latest


def line_refusal(wants: Wants, asked: Nanos | None, instant: Nanos, slowest: str, now: Nanos) -> Denial | None:
    """Why an ask that cannot be granted at once, and says to wait for ``asked``, may not wait either.

    ``instant`` and ``slowest`` are what ``not_before`` says of it.
    """
    retry_after = instant - now if instant > now else None
    wait = longest_wait(wants, asked)
    if wait == 0:
        return Denial(Reason.NONE_FREE, blocker(wants, now), longest=cap(wants, asked), retry_after=retry_after)
    for resource, _ in wants:
        limit = resource.spec.max_waiters
        if len(resource.line) >= limit:
            return Denial(Reason.LINE_FULL, resource.spec.name, limit=limit, retry_after=retry_after)
    if instant > now + wait:
        return Denial(Reason.HOPELESS, slowest, longest=cap(wants, asked), retry_after=retry_after)
    return None


def cap(wants: Wants, wait: Nanos | None) -> Nanos | None:
    """The smallest ``max_wait`` of the resources, if that is what keeps an ask from waiting longer."""
    longest = longest_wait(wants, None)
    return longest if wait is None or wait > longest else None


def blocker(wants: Wants, now: Nanos) -> str:
    """The resource to name when an ask was not granted: the first lent out or paused, else with a line."""
    names = [
        resource.spec.name
        for resource, permits in wants
        if resource.closed or not resource.limit.can_take(permits, now)
    ]
    names += [resource.spec.name for resource, _ in wants if resource.line.permits]
    return names[0] if names else wants[0][0].spec.name


def _bad_claim(claims: tuple[Claim, ...]) -> Denial:
    """Which of them makes no sense, and why; there is one."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        if not 1 <= claim.permits <= MAX_PERMITS:
            return _bad(f"claims[{index}].permits", f"a number from 1 to {MAX_PERMITS}", claim.resource)
        if claim.key:
            return _bad(f"claims[{index}].key", "nothing: resources have no keys", claim.resource)
        if claim.resource in seen:
            return _bad(f"claims[{index}].resource", "each resource once in an ask", claim.resource)
        seen.add(claim.resource)
    raise AssertionError("every claim makes sense")


def _bad(field: str, expected: str, resource: str = "") -> Denial:
    return Denial(Reason.MALFORMED, resource, field=field, expected=expected)
