"""Which offset every group still holds on: the memory of groups, carried from snapshot to snapshot,
and what only thinned-out snapshots knew.

A group that is gone today still counts at its last known offset: somebody may start it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.earlier import commit_order, since
from analytics.readers import groups
from analytics.readers.groups import hidden
from dashboard.core.arrow import column, distinct, in_order, looked_up
from dashboard.estimate.curve_tables import changes, integers
from dashboard.estimate.curves import Ints
from dashboard.history.seen_topics import UNKNOWN_ID, seen_topics
from dashboard.safety import committed_offsets
from dashboard.safety.committed_offsets import EPOCH_ENDS, same_topic
from dashboard.store.clocks import seen_at, times
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore


def fold(
    cluster: ClusterStore,
    snapshot: Manifest,
    present: pa.Table,
    base: Manifest | None,
    before: Sequence[Manifest] = (),
    *,
    kept_for: timedelta,
) -> pa.Table:
    """The last known committed offset per topic, partition and group, as `holds` has it, sorted.

    `epoch_end` is where the offset's leader epoch ends in the snapshot's logs, as far as its
    `epoch_ends` know that records of it, or of a later one, were lost.

    Goes on from the holds of `base`, an earlier analysis, with the offsets of every snapshot
    since then up to this one: a group may have come and gone in between. `present` are the topics
    of the snapshot. `last_commit_at` is the time of the first snapshot that showed the present
    offset after another one, so the commit was made at that time or before; null until a move
    was seen. An offset that moved back counts as a move, and so does any on a topic that was
    recreated: with the former topic Kafka deleted its commits.

    Offsets of a topic that was deleted and recreated (another topic_id) stay until the group
    commits on the new one, as long as a kept snapshot knew them: `split` tells them apart. A topic
    that is absent keeps its holds until it has been for as long as snapshots are `kept_for`: it may
    only be hidden from us.
    Brokers before 2.8 know no topic ids: then the name has to do.

    Snapshots count in the order of their commits. Without `base`, what the analyses `before`
    (`earlier.going_on`) saw later than any kept snapshot stays.
    """
    new = since(cluster, base, snapshot)
    oldest = oldest_kept(cluster, snapshot)
    ended = groups.ended(snapshot, oldest, kept_for)
    names = _Names.of(cluster, new, present, base, ended)
    found = folded(cluster, new, names.numbered, base, oldest)
    held = in_order(names.spelt(found), ["topic", "partition", "group_id"])
    held = held if base else with_memory(held, before, cluster, snapshot, present, ended=ended)
    return with_ends(held, cluster, snapshot, present)


def with_ends(
    held: pa.Table, cluster: ClusterStore, snapshot: Manifest, present: pa.Table
) -> pa.Table:
    """`held` with epoch_end."""
    known = cluster.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names)
    number = looked_up(column(held, "topic"), column(present, "topic"), column(present, "topic_no"))
    partition, epoch = column(held, "partition"), column(held, "leader_epoch")
    return held.append_column("epoch_end", committed_offsets.ends(number, partition, epoch, known))


def split(found: pa.Table, present: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The `holds`, and the `former_readers`: offsets of an earlier topic of a name."""
    now = looked_up(column(found, "topic"), column(present, "topic"), column(present, "topic_id"))
    same = same_topic(column(found, "topic_id"), now)
    return found.filter(same), found.filter(pc.invert(same))


