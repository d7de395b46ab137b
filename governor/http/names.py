"""Names: by which names whoever asks may have found the way to a listener on loopback.

It knows one header. It must never know what is asked for.

A page of the web may have its own name lead to 127.0.0.1, and its scripts then read what answers there as if it were
theirs. Its browser says by which name it asks, and that cannot be a name of loopback, which no page has.
"""

from collections.abc import Iterable

from governor.address import TcpAddress


def all_local(hosts: Iterable[str]) -> bool:
    """Whether each Host header names this machine; who sends none, or an empty one, is no browser."""
    return all(not host or _local(host) for host in hosts)


def _local(host: str) -> bool:
    if host.startswith("["):
        name, end, port = host[1:].partition("]")
        good = bool(end) and ":" in name and (not port or port.startswith(":"))
        port = port[1:]
    else:
        name, _, port = host.partition(":")
        good = True
    return good and (not port or (port.isascii() and port.isdigit())) and TcpAddress(name, 0).is_loopback
