"""The groups of a snapshot and their offsets, in the shape that `dashboard.safety` judges."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from analytics.readers import met as met_of
from dashboard.core.arrow import column, looked_up, places
from dashboard.domain.model import is_telling
from dashboard.history.met_readers import Met
from dashboard.safety.readers import GROUPS, Readers, readers
from dashboard.safety.readers import without_offset as placeless
from dashboard.safety.standing import COMMITS
from dashboard.store.clocks import seen_at
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

_OFFSETS = ["topic_no", "partition", "group_id", "committed_offset", "error"]


def who_reads(
    groups: pa.Table,
    topics: pa.Table,
    *,
    offsets: pa.Table,
    streams: Collection[str],
    held: pa.Table,
    met: Met,
    unread: Collection[str],
    complete: bool,
    now: datetime,
    deleted: Collection[str],
    by_name: Collection[str],
) -> Readers:
    """Who may read which topic, by the snapshot's `groups` and their offsets.

    `offsets`: topic_no and group_id of `of_telling`; `streams` are groups that were Kafka Streams
    applications, `held` (topic, group_id) where offsets are held, `met` as `met_readers` has them;
    `unread` are groups of which some offset could not be read; `complete`: all were listed, and
    their offsets told; `now`: when the snapshot saw its own, as `held` has it; `deleted`: groups
    that somebody deleted lately; `by_name`: those that settings say subscribe to no pattern.
    """
    ids = (column(groups, name).to_pylist() for name in ("group_id", "members"))
    seen = held["offset_seen_at"]
    live = held.filter(pc.fill_null(pc.greater_equal(seen, pa.scalar(now, seen.type)), False))
    held = held.filter(met_of.on(held, met_of.there(topics)))
    number = looked_up(column(held, "topic"), column(topics, "topic"), column(topics, "topic_no"))
    commits = pa.table({"topic_no": number, "group_id": held["group_id"]})
    return readers(
        groups.select(GROUPS.names),
        offsets,
        topics,
        streams=streams,
        commits=commits,
        met=met,
        unread=unread,
        deleted=deleted,
        by_name=by_name,
        unplaced=placeless(zip(*ids, strict=True), live["group_id"].to_pylist())
        if complete
        else (),
    )


@dataclass(frozen=True)
class Telling:
    """Groups whose offsets tell what they may read: share groups, Kafka Streams applications, and
    those whose members are unknown; and which of them are share groups.
    """

    names: pa.Array
    share: pa.Array


def telling(groups: pa.Table) -> Telling:
    """Those among the snapshot's groups."""
    facts = groups.select(["type", "state", "members", "is_streams"]).to_pylist()
    tells = [is_telling(g["type"], g["state"], g["members"], bool(g["is_streams"])) for g in facts]
    names = column(groups, "group_id")
    share = names.filter(pc.fill_null(pc.equal(column(groups, "type"), "share"), False))
    return Telling(names.filter(pa.array(tells, pa.bool_())), share)


def of_telling(cluster: ClusterStore, snapshot: Manifest, groups: Telling) -> pa.Table:
    """topic_no and group_id, once each, where such groups have offsets: start offsets of share
    groups also where they have not begun. The long table is read only where there is a group.
    """
    if not len(groups.names):
        return _NO_OFFSETS.empty_table()
    rows = cluster.read("snapshots", snapshot.id, "group_offsets", _OFFSETS)
    begins = pc.is_in(rows["group_id"], value_set=groups.share)
    there = pc.or_(begins, rows["committed_offset"].is_valid())
    rows = rows.filter(pc.and_(there, pc.is_in(rows["group_id"], value_set=groups.names)))
    return rows.group_by(_NO_OFFSETS.names).aggregate([])


_NO_OFFSETS = pa.schema([("topic_no", pa.int32()), ("group_id", pa.string())])


def commits(holds: pa.Table, topics: pa.Table, snapshot: Manifest) -> pa.Table:
    """COMMITS of the `holds` on these topics; what the snapshot did not show is remembered."""
    number = looked_up(column(holds, "topic"), column(topics, "topic"), column(topics, "topic_no"))
    now = pa.scalar(seen_at(snapshot), holds.schema.field("last_seen_at").type)
    found = {
        "topic_no": number,
        "partition": holds["partition"],
        "group_id": holds["group_id"],
        "topic_id": holds["topic_id"],
        "committed_offset": holds["committed_offset"],
        "remembered": pc.fill_null(pc.less(holds["last_seen_at"], now), True),
        "leader_epoch": holds["leader_epoch"],
        "epoch_end": holds["epoch_end"],
        "seen_at": holds["last_seen_at"].cast(pa.int64()),
    }
    return pa.table([found[n] for n in COMMITS.names], schema=COMMITS).filter(number.is_valid())


def unread(cluster: ClusterStore, snapshot: Manifest) -> pa.Table:
    """group_id, once each, of groups of which some offset could not be read."""
    rows = cluster.read("snapshots", snapshot.id, "group_offsets", ["error"])
    if rows["error"].null_count == len(rows):
        return _NO_GROUPS.empty_table()
    rows = cluster.read("snapshots", snapshot.id, "group_offsets", ["group_id", "error"])
    return rows.filter(rows["error"].is_valid()).group_by("group_id").aggregate([])


_NO_GROUPS = pa.schema([("group_id", pa.string())])


def offset_errors(
    cluster: ClusterStore, snapshot: Manifest, errors: pa.ChunkedArray, partitions: pa.Table
) -> pa.Table | None:
    """row, why: partitions where some group's offset could not be read; None: all were.

    `errors` are those of the snapshot's group_offsets.
    """
    if errors.null_count == len(errors):
        return None
    rows = cluster.read("snapshots", snapshot.id, "group_offsets", _OFFSETS)
    rows = rows.filter(rows["error"].is_valid())
    where = places(column(partitions, "topic_no"), column(partitions, "partition"))
    at = pc.index_in(places(column(rows, "topic_no"), column(rows, "partition")), value_set=where)
    why = pc.binary_join_element_wise("group ", rows["group_id"], ": ", rows["error"], "")
    return pa.table({"row": at.cast(pa.int64()), "why": why}).filter(at.is_valid())
