"""What kept snapshots tell of a policy's partitions, one moment after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.columns import Flags, Ints, positions
from dashboard.estimate.curve_tables import integers
from dashboard.policies.simulate.past_rows import ABSENT, GONE, Memory, Rows
from dashboard.safety.epochs import EPOCH_ENDS
from dashboard.safety.standing import tells
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

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
    others: Sequence[str] = (),
    *,
    waive: Collection[str] = (),
) -> Iterator[Moment]:
    """Each of these snapshots, oldest first; one that was pruned meanwhile is left out.

    `memory` and the snapshots `others` tell of groups besides; `waive` are groups to waive while
    they are gone (`purge.evidence.revived.in_force`).
    """
    commits = Commits(rows)
    for snapshot in sorted({*snapshots, *others} & rows.topic_of.keys()):
        try:
            if snapshot in others:
                _see(store, store.manifest("snapshots", snapshot), rows, commits, memory)
            else:
                yield _moment(store, snapshot, rows, commits, memory, waive=waive)
        except StoreError as error:
            if error.code not in GONE:
                raise


def _moment(
    store: ClusterStore,
    snapshot: str,
    rows: Rows,
    commits: Commits,
    memory: Memory,
    *,
    waive: Collection[str],
) -> Moment:
    topic_of, own = rows.topic_of[snapshot], rows.lines(snapshot)

    def read(table: str, columns: list[str]) -> pa.Table:
        return store.read("snapshots", snapshot, table, columns, only=own)

    manifest = store.manifest("snapshots", snapshot)
    log_start, last_stable, high_watermark, leader_epoch = _offsets(
        read("partitions", ["topic_no", "partition", *_OFFSETS]), rows, topic_of
    )
    size_bytes, replicas = _sizes(
        read("replicas", ["topic_no", "partition", "size_bytes"]), rows, topic_of
    )
    fullest = _fullest(store.read("snapshots", snapshot, "log_dirs", _LOG_DIRS))
    cut = _see(store, manifest, rows, commits, memory)
    complete = not manifest.details.get("groups_incomplete")
    listed = frozenset(waive).intersection(
        store.read("snapshots", snapshot, "groups", ["group_id"])["group_id"].to_pylist()
        if waive and complete
        else ()
    )
    return Moment(
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
    store: ClusterStore, snapshot: Manifest, rows: Rows, commits: Commits, memory: Memory
) -> pa.Table:
    """Take in what groups had committed by then; the snapshot's EPOCH_ENDS, numbered as rows."""
    topic_of, own = rows.topic_of[snapshot.id], rows.lines(snapshot.id)
    cut = store.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names, only=own)
    offsets = store.read("snapshots", snapshot.id, "group_offsets", READ, only=own)
    before = memory.until(snapshot.taken_at)
    if before.num_rows:
        commits.remember(before)
    cut = rows.cut(cut, topic_of)
    commits.see(offsets, topic_of, cut)
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


# What every group had committed by then: the last known offset, snapshot after snapshot.
#
# A group that a later snapshot does not show counts on at its last known offset, as in plans; one
# that is known by offsets on an earlier topic of a name alone may read it, nobody knows how far.

READ = ["group_id", "topic_no", "partition", "committed_offset", "leader_epoch", "taken_at"]
_GROUP_BITS = 22  # four million groups


