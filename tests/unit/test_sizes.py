"""Bytes and lengths of time for people."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboard.core.words import binary, span, unit


@pytest.mark.parametrize(
    ("size", "said", "chosen"),
    [
        (0, "0 B", ("B", 1)),
        (1023, "1023 B", ("B", 1)),
        (1024, "1.0 KiB", ("KiB", 2**10)),
        (-3 * 2**20, "-3.0 MiB", ("MiB", 2**20)),
        (44_238_000_000, "41.2 GiB", ("GiB", 2**30)),
        (2**60, "1024.0 PiB", ("PiB", 2**50)),
    ],
)
def test_the_unit_is_the_largest_that_fits(size: int, said: str, chosen: tuple[str, int]) -> None:
    assert binary(size) == said
    assert unit(size) == chosen


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (45, "45 s"),
        (119.4, "119 s"),
        (119.7, "2 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
    ],
)
def test_a_span_is_rounded_and_never_negative(seconds: float, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said
