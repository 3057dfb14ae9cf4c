"""How far each group has read each partition, and whose place there nobody can tell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import among, column, places, ranked, without
from dashboard.safety.committed_offsets import BY_OFFSET, ONCE, seen_last, telling
from dashboard.safety.readers import Readers

Ints = npt.NDArray[np.int64]

POSITIONS = pa.list_(pa.struct([("committed_offset", pa.int64()), ("group_id", pa.string())]))
# Why a group's place is unknown: what `Standing.unplaced` tells, in the order of its guards.
ASSIGNED, SKIPPED, GONE, DELETED, PAST_END, PATTERN, OTHER_LOG, ANYWHERE, NEWCOMER = range(9)
_UNPLACED = pa.schema(
    [
        ("row", pa.int64()),
        ("kind", pa.int8()),
        ("group_id", pa.string()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("epoch_end", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Standing:
    """Where groups stand on each partition; waived groups are left out.

    `positions` (POSITIONS): the offsets that tell how far a group has read, lowest first; then
    its first two entries. `unplaced`: row, kind (above), group_id and, past the end of the log or
    of its leader epoch, the offset, that epoch and its end. `unread_share`: row, group_id, why of
    share groups without a place. `restorers`: row and group_id of Kafka Streams applications that
    read the topic, `applications` the names of all. `has_readers`: whether any group at all is
    known to read the row's topic.
    """

    positions: pa.Array
    first_group: pa.Array
    first_offset: pa.Array
    second_offset: pa.Array
    unplaced: pa.Table
    unread_share: pa.Table
    restorers: pa.Table
    applications: pa.Array
    has_readers: pa.Array

    @cached_property
    def placed_at(self) -> tuple[pa.Array, pa.Array]:
        """The row of each position, and the positions as structs."""
        return pc.list_parent_indices(self.positions), pc.list_flatten(self.positions)


def standing(
    partitions: pa.Table,
    commits: pa.Table,
    topics: pa.Table,
    who: Readers,
    waived: Collection[str] = (),
    *,
    elsewhere: pa.Table | None = None,
) -> Standing:
    """Who stands where. `partitions`: topic_no, partition, high_watermark; `commits`: COMMITS,
    one row per group and partition, of these topics; `topics`: topic_no, topic_id; `elsewhere`:
    `by_offset` of their other partitions, where these are not all.

    A remembered offset counts as a live one does, where nothing was seen of its group since; that
    of a group that begins anew is still its lowest bound, and its place is unknown besides: the
    group is listed now, or was seen later (`_outlived`), without that offset, or deleted lately.
    """
    return _Judged(partitions, commits, topics, who, waived, elsewhere=elsewhere).standing()


class _Judged:
    """The steps of `standing`; pairs of a row (or topic) and a group are one number each."""

    def __init__(
        self,
        partitions: pa.Table,
        commits: pa.Table,
        topics: pa.Table,
        who: Readers,
        waived: Collection[str],
        *,
        elsewhere: pa.Table | None,
    ) -> None:
        self.topic = column(partitions, "topic_no")
        # A bucket has a few of all topics; what concerns none of them would cost every bucket.
        elsewhere = BY_OFFSET.empty_table() if elsewhere is None else elsewhere
        elsewhere = elsewhere.filter(
            pc.is_in(elsewhere["topic_no"], value_set=pc.unique(self.topic))
        )
        if waived:
            names = pa.array(sorted(waived), pa.string())
            commits, elsewhere = (
                table.filter(pc.invert(pc.is_in(table["group_id"], value_set=names)))
                for table in (commits, elsewhere)
            )
        self.who, self.count = who, partitions.num_rows
        self.where = places(column(partitions, "topic_no"), column(partitions, "partition"))
        self.ends = column(partitions, "high_watermark")
        self.names, ranks = ranked(
            column(commits, "group_id"), column(who.members, "group_id"),
            column(who.patterns, "group_id"), column(who.assigned, "group_id"),
            who.listed, column(who.share, "group_id"), who.anywhere,
            column(who.streams, "group_id"), column(who.newcomers, "group_id"),
            column(elsewhere, "group_id"), column(who.met, "group_id"),
            column(who.had_members, "group_id"), who.deleted,
        )  # fmt: skip
        (self.group, self.member, self.pattern, self.assigned, self.listed, self.share,
         self.anywhere, self.streams, self.newcomer, others, self.met, was,
         self.deleted) = ranks  # fmt: skip
        self.width = max(len(self.names), 1)
        self.had_members = _numbers(column(who.had_members, "topic_no")) * self.width + was
        self.elsewhere = _numbers(column(elsewhere, "topic_no")) * self.width + others
        self.reads_elsewhere = elsewhere["reads"].to_numpy().astype(bool)
        self.seen_elsewhere = _numbers(column(elsewhere, "seen_at"))
        self.commits = commits
        at = places(column(commits, "topic_no"), column(commits, "partition"))
        found = pc.index_in(at, value_set=self.where)
        self.here = np.asarray(found.is_valid().to_numpy(zero_copy_only=False), bool)
        self.row = np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
        self.tells = self._tells(topics)
        self.offset = _numbers(column(commits, "committed_offset"))
        remembered = pc.fill_null(column(commits, "remembered"), False)
        self.remembered = remembered.to_numpy(zero_copy_only=False)

    def _tells(self, topics: pa.Table) -> npt.NDArray[np.bool_]:
        ends = self.ends.take(pa.array(self.row, mask=~self.here))
        found = telling(self.commits, ends, topics)
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)

    def standing(self) -> Standing:
        lists, first_group, first_offset, second_offset = self._positions()
        here, misplaced = self._of_topics()
        unread_share = self._unread_share()
        return Standing(
            lists,
            first_group,
            first_offset,
            second_offset,
            self._unplaced(here, misplaced, self._pairs(unread_share)),
            unread_share,
            self._restorers(),
            self.who.applications,
            pc.is_in(self.topic, value_set=pa.array(np.unique(here // self.width), pa.int32())),
        )

    def _positions(self) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        own = np.flatnonzero(self.here & self.tells)
        row, offset, group = self.row[own], self.offset[own], self.group[own]
        order = np.lexsort((group, offset, row))
        ends = _ends(row, self.count)
        offsets, groups = pa.array(offset[order]), pa.array(group[order])
        entries = pa.StructArray.from_arrays(
            [offsets, self.names.take(groups)], fields=list(POSITIONS.value_type)
        )
        lists = pa.ListArray.from_arrays(pa.array(ends), entries)
        first, second = (_at(ends, entry) for entry in (0, 1))
        of_first = self.names.take(groups.take(first))
        return lists, of_first, offsets.take(first), offsets.take(second)

    def _of_topics(self) -> tuple[Ints, Ints]:
        """Pairs of topic and group: known to read it; and known by offsets of another log alone."""
        number = np.concatenate([self._committed(), self.elsewhere])
        here = np.concatenate(
            [
                self._reading(),
                _numbers(column(self.who.members, "topic_no")) * self.width + self.member,
                _numbers(column(self.who.patterns, "topic_no")) * self.width + self.pattern,
                self._share_pairs(),
                without(self.had_members, number),  # and died before a first commit
            ]
        )
        here = np.unique(here)
        return here, without(number, here)

    def _committed(self) -> Ints:
        """The pair of topic and group of each commit."""
        return _numbers(column(self.commits, "topic_no")) * self.width + self.group

    def _reading(self) -> Ints:
        """Pairs of which some offset shows that the group reads the topic as it is now; the rule of
        `by_offset`.
        """
        own = self._committed()[self.tells | ~self.remembered]
        return np.concatenate([own, self.elsewhere[self.reads_elsewhere]])

    def _share_pairs(self) -> Ints:
        known = pc.and_(self.who.share["known"], self.who.share["topic_no"].is_valid())
        own = known.to_numpy()
        number = _numbers(column(self.who.share, "topic_no"))
        return np.asarray((number * self.width + self.share)[own], np.int64)

    def _not_by_start(self, pairs: Ints) -> Ints:
        """Pairs of topic and group without those that `_unread_share` judges; a share group of
        which nobody can tell what it reads is judged on every topic.
        """
        anywhere = self.share[_numbers(column(self.who.share, "topic_no")) < 0]
        return without(pairs[~among(pairs % self.width, anywhere)], self._share_pairs())

    def _pairs(self, rows: pa.Table) -> Ints:
        """The number of each row and group_id."""
        named = pc.index_in(column(rows, "group_id"), value_set=self.names)
        return _numbers(column(rows, "row")) * self.width + _numbers(named)

    def _unplaced(self, here: Ints, misplaced: Ints, unread_share: Ints) -> pa.Table:
        """Groups of a row's topic that have no offset there which tells how far they read.

        Share groups are judged by their own start offsets on the topics that they read now, and
        named here where one is gone; those of a topic that they left are as any group's.
        """
        wanted = self._on_rows(self._not_by_start(here))
        known = self.row * self.width + self.group
        standing = self.here & self.tells
        anew, deleted = self._begun_anew(), among(self.group, self.deleted)
        over = standing & self.remembered & (anew | deleted)
        of_share = without(known[over & among(self.group, self.share)], unread_share)
        missing = np.union1d(without(wanted, known[standing & ~over]), of_share)
        kinds = np.full(len(missing), SKIPPED, dtype=np.int8)
        by_pattern = self._on_rows(self._only_by_pattern())
        kinds[among(missing, by_pattern)] = PATTERN
        kinds[among(missing, known[over])] = GONE
        kinds[among(missing, known[over & ~anew])] = DELETED
        beyond = self.here & ~self.tells & ~self.remembered & ~self._offsetless()
        kinds[among(missing, self._assigned_pairs())] = ASSIGNED
        kinds[among(missing, known[beyond])] = PAST_END  # named with its offset, member or not
        others = self._on_rows(misplaced)
        anywhere = self._anywhere_pairs(np.concatenate([wanted, others]))
        newcomers = _numbers(column(self.who.newcomers, "topic_no")) * self.width + self.newcomer
        coming = without(self._on_rows(newcomers), np.concatenate([wanted, others, anywhere]))
        pairs = np.concatenate([missing, others, anywhere, coming])
        kinds = np.concatenate(
            [
                kinds,
                np.full(len(others), OTHER_LOG, dtype=np.int8),
                np.full(len(anywhere), ANYWHERE, dtype=np.int8),
                np.full(len(coming), NEWCOMER, dtype=np.int8),
            ]
        )
        return self._table(pairs, kinds, known[beyond], self.commits.filter(pa.array(beyond)))

    def _table(
        self, pairs: Ints, kinds: npt.NDArray[np.int8], beyond: Ints, commits: pa.Table
    ) -> pa.Table:
        order = np.lexsort((pairs % self.width, kinds, pairs // self.width))
        pairs, kinds = pairs[order], kinds[order]
        at = pc.index_in(pa.array(pairs), value_set=pa.array(beyond))
        return pa.table(
            [
                pa.array(pairs // self.width),
                pa.array(kinds),
                self.names.take(pa.array(pairs % self.width)),
                *(column(commits, name).take(at) for name in _BEYOND),
            ],
            schema=_UNPLACED,
        )

    def _on_rows(self, of_topics: Ints) -> Ints:
        """Each pair of a topic and a group, on every row of that topic."""
        if not len(of_topics):
            return np.zeros(0, dtype=np.int64)
        topic = _numbers(self.topic)
        order = np.argsort(topic, kind="stable")
        ordered = topic[order]
        wanted = of_topics // self.width
        begin = np.searchsorted(ordered, wanted, "left")
        length = np.searchsorted(ordered, wanted, "right") - begin
        steps = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        row = order[np.repeat(begin, length) + steps]
        return np.asarray(row * self.width + np.repeat(of_topics % self.width, length), np.int64)

    def _only_by_pattern(self) -> Ints:
        pairs = _numbers(column(self.who.patterns, "topic_no")) * self.width + self.pattern
        return without(pairs, self._reading())

    def _begun_anew(self) -> npt.NDArray[np.bool_]:
        """Remembered commits of groups that are there without them, or were since: somebody deleted
        the offset, or the group, and it came back.

        Kafka drops the offsets of a group that nobody reads by all at once, and it with them.
        """
        return among(self.group, self.listed) | self._outlived()

    def _outlived(self) -> npt.NDArray[np.bool_]:
        """Commits of groups that were seen later, listed or by an offset on the topic, and without
        this one.
        """
        own, seen = self._committed(), seen_last(self.commits)
        if not self.remembered.any():
            return np.zeros(len(own), dtype=bool)
        topic, times = (_numbers(column(self.who.met, name)) for name in ("topic_no", "seen_at"))
        named = topic >= 0
        there = (topic * self.width + self.met)[named]
        anywhere = _newest(self.group, self.met[~named], times[~named])
        pairs = np.concatenate([own, self.elsewhere, there])
        moments = np.concatenate([seen, self.seen_elsewhere, times[named]])
        return np.asarray(seen < np.maximum(_newest(own, pairs, moments), anywhere))

    def _offsetless(self) -> npt.NDArray[np.bool_]:
        return np.asarray(
            column(self.commits, "committed_offset").is_null().to_numpy(zero_copy_only=False), bool
        )

    def _assigned_pairs(self) -> Ints:
        at = places(column(self.who.assigned, "topic_no"), column(self.who.assigned, "partition"))
        row = pc.index_in(at, value_set=self.where)
        own = row.is_valid().to_numpy(zero_copy_only=False)
        return np.asarray(_numbers(row)[own] * self.width + self.assigned[own], np.int64)

    def _anywhere_pairs(self, known: Ints) -> Ints:
        if not len(self.anywhere):
            return np.zeros(0, dtype=np.int64)
        rows = np.repeat(np.arange(self.count), len(self.anywhere))
        return without(rows * self.width + np.tile(self.anywhere, self.count), known)

    def _restorers(self) -> pa.Table:
        streams = self.who.streams
        number = _numbers(column(streams, "topic_no")) * self.width
        pairs = self._on_rows(number + self.streams)
        order = np.lexsort((pairs % self.width, pairs // self.width))
        names = self.names.take(pa.array(pairs[order] % self.width))
        return pa.table([pa.array(pairs[order] // self.width), names], schema=_RESTORERS)

    def _unread_share(self) -> pa.Table:
        """Share groups that may want a row's records, and have no start offset there."""
        share = self.who.share
        if not share.num_rows:
            return _NO_SHARE.empty_table()
        topic = _numbers(column(share, "topic_no"))
        at = np.arange(len(topic))
        everywhere = at[topic < 0]
        rows, of = [], []
        for entry in at[topic >= 0].tolist():
            found = np.flatnonzero(_numbers(self.topic) == topic[entry])
            rows.append(found)
            of.append(np.full(len(found), entry))
        rows.append(np.repeat(np.arange(self.count), len(everywhere)))
        of.append(np.tile(everywhere, self.count))
        row, entry = np.concatenate(rows).astype(np.int64), np.concatenate(of).astype(np.int64)
        live = self.here & self.tells & ~self.remembered  # its offsets may have been deleted since
        begun = (self.row * self.width + self.group)[live]
        known = share["known"].to_numpy()[entry]
        stays = ~(known & among(row * self.width + self.share[entry], begun))
        row, entry = row[stays], entry[stays]
        order = np.lexsort((self.share[entry], row))
        taken = share.take(pa.array(entry[order]))
        return pa.table(
            [pa.array(row[order]), *(column(taken, n) for n in _NO_SHARE.names[1:])],
            schema=_NO_SHARE,
        )


