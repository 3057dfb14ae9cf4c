"""Reading the compact fields of flexible versions (KIP-482) from an answer, by hand.

For answers of hundreds of thousands of rows, which schemas decode object by object. Functions take
a position and return what is there and the position behind it; an answer that is cut short raises
IndexError or struct.error.
"""

from __future__ import annotations


def varint(body: memoryview[int], at: int) -> tuple[int, int]:
    """An unsigned varint."""
    value = body[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def length(body: memoryview[int], at: int) -> tuple[int, int]:
    """How many elements an array has or bytes a string; 0 for null too."""
    value, at = varint(body, at)
    return max(0, value - 1), at


def string(body: memoryview[int], at: int) -> tuple[str, int]:
    """A compact string, "" for null. Raises ValueError when it is not UTF-8."""
    size, at = length(body, at)
    if at + size > len(body):
        raise IndexError("the answer is cut short")
    return str(body[at : at + size], "utf-8"), at + size


def skip_tags(body: memoryview[int], at: int) -> int:
    """The position behind tagged fields."""
    count, at = varint(body, at)
    for _ in range(count):
        _, at = varint(body, at)
        size, at = varint(body, at)
        at += size
    return at
