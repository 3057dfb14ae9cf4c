"""What a policy is: topics, target, pace, limits and windows of purges that nobody confirms; and
what its settings are written in: windows of the week, time zones, triggers, targets.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from dashboard.core.canonical import digest
from dashboard.core.clock import parse_duration
from dashboard.core.errors import SettingsError, UsageError
from dashboard.core.words import number, parse_size
from dashboard.domain.system_topics import REPARTITION_SUFFIX
from dashboard.settings.values import matches_any

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MINUTES = 24 * 60
_WINDOW = re.compile(r"(\S+) (\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)
_DISK = re.compile(r"disk-above:(\d{1,2}(?:\.\d+)?)%", re.ASCII)
_GROWTH = re.compile(r"growth-above:(\w+)/h", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """Minutes of the day, on days of the week (0 is Monday), in the policy's time zone.

    `end_minute` is at most 1440 (24:00) and not part of it. One that ends at or before its start
    goes over midnight, and belongs to the day it begins.
    """

    days: frozenset[int]
    start_minute: int
    end_minute: int
    text: str

    @property
    def over_midnight(self) -> bool:
        return self.end_minute <= self.start_minute


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a policy purges at all; `share` is of a log dir's disk, `bytes_per_hour` of growth."""

    kind: Literal["always", "disk-above", "growth-above"] = "always"
    share: float | None = None
    bytes_per_hour: int | None = None
    text: str = "always"


ALWAYS = Trigger()


def parse_window(text: str, where: str) -> Window:
    """`Mon-Fri 22:00-06:00`, `Sat,Sun 00:00-24:00`. Raises SettingsError."""
    found = _WINDOW.fullmatch(text)
    days = _days(found[1]) if found else None
    if found is None or days is None:
        raise SettingsError(
            f"{where}: windows has '{text}', which is not days and times",
            'Write days and times, such as "Mon-Fri 22:00-06:00" or "Sat,Sun 00:00-24:00".',
        )
    start, end = (int(found[h]) * 60 + int(found[h + 1]) for h in (2, 4))
    if start >= _DAY_MINUTES or end > _DAY_MINUTES or int(found[3]) > 59 or int(found[5]) > 59:
        raise SettingsError(
            f"{where}: windows has '{text}', and no day has that time",
            "Begin from 00:00 to 23:59, end from 00:00 to 24:00.",
        )
    if start == end:
        raise SettingsError(
            f"{where}: windows has '{text}', which never opens: it ends when it begins",
            f'Write "{found[1]} 00:00-24:00" for whole days, or a later end.',
        )
    return Window(days, start, end, text)


