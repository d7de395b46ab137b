"""How two configs differ in the keys of the daemon itself.

It knows which of them take effect at a reload and how each is written. It must never know about resources.
"""

from collections.abc import Collection, Iterator
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
from governor.config.problems import path
from governor.tls import Tls
from governor.tracing import Tracing
from governor.units import format_duration, format_size

# Everything else that is not about resources holds from the start to the end of a daemon.
AT_ONCE: Final = frozenset({"clients", "drain_timeout", "watch", "max_client_series"})

# Of clients that are named in one line.
_NAMED: Final = 20
_LENGTHS: Final = frozenset({"drain_timeout", "restart_grace"})
_NO_SETTINGS: Final = frozenset({"resources", "source", "hash", "variables", "warnings"})
_SETTINGS: Final = tuple(field.name for field in fields(Config) if field.name not in _NO_SETTINGS)


def at_once(before: Config, after: Config) -> tuple[SettingChange, ...]:
    """What differs and takes effect at a reload."""
    return tuple(_differences(before, after, [name for name in _SETTINGS if name in AT_ONCE]))


def at_next_start(before: Config, after: Config) -> tuple[SettingChange, ...]:
    """What differs and takes effect at the next start; ``before`` is that of this start."""
    return tuple(_differences(before, after, [name for name in _SETTINGS if name not in AT_ONCE]))


def _differences(before: Config, after: Config, names: Collection[str]) -> Iterator[SettingChange]:
    for name in names:
        old, new = getattr(before, name), getattr(after, name)
        if name == "clients":
            yield from _clients(before.clients, after.clients)
        elif old != new:
            yield SettingChange(name, _text(name, old), _text(name, new))


def _clients(before: tuple[Client, ...] | None, after: tuple[Client, ...] | None) -> Iterator[SettingChange]:
    """That everybody may ask or no more, and of each client what differs: all of them in one line say nothing."""
    if (before is None) is not (after is None):
        yield SettingChange("clients", _names(before), _names(after))
    old = {client.name: client for client in before or ()}
    new = {client.name: client for client in after or ()}
    if after is None:
        return
    for name in dict.fromkeys([*old, *new]):
        was, is_now = old.get(name), new.get(name)
        if was is None or is_now is None:
            yield SettingChange(path(("clients", name)), _client(was), _client(is_now))
        elif was != is_now:
            yield from _changed(was, is_now)


def _changed(before: Client, after: Client) -> Iterator[SettingChange]:
    """Key by key; of its tokens how many, since who reads this has no use for a digest."""
    old, new = _keys(before), _keys(after)
    come, gone = ({*after.tokens} - {*before.tokens}), ({*before.tokens} - {*after.tokens})
    if come or gone:
        new["tokens"] = f"{len(after.tokens)} ({len(come)} added, {len(gone)} removed)"
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield SettingChange(path(("clients", before.name, key)), old.get(key, ""), new.get(key, ""))


def _names(clients: tuple[Client, ...] | None) -> str:
    if clients is None:
        return "everybody"
    more = [f"and {len(clients) - _NAMED} more"] if len(clients) > _NAMED else []
    return ", ".join([client.name for client in clients[:_NAMED]] + more) or "nobody"


def _text(name: str, value: object) -> str:
    match value:
        case None:
            return "off"
        case bool():
            return "true" if value else "false"
        case int() if name in _LENGTHS:
            return format_duration(value)
        case int():
            return str(value)
        case tuple():
            return ", ".join([_text(name, each) for each in value])
        case UnixAddress():
            return _socket(value)
        case TcpAddress() | Http() | Tls() | Path() | StrEnum():
            return str(value)
        case Auditing() | Tracing() | Bounds():
            return _section(value)
        case _:
            raise AssertionError(f"{name}: nobody has said how to write this")


def _section(value: Auditing | Tracing | Bounds) -> str:
    match value:
        case Auditing():
            return _audit(value)
        case Tracing():
            return _tracing(value)
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


def _client(client: Client | None) -> str:
    """All of it; empty for none."""
    return "" if client is None else ", ".join([f"{key} {text}" for key, text in _keys(client).items()])


def _keys(client: Client) -> dict[str, str]:
    """As the file has them, but for tokens, of which it is said how many there are."""
    told = {"verbs": " ".join(sorted(client.verbs)), "resources": " ".join(client.resources)}
    if client.tokens:
        told["tokens"] = str(len(client.tokens))
    if client.sans:
        told["sans"] = " ".join(client.sans)
    if client.max_permits is not None:
        told["max_permits"] = str(client.max_permits)
    if client.max_waiters is not None:
        told["max_waiters"] = str(client.max_waiters)
    if client.max_lease is not None:
        told["max_lease"] = format_duration(client.max_lease)
    if client.max_rate is not None:
        told["max_rate"] = f"{client.max_rate.asks}/{format_duration(client.max_rate.period)}"
    return told


def _socket(address: UnixAddress) -> str:
    told = [str(address)]
    if address.mode != DEFAULT_MODE:
        told.append(f"mode 0{address.mode:o}")
    if address.owner is not None:
        told.append(f"owner {address.owner}")
    if address.group is not None:
        told.append(f"group {address.group}")
    return " ".join(told)
