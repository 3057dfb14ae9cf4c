"""Whether a leader itself takes a topic for the planned one.

DeleteRecords and ListOffsets name topics, not ids, and metadata may come from a broker that is cut
off from the controllers and tells of a topic that was deleted and created again since. The leader
that is asked, or told, to do something is therefore asked for the id too: its answer is about its
own log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from dashboard.model import TopicPartition
from dashboard.purge.cluster_seam import Cluster

UNCERTAIN = "TOPIC_ID_UNCERTAIN"


def doubts(
    live: Cluster, leaders: Mapping[TopicPartition, int], topic_ids: Mapping[str, str | None]
) -> dict[TopicPartition, str]:
    """Partitions whose leader knows another topic of that name, or does not answer: why.

    `leaders` are the ids of the brokers that lead, `topic_ids` the plan's. Nothing is asked for
    no partition.
    """
    names: dict[int, set[str]] = defaultdict(set)
    for key, leader_id in leaders.items():
        names[leader_id].add(key.topic)
    told = live.topic_ids_at(names) if names else {}
    found = {}
    for key, leader_id in leaders.items():
        answer = told.get(leader_id, "no answer")
        if isinstance(answer, str):
            found[key] = f"broker {leader_id} does not say which topic {key.topic} it has: {answer}"
        elif (known := answer.get(key.topic)) != topic_ids.get(key.topic):
            found[key] = (
                f"broker {leader_id}, which leads, has topic {key.topic} with id {known}, "
                f"the plan's has id {topic_ids.get(key.topic)}"
            )
    return found
