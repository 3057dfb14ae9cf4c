"""What kept snapshots tell of repartition topics: a grid of partitions by snapshots.

Of each table only the columns that are needed are read, and only `*-repartition` topics kept; the
rest is array arithmetic. In every grid -1 stands for "not known".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.columns import Ints
from dashboard.estimate.curve_tables import integers
from dashboard.policies.doctor.owners import Owners, read_owners
from dashboard.policies.simulate import past_rows
from dashboard.policies.simulate.past_rows import ABSENT, Rows
from dashboard.settings.policies.policy import REPARTITION_SUFFIX
from dashboard.store.clocks import clock_was_right, times
from dashboard.store.snapshots import ClusterStore

MOST_SNAPSHOTS = 48
_NEWEST = MOST_SNAPSHOTS // 2  # the others are spread over the time before
_OFFSETS = ["topic_no", "partition", "leader_id", "log_start_offset", "high_watermark"]
_SIZES = ["topic_no", "partition", "size_bytes", "is_leader", "is_future"]
_COMMITS = ["group_id", "topic_no", "partition", "committed_offset"]
_GONE = ("SNAPSHOT_NOT_FOUND", "STORE_UNREADABLE")


@dataclass(frozen=True, slots=True)
class History:
    """Rows are partitions, one topic's side by side; columns are snapshots, oldest first.

    `topics` are those that the newest snapshot has, with the rows of each. `leader_bytes` is the
    leader's log, `total_bytes` all replicas together as the newest snapshot has them (-1: one of
    them is not known), `committed` what the topic's owner committed. `left_out` are snapshots that
    could not be read.
    """

    times: tuple[datetime, ...]
    topics: Mapping[str, slice]
    partition: Ints
    leader: Ints
    log_start: Ints
    log_end: Ints
    leader_bytes: Ints
    total_bytes: Ints
    committed: Ints
    owners: Owners
    configs: Mapping[str, Mapping[str, str | None]]
    left_out: tuple[str, ...]

    @property
    def span(self) -> timedelta:
        return self.times[-1] - self.times[0]

    def hours(self) -> list[float]:
        """The length of each interval between two snapshots."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return [(later - earlier).total_seconds() / 3600 for earlier, later in pairs]


def chosen(taken: Mapping[str, datetime], now: datetime, window: timedelta) -> list[str]:
    """At most 48 of the snapshots of the window: the newest 24, the others evenly spread."""
    inside = [name for name, at in sorted(taken.items()) if now - at <= window]
    if len(inside) <= MOST_SNAPSHOTS:
        return inside
    older, newest = inside[:-_NEWEST], inside[-_NEWEST:]
    places = np.linspace(0, len(older) - 1, MOST_SNAPSHOTS - _NEWEST).round().astype(int)
    return [older[at] for at in places.tolist()] + newest


def read_history(
    store: ClusterStore, now: datetime, window: timedelta, remembered: Collection[str] = ()
) -> History | None:
    """The history of today's repartition topics; None where there is no snapshot or no such topic.

    `remembered` are groups that an analysis knows, though no snapshot may. A snapshot that is
    damaged, or was pruned meanwhile, is left out and named, and one whose clock was wrong: by it an
    application that stopped a minute ago has been gone for a day.
    """
    ids = chosen(times(store, store.ids("snapshots"), now), now, window)
    rows = past_rows.rows(store, ids, lambda topic: topic.endswith(REPARTITION_SUFFIX))
    parts: dict[str, _Part] = {}
    for snapshot in rows.topic_of:
        try:
            if clock_was_right(store.manifest("snapshots", snapshot)):
                parts[snapshot] = _Part.read(store, snapshot, rows)
        except StoreError as error:
            if error.code not in _GONE:
                raise
    left_out = tuple(snapshot for snapshot in ids if snapshot not in parts)
    kept = [snapshot for snapshot in ids if snapshot in parts]
    topics = _topics(rows, kept[-1]) if kept else {}
    if not topics:
        return None
    seen = [parts[snapshot] for snapshot in kept]
    owners, committed = read_owners(
        store,
        kept[-1],
        topics,
        [part.commits for part in seen],
        rows=len(rows),
        remembered=remembered,
    )
    return History(
        times=tuple(part.taken_at for part in seen),
        topics=topics,
        partition=rows.partition,
        leader=_grid([part.leader for part in seen]),
        log_start=_grid([part.log_start for part in seen]),
        log_end=_grid([part.log_end for part in seen]),
        leader_bytes=_grid([part.leader_bytes for part in seen]),
        total_bytes=seen[-1].total_bytes,
        committed=committed,
        owners=owners,
        configs=_configs(store, kept[-1], topics),
        left_out=left_out,
    )


