"""Snapshots in which much happens, and the analysis of them by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dashboard.domain.metric_names import BYTES_OUT, CONSUMER_LAG, COUNTERS, labels
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES
from tests.support.lab import Lab, Snapshot
from tests.unit.analytics.logs import Log

ROOT = Path(__file__).parents[2]
DECLARED = """
[topics."replayed"]
readers = "groups"
replay_window = "2m"
[topics."grows"]
readers = "groups"
"""


def history(lab: Lab) -> list[str]:
    """Growing logs, one snapshot with an inventory; a topic recreated, groups that come and go;
    brokers' metrics, of which one broker's are missing once and another's begin anew.
    """
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
        snapshot.tables["broker_metrics"] = metrics(step)
        told = [{"broker_id": b, "answered": (b, step) != SILENT, "error": None} for b in (1, 2)]
        ids.append(lab.write(snapshot, metrics=told))
    return ids


SILENT = (2, 2)  # broker, step


def metrics(step: int) -> list[dict[str, Any]]:
    """Broker 1 sends out what broker 2 fetches; it is started again before the last step."""
    count = 1000.0 * (step + 1) if step < 3 else 70.0
    rows = [
        (broker, BYTES_OUT, labels(topic=topic), count / broker)
        for broker in (1, 2)
        for topic in ("grows", "replayed", "recreated")
        if step or topic != "replayed"
    ] + [(broker, COUNTERS["replication_bytes_in"], "{}", count) for broker in (1, 2)]
    behind = labels(clientId="ReplicaFetcherThread-0-1", partition="0", topic="grows")
    rows += [(2, CONSUMER_LAG, label, 40.0) for label in (behind, labels())]
    columns = ("broker_id", "name", "labels", "value")
    return [dict(zip(columns, row, strict=True)) for row in rows if (row[0], step) != SILENT]


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


def declared(lab: Lab, text: str = DECLARED) -> Lab:
    """The lab with settings that a process finds in a file."""
    path = Path(lab.cluster.store.path).with_name("lowwater.toml")
    path.write_text(text)
    lab.settings = load(path, environ={})
    return lab
