"""How far back kept snapshots reach, whatever their clocks said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.readers.holds import oldest_kept
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def taken(cluster: ClusterStore, at: datetime) -> Manifest:
    return cluster.begin("snapshots", at).commit(0.0, {})


def test_it_is_the_time_of_the_first_id(cluster: ClusterStore) -> None:
    first = taken(cluster, NOW - 2 * DAY)
    newest = taken(cluster, NOW)
    Path(cluster.path, "snapshots", first.id, "manifest.json").write_text("{")
    assert oldest_kept(cluster, newest).as_py() == NOW - 2 * DAY


def test_behind_a_clock_that_ran_ahead_it_is_the_first_by_time(cluster: ClusterStore) -> None:
    ahead = taken(cluster, NOW + 100 * DAY)
    taken(cluster, NOW - 2 * DAY)
    newest = taken(cluster, NOW)
    assert oldest_kept(cluster, newest).as_py() == NOW - 2 * DAY
    assert oldest_kept(cluster, ahead).as_py() == NOW - 2 * DAY


def test_it_is_never_later_than_what_is_analyzed(cluster: ClusterStore) -> None:
    ahead = taken(cluster, NOW + 100 * DAY)
    newest = taken(cluster, NOW)
    for kept in (ahead, newest):
        Path(cluster.path, "snapshots", kept.id, "manifest.json").write_text("{")
    assert oldest_kept(cluster, newest).as_py() == NOW
