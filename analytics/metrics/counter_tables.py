"""The findings table `counters` and `analytics.metrics.counters.Counters`: one into the other,
and the fold over the snapshots since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.bucket_view import BucketView
from analytics.earlier import since
from analytics.metrics import counters
from analytics.metrics.counters import DAY, HOUR, SERIES, Counters, Scrape
from analytics.metrics.scrapes import Brokers, Scrapes
from analytics.replicas.panes import Kind, Pane, Panes
from analytics.replicas.trend_tables import microseconds
from dashboard.core.arrow import column
from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import COUNTERS, places
from dashboard.estimate.curve_tables import integers
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

_SCHEMA = FINDING_TABLES["counters"].schema
_READ = [name for name in _SCHEMA.names if name not in {"snapshot_id", "taken_at"}]
_PARTS = ("from", "n", "last_at", "since", "amount", "resets", "missed")
_NAMES = pa.array(COUNTERS.values(), pa.string())


def carrying(base: Manifest | None) -> Manifest | None:
    """The analysis to go on from; None: an earlier version did not count, so all is folded once."""
    return base if base is not None and "counters" in base.tables else None


def new(cluster: ClusterStore, base: Manifest | None, snapshot: Manifest) -> list[str]:
    """The snapshots that `base` has not counted yet, up to and with this one."""
    counted = carrying(base)
    if counted is not None and counted.details["snapshot_id"] == snapshot.id:
        return []
    return since(cluster, counted, snapshot)


def carried(
    cluster: ClusterStore, base: Manifest | None, columns: Sequence[str] = _READ
) -> pa.Table:
    """`counters` of the analysis to go on from, or none."""
    counted = carrying(base)
    if counted is None:
        return _SCHEMA.empty_table().select(columns)
    return cluster.read("findings", counted.id, "counters", list(columns))


def fold(
    view: BucketView,
    snapshot: Manifest,
    base: Manifest | None,
    scrapes: Scrapes,
    newest: pa.Table,
) -> Counters:
    """The counters of this bucket up to this snapshot, whose `metrics` are `newest`. One that was
    pruned meanwhile is left out.
    """
    found, before = from_table(carried(view, base)), scrapes.snapshots()
    for snapshot_id in new(view, base, snapshot):
        try:
            scrape = _scrape(view, snapshot_id, scrapes.told.get(snapshot_id, {}), before)
            if scrape is None:
                continue
            rows = newest if snapshot_id == snapshot.id else metrics(view, snapshot_id)
        except StoreError as error:
            if snapshot_id == snapshot.id or error.code != "SNAPSHOT_NOT_FOUND":
                raise
            continue
        found = counters.stepped(found, _counted(rows), scrape)
        before.add(scrape.told, scrape.at, scrape.brokers)
    return found


def _scrape(
    view: BucketView, snapshot_id: str, told: Mapping[int, int], before: Brokers
) -> Scrape | None:
    """What a snapshot says beside its counters; None where nobody was asked for any."""
    manifest = view.manifest("snapshots", snapshot_id)
    asked = told.keys() | {int(b["broker_id"]) for b in manifest.details.get("metrics", ())}
    if not asked:
        return None
    topics, brokers = (
        column(view.read("snapshots", snapshot_id, table, [name]), name)
        for table, name in (("topics", "topic"), ("brokers", "broker_id"))
    )
    at, whole = microseconds(manifest), view.bucket == 0
    return Scrape(at, topics, brokers, asked, told, before, whole=whole)


def metrics(cluster: ClusterStore, snapshot_id: str) -> pa.Table:
    """broker_metrics of a snapshot, with the `topic` and `partition` that labels name."""
    columns = ["broker_id", "name", "labels", "value"]
    rows = cluster.read("snapshots", snapshot_id, "broker_metrics", columns)
    topics, partitions = places(column(rows, "labels"))
    return rows.append_column("topic", topics).append_column("partition", partitions)


def _counted(rows: pa.Table) -> pa.Table:
    """SERIES and value of `metrics` that are counters."""
    kind = pc.index_in(column(rows, "name"), value_set=_NAMES)
    named = pa.array(COUNTERS, pa.string()).take(kind)
    return rows.append_column("counter", named).filter(kind.is_valid()).select([*SERIES, "value"])


def from_table(table: pa.Table) -> Counters:
    """The counters in a table as it was written."""
    value = np.asarray(table["value"].to_numpy(), dtype=np.float64)
    told_at, missing = (_whole(table, name) for name in ("told_at", "missing"))
    hour, day = _panes(table, HOUR, "hour"), _panes(table, DAY, "day")
    return Counters(table.select(SERIES).combine_chunks(), value, told_at, missing, hour, day)


def to_table(found: Counters) -> pa.Table:
    """The columns of the findings table, without snapshot_id and taken_at."""
    columns = {name: found.series[name] for name in SERIES} | {
        "value": pa.array(found.value, from_pandas=True),
        "told_at": pa.array(found.told_at, mask=found.told_at == 0),
        "missing": pa.array(found.missing),
    }
    for name, both in (("hour", found.hour), ("day", found.day)):
        columns |= _columns(name, both.now) | _columns(f"{name}_before", both.before)
    return pa.table({name: columns[name].cast(_SCHEMA.field(name).type) for name in _READ})


def _columns(prefix: str, pane: Pane) -> dict[str, pa.Array]:
    none = pane["n"] == 0
    return {
        f"{prefix}_{part}": pa.array(pane[part], mask=None if part == "n" else none)
        for part in _PARTS
    }


def _panes(table: pa.Table, kind: Kind, name: str) -> Panes:
    def one(prefix: str) -> Pane:
        told = {part: _whole(table, f"{prefix}_{part}") for part in _PARTS}
        # Nobody asks when a pane's first sample was, or for the slope of nothing.
        rest = {part: np.zeros(table.num_rows, dtype=np.int64) for part in kind.whole()}
        return rest | told | {part: np.zeros(table.num_rows) for part in kind.sums()}

    return Panes(now=one(name), before=one(f"{name}_before"))


def _whole(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return integers(table[name].cast(pa.int64()), 0)
