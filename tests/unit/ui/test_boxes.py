"""What people type into boxes of times and sizes, and what it is read as."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.clock import parse_duration, parse_time
from dashboard.core.words import binary, parse_size
from dashboard.ui.components import boxes

NOW = datetime(2026, 3, 1, 12, 0, 0, 987_654, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2 hours ago", "2026-03-01T10:00:00Z"),
        ("1 Hour ago", "2026-03-01T11:00:00Z"),
        ("90 min ago", "2026-03-01T10:30:00Z"),
        ("3d ago", "2026-02-26T12:00:00Z"),
        (" 1 week ago ", "2026-02-22T12:00:00Z"),
        ("2026-02-22T14:10:00", "2026-02-22T14:10:00Z"),
        ("2026-02-22 14:10", "2026-02-22T14:10:00Z"),
    ],
)
def test_a_time(text: str, read: str) -> None:
    assert boxes.moment(text, NOW) == read


@pytest.mark.parametrize(
    "text",
    ["yesterday", "2026-02-22", "20260222", "2 fortnights ago", "ago", "-1 h ago", "in 2 hours",
     "99999 weeks ago", "2026-02-22T14:10:00Z", "2026-02-22T14:10:00+01:00",
     "1700000000", "0x1 h ago", "1M ago"],
)  # fmt: skip
def test_what_is_no_time_or_is_one_already_stays_as_it_is(text: str) -> None:
    assert boxes.moment(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1 hour", "1h"),
        ("90 minutes", "90m"),
        ("2 weeks", "14d"),
        ("36 H", "36h"),
        ("10 GiB", "10GiB"),
        ("10 gib", "10GiB"),
        ("1.5GiB", "1536MiB"),
        ("1,5 TiB", "1536GiB"),
        ("1GB", "1000000000B"),
        ("500 MB", "500000000B"),
        ("1024kB", "1024000B"),
        ("0 GiB ", None),
    ],
)
def test_a_length_or_a_size(text: str, read: str | None) -> None:
    assert boxes.keep(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "1.5",
        "1e3GB",
        "ten GB",
        "-1GB",
        "0.0001B",
        "9999999999999PB",
        "1.5 hours",
        "0GB",
        "2g",
        "1,500 GiB",
        "1.500 MB",
        "500M",
        "500ms",
    ],
)
def test_what_is_neither_stays_as_it_is(text: str) -> None:
    assert boxes.keep(text) is None


@given(st.integers(1, 2**45), st.sampled_from(["B", "KB", "MB", "GB", "KiB", "MiB", "GiB"]))
def test_a_size_is_read_to_the_byte(count: int, unit: str) -> None:
    power = " KMG".index(unit[0]) if len(unit) > 1 else 0
    exact = count * (1024 if "i" in unit else 1000) ** power
    read = boxes.size(f"{count} {unit}")
    if exact < 2**63:
        assert read is not None and parse_size(read) == exact, binary(exact)
    else:
        assert read is None


@given(st.integers(1, 1000), st.sampled_from(["seconds", "minutes", "hours", "days", "weeks"]))
def test_a_time_ago_is_as_long_ago_as_it_says(count: int, unit: str) -> None:
    length = boxes.length(f"{count} {unit}")
    said = boxes.moment(f"{count} {unit} ago", NOW)
    assert length is not None and said is not None
    assert parse_time(said) == NOW.replace(microsecond=0) - parse_duration(length)
