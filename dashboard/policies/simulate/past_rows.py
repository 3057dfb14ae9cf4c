"""Which partitions a policy would have met in kept snapshots: one row each, in rising order.

A topic that was recreated under its name is another topic: its offsets mean other records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.columns import Ints, keys, positions
from dashboard.estimate.curve_tables import integers
from dashboard.safety import epochs
from dashboard.store.snapshots import ClusterStore

ABSENT = -1  # an offset that no snapshot tells
GONE = ("SNAPSHOT_NOT_FOUND", "STORE_UNREADABLE")


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
        topic_of = self.topic_of[snapshot]
        return _lines_of(np.flatnonzero(topic_of >= 0).tolist(), len(topic_of))

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
        return epochs.ends(topic, partition, known, cut)


def rows(store: ClusterStore, snapshots: Iterable[str], wanted: Callable[[str], bool]) -> Rows:
    """The rows of these snapshots, for the topics whose name is wanted.

    A snapshot that was pruned meanwhile, or is damaged, is missing in `topic_of`.
    """
    numbering = _Numbering(wanted)
    met = np.zeros(0, dtype=np.int64)
    topic_of: dict[str, Ints] = {}
    for snapshot in snapshots:
        try:
            topics = store.read("snapshots", snapshot, "topics", ["topic_no", "topic", "topic_id"])
            own = _lines_of(numbering.chosen(topics), topics.num_rows)
            columns = ["topic_no", "partition"]
            there = store.read("snapshots", snapshot, "partitions", columns, only=own)
        except StoreError as error:
            if error.code not in GONE:
                raise
            continue
        found = topic_of[snapshot] = numbering.of(topics)
        topic = found[integers(there["topic_no"], 0)] if len(found) else np.zeros(0, dtype=np.int64)
        own = topic >= 0
        own_keys = keys(topic[own], integers(there["partition"], 0)[own])
        if not positions(own_keys, met)[1].all():
            met = np.union1d(met, own_keys)
    return Rows(tuple(numbering.names), met >> 32, met & 0xFFFFFFFF, topic_of)


def _lines_of(numbers: Collection[int], every: int) -> pc.Expression | None:
    if len(numbers) == every:
        return None
    return pc.field("topic_no").isin(pa.array(list(numbers), pa.int32()))


class _Numbering:
    """Topics by name and id, numbered as they are met."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.names: dict[tuple[str, str | None], int] = {}
        self._wanted = wanted
        self._last: tuple[pa.Table, dict[int, tuple[str, str | None]]] | None = None

    def chosen(self, topics: pa.Table) -> Mapping[int, tuple[str, str | None]]:
        """The wanted topics of this table, name and id by their topic number."""
        if self._last is None or not self._last[0].equals(topics):
            number = integers(topics["topic_no"], 0).tolist()
            named = zip(topics["topic"].to_pylist(), topics["topic_id"].to_pylist(), strict=True)
            found = {
                at: topic
                for at, topic in zip(number, named, strict=True)
                if topic in self.names or self._wanted(topic[0])
            }
            self._last = topics, found
        return self._last[1]

    def of(self, topics: pa.Table) -> Ints:
        """Per topic number of this table its number here, ABSENT where it is not wanted."""
        number = integers(topics["topic_no"], 0)
        found = np.full(int(number.max(initial=-1)) + 1, ABSENT, dtype=np.int64)
        for at, topic in self.chosen(topics).items():
            found[at] = self.names.setdefault(topic, len(self.names))
        return found