class Commits:
    """One offset per row and group, in arrays that rise by row; `see` takes the next snapshot."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._codes: dict[str, int] = {}
        self._keys = np.zeros(0, dtype=np.int64)
        self._offsets = np.zeros(0, dtype=np.int64)
        self._epochs = np.zeros(0, dtype=np.int64)
        self._cut = EPOCH_ENDS.empty_table()
        self._times = np.zeros(0, dtype=np.int64)  # when each was seen last, in microseconds
        self._seen = np.zeros(0, dtype=np.int64)  # the keys of the last snapshot, and their places
        self._at = np.zeros(0, dtype=np.int64)
        self._elsewhere = np.zeros(0, dtype=np.int64)  # name and group of what is on no row
        self._arrange()

    def see(self, table: pa.Table, topic_of: Ints, cut: pa.Table) -> None:
        """The next snapshot's `group_offsets`; `topic_of` numbers its topics as `rows` does.

        `cut`: EPOCH_ENDS of that snapshot, numbered so.
        """
        self._cut = cut
        table = table.filter(pc.greater_equal(table["committed_offset"], 0))
        topic = self.rows.topics(table, topic_of)
        name = np.where(topic >= 0, self.rows.name_of[topic], ABSENT)
        self._take(table, topic, name, "taken_at")

    def remember(self, table: pa.Table) -> None:
        """Offsets that were last seen before the next snapshot, as `past_memory` numbers them."""
        name = integers(table["name_no"], ABSENT)
        topic = integers(table["topic_no"], ABSENT)
        self._take(table, topic, self.rows.name_of[name], "last_seen_at")

    def _take(self, table: pa.Table, topic: Ints, name: Ints, time: str) -> None:
        """`topic` and `name`: their numbers per line; ABSENT of what is not wanted, or unknown."""
        wanted = np.flatnonzero(name >= 0)
        if len(wanted) < len(name):
            table, topic, name = table.take(pa.array(wanted)), topic[wanted], name[wanted]
        row, group = self.rows.at(topic, table), self._numbered(table["group_id"])
        kept = np.flatnonzero(row >= 0)
        if len(kept) < len(row):
            self._note((name << _GROUP_BITS | group)[row < 0])
            table, row, group = table.take(pa.array(kept)), row[kept], group[kept]
        keys = row << _GROUP_BITS | group
        if not np.array_equal(keys, self._seen):
            self._seen, self._at = keys, self._places(keys)
        self._offsets[self._at] = integers(table["committed_offset"], 0)
        self._epochs[self._at] = integers(table["leader_epoch"], ABSENT)
        self._times[self._at] = integers(table[time].cast(pa.int64()), ABSENT)

    def lowest(self, high_watermark: Ints, waived: Collection[str] = ()) -> Ints:
        """Per row the lowest offset of the groups whose offset tells how far they read; ABSENT
        where none does. `high_watermark`: per row, read with the offsets. `waived` groups are
        left out.
        """
        found = np.full(len(self.rows), ABSENT, dtype=np.int64)
        if len(self._keys):
            most = np.iinfo(np.int64).max
            counts = self._tell(high_watermark) & ~self._of(self._keys, waived)
            offsets = np.where(counts, self._offsets, most)
            lowest = np.minimum.reduceat(offsets, self._first)
            found[self._row[self._first]] = np.where(lowest < most, lowest, ABSENT)
        return found

    def complete(self, high_watermark: Ints, waived: Collection[str] = ()) -> Flags:
        """Rows where some group's offset tells, and that of each group of the topic does, or of an
        earlier one of its name. One that was seen on the topic since without its offset here may
        have begun anew (`safety.standing`). `waived` groups are left out.
        """
        tell = self._tell(high_watermark) & ~self._outlived() & ~self._of(self._keys, waived)
        telling = np.bincount(self._row[tell], minlength=len(self.rows))
        named = self._named[~self._of(self._named, waived)] >> _GROUP_BITS
        of_name = np.bincount(named, minlength=len(self.rows.names))
        every = of_name[self.rows.name_of[self.rows.topic]]
        return np.asarray((telling > 0) & (telling == every), dtype=bool)

    def of(self, owner: Ints, high_watermark: Ints) -> Ints:
        """Per row what its owner committed: `owner` is one of `code` per row; ABSENT where none."""
        found = np.full(len(self.rows), ABSENT, dtype=np.int64)
        owns = (self._keys & ((1 << _GROUP_BITS) - 1)) == owner[self._row]
        own = np.flatnonzero(owns & self._tell(high_watermark))
        found[self._row[own]] = self._offsets[own]
        return found

    def _outlived(self) -> Flags:
        newest = np.full(self._pairs, ABSENT, dtype=np.int64)
        np.maximum.at(newest, self._pair, self._times)
        return np.asarray(self._times < newest[self._pair], dtype=bool)

    def _tell(self, high_watermark: Ints) -> Flags:
        end = high_watermark[self._row]
        same = pa.repeat(True, len(end))  # a topic that was recreated has rows of its own
        lost = self.rows.epoch_ends(self._row, self._epochs, self._cut)
        counts = tells(pa.array(self._offsets), same, pa.array(end, mask=end < 0), lost)
        return np.asarray(counts.to_numpy(zero_copy_only=False), dtype=bool)

    def _of(self, numbers: Ints, groups: Collection[str]) -> Flags:
        """Which of these numbers (their low bits are the group's) are of these groups."""
        if not groups:
            return np.zeros(len(numbers), dtype=bool)
        codes = [code for name in groups if (code := self._codes.get(name)) is not None]
        return np.isin(numbers & ((1 << _GROUP_BITS) - 1), codes)

    def code(self, group_id: str) -> int:
        """The number of a group, here and in `of`."""
        return self._codes.setdefault(group_id, len(self._codes))

    def _numbered(self, groups: pa.ChunkedArray) -> Ints:
        named = pa.array(groups.combine_chunks(), pa.string()).dictionary_encode()
        codes = np.array([self.code(name) for name in named.dictionary.to_pylist()], dtype=np.int64)
        return codes[named.indices.to_numpy()] if len(codes) else codes

    def _places(self, keys: Ints) -> Ints:
        """Where these keys stand, after those that are new were let in."""
        _, there = positions(keys, self._keys)
        fresh = np.unique(keys[~there])
        if len(fresh):
            every = np.concatenate([self._keys, fresh])
            order = np.argsort(every, kind="stable")
            offsets = np.concatenate([self._offsets, np.zeros(len(fresh), dtype=np.int64)])
            epochs = np.concatenate([self._epochs, np.full(len(fresh), ABSENT, dtype=np.int64)])
            times = np.concatenate([self._times, np.full(len(fresh), ABSENT, dtype=np.int64)])
            self._keys, self._offsets, self._epochs = every[order], offsets[order], epochs[order]
            self._times = times[order]
            self._arrange()
        return np.searchsorted(self._keys, keys)

    def _note(self, pairs: Ints) -> None:
        """Groups that read a topic, as offsets say that are on none of the rows: name and group."""
        every = np.union1d(self._elsewhere, pairs)
        if len(every) > len(self._elsewhere):
            self._elsewhere = every
            self._arrange()

    def _arrange(self) -> None:
        """What depends on which group committed where, and not on the offsets."""
        self._row = self._keys >> _GROUP_BITS
        new = np.ones(len(self._row), dtype=bool)
        new[1:] = self._row[1:] != self._row[:-1]
        self._first = np.flatnonzero(new)
        group = self._keys & ((1 << _GROUP_BITS) - 1)
        of = self.rows.name_of[self.rows.topic[self._row]]
        _, self._pair = np.unique(of << _GROUP_BITS | group, return_inverse=True)
        self._pairs = int(self._pair.max(initial=-1)) + 1
        self._named = np.union1d(of << _GROUP_BITS | group, self._elsewhere)
