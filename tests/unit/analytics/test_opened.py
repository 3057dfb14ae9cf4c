"""What `analytics.open` chooses and says before Spark is asked for anything."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import analytics as lw
from analytics import opened
from dashboard.core.errors import LowwaterError, StoreError, UsageError
from dashboard.store.snapshots import ClusterStore, Store
from tests.support import sample_store

LISTED = """
import sys
import analytics as lw
cluster = lw.open(sys.argv[1]) if len(sys.argv) > 1 else None
print(repr(cluster), [m for m in ("pyspark", "pandas", "streamlit", "kafka") if m in sys.modules])
"""


def listed(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LISTED, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_and_opening_bring_no_spark(tmp_path: Path) -> None:
    assert listed() == "None []"
    cluster = sample_store.write(tmp_path)
    told = listed(str(tmp_path))
    assert told.endswith("[]")
    assert f"Cluster prod-eu ({sample_store.CLUSTER_ID})" in told
    assert cluster.latest_snapshot() in told
    rows = cluster.manifest("snapshots", cluster.latest_snapshot()).tables
    assert f"replicas {rows['replicas']:,}" in told
    assert "reclaimable" in told


def test_the_age_is_that_of_the_snapshot(tmp_path: Path) -> None:
    sample_store.write(tmp_path)
    cluster = lw.open(str(tmp_path))
    for age, said in ((90, "90 s ago"), (1020, "17 min ago"), (7200, "2 h ago"), (200_000, "2 d ")):
        at = cluster.snapshot.taken_at + timedelta(seconds=age)
        assert said in repr(replace(cluster, now=lambda at=at: at))


def test_the_data_folder_comes_from_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_store.write(tmp_path)
    monkeypatch.setenv("LOWWATER_DATA", str(tmp_path))
    assert lw.open().store.name == "prod-eu"


def next_step(error: LowwaterError) -> str:
    """As a traceback shows it."""
    (note,) = error.__notes__
    return note


def test_an_empty_folder_says_how_to_collect(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        lw.open(str(tmp_path))
    assert caught.value.code == "NO_SNAPSHOT"
    assert next_step(caught.value).startswith("Next: Run: lowwater collect")


def test_several_clusters_are_told_apart_by_name(tmp_path: Path) -> None:
    sample_store.write(tmp_path)
    other = ClusterStore(Store(str(tmp_path)), "another")
    other.write_connection("127.0.0.1:9", None, "staging")
    with pytest.raises(StoreError) as caught:
        lw.open(str(tmp_path))
    assert caught.value.code == "CLUSTER_AMBIGUOUS"
    assert 'lw.open(…, cluster="NAME or id")' in next_step(caught.value)
    assert lw.open(str(tmp_path), cluster="prod-eu").store.cluster_id == sample_store.CLUSTER_ID
    with pytest.raises(StoreError) as missing:
        lw.open(str(tmp_path), cluster="nobody")
    assert missing.value.code == "CLUSTER_NOT_FOUND"


def test_an_unknown_snapshot_is_refused(tmp_path: Path) -> None:
    sample_store.write(tmp_path)
    with pytest.raises(StoreError) as caught:
        lw.open(str(tmp_path), snapshot="20260101T000000000Z-0000")
    assert caught.value.code == "SNAPSHOT_NOT_FOUND"


def test_without_an_analysis_findings_say_what_to_do(tmp_path: Path) -> None:
    sample_store.write(tmp_path, "no-analysis")
    cluster = lw.open(str(tmp_path))
    assert "not analyzed yet; cluster.analyze() does it" in repr(cluster)
    with pytest.raises(StoreError) as caught:
        cluster.findings("reclaimable")
    assert caught.value.code == "NO_ANALYSIS"
    assert "cluster.analyze()" in next_step(caught.value)


def test_a_table_of_the_other_kind_names_its_method(tmp_path: Path) -> None:
    sample_store.write(tmp_path)
    cluster = lw.open(str(tmp_path))
    for call, table, other in (
        (cluster.findings, "partitions", '.table("partitions")'),
        (cluster.table, "blockers", '.findings("blockers")'),
        (cluster.table, "nothing", "Known tables: "),
        (cluster.history, "nothing", "Known tables: "),
    ):
        with pytest.raises(StoreError) as caught:
            call(table)
        assert caught.value.code == "TABLE_UNKNOWN"
        assert other in next_step(caught.value)


def test_the_opened_snapshot_is_the_analyzed_one(tmp_path: Path) -> None:
    store = sample_store.write(tmp_path)
    analyzed = store.latest_snapshot()
    sample_store.write(tmp_path, "no-analysis")
    newer = store.latest_snapshot()
    assert newer > analyzed
    assert lw.open(str(tmp_path)).snapshot.id == analyzed
    chosen = lw.open(str(tmp_path), snapshot=newer)
    assert (chosen.snapshot.id, chosen.analysis) == (newer, None)
    again = lw.open(str(tmp_path), snapshot=analyzed)
    assert again.analysis is not None
    assert again.analysis.id == store.latest_analysis()


def test_an_analysis_that_outlived_its_snapshot_is_not_opened(tmp_path: Path) -> None:
    store = sample_store.write(tmp_path)
    analyzed = store.latest_snapshot()
    sample_store.write(tmp_path, "no-analysis")
    (Path(store.path) / "snapshots" / analyzed / "manifest.json").unlink()
    cluster = lw.open(str(tmp_path))
    assert (cluster.snapshot.id, cluster.analysis) == (store.latest_snapshot(), None)


def test_a_history_ends_with_the_opened_snapshot(tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c")
    cluster = sample_store.write(tmp_path / "other")
    newest = cluster.manifest("snapshots", cluster.latest_snapshot())
    ids = []
    for minutes in (120, 60, 30, 0, -10):
        writer = store.begin("snapshots", newest.taken_at - timedelta(minutes=minutes))
        writer.commit(0.1, {})
        ids.append(writer.id)
    at = store.manifest("snapshots", ids[3])
    assert opened.kept_snapshots(store, at, None) == ids[:4]
    assert opened.kept_snapshots(store, at, 2) == ids[2:4]
    assert opened.kept_snapshots(store, at, "60m") == ids[1:4]
    assert opened.kept_snapshots(store, at, timedelta(minutes=59)) == ids[2:4]
    for wrong in (0, -1, "yesterday"):
        with pytest.raises(UsageError):
            opened.kept_snapshots(store, at, wrong)


def test_a_history_of_findings_has_one_analysis_for_each_snapshot(tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c")
    base = lw.open(str(sample_store.write(tmp_path / "other").store.root)).snapshot
    seen, analyses = [], []
    for snapshot, minutes in (("a", 0), ("a", 1), ("b", 2)):
        if snapshot not in seen:
            writer = store.begin("snapshots", base.taken_at + timedelta(minutes=minutes))
            writer.commit(0.1, {})
            seen += [snapshot, writer.id]
        found = store.begin("findings", base.taken_at + timedelta(minutes=minutes, seconds=9))
        found.commit(0.1, {"snapshot_id": seen[-1]})
        analyses.append(found.id)
    newest = store.manifest("snapshots", seen[-1])
    assert opened.kept_analyses(store, newest, None) == analyses[1:]
    assert opened.kept_analyses(store, newest, 1) == analyses[2:]
    assert opened.kept_analyses(store, store.manifest("snapshots", seen[1]), None) == analyses[1:2]
