"""Whether a broker itself takes a topic for the planned one.

DeleteRecords and ListOffsets name topics, not ids, and metadata may come from a broker that is cut
off from the controllers and tells of a topic that was deleted and created again since. The leader
that is asked, or told, to do something is therefore asked for the id too, and so is each follower
whose log start is to prove something: their answers are about their own logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from dashboard.model import TopicPartition
from dashboard.purge.cluster_seam import Cluster

UNCERTAIN = "TOPIC_ID_UNCERTAIN"


def doubts(
    live: Cluster,
    replicas: Mapping[TopicPartition, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> dict[TopicPartition, dict[int, str]]:
    """Replicas whose broker knows another topic of that name, or does not answer: why.

    `replicas` are the ids of the brokers to ask, `topic_ids` the plan's. Nobody is asked for no
    partition.
    """
    names: dict[int, set[str]] = defaultdict(set)
    for key, brokers in replicas.items():
        for broker_id in brokers:
            names[broker_id].add(key.topic)
    told = live.topic_ids_at(names) if names else {}
    found: dict[TopicPartition, dict[int, str]] = {}
    for key, brokers in replicas.items():
        for broker_id in brokers:
            why = _doubt(broker_id, key.topic, told.get(broker_id, "no answer"), topic_ids)
            if why:
                found.setdefault(key, {})[broker_id] = why
    return found


def _doubt(
    broker_id: int,
    topic: str,
    answer: Mapping[str, str | None] | str,
    topic_ids: Mapping[str, str | None],
) -> str | None:
    if isinstance(answer, str):
        return f"broker {broker_id} does not say which topic {topic} it has: {answer}"
    known, planned = answer.get(topic), topic_ids.get(topic)
    if known != planned:
        return f"broker {broker_id} has topic {topic} with id {known}, the plan's has id {planned}"
    return None
