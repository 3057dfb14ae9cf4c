"""Numbers and times as the pages write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.core.words import THIN_SPACE
from dashboard.store.finding_rows import GrowthRow
from dashboard.ui.components import grid, markup
from dashboard.views import formats, headline

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (None, "unknown"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"),
        (5 * 2**20, "5.0 MiB"), (44_237_010_534, "41.2 GiB"), (3 * 2**40, "3.0 TiB"),
    ],
)  # fmt: skip
def test_bytes_take_the_largest_unit_that_fits(size_bytes: int | None, shown: str) -> None:
    assert formats.size(size_bytes) == shown


def test_a_column_has_one_unit_for_all_its_rows() -> None:
    assert formats.common_unit([5, None, 3 * 2**30]) == ("GiB", 2**30)
    assert formats.common_unit([3 * 2**40]) == ("GiB", 2**30)  # at most: columns are compared
    assert formats.common_unit([None, 12]) == ("bytes", 1)
    assert formats.common_unit([]) == ("bytes", 1)


def test_offsets_have_thin_spaces_and_keep_every_digit() -> None:
    assert formats.number(9_007_199_254_740_993) == "9 007 199 254 740 993".replace(" ", THIN_SPACE)


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(seconds=41), "41 s ago"), (timedelta(minutes=12, seconds=50), "12 min ago"),
        (timedelta(hours=3), "3 h ago"), (timedelta(days=41), "41 d ago"),
        (timedelta(seconds=-3), "0 s ago"), (timedelta(hours=-3), "in 3 h (clock?)"),
        (timedelta(seconds=-10), "0 s ago"), (timedelta(seconds=-11), "in 11 s (clock?)"),
    ],
)  # fmt: skip
def test_ages_are_relative_in_whole_units(passed: timedelta, shown: str) -> None:
    assert formats.ago(NOW - passed, NOW) == shown


def test_an_age_tells_its_exact_time_on_hover() -> None:
    assert markup.ago(NOW, NOW) == '<abbr title="2026-03-01 04:00:00 UTC">0 s ago</abbr>'


def test_names_from_the_cluster_cannot_become_markup() -> None:
    assert markup.text('<script>"&') == "&lt;script&gt;&quot;&amp;"


@pytest.mark.parametrize(
    ("days", "low", "high", "said"),
    [
        (0.4, 0.3, 0.6, "full in 10 h (7 h to 14 h)"),
        (0.4, 0.3, None, "may fill up (not before 7 h)"),  # the slope may as well be none
        (0.4, None, None, "full in 10 h"),
        (None, 7.0, None, "not filling up (not before 7 d)"),
        (None, None, None, "not filling up"),
    ],
)
def test_a_disk_that_may_as_well_stand_still_is_full_on_no_day(
    days: float | None, low: float | None, high: float | None, said: str
) -> None:
    row = GrowthRow(
        NOW, None, 1, "/d", 1, used_bytes_per_hour=1,
        days_to_full=days, days_to_full_low=low, days_to_full_high=high,
    )  # fmt: skip
    assert headline.said(row) == said


def test_a_name_is_cut_in_its_middle_and_only_where_it_is_too_long() -> None:
    assert formats.middle("orders-retry-5m", 15) == "orders-retry-5m"
    assert formats.middle("orders-retry-5m", 10) == "orde…ry-5m"
    assert len(formats.middle("x" * 99, 28)) == 28


def test_a_column_has_room_for_its_longest_name_within_limits() -> None:
    assert grid.room_for([], 150) == grid.room_for(["a"], 150) == 150
    assert grid.room_for(["a", "orders-app-changelog-store"], 150) == 198
    assert grid.room_for(["x" * 249], 150) == 460


def test_a_disk_that_fills_for_sure_stands_before_one_that_may_never() -> None:
    never, maybe, late, soon, unknown = (
        GrowthRow(NOW, None, at, "/d", 1, days_to_full=days, days_to_full_low=low,
                  days_to_full_high=high)
        for at, (days, low, high) in enumerate(
            [(None, 90.0, None), (0.4, 0.3, None), (9.0, 7.0, 14.0), (2.0, 1.0, 3.0),
             (None, None, None)])
    )  # fmt: skip
    rows = [never, maybe, late, soon, unknown]
    assert sorted(rows, key=headline.order) == [soon, late, maybe, never, unknown]
    assert headline.order(None) == headline.order(never)
