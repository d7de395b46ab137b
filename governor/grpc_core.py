"""What the C core of gRPC is told by the environment, which it reads when it is loaded and never again.

It knows its variables. It must never import gRPC.
"""

from collections.abc import MutableMapping
from typing import Final

# It would write lines of its own to stderr about each odd header that any client sends, and has no other switch. What
# keeps the daemon from its addresses, the daemon says.
_ALWAYS: Final = {"GRPC_VERBOSITY": "NONE"}
# A message is read by the thread that Python polls with, and not by one of gRPC's own that wakes it: a third fewer
# switches of threads, 2 us less of 15 for a pair of acquire and release on a session, and a fifth more of them a
# second. But whoever sends millions of frames a second that ask for nothing, such as WINDOW_UPDATE, has that thread for
# himself, and others wait for seconds. A name that a later gRPC does not know is passed over.
_AMONG_FRIENDS: Final = {"GRPC_EXPERIMENTS": "-event_engine_listener"}


def tell(environ: MutableMapping[str, str], *, trusting: bool) -> None:
    """Have the core that is loaded later serve as a daemon's does; what an operator has set wins.

    ``trusting``: nobody who could reach it means it harm.
    """
    for name, value in (_ALWAYS | (_AMONG_FRIENDS if trusting else {})).items():
        environ.setdefault(name, value)
