"""Bytes below each partition's targets: read from its replicas' curves, then summed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas.points import matched
from dashboard.core.arrow import column, places
from dashboard.estimate.curve_tables import ReplicaCurves, integers
from dashboard.estimate.curves import METHODS, PROPORTIONAL, Flags, Freed, Ints

TARGETS = ("committed", "end", "without")


def with_bytes(
    partitions: pa.Table, replicas: pa.Table, curves: ReplicaCurves
) -> tuple[pa.Table, pa.Table]:
    """`partitions` with sums over their replicas, and `replicas` (`points.measured`) with theirs.

    Per target NAME: NAME_low, NAME_likely, NAME_high, NAME_at_once, NAME_later (bytes; null where
    the target or every replica is unknown) and NAME_method, the least sure of its replicas'
    estimators; held_bytes lie at or above the committed target. Replicas get at (the row of their
    partition; those of no partition are left out), committed_at_once and held_bytes.
    """
    at = pc.index_in(_where(replicas), value_set=_where(partitions))
    replicas = replicas.filter(at.is_valid()).append_column("at", at.drop_null())
    row = integers(replicas["at"], 0)
    sums = {}
    for name in TARGETS:
        target = column(partitions, f"{name}_target").take(pa.array(row))
        freed, known, endless = _freed(replicas, curves, target)
        for part, values in _parts(freed):
            sums[f"{name}_{part}"] = _summed(row, values, known, partitions.num_rows)
        for part in ("high", "at_once_high"):
            sums[f"{name}_{part}"] = _without(sums[f"{name}_{part}"], row[endless])
        worst = np.zeros(partitions.num_rows, dtype=np.int64)
        np.maximum.at(worst, row[known], freed.method[known])
        sums[f"{name}_method"] = pa.array(METHODS).take(pa.array(worst))
        if name == "committed":
            held = integers(replicas["size_bytes"], 0) - freed.likely
            sums["held_bytes"] = _summed(row, held, known, partitions.num_rows)
            replicas = replicas.append_column(
                "committed_at_once", pa.array(freed.once, mask=~known)
            ).append_column("held_bytes", pa.array(held, mask=~known))
    for name, values in sums.items():
        partitions = partitions.append_column(name, values)
    return partitions, replicas


def _where(table: pa.Table) -> pa.Array:
    return places(column(table, "topic_no"), column(table, "partition"))


def _parts(freed: Freed) -> tuple[tuple[str, Ints], ...]:
    return (
        ("low", freed.low),
        ("likely", freed.likely),
        ("high", freed.high),
        ("at_once", freed.once),
        ("at_once_low", freed.once_low),
        ("at_once_high", freed.once_high),
    )


def _freed(
    replicas: pa.Table, found: ReplicaCurves, target: pa.Array
) -> tuple[Freed, Flags, Flags]:
    """What each replica frees, where that is known, and where the most of it is not.

    A log without records frees nothing.
    """
    bounds = (column(replicas, "start"), column(replicas, "end"), target)
    known = np.logical_and.reduce([b.is_valid().to_numpy(zero_copy_only=False) for b in bounds])
    start, to = (integers(pa.chunked_array([b]), 0) for b in (bounds[0], target))
    row = matched(found.places, replicas)
    read = found.curves.freed(start[row], to[row])
    endless = (to[row] > start[row]) & ~found.curves.bounded(to[row])

    def spread(values: Ints, missing: int = 0) -> Ints:
        wide = np.full(replicas.num_rows, missing, dtype=np.int64)
        wide[row] = values
        return wide

    return (
        Freed(
            low=spread(read.low),
            likely=spread(read.likely),
            high=spread(read.high),
            once_low=spread(read.once_low),
            once=spread(read.once),
            once_high=spread(read.once_high),
            method=spread(read.method, PROPORTIONAL),
        ),
        known,
        known & (spread(endless.astype(np.int64)) > 0),
    )


def _summed(row: Ints, values: Ints, known: Flags, rows: int) -> pa.Array:
    """Sums per partition; null where no replica is known."""
    sums, counts = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    np.add.at(sums, row[known], values[known])
    np.add.at(counts, row[known], 1)
    return pa.array(sums, mask=counts == 0)


def _without(sums: pa.Array, rows: Ints) -> pa.Array:
    """`sums`, null in some rows."""
    unknown = np.zeros(len(sums), dtype=bool)
    unknown[rows] = True
    return pc.if_else(pa.array(unknown), None, sums)
