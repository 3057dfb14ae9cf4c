"""Durations and times as they are typed, and as JSON shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.clock import format_time, parse_duration, parse_time, utc_now
from dashboard.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("24h", timedelta(hours=24)),
        (" 7d ", timedelta(days=7)),
        ("0s", timedelta(0)),
    ],
)
def test_durations_of_each_unit_are_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-5s", "1.5h", "5 m", "5M", "1h30m", "9" * 30 + "d"]
)
def test_what_is_no_duration_is_named_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a duration") as caught:
        parse_duration(text)
    assert caught.value.code == "DURATION_INVALID"
    assert "7d" in caught.value.next_step


def test_a_time_with_any_zone_becomes_utc() -> None:
    assert parse_time("2026-03-01T05:30:00+01:30") == datetime(2026, 3, 1, 4, tzinfo=UTC)
    assert parse_time("2026-03-01T04:00:00Z").tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["2026-03-01T04:00:00", "2026-03-01", "yesterday", "", "1700000000", "0001-01-01T00:00+14:00"],
)
def test_a_time_without_zone_or_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="with a zone") as caught:
        parse_time(text)
    assert caught.value.code == "TIME_INVALID"


def test_json_times_are_rfc_3339_in_utc_with_z() -> None:
    moment = datetime(2026, 3, 1, 5, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(moment) == "2026-03-01T04:00:00.123Z"


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)))  # noqa: DTZ001 hypothesis adds the zone
def test_a_formatted_time_reads_back_to_the_millisecond(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment.replace(
        microsecond=moment.microsecond // 1000 * 1000
    )


def test_the_wall_clock_is_aware() -> None:
    assert utc_now().utcoffset() == timedelta(0)
