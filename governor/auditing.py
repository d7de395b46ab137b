"""Auditing: what an operator may ask of the audit file.

It knows the words. It must never know how anything is written.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

MIB: Final = 2**20
DEFAULT_MAX_SIZE: Final = 100 * MIB
DEFAULT_KEEP: Final = 5


class AuditPolicy(StrEnum):
    """What to do when the file cannot take lines as fast as they come: lose and count them, or wait."""

    DROP = "drop"
    BLOCK = "block"


class AuditEvents(StrEnum):
    """What is written: acts of operators; also all that befalls leases, and what clients may not do; also asks."""

    OPERATORS = "operators"
    LEASES = "leases"
    ALL = "all"


@dataclass(slots=True, frozen=True)
class Auditing:
    """Where and what. A file that would grow beyond ``max_size`` bytes begins anew; None is never.

    ``keep``: how many of those before it are kept.
    """

    file: Path
    policy: AuditPolicy = AuditPolicy.DROP
    events: AuditEvents = AuditEvents.LEASES
    max_size: int | None = DEFAULT_MAX_SIZE
    keep: int = DEFAULT_KEEP
