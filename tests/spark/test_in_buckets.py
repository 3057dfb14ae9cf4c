"""The same findings in however many buckets, and however often tasks run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from analytics import tasks
from analytics.readers import topics
from dashboard.store.buckets import Buckets
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from tests.bench import large_history
from tests.spark.test_orphans import Disks, write
from tests.support import in_process
from tests.support.in_buckets import copied
from tests.support.lab import START, Lab, Snapshot
from tests.support.spark_history import ROOT, declared, findings, history

pytestmark = [pytest.mark.spark, pytest.mark.further]

SHAPE = large_history.Shape(partitions=400, groups=30, snapshots=5)


def every(lab: Lab, cluster: ClusterStore) -> dict[str, list[dict[str, Any]]]:
    """The findings of the last snapshot, after each was analyzed in turn."""
    for number, snapshot_id in enumerate(cluster.ids("snapshots")):
        lab.minutes = number + 1
        done = replace(lab, cluster=cluster).analyze(snapshot_id=snapshot_id)
    return findings(cluster, done.analysis_id)


@pytest.mark.parametrize("buckets", [[16], [1, 2, 8, 4, 1]])
def test_findings_are_equal_in_any_number_of_buckets(lab: Lab, buckets: Sequence[int]) -> None:
    """Also where they grow and shrink from snapshot to snapshot."""
    large_history.write(lab.cluster, START, SHAPE, range(SHAPE.snapshots))
    one = every(lab, lab.cluster)
    assert all(one[name] for name in ("holds", "curves", "reclaimable", "blockers", "growth"))
    other = copied(lab.cluster, "other", buckets)
    assert every(lab, other) == one
    full = replace(lab, cluster=other).analyze(full=True)
    assert findings(other, full.analysis_id) == one


@pytest.fixture
def at_hand(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The lab whose tasks run in this process: what they tell is the same, and sooner."""
    monkeypatch.setattr(tasks, "run", in_process.run)
    return lab


def test_so_are_those_of_topics_made_anew(at_hand: Lab) -> None:
    lab = at_hand
    history(lab)
    one = every(lab, lab.cluster)
    assert one["former_readers"]
    other = copied(lab.cluster, "other", [16, 2])
    assert every(lab, other) == one
    full = findings(other, replace(lab, cluster=other).analyze(full=True).analysis_id)
    counted = ("counters", "traffic", "slow_followers")
    assert {name: full[name] for name in counted} == {name: one[name] for name in counted}
    traffic = {(row["topic"], row["broker_id"]): row for row in one["traffic"]}
    assert len(traffic) == 8
    assert traffic["grows", 1]["bytes_out_per_hour"] == 20 * (2000 + 70)
    assert [traffic["replayed", broker]["missed"] for broker in (1, 2)] == [0, 1]
    assert traffic["replayed", 2]["resets"] == 1
    lags = {(row["topic"], row["broker_id"]): row["fetcher_lag"] for row in one["slow_followers"]}
    assert [lags[topic, 2] for topic in ("grows", "replayed")] == [40, 0]
    assert lags["grows", 1] is None


def lagging(step: int) -> Snapshot:
    """Each broker leads half of the partitions; what broker 2 follows falls behind."""
    end = 100_000 * (step + 1)
    made = Snapshot().topic("t", end=end)
    home = made.tables["partitions"][0]
    made.tables["partitions"] = [{**home, "partition": p} for p in range(8)]
    made.tables["replicas"] = [
        {"broker_id": broker, "log_dir": "/d1", "topic_no": 0, "partition": p, "size_bytes": end,
         "is_future": False, "is_leader": broker == 1 + p % 2, "in_sync": True,
         "log_start_offset": 0,
         "log_end_offset": end - 9000 * (step + 1) * (broker == 2 and p % 2 == 0)}
        for broker in (1, 2) for p in range(8)
    ]  # fmt: skip
    return made


def test_so_are_slow_followers_orphans_and_what_lies_on_disks(at_hand: Lab) -> None:
    lab = at_hand
    planted = Disks().live("t").folder("gone-0.9a-stray", "gone", "stray", "id-gone")
    planted = planted.folder("dead-0", "dead", "live", "id-dead")
    planted = planted.folder("t-3.9a-delete", "t", "delete", "id-t", partition=3)
    for step in range(3):
        lab.write(lagging(step))
    for step in (3, 4):
        write(lab, lagging(step), planted)
    one = every(lab, lab.cluster)
    slow = [row for row in one["slow_followers"] if row["slow"]]
    assert {row["reason"] for row in slow} == {"broker 2 is slow: 4 of 4 replicas"}
    assert {row["directory"] for row in one["orphans"]} >= {"gone-0.9a-stray", "dead-0"}
    assert one["disks"][0]["stray_bytes"] and one["disks"][0]["orphan_bytes"]
    assert every(lab, copied(lab.cluster, "other", [4])) == one


