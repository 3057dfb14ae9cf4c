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
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
import pyarrow.compute as pc
from dashboard.core.errors import ClusterError
from dashboard.domain.columns import Sizes
from dashboard.domain.model import TopicState
from dashboard.inventory.loading import Inventory

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


# Which topic names that disks and brokers show the cluster will not call absent.
#
# The metadata of all topics leaves out, without a word, those that we may not describe: to us their
# folders would look deleted. Asked by name, the cluster says whether a topic is not there or
# hidden.

# What only a topic that is not there is answered with; the second one by names Kafka cannot have.
_ABSENT = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
_NAMES_PER_REQUEST = 5000


class AsksTopics(Protocol):
    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...


def doubtful_topics(
    live: AsksTopics,
    listed: Mapping[str, TopicState],
    sizes: Sizes,
    inventories: Sequence[Inventory],
) -> list[str]:
    """Names that log dirs show, the metadata `listed` does not, and the cluster does not deny.

    A topic that we may not describe (TOPIC_AUTHORIZATION_FAILED), that came meanwhile, or that
    could not be asked for. Sorted.
    """
    shown = {name for broker in sizes.brokers.values() for name in broker.names}
    for inventory in inventories:
        for table in inventory.tables.values():
            shown.update(pc.unique(table["topic"]).to_pylist())
    unknown = sorted(shown - listed.keys())
    doubtful: list[str] = []
    for start in range(0, len(unknown), _NAMES_PER_REQUEST):
        names = unknown[start : start + _NAMES_PER_REQUEST]
        try:
            answer = live.topics(names)
        except ClusterError:
            doubtful += names
            continue
        doubtful += [n for n in names if n not in answer or answer[n].error not in _ABSENT]
    return doubtful
