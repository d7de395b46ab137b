"""Messages of which some parts are left unopened: read as the bytes that they are on the wire.

It knows protobuf's descriptors. It must never know what is in a message.

To open a part of a message costs several times what it costs to find that it says what another one said.
"""

from collections.abc import Collection
from typing import Final, TypeVar, cast

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from governor.v1 import governor_pb2 as pb

_Message = TypeVar("_Message", bound=Message)

# A number on the wire has seven bits in each byte, but for the sign that says that more come.
_MORE: Final = 0x80
_LARGEST: Final = 2**63 - 1
# Its last byte begins no further than this. To read on would cost more with each byte.
_LAST_SHIFT: Final = 63


def unopened(kind: type[_Message], parts: Collection[tuple[str, str]]) -> type[_Message]:
    """A message like ``kind`` in all but that these parts, each the name of a message and of a field, are bytes."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        for field in message.field:
            if (message.name, field.name) in parts:
                field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    pool = DescriptorPool()
    for other in pb.DESCRIPTOR.dependencies:
        needed = descriptor_pb2.FileDescriptorProto()
        other.CopyToProto(needed)
        pool.Add(needed)
    pool.Add(file)
    return cast("type[_Message]", GetMessageClass(pool.FindMessageTypeByName(kind.DESCRIPTOR.full_name)))


def leading(number: int, raw: bytes) -> tuple[int, bytes]:
    """The value of a message's field of this number, if it begins with it, and the bytes that follow.

    0 and nothing if it begins otherwise, or with a value that is not positive: whoever opens it will see.
    """
    value = shift = 0
    try:
        if raw[0] != number << 3:
            return 0, b""
        index, byte = 1, raw[1]
        while byte >= _MORE:
            if shift >= _LAST_SHIFT:
                return 0, b""
            value |= (byte - _MORE) << shift
            shift += 7
            index += 1
            byte = raw[index]
    except IndexError:
        return 0, b""  # it ends within the value
    value |= byte << shift
    return (value, raw[index + 1 :]) if 0 < value <= _LARGEST else (0, b"")
