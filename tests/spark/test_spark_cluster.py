"""The same analysis on a Spark cluster by one setting: a standalone master with two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.settings import load
from dashboard.snapshots import ClusterStore
from dashboard.tables import FINDING_TABLES
from tests.spark.conftest import Lab, Snapshot
from tests.support.standalone_spark import OPTIONS, Standalone, standalone
from tests.unit.analytics.logs import Log

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DECLARED = """
[topics."replayed"]
readers = "groups"
replay_window = "2m"
[topics."grows"]
readers = "groups"
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture
def on_cluster(spark_cluster: Standalone, monkeypatch: pytest.MonkeyPatch) -> Standalone:
    """The one setting; and a Python for workers that is not there, so that none can be used."""
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", spark_cluster.url)
    monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(OPTIONS))
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    return spark_cluster


def history(lab: Lab) -> list[str]:
    """Growing logs, one snapshot with an inventory; a topic recreated, groups that come and go."""
    log, ids = Log(), []
    for step in range(4):
        log.append([20 * (step + 1)] * 20)
        snapshot = Snapshot().topic(
            "grows", start=log.start, end=log.end, size=log.size, groups={"g": log.end - 5}
        )
        snapshot.topic("recreated", topic_id=f"life-{step // 2}", groups={f"once-{step}": 9})
        snapshot.topic("replayed", end=100 + step, groups={"g": 90, "gone": 10} if step < 2 else {})
        snapshot.group("g", "grows", "replayed").group("sharing", "grows", type="share")
        if step == 1:
            snapshot.tables["segments"] = [
                {**row, "topic": "grows", "topic_id": "id-grows", "directory": "grows-0",
                 "broker_id": broker}
                for broker in (1, 2) for row in log.rows()
            ]  # fmt: skip
        ids.append(lab.write(snapshot))
    return ids


def findings(cluster: ClusterStore, analysis_id: str) -> dict[str, list[dict[str, Any]]]:
    tables = cluster.manifest("findings", analysis_id).tables
    assert set(tables) == set(FINDING_TABLES)
    return {table: cluster.read("findings", analysis_id, table).to_pylist() for table in tables}


def analytics(lab: Lab, *words: str) -> dict[str, Any]:
    """The answer of `python -m analytics`, a process of its own, with this environment."""
    done = subprocess.run(
        [sys.executable, "-m", "analytics", "--data", lab.cluster.store.root,
         "--settings", str(lab.settings.source), *words],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def store(lab: Lab, tmp_path: Path) -> Lab:
    """A lab whose settings a process finds in a file."""
    path = tmp_path / "lowwater.toml"
    path.write_text(DECLARED)
    lab.settings = load(path, environ={})
    return lab


def test_a_cluster_gives_the_tables_of_one_machine(store: Lab, on_cluster: Standalone) -> None:
    history(store)
    local = findings(store.cluster, store.analyze(full=True).analysis_id)
    assert all(local[table] for table in ("holds", "curves", "reclaimable", "blockers"))

    answer = analytics(store, "--full")

    assert "error" not in answer, answer
    assert findings(store.cluster, answer["analysis_id"]) == local
    assert [app["name"] for app in on_cluster.state()["completedapps"]] == ["lowwater"]
    assert all(on_cluster.finished_tasks(worker) for worker in (0, 1)), "both did the work"
