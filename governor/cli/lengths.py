"""Lengths of time as programs read them in JSON.

It knows units. It must never know what lasted so long.
"""

from typing import TYPE_CHECKING

from governor.wording import SECOND

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration


def seconds(length: "Duration") -> float:
    """The number of them."""
    return length.ToNanoseconds() / SECOND
