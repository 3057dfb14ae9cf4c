"""Who reads without committing, found by Spark's tasks and told by the findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.domain.metric_names import BYTES_OUT, labels
from dashboard.history.readings import topic_readings
from tests.support.in_buckets import copied
from tests.support.lab import Lab, Snapshot

pytestmark = pytest.mark.spark
MIB = 1 << 20


def snapshot(step: int, *, told: bool = True) -> Snapshot:
    """Every step takes 100 records of 1000 bytes; group g reads them, somebody else reads many
    times as much of `tapped`.
    """
    made = Snapshot()
    for topic in ("calm", "tapped"):
        end = 100 * (step + 1)
        made.topic(topic, end=end, size=1000 * end, groups={"g": end})
    made.group("g", "calm", "tapped")
    for row in made.tables["replicas"]:
        row["is_leader"] = row["broker_id"] == 1
    sent = {"calm": 100_000.0 * step, "tapped": 5.0 * MIB * step}
    made.tables["broker_metrics"] = [
        {"broker_id": broker, "name": BYTES_OUT, "labels": labels(topic=topic),
         "value": value if broker == 1 else 0.0}
        for broker in (1, 2) for topic, value in sent.items() if told
    ]  # fmt: skip
    return made


def test_a_reader_without_commits_is_found_remembered_and_equal_in_buckets(lab: Lab) -> None:
    for step in range(3):
        lab.write(snapshot(step))
    done = lab.analyze()
    rows = {row["topic"]: row for row in lab.rows("unseen_readers")}
    assert {topic: row["suspected"] for topic, row in rows.items()} == {
        "calm": False, "tapped": True,
    }  # fmt: skip
    newest = lab.cluster.manifest("snapshots", done.snapshot_id)
    planned = topic_readings(lab.cluster, list(rows), newest.taken_at)
    for topic, told in planned.items():
        assert (rows[topic]["bytes_out"], rows[topic]["explained_bytes"]) == (
            told.bytes_out, told.explained_bytes,
        )  # fmt: skip
    assert (rows["tapped"]["bytes_out"], rows["tapped"]["explained_bytes"]) == (10 * MIB, 200_000)
    assert rows["tapped"]["measured_at"] == newest.taken_at

    other = replace(lab, cluster=copied(lab.cluster, "other", [4]))
    other.analyze()
    assert [strip(row) for row in other.rows("unseen_readers")] == [
        strip(rows[topic]) for topic in sorted(rows)
    ]

    lab.write(snapshot(3, told=False))
    lab.analyze()
    after = {row["topic"]: row for row in lab.rows("unseen_readers")}
    assert after["tapped"]["suspected"], "that exporters are away ends no suspicion"


def strip(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in ("snapshot_id", "taken_at")}
