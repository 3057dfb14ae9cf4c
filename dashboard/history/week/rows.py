"""Which partitions of some topics kept snapshots hold: one row each, in rising order; what plans of
the past remembered of groups that no snapshot of the time showed any more, and what is guarded
today.

A topic that was recreated under its name is another topic: its offsets mean other records.

Memory is as plans know it (`purge.evidence.memory`): the newest analysis' last known offsets, and
the snapshots that no analysis has seen. Each counts from the moment when it was seen, and not
before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.clock import microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.columns import Flags, Ints, keys, positions
from dashboard.estimate.curve_tables import integers
from dashboard.history.findings_age import late, newest_analysis
from dashboard.safety import committed_offsets
from dashboard.store.snapshots import ClusterStore

ABSENT = -1  # an offset that no snapshot tells
GONE = ("SNAPSHOT_NOT_FOUND", "STORE_UNREADABLE")


@dataclass(frozen=True)
class Topics:
    """Those of some snapshots that are wanted, by name and id.

    `topic_of`: per snapshot, which of `names` each of its topic numbers is; ABSENT for topics
    that are not wanted.
    """

    names: tuple[tuple[str, str | None], ...]
    topic_of: Mapping[str, Ints]


@dataclass(frozen=True)
class Rows:
    """Every partition that one of the snapshots holds; `topic` counts in `names`.

    `topic_of`: per snapshot, which of `names` each of its topic numbers is; ABSENT for topics
    that are not wanted.
    """

    names: tuple[tuple[str, str | None], ...]
    topic: Ints
    partition: Ints
    topic_of: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.topic)

    @cached_property
    def keys(self) -> Ints:
        """One number per row that rises."""
        return keys(self.topic, self.partition)

    @cached_property
    def name_of(self) -> Ints:
        """Per topic of `names` the number of its name: the first one's that bears it."""
        first: dict[str, int] = {}
        found = [first.setdefault(name, at) for at, (name, _) in enumerate(self.names)]
        return np.array(found, dtype=np.int64)

    def lines(self, snapshot: str) -> pc.Expression | None:
        """Which lines of a snapshot's long tables are of the topics (None: all): of the others no
        more is held than one file's.
        """
        return lines_of(self.topic_of[snapshot])

    def find(self, table: pa.Table, topic_of: Ints) -> Ints:
        """The row of each line of a snapshot's table; ABSENT for what is not wanted."""
        return self.at(self.topics(table, topic_of), table)

    def topics(self, table: pa.Table, topic_of: Ints) -> Ints:
        """The topic of each line of a snapshot's table; ABSENT for what is not wanted."""
        number = integers(table["topic_no"], ABSENT)
        known = (number >= 0) & (number < len(topic_of))
        return np.where(known, topic_of[np.where(known, number, 0)], ABSENT)

    def at(self, topic: Ints, table: pa.Table) -> Ints:
        """The row of each line of a table, whose topics these are; ABSENT where there is none."""
        at, there = positions(keys(topic, integers(table["partition"], 0)), self.keys)
        return np.where(there & (topic >= 0), at, ABSENT)

    def cut(self, table: pa.Table, topic_of: Ints) -> pa.Table:
        """A snapshot's EPOCH_ENDS, its topics numbered as here."""
        if not table.num_rows:
            return table
        row = self.find(table, topic_of)
        own = row >= 0
        topic = pa.array(self.topic[row[own]], pa.int32())
        return table.filter(pa.array(own)).set_column(0, "topic_no", topic)

    def epoch_ends(self, row: Ints, epoch: Ints, cut: pa.Table) -> pa.Array:
        """Where leader epochs end by then, as `cut` tells; null where it does not."""
        topic = pa.array(self.topic[row], pa.int32())
        partition = pa.array(self.partition[row], pa.int32())
        known = pa.array(epoch, pa.int32(), mask=epoch < 0)
        return committed_offsets.ends(topic, partition, known, cut)


def topics(store: ClusterStore, snapshots: Iterable[str], wanted: Callable[[str], bool]) -> Topics:
    """The topics of these snapshots whose name is wanted.

    A snapshot that was pruned meanwhile, or is damaged, is missing in `topic_of`.
    """
    numbering = _Numbering(wanted)
    topic_of: dict[str, Ints] = {}
    for snapshot in snapshots:
        try:
            found = store.read("snapshots", snapshot, "topics", ["topic_no", "topic", "topic_id"])
        except StoreError as error:
            if error.code not in GONE:
                raise
            continue
        topic_of[snapshot] = numbering.of(found)
    return Topics(tuple(numbering.names), topic_of)


