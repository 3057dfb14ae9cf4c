"""At which interval an application purges, by the rhythm of its log starts in kept snapshots.

`repartition.purge.interval.ms` is a client's setting, and no cluster keeps it. Streams purges at
its first commit after that interval (`StreamThread.maybeCommit`, KIP-811), so that two purges of a
partition are never closer than the interval, and further apart by a commit's time at most.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

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