def _grid(columns: Sequence[Ints]) -> Ints:
    return np.stack(columns, axis=1)


def _topics(rows: Rows, newest: str) -> dict[str, slice]:
    """The rows of each topic that the newest snapshot has, by name."""
    there = rows.topic_of[newest]
    numbers = np.unique(there[there >= 0])
    first = np.searchsorted(rows.topic, numbers).tolist()
    end = np.searchsorted(rows.topic, numbers, side="right").tolist()
    named = zip((rows.names[n][0] for n in numbers.tolist()), first, end, strict=True)
    return {name: slice(first, end) for name, first, end in sorted(named) if end > first}


@dataclass(frozen=True, slots=True)
class _Part:
    """One snapshot: a value per row, and its commits as (group, row, offset)."""

    taken_at: datetime
    leader: Ints
    log_start: Ints
    log_end: Ints
    leader_bytes: Ints
    total_bytes: Ints
    commits: tuple[pa.Array, Ints, Ints]

    @staticmethod
    def read(store: ClusterStore, snapshot: str, rows: Rows) -> _Part:
        def ours(name: str, columns: list[str]) -> tuple[pa.Table, Ints]:
            table = store.read("snapshots", snapshot, name, columns, only=rows.lines(snapshot))
            row = rows.find(table, rows.topic_of[snapshot])
            kept = np.flatnonzero(row != ABSENT)
            return table.take(pa.array(kept)), row[kept]

        count = len(rows)
        offsets, at = ours("partitions", _OFFSETS)
        leader, start, end = (_spread(offsets[name], at, count) for name in _OFFSETS[2:])
        own, total = _bytes(*ours("replicas", _SIZES), count)
        commits, at = ours("group_offsets", _COMMITS)
        groups = pa.array(commits["group_id"].combine_chunks(), pa.string())
        return _Part(
            store.manifest("snapshots", snapshot).taken_at,
            *(leader, start, end, own, total),
            commits=(groups, at, integers(commits["committed_offset"], ABSENT)),
        )


def _spread(column: pa.ChunkedArray, at: Ints, count: int) -> Ints:
    found = np.full(count, ABSENT, dtype=np.int64)
    found[at] = integers(column, ABSENT)
    return found


def _bytes(replicas: pa.Table, at: Ints, count: int) -> tuple[Ints, Ints]:
    """The leader's bytes, and those of all replicas: unknown where one of them is."""
    size = integers(replicas["size_bytes"], ABSENT)
    future, leads = (
        pc.fill_null(replicas[name], False).to_numpy() for name in ("is_future", "is_leader")
    )
    own = np.full(count, ABSENT, dtype=np.int64)
    own[at[leads & ~future]] = size[leads & ~future]
    total = np.full(count, 0, dtype=np.int64)
    np.add.at(total, at, size)
    lacking = np.bincount(at, weights=size < 0, minlength=count) > 0
    seen = np.bincount(at, minlength=count) > 0
    return own, np.where(lacking | ~seen, ABSENT, total)


def _configs(
    store: ClusterStore, snapshot: str, topics: Mapping[str, slice]
) -> dict[str, dict[str, str | None]]:
    """Topic -> key -> value, of the topics whose settings could be read."""
    own = (
        (pc.field("scope") == "topic")
        & pc.field("key").isin(pa.array(_KEYS))
        & pc.field("name").isin(pa.array(list(topics), pa.string()))
    )
    table = store.read(
        "snapshots", snapshot, "configs", ["scope", "name", "key", "value"], only=own
    )
    found: dict[str, dict[str, str | None]] = {}
    columns = (table[name].to_pylist() for name in ("name", "key", "value"))
    for name, key, value in zip(*columns, strict=True):
        found.setdefault(name, {})[key] = value
    return found


_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms")
