"""Per replica: bytes of log below an offset, by the surest estimator at hand.

Each snapshot's replicas go on from the curves of the snapshot before, so the newest analysis'
`curves` are all that is needed of the past; folding every kept snapshot again gives the same.
All replicas of a bucket at once: a step costs no more than reading the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa

from analytics.replicas import cuts, history, rolls, segments
from analytics.replicas.points import Points, matched, measured, told, with_records
from dashboard.core.clock import microseconds
from dashboard.core.errors import StoreError
from dashboard.estimate.curve_tables import ReplicaCurves, from_table, read
from dashboard.estimate.curves import NO_EPOCH, Curves, Ints
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

_NOTHING = FINDING_TABLES["curves"].schema.empty_table()
_NO_END = np.iinfo(np.int64).max


def fold(
    cluster: ClusterStore,
    snapshot: Manifest,
    base: Manifest | None,
    replicas: pa.Table,
    topics: pa.Table,
    *,
    each: Callable[[Manifest, pa.Table, history.Step], None] | None = None,
) -> ReplicaCurves:
    """The curves of `replicas`, the snapshot's `points.told`, those with a size and records.

    Goes on from the curves of `base`, an earlier analysis, over every snapshot since then: an
    inventory's segments where the snapshot has them and they fit, else history, else
    proportional (two knots: the log start and the log end). `topics`: topic, segment_bytes,
    segment_ms; they hold for every snapshot.
    `each` is called with every snapshot on the way, what it told, and the step that it was.
    """
    found = read(cluster, base.id) if base else from_table(_NOTHING)
    known_to = str(base.details["snapshot_id"]) if base else ""
    new = [i for i in cluster.ids("snapshots") if known_to < i < snapshot.id]
    at = known_to
    for between in [*new, snapshot.id]:
        try:
            rows = told(cluster, between) if between != snapshot.id else replicas
            manifest = cluster.manifest("snapshots", between)
            points = _with_records(rows, manifest)
            by = rolls.rolls(points.places, topics, rolls.took_ms(at, between))
            told_ends = cuts.ends_told(cluster, manifest, at)
            grown, step = history.extended(found, points, by, _looks(at, manifest), told_ends)
            inventory = cluster.read("snapshots", between, "segments", segments.COLUMNS)
            after = ReplicaCurves(points.places, with_segments(inventory, found, grown, points))
            if each is not None:
                each(manifest, rows, step)
        except StoreError as error:
            if between == snapshot.id or error.code != "SNAPSHOT_NOT_FOUND":
                raise
            continue  # pruned meanwhile: one step less
        at, found = between, after
    return found.with_segment_bytes(by.segment_bytes)


def _with_records(rows: pa.Table, snapshot: Manifest) -> Points:
    points = with_records(measured(rows))
    if cuts.tells_epochs(snapshot):
        return points
    return replace(points, leader_epoch=np.full_like(points.leader_epoch, NO_EPOCH))


def _looks(before: str, now: Manifest) -> history.Looks:
    """Ids are times, and rise though a clock steps back; the snapshot before may be pruned."""
    began, own = time_of(before), time_of(now.id)
    read = max(now.taken_at, own or now.taken_at) + timedelta(seconds=now.seconds)
    return history.Looks(microseconds(began) if began else 0, microseconds(read))


def with_segments(
    inventory: pa.Table, before: ReplicaCurves, grown: Curves, points: Points
) -> Curves:
    """`grown`, the curves of `points` that went on from those `before`; of replicas that an
    inventory (`segments.COLUMNS`) fits its own.
    """
    if not inventory.num_rows or not points.places.num_rows:
        return grown
    row = matched(points.places, before.places)
    ends = np.append(before.curves.offset[before.curves.last], _NO_END)[row]
    replica, exact = segments.drawn(inventory, points, grown.since, ends)
    return _instead(grown, replica, exact)


def _instead(curves: Curves, replica: Ints, better: Curves) -> Curves:
    """`curves`, but those of the named replicas are the ones in `better`.

    What surely lies above a knot is what either of them tells.
    """
    whose = np.repeat(replica, better.last - better.first + 1)
    surely = np.maximum(better.surely, curves.of(whose).at_least(better.offset))
    start = curves.first.copy()
    length = curves.last - curves.first + 1
    start[replica] = len(curves.offset) + better.first
    length[replica] = better.last - better.first + 1
    first = np.cumsum(length) - length
    total = int(length.sum())
    at = np.repeat(start - first, length) + np.arange(total)
    return replace(
        curves,
        first=first.astype(np.int64),
        offset=np.concatenate([curves.offset, better.offset])[at],
        below=np.concatenate([curves.below, better.below])[at],
        base=np.concatenate([curves.base, better.base])[at],
        method=np.concatenate([curves.method, better.method])[at],
        above=np.concatenate([curves.surely, surely])[at],
    )
