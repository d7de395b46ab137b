"""A number at the start of a message is read as protobuf reads it, and never further than it can go."""

import pytest

from governor.unopened import leading


@pytest.mark.parametrize("value", [1, 127, 128, 16_383, 16_384, 2**35, 2**63 - 1])
def test_a_number_is_told_from_what_follows(value: int) -> None:
    """Of any length."""
    raw, left = b"\x08", value
    while left >= 0x80:
        raw += bytes([left & 0x7F | 0x80])
        left >>= 7
    raw += bytes([left])

    assert leading(1, raw + b"rest") == (value, b"rest")


@pytest.mark.parametrize("raw", [b"", b"\x08", b"\x08\x80", b"\x10\x01", b"\x08\x00", b"\x08" + b"\xff" * 9 + b"\x01"])
def test_what_begins_otherwise_is_left_to_whoever_opens_it(raw: bytes) -> None:
    """Nothing, half a number, another field, nought, and one that is negative."""
    assert leading(1, raw) == (0, b"")


def test_a_number_without_an_end_is_not_read_to_its_end() -> None:
    """Four megabytes of it would otherwise take as long as its square."""
    assert leading(1, b"\x08" + b"\xff" * 2**22) == (0, b"")
