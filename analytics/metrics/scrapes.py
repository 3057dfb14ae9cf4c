"""What of a snapshot was read when, and of whom: when its log ends were read, and which counters
each broker told.

Kafka makes the counter of a topic with its first request, so a broker that tells a counter at all,
but not of a topic, has counted 0 there since its start. One task sees some topics alone: what any
of them saw of a broker goes to all.

A task sees a part of the replicas, so the first and the last moment are told beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas.panes import SECOND
from dashboard.core.clock import microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import CONSUMER_LAG, COUNTERS
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Ints
from dashboard.store.snapshots import ClusterStore

_TIMES = pa.schema([("snapshot_id", pa.string()), ("first", pa.int64()), ("last", pa.int64())])
_READ = ["topic_no", "is_future", "log_end_offset", "observed_at"]


def read_times(cluster: ClusterStore, ids: Sequence[str]) -> pa.Table:
    """snapshot_id, first and last (microseconds, null: no log end was read) of these snapshots, by
    the replicas that `points.told` tells of.
    """
    rows = []
    for snapshot_id in ids:
        found = cluster.read("snapshots", snapshot_id, "replicas", _READ)
        topics = cluster.read("snapshots", snapshot_id, "topics", ["topic_no"])["topic_no"]
        here = pc.and_(
            pc.invert(pc.fill_null(found["is_future"], False)),
            pc.is_in(found["topic_no"], value_set=topics),
        )
        taken_at = microseconds(cluster.manifest("snapshots", snapshot_id).taken_at)
        first, last = between(found.filter(here), taken_at)
        rows.append({"snapshot_id": snapshot_id, "first": first, "last": last})
    return pa.Table.from_pylist(rows, schema=_TIMES)


def between(replicas: pa.Table, taken_at: int) -> tuple[int | None, int | None]:
    """When the first and the last log end of `replicas` (log_end_offset, observed_at) were read;
    `taken_at` (microseconds) is that of their snapshot.
    """
    told = replicas.filter(replicas["log_end_offset"].is_valid())
    ends = pc.min_max(pc.fill_null(told["observed_at"].cast(pa.int64()), taken_at)).as_py()
    return ends["min"], ends["max"]


def summed(times: pa.Table) -> pa.Table:
    """`read_times` of parts: one row per snapshot."""
    found = times.group_by("snapshot_id").aggregate([("first", "min"), ("last", "max")])
    return found.rename_columns(_TIMES.names)


def seconds(times: pa.Table) -> dict[str, float]:
    """By snapshot the seconds between its first and its last log end."""
    return {
        row["snapshot_id"]: ((row["last"] or 0) - (row["first"] or 0)) / SECOND
        for row in times.to_pylist()
    }


# By its bit in `told`.
TOLD = (*COUNTERS, "fetcher_lag")
_NAMES = pa.array([*COUNTERS.values(), CONSUMER_LAG])
_SCRAPES = pa.schema(
    [("snapshot_id", pa.string()), ("broker_id", pa.int32()), ("told", pa.int64())]
)
_BEFORE = pa.schema([("broker_id", pa.int32()), ("counter", pa.string()), ("told_at", pa.int64())])


def told(cluster: ClusterStore, ids: Sequence[str]) -> pa.Table:
    """snapshot_id, broker_id, told (bits of TOLD) of snapshots, by the metrics that are seen here.

    A snapshot that was pruned meanwhile has none.
    """
    found = [_SCRAPES.empty_table()]
    for snapshot_id in ids:
        try:
            columns = ["broker_id", "name"]
            rows = cluster.read("snapshots", snapshot_id, "broker_metrics", columns)
        except StoreError as error:
            if error.code != "SNAPSHOT_NOT_FOUND":
                raise
            continue
        kind = pc.index_in(rows["name"], value_set=_NAMES).cast(pa.int64())
        rows = pa.table({"broker_id": rows["broker_id"], "told": pc.shift_left(1, kind)})
        rows = rows.filter(rows["told"].is_valid()).group_by(["broker_id", "told"]).aggregate([])
        sums = rows.group_by("broker_id").aggregate([("told", "sum")])
        stamp = pa.repeat(pa.scalar(snapshot_id), sums.num_rows)
        found.append(pa.table([stamp, *sums.columns], schema=_SCRAPES))
    return pa.concat_tables(found)


BEFORE = ["topic", "broker_id", "counter", "told_at"]


def before(counters: pa.Table) -> pa.Table:
    """broker_id, counter and told_at (microseconds): when brokers told of a counter last, by the
    rows of earlier `counters` (BEFORE) that are no topic's.
    """
    own = counters.filter(pc.and_(counters["topic"].is_null(), counters["told_at"].is_valid()))
    times = own["told_at"].cast(pa.int64())
    return pa.table([own["broker_id"], own["counter"], times], schema=_BEFORE)


@dataclass(frozen=True)
class Scrapes:
    """`told` by snapshot and broker, and by broker `before` the first of these snapshots."""

    told: Mapping[str, Mapping[int, int]]
    before: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, told: pa.Table, before: pa.Table) -> Scrapes:
        """From `told` of all parts of a store, and `before` of any of them."""
        distinct = told.group_by(["snapshot_id", "broker_id", "told"]).aggregate([])
        seen: dict[str, dict[int, int]] = {}
        for row in distinct.to_pylist():
            brokers = seen.setdefault(row["snapshot_id"], {})
            brokers[row["broker_id"]] = brokers.get(row["broker_id"], 0) | row["told"]
        times: dict[int, list[int]] = {}
        for row in before.to_pylist():
            at = times.setdefault(row["broker_id"], [0] * len(TOLD))
            at[TOLD.index(row["counter"])] = row["told_at"]
        return cls(seen, times)

    def telling(self, snapshot_id: str, counter: str) -> frozenset[int]:
        """Brokers that told of one of TOLD in a snapshot."""
        bit = TOLD.index(counter)
        told = self.told.get(snapshot_id, {})
        return frozenset(broker for broker, bits in told.items() if bits >> bit & 1)

    def snapshots(self) -> Brokers:
        """What was known before the first snapshot."""
        ids = sorted({b for brokers in self.told.values() for b in brokers} | self.before.keys())
        last = [self.before.get(broker, [0] * len(TOLD)) for broker in ids]
        times = np.array(last, dtype=np.int64).reshape(len(ids), len(TOLD))
        return Brokers(np.array(ids, dtype=np.int64), times)


@dataclass
class Brokers:
    """When each broker (`ids`, sorted) told of each of TOLD last, in microseconds; 0: never."""

    ids: Ints
    last: Ints

    def at(self, rows: pa.Table) -> Ints:
        """Of rows (broker_id, counter) when their counter was told last."""
        if not len(self.ids):
            return np.zeros(rows.num_rows, dtype=np.int64)
        broker = integers(rows["broker_id"], -1)
        row = np.minimum(np.searchsorted(self.ids, broker), len(self.ids) - 1)
        kind = integers(pc.index_in(rows["counter"], value_set=pa.array(TOLD)), 0)
        return np.where(self.ids[row] == broker, self.last[row, kind], 0)

    def add(self, told: Mapping[int, int], at: int, named: pa.Array) -> None:
        """What brokers told in a snapshot taken then, which names these; others are forgotten."""
        self.last[~np.isin(self.ids, named.to_numpy())] = 0
        for row, broker in enumerate(self.ids.tolist()):
            bits = told.get(broker, 0)
            self.last[row, [bool(bits >> kind & 1) for kind in range(len(TOLD))]] = at
