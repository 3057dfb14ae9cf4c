"""What a policy is: topics, target, pace, limits and windows of purges that nobody confirms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dashboard.core.canonical import digest
from dashboard.core.words import number
from dashboard.settings.policies.words import ALWAYS, Trigger, Window
from dashboard.settings.values import matches_any

REPARTITION = "repartition"  # the preset
REPARTITION_SUFFIX = "-repartition"
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
