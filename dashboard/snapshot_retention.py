"""Which snapshots and analyses stay: all, then one an hour, then one a day, as settings say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from dashboard.snapshot_files import time_of
from dashboard.snapshot_settings import SnapshotSettings

_NEWEST_ANALYSES = 3  # readers may still be at the one or two before the newest


def snapshots_to_keep(ids: Iterable[str], now: datetime, keep: SnapshotSettings) -> set[str]:
    """The ids to keep of those given: the newest always, and what its age allows.

    Of an hour and of a day (in UTC) the newest stays. An id without a time is not ours to delete.
    One from the future, by a clock that was wrong, counts like one as far in the past: it goes in
    the end, and may be the only one there is.
    """
    ordered = sorted(ids)
    return {*ordered[-1:], *_thinned(ordered, now, keep.keep_all_for, keep)}


def analyses_to_keep(ids: Iterable[str], now: datetime, keep: SnapshotSettings) -> set[str]:
    """Which analyses stay: the newest three, and one an hour and a day as long as snapshots."""
    ordered = sorted(ids)
    return {*ordered[-_NEWEST_ANALYSES:], *_thinned(ordered, now, timedelta(0), keep)}


def _thinned(
    ordered: Sequence[str], now: datetime, keep_all_for: timedelta, keep: SnapshotSettings
) -> set[str]:
    of_hour = {name[:11]: name for name in ordered}  # an id begins with its time
    of_day = {name[:8]: name for name in ordered}
    kept = set()
    for name in ordered:
        taken_at = time_of(name)
        age = None if taken_at is None else abs(now - taken_at)
        if (
            age is None
            or age <= keep_all_for
            or (age <= keep.keep_hourly_for and of_hour[name[:11]] == name)
            or (age <= keep.keep_daily_for and of_day[name[:8]] == name)
        ):
            kept.add(name)
    return kept