@dataclass(frozen=True)
class _Names:
    """Topics by name and id; snapshot_id and topic_no are null for remembered ones. `is_present`:
    the snapshot has the topic, with this id, or it may be hidden. `is_told`: some broker told the
    id; one that nobody told does not replace one that is known.
    """

    rows: pa.Table

    @classmethod
    def of(
        cls,
        cluster: ClusterStore,
        new: list[str],
        present: pa.Table,
        base: Manifest | None,
        ended: datetime | None,
    ) -> _Names:
        seen = [seen_topics(cluster, i, _NAMED) for i in new]
        if base:
            pairs = remembered(cluster, base, ["topic", "topic_id"])
            seen.append(distinct(pairs))
        rows = pa.concat_tables(seen, promote_options="default").select(_NAMED)
        topics, ids = column(rows, "topic"), column(rows, "topic_id")
        now = looked_up(topics, column(present, "topic"), column(present, "topic_id"))
        there = pc.is_in(topics, value_set=column(present, "topic"))
        same = pc.fill_null(pc.equal(ids, now), True)
        unseen = groups.hidden(topics, present, base, ended)
        rows = rows.append_column("is_present", pc.or_(pc.and_(there, same), unseen))
        told = pc.fill_null(pc.not_equal(ids, UNKNOWN_ID), False)
        rows = rows.append_column("is_told", told)
        times = looked_up(column(rows, "snapshot_id"), pa.array(new), commit_order(new))
        rows = rows.append_column("ordered_at", times)
        return cls(rows)

    @property
    def numbered(self) -> pa.Table:
        """With name_no, the same for every id of a topic, id_no, the same for an id that some
        broker told (null: none did), and named, the row here.
        """
        topics, ids = column(self.rows, "topic"), column(self.rows, "topic_id")
        known = pc.if_else(column(self.rows, "is_told"), ids, None)
        id_no = pc.index_in(known, value_set=known.drop_null()).cast(pa.int64())
        at = self.rows.column_names.index("topic_id")
        return (
            self.rows.set_column(at, "topic_id", pc.fill_null(self.rows["topic_id"], ""))
            .append_column("name_no", pc.index_in(topics, value_set=pc.unique(topics)))
            .append_column("id_no", id_no)
            .append_column("named", pa.array(np.arange(len(topics), dtype=np.int32)))
        )

    def spelt(self, found: pa.Table) -> pa.Table:
        """What the fold found, with names instead of numbers."""
        names = self.rows.select(["topic", "topic_id"]).take(found["named"])
        return pa.table(
            {"topic": names["topic"], "partition": found["partition"],
             "group_id": found["group_id"], "topic_id": names["topic_id"]}
            | {name: found[name] for name in _FOUND}
        )  # fmt: skip


_FOUND = ("committed_offset", "leader_epoch", "last_seen_at", "last_commit_at")
_NAMED = ["snapshot_id", "topic_no", "topic", "topic_id"]


# The fold of committed offsets over snapshots: arrays, a snapshot at a time.
#
# Each snapshot's offsets are put into the rows of the groups known before it, so nothing is sorted.

# Of a key's 63: a million partitions of each of 4 million topics, 2 million groups.
_NAME_BITS, _PARTITION_BITS = 22, 20
_NEVER = np.iinfo(np.int64).min
_TIME = pa.timestamp("us", tz="UTC")
_READ = ["group_id", "topic_no", "partition", "committed_offset", "leader_epoch", "taken_at"]
_HELD = ["topic", "topic_id", "partition", "group_id", "committed_offset", "leader_epoch",
         "last_seen_at", "last_commit_at"]  # fmt: skip


def folded(
    cluster: ClusterStore,
    new: Sequence[str],
    names: pa.Table,
    base: Manifest | None,
    oldest_kept: pa.Scalar,
) -> pa.Table:
    """name_no, partition, group_id, named, committed_offset, leader_epoch, last_seen_at and
    last_commit_at of every group, after the snapshots `new`, in their order.

    `names`: the rows of `holds`' names with name_no, id_no, named and is_told. `base`: the analysis
    whose offsets come first. Raises StoreError where one of them cannot be read.
    """
    state = _State()
    if base is not None:
        state.remember(remembered(cluster, base, _HELD), names, oldest_kept)
    for snapshot_id in new:
        own = names.filter(pc.equal(names["snapshot_id"], snapshot_id))
        offsets = cluster.read("snapshots", snapshot_id, "group_offsets", _READ)
        state.see(offsets, own, time_of(snapshot_id))
    return state.table()