def _days(text: str) -> frozenset[int] | None:
    """Days out of `Mon`, `Mon-Fri`, `Sat-Mon`, `Mon,Wed-Fri`; None for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            return None
        start = DAYS.index(first)
        count = (DAYS.index(last or first) - start) % 7 + 1
        found |= {(start + step) % 7 for step in range(count)}
    return frozenset(found)


def time_zone(name: Any, where: str) -> str:
    """The name of an IANA time zone that this machine knows. Raises SettingsError."""
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError, TypeError) as error:
        near = difflib.get_close_matches(str(name), available_timezones(), n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise SettingsError(
            f"{where}: timezone = {name!r} is no time zone known here",
            f'{hint}Write a name of the IANA list, such as "UTC" or "Europe/Berlin".',
        ) from error


def parse_trigger(text: str, where: str) -> Trigger:
    """`always`, `disk-above:80%` or `growth-above:5GiB/h`. Raises SettingsError."""
    if text == "always":
        return ALWAYS
    share = parse_disk_share(text)
    if share is not None:
        return Trigger("disk-above", share=share, text=text)
    found = _GROWTH.fullmatch(text)
    size = parse_size(found[1]) if found else None
    if size:
        return Trigger("growth-above", bytes_per_hour=size, text=text)
    raise SettingsError(
        f"{where}: trigger = '{text}' is no trigger",
        "Write always, disk-above:80% (above 0, below 100) or growth-above:5GiB/h.",
    )


def parse_disk_share(text: str) -> float | None:
    """0.8 of `disk-above:80%`; None for anything else, and for 0%."""
    found = _DISK.fullmatch(text)
    return float(found[1]) / 100 or None if found else None


def check_target(text: str, where: str) -> str:
    """`committed`, `retention`, `keep:3d` or `keep:10GiB`. Raises SettingsError.

    A target that names one moment or offset means other records at each purge, and the high
    watermark would take what nobody has read.
    """
    kind, _, value = text.partition(":")
    if text in ("committed", "retention") or (kind == "keep" and _is_keep(value)):
        return text
    why = {
        "high-watermark": "a policy would purge what no group has read yet",
        "offset": "one offset means other records each time",
        "timestamp": "one moment is past after the first purge",
    }.get(kind, "no policy has such a target")
    raise SettingsError(
        f"{where}: target = '{text}': {why}",
        "Write committed, keep:3d, keep:10GiB or retention; a plan by hand takes the others.",
    )


def _is_keep(value: str) -> bool:
    try:
        return bool(parse_size(value)) or parse_duration(value) > timedelta(0)
    except UsageError:
        return False


REPARTITION = "repartition"  # the preset
# What the preset lifts by itself, of topics of known Streams applications alone.
PRESET_LIFTS = {"readers-undeclared": "a Streams repartition topic is read by its application only"}


@dataclass(frozen=True, slots=True)
class Policy:
    """One [policies.NAME]: topics, target, pace and limits of purges that nobody confirms singly.

    `min_purge_interval` is KIP-811's: the least time between two starts of a partition's purge.
    `as_often_as_commits` allows one below a second, as Streams purged before that proposal.
    `globs` and `regex` narrow a preset. No windows means always; budgets of None mean no limit.
    `overrides` maps a guard of POLICY_LIFTABLE to why it is lifted, `waive` a group to why its
    offsets do not count while no coordinator lists it. `archive`: where records are kept before
    any is deleted, True: in the place of [archive].
    """

    name: str
    preset: str | None = None
    globs: tuple[str, ...] = ()
    regex: str | None = None
    target: str = "committed"
    committed_by: str = "all"  # "owner": the owning group's commits alone count for the target
    owner: str | None = None  # a group; None where the preset finds it by the topic's name
    mode: str = "wait-all"
    min_purge_interval: timedelta = timedelta(seconds=30)
    as_often_as_commits: bool = False
    most_bytes_per_hour: int | None = None
    most_partitions_per_hour: int | None = None
    windows: tuple[Window, ...] = ()
    timezone: str = "UTC"
    trigger: Trigger = ALWAYS
    overrides: Mapping[str, str] = field(default_factory=dict, hash=False)
    waive: Mapping[str, str] = field(default_factory=dict, hash=False)
    archive: str | bool = False
    cluster: str | None = None

    def matches(self, topic: str) -> bool:
        """Whether the policy is for a topic of this name; a regex must match all of it."""
        if self.preset == REPARTITION and not topic.endswith(REPARTITION_SUFFIX):
            return False
        if self.globs:
            return matches_any(topic, self.globs)
        if self.regex is not None:
            return re.fullmatch(self.regex, topic) is not None
        return self.preset is not None

    @property
    def definition_sha256(self) -> str:
        """Hex sha256 of all that decides what is purged, and when: another one is another policy.

        Spelling (the order of globs, the text of a window) changes nothing.
        """
        windows = [[sorted(w.days), w.start_minute, w.end_minute] for w in self.windows]
        return digest(
            {
                "version": 1,
                "name": self.name,
                "preset": self.preset,
                "globs": sorted(self.globs),
                "regex": self.regex,
                "target": self.target,
                "committed_by": self.committed_by,
                "owner": self.owner,
                "mode": self.mode,
                "min_purge_interval_ms": self.min_purge_interval // timedelta(milliseconds=1),
                "most_bytes_per_hour": self.most_bytes_per_hour,
                "most_partitions_per_hour": self.most_partitions_per_hour,
                "windows": sorted(windows),
                "timezone": self.timezone,
                "trigger": [self.trigger.kind, self.trigger.share, self.trigger.bytes_per_hour],
                "overrides": dict(self.overrides),
                "cluster": self.cluster,
                # Only where there is one: what was confirmed before it could be written stays on.
                **({"waive": dict(self.waive)} if self.waive else {}),
                **({"archive": self.archive} if self.archive else {}),
                **({"as_often_as_commits": True} if self.as_often_as_commits else {}),
            }
        )

    @property
    def caution(self) -> str | None:
        """What purging as often as commits costs; None: it does not."""
        if not self.as_often_as_commits:
            return None
        runs = timedelta(days=1) // self.min_purge_interval
        return (
            f"up to {number(runs)} runs a day for each application, each with reads of all "
            "brokers, a request to every leader and its plan and receipt in the journal; it frees "
            "no disk sooner than an interval of minutes: brokers look for segments to delete once "
            "in log.retention.check.interval.ms (5 min by default)"
        )

    def confirmation(self, called: str) -> str:
        """The sentence that an operator repeats to switch it on, as it was defined when shown, in
        the cluster that is `called` so: by its name, and its id where others have that name.
        """
        return f"switch on policy {self.name} on {called} as {self.definition_sha256[:12]}"


# When a policy's windows are open, by the wall clock of its time zone.

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
