"""Retention: all for a while, then the newest of each hour, then of each day; the newest always."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dashboard.history.pruning import analyses_to_keep, snapshots_to_keep
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.snapshot_files import new_id

NOW = datetime(2026, 3, 8, 12, 30, tzinfo=UTC)
KEEP = SnapshotSettings()


def taken(**ago: float) -> str:
    return new_id(NOW - timedelta(**ago))


def kept(*ids: str, keep: SnapshotSettings = KEEP) -> set[str]:
    return snapshots_to_keep(ids, NOW, keep, {})


def test_everything_of_the_last_hour_stays() -> None:
    ids = [taken(minutes=m) for m in range(60)]
    assert kept(*ids) == set(ids)


def test_one_an_hour_stays_for_a_week_and_it_is_the_newest() -> None:
    older, newer, other = taken(hours=5, minutes=20), taken(hours=5), taken(hours=6, minutes=31)
    assert kept(taken(), older, newer, other) >= {newer, other}
    assert older not in kept(taken(), older, newer, other)


def test_one_a_day_stays_for_three_months() -> None:
    older, newer, other = taken(days=9, hours=3), taken(days=9), taken(days=10)
    found = kept(taken(), older, newer, other, taken(days=91))
    assert found >= {newer, other}
    assert len(found) == 3


def test_settings_move_each_step() -> None:
    ids = [taken(minutes=m) for m in range(0, 60 * 24 * 3, 10)]  # every ten minutes for three days
    keep = SnapshotSettings(timedelta(hours=2), timedelta(days=1), timedelta(days=2))
    found = kept(*ids, keep=keep)
    ages = sorted(NOW - datetime.strptime(i[:15] + "+0000", "%Y%m%dT%H%M%S%z") for i in found)
    assert len([a for a in ages if a <= timedelta(hours=2)]) == 13
    # The hours of 12 yesterday to 9 today; the newest of 10 is younger.
    assert len([a for a in ages if timedelta(hours=2) < a <= timedelta(days=1)]) == 22
    # The newest of the day before yesterday; yesterday's is younger.
    assert [a for a in ages if a > timedelta(days=1)] == [timedelta(hours=36, minutes=40)]
    assert max(ages) <= timedelta(days=2)


def test_a_step_of_nothing_keeps_nothing_but_the_newest() -> None:
    ids = [taken(minutes=m) for m in (0, 5, 90, 60 * 30)]
    nothing = SnapshotSettings(timedelta(0), timedelta(0), timedelta(0))
    assert kept(*ids, keep=nothing) == {ids[0]}
    only_daily = SnapshotSettings(timedelta(0), timedelta(0), timedelta(days=9))
    assert kept(*ids, keep=only_daily) == {ids[0], ids[3]}


def test_the_newest_stays_however_old_it_is() -> None:
    ids = [taken(days=300), taken(days=200)]
    assert kept(*ids) == {ids[1]}


def test_a_foreign_folder_is_not_ours_to_delete() -> None:
    assert "notes" in kept("notes", taken())


def test_nothing_to_keep_is_no_error() -> None:
    assert kept() == set()


def test_what_a_wrong_clock_put_into_the_future_goes_as_if_it_were_past() -> None:
    ahead, far = taken(days=-2), taken(days=-4000)
    newest = new_id(NOW, after=far)
    assert kept(ahead, far, newest) == {ahead, newest}


def test_analyses_keep_the_newest_three_and_one_an_hour_and_a_day() -> None:
    recent = [taken(minutes=m) for m in (25, 20, 15, 10, 5)]  # all of one hour
    hour, day = [taken(hours=5, minutes=m) for m in (20, 0)], [taken(days=d) for d in (30, 200)]
    assert analyses_to_keep([*day, *hour, *recent], NOW, KEEP) == {day[0], hour[1], *recent[2:]}
