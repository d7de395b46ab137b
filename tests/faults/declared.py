"""Declared: what every daemon here lends, as its config says it and as the checker counts it.

It knows both and that they agree. It must never know what befalls a daemon.
"""

from typing import Final

from tests.history.log import Bound, Nanos

SECOND: Final[Nanos] = 10**9
# How long a lease outlives the session that held it, in all of these.
ON_DISCONNECT: Final[Nanos] = 2 * SECOND

YAML: Final = """\
defaults: {lease: 2s, on_disconnect: 2s, max_wait: 2s}
semaphores:
  one: {permits: 1}
  few: {permits: 3}
  many: {permits: 40}
pools:
  conn: {members: {east: , west: }, quarantine: 50ms, max_quarantine: 200ms}
rate_limits:
  api: {rate: 20/s, burst: 5}
"""

BOUNDS: Final[dict[str, Bound]] = {
    "one": Bound(1),
    "few": Bound(3),
    "many": Bound(40),
    "conn": Bound(2, {"east": 1, "west": 1}),
    "api": Bound(windows=[(20, SECOND, 5)]),
}

# What a program asks for at once, and how likely it is that.
CLAIMS: Final[tuple[tuple[dict[str, int], int], ...]] = (
    ({"one": 1}, 4),
    ({"few": 1}, 3),
    ({"few": 2}, 1),
    ({"many": 1}, 9),
    ({"many": 7}, 2),
    ({"conn": 1}, 3),
    ({"api": 1}, 2),
    ({"one": 1, "conn": 1}, 1),
    ({"few": 1, "api": 1}, 1),
)
