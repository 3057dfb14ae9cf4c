"""What every group had committed by then: the last known offset, snapshot after snapshot.

A group that a later snapshot does not show counts on at its last known offset, as in plans; one
that is known by offsets on an earlier topic of a name alone may read it, nobody knows how far.

A topic's partitions lie in many buckets, and whether a group begins anew on one of them is told by
when it was seen on the others: `Sights` notes that in a bucket, and `Seen` reads what all noted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.columns import Flags, Ints, positions
from dashboard.estimate.curve_tables import integers
from dashboard.history.week.rows import ABSENT, Rows
from dashboard.safety.committed_offsets import EPOCH_ENDS, tells

READ = ["group_id", "topic_no", "partition", "committed_offset", "leader_epoch", "taken_at"]
_GROUP_BITS = 22  # four million groups
_GROUPS = (1 << _GROUP_BITS) - 1


class Commits:
    """One offset per row and group, in arrays that rise by row; `see` takes the next snapshot.

    `anywhere`: what other buckets tell too (None: the rows are all there are).
    """

    def __init__(self, rows: Rows, anywhere: pa.Table | None = None) -> None:
        self.rows = rows
        self._moment = 0, 0  # the step and the time of the last snapshot
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
        self._anywhere = None if anywhere is None else Seen(anywhere, self.code)

    def see(self, table: pa.Table, topic_of: Ints, cut: pa.Table, moment: tuple[int, int]) -> None:
        """The next snapshot's `group_offsets`; `topic_of` numbers its topics as `rows` does.

        `cut`: EPOCH_ENDS of that snapshot, numbered so; `moment`: which step it is, and its time.
        """
        self._cut, self._moment = cut, moment
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

    def complete(self, high_watermark: Ints, waived: Collection[str]) -> Flags:
        """Rows where some group's offset tells, and that of each group of the topic does, or of an
        earlier one of its name. One that was seen on the topic since without its offset here may
        have begun anew (`safety.standing`). `waived` groups are left out.
        """
        named, newest = self.sights()
        at, there = positions(self._numbers, named)
        newest = np.append(newest, ABSENT)[np.where(there, at, len(newest))]
        outlived = self._times < newest[self._pair]
        tell = self._tell(high_watermark) & ~outlived & ~self._of(self._keys, waived)
        telling = np.bincount(self._row[tell], minlength=len(self.rows))
        named = named[~self._of(named, waived)] >> _GROUP_BITS
        of_name = np.bincount(named, minlength=len(self.rows.names))
        every = of_name[self.rows.name_of[self.rows.topic]]
        return np.asarray((telling > 0) & (telling == every), dtype=bool)

    def of(self, owner: Ints, high_watermark: Ints) -> Ints:
        """Per row what its owner committed: `owner` is one of `code` per row; ABSENT where none."""
        found = np.full(len(self.rows), ABSENT, dtype=np.int64)
        owns = (self._keys & _GROUPS) == owner[self._row]
        own = np.flatnonzero(owns & self._tell(high_watermark))
        found[self._row[own]] = self._offsets[own]
        return found

    def sights(self) -> tuple[Ints, Ints]:
        """Each name and group, as one number that rises, and when that was seen last on any row;
        ABSENT where it is on none.
        """
        if self._anywhere is not None:
            return self._anywhere.at(self._moment)
        newest = np.full(len(self._named), ABSENT, dtype=np.int64)
        np.maximum.at(newest, positions(self._numbers, self._named)[0][self._pair], self._times)
        return self._named, newest

    def group_ids(self) -> list[str]:
        """By `code`."""
        return list(self._codes)

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
        return np.isin(numbers & _GROUPS, codes)

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
        group = self._keys & _GROUPS
        of = self.rows.name_of[self.rows.topic[self._row]]
        self._numbers, self._pair = np.unique(of << _GROUP_BITS | group, return_inverse=True)
        self._named = np.union1d(self._numbers, self._elsewhere)


# When each group was seen last on topics of a name, in all steps from one to another: at a time, or
# where it is null at each of these steps. Of what buckets note alike one row is enough.
SIGHTS = pa.schema(
    [("name_no", pa.int32()), ("group_id", pa.string()), ("since", pa.int32()),
     ("until", pa.int32()), ("at", pa.int64())]
)  # fmt: skip
_OWN = np.iinfo(np.int64).max


class Sights:
    """What the rows of one bucket tell, step by step."""

    def __init__(self) -> None:
        self._numbers, self._since, self._at = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self._ended: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._step = 0

    def add(self, commits: Commits, step: int, time: int) -> None:
        """The state after this step, which was at `time` (microseconds)."""
        numbers, newest = commits.sights()
        at = np.where(newest == time, _OWN, newest)
        before, _ = positions(self._numbers, numbers)  # all are there: a pair that was seen stays
        goes_on = at[before] == self._at
        self._end(~goes_on, step - 1)
        since = np.full(len(numbers), step, dtype=np.int64)
        since[before[goes_on]] = self._since[goes_on]
        self._numbers, self._since, self._at, self._step = numbers, since, at, step

    def _end(self, which: Flags, until: int) -> None:
        ends = np.full(int(which.sum()), until, dtype=np.int64)
        self._ended.append((self._numbers[which], self._since[which], ends, self._at[which]))

    def table(self, group_ids: Sequence[str]) -> pa.Table:
        """SIGHTS of all steps; `group_ids` as `Commits` has them."""
        self._end(np.ones(len(self._numbers), dtype=bool), self._step)
        number, since, until, at = (np.concatenate(of) for of in zip(*self._ended, strict=True))
        groups = pa.array(group_ids, pa.string()).take(pa.array(number & _GROUPS))
        columns = [
            pa.array(number >> _GROUP_BITS, pa.int32()), groups, pa.array(since, pa.int32()),
            pa.array(until, pa.int32()), pa.array(at, pa.int64(), mask=at == _OWN),
        ]  # fmt: skip
        return pa.table(columns, schema=SIGHTS)


class Seen:
    """SIGHTS of all buckets, read step by step."""

    def __init__(self, sights: pa.Table, code: Callable[[str], int]) -> None:
        name, self._since, self._until = (
            integers(sights[of], ABSENT) for of in ("name_no", "since", "until")
        )
        coded = sights["group_id"].combine_chunks().dictionary_encode()
        codes = np.array([code(group) for group in coded.dictionary.to_pylist()], dtype=np.int64)
        group = codes[coded.indices.to_numpy()] if len(codes) else codes
        self._numbers, self._pair = np.unique(name << _GROUP_BITS | group, return_inverse=True)
        self._at = integers(sights["at"], _OWN)

    def at(self, moment: tuple[int, int]) -> tuple[Ints, Ints]:
        """As `Commits.sights` at a step, and its time."""
        step, time = moment
        there = (self._since <= step) & (step <= self._until)
        newest = np.full(len(self._numbers), _OWN, dtype=np.int64)
        newest[self._pair[there]] = np.iinfo(np.int64).min
        times = np.where(self._at == _OWN, time, self._at)
        np.maximum.at(newest, self._pair[there], times[there])
        known = newest != _OWN
        return self._numbers[known], newest[known]
