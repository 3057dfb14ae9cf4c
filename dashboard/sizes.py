"""Bytes for people, in binary units: the same words in guards, on the command line, on pages."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def binary(size_bytes: float) -> str:
    """`512 B`, `41.2 GiB`: the largest unit that fits, one decimal."""
    amount, name = float(size_bytes), "B"
    for unit in _UNITS:
        if abs(amount) < 1024:
            break
        amount, name = amount / 1024, unit
    return f"{int(amount)} B" if name == "B" else f"{amount:.1f} {name}"
