"""Live facts in the shape that `dashboard.safety` judges: where every group stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from dashboard.model import Group, TopicPartition
from dashboard.purge.facts import PlanFacts
from dashboard.safety.readers import GROUPS, readers
from dashboard.safety.standing import COMMITS, Standing, standing


def stand(
    facts: PlanFacts,
    keys: list[TopicPartition],
    names: list[str],
    waived: Collection[str] = (),
) -> Standing:
    """Where every group stands on the partitions `keys`; `names` are all topics of the facts."""
    number = {name: at for at, name in enumerate(names)}
    ids = {key.topic: seen.topic_id for key, seen in facts.partitions.items()}
    topics = pa.table(
        [
            pa.array(range(len(names)), pa.int32()),
            pa.array(names, pa.string()),
            pa.array([ids[name] for name in names], pa.string()),
        ],
        names=["topic_no", "topic", "topic_id"],
    )
    partitions = pa.table(
        [
            pa.array([number[key.topic] for key in keys], pa.int32()),
            pa.array([key.partition for key in keys], pa.int32()),
            pa.array([facts.partitions[key].high_watermark for key in keys], pa.int64()),
        ],
        names=["topic_no", "partition", "high_watermark"],
    )
    who = readers(_groups(facts.groups.values()), _offsets(facts, number), topics, waived)
    return standing(partitions, _commits(facts, number), topics, who, waived)


def _groups(groups: Collection[Group]) -> pa.Table:
    found = {
        name: pa.array([getattr(g, name) for g in groups], GROUPS.field(name).type)
        for name in GROUPS.names
        if name != "assigned"
    }
    assigned = [
        [{"topic": tp.topic, "partition": tp.partition} for tp in g.assigned] for g in groups
    ]
    found["assigned"] = pa.array(assigned, GROUPS.field("assigned").type)
    return pa.table(found).select(GROUPS.names)


def _offsets(facts: PlanFacts, number: Mapping[str, int]) -> pa.Table:
    rows = [
        (number.get(topic), group_id)
        for group_id, topics in facts.offset_topics.items()
        for topic in topics
    ]
    return pa.table(
        [pa.array([at for at, _ in rows], pa.int32()), pa.array([g for _, g in rows], pa.string())],
        names=["topic_no", "group_id"],
    )


def _commits(facts: PlanFacts, number: Mapping[str, int]) -> pa.Table:
    # Offsets of an earlier topic of the name were made None when the claims were put together.
    rows = [(key, claim) for key, claims in facts.claims.items() for claim in claims]
    found = {
        "topic_no": [number.get(key.topic) for key, _ in rows],
        "partition": [key.partition for key, _ in rows],
        "group_id": [claim.group_id for _, claim in rows],
        "topic_id": [None] * len(rows),
        "committed_offset": [claim.committed_offset for _, claim in rows],
        "remembered": [claim.remembered for _, claim in rows],
    }
    arrays = [pa.array(found[f.name], f.type) for f in COMMITS]
    return pa.table(arrays, schema=COMMITS)
