"""The config knows the words of each kind in the table, and what may be overridden of it."""

import pytest

from governor.config.models import File
from governor.config.override import SettingError, overridden
from governor.config.written import limit_settings
from governor.core.kinds import KINDS
from governor.core.limit import LimitSpec
from tests.config.reading import config

# One of each kind, as short as can be. A kind that is missing here is also missing in what is tested below.
SECTIONS = {
    "semaphore": "semaphores: {x: {permits: 3}}",
    "pool": "pools: {x: {size: 3}}",
    "rate_limit": "rate_limits: {x: {rate: 3/s}}",
}


def declared(kind: str) -> LimitSpec:
    """What the core is told of it."""
    (resource,) = config(SECTIONS[kind]).resources
    return resource.limit


def test_each_kind_has_a_section() -> None:
    """And each section a kind."""
    assert set(SECTIONS) == set(KINDS)
    assert {section.partition(":")[0] for section in SECTIONS.values()} <= set(File.model_fields)
    assert {kind: type(declared(kind)) for kind in KINDS} == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_written_and_overridden_as_its_core_says(kind: str) -> None:
    """What a limit of it is said to be can be said of another; of one that cannot be overridden nothing can."""
    limit = declared(kind)
    settings = limit_settings(limit)
    assert settings
    if limit.overridable:
        assert overridden(limit, settings) == limit
    with pytest.raises((SettingError, AssertionError)) as refused:
        overridden(limit, {"color": "red"})
    assert isinstance(refused.value, SettingError) is limit.overridable
