"""Messages: random protobufs of any type, from sensible ones to mere bytes.

They know descriptors. They must never know what a message means.
"""

from random import Random
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.fuzz.words import Words, mutated, unknown_field

_DEEPEST: Final = 3
_STOCKED: Final = 150
_FRESH: Final = 0.02
_DURATION: Final = "google.protobuf.Duration"


def sensible(chance: Random, descriptor: Descriptor, words: Words, depth: int = 0) -> Message:
    """One that its own library would write."""
    message = GetMessageClass(descriptor)()
    # Some are nearly full and some nearly empty.
    filled = chance.choice((0.3, 0.6, 0.95))
    for field in descriptor.fields:
        if chance.random() < filled:
            _fill(chance, message, field, words, depth)
    return message


class Stock:
    """Sensible messages of each type, made once from a seed: to make one takes longer than to have it answered."""

    def __init__(self, seed: str, words: Words) -> None:
        self._seed = seed
        self._words = words
        self._made: dict[str, list[bytes]] = {}

    def one(self, chance: Random, descriptor: Descriptor) -> bytes:
        """Any of a type, or rarely one that knows what has been granted by now."""
        if chance.random() < _FRESH:
            return sensible(chance, descriptor, self._words).SerializeToString()
        made = self._made.get(descriptor.full_name)
        if made is None:
            own = Random(f"{self._seed}/{descriptor.full_name}")
            made = [sensible(own, descriptor, self._words).SerializeToString() for _ in range(_STOCKED)]
            self._made[descriptor.full_name] = made
        return chance.choice(made)


def raw(chance: Random, descriptor: Descriptor, stock: Stock) -> bytes:
    """Bytes that are one, or nearly, or not at all."""
    roll = chance.random()
    if roll < 0.03:
        return chance.randbytes(chance.choice((0, 1, 10, 1_000)))
    data = stock.one(chance, descriptor)
    if roll < 0.7:
        return data
    if roll < 0.8:
        return data + unknown_field(chance)
    if roll < 0.83:
        return data * chance.choice((2, 3, 50))
    return mutated(chance, data)


def _fill(chance: Random, message: Message, field: FieldDescriptor, words: Words, depth: int) -> None:
    if field.is_repeated:
        number = (17 if depth else 65) if chance.random() < 0.01 else chance.choice((0, 1, 1, 1, 2, 3))
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(number):
                texts = words.text(chance, "key"), words.text(chance, "value")
                getattr(message, field.name)[texts[0]] = texts[1]
        elif field.message_type is not None:
            if depth < _DEEPEST:
                for _ in range(number):
                    getattr(message, field.name).add().CopyFrom(_message(chance, field.message_type, words, depth + 1))
        else:
            getattr(message, field.name).extend(_value(chance, field, words) for _ in range(number))
    elif field.message_type is not None:
        if depth < _DEEPEST:
            getattr(message, field.name).CopyFrom(_message(chance, field.message_type, words, depth + 1))
    else:
        setattr(message, field.name, _value(chance, field, words))


def _message(chance: Random, descriptor: Descriptor, words: Words, depth: int) -> Message:
    if descriptor.full_name == _DURATION:
        seconds, nanos = words.seconds(chance)
        return GetMessageClass(descriptor)(seconds=seconds, nanos=nanos)
    return sensible(chance, descriptor, words, depth)


def _value(chance: Random, field: FieldDescriptor, words: Words) -> object:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return chance.choice((b"", b"{}", b"semaphores: {a: {permits: 1}}\n", chance.randbytes(100)))
        return words.text(chance, field.name)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return chance.choice((0, 1, 2, 3, 4, 99, -1))
    if kind in {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}:
        return chance.choice((0.0, 1.0, -1.0, float("nan"), float("inf"), 1e300))
    number = words.number(chance, field.name)
    if kind == FieldDescriptor.CPPTYPE_INT32:
        return max(-(2**31), min(2**31 - 1, number))
    if kind == FieldDescriptor.CPPTYPE_UINT32:
        return min(2**32 - 1, abs(number))
    return abs(number) if kind == FieldDescriptor.CPPTYPE_UINT64 else number
