"""Words of traces: what attributes of spans are called, and how long what others say of a trace may be.

It knows what the daemon and its clients must write alike. It must never know who writes it.
"""

from typing import Final

# Attributes of asks and holds, in the words of the metrics where there are any.
RESOURCES: Final = "governor.resources"
PERMITS: Final = "governor.permits"
CLIENT: Final = "governor.client"
OUTCOME: Final = "governor.outcome"
WAIT: Final = "governor.wait_seconds"
AHEAD: Final = "governor.ahead"
LEASE: Final = "governor.lease"
MEMBERS: Final = "governor.members"
ENDED: Final = "governor.ended"

# Characters of what an ask follows from; what is longer is not looked at. A parent has 55, and in a later version of
# https://www.w3.org/TR/trace-context/ it may have more; of a state everybody has to carry 512.
MAX_TRACEPARENT: Final = 128
MAX_TRACESTATE: Final = 512
