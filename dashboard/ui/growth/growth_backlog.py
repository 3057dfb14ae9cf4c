"""How fast grows what nobody has consumed yet, which a policy leaves? From two analyses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.estimate.curves import Floats
from dashboard.ui.growth.growth_facts import Parts

LEAST = timedelta(minutes=10)  # shorter, a single commit decides
MOST = timedelta(hours=24)
_BOUNDS = ("bytes_high", "bytes_likely", "bytes_low")  # most below the target: least is left


def earlier(taken: Sequence[tuple[str, datetime]], now: datetime) -> tuple[str, datetime] | None:
    """The oldest of these analyses that is LEAST to MOST before `now`; None: there is none."""
    fitting = [pair for pair in taken if LEAST <= now - pair[1] <= MOST]
    return min(fitting, key=lambda pair: pair[1], default=None)


def backlog(
    parts: Parts, now: pa.Table, before: pa.Table | None, hours: float
) -> tuple[Floats, Floats, Floats]:
    """Per topic of `parts`, low, likely, high: bytes per hour that came above the target.

    `now` and `before`, `hours` earlier, are facts of the same groups. Likely is NaN where it is
    not known: then it is anything from nothing (every group keeps up) to all that comes. It is
    never more than that.
    """
    weights = np.nan_to_num(parts.came)
    come = np.bincount(parts.topic, weights=weights, minlength=len(parts.names)).astype(np.float64)
    if before is None or hours <= 0:
        return np.zeros(len(come)), np.full(len(come), np.nan), come
    late, early = (_left(table, parts.names) for table in (now, before))
    low = (late[0] - early[2]) / hours
    likely = (late[1] - early[1]) / hours
    high = (late[2] - early[0]) / hours
    unknown = np.isnan(likely)
    return (
        np.where(unknown, 0.0, np.clip(low, -come, come)),
        np.clip(likely, -come, come),
        np.where(unknown, come, np.clip(high, -come, come)),
    )


def _left(facts: pa.Table, names: list[str]) -> tuple[Floats, Floats, Floats]:
    """Bytes at or above the target per topic: least, likely, most; NaN where any is not known."""
    topic = pc.fill_null(pc.index_in(facts["topic"], value_set=pa.array(names)), len(names))
    at = np.asarray(topic.to_numpy(), dtype=np.int64)
    size = _floats(facts["size_bytes"])
    sums = [
        np.bincount(at, weights=size - _floats(facts[name]), minlength=len(names) + 1)
        for name in _BOUNDS
    ]
    there = np.bincount(at, minlength=len(names) + 1) > 0
    least, likely, most = (np.where(there, values, np.nan)[: len(names)] for values in sums)
    return least, likely, most


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(), dtype=np.float64)
