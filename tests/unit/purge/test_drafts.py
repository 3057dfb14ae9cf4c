"""What was read for a request can be planned in part, without reading it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dashboard.model import TopicPartition
from dashboard.purge.drafts import PlanRequest, Read, read_live
from dashboard.purge.targets import parse_target
from dashboard.settings import Settings
from dashboard.snapshots import ClusterStore, Store
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.fake_cluster import FakeCluster


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
