"""What kept snapshots tell of some partitions, one moment after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.clock import microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.columns import Ints
from dashboard.estimate.curve_tables import integers
from dashboard.history.week.commits import READ, Commits, Sights
from dashboard.history.week.rows import ABSENT, GONE, Memory, Rows
from dashboard.safety.committed_offsets import EPOCH_ENDS
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import replicas_proper

Floats = npt.NDArray[np.float64]
_OFFSETS = ["log_start_offset", "last_stable_offset", "high_watermark", "leader_epoch"]
_LOG_DIRS = ["total_bytes", "usable_bytes"]


@dataclass(frozen=True)
class Moment:
    """One snapshot, a value per row: offsets are ABSENT and sizes NaN where it does not tell.

    `size_bytes` is over all replicas, of which there are `replicas`. `commits` holds what was
    known by then; it goes on with the next moment. `cut`: EPOCH_ENDS, its topics numbered as
    in the rows. `fullest` is the share of the fullest log dir. Of the groups that are to be waived
    while they are gone `waived` were, and `listed` were not.
    """

    snapshot: str
    at: datetime
    groups_complete: bool
    log_start: Ints
    last_stable: Ints
    high_watermark: Ints
    leader_epoch: Ints
    cut: pa.Table
    size_bytes: Floats
    replicas: Ints
    commits: Commits
    fullest: float | None
    waived: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()


def chosen(taken: Mapping[str, datetime], since: datetime, until: datetime, most: int) -> list[str]:
    """At most so many of these ids, the newest of each equal part of the time that they span."""
    told = [(at, name) for name, at in sorted(taken.items()) if since <= at <= until]
    if len(told) <= most:
        return [name for _, name in told]
    first, last = told[0][0], told[-1][0]
    part = (last - first) / most
    return list({min(int((at - first) / part), most - 1): name for at, name in told}.values())


def moments(
    store: ClusterStore,
    snapshots: Sequence[str],
    rows: Rows,
    memory: Memory,
    others: Sequence[str],
    *,
    waive: Collection[str],
    sights: pa.Table | None = None,
) -> Iterator[Moment]:
    """Each of these snapshots, oldest first; one that was pruned meanwhile is left out.

    `memory` and the snapshots `others` tell of groups besides; `waive` are groups to waive while
    they are gone (`purge.evidence.revived.in_force`); `sights`: those of all buckets, where the
    store shows one.
    """
    commits = Commits(rows, sights)
    for step, snapshot in _steps(snapshots, others, rows):
        try:
            if snapshot in others:
                _see(
                    store,
                    store.manifest("snapshots", snapshot),
                    rows,
                    commits,
                    memory=memory,
                    step=step,
                )
            else:
                yield _moment(store, snapshot, rows, commits, memory, waive=waive, step=step)
        except StoreError as error:
            if error.code not in GONE:
                raise


def sights(
    store: ClusterStore,
    snapshots: Sequence[str],
    rows: Rows,
    memory: Memory,
    others: Sequence[str],
) -> pa.Table:
    """SIGHTS of these rows over the same steps."""
    commits, found = Commits(rows), Sights()
    for step, snapshot in _steps(snapshots, others, rows):
        try:
            manifest = store.manifest("snapshots", snapshot)
            _see(store, manifest, rows, commits, memory=memory, step=step)
            found.add(commits, step, microseconds(manifest.taken_at))
        except StoreError as error:
            if error.code not in GONE:
                raise
    return found.table(commits.group_ids())


def _steps(
    snapshots: Sequence[str], others: Sequence[str], rows: Rows
) -> Iterator[tuple[int, str]]:
    """Numbered alike whichever of them can be read."""
    every = enumerate(sorted({*snapshots, *others}))
    return ((step, snapshot) for step, snapshot in every if snapshot in rows.topic_of)


def _moment(
    store: ClusterStore,
    snapshot: str,
    rows: Rows,
    commits: Commits,
    memory: Memory,
    *,
    waive: Collection[str],
    step: int,
) -> Moment:
    topic_of, own = rows.topic_of[snapshot], rows.lines(snapshot)

    def read(table: str, columns: list[str]) -> pa.Table:
        return store.read("snapshots", snapshot, table, columns, only=own)

    manifest = store.manifest("snapshots", snapshot)
    log_start, last_stable, high_watermark, leader_epoch = _offsets(
        read("partitions", ["topic_no", "partition", *_OFFSETS]), rows, topic_of
    )
    copies = read("replicas", ["topic_no", "partition", "size_bytes", "is_future", "error"])
    size_bytes, replicas = _sizes(copies.filter(replicas_proper(copies)), rows, topic_of)
    fullest = _fullest(store.read("snapshots", snapshot, "log_dirs", _LOG_DIRS))
    cut = _see(store, manifest, rows, commits, memory=memory, step=step)
    complete = not manifest.details.get("groups_incomplete")
    listed = frozenset(waive).intersection(
        store.read("snapshots", snapshot, "groups", ["group_id"])["group_id"].to_pylist()
        if waive and complete
        else ()
    )
    return Moment(
        snapshot=snapshot,
        at=manifest.taken_at,
        groups_complete=complete,
        log_start=log_start,
        last_stable=last_stable,
        high_watermark=high_watermark,
        leader_epoch=leader_epoch,
        cut=cut,
        size_bytes=size_bytes,
        replicas=replicas,
        commits=commits,
        fullest=fullest,
        waived=frozenset(waive) - listed if complete else frozenset(),
        listed=listed,
    )


def _see(
    store: ClusterStore,
    snapshot: Manifest,
    rows: Rows,
    commits: Commits,
    *,
    memory: Memory,
    step: int,
) -> pa.Table:
    """Take in what groups had committed by then; the snapshot's EPOCH_ENDS, numbered as rows."""
    topic_of, own = rows.topic_of[snapshot.id], rows.lines(snapshot.id)
    cut = store.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names, only=own)
    offsets = store.read("snapshots", snapshot.id, "group_offsets", READ, only=own)
    before = memory.until(snapshot.taken_at)
    if before.num_rows:
        commits.remember(before)
    cut = rows.cut(cut, topic_of)
    commits.see(offsets, topic_of, cut, (step, microseconds(snapshot.taken_at)))
    return cut


