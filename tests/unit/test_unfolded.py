"""While no analysis runs, thinning loses resolution, never a group's last commit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.history.pruning import only_witnesses, prune_snapshots
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES, build

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def _snapshot(
    cluster: ClusterStore,
    *groups: str,
    offset: int = 5,
    streams: bool = False,
    members: int = 0,
    **ago: float,
) -> str:
    """Each group has committed on partition 0 of topic `t`, whose number changes with the time."""
    writer = cluster.begin("snapshots", NOW - timedelta(**ago))
    number = int(sum(ago.values()))
    topics = {"topic_no": [number], "topic": ["t"]}
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], topics))
    rows = {
        "group_id": groups,
        "topic_no": [number] * len(groups),
        "partition": [0] * len(groups),
        "committed_offset": [offset] * len(groups),
    }
    writer.write("group_offsets", build(SNAPSHOT_TABLES["group_offsets"], rows))
    count = len(groups)
    told = {"group_id": groups, "is_streams": [streams] * count, "members": [members] * count,
            "type": ["classic"] * count, "subscribed": [["t"]] * count}  # fmt: skip
    writer.write("groups", build(SNAPSHOT_TABLES["groups"], told))
    return writer.commit(1.0, {}).id


def _analyzed(
    cluster: ClusterStore,
    snapshot_id: str,
    left_out: Mapping[str, str] | None = None,
    *,
    whole: bool = True,
) -> None:
    writer = cluster.begin("findings", NOW)
    writer.write("holds", FINDING_TABLES["holds"].schema.empty_table())
    details = {"snapshot_id": snapshot_id, "left_out": dict(left_out or {})}
    writer.commit(1.0, {**details, "met_readers": {}, "streams_groups": {}} if whole else details)
    cluster.set_latest(writer.id)


def _pruned(cluster: ClusterStore) -> tuple[str, ...]:
    return prune_snapshots(cluster, SnapshotSettings(), NOW).removed


def test_the_newest_snapshot_that_saw_a_group_stays_until_it_is_folded(
    cluster: ClusterStore,
) -> None:
    earlier = _snapshot(cluster, "always", "brief", minutes=200)
    alone = _snapshot(cluster, "always", "brief", minutes=190)
    after = _snapshot(cluster, "always", minutes=180)
    hourly = _snapshot(cluster, "always", minutes=160)
    newest = _snapshot(cluster, "always", minutes=1)
    assert _pruned(cluster) == (earlier, after)
    assert _pruned(cluster) == ()
    _analyzed(cluster, hourly)
    assert _pruned(cluster) == (alone,)
    assert cluster.ids("snapshots") == [hourly, newest]


def test_a_group_that_a_newer_snapshot_saw_keeps_no_older_one(cluster: ClusterStore) -> None:
    gone = _snapshot(cluster, "a", "b", minutes=200)
    _snapshot(cluster, "b", minutes=160)
    _snapshot(cluster, "a", minutes=100)
    _snapshot(cluster, minutes=1)
    assert _pruned(cluster) == (gone,)


def test_the_only_snapshot_that_told_a_streams_application_stays(cluster: ClusterStore) -> None:
    """Its commits go on after a tool set them, and no longer tell what it is."""
    _snapshot(cluster, "app", minutes=210)
    told = _snapshot(cluster, "app", minutes=200, streams=True)
    after = _snapshot(cluster, "app", minutes=190)
    hourly = _snapshot(cluster, "app", minutes=170)
    newest = _snapshot(cluster, "app", minutes=1)
    assert after in _pruned(cluster)
    assert cluster.ids("snapshots") == [told, hourly, newest]


def test_what_was_never_committed_is_a_trace_once(cluster: ClusterStore) -> None:
    """The group was there: what it may have read before is outdated."""
    gone = _snapshot(cluster, "a", offset=-1, minutes=200)
    _snapshot(cluster, "a", offset=-1, minutes=195)
    _snapshot(cluster, minutes=170)
    _snapshot(cluster, minutes=1)
    assert _pruned(cluster) == (gone,)


def test_the_last_that_met_a_group_without_its_offset_stays(cluster: ClusterStore) -> None:
    """It was deleted to read all again, and crashed before its first commit."""
    _snapshot(cluster, "a", minutes=200)
    _snapshot(cluster, "a", offset=-1, members=1, minutes=195)
    _snapshot(cluster, "a", offset=-1, members=1, minutes=190)
    hourly = _snapshot(cluster, minutes=170)
    newest = _snapshot(cluster, minutes=1)
    committed, first, last, *_ = cluster.ids("snapshots")
    assert _pruned(cluster) == (first,)
    assert cluster.ids("snapshots") == [committed, last, hourly, newest]


def test_where_every_snapshot_saw_a_group_of_its_own_older_ones_stay_unread(
    cluster: ClusterStore,
) -> None:
    """Nobody else knows what they saw, and only so many are read each time."""
    known = _snapshot(cluster, "console-0", minutes=300)
    ids = [_snapshot(cluster, f"console-{n}", minutes=200 - n) for n in range(9)]
    newest = _snapshot(cluster, minutes=1)
    every = [known, *ids, newest]
    assert only_witnesses(cluster, every, {newest}, most=4) == {known, *ids}
    assert only_witnesses(cluster, every, {newest}) == {*ids}


def test_a_damaged_snapshot_may_have_seen_any_group_and_does_not_stop_the_pruning(
    cluster: ClusterStore,
) -> None:
    gone = _snapshot(cluster, "a", minutes=200)
    damaged = _snapshot(cluster, "a", minutes=190)
    hourly = _snapshot(cluster, "a", minutes=170)
    newest = _snapshot(cluster, minutes=1)
    folder = Path(cluster.path) / "snapshots"
    (folder / damaged / "group_offsets.parquet").write_bytes(b"PAR1")
    assert _pruned(cluster) == (gone,)
    _analyzed(cluster, newest, {damaged: "it is torn"})
    assert _pruned(cluster) == (), "an analysis that had to do without it knows no more"
    _analyzed(cluster, newest)
    assert _pruned(cluster) == (damaged,)
    assert cluster.ids("snapshots") == [hourly, newest]


@pytest.mark.parametrize("folded", ["nothing", "by an earlier version", "by one that is gone"])
def test_an_analysis_that_cannot_tell_has_folded_nothing(
    cluster: ClusterStore, folded: str
) -> None:
    """One of an earlier version keeps not whom snapshots met."""
    alone = _snapshot(cluster, "brief", minutes=190)
    hourly = _snapshot(cluster, minutes=160)
    _snapshot(cluster, minutes=1)
    if folded != "nothing":
        _analyzed(cluster, hourly, whole=folded == "by one that is gone")
    if folded == "by one that is gone":
        cluster.set_latest("20260301T120000000Z-gone")
    assert _pruned(cluster) == ()
    _analyzed(cluster, hourly)
    assert _pruned(cluster) == (alone,)
