"""Where each replica's log began and ended in a snapshot, and how large it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, in_order, places
from dashboard.estimate.curve_tables import PLACE, integers
from dashboard.estimate.curves import NO_EPOCH, Flags, Ints
from dashboard.store.snapshots import ClusterStore

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
    known. Future copies are left out.
    """
    rows = cluster.read("snapshots", snapshot_id, "replicas", [*_KEPT, "is_future"])
    rows = rows.filter(pc.invert(pc.fill_null(rows["is_future"], False)))
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
