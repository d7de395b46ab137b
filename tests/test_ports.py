"""Ports that tests take by number are nobody else's."""

import socket
from pathlib import Path

from tests import ports


def test_the_kernel_gives_none_of_them_away() -> None:
    """Neither to whoever wants any, nor to a connection that goes out."""
    least, most = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    with ports.own_ports(20) as own:
        assert not [port for port in own if least <= port <= most]


def test_no_two_have_the_same() -> None:
    """As long as either has them."""
    with ports.own_ports(5) as first, ports.own_ports(5) as second:
        assert len({*first, *second}) == 10


def test_one_at_which_somebody_listens_is_passed_over() -> None:
    """Whoever it is."""
    with ports.own_ports(1) as (port,):
        assert ports._is_free(port)
        with socket.create_server(("127.0.0.1", port)):
            assert not ports._is_free(port)
