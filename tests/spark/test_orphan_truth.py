"""50 orphans among 15,000 folders: all of them are found, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from analytics.tables import Tables
from dashboard.core.clock import format_time
from tests.spark.orphan_truth import BROKERS, LOG_DIRS, truth
from tests.support.lab import START, Lab, Snapshot
from tests.support.one_bucket import find_orphans

pytestmark = pytest.mark.spark


def look(lab: Lab, number: int) -> dict[tuple[int, str, str], str]:
    """Write a snapshot; the planted truth."""
    scanned_at = START + timedelta(minutes=lab.minutes + 1, seconds=-20)
    found = truth(number, scanned_at)
    snapshot = Snapshot()
    snapshot.tables |= found.tables
    snapshot.tables["brokers"] = [{"broker_id": b, "host": "h", "port": 1} for b in BROKERS]
    snapshot.tables["log_dirs"] = [
        {"broker_id": b, "log_dir": log_dir, "total_bytes": 10**9, "usable_bytes": 10**8}
        for b in BROKERS for log_dir in LOG_DIRS
    ]  # fmt: skip
    inventories = [
        {"broker_id": b, "log_dirs": list(LOG_DIRS), "scanned_at": format_time(scanned_at),
         "gaps": [], "gaps_total": 0}
        for b in BROKERS
    ]  # fmt: skip
    lab.write(snapshot, inventories=inventories, doubtful_topics=found.doubtful)
    return found.planted


def test_of_50_orphans_among_15_000_folders_each_is_told_and_nothing_else(lab: Lab) -> None:
    look(lab, 0)
    lab.minutes += 5
    planted = look(lab, 1)
    assert len(planted) == 50
    snapshot = lab.cluster.manifest("snapshots", lab.cluster.latest_snapshot())

    found = find_orphans(Tables(lab.spark, lab.cluster), snapshot, None, lab.settings)

    rows = found.orphans.to_pylist()
    names = [r["directory"] or f"{r['topic']}-{r['partition']}" for r in rows]
    told = {
        (r["broker_id"], r["log_dir"], name): r["kind"] for r, name in zip(rows, names, strict=True)
    }
    right = told.items() & planted.items()
    precision, recall = len(right) / len(told), len(right) / len(planted)
    print(f"orphans: precision {precision:.3f}, recall {recall:.3f} of {len(planted)} planted")
    assert told == planted
