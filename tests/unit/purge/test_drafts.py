"""What was read for a request can be planned in part, without reading it again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.domain.model import TopicPartition
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.recheck import recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.drafts import PlanRequest, Read, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.cluster import FakeCluster
from tests.support.collected import collected
from tests.unit.purge.facts_of import NOW, TOPIC


def read(tmp_path: Path, partitions: int) -> Read:
    return read_live(
        FakeCluster(partitions),  # type: ignore[arg-type]
        Settings(),
        ClusterStore(Store(str(tmp_path)), "cluster-1"),
        PlanRequest((TOPIC,), parse_target("committed"), by="ann"),
        now=NOW,
    )


def test_a_plan_of_some_partitions_holds_no_other(tmp_path: Path) -> None:
    found = read(tmp_path, 3)
    some = found.only([TopicPartition(TOPIC, 1), TopicPartition("never-read", 0)]).plan([])
    assert [p.key for p in some.partitions] == [TopicPartition(TOPIC, 1)]
    assert some.partitions[0] == found.plan([]).partitions[1]


def test_the_limit_of_one_run_counts_the_chosen_partitions(tmp_path: Path) -> None:
    found = read(tmp_path, 3)
    purge = replace(found.settings.purge, most_partitions=2)
    limited = replace(found, settings=replace(found.settings, purge=purge))
    assert all("over-limit" in {g.name for g in p.guards} for p in limited.plan([]).partitions)
    some = limited.only([TopicPartition(TOPIC, n) for n in (0, 2)]).plan([])
    assert all("over-limit" not in {g.name for g in p.guards} for p in some.partitions)


def test_a_folder_that_knows_nothing_of_the_cluster_is_a_guard_of_its_own(tmp_path: Path) -> None:
    """The default folder of another working directory: no window, no group that is gone counts."""
    (guard,) = [g for g in read(tmp_path, 1).plan([]).partitions[0].guards if "history" in g.name]
    assert (guard.name, str(tmp_path) in guard.reason) == ("no-history", True)
    lift = Lift("no-history", "a new cluster")
    assert "no-history" not in {g.name for g in read(tmp_path, 1).plan([lift]).partitions[0].guards}
    collected(ClusterStore(Store(str(tmp_path)), "cluster-1"), NOW, TOPIC)
    assert "no-history" not in {g.name for g in read(tmp_path, 1).plan([]).partitions[0].guards}


@pytest.mark.parametrize("planned_without", [False, True])
def test_a_folder_that_goes_away_before_sending_blocks_unless_that_was_accepted(
    tmp_path: Path, planned_without: bool
) -> None:
    store = ClusterStore(Store(str(tmp_path / "data")), "cluster-1")
    if not planned_without:
        collected(store, NOW, TOPIC)
    lifts = [Lift(name, "why") for name in ("no-history", "readers-undeclared")]
    live = FakeCluster()
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    plan = read_live(live, Settings(), store, request, now=NOW).plan(lifts)  # type: ignore[arg-type]
    if not planned_without:
        shutil.rmtree(tmp_path / "data")
    (planned,) = plan.partitions
    rows = [PartitionRow(*planned.key, planned.target_offset or 0, "pending")]
    found = recheck(live, plan, rows, NOW, standards(Settings(), store, [TOPIC], NOW))
    assert [*found.allowed] == ([planned.key] if planned_without else [])
    assert [r.name for r in found.refused.values()] == ([] if planned_without else ["no-history"])


def test_a_plan_says_where_another_cluster_has_its_name(tmp_path: Path) -> None:
    collected(ClusterStore(Store(str(tmp_path)), "cluster-1"), NOW, TOPIC)
    store = Store(str(tmp_path))
    for cluster_id, name in (("cluster-1", "prod"), ("cluster-2", "staging")):
        ClusterStore(store, cluster_id).write_connection("h:1", None, name)
    assert not read(tmp_path, 1).plan([]).name_shared
    ClusterStore(store, "cluster-2").write_connection("h:1", None, "prod")
    plan = read(tmp_path, 1).only([TopicPartition(TOPIC, 0)]).plan([])
    assert (plan.name_shared, plan.cluster_name, plan.called) == (True, "prod", "prod (cluster-1)")