def _offsets(table: pa.Table, rows: Rows, topic_of: Ints) -> list[Ints]:
    row = rows.find(table, topic_of)
    own = row >= 0
    found = []
    for name in _OFFSETS:
        values = np.full(len(rows), ABSENT, dtype=np.int64)
        values[row[own]] = integers(table[name], ABSENT)[own]
        found.append(values)
    return found


def _sizes(table: pa.Table, rows: Rows, topic_of: Ints) -> tuple[Floats, Ints]:
    """Bytes over all replicas and how many there are; one of unknown size counts as the others."""
    row = rows.find(table, topic_of)
    size = integers(table["size_bytes"], ABSENT)
    replicas = np.bincount(row[row >= 0], minlength=len(rows))
    told = (row >= 0) & (size >= 0)
    known = np.bincount(row[told], minlength=len(rows))
    total = np.bincount(row[told], weights=size[told], minlength=len(rows))
    mean = np.divide(total, known, out=np.full(len(rows), np.nan), where=known > 0)
    return mean * replicas, replicas


def _fullest(log_dirs: pa.Table) -> float | None:
    known = log_dirs.filter(pc.greater(log_dirs["total_bytes"], 0)).drop_null()
    if not known.num_rows:
        return None
    total, usable = (known[name].to_numpy() for name in _LOG_DIRS)
    return float(np.max(1 - usable / total))


def earlier(
    store: ClusterStore, snapshots: Sequence[str], rows: Rows
) -> Iterator[tuple[datetime, Ints, Ints]]:
    """When each snapshot was taken, every high watermark in it (records below are older), and the
    leader epochs in it.
    """
    for snapshot in snapshots:
        if snapshot not in rows.topic_of:
            continue
        columns = ["topic_no", "partition", *_OFFSETS]
        try:
            own = rows.lines(snapshot)
            table = store.read("snapshots", snapshot, "partitions", columns, only=own)
            taken_at = store.manifest("snapshots", snapshot).taken_at
        except StoreError as error:
            if error.code not in GONE:
                raise
            continue
        _, _, high_watermark, leader_epoch = _offsets(table, rows, rows.topic_of[snapshot])
        yield taken_at, high_watermark, leader_epoch