_BEYOND = ("committed_offset", "leader_epoch", "epoch_end")
_RESTORERS = pa.schema([("row", pa.int64()), ("group_id", pa.string())])
_NO_SHARE = pa.schema(
    [("row", pa.int64()), ("group_id", pa.string()), ("known", pa.bool_()), ("why", pa.string())]
)


def _numbers(values: pa.Array) -> Ints:
    """As whole numbers, -1 where it is not known."""
    whole = pc.fill_null(values.cast(pa.int64()), -1)
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64)


def _newest(wanted: Ints, numbers: Ints, times: Ints) -> Ints:
    """The newest of the times of each number that is wanted; ONCE where it has none."""
    every, at = np.unique(np.concatenate([wanted, numbers]), return_inverse=True)
    newest = np.full(len(every), ONCE)
    np.maximum.at(newest, at[len(wanted) :], times)
    return np.asarray(newest[at[: len(wanted)]])


def _ends(row: Ints, rows: int) -> npt.NDArray[np.int32]:
    counts = np.bincount(row, minlength=rows)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


def _at(ends: npt.NDArray[np.int32], entry: int) -> pa.Array:
    """The index of one entry of each list; null where it is shorter."""
    at = ends[:-1].astype(np.int64) + entry
    return pa.array(at, mask=at >= ends[1:])
