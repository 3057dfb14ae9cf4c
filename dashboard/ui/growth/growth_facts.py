"""What the growth what-if stands on: log dirs, and what each topic does in each of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.estimate.curve_tables import ReplicaCurves, integers
from dashboard.estimate.curves import Floats, Ints
from dashboard.views import days_to_full


@dataclass(frozen=True, slots=True)
class Disk:
    """One log dir, and how its disk's used bytes grow per hour; None is not known."""

    broker_id: int
    log_dir: str
    total_bytes: int | None
    usable_bytes: int | None
    low: float | None
    likely: float | None
    high: float | None
    growth: Mapping[str, Any] | None = None

    @property
    def used_bytes(self) -> int | None:
        if self.total_bytes is None or self.usable_bytes is None:
            return None
        return self.total_bytes - self.usable_bytes


@dataclass(frozen=True)
class Parts:
    """One row per topic and log dir that holds bytes of it.

    `topic` and `disk` are indices into `names` and the list of disks; `part` is the row of each
    replica of the curves, -1 where its log dir is not listed. `size`: bytes of log; `came` and
    `left`: bytes per hour, NaN where not known; `segment`: bytes of a full segment, over the
    replicas; `hours`: of the window in which the rates were seen.
    """

    names: list[str]
    part: Ints
    topic: Ints
    disk: Ints
    size: Floats
    came: Floats
    left: Floats
    segment: Floats
    replicas: Ints
    hours: Floats

    @property
    def growth(self) -> Floats:
        return np.asarray(self.came - self.left)


def disks_of(disks: pa.Table, growth: pa.Table) -> list[Disk]:
    """Every log dir that is known by name, in the order of the findings table `disks`."""
    rates = days_to_full.of_disks(growth.filter(growth["topic"].is_null()).to_pylist())
    found = []
    for row in disks.to_pylist():
        if row["log_dir"] is None:
            continue
        rate = rates.get((row["broker_id"], row["log_dir"]))
        low, likely, high = (
            rate["used_bytes_per_hour" + end] if rate else None for end in ("_low", "", "_high")
        )
        sizes = row["total_bytes"], row["usable_bytes"]
        found.append(Disk(row["broker_id"], row["log_dir"], *sizes, low, likely, high, rate))
    return found


def parts_of(curves: ReplicaCurves, growth: pa.Table, disks: list[Disk]) -> Parts:
    """Bytes of the curves' replicas by topic and log dir, with the rates that `growth` tells."""
    topics = pc.unique(curves.places["topic"])
    keys = _keys(curves.places, topics, disks)
    rows, part = np.unique(keys, return_inverse=True)
    if len(rows) and rows[0] < 0:
        rows, part = rows[1:], part - 1
    known = part >= 0
    read = curves.curves
    segment = np.minimum(read.segment_bytes, read.rolled)
    both = growth.filter(pc.and_(growth["topic"].is_valid(), growth["broker_id"].is_valid()))
    told = _Rates(both, _keys(both, topics, disks), rows)
    return Parts(
        names=topics.to_pylist(),
        part=part.astype(np.int64),
        topic=rows // max(len(disks), 1),
        disk=rows % max(len(disks), 1),
        size=_sums(read.below[read.last], part, known, len(rows)),
        came=told.of("bytes_in_per_hour"),
        left=told.of("bytes_out_per_hour"),
        segment=_sums(segment, part, known, len(rows)),
        replicas=np.bincount(part[known], minlength=len(rows)).astype(np.int64),
        hours=np.asarray(told.of("window_seconds") / 3600),
    )


class _Rates:
    """Columns of growth rows, by the row of the parts."""

    def __init__(self, rows: pa.Table, keys: Ints, wanted: Ints) -> None:
        self._rows = rows
        order = np.argsort(keys)
        at = np.searchsorted(keys[order], wanted)
        inside = np.minimum(at, max(len(keys) - 1, 0))
        there = keys[order][inside] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
        self._at = np.where(there, order[inside] if len(keys) else 0, -1)

    def of(self, name: str) -> Floats:
        taken = self._rows[name].take(pa.array(self._at, mask=self._at < 0))
        return np.asarray(pc.cast(taken, pa.float64()).to_numpy(), dtype=np.float64)


def _keys(table: pa.Table, topics: pa.Array, disks: list[Disk]) -> Ints:
    """One number per row, of its topic and log dir; -1 where either is not among them."""
    names = pa.array([f"{disk.broker_id} {disk.log_dir}" for disk in disks], pa.string())
    dirs = pc.binary_join_element_wise(table["broker_id"].cast(pa.string()), table["log_dir"], " ")
    disk = integers(pc.index_in(dirs, value_set=names), -1)
    topic = integers(pc.index_in(table["topic"], value_set=topics), -1)
    return np.where((disk < 0) | (topic < 0), -1, topic * len(disks) + disk)


def _sums(values: Ints, part: Ints, known: np.ndarray, rows: int) -> Floats:
    weights = values[known].astype(np.float64)
    return np.bincount(part[known], weights=weights, minlength=rows).astype(np.float64)
