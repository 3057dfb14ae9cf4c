"""Pruning: what is chosen goes whole, whoever writes, reads or prunes beside it, or is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.core.errors import StoreError
from dashboard.history.past_groups import last_sights, with_members
from dashboard.history.pruning import prune, prune_findings, prune_snapshots
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEEP = SnapshotSettings()


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def _brokers(count: int = 1) -> pa.Table:
    return build(SNAPSHOT_TABLES["brokers"], {"broker_id": range(count)})


def _snapshot(cluster: ClusterStore, at: datetime = NOW) -> Manifest:
    writer = cluster.begin("snapshots", at)
    writer.write("brokers", _brokers())
    return writer.commit(1.0, {})


def _analysis(cluster: ClusterStore, at: datetime = NOW) -> str:
    return cluster.begin("findings", at).commit(1.0, {}).id


def _folders(cluster: ClusterStore) -> list[str]:
    return sorted(p.name for p in (Path(cluster.path) / "snapshots").iterdir())


def _of_groups(cluster: ClusterStore, minutes_ago: int, **members: int) -> str:
    """A snapshot that lists groups with so many members."""
    writer = cluster.begin("snapshots", NOW - timedelta(minutes=minutes_ago))
    rows = {"group_id": [*members], "state": ["Stable" if n else "Empty" for n in members.values()],
            "members": [*members.values()]}  # fmt: skip
    writer.write("groups", build(SNAPSHOT_TABLES["groups"], rows))
    return writer.commit(1.0, {"clock_ahead_seconds": 0.0}).id


@pytest.mark.further
def test_the_last_sight_of_a_group_that_was_up_stays_for_a_day(cluster: ClusterStore) -> None:
    """Else nobody knows that it was deleted, which holds its topics for a day."""
    for minutes_ago in range(1600, 1380, -10):
        _of_groups(cluster, minutes_ago, yesterdays=int(minutes_ago > 1500))
    sights = dict.fromkeys((610, 420), "")
    for minutes_ago in range(700, 300, -10):
        found = _of_groups(
            cluster, minutes_ago, steady=1, nightly=int(minutes_ago >= 610),
            again=int(minutes_ago != 540), morning=int(minutes_ago >= 420),
        )  # fmt: skip
        sights |= {minutes_ago: found} if minutes_ago in sights else {}
    _of_groups(cluster, 1, steady=1, again=1)
    prune_snapshots(cluster, KEEP, NOW)
    kept = cluster.ids("snapshots")
    assert set(sights.values()) <= set(kept)
    minutes = [round((NOW - time_of(name)).total_seconds() / 60) for name in kept]
    hourly = {m for m in minutes if m % 60 == 10}
    assert {*minutes} - hourly <= {1, 610, 420}


def test_the_last_sight_stays_also_before_a_snapshot_that_is_damaged(cluster: ClusterStore) -> None:
    """Once that one is removed, as it is told to be, nothing else shows that the group was up."""
    sight = _of_groups(cluster, 180, steady=1, gone=1)
    damaged, newest = (_of_groups(cluster, ago, steady=1) for ago in (179, 1))
    for torn in (False, True):
        if torn:
            (Path(cluster.path) / "snapshots" / damaged / "groups.parquet").write_bytes(b"torn")
            with_members.cache_clear()
        assert last_sights(cluster, [sight, damaged, newest], {damaged, newest}, "") == {sight}


def test_what_is_kept_or_still_being_written_stays(cluster: ClusterStore) -> None:
    old = _snapshot(cluster, NOW - timedelta(hours=3))
    kept = _snapshot(cluster, NOW - timedelta(hours=2))
    stale = cluster.begin("snapshots", NOW - timedelta(hours=2))
    stale.write("brokers", _brokers())
    running = cluster.begin("snapshots", NOW - timedelta(minutes=1))
    running.write("brokers", _brokers())
    (Path(cluster.path) / "snapshots" / "notes").mkdir()
    pruned = prune(cluster, "snapshots", lambda _: {kept.id}, NOW)
    assert (set(pruned.removed), pruned.errors) == ({old.id, stale.id}, ())
    assert Path(running.path).exists()
    assert _folders(cluster) == [kept.id, running.id, "notes"]


def test_what_is_committed_after_the_choice_is_not_touched(cluster: ClusterStore) -> None:
    _snapshot(cluster, NOW - timedelta(hours=2))
    later: list[str] = []

    def chosen(ids: Sequence[str]) -> set[str]:
        later.append(_snapshot(cluster).id)  # another collector, in that very moment
        return set(ids[-1:])

    assert prune(cluster, "snapshots", chosen, NOW).removed == ()
    assert cluster.ids("snapshots")[-1] == later[0]


def test_one_folder_that_cannot_be_removed_does_not_keep_the_others(
    cluster: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (_snapshot(cluster, NOW - timedelta(hours=h)) for h in (3, 2))
    remove = cluster.fs.rm

    def refused(path: str, recursive: bool = False) -> None:
        if first.id in path:
            raise PermissionError(13, "Permission denied")
        remove(path, recursive=recursive)

    monkeypatch.setattr(cluster.fs, "rm", refused)
    pruned = prune(cluster, "snapshots", lambda _: (), NOW)
    assert pruned.removed == (second.id,)
    assert pruned.errors == (
        {"object": f"snapshots/{first.id}", "error": "Permission denied"},
    )  # fmt: skip


def test_the_analysis_that_readers_are_sent_to_stays(cluster: ClusterStore) -> None:
    shown = _analysis(cluster)
    cluster.set_latest(shown)
    others = [_analysis(cluster, NOW + timedelta(minutes=n)) for n in (1, 2, 3, 4)]
    later = Manifest("s", NOW + timedelta(minutes=9), {}, 0.1, {})
    assert prune_findings(cluster, KEEP, later).removed == (others[0],)
    assert cluster.latest_analysis() == shown
    (Path(cluster.path) / "findings" / "LATEST").write_bytes(b"\xff")
    assert prune_findings(cluster, KEEP, later).removed == (shown,)


@pytest.mark.parametrize(
    "details",
    [{"clock_ahead_seconds": 4e7}, {"clock_ahead_seconds": -60.0}, {"clock_error": "X"}],
)
def test_no_analysis_goes_by_a_clock_that_was_wrong(
    cluster: ClusterStore, details: dict[str, Any]
) -> None:
    every = [_analysis(cluster, NOW + timedelta(minutes=n)) for n in range(5)]
    wrong = Manifest("s", NOW + timedelta(days=400), {}, 0.1, details)
    assert prune_findings(cluster, KEEP, wrong).removed == ()
    assert cluster.ids("findings") == every


def test_no_analysis_goes_by_the_time_of_an_older_snapshot(cluster: ClusterStore) -> None:
    for n in range(5):
        _analysis(cluster, NOW + timedelta(days=400, minutes=n))
    old, _ = _snapshot(cluster, NOW), _snapshot(cluster, NOW + timedelta(days=400))
    assert prune_findings(cluster, KEEP, old).removed == ()


@pytest.mark.further
def test_several_pruners_at_once_remove_each_folder_and_complain_of_nothing(
    cluster: ClusterStore,
) -> None:
    ids = [_snapshot(cluster, NOW - timedelta(minutes=n)).id for n in range(300, 60, -2)]
    other = [ClusterStore(Store(cluster.store.root), "c1") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda c: prune_snapshots(c, KEEP, NOW), other))
    assert [p.errors for p in found] == [()] * 6
    assert {name for p in found for name in p.removed} == set(ids) - set(cluster.ids("snapshots"))
    assert cluster.ids("snapshots") == _folders(cluster)
    assert len(_folders(cluster)) == 4


_KILLED = """
import os, signal, sys
from datetime import datetime, timedelta
from dashboard.history.pruning import prune
from dashboard.store.snapshots import ClusterStore, Store
import pyarrow as pa
cluster = ClusterStore(Store(sys.argv[1]), "c1")
now = datetime.fromisoformat(sys.argv[3])

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "writer":
    from dashboard.store.tables import SNAPSHOT_TABLES, build
    writer = cluster.begin("snapshots", now)
    writer.write("brokers", build(SNAPSHOT_TABLES["brokers"], {"broker_id": [1]}))
    writer._settle = die
    writer.commit(1.0, {})
