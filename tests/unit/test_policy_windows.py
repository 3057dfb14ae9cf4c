"""Windows follow the wall clock of their zone, also where it jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.settings.policies.policy import DAYS, Policy, is_open, next_open, parse_window
from tests.unit.policies.examples import NOON, policy

BERLIN = ZoneInfo("Europe/Berlin")


def _policy(*windows: str, zone: str = "UTC") -> Policy:
    return Policy("p", windows=tuple(parse_window(w, "here") for w in windows), timezone=zone)


def test_without_windows_it_is_always_open() -> None:
    assert is_open(policy(), NOON)
    assert next_open(policy(), NOON) == NOON


def test_a_window_over_midnight_belongs_to_the_day_it_begins() -> None:
    found = _policy("Fri 22:00-06:00")
    friday = datetime(2026, 3, 6, 22, tzinfo=UTC)
    assert not is_open(found, friday - timedelta(minutes=1))
    assert is_open(found, friday)
    assert is_open(found, friday + timedelta(hours=8) - timedelta(milliseconds=1))
    assert not is_open(found, friday + timedelta(hours=8))
    assert not is_open(found, friday - timedelta(hours=20))  # Friday 02:00: Thursday's night
    assert not is_open(found, friday + timedelta(days=1))


def test_a_whole_day_ends_at_midnight() -> None:
    found = _policy("Sat,Sun 00:00-24:00")
    saturday = datetime(2026, 3, 7, tzinfo=UTC)
    assert not is_open(found, saturday - timedelta(seconds=1))
    assert is_open(found, saturday) and is_open(found, saturday + timedelta(hours=47))
    assert not is_open(found, saturday + timedelta(days=2))


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Wed", {2}),
        ("Mon-Fri", {0, 1, 2, 3, 4}),
        ("Sat-Mon", {5, 6, 0}),
        ("Mon,Wed-Thu", {0, 2, 3}),
        ("Mon-Sun", set(range(7))),
    ],
)
def test_days_are_named_singly_or_in_ranges_that_may_go_over_sunday(
    text: str, days: set[int]
) -> None:
    assert parse_window(f"{text} 01:00-02:30", "here").days == days


def test_the_zone_of_the_policy_decides_not_that_of_the_clock() -> None:
    found = _policy("Wed 13:00-14:00", zone="Europe/Berlin")
    assert is_open(found, NOON)  # 12:00 UTC is 13:00 there
    assert is_open(found, NOON.astimezone(ZoneInfo("Asia/Tokyo")))
    assert next_open(found, NOON + timedelta(hours=2)) == NOON + timedelta(days=7)


def test_a_window_that_begins_in_the_hour_left_out_in_spring_opens_when_the_clock_jumps() -> None:
    before = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)  # 01:30; at 02:00 it becomes 03:00
    jump = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert next_open(_policy("Sun 02:30-04:00", zone="Europe/Berlin"), before) == jump


def test_a_window_that_lies_in_the_hour_left_out_opens_a_week_later() -> None:
    before = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    found = next_open(_policy("Sun 02:15-02:45", zone="Europe/Berlin"), before)
    assert found.astimezone(BERLIN) == datetime(2026, 4, 5, 2, 15, tzinfo=BERLIN)


def test_times_that_come_twice_in_autumn_are_open_twice() -> None:
    found = _policy("Sun 02:15-02:30", zone="Europe/Berlin")
    first = datetime(2026, 10, 25, 0, 15, tzinfo=UTC)  # summer time; at 03:00 it is 02:00 again
    assert is_open(found, first) and not is_open(found, first + timedelta(minutes=15))
    assert next_open(found, first + timedelta(minutes=15)) == first + timedelta(hours=1)


def test_a_clock_set_back_into_a_window_opens_it_again() -> None:
    found = _policy("Sun 01:00-02:30", zone="Europe/Berlin")
    closed = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 summer time
    assert not is_open(found, closed)
    assert next_open(found, closed) == datetime(2026, 10, 25, 1, tzinfo=UTC)


def test_a_zone_that_leaves_out_midnight_opens_when_its_day_begins() -> None:
    # Beirut: on 29 March 2026 the clock goes from 24:00 (Saturday) to 01:00 (Sunday).
    found = _policy("Sun 00:00-03:00", zone="Asia/Beirut")
    begins = datetime(2026, 3, 28, 22, tzinfo=UTC)
    assert next_open(found, begins - timedelta(hours=5)) == begins


_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut",
          "America/Havana", "Asia/Kathmandu", "America/Santiago", "Africa/Casablanca")  # fmt: skip


@st.composite
def _windows(draw: st.DrawFn) -> str:
    start = draw(st.integers(0, 240) | st.integers(0, 1439))  # clocks jump early in the day
    end = draw(st.integers(1, 1440).filter(lambda minute: minute != start))
    days = draw(st.sets(st.sampled_from(DAYS), min_size=1))
    return f"{','.join(days)} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"


def _changes(zone: str) -> list[datetime]:
    """Hours of 2026 in which the zone's clock jumps."""
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(365 * 24)]
    there = [at.astimezone(ZoneInfo(zone)).utcoffset() for at in hours]
    return [at for at, a, b in zip(hours, there, there[1:], strict=False) if a != b] or hours[:1]


_NEAR = st.integers(-3 * 3600, 3 * 3600)
_CHANGES = {zone: _changes(zone) for zone in _ZONES}


@given(st.data(), st.sampled_from(_ZONES), st.lists(_windows(), min_size=1, max_size=3))
def test_the_next_opening_is_open_and_nothing_before_it_is(
    data: st.DataObject, zone: str, windows: list[str]
) -> None:
    found = _policy(*windows, zone=zone)
    change = data.draw(st.sampled_from(_CHANGES[zone]))
    now = change + timedelta(seconds=data.draw(_NEAR | st.integers(-3 * 86_400, 2 * 86_400)))
    at = next_open(found, now)
    assert at >= now
    assert is_open(found, at)
    closed_seconds = int((at - now).total_seconds())
    step = max(60, closed_seconds // 500)
    assert not any(
        is_open(found, now + timedelta(seconds=s)) for s in range(0, closed_seconds, step)
    )
    assert at == now or not is_open(found, at - timedelta(microseconds=1))
