"""Bytes for people, in binary units: the same words in guards, on the command line, on pages."""

from __future__ import annotations

import re

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def binary(size_bytes: float) -> str:
    """`512 B`, `41.2 GiB`: the largest unit that fits, one decimal."""
    name, one = unit(size_bytes)
    return f"{int(size_bytes)} B" if name == "B" else f"{size_bytes / one:.1f} {name}"


def unit(largest_bytes: float) -> tuple[str, int]:
    """The unit to show sizes up to this one in, and its bytes: `("GiB", 2**30)`."""
    name, one = "B", 1
    for larger in _UNITS:
        if abs(largest_bytes) < 1024 * one:
            break
        name, one = larger, 1024 * one
    return name, one


def parse_size(text: str) -> int | None:
    """`1500B`, `500MiB`, `10GiB` in bytes; None for anything else, or more than 64 bits hold."""
    found = re.fullmatch(r"([0-9]{1,19})(B|[KMGTP]iB)", text)
    if found is None:
        return None
    size = int(found[1]) * 1024 ** ("B", *_UNITS).index(found[2])
    return size if size < 2**63 else None