def scattered(step: int) -> Snapshot:
    """A topic of many partitions, on one of which a group commits; another is of a log before. Its
    log ends are read minutes apart.
    """
    end = 1000 * (step + 1)
    made = Snapshot().topic(
        "t", end=end, groups={"g": 50, "once": 9}, topic_id=f"life-{min(step // 2, 1)}"
    )
    home = made.tables["partitions"][0]
    made.tables["partitions"] = [{**home, "partition": p} for p in range(16)]
    if step > 1:
        made.tables["group_offsets"].pop()
    made.tables["replicas"] = [
        {"broker_id": broker, "log_dir": "/d1", "topic_no": 0, "partition": p, "size_bytes": end,
         "is_future": False, "is_leader": broker == 1, "in_sync": True, "log_start_offset": 0,
         "log_end_offset": end - 200 * (broker == 2),
         "observed_at": START + timedelta(minutes=step + 1, seconds=p)}
        for broker in (1, 2) for p in range(16)
    ]  # fmt: skip
    return made


def test_what_one_bucket_knows_counts_in_every_other(at_hand: Lab) -> None:
    """Who reads a topic by an offset on one partition, and how long reading a snapshot took."""
    lab = at_hand
    for step in range(7):
        lab.write(scattered(step))
    one = every(lab, lab.cluster)
    unread = [
        [guard["name"] for guard in row["guards"]]
        for row in one["reclaimable"]
        if row["target"] == "high-watermark" and row["partition"]
    ]
    assert len(unread) == 15
    assert all(names.count("no-committed-offset") == 2 for names in unread), "g, and once"
    assert not any(row["slow"] for row in one["slow_followers"])
    assert every(lab, copied(lab.cluster, "other", [4])) == one


PLANTED: dict[str, Callable[[ClusterStore, Manifest], Any]] = {
    "read": lambda store, of: store.read("snapshots", of.id, "replicas", ["size_bytes"]),
    "parts": lambda store, of: [*store.parts("snapshots", of.id, "replicas")],
    "read_files": lambda store, of: store.read_files(
        "snapshots", of, "replicas", of.files("replicas")
    ),
    "read_bucket": lambda store, of: store.read_bucket(
        "snapshots", of, "replicas", buckets=Buckets(1), bucket=0
    ),
}


@pytest.mark.parametrize("way", PLANTED)
def test_a_long_table_that_is_read_in_the_driver_ends_the_analysis(
    at_hand: Lab, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    lab = at_hand
    lab.write(Snapshot().topic("t", groups={"g": 5}))
    describe = topics.with_new

    def planted(found: Any, cluster: ClusterStore, snapshot: Manifest, refresh: Any) -> Any:
        PLANTED[way](cluster, snapshot)
        return describe(found, cluster, snapshot, refresh)

    monkeypatch.setattr(topics, "with_new", planted)
    with pytest.raises(AssertionError, match="long table replicas"):
        lab.analyze()
    assert lab.cluster.folders("findings") == [], "nothing half-written is left"


KILLED = """
import os, sys
from analytics import __main__ as service, kernels
from analytics.tasks import answer

told = kernels.told

def killed(view, work, judged):
    found = told(view, work, judged)
    try:
        os.close(os.open(f"{sys_folder}/{view.bucket}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return found
    list(answer(lambda _: found, view.place, work.snapshot, view.bucket))
    os._exit(1)

sys_folder = sys.argv.pop(1)
kernels.told = killed
sys.exit(service.main())
"""


def test_a_task_that_is_killed_after_it_wrote_leaves_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task of the second step dies once, with its files on the disk."""
    store = declared(lab)
    history(store)
    other = copied(store.cluster, "other", [4])
    local = findings(store.cluster, store.analyze(full=True).analysis_id)
    died = tmp_path.parent / f"{tmp_path.name}-died"
    died.mkdir()
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", "local[2,3]")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(died), "--data", other.store.root,
         "--cluster", "other", "--settings", str(store.settings.source), "--full"],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert findings(other, answer["analysis_id"]) == local
    assert len([*died.iterdir()]) == 4
    found = other.manifest("findings", answer["analysis_id"])
    named = {file for table in found.tables for file, _ in found.files(table)}
    folder = Path(other.path, "findings", found.id)
    assert {file.name for file in folder.iterdir()} == named | {"manifest.json"}
