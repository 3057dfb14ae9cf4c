"""What the repartition doctor says of a topic, from how much it says anything at all, and at which
interval an application purges, by the rhythm of its log starts in kept snapshots.

`repartition.purge.interval.ms` is a client's setting, and no cluster keeps it. Streams purges at
its first commit after that interval (`StreamThread.maybeCommit`, KIP-811), so that two purges of a
partition are never closer than the interval, and further apart by a commit's time at most.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import numpy as np

from dashboard.core.clock import format_time
from dashboard.domain.columns import Flags
from dashboard.policies.doctor.history import History
from dashboard.policies.doctor.pace import Floats, Signs, unlimited

_LEAST_MOVES = 4
# Standing still over so many snapshots shows an interval so much longer than their distance that
# no two purges of the partition can lie between two of them.
_STANDS = 3
# A commit moved between each two snapshots: two commits are no further apart than two distances.
_COMMIT = 2


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How `application` (a group) purges, by the partition that shows most moves (`purges`).

    Two purges are `every_low` to `every_high` apart in the mean; the setting lies between
    `interval_low` and `interval_high`. The lows are None where snapshots are too far apart.
    """

    application: str
    purges: int
    every_low: timedelta | None
    every_high: timedelta
    interval_low: timedelta | None
    interval_high: timedelta

    def to_json(self) -> dict[str, object]:
        """The contract's keys; times in milliseconds."""
        return {
            "application": self.application,
            "purges_at_least": self.purges,
            "every_low_ms": _ms(self.every_low),
            "every_high_ms": _ms(self.every_high),
            "interval_low_ms": _ms(self.interval_low),
            "interval_high_ms": _ms(self.interval_high),
        }


def rhythms(history: History, signs: Signs, ours: Collection[str]) -> dict[str, Rhythm]:
    """By topic, the rhythm of the application that owns it; missing where none shows.

    Topics in `ours`, which runs of ours purged, and those with a retention tell nothing of it: not
    all that moves their log starts is the application's. One setting holds for all its topics.
    """
    hours = np.array(history.hours())
    close = hours <= 2 * np.median(hours)
    moves = (signs.purged & signs.committed & close).sum(axis=1)
    busiest: dict[str, int] = {}  # application -> row
    owned = {topic: owner.group_id for topic, owner in history.owners.by_topic.items()}
    for topic, place in history.topics.items():
        group = owned.get(topic)
        if group is None or topic in ours or not unlimited(history.configs.get(topic, {})):
            continue
        row = place.start + int(np.argmax(moves[place]))
        if group not in busiest or moves[row] > moves[busiest[group]]:
            busiest[group] = row
    seconds = np.array([(at - history.times[0]).total_seconds() for at in history.times])
    found = {
        group: _of_row(group, seconds, signs.purged[row], signs.committed[row] & close)
        for group, row in busiest.items()
    }
    return {
        topic: rhythm for topic, group in owned.items() if (rhythm := found.get(group)) is not None
    }


def _of_row(group: str, seconds: Floats, moved: Flags, busy: Flags) -> Rhythm | None:
    """From the newest stretch of intervals, all with commits, that shows moves enough.

    Where there is none, from all moves: pauses in which nothing was read make them look further
    apart, so they bound the setting from above alone.
    """
    told = [s for s in _stretches(busy) if int(moved[s[0] : s[1]].sum()) >= _LEAST_MOVES]
    first, end = told[-1] if told else (0, len(moved))
    at = np.flatnonzero(moved[first:end]) + first
    if len(at) < _LEAST_MOVES:
        return None
    begins, ends = seconds[at], seconds[at + 1]
    gaps = len(at) - 1
    # The first purge came after its interval began, the last one before its own ended.
    high = timedelta(seconds=float(ends[-1] - begins[0]) / gaps)
    distance = float(np.diff(seconds[first : end + 1]).max())
    if not told or float((begins[1:] - ends[:-1]).max()) < _STANDS * distance:
        return Rhythm(group, len(at), None, high, None, high)
    low = float(begins[-1] - ends[0]) / gaps
    least = max(0.0, low - _COMMIT * distance)
    return Rhythm(group, len(at), timedelta(seconds=low), high, timedelta(seconds=least), high)


def _stretches(busy: Flags) -> list[tuple[int, int]]:
    """Maximal runs of True, as first and end."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], busy, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _ms(length: timedelta | None) -> int | None:
    return None if length is None else round(length / timedelta(milliseconds=1))


NOT_PURGED = "not-purged"
TOO_OFTEN = "purged-too-often"
DEAD = "application-dead"
TWO_PURGERS = "two-purgers"
RETENTION = "retention-instead"
HEALTHY = "healthy"
UNKNOWN = "not-known"
PROBLEMS = (NOT_PURGED, DEAD, TWO_PURGERS, TOO_OFTEN, RETENTION)
KINDS = (*PROBLEMS, UNKNOWN, HEALTHY)


@dataclass(frozen=True, slots=True)
class Rules:
    """From when on something is said; durations are spans between snapshots, counts are of them.

    `least_span` is sixty of Streams' own intervals (30 s), and `least_ratio` purges for a freed
    segment leave room for a purger that is ten times as eager as it need be.
    """

    window: timedelta = timedelta(days=7)
    least_snapshots: int = 4
    least_span: timedelta = timedelta(minutes=30)
    dead_after: timedelta = timedelta(hours=24)
    least_purges: int = 8  # of one partition
    least_ratio: int = 20
    least_foreign: int = 2
    reads_take: timedelta = timedelta(minutes=2)  # from a snapshot's time to its offsets, at most


@dataclass(frozen=True, slots=True)
class Setting:
    """What to change: `where` is `application`, `topic`, `lowwater` or `cluster`.

    `now` and `to` are values as they are written there; None: not known, or nothing to write.
    """

    where: str
    name: str
    now: str | None
    to: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """From which snapshots it is told. `confidence` is `high`, `medium` or `low`.

    `purges_at_least` and `segments_freed` count over partitions; None: not measured. Of the former
    `others_at_least` are those that no run of ours asked for; None: retention moves log starts, or
    may. `seen_at` are the snapshots that show the sign, oldest first.
    """

    confidence: str
    from_at: datetime | None
    to_at: datetime | None
    snapshots: int
    purges_at_least: int | None = None
    segments_freed: int | None = None
    others_at_least: int | None = None
    seen_at: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding of one topic; `kind` is one of KINDS.

    `saves_bytes` count all replicas; `saves_requests_per_hour` are DeleteRecords requests, at
    least. `rhythm` is its application's. None: not known.
    """

    topic: str
    kind: str
    sentence: str
    evidence: Evidence
    setting: Setting | None = None
    saves_bytes: int | None = None
    saves_requests_per_hour: float | None = None
    caution: str | None = None
    rhythm: Rhythm | None = None

    @property
    def problem(self) -> bool:
        return self.kind in PROBLEMS

    def to_json(self) -> dict[str, object]:
        """The contract's keys of one row of `policies doctor`; times as RFC 3339."""
        body = asdict(self)
        for name in ("from_at", "to_at"):
            moment = body["evidence"][name]
            body["evidence"][name] = format_time(moment) if moment else None
        body["evidence"]["seen_at"] = [format_time(at) for at in self.evidence.seen_at]
        body["rhythm"] = self.rhythm.to_json() if self.rhythm else None
        return body
