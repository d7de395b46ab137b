"""The table of kinds. A new kind is one file beside this one and one row here.

The kinds do not know each other. Nothing outside knows how any of them counts, and of the rest of the daemon only the
config and the store know what is declared of each.
"""

from typing import Final

from governor.core.kinds.pool import PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec

# Kind by the word that YAML, metrics and the wire use for it. The annotation is also a check: mypy holds each spec,
# and each limit that a spec builds, against the protocol.
KINDS: Final[dict[str, type[LimitSpec]]] = {spec.kind: spec for spec in (SemaphoreSpec, PoolSpec, RateLimitSpec)}

# Of a limit that lends nothing and knows no bound: stands for whatever a permit was once spent of.
SPENT: Final[LimitSpec] = RateLimitSpec(())
