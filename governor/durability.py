"""Durability: what an operator may say about the state that outlives a daemon.

It knows the words. It must never know how anything is written.
"""

from enum import StrEnum


class Durability(StrEnum):
    """What leases survive: the end of the daemon, also that of the machine, or neither."""

    PROCESS = "process"
    POWER = "power"
    NONE = "none"


class OnStoreError(StrEnum):
    """What to do while the state cannot be written: grant nothing, or go on and risk to forget."""

    REFUSE = "refuse"
    CONTINUE = "continue"
