"""How complete a snapshot is: per table, and per broker where a broker answers for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.tables import FINDING_TABLES

_Row = dict[str, Any]


# Every broker has these beans; FetcherLagMetrics only those that follow a leader.
_BEANS = 3


def quality(read: Mapping[str, pa.Table], incomplete: Sequence[str]) -> pa.Table:
    """The `quality` table from the snapshot's tables by name.

    Per broker: tables `replicas` (sizes, from DescribeLogDirs) and `replica_offsets` (ListOffsets
    with replica id -2; both lie in the snapshot's `replicas`) of those assigned to it, and
    `log_dirs` that answered of those it listed. For the cluster as a whole (broker_id null): rows
    without an error of all; groups are complete only if nothing in `incomplete` casts doubt on
    the list.
    """
    brokers = {row["broker_id"]: row["error"] for row in read["brokers"].to_pylist()}
    rows = [
        *_of_replicas(read["partitions"], read["replicas"], brokers),
        *_of_log_dirs(read["log_dirs"], brokers),
        _whole("partitions", read["partitions"]),
        _whole("group_offsets", read["group_offsets"]),
        _whole("groups", read["groups"], "; ".join(incomplete) or None),
    ]
    spec = FINDING_TABLES["quality"]
    return pa.Table.from_pylist(rows, schema=spec.schema).drop_columns(["snapshot_id", "taken_at"])


def with_left_out(found: pa.Table, left_out: Mapping[str, str]) -> pa.Table:
    """`found`, and a row that names the earlier snapshots and analyses that were not readable."""
    if not left_out:
        return found
    why = "; ".join(left_out[name] for name in sorted(left_out))
    row = _row("history", None, 0, len(left_out), why)
    return pa.concat_tables([found, pa.Table.from_pylist([row], schema=found.schema)])


def _of_replicas(
    partitions: pa.Table, replicas: pa.Table, brokers: Mapping[int, str | None]
) -> Iterator[_Row]:
    counts = pc.value_counts(pc.list_flatten(partitions["replicas"])).to_pylist()
    assigned = {count["values"]: count["counts"] for count in counts}
    present = _by_broker(
        replicas.filter(pc.invert(pc.fill_null(replicas["is_future"], False))),
        "size_bytes",
        "log_end_offset",
    )
    for broker_id in sorted({*brokers, *assigned}):
        found = present.get(broker_id, {})
        for table, column in (("replicas", "size_bytes"), ("replica_offsets", "log_end_offset")):
            why = brokers.get(broker_id) or found.get("error_min")
            rows = found.get(f"{column}_count", 0)
            yield _row(table, broker_id, rows, assigned.get(broker_id, 0), why)


def _of_log_dirs(log_dirs: pa.Table, brokers: Mapping[int, str | None]) -> Iterator[_Row]:
    listed = _by_broker(log_dirs, "broker_id", "error")
    for broker_id in sorted(brokers):
        found = listed.get(broker_id, {"broker_id_count": 1, "error_count": 1})
        total = found["broker_id_count"]
        why = found.get("error_min") or brokers[broker_id]
        yield _row("log_dirs", broker_id, total - found["error_count"], total, why)


def with_metrics(quality: pa.Table, metrics: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The table with a row of `broker_metrics` for each broker that was asked for its own metrics.

    `metrics` is the snapshot manifest's: `broker_id`, `answered`, `error`, `missing` (beans).
    """
    rows = pa.Table.from_pylist(list(_of_metrics(metrics)), schema=quality.schema)
    return pa.concat_tables([quality, rows])


def _of_metrics(metrics: Sequence[Mapping[str, Any]]) -> Iterator[_Row]:
    for broker in metrics:
        missing = list(broker.get("missing", ()))
        rows = _BEANS - len(missing) if broker["answered"] else 0
        why = broker["error"] or f"not in its metrics: {', '.join(missing)}"
        yield _row("broker_metrics", broker["broker_id"], rows, _BEANS, why)


def _by_broker(rows: pa.Table, *counted: str) -> dict[int, _Row]:
    """Per broker: how many values are known in the columns `counted`, and one error."""
    sums = [*((name, "count") for name in counted), ("error", "min")]
    found = rows.group_by("broker_id").aggregate(sums).to_pylist()
    return {row["broker_id"]: row for row in found}


def _row(table: str, broker_id: int | None, rows: int, expected: int, why: str | None) -> _Row:
    complete = rows >= expected
    unexplained = f"{expected - rows} of {expected} missing, no error was given"
    return {
        "table": table,
        "broker_id": broker_id,
        "rows": rows,
        "expected_rows": expected,
        "complete": complete,
        "reason": None if complete else why or unexplained,
    }


def _whole(table: str, rows: pa.Table, doubt: str | None = None) -> _Row:
    errors = rows["error"]
    return {
        "table": table,
        "broker_id": None,
        "rows": errors.null_count,
        "expected_rows": rows.num_rows,
        "complete": errors.null_count == rows.num_rows and doubt is None,
        "reason": doubt or pc.min(errors).as_py(),
    }
