"""A small plan and a store that knows its cluster, for tests of verbs that take a plan."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from dashboard.core.clock import utc_now
from dashboard.domain.model import Guard
from dashboard.purge.plan.claims import GroupClaim
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.plan import Estimate, Plan, PlannedPartition
from dashboard.store.snapshots import ClusterStore, Store

CLUSTER_ID = "c1"


def a_plan(*, hours_ago: int = 0, all_guarded: bool = False) -> Plan:
    """Three partitions of `orders` on prod: two free (target 600), one under-replicated."""
    now = (utc_now() - timedelta(hours=hours_ago)).replace(microsecond=0)
    return Plan(
        cluster_id=CLUSTER_ID,
        cluster_name="prod",
        target="committed",
        created_at=now,
        expires_at=now + timedelta(hours=1),
        created_by="alice",
        analysis_id=None,
        chosen_groups=(),
        partitions=tuple(_partition(n, guarded=all_guarded or n == 2) for n in range(3)),
        waivers=(Waiver("old", "gone since May", "alice", now),),
        overrides=(),
        declarations=(),
    )


def _partition(number: int, *, guarded: bool) -> PlannedPartition:
    guard = Guard("under-replicated", "one of three is gone", "Start it.")
    return PlannedPartition(
        topic="orders",
        partition=number,
        topic_id="id",
        leader_id=1,
        leader_epoch=0,
        log_start_offset=100,
        last_stable_offset=1000,
        high_watermark=1000,
        target_offset=600,
        capped_by=None,
        guards=(guard,) if guarded else (),
        groups=(GroupClaim("billing", 500),),
        estimate=Estimate(2048, "history", {1: 2048}, 1024, 3072, 0, 512, 2048),
    )


def known_cluster(folder: Path) -> str:
    """A data folder that knows how to reach the plan's cluster."""
    store = Store(str(folder / "data"))
    ClusterStore(store, CLUSTER_ID).write_connection("127.0.0.1:9", None, "prod")
    return str(folder / "data")
