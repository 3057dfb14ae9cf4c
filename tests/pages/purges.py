"""What tests of the purge page share: a plan, and the sentence that confirms it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.plan import Estimate, Plan, build
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.store.snapshots import ClusterStore
from tests.pages.conftest import Open
from tests.support import sample_store
from tests.unit.purge.facts_of import TOPIC, declared, facts, partition

CLUSTER_NAME = sample_store.NAME
SENTENCE = f"purge orders on {CLUSTER_NAME}"
Requests = list[PlanRequest]


def a_plan(request: PlanRequest, store: ClusterStore | None = None) -> Plan:
    """Two partitions: 0 is free, 1 has no committed offset; of `store`, or the sample's cluster."""
    called = (store.cluster_id, store.name) if store else (sample_store.CLUSTER_ID, CLUSTER_NAME)
    seen = facts(
        partition(stable=1000, high=1000),
        partition(stable=500, high=500, number=1),
        claims={0: {"billing": 800, "slow": 400 if request.waive else 600}},
    )
    resolved = {
        TopicPartition(TOPIC, 0): ResolvedTarget(600),
        TopicPartition(TOPIC, 1): ResolvedTarget(None),
    }
    now = utc_now()
    size = 3 * 2**20
    method = "sampled" if request.sample else "proportional"
    waivers = [w.waiver(request.by, now, move=request.move_waived) for w in request.waive]
    return build(
        replace(seen, read_at=now, cluster_id=called[0], cluster_name=called[1]),
        resolved,
        target=request.target.text,
        waivers=waivers,
        declarations={TOPIC: declared()},
        estimates={
            TopicPartition(TOPIC, 0): Estimate(size, method, {1: 2**20}, size, size, 0, 0, 0)
        },
        analysis_id="a",
        most_partitions=100,
        created_by=request.by,
        now=now,
        name_shared=store is not None and store.others_called(store.name),
        expires_after=timedelta(hours=1),
        archive=request.archive,
    )


def confirmation(app: AppTest) -> Callable[[str], AppTest]:
    field = next(f for f in app.text_input if f.label == "Confirmation")
    return lambda typed: field.set_value(typed).run()


def queued(open_page: Open, journal: Journal) -> str:
    """The id of a run that was previewed, confirmed and queued on the page."""
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()
    return journal.runs()[0].run_id