class _State:
    """One row per topic, partition and group; times are microseconds, _NEVER is null."""

    def __init__(self) -> None:
        self.groups = pa.array([], pa.string())
        self.keys, self.last, self.rows = (np.zeros(0, dtype=np.int64) for _ in range(3))
        names = ("named", "id", "offset", "epoch", "seen", "moved")
        self.values: dict[str, Ints] = {name: np.zeros(0, dtype=np.int64) for name in names}

    def remember(self, held: pa.Table, names: pa.Table, oldest_kept: pa.Scalar) -> None:
        """Begin with the holds of an earlier analysis, as far as their topics count."""
        known = names.filter(names["snapshot_id"].is_null())
        at = looked_up(_both(held), _both(known), pa.array(np.arange(known.num_rows)))
        there = looked_up(at, pa.array(np.arange(known.num_rows)), column(known, "is_present"))
        recent = pc.greater_equal(column(held, "last_seen_at"), oldest_kept)
        counts = pc.fill_null(pc.and_(at.is_valid(), pc.or_kleene(there, recent)), False)
        held, at = held.filter(counts), at.filter(counts)
        self._put(held, known.take(at), "last_seen_at")
        moved = held["last_commit_at"].cast(pa.int64())
        self.values["moved"][self.rows] = integers(moved, _NEVER)

    def see(self, offsets: pa.Table, names: pa.Table, by_order: datetime | None) -> None:
        """Go on with one snapshot. Failed look-ups and partitions never committed do not count.

        `by_order`: the time of its id, as in `clocks.seen_at`; rows have its own.
        """
        at = pc.index_in(column(offsets, "topic_no"), value_set=column(names, "topic_no"))
        committed = pc.greater_equal(column(offsets, "committed_offset"), 0)
        counts = pc.fill_null(pc.and_(committed, at.is_valid()), False)
        own, least = offsets["taken_at"], pa.scalar(by_order, _TIME)
        seen = pc.if_else(pc.fill_null(pc.less(own, least), False), least, own)
        offsets = offsets.append_column("seen_at", seen)
        self._put(offsets.filter(counts), names.take(at.filter(counts)), "seen_at")

    def _put(self, rows: pa.Table, names: pa.Table, time: str) -> None:
        keys = self._keys(rows, names)
        if not np.array_equal(keys, self.last):
            self.last, self.rows = keys, self._placed(keys)
        at, values = self.rows, self.values
        offset = integers(rows["committed_offset"], 0)
        seen = integers(rows[time].cast(pa.int64()), _NEVER)
        ids, before = integers(names["id_no"], _NEVER), values["id"][at]
        recreated = (ids != _NEVER) & (before != _NEVER) & (ids != before)
        moved = (values["seen"][at] != _NEVER) & (values["offset"][at] != offset) | recreated
        values["moved"][at] = np.where(moved, seen, values["moved"][at])
        values["offset"][at], values["seen"][at] = offset, seen
        told = names["is_told"].to_numpy() | (values["named"][at] == _NEVER)
        values["named"][at] = np.where(told, integers(names["named"], 0), values["named"][at])
        values["id"][at] = np.where(told, ids, before)
        values["epoch"][at] = integers(rows["leader_epoch"].cast(pa.int64()), _NEVER)

    def _keys(self, rows: pa.Table, names: pa.Table) -> Ints:
        coded = column(rows, "group_id").dictionary_encode()
        unknown = pc.is_in(coded.dictionary, value_set=self.groups)
        self.groups = pa.concat_arrays([self.groups, coded.dictionary.filter(pc.invert(unknown))])
        number = pc.index_in(coded.dictionary, value_set=self.groups).take(coded.indices)
        group, name = (np.asarray(n, dtype=np.int64) for n in (number, names["name_no"]))
        return (group << _NAME_BITS | name) << _PARTITION_BITS | integers(rows["partition"], 0)

    def _placed(self, keys: Ints) -> Ints:
        """The row of each key; those that were not known get new ones."""
        found = pc.index_in(pa.array(keys), value_set=pa.array(self.keys))
        new = found.is_null().to_numpy(zero_copy_only=False)
        at = np.asarray(pc.fill_null(found, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
        at[new] = len(self.keys) + np.arange(np.count_nonzero(new))
        self.keys = np.concatenate([self.keys, keys[new]])
        for name, values in self.values.items():
            more = np.full(len(self.keys) - len(values), _NEVER)
            self.values[name] = np.concatenate([values, more])
        return at

    def table(self) -> pa.Table:
        """Every row that was ever seen."""
        keys, values = self.keys, self.values
        place = keys & (1 << _NAME_BITS + _PARTITION_BITS) - 1
        return pa.table(
            {
                "name_no": _int(place >> _PARTITION_BITS),
                "partition": _int(place & (1 << _PARTITION_BITS) - 1),
                "group_id": self.groups.take(pa.array(keys >> _NAME_BITS + _PARTITION_BITS)),
                "named": _int(values["named"]),
                "committed_offset": pa.array(values["offset"]),
                "leader_epoch": pa.array(
                    values["epoch"], pa.int64(), mask=values["epoch"] == _NEVER
                ).cast(pa.int32()),
                "last_seen_at": _time(values["seen"]),
                "last_commit_at": _time(values["moved"]),
            }
        )


def _both(rows: pa.Table) -> pa.Array:
    """Topic and id as one text."""
    ids = pc.fill_null(column(rows, "topic_id"), "")
    return pc.binary_join_element_wise(column(rows, "topic"), ids, "\0")


def _int(values: Ints) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _time(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == _NEVER).cast(_TIME)


# What only thinned-out snapshots knew: a fold over all that are kept must not forget a group.

_KEY = ["topic", "partition", "group_id"]


def remembered(cluster: ClusterStore, base: Manifest, columns: list[str]) -> pa.Table:
    """Every last known offset of an analysis, on topics as they were then and on earlier ones."""
    found = [cluster.read("findings", base.id, "holds", columns)]
    if "former_readers" in base.tables:  # analyses of earlier versions have none
        found.append(cluster.read("findings", base.id, "former_readers", columns))
    return pa.concat_tables(found)


def with_memory(
    held: pa.Table,
    before: Sequence[Manifest],
    cluster: ClusterStore,
    snapshot: Manifest,
    present: pa.Table,
    *,
    ended: datetime | None,
) -> pa.Table:
    """`held`, the `holds` of a fold that began anew, and what the analyses `before` saw later.

    `present` are the topics of the snapshot: commits on a topic that was recreated since count as
    long as a kept snapshot knew them, those on one that is not there unless it has been away since
    before `ended` (`groups.ended`). Of a time that is still to come nobody knows whether it is the
    later one: then the lower offset counts.
    """
    if not before:
        return held
    oldest = oldest_kept(cluster, snapshot)
    seen = []
    for base in before:
        remembers = remembered(cluster, base, held.column_names)
        remembers = remembers.filter(_counts(remembers, present, base, oldest, ended))
        seen.append(_plausible(remembers, held, snapshot))
    ranked = [_ranked(rows, rank) for rank, rows in enumerate((*seen, held))]
    both = pa.concat_tables(ranked)
    both = both.sort_by([(name, "ascending") for name in (*_KEY, "last_seen_at", "rank")])
    last = np.ones(both.num_rows, dtype=bool)
    if both.num_rows:
        last[:-1] = np.logical_or.reduce([changes(both[name]) for name in _KEY])
    return both.filter(pa.array(last)).drop_columns("rank")


def _plausible(before: pa.Table, held: pa.Table, snapshot: Manifest) -> pa.Table:
    """Without what was seen at a time still to come, where a kept snapshot shows a lower offset."""
    to_come = pc.greater(before["last_seen_at"], pa.scalar(seen_at(snapshot), _TIME))
    if not pc.any(to_come).as_py():
        return before
    shown = looked_up(_keys(before), _keys(held), column(held, "committed_offset"))
    lower = pc.fill_null(pc.less(shown, column(before, "committed_offset")), False)
    return before.filter(pc.invert(pc.and_(to_come, lower)))


def _keys(rows: pa.Table) -> pa.Array:
    texts = [column(rows, name).cast(pa.string()) for name in _KEY]
    return pc.binary_join_element_wise(*texts, "\0")


def _ranked(rows: pa.Table, rank: int) -> pa.Table:
    return rows.append_column("rank", pa.repeat(pa.scalar(rank, pa.int32()), rows.num_rows))


def _counts(
    before: pa.Table,
    present: pa.Table,
    base: Manifest,
    oldest: pa.Scalar,
    ended: datetime | None,
) -> pa.Array:
    topics = column(before, "topic")
    now = looked_up(topics, column(present, "topic"), column(present, "topic_id"))
    same = pc.fill_null(pc.equal(column(before, "topic_id"), now), True)
    there = pc.is_in(topics, value_set=column(present, "topic"))
    recent = pc.greater_equal(before["last_seen_at"], oldest)
    unseen = hidden(topics, present, base, ended)
    return pc.or_(pc.or_(pc.and_(there, same), unseen), recent)


def oldest_kept(cluster: ClusterStore, snapshot: Manifest) -> pa.Scalar:
    """When the oldest kept snapshot was taken, which need not be readable: not after `snapshot`."""
    kept = times(cluster, cluster.ids("snapshots"), snapshot.taken_at)
    return pa.scalar(min([*kept.values(), snapshot.taken_at]), _TIME)
