"""A history whose followers lag in every way, made from arithmetic.

Most keep up. Of the others some fall behind snapshot by snapshot, some catch up from far, some
stand still; these are out of the ISR. Some lack a few records in one snapshot, none in the next.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.bench import large_history
from tests.bench.large_history import BROKERS, EVERY, Ints, Shape

NEVER = 1 << 40  # snapshots: half of them is when topics of `large_history` are recreated
TABLES = ("brokers", "topics", "configs", "partitions", "replicas", "log_dirs", "reassignments")


def write(cluster: ClusterStore, began: datetime, shape: Shape, step: int) -> str:
    """Write and commit the snapshot of one step; its id."""
    tables = large_history.tables_of(replace(shape, snapshots=NEVER), step)
    writer = cluster.begin("snapshots", began + EVERY * step)
    tables["replicas"] = _lagging(tables["partitions"], tables["replicas"], step, writer.taken_at)
    for name in TABLES:
        spec = SNAPSHOT_TABLES[name]
        writer.write(name, large_history.stamped(spec, tables[name], writer.id, writer.taken_at))
    writer.commit(1.0, {"brokers": [], "groups_incomplete": [], "errors": []})
    return writer.id


def _lagging(
    partitions: dict[str, Any], replicas: dict[str, Any], step: int, taken_at: datetime
) -> dict[str, Any]:
    """`replicas` with log ends of their own, the instants of reading them, leaders and the ISR."""
    number = np.tile(np.arange(len(partitions["high_watermark"])), BROKERS)
    broker = np.asarray(replicas["broker_id"])
    end, start = (np.tile(partitions[n], BROKERS) for n in ("high_watermark", "log_start_offset"))
    leads = number % BROKERS == broker
    behind, out = _behind(number, broker, step)
    behind = np.where(leads, 0, np.minimum(behind, end - start))
    # Brokers are asked side by side: each has read its log ends a moment after the one before.
    observed = [taken_at + timedelta(milliseconds=40 * b) for b in range(BROKERS)]
    return replicas | {
        "log_end_offset": pa.array(end - behind),
        "observed_at": pa.array(observed, pa.timestamp("us", "UTC")).take(pa.array(broker)),
        "is_leader": leads,
        "in_sync": leads | ~out,
    }


def _behind(number: Ints, broker: Ints, step: int) -> tuple[Ints, Any]:
    """Records that each follower lacks, and which are out of sync."""
    kind = (number * 7 + broker * 3) % 1000
    rate = number % 7 * 130  # of large_history: records that a leader writes between snapshots
    records = np.select(
        [kind < 3, kind < 6, kind < 9, kind < 40],
        [5_000 + rate // 2 * step, np.maximum(45_000 - 700 * step, 0), 20_000 + rate * step,
         np.where((number + step) % 4 == 0, 2, 0)],
        0,
    )  # fmt: skip
    return records, kind < 9
