"""Whether a folder of a partition that lives may be the last copy of records: the one rule.

A replica that an unclean election put in the place of a dead one begins empty and is in sync with
itself, so nothing that a partition says of its replicas tells that records are missing (KIP-106).
Nor do its offsets: they begin again, and grow past those of the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dashboard.core.clock import format_time

SETTINGS = ("cleanup.policy", "retention.ms")
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Records:
    """What a folder holds; `end_offset` is the one after its last record. None is unknown."""

    log_bytes: int | None
    end_offset: int | None
    newest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Living:
    """The partition that has a folder's topic id and number today, as its leader tells of it.

    `settings` are the topic's own SETTINGS in effect. None, or missing, is unknown.
    """

    topic: str
    partition: int
    settings: Mapping[str, str | None]
    log_start_offset: int | None
    high_watermark: int | None


class Kept(NamedTuple):
    """Why a folder stays; `until`: when that is worth another look; None: for good."""

    reason: str
    until: datetime | None = None


def kept(records: Records, living: Living, now: datetime) -> Kept | None:
    """Why the folder must stay, or None: the living partition had all of it, or would not keep it.

    It may go when its topic's own retention is over for its newest record, and the partition's log
    begins past its last one. Then no replica would have them. What a compacted topic, or one that
    keeps its records for ever, has let go of cannot be told from what it has lost.
    """
    if records.log_bytes == 0:
        return None
    retention = _retention(living)
    if isinstance(retention, Kept):
        return retention
    return _by_offsets(records, living) or _by_age(records, living, retention, now)


def _retention(living: Living) -> timedelta | Kept:
    policy, text = (living.settings.get(name) for name in SETTINGS)
    if policy is None or text is None:
        return _last(
            living, f"the settings of topic {living.topic} are not known. Grant DESCRIBE_CONFIGS"
        )
    if policy.strip() != "delete":
        return _last(living, f"its cleanup.policy is '{policy}'. {_BY_HAND}")
    if int(text) < 0:
        return _last(living, f"it keeps its records for ever (retention.ms {text}). {_BY_HAND}")
    return times(int(text), timedelta(milliseconds=1))


def _by_offsets(records: Records, living: Living) -> Kept | None:
    end, start, living_end = records.end_offset, living.log_start_offset, living.high_watermark
    if end is None:
        return _last(
            living,
            "where the folder's records end is not known. Take an inventory with lowwater "
            "inventory scan on the broker's host; if that cannot tell, its last segment is "
            f"damaged. {_BY_HAND}",
        )
    if start is None or living_end is None:
        return _last(living, "its leader does not tell its offsets. Ask again when it answers")
    if living_end < end:
        return _last(living, f"it ends at {living_end}, and this folder at {end}. {_BY_HAND}")
    return None


def _by_age(records: Records, living: Living, retention: timedelta, now: datetime) -> Kept | None:
    if records.newest_at is None:
        return _last(living, "the age of the folder's newest record is not known")
    old_at = later(records.newest_at, retention)
    if old_at >= now:
        said = f"its own retention keeps the folder's newest record until {format_time(old_at)}"
        return _last(living, said, old_at)
    start, end = living.log_start_offset, records.end_offset
    assert start is not None and end is not None
    if start < end:
        said = f"it begins at {start}, before the folder's end at {end}: wait until it is past it"
        return _last(living, said, now)
    return None


_BY_HAND = "Compare the two by hand (kafka-dump-log.sh); remove it only when nothing is missing"


def later(moment: datetime, by: timedelta) -> datetime:
    """`moment` + `by`, at most the calendar's end: producers write any timestamp they like."""
    return _END if by > _END - moment else moment + by


def _last(living: Living, why: str, until: datetime | None = None) -> Kept:
    name = f"{living.topic}-{living.partition}"
    return Kept(f"partition {name} lives, and this may be the last copy of records: {why}", until)


def times(count: int, unit: timedelta) -> timedelta:
    """`count` x `unit`: settings may name more time than a calendar has."""
    try:
        return count * unit
    except OverflowError:
        return timedelta.max
