"""Which snapshots stay: all of the last hour, then the newest of each hour for a week."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

ALL_FOR = timedelta(hours=1)
HOURLY_FOR = timedelta(days=7)


def snapshots_to_keep(ids: Iterable[str], now: datetime) -> set[str]:
    """The ids to keep of those given. The newest always stays; an id without a time does too."""
    ordered = sorted(ids)
    kept = set(ordered[-1:])
    newest_of_hour: dict[str, str] = {}
    for name in ordered:
        taken_at = _taken_at(name)
        if taken_at is None or now - taken_at <= ALL_FOR:
            kept.add(name)
        elif now - taken_at <= HOURLY_FOR:
            newest_of_hour[f"{taken_at:%Y%m%dT%H}"] = name
    return kept | set(newest_of_hour.values())


def _taken_at(name: str) -> datetime | None:
    try:
        return datetime.strptime(name[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
