"""When a policy's windows are open, by the wall clock of its time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.words import Window

# A window of one day a week may fall into the hour that a change of clocks leaves out: then the
# next one is a week later.
_DAYS_AHEAD = 15
_DAY = timedelta(days=1)


def is_open(policy: Policy, now: datetime) -> bool:
    """Whether a purge of the policy may begin at `now` (aware); always without windows.

    The wall clock decides: times that it leaves out in spring are no part of any window, and
    those that it shows twice in autumn are part of it twice.
    """
    if not policy.windows:
        return True
    there = now.astimezone(ZoneInfo(policy.timezone))
    minute = there.hour * 60 + there.minute
    return any(_holds(window, there.weekday(), minute) for window in policy.windows)


def _holds(window: Window, weekday: int, minute: int) -> bool:
    today = weekday in window.days
    if not window.over_midnight:
        return today and window.start_minute <= minute < window.end_minute
    yesterday = (weekday - 1) % 7 in window.days
    return (today and minute >= window.start_minute) or (yesterday and minute < window.end_minute)


def next_open(policy: Policy, now: datetime) -> datetime:
    """The first moment from `now` on (aware UTC) at which the policy's windows are open."""
    now = now.astimezone(UTC)
    if is_open(policy, now):
        return now
    return min(at for at in _openings(policy, now) if at > now and is_open(policy, at))


def _openings(policy: Policy, now: datetime) -> Iterator[datetime]:
    """Moments (UTC) at which a closed window may open: its starts, and changes of the clocks."""
    zone = ZoneInfo(policy.timezone)
    first = now.astimezone(zone).date() - _DAY
    for day in (first + _DAY * n for n in range(_DAYS_AHEAD)):
        midnight = _utc(day, 0, zone, 0)
        for minute in {0, *(window.start_minute for window in policy.windows)}:
            yield from (_utc(day, minute, zone, fold) for fold in (0, 1))
        changed = _change(midnight, midnight + _DAY, zone)
        if changed is not None:
            yield changed


def _utc(day: date, minute: int, zone: ZoneInfo, fold: int) -> datetime:
    at = time(minute // 60, minute % 60, tzinfo=zone, fold=fold)
    return datetime.combine(day, at).astimezone(UTC)


def _change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The second at which the zone's offset becomes another between two moments, if it does."""
    offset = before.astimezone(zone).utcoffset()
    if after.astimezone(zone).utcoffset() == offset:
        return None
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)
