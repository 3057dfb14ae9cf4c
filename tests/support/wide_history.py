"""20,000 partitions x 3 in which much happens, and whether they are analyzed alike elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.clock import format_time
from dashboard.domain.metric_names import BYTES_OUT, COUNTERS, labels
from dashboard.store.buckets import count_for
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES
from tests.bench.large_history import BROKERS, EVERY, Shape, stamped, tables_of
from tests.bench.large_inventory import write_segments
from tests.support.in_buckets import copied
from tests.support.lab import START, Lab
from tests.support.spark_history import analytics, declared

SHAPE = Shape(partitions=20_000, groups=200, snapshots=4, segments=3)
NOTHING = {"former_readers", "idle_topics"}  # all is written to, and read
LOST = 2  # a broker, as of the last snapshot
DECLARED = """
[topics."topic-0000*"]
readers = "groups"
replay_window = "7m"
[topics."topic-0001*"]
readers = "groups"
"""
_UNREACHABLE = "BROKER_UNREACHABLE"


def write(cluster: ClusterStore, began: datetime, shape: Shape = SHAPE) -> None:
    """Logs that grow, groups that commit and go, brokers' counters, half-way topics made anew, of
    which an inventory shows the folders of before, and at last a broker that is lost.
    """
    for step in range(shape.snapshots):
        _write(cluster, began, shape, step)


def _write(cluster: ClusterStore, began: datetime, shape: Shape, step: int) -> None:
    replicas = shape.partitions * BROKERS
    writer = cluster.begin("snapshots", began + EVERY * step, count_for(replicas))
    lost = step == shape.snapshots - 1
    tables = {
        name: stamped(SNAPSHOT_TABLES[name], columns, writer.id, writer.taken_at)
        for name, columns in (tables_of(shape, step) | {"broker_metrics": _metrics(step)}).items()
    }
    for name, rows in (_without(tables) if lost else tables).items():
        writer.split(name, rows, tables["topics"])
    if step:  # of the first snapshot's topics: those that were made anew had other ids
        write_segments(writer, shape, 0)
    answered = [b for b in range(BROKERS) if not (lost and b == LOST)]
    scanned_at = format_time(writer.taken_at - timedelta(minutes=1))
    scan = {"log_dirs": ["/d1"], "scanned_at": scanned_at, "gaps": [], "gaps_total": 0}
    writer.commit(1.0, {
        "groups_incomplete": [], "errors": [],
        "inventories": [{"broker_id": b, **scan} for b in range(BROKERS)] if step else [],
        "metrics": [{"broker_id": b, "answered": b in answered,
                     "error": None if b in answered else _UNREACHABLE} for b in range(BROKERS)],
    })  # fmt: skip


def _metrics(step: int) -> dict[str, Any]:
    """What brokers had sent of each topic; broker 1 was started again before the third snapshot."""
    rows = [
        (broker, BYTES_OUT, labels(topic=f"topic-{topic:05d}"), _count(step, broker, topic))
        for broker in range(BROKERS)
        for topic in range(SHAPE.topics)
    ] + [(b, COUNTERS["replication_bytes_in"], "{}", _count(step, b, 7)) for b in range(BROKERS)]
    names = ("broker_id", "name", "labels", "value")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _count(step: int, broker: int, topic: int) -> float:
    return 1000.0 * (topic + 1) * (step + 1 - (2 if broker == 1 and step > 1 else 0))


def _without(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The same where a broker does not answer: nothing of its own is known, nor where it leads."""

    def of(name: str, column: str) -> npt.NDArray[np.bool_]:
        return np.asarray(pc.equal(tables[name][column], LOST))

    found = dict(tables)
    for name in ("log_dirs", "broker_metrics"):
        found[name] = tables[name].filter(pa.array(~of(name, "broker_id")))
    for name, by, unknown in (
        ("brokers", "broker_id", []),
        ("replicas", "broker_id", ["size_bytes", "log_start_offset", "log_end_offset"]),
        ("partitions", "leader_id", ["log_start_offset", "last_stable_offset", "high_watermark"]),
    ):
        own = pa.array(of(name, by))
        for column in unknown:
            found[name] = _put(found[name], column, pc.if_else(own, None, found[name][column]))
        found[name] = _put(found[name], "error", pc.if_else(own, _UNREACHABLE, None))
    answers = pa.array(~of("brokers", "broker_id"))
    return found | {"brokers": _put(found["brokers"], "reachable", answers)}


def _put(table: pa.Table, column: str, values: Any) -> pa.Table:
    field = table.schema.field(column)
    return table.set_column(table.schema.get_field_index(column), field, values.cast(field.type))


def differing_elsewhere(lab: Lab) -> list[str]:
    """The tables that are not equal row for row where Spark runs as this process' environment says,
    in 16 buckets, so that sums are summed in tasks; here, by the lab's session, in few.
    """
    store = declared(lab, DECLARED)
    write(store.cluster, START)
    store.minutes = SHAPE.snapshots * 10
    here = store.analyze(full=True)
    assert {name for name, rows in here.tables.items() if not rows} == NOTHING
    other = copied(store.cluster, "other", [16])
    answer = analytics(store, "--cluster", "other", "--full")
    assert "error" not in answer, answer
    return [
        name
        for name in FINDING_TABLES
        if not store.cluster.read("findings", here.analysis_id, name).equals(
            other.read("findings", answer["analysis_id"], name)
        )
    ]