remove = cluster.fs.rm
if sys.argv[2] == "before the folder":
    cluster.fs.rm = lambda path, recursive=False: die() if recursive else remove(path)
else:
    import shutil
    shutil.os.rmdir = die  # every file is gone by then, the folder is not
prune(cluster, "snapshots", lambda ids: ids[-1:], now)
"""


def _killed(cluster: ClusterStore, moment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, cluster.store.root, moment, NOW.isoformat()],
        timeout=240,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def test_a_killed_writer_leaves_nothing_that_is_seen_and_the_next_run_clears_up(
    cluster: ClusterStore,
) -> None:
    _killed(cluster, "writer")
    (half,) = _folders(cluster)
    left = (Path(cluster.path) / "snapshots" / half).iterdir()
    assert [file.name for file in left] == ["brokers.parquet"]
    assert cluster.ids("snapshots") == []
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", half, "brokers")
    assert caught.value.code == "SNAPSHOT_NOT_FOUND"
    assert prune_snapshots(cluster, KEEP, NOW + timedelta(minutes=59)).removed == ()
    assert prune_snapshots(cluster, KEEP, NOW + timedelta(minutes=61)).removed == (half,)
    assert _folders(cluster) == []


@pytest.mark.further_but("in the folder")
@pytest.mark.parametrize("moment", ["before the folder", "in the folder"])
def test_a_killed_pruner_leaves_nothing_that_is_seen_and_the_next_run_clears_up(
    cluster: ClusterStore, moment: str
) -> None:
    old, newest = _snapshot(cluster, NOW - timedelta(hours=3)), _snapshot(cluster)
    _killed(cluster, moment)
    assert _folders(cluster) == [old.id, newest.id]
    assert cluster.ids("snapshots") == [newest.id]
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", old.id, "brokers")
    assert caught.value.code == "SNAPSHOT_NOT_FOUND"
    assert prune_snapshots(cluster, KEEP, NOW).removed == (old.id,)
    assert _folders(cluster) == [newest.id]


def test_a_reader_beside_a_pruner_has_every_row_or_a_name_for_it(cluster: ClusterStore) -> None:
    def read(snapshot_id: str) -> Any:
        try:
            return cluster.read("snapshots", snapshot_id, "brokers").num_rows
        except StoreError as error:
            return error.code

    found: set[Any] = set()
    for n in range(20):
        writer = cluster.begin("snapshots", NOW + timedelta(seconds=n))
        writer.write("brokers", _brokers(5000))
        writer.commit(1.0, {})
        with ThreadPoolExecutor(5) as pool:
            reads = [pool.submit(read, writer.id) for _ in range(4)]
            pool.submit(prune, cluster, "snapshots", lambda _: (), NOW)
            reads += [pool.submit(read, writer.id) for _ in range(4)]
        found |= {r.result() for r in reads}
    assert found <= {5000, "SNAPSHOT_NOT_FOUND"}
    assert "SNAPSHOT_NOT_FOUND" in found


def test_snapshots_behind_one_of_a_clock_that_ran_ahead_stay_by_their_own_times(
    cluster: ClusterStore,
) -> None:
    """Their ids sort behind its own, a hundred days ahead: by these all are of one hour."""
    began = NOW - timedelta(days=10)
    ahead = _snapshot(cluster, NOW + timedelta(days=100))
    behind = [_snapshot(cluster, began + timedelta(days=n)).id for n in range(11)]
    assert prune_snapshots(cluster, KEEP, NOW).removed == (ahead.id,)
    assert cluster.ids("snapshots") == behind
