"""Snapshots are thinned: all of the last hour, one an hour for a week, the newest always."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dashboard.snapshot_files import new_id
from dashboard.snapshot_retention import snapshots_to_keep

NOW = datetime(2026, 3, 8, 12, 30, tzinfo=UTC)


def taken(**ago: float) -> str:
    return new_id(NOW - timedelta(**ago))


def test_everything_of_the_last_hour_stays() -> None:
    ids = [taken(minutes=m) for m in range(60)]
    assert snapshots_to_keep(ids, NOW) == set(ids)


def test_one_an_hour_stays_for_a_week_and_it_is_the_newest() -> None:
    older, newer, other_hour = (
        taken(hours=5, minutes=20),
        taken(hours=5),
        taken(hours=6, minutes=31),
    )
    assert snapshots_to_keep([taken(), older, newer, other_hour], NOW) >= {newer, other_hour}
    assert older not in snapshots_to_keep([taken(), older, newer, other_hour], NOW)


def test_what_is_older_than_a_week_goes() -> None:
    old, new = taken(days=8), taken()
    assert snapshots_to_keep([old, new], NOW) == {new}


def test_the_newest_stays_however_old_it_is() -> None:
    ids = [taken(days=30), taken(days=20)]
    assert snapshots_to_keep(ids, NOW) == {ids[1]}


def test_a_foreign_folder_is_not_ours_to_delete() -> None:
    assert "notes" in snapshots_to_keep(["notes", taken()], NOW)


def test_nothing_to_keep_is_no_error() -> None:
    assert snapshots_to_keep([], NOW) == set()
