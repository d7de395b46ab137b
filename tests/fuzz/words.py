"""Words: values as a random client picks them, for any field of any message.

They know which values have been trouble elsewhere. They must never know which of them are right where.
"""

import struct
from random import Random
from typing import Final

NAMES: Final = ("prey-sem", "prey-pool", "prey-rate", "prey-open", "prey-narrow")
CLIENTS: Final = ("fuzz-1", "fuzz-2", "fuzz-3", "boss")
INSTANCES: Final = tuple(f"{number:016x}" for number in range(8))

_TEXTS: Final = (
    "",
    "a",
    "prey",
    "Prey-sem",
    "prey-sem\0",
    "a\r\nb: c",
    "\u202e\U0001f4a5\x1b[31m",
    "é" * 101,
    "x" * 200,
    "x" * 201,
    "x" * 257,
    "y" * 5_000,
    "primary",
    "2",
    "unlimited",
    "20/s",
    "1h30m",
    "-1s",
    "operators",
    "granted",
    "%s %d {x}",
    "../../etc/passwd",
    "<script>",
)
_NUMBERS: Final = (0, 0, 1, 1, 1, 2, 3, 5, 64, 65, 100, 999, 1_000, 1_001, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1)


class Words:
    """What there is to pick from. ``leases``: ids that were granted to whoever fuzzes, as far as is known."""

    def __init__(self) -> None:
        self.leases: list[int] = []

    def text(self, chance: Random, field: str) -> str:
        """For a field of this name."""
        roll = chance.random()
        if roll < 0.7:
            if "resource" in field:
                return chance.choice(NAMES)
            if field in {"client", "clients", "actor"}:
                return chance.choice(CLIENTS)
            if field in {"instance", "request_id"}:
                return chance.choice(INSTANCES)
            if "member" in field:
                return chance.choice(("primary", "spare"))
        if roll < 0.95:
            return chance.choice(_TEXTS)
        return "".join(chr(chance.choice((chance.randrange(128), chance.randrange(0x800)))) for _ in range(30))

    def number(self, chance: Random, field: str) -> int:
        """For a field of this name, of 64 bits and a sign."""
        if ("lease" in field or field in {"releases", "detaches", "held"}) and self.leases and chance.random() < 0.7:
            return chance.choice(self.leases)
        if field in {"op", "ops", "cancels", "places"} and chance.random() < 0.8:
            return chance.randrange(1, 60)
        if field in {"permits", "generation"} and chance.random() < 0.8:
            return chance.randrange(1, 4)
        picked = chance.choice(_NUMBERS)
        return -picked if chance.random() < 0.1 else picked

    def seconds(self, chance: Random) -> tuple[int, int]:
        """Of a length of time: the seconds and the nanoseconds, which need not fit together."""
        if chance.random() < 0.85:
            return 0, chance.choice((0, 1, 1_000_000, 20_000_000, 200_000_000, 999_999_999))
        return self.number(chance, "seconds"), chance.choice((0, 1, -1, 2**31 - 1, -(2**31)))


def varint(number: int) -> bytes:
    """As protobuf writes it."""
    number &= 2**64 - 1
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def unknown_field(chance: Random) -> bytes:
    """A field that nobody has declared, of any wire type, whole or not."""
    number, kind = chance.choice((11, 15, 99, 1000, 2**29 - 1)), chance.choice((0, 1, 2, 3, 4, 5, 6, 7))
    tag = varint(number << 3 | kind)
    match kind:
        case 0:
            return tag + varint(chance.getrandbits(64))
        case 1:
            return tag + struct.pack("<d", chance.random())
        case 2:
            data = chance.randbytes(chance.choice((0, 3, 300)))
            return tag + varint(len(data)) + data
        case 3:
            # Groups within groups, as deep as it takes to have a careless reader fall over.
            return tag * chance.choice((1, 50, 5_000))
        case 5:
            return tag + chance.randbytes(4)
        case _:
            return tag


def mutated(chance: Random, data: bytes) -> bytes:
    """The same with some bytes changed, lost, repeated or moved."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(6):
            case 0 if made:
                made[at % len(made)] ^= 1 << chance.randrange(8)
            case 1:
                made[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
            case 2:
                del made[at : at + chance.choice((1, 2, 8, 64))]
            case 3:
                end = at + chance.randrange(16)
                made[at:at] = made[at:end] * chance.choice((1, 2, 30))
            case 4:
                del made[at:]
            case _:
                made[at:at] = varint(chance.choice(_NUMBERS))
    return bytes(made)
