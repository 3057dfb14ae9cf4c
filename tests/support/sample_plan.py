"""A plan on the sample cluster's `orders`: partition 0 is free, a dead group waived, 1 is held."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.guards import Waive
from dashboard.purge.plan.plan import Estimate, Plan, build
from dashboard.purge.plan.resolve import ResolvedTarget
from tests.support import sample_store
from tests.unit.purge.facts_of import TOPIC, declared, facts, partition


def sample_plan(now: datetime) -> Plan:
    """Made `now`; its targets lie below what the group `billing` has committed."""
    seen = facts(
        partition(start=120_000, stable=900_000, high=900_000),
        partition(start=120_000, stable=900_000, high=900_000, number=1),
        claims={0: {"billing": 846_000, "billing-replay": 549_000}},
    )
    free, held = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
    return build(
        replace(seen, read_at=now, cluster_id=sample_store.CLUSTER_ID),
        {free: ResolvedTarget(846_000), held: ResolvedTarget(None)},
        target="committed",
        waivers=[Waive("billing-replay", "replaced").waiver("dana", now)],
        declarations={TOPIC: declared()},
        estimates={free: Estimate(3 * 2**28, "proportional", {1: 2**28, 2: 2**28, 3: 2**28})},
        analysis_id="a",
        most_partitions=100,
        created_by="dana",
        now=now,
        expires_after=timedelta(hours=1),
    )
