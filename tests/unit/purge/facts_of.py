"""Facts of small clusters for tests of plans and guards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from dashboard.domain.model import Group, TopicPartition
from dashboard.purge.plan.claims import GroupClaim
from dashboard.purge.plan.facts import PartitionFacts, PlanFacts
from dashboard.safety.unseen_readers import TopicReading
from dashboard.settings.settings import TopicDeclaration

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOPIC = "orders"
KEY = TopicPartition(TOPIC, 0)


def partition(
    start: int = 0, stable: int = 100, high: int = 100, number: int = 0, **change: object
) -> PartitionFacts:
    """One healthy partition of three replicas."""
    values: dict[str, object] = {
        "topic": TOPIC, "partition": number, "topic_id": "id-1", "leader_id": 1,
        "leader_epoch": 3, "replicas": (1, 2, 3), "isr": (1, 2, 3), "log_start_offset": start,
        "last_stable_offset": stable, "high_watermark": high, **change,
    }  # fmt: skip
    return PartitionFacts(**values)  # type: ignore[arg-type]


def facts(
    *partitions: PartitionFacts,
    claims: Mapping[int, Mapping[str, int | None]] | None = None,
    groups: tuple[Group, ...] = (),
    incomplete: tuple[str, ...] = (),
    configs: Mapping[str, str] | None = None,
    remembered: frozenset[str] = frozenset(),
    readings: Mapping[str, TopicReading] | None = None,
    nowhere: frozenset[str] = frozenset(),
) -> PlanFacts:
    """`claims` maps a partition to each group's committed offset, a share group's start offset.

    Groups that are not share groups have committed on other topics, except those in `nowhere`.
    """
    found = partitions or (partition(),)
    return PlanFacts(
        cluster_id="cluster-1",
        cluster_name="prod",
        read_at=NOW,
        partitions={p.key: p for p in found},
        configs={p.topic: {"cleanup.policy": "delete", **(configs or {})} for p in found},
        groups={g.group_id: g for g in groups},
        claims={
            TopicPartition(TOPIC, number): tuple(
                GroupClaim(g, by[g], g in remembered) for g in sorted(by)
            )
            for number, by in (claims or {}).items()
        },
        incomplete=incomplete,
        readings=readings or {},
        offset_topics={
            g.group_id: frozenset(TOPIC for by in (claims or {}).values() if g.group_id in by)
            if g.type == "share" or g.group_id in nowhere
            else frozenset({"elsewhere"})
            for g in groups
        },
    )


def declared(window: timedelta = timedelta(0), readers: str = "groups") -> TopicDeclaration:
    return TopicDeclaration(TOPIC, "team", readers, window, "ann", "2026-01-01")
