"""Ends of logs that groups have passed meanwhile: read again, after the groups.

All parts of a cluster are read side by side, and its groups go on: a commit may lie past an end
that was read a moment before it. What still is past an end that was read after it tells nothing of
what was read (`safety.standing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dashboard.cluster.live import LiveCluster
from dashboard.domain.columns import LeaderOffsets, Placement, ints, keys, positions
from dashboard.domain.model import GroupListing, TopicPartition, TopicState


def later_ends(
    live: LiveCluster,
    topics: Mapping[str, TopicState],
    placement: Placement,
    offsets: LeaderOffsets,
    groups: GroupListing,
) -> LeaderOffsets:
    """`offsets` with the rows read again where a group committed past the end that they show.

    Raises ClusterError when nothing could be read.
    """
    number = {name: at for at, name in enumerate(placement.names)}
    topic = ints(number.get(o.topic, -1) for o in groups.offsets)
    partition = ints(o.partition for o in groups.offsets)
    committed = ints(
        -1 if o.committed_offset is None else o.committed_offset for o in groups.offsets
    )
    rows, there = positions(keys(topic, partition), keys(placement.topic, placement.partition))
    end = offsets.high_watermark[rows] if len(offsets.high_watermark) else committed
    late = np.unique(rows[there & (topic >= 0) & (end >= 0) & (committed > end)])
    if not len(late):
        return offsets
    place = [
        TopicPartition(placement.names[placement.topic[row]], int(placement.partition[row]))
        for row in late.tolist()
    ]
    again = live.offsets(place, topics)
    columns = {
        name: getattr(offsets, name).copy()
        for name in ("log_start", "last_stable", "high_watermark", "errors")
    }
    for row, key in zip(late.tolist(), place, strict=True):
        seen = again[key]
        values = (seen.log_start_offset, seen.last_stable_offset, seen.high_watermark)
        for name, value in zip(("log_start", "last_stable", "high_watermark"), values, strict=True):
            columns[name][row] = -1 if value is None else value
        columns["errors"][row] = seen.error
    return replace(offsets, **columns)
