"""When segments roll: when they are full, or `segment.ms` after their first record.

How much is written in `segment.ms` tells how large segments are that roll by time
(LogSegment.shouldRoll). It is carried with the curves from snapshot to snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from dashboard.core.arrow import column, looked_up
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import DEFAULT_SEGMENT_BYTES, UNKNOWN, Ints
from dashboard.store.snapshot_files import time_of


@dataclass(frozen=True)
class Rolls:
    """Each replica's segment.bytes and segment.ms (UNKNOWN: not known), and the time since the
    snapshot before; None where that is not known.
    """

    segment_bytes: Ints
    segment_ms: Ints
    took_ms: int | None


def default(count: int) -> Rolls:
    """Segments of the default size for so many replicas, of which no time is known."""
    size = np.full(count, DEFAULT_SEGMENT_BYTES, dtype=np.int64)
    return Rolls(size, np.full_like(size, UNKNOWN), None)


def rolls(places: pa.Table, topics: pa.Table, took_ms: int | None) -> Rolls:
    """Those of `places`' replicas by the topics' settings: topic, segment_bytes, segment_ms."""
    names, known = column(places, "topic"), column(topics, "topic")

    def of(name: str, missing: int) -> Ints:
        found = looked_up(names, known, column(topics, name))
        return integers(pa.chunked_array([found]), missing)

    return Rolls(of("segment_bytes", DEFAULT_SEGMENT_BYTES), of("segment_ms", UNKNOWN), took_ms)


def took_ms(earlier: str, later: str) -> int | None:
    """Milliseconds between two snapshots; None without an earlier one, or where clocks went back.

    Ids are times: the earlier snapshot itself may be pruned.
    """
    began, ended = time_of(earlier), time_of(later)
    if began is None or ended is None or began >= ended:
        return None
    return (ended - began) // timedelta(milliseconds=1)


def rolled(was: Ints, growth: Ints, size: Ints, by: Rolls) -> Ints:
    """Bytes written in `segment.ms`: the mean over the bytes of each log; UNKNOWN until it grew.

    `was` is the mean before, `growth` what came since then, `size` the log's bytes now.
    """
    if by.took_ms is None:
        return was
    grew = (growth > 0) & (by.segment_ms < UNKNOWN)
    now = np.clip(growth / by.took_ms * by.segment_ms, 1, 1 << 62)
    new = was == UNKNOWN
    weight = np.where(new, 1.0, np.minimum(growth / np.maximum(size, 1), 1.0))
    mean = np.rint(np.where(new, 0, was) * (1 - weight) + now * weight)
    return np.where(grew, mean.astype(np.int64), was)
