"""How two configs differ in the keys of the daemon itself.

It knows which of them take effect at a reload and how each is written. It must never know about resources.
"""

from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Final

from governor.access import Client
from governor.address import DEFAULT_MODE, TcpAddress, UnixAddress
from governor.auditing import Auditing
from governor.bounds import Bounds
from governor.config.change import SettingChange
from governor.config.load import Config
from governor.config.pages import Http
from governor.config.units import format_duration, format_size
from governor.tls import Tls
from governor.tracing import Tracing

# Everything else that is not about resources holds from the start to the end of a daemon.
AT_ONCE: Final = frozenset({"clients", "drain_timeout", "watch", "max_client_series"})

_TOLD_OF_TOKEN: Final = 8
_LENGTHS: Final = frozenset({"drain_timeout", "restart_grace"})
_NO_SETTINGS: Final = frozenset({"resources", "source", "hash", "variables", "warnings"})


def at_once(before: Config, after: Config) -> tuple[SettingChange, ...]:
    """What differs and takes effect at a reload."""
    return tuple(setting for setting in _differences(before, after) if setting.name in AT_ONCE)


def at_next_start(before: Config, after: Config) -> tuple[SettingChange, ...]:
    """What differs and takes effect at the next start; ``before`` is that of this start."""
    return tuple(setting for setting in _differences(before, after) if setting.name not in AT_ONCE)


def _differences(before: Config, after: Config) -> list[SettingChange]:
    names = [field.name for field in fields(Config) if field.name not in _NO_SETTINGS]
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return [SettingChange(name, _text(name, old), _text(name, new)) for name, old, new in pairs if old != new]


def _text(name: str, value: object) -> str:
    match value:
        case None:
            return "everybody" if name == "clients" else "off"
        case bool():
            return "true" if value else "false"
        case int() if name in _LENGTHS:
            return format_duration(value)
        case int():
            return str(value)
        case () if name == "clients":
            return "nobody"
        case tuple():
            return ", ".join([_text(name, each) for each in value])
        case UnixAddress():
            return _socket(value)
        case TcpAddress() | Http() | Tls() | Path() | StrEnum():
            return str(value)
        case Auditing() | Tracing() | Client() | Bounds():
            return _section(value)
        case _:
            raise AssertionError(f"{name}: nobody has said how to write this")


def _section(value: Auditing | Tracing | Client | Bounds) -> str:
    match value:
        case Auditing():
            return _audit(value)
        case Tracing():
            return _tracing(value)
        case Client():
            return _client(value)
        case Bounds():
            return _bounds(value)


def _audit(asked: Auditing) -> str:
    size = "unlimited" if asked.max_size is None else format_size(asked.max_size)
    return f"{asked.file} policy {asked.policy} events {asked.events} max_size {size} keep {asked.keep}"


def _bounds(bounds: Bounds) -> str:
    connections = "" if bounds.connections is None else f"connections {bounds.connections} "
    return (
        f"{connections}streams {bounds.streams} handshake {format_duration(bounds.handshake)} "
        f"sessions {bounds.sessions} sessions_per_client {bounds.sessions_per_client} "
        f"http_connections {bounds.http_connections}"
    )


def _tracing(asked: Tracing) -> str:
    told = [asked.endpoint or "on"]
    if asked.ratio is not None:
        told.append(f"ratio {asked.ratio:g}")
    if asked.service_name:
        told.append(f"service_name {asked.service_name}")
    if asked.timeout is not None:
        told.append(f"timeout {format_duration(asked.timeout)}")
    return " ".join(told)


def _client(client: Client) -> str:
    """With what tells its tokens apart, and is far too little to find one."""
    told = [client.name, "verbs", " ".join(sorted(client.verbs)), "resources", " ".join(client.resources)]
    if client.tokens:
        told += ["tokens", " ".join(token.hex()[:_TOLD_OF_TOKEN] for token in client.tokens)]
    if client.sans:
        told += ["sans", " ".join(client.sans)]
    if client.max_permits is not None:
        told += ["max_permits", str(client.max_permits)]
    if client.max_waiters is not None:
        told += ["max_waiters", str(client.max_waiters)]
    if client.max_lease is not None:
        told += ["max_lease", format_duration(client.max_lease)]
    if client.max_rate is not None:
        told += ["max_rate", f"{client.max_rate.asks}/{format_duration(client.max_rate.period)}"]
    return " ".join(told)


def _socket(address: UnixAddress) -> str:
    told = [str(address)]
    if address.mode != DEFAULT_MODE:
        told.append(f"mode 0{address.mode:o}")
    if address.owner is not None:
        told.append(f"owner {address.owner}")
    if address.group is not None:
        told.append(f"group {address.group}")
    return " ".join(told)
