"""Per replica: bytes of log below an offset, so that other offsets can be read without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, unfolded


def curves(partitions: pa.Table) -> pa.Table:
    """Two knots per replica, offset to bytes below it: the log start (0) and the log end (size).

    `partitions` are those of `reclaimable.described`. Reading between the knots in a straight
    line gives `bytes_likely` of the same replica. A replica without records has no curve.
    """
    at, measured = unfolded(column(partitions, "measured"))
    replicas = pa.Table.from_struct_array(measured)
    for name in ("topic", "partition"):
        replicas = replicas.append_column(name, column(partitions, name).take(at))
    with_records = pc.greater(replicas["end_offset"], replicas["start_offset"])
    replicas = replicas.filter(with_records)
    nothing = pa.repeat(pa.scalar(0, pa.int64()), replicas.num_rows)
    return pa.concat_tables(
        [
            _knots(replicas, replicas["start_offset"], nothing),
            _knots(replicas, replicas["end_offset"], replicas["size_bytes"]),
        ]
    )


def _knots(replicas: pa.Table, offset: pa.ChunkedArray, below: pa.Array) -> pa.Table:
    place = replicas.select(["topic", "partition", "broker_id", "log_dir"])
    return place.append_column("offset", offset).append_column("bytes_below", below)
