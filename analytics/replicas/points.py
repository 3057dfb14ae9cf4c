"""Where each replica's log began and ended in a snapshot, and how large it was; and what befalls a
log between snapshots beside growing: which may have lost records that their curves count, as leader
epochs end; and when segments roll, as they are full or `segment.ms` after their first record.

A log loses its end where it comes to follow another leader, or its broker starts again, and neither
happens without a new leader epoch (KIP-101). One that has grown past its old end since looks whole.

How much is written in `segment.ms` tells how large segments are that roll by time
(LogSegment.shouldRoll). It is carried with the curves from snapshot to snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, in_order, looked_up, places
from dashboard.domain.model import DEFAULT_SEGMENT_BYTES
from dashboard.estimate.curve_tables import PLACE, integers
from dashboard.estimate.curves import NO_EPOCH, UNKNOWN, Curves, Flags, Ints
from dashboard.history.epoch_ends import ASKED_OF
from dashboard.safety import committed_offsets
from dashboard.safety.committed_offsets import EPOCH_ENDS
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import replicas_proper

_KEPT = [
    "topic_no", "partition", "broker_id", "log_dir", "size_bytes", "log_start_offset",
    "log_end_offset", "observed_at", "is_leader", "in_sync",
]  # fmt: skip


@dataclass(frozen=True)
class Offsets:
    """Log start, log end and bytes of replicas, one each."""

    start: Ints
    end: Ints
    size: Ints


@dataclass(frozen=True)
class Points(Offsets):
    """Replicas with records, and whose they are: `places` (PLACE and topic_id, sorted).

    `ends_told`: where the replica itself told its log end. `delete_only`: where its topic was not
    compacted by the snapshot's own settings; false too where those were not told. `topic_no`: of
    the snapshot. `leader_epoch`: read before all else (NO_EPOCH: not told).
    """

    places: pa.Table
    ends_told: Flags
    delete_only: Flags
    topic_no: Ints
    leader_epoch: Ints

    def offsets(self, some: slice) -> Offsets:
        """Those of some replicas."""
        return Offsets(self.start[some], self.end[some], self.size[some])


def told(cluster: ClusterStore, snapshot_id: str) -> pa.Table:
    """What a snapshot tells of each replica: _KEPT, topic, topic_id, delete_only (false too where
    its settings were not told), its partition's leader_epoch, start and end, by PLACE.

    start and end are the replica's own where it told them, else the leader's; null where neither is
    known. Left out are future copies, and what a broker lists of a partition that is not assigned
    to it: no leader waits for that, and no purge reaches it.
    """
    rows = cluster.read("snapshots", snapshot_id, "replicas", [*_KEPT, "is_future", "error"])
    # Those of partitions that the metadata does not tell of may be hidden from us, and grow.
    hidden = pc.and_(pc.invert(pc.fill_null(rows["is_future"], False)), rows["is_leader"].is_null())
    rows = rows.filter(pc.or_(replicas_proper(rows), hidden))
    topics = cluster.read("snapshots", snapshot_id, "topics", ["topic_no", "topic", "topic_id"])
    leaders = cluster.read("snapshots", snapshot_id, "partitions", _LEADERS)
    where = places(column(rows, "topic_no"), column(rows, "partition"))
    there = places(column(leaders, "topic_no"), column(leaders, "partition"))
    leader = pc.index_in(where, value_set=there)
    found = named(rows.select(_KEPT), topics)
    never_compacted = pc.is_in(column(found, "topic"), value_set=_delete_only(cluster, snapshot_id))
    found = found.append_column("delete_only", never_compacted)
    found = found.append_column("leader_epoch", column(leaders, "leader_epoch").take(leader))
    for name, own, by_leader in (
        ("start", "log_start_offset", "log_start_offset"),
        ("end", "log_end_offset", "high_watermark"),
    ):
        told_by_leader = column(leaders, by_leader).take(leader)
        found = found.append_column(name, pc.coalesce(column(rows, own), told_by_leader))
    return in_order(found.filter(found["topic"].is_valid()), PLACE)


def named(rows: pa.Table, topics: pa.Table) -> pa.Table:
    """`rows` with the topic and topic_id of their topic_no, null where `topics` has none."""
    row = pc.index_in(column(rows, "topic_no"), value_set=column(topics, "topic_no"))
    for name in ("topic", "topic_id"):
        rows = rows.append_column(name, column(topics, name).take(row))
    return rows


def _delete_only(cluster: ClusterStore, snapshot_id: str) -> pa.Array:
    """Topics whose cleanup policy was told, and has no compaction in it."""
    columns = ["scope", "name", "key", "value"]
    policy = (pc.field("scope") == "topic") & (pc.field("key") == "cleanup.policy")
    rows = cluster.read(
        "snapshots", snapshot_id, "configs", columns, only=policy & (pc.field("value") == "delete")
    )
    return column(rows, "name")


def measured(replicas: pa.Table) -> pa.Table:
    """Those of `told` whose size was told."""
    return replicas.filter(replicas["size_bytes"].is_valid())


_LEADERS = ["topic_no", "partition", "leader_epoch", "log_start_offset", "high_watermark"]


def with_records(replicas: pa.Table) -> Points:
    """Those of `measured` whose log holds offsets: the others have no curve."""
    rows = replicas.filter(pc.greater(replicas["end"], replicas["start"]))
    start, end, size = (integers(rows[name], 0) for name in ("start", "end", "size_bytes"))
    told_by_itself, delete_only = (
        np.asarray(flags.to_numpy(), dtype=np.bool_)
        for flags in (rows["log_end_offset"].is_valid(), rows["delete_only"])
    )
    whose = rows.select([*PLACE, "topic_id"])
    topic_no, epoch = integers(rows["topic_no"], 0), integers(rows["leader_epoch"], NO_EPOCH)
    return Points(start, end, size, whose, told_by_itself, delete_only, topic_no, epoch)


def matched(of: pa.Table, among: pa.Table, by: Sequence[str] = PLACE) -> Ints:
    """For each row of `of` the one of `among`, which differ in it, that is equal in `by`; -1: there
    is none. Mostly both are the same rows, and to compare them is quicker than to look them up.
    """
    if of.num_rows == among.num_rows and all(of[name].equals(among[name]) for name in by):
        return np.arange(of.num_rows)
    return first_matched(of, among, by)


def first_matched(of: pa.Table, among: pa.Table, by: Sequence[str]) -> Ints:
    """The same where several of `among` may be equal: the first one of them."""
    domains = {name: pc.unique(column(among, name)) for name in by if name != "partition"}
    keys = pa.array(_keys(among, by, domains))
    found = pc.index_in(pa.array(_keys(of, by, domains)), value_set=keys)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _keys(table: pa.Table, by: Sequence[str], domains: dict[str, pa.Array]) -> Ints:
    """One integer per row; rows with a value that is in no domain share -1."""
    key = np.zeros(table.num_rows, dtype=np.int64)
    unknown = np.zeros(table.num_rows, dtype=bool)
    for name in by:
        if name == "partition":
            key = (key << 20) | integers(table[name], 0)  # Kafka's own limit is far below a million
        else:
            code = pc.index_in(column(table, name), value_set=domains[name])
            unknown |= code.is_null().to_numpy(zero_copy_only=False)
            codes = np.asarray(pc.fill_null(code, 0).to_numpy(zero_copy_only=False))
            key = key * max(1, len(domains[name])) + codes
    return np.where(unknown, -1, key)


_NEVER_CUT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Cuts:
    """Of replicas: where another leader epoch leads than when their curves were drawn; of those,
    which lost what the curves count, and where nobody could tell.
    """

    changed: Flags
    lost: Flags
    untold: Flags


def ends_told(cluster: ClusterStore, snapshot: Manifest, since: str) -> pa.Table | None:
    """EPOCH_ENDS of a snapshot that asked where the epochs of its predecessors end by now, up to
    `since`; None: it did not. What one between the two found lost is in it, too.
    """
    asked_of = snapshot.details.get(ASKED_OF)
    if asked_of is None or str(asked_of) < since:
        return None
    return cluster.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names)


def tells_epochs(snapshot: Manifest) -> bool:
    """Whether all that it counted in bytes lies below the log ends that the next one asks about."""
    return ASKED_OF in snapshot.details


def cuts(curves: Curves, row: Ints, points: Points, told: pa.Table | None) -> Cuts:
    """What became of the logs of `curves` in a snapshot: `row` is the curve of each of its points
    (-1: none), `told` its `ends_told`.
    """
    own = np.maximum(row, 0)
    epoch = np.append(curves.epoch, NO_EPOCH)[own]
    known = (epoch != NO_EPOCH) & (points.leader_epoch != NO_EPOCH)
    changed = (row >= 0) & ((epoch != points.leader_epoch) | ~known)
    lost, untold = np.zeros_like(changed), changed.copy()
    at = np.flatnonzero(changed & known)
    if told is not None and len(at):
        partition = integers(points.places["partition"], 0)
        place = pa.array(points.topic_no[at]), pa.array(partition[at]), pa.array(epoch[at])
        ends = pc.fill_null(committed_offsets.ends(*place, told), _NEVER_CUT).to_numpy()
        lost[at] = ends < curves.offset[curves.last][own[at]]
        untold[at] = committed_offsets.unasked(*place, told).to_numpy(zero_copy_only=False)
    return Cuts(changed, lost, untold)


@dataclass(frozen=True)
class Rolls:
    """Each replica's segment.bytes and segment.ms (UNKNOWN: not known), and the time since the
    snapshot before; None where that is not known.
    """

    segment_bytes: Ints
    segment_ms: Ints
    took_ms: int | None


def default(count: int) -> Rolls:
    """Segments of the default size for so many replicas, of which no time is known."""
    size = np.full(count, DEFAULT_SEGMENT_BYTES, dtype=np.int64)
    return Rolls(size, np.full_like(size, UNKNOWN), None)


def rolls(places: pa.Table, topics: pa.Table, took_ms: int | None) -> Rolls:
    """Those of `places`' replicas by the topics' settings: topic, segment_bytes, segment_ms."""
    names, known = column(places, "topic"), column(topics, "topic")

    def of(name: str, missing: int) -> Ints:
        found = looked_up(names, known, column(topics, name))
        return integers(pa.chunked_array([found]), missing)

    return Rolls(of("segment_bytes", DEFAULT_SEGMENT_BYTES), of("segment_ms", UNKNOWN), took_ms)


def took_ms(earlier: str, later: str) -> int | None:
    """Milliseconds between two snapshots; None without an earlier one, or where clocks went back.

    Ids are times: the earlier snapshot itself may be pruned.
    """
    began, ended = time_of(earlier), time_of(later)
    if began is None or ended is None or began >= ended:
        return None
    return (ended - began) // timedelta(milliseconds=1)


def rolled(was: Ints, growth: Ints, size: Ints, by: Rolls) -> Ints:
    """Bytes written in `segment.ms`: the mean over the bytes of each log; UNKNOWN until it grew.

    `was` is the mean before, `growth` what came since then, `size` the log's bytes now.
    """
    if by.took_ms is None:
        return was
    grew = (growth > 0) & (by.segment_ms < UNKNOWN)
    now = np.clip(growth / by.took_ms * by.segment_ms, 1, 1 << 62)
    new = was == UNKNOWN
    weight = np.where(new, 1.0, np.minimum(growth / np.maximum(size, 1), 1.0))
    mean = np.rint(np.where(new, 0, was) * (1 - weight) + now * weight)
    return np.where(grew, mean.astype(np.int64), was)
