"""The groups of a snapshot and their offsets, in the shape that `dashboard.safety` judges; and what
an analysis remembers of groups beside their offsets, judges by and hands on: that they were met
without an offset of theirs, and since when topics are absent on which they are remembered.

A topic may only be hidden from us for a while: an ACL is taken away and given back, somebody
collects with fewer rights. What its groups had read stays known until it has been missing for as
long as snapshots are kept, by the settings and by clocks that were right: how many of them are
there tells nothing, after a quarter without `watch` say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, looked_up, places
from dashboard.core.clock import format_time, parse_time
from dashboard.domain.model import is_telling
from dashboard.history.past_groups import Met, known, told, without_told
from dashboard.safety.committed_offsets import COMMITS
from dashboard.safety.readers import GROUPS, Readers, readers
from dashboard.safety.readers import without_offset as placeless
from dashboard.store.clocks import clock_was_right, seen_at
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
    applications, `held` (topic, group_id) where offsets are held, `met` as `past_groups` has them;
    `unread` are groups of which some offset could not be read; `complete`: all were listed, and
    their offsets told; `now`: when the snapshot saw its own, as `held` has it; `deleted`: groups
    that somebody deleted lately; `by_name`: those that settings say subscribe to no pattern.
    """
    ids = (column(groups, name).to_pylist() for name in ("group_id", "members"))
    seen = held["offset_seen_at"]
    live = held.filter(pc.fill_null(pc.greater_equal(seen, pa.scalar(now, seen.type)), False))
    held = held.filter(on(held, there(topics)))
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


def remembered(
    cluster: ClusterStore, snapshot: Manifest, base: Manifest | None, before: Sequence[Manifest]
) -> Met:
    """When each group was met last on a topic, up to this snapshot; from `base`, without it from
    all kept snapshots and what the analyses `before` knew (`earlier.going_on`).
    """
    found: Met = {}
    for some in (*map(told, before), known(cluster, base, snapshot.id)):
        for key, at in some.items():
            found[key] = max(at, found.get(key, at))
    return found


def held(offsets: pa.Table, former: pa.Table) -> pa.Table:
    """topic, group_id and last_seen_at_min, of its last known offsets there the one that was seen
    longest ago; and offset_seen_at, when one was seen last of the topic as it is now (null: none).
    `former` are offsets of earlier topics of a name. Sums of parts may be summed again.
    """
    seen = pc.if_else(offsets["committed_offset"].is_valid(), offsets["last_seen_at"], None)
    parts = [
        offsets.select(_SEEN).append_column("offset_seen_at", seen),
        former.select(_SEEN).append_column("offset_seen_at", pa.nulls(len(former), seen.type)),
    ]
    rows = pa.concat_tables(parts).rename_columns(_HELD)
    return summed(rows)


def summed(found: pa.Table) -> pa.Table:
    """One row per topic and group."""
    sums = found.group_by(_HELD[:2]).aggregate([(_HELD[2], "min"), (_HELD[3], "max")])
    return sums.rename_columns(_HELD)


_SEEN = ["topic", "group_id", "last_seen_at"]
_HELD = ["topic", "group_id", "last_seen_at_min", "offset_seen_at"]


def there(topics: pa.Table) -> set[str]:
    """The names of topics that are: one that disks or offsets alone name is gone, and what a group
    read of it tells nothing of what it reads now.
    """
    ids = topics["topic_id"]
    named = topics if ids.null_count == len(ids) else topics.filter(ids.is_valid())
    return {*named["topic"].to_pylist()}


def on(held: pa.Table, topics: Collection[str]) -> pa.Array:
    """Which rows are of one of these topics."""
    return pc.is_in(held["topic"], value_set=pa.array(sorted(topics), pa.string()))


def without_offset(
    met: Met, held: pa.Table, topics: pa.Table, oldest_kept: int, past: int | None
) -> Met:
    """Those that were met after some offset of theirs on the topic was seen last, by `held`, and
    those with members on a topic where they hold none (ANY_TOPIC: of which none was seen since
    on any of `topics`), as long as a kept snapshot may show it: met since `oldest_kept`
    (microseconds). `past`: as `without_told` has it.
    """
    oldest: Met = {}
    current = pc.and_(on(held, there(topics)), held["offset_seen_at"].is_valid())
    reading = held.filter(current).group_by("group_id").aggregate([("offset_seen_at", "max")])
    seen = reading["offset_seen_at_max"].cast(pa.int64()).to_pylist()
    met = without_told(met, dict(zip(reading["group_id"].to_pylist(), seen, strict=True)), past)
    of = {group for group, _ in met}
    sums = held.filter(pc.is_in(held["group_id"], value_set=pa.array(sorted(of), pa.string())))
    times = sums["last_seen_at_min"].cast(pa.int64()).to_pylist()
    pairs = zip(sums["group_id"].to_pylist(), sums["topic"].to_pylist(), times, strict=True)
    for group, topic, at in pairs:
        for key in ((group, topic), (group, "")):
            oldest[key] = min(at, oldest.get(key, at))
    return {key: at for key, at in met.items() if _counts(key, at, oldest.get(key), oldest_kept)}


def _counts(key: tuple[str, str], at: int, held_at: int | None, oldest_kept: int) -> bool:
    if held_at is not None:
        return held_at < at
    return key[1] != "" and at >= oldest_kept


ABSENT = "absent_topics"  # of an analysis' manifest: each name, and when it was first missed


def since(base: Manifest | None) -> Mapping[str, str]:
    """What an analysis keeps of them; {} of one by an earlier version."""
    return {} if base is None else dict(base.details.get(ABSENT, {}))


def carried(
    held: pa.Table, present: pa.Table, base: Manifest | None, snapshot: Manifest
) -> dict[str, str]:
    """Topics of which offsets are `held` that the snapshot has not, and since when, by name."""
    known, now = since(base), format_time(seen_at(snapshot))
    names = pc.unique(column(held, "topic"))
    missing = names.filter(_absent(names, present)).to_pylist()
    begins = clock_was_right(snapshot)
    return {name: known.get(name, now) for name in sorted(missing) if begins or name in known}


def ended(snapshot: Manifest, oldest: pa.Scalar, kept_for: timedelta) -> datetime | None:
    """Topics whose absence began before this moment are forgotten by the analysis of a snapshot:
    longer ago than snapshots are `kept_for`, and than the `oldest` kept one was taken. None: by a
    clock that was wrong none is.
    """
    if not clock_was_right(snapshot):
        return None
    moment: datetime = oldest.as_py()
    return min(moment, snapshot.taken_at - kept_for)


def hidden(
    names: pa.Array, present: pa.Table, base: Manifest | None, before: datetime | None
) -> pa.Array:
    """Whether each topic is absent, and has not been since `before` (`ended`)."""
    gone = [n for n, at in since(base).items() if before is not None and parse_time(at) < before]
    forgotten = pc.is_in(names, value_set=pa.array(gone, pa.string()))
    return pc.and_(_absent(names, present), pc.invert(forgotten))


def _absent(names: pa.Array, present: pa.Table) -> pa.Array:
    return pc.invert(pc.is_in(names, value_set=column(present, "topic")))