def rows(store: ClusterStore, topics: Topics) -> Rows:
    """The rows of these topics, as far as this store shows them.

    A snapshot that was pruned meanwhile, or is damaged, is missing in `topic_of`.
    """
    met = np.zeros(0, dtype=np.int64)
    topic_of: dict[str, Ints] = {}
    for snapshot, number in topics.topic_of.items():
        columns, own = ["topic_no", "partition"], lines_of(number)
        try:
            there = store.read("snapshots", snapshot, "partitions", columns, only=own)
        except StoreError as error:
            if error.code not in GONE:
                raise
            continue
        topic_of[snapshot] = number
        no = integers(there["topic_no"], 0)
        topic = number[no] if len(number) else np.zeros(0, dtype=np.int64)
        wanted = topic >= 0
        own_keys = keys(topic[wanted], integers(there["partition"], 0)[wanted])
        if not positions(own_keys, met)[1].all():
            met = np.union1d(met, own_keys)
    return Rows(topics.names, met >> 32, met & 0xFFFFFFFF, topic_of)


def lines_of(topic_of: Ints) -> pc.Expression | None:
    """Which lines of a snapshot's long tables are of wanted topics; None: all."""
    numbers = np.flatnonzero(topic_of >= 0)
    if len(numbers) == len(topic_of):
        return None
    return pc.field("topic_no").isin(pa.array(numbers, pa.int32()))


