"""Sums of which a part may not be known: then the whole is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

N = TypeVar("N", int, float)


def whole_sum(parts: Iterable[N | None]) -> N | None:
    """None where one of the parts is: a sum of the others would read as less than it is."""
    listed = list(parts)
    known = [part for part in listed if part is not None]
    return sum(known) if len(known) == len(listed) else None
