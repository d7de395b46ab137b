"""Messages of which some parts are left unopened: read as the bytes that they are on the wire.

It knows protobuf's descriptors. It must never know what is in a message.

To open a part of a message costs several times what it costs to find that it says what another one said.
"""

from collections.abc import Collection
from typing import TypeVar, cast

from google.protobuf import descriptor_pb2, duration_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from governor.v1 import governor_pb2 as pb

_Message = TypeVar("_Message", bound=Message)

# A number on the wire has seven bits in each byte, but for the sign that says that more come.
MORE = 0x80


def unopened(kind: type[_Message], parts: Collection[tuple[str, str]]) -> type[_Message]:
    """A message like ``kind`` in all but that these parts, each the name of a message and of a field, are bytes."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    of_duration = descriptor_pb2.FileDescriptorProto()
    duration_pb2.DESCRIPTOR.CopyToProto(of_duration)
    for message in file.message_type:
        for field in message.field:
            if (message.name, field.name) in parts:
                field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    pool = DescriptorPool()
    pool.Add(of_duration)
    pool.Add(file)
    return cast("type[_Message]", GetMessageClass(pool.FindMessageTypeByName(kind.DESCRIPTOR.full_name)))
