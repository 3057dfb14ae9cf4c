"""What a policy would have done, walked by Spark's tasks: as here, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.__main__ import by_tasks
from dashboard.history.week.walk import Asked, Walked
from dashboard.policies import apart, simulate
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from tests.bench import large_history
from tests.support.in_buckets import copied
from tests.support.lab import START, Lab
from tests.unit.policies.examples import policy

pytestmark = pytest.mark.spark

SHAPE = large_history.Shape(partitions=400, groups=30, snapshots=5)
NOW = START + SHAPE.snapshots * large_history.EVERY
ALL = policy('topics = ["*"]\nmost_partitions_per_hour = 100\nmin_purge_interval_ms = 600000')


@pytest.fixture
def cluster(lab: Lab) -> ClusterStore:
    """400 partitions in 16 buckets, and an analysis of each snapshot."""
    large_history.write(lab.cluster, START, SHAPE, range(SHAPE.snapshots))
    return copied(lab.cluster, "other", [16])


@pytest.mark.further
def test_tasks_walk_a_policys_week_as_one_process_does(lab: Lab, cluster: ClusterStore) -> None:
    def walking(store: ClusterStore, asked: Asked) -> Walked | None:
        return by_tasks(lab.spark, store, store.manifest("snapshots", asked.read[-1]), asked)

    whole = simulate.week(cluster, ALL, NOW, lambda _: {})
    assert whole.snapshots == SHAPE.snapshots and 0 < whole.partitions < SHAPE.partitions
    assert simulate.week(cluster, ALL, NOW, lambda _: {}, walking=walking) == whole


@pytest.mark.slow
def test_so_does_the_process_that_pages_and_the_command_line_start(
    cluster: ClusterStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "MOST_HERE", 0)
    here = simulate.week(cluster, ALL, NOW, lambda _: {})
    settings = Settings(cache_dir=tmp_path / "cache")
    assert apart.past_week(cluster, settings, ALL, NOW, print) == here
