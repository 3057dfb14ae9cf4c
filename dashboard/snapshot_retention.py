"""Which snapshots and analyses stay: all, then one an hour, then one a day, as settings say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dashboard.snapshot_files import time_of
from dashboard.snapshot_settings import SnapshotSettings

_NEWEST_ANALYSES = 3  # readers may still be at the one or two before the newest


def snapshots_to_keep(
    ids: Iterable[str], now: datetime, keep: SnapshotSettings, times: Mapping[str, datetime] = {}
) -> set[str]:
    """The ids to keep of those given: the newest always, and what its age allows.

    Of an hour and of a day (in UTC) the newest stays. An id without a time is not ours to delete.
    One from the future, by a clock that was wrong, counts like one as far in the past: it goes in
    the end, and may be the only one there is. `times`: when snapshots were taken, where ids may
    tell another time; what stays by either stays.
    """
    ordered = sorted(ids)
    by_id = _times(ordered)
    thinned = (_thinned(told, now, keep.keep_all_for, keep) for told in (by_id, {**by_id, **times}))
    return set(ordered[-1:]).union(*thinned)


def analyses_to_keep(ids: Iterable[str], now: datetime, keep: SnapshotSettings) -> set[str]:
    """Which analyses stay: the newest three, and one an hour and a day as long as snapshots."""
    ordered = sorted(ids)
    return {*ordered[-_NEWEST_ANALYSES:], *_thinned(_times(ordered), now, timedelta(0), keep)}


def _times(ids: Iterable[str]) -> dict[str, datetime | None]:
    return {name: time_of(name) for name in ids}


def _thinned(
    ordered: Mapping[str, datetime | None],
    now: datetime,
    keep_all_for: timedelta,
    keep: SnapshotSettings,
) -> set[str]:
    """`ordered`: the time of each id, as ids sort."""
    of_hour = {f"{at:%Y%m%dT%H}": name for name, at in ordered.items() if at is not None}
    of_day = {f"{at:%Y%m%d}": name for name, at in ordered.items() if at is not None}
    kept = set()
    for name, taken_at in ordered.items():
        if (
            taken_at is None
            or (age := abs(now - taken_at)) <= keep_all_for
            or (age <= keep.keep_hourly_for and of_hour[f"{taken_at:%Y%m%dT%H}"] == name)
            or (age <= keep.keep_daily_for and of_day[f"{taken_at:%Y%m%d}"] == name)
        ):
            kept.add(name)
    return kept