class _Numbering:
    """Topics by name and id, numbered as they are met."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.names: dict[tuple[str, str | None], int] = {}
        self._wanted = wanted
        self._last: tuple[pa.Table, Ints] | None = None

    def of(self, topics: pa.Table) -> Ints:
        """Per topic number of this table its number here, ABSENT where it is not wanted; the same
        array for the same topics.
        """
        if self._last is None or not self._last[0].equals(topics):
            number = integers(topics["topic_no"], 0)
            found = np.full(int(number.max(initial=-1)) + 1, ABSENT, dtype=np.int64)
            named = zip(topics["topic"].to_pylist(), topics["topic_id"].to_pylist(), strict=True)
            for at, topic in zip(number.tolist(), named, strict=True):
                if topic in self.names or self._wanted(topic[0]):
                    found[at] = self.names.setdefault(topic, len(self.names))
            self._last = topics, found
        return self._last[1]


_HELD = ["topic", "topic_id", "partition", "group_id", "committed_offset", "leader_epoch",
         "last_seen_at"]  # fmt: skip
_EVER = np.iinfo(np.int64).min


class Memory:
    """Offsets in the order in which they were last seen; `until` hands them out once each."""

    def __init__(self, offsets: pa.Table, seen: Ints) -> None:
        """`offsets` as `Commits.remember` takes them; `seen`: microseconds, rising."""
        self._offsets, self._seen, self._next = offsets, seen, 0

    def until(self, at: datetime) -> pa.Table:
        """What was last seen before `at`, and has not been handed out."""
        end = int(np.searchsorted(self._seen, microseconds(at)))
        found = self._offsets.slice(self._next, max(end - self._next, 0))
        self._next = max(self._next, end)
        return found


def unanalyzed(store: ClusterStore, snapshots: Sequence[str], read: Sequence[str]) -> list[str]:
    """Those of these snapshots that plans read for groups, because no analysis has, up to the
    newest of `read`, without those.

    Raises StoreError.
    """
    analysis = newest_analysis(store)
    manifest = None if analysis is None else store.manifest("findings", analysis)
    details = {} if manifest is None else manifest.details
    since, until = str(details.get("snapshot_id", "")), max(read, default="")
    unread = {*late(snapshots, manifest)}
    wanted = [name for name in snapshots if since <= name or name in unread]
    return [name for name in wanted if name < until and name not in read]


def memory(store: ClusterStore, rows: Rows, now: datetime) -> Memory:
    """What the newest analysis remembers of the topics of `rows`. Raises StoreError."""
    analysis = newest_analysis(store)
    there = {} if analysis is None else store.manifest("findings", analysis).tables
    own = pc.field("topic").isin(pa.array([name for name, _ in rows.names], pa.string()))
    parts = [
        _numbered(store.read("findings", analysis, table, _HELD, only=own), rows)
        for table in ("former_readers", "holds")
        if analysis is not None and table in there  # earlier versions know no former readers
    ]
    if not parts:
        return Memory(pa.table({}), np.zeros(0, dtype=np.int64))
    found = pa.concat_tables(parts)
    seen = integers(found["last_seen_at"].cast(pa.int64()), _EVER)
    # At a time that is still to come some clock was wrong: it may have been seen at any time.
    seen = np.where(seen > microseconds(now), _EVER, seen)
    order = np.argsort(seen, kind="stable")
    return Memory(found.take(pa.array(order)), seen[order])


def _numbered(held: pa.Table, rows: Rows) -> pa.Table:
    """The offsets on topics of `rows`, with name_no and topic_no in its `names`.

    topic_no is null where the offset is of an earlier topic of the name, or was seen without its id
    (brokers before 2.8), as in `safety.committed_offsets.same_topic`.
    """
    names = pa.array([name for name, _ in rows.names], pa.string())
    name_no = pc.index_in(held["topic"], value_set=names)
    held = held.filter(name_no.is_valid())
    name_no = name_no.drop_null()
    topic_no = pc.index_in(_both(held), value_set=pa.array([_key(*n) for n in rows.names]))
    return held.append_column("topic_no", topic_no).append_column("name_no", name_no)


def _both(held: pa.Table) -> pa.ChunkedArray:
    """Topic and id as one text, as `_key` makes it."""
    return pc.binary_join_element_wise(held["topic"], pc.fill_null(held["topic_id"], ""), "\0")


def _key(topic: str, topic_id: str | None) -> str:
    return f"{topic}\0{topic_id or ''}"


# Which partitions are guarded today by what a policy never lifts.

# What groups had committed, and whether all were known, is judged at each moment of the past.
_OF_ITS_TIME = (
    "groups-incomplete",
    "unread-by-group",
    "no-committed-offset",
    "beyond-last-stable-offset",
    "target-unresolved",
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """Rows that are guarded, of how many partitions, and on how many each guard stands."""

    rows: Flags
    partitions: int
    names: Mapping[str, int]


def guarded_now(
    store: ClusterStore,
    rows: Rows,
    lifted: Mapping[str, Collection[str]],
    suspected: Mapping[str, str],
) -> Guarded:
    """What the newest analysis says, but for guards that are `lifted` of a topic, and those of whom
    plans suspect to read unseen: the guard's name by topic.

    Without an analysis its guards are missing: whoever asks is told by other means.
    """
    names = sorted({name for name, _ in rows.names})
    # Also of a topic that was recreated since: guards that are asked for here are of its name.
    number = {name: at for at, name in enumerate(names)}
    of_name = np.array([number[name] for name, _ in rows.names], dtype=np.int64)
    own = keys(of_name[rows.topic], rows.partition)
    of = {number[name]: guard for name, guard in suspected.items() if name in number}
    unseen = {(key, of[key >> 32]) for key in own.tolist() if key >> 32 in of}
    pairs = _analysed(store, names, lifted) | unseen
    found = np.isin(own, np.array(sorted({key for key, _ in pairs}), dtype=np.int64))
    each = sorted(Counter(guard for _, guard in pairs).items())
    return Guarded(found, len({key for key, _ in pairs}), dict(each))


def _analysed(
    store: ClusterStore, names: list[str], lifted: Mapping[str, Collection[str]]
) -> set[tuple[int, str]]:
    """The guards of the newest analysis on partitions of these topics, numbered as the names."""
    analysis = store.latest("findings")
    if analysis is None:
        return set()
    wanted = pa.array(names, pa.string())
    columns, own = ["topic", "partition", "guards"], pc.field("topic").isin(wanted)
    table = store.read("findings", analysis, "reclaimable", columns, only=own)
    of, name = _flat(table)
    number = integers(pc.index_in(table["topic"], value_set=wanted), 0)
    stands = [
        guard not in _OF_ITS_TIME and guard not in lifted.get(names[topic], ())
        for guard, topic in zip(name, number[of].tolist(), strict=True)
    ]
    kept = np.flatnonzero(np.array(stands, dtype=bool))
    on = keys(number, integers(table["partition"], 0))[of[kept]]
    return set(zip(on.tolist(), (name[k] for k in kept.tolist()), strict=True))


def _flat(table: pa.Table) -> tuple[Ints, list[str]]:
    """Per guard the line it stands on, and its name."""
    guards = table["guards"].combine_chunks()
    if isinstance(guards, pa.ChunkedArray):
        guards = pa.concat_arrays(guards.chunks) if guards.num_chunks else pa.array([], guards.type)
    of = pc.list_parent_indices(guards).to_numpy(zero_copy_only=False).astype(np.int64)
    return of, pc.struct_field(pc.list_flatten(guards), "name").to_pylist()
