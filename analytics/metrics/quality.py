"""How complete a snapshot is: per table, and per broker where a broker answers for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import records, shaped
from dashboard.store.tables import FINDING_TABLES, replicas_proper

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Counted:
    """A row of `counts`."""

    table: str
    broker_id: int | None
    rows: int | None = None
    expected: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A broker that was asked for its own metrics, as the manifest has it."""

    broker_id: int
    answered: bool
    error: str | None
    missing: Sequence[str] = ()


# Every broker has these beans; FetcherLagMetrics only those that follow a leader.
_BEANS = 3


def counts(read: Mapping[str, pa.Table]) -> pa.Table:
    """table, broker_id, rows, expected and error of the long tables: how many values are known of
    how many, and one error. `read`: partitions, replicas and group_offsets of a snapshot.

    Tables `replicas` (sizes, from DescribeLogDirs) and `replica_offsets` (ListOffsets with replica
    id -2; both lie in the snapshot's `replicas`) are counted per broker: rows of those there,
    expected of those assigned to it, for which what it lists besides does not stand in. Counts of
    parts may be summed again.
    """
    partitions, replicas = read["partitions"], read["replicas"]
    found = replicas.filter(replicas_proper(replicas))
    assigned = pc.value_counts(pc.list_flatten(partitions["replicas"]))
    parts = [_all(name, read[name]) for name in ("partitions", "group_offsets")]
    for table, name in _OF_REPLICAS:
        present = found.group_by("broker_id").aggregate([(name, "count"), ("error", "min")])
        parts.append(_counts(table, present["broker_id"], rows=present[f"{name}_count"],
                             error=present["error_min"]))  # fmt: skip
        brokers, expected = (assigned.field(part) for part in ("values", "counts"))
        parts.append(_counts(table, brokers, expected=expected))
    return summed(pa.concat_tables(parts))


_OF_REPLICAS = (("replicas", "size_bytes"), ("replica_offsets", "log_end_offset"))
_COUNTS = pa.schema(
    [
        ("table", pa.string()),
        ("broker_id", pa.int32()),
        ("rows", pa.int64()),
        ("expected", pa.int64()),
        ("error", pa.string()),
    ]
)


def _all(table: str, rows: pa.Table) -> pa.Table:
    errors = rows["error"]
    row = {"table": table, "rows": errors.null_count, "expected": len(errors),
           "error": pc.min(errors).as_py()}  # fmt: skip
    return pa.Table.from_pylist([row], schema=_COUNTS)


def _counts(table: str, broker_id: pa.ChunkedArray, **columns: pa.ChunkedArray) -> pa.Table:
    known = {"table": pa.repeat(table, len(broker_id)), "broker_id": broker_id, **columns}
    return shaped(known, len(broker_id), _COUNTS)


def summed(found: pa.Table) -> pa.Table:
    """One row per table and broker."""
    keys = ["table", "broker_id"]
    sums = found.group_by(keys).aggregate([("rows", "sum"), ("expected", "sum"), ("error", "min")])
    return sums.rename_columns(_COUNTS.names)


def quality(found: pa.Table, read: Mapping[str, pa.Table], incomplete: Sequence[str]) -> pa.Table:
    """The `quality` table from `counts` and the snapshot's brokers, log_dirs and groups.

    Per broker: `replicas` and `replica_offsets` of those assigned to it, and
    `log_dirs` that answered of those it listed. For the cluster as a whole (broker_id null): rows
    without an error of all; groups are complete only if nothing in `incomplete` casts doubt on
    the list.
    """
    brokers = {row["broker_id"]: row["error"] for row in read["brokers"].to_pylist()}
    told = {(row.table, row.broker_id): row for row in records(found, _Counted)}
    (groups,) = records(summed(_all("groups", read["groups"])), _Counted)
    rows = [
        *_of_replicas(told, brokers),
        *_of_log_dirs(read["log_dirs"], brokers),
        _whole(told["partitions", None]),
        _whole(told["group_offsets", None]),
        _whole(groups, "; ".join(incomplete) or None),
    ]
    return pa.Table.from_pylist(rows, schema=FINDING_TABLES["quality"].unstamped.schema)


def with_left_out(found: pa.Table, left_out: Mapping[str, str]) -> pa.Table:
    """`found`, and a row that names the earlier snapshots and analyses that were not readable."""
    if not left_out:
        return found
    why = "; ".join(left_out[name] for name in sorted(left_out))
    row = _row("history", None, 0, len(left_out), why)
    return pa.concat_tables([found, pa.Table.from_pylist([row], schema=found.schema)])


def _of_replicas(
    told: Mapping[tuple[str, int | None], _Counted], brokers: Mapping[int, str | None]
) -> Iterator[_Row]:
    # A broker that nothing assigns to, and that does not say who it is, is none of the cluster's.
    assigned = {broker for (table, broker), row in told.items() if broker is not None
                and table == "replicas" and row.expected}  # fmt: skip
    for broker_id in sorted({*brokers, *assigned}):
        for table, _ in _OF_REPLICAS:
            found = told.get((table, broker_id), _Counted(table, broker_id))
            why = brokers.get(broker_id) or found.error
            yield _row(table, broker_id, found.rows or 0, found.expected or 0, why)


def _of_log_dirs(log_dirs: pa.Table, brokers: Mapping[int, str | None]) -> Iterator[_Row]:
    listed = _by_broker(log_dirs, "broker_id", "error")
    for broker_id in sorted(brokers):
        found = listed.get(broker_id, {"broker_id_count": 1, "error_count": 1})
        total = found["broker_id_count"]
        why = found.get("error_min") or brokers[broker_id]
        yield _row("log_dirs", broker_id, total - found["error_count"], total, why)


def with_metrics(quality: pa.Table, metrics: Sequence[object]) -> pa.Table:
    """The table with a row of `broker_metrics` for each broker that was asked for its own metrics.

    `metrics` is the snapshot manifest's: `broker_id`, `answered`, `error`, `missing` (beans).
    """
    import msgspec  # what runs beside Spark's tasks does without

    asked = msgspec.convert(metrics, list[_Asked])
    rows = pa.Table.from_pylist(list(_of_metrics(asked)), schema=quality.schema)
    return pa.concat_tables([quality, rows])


def _of_metrics(asked: Sequence[_Asked]) -> Iterator[_Row]:
    for broker in asked:
        rows = _BEANS - len(broker.missing) if broker.answered else 0
        why = broker.error or f"not in its metrics: {', '.join(broker.missing)}"
        yield _row("broker_metrics", broker.broker_id, rows, _BEANS, why)


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


def _whole(found: _Counted, doubt: str | None = None) -> _Row:
    complete = found.rows == found.expected
    return {
        "table": found.table,
        "broker_id": None,
        "rows": found.rows,
        "expected_rows": found.expected,
        "complete": complete and doubt is None,
        "reason": doubt or found.error,
    }
