"""Which topic names that disks and brokers show the cluster will not call absent.

The metadata of all topics leaves out, without a word, those that we may not describe: to us their
folders would look deleted. Asked by name, the cluster says whether a topic is not there or hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow.compute as pc

from dashboard.core.errors import ClusterError
from dashboard.domain.columns import Sizes
from dashboard.domain.model import TopicState
from dashboard.inventory.loading import Inventory

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
