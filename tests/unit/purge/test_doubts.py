"""A topic is not proposed for deletion while a plan of it would be guarded as a whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from analytics import tasks
from dashboard.core.arrow import records
from dashboard.domain.metric_names import BYTES_OUT, labels
from dashboard.purge.evidence import standards
from dashboard.topics.idle import Idle, IdleTopic, idle
from tests.support import in_process
from tests.support import lab as labs
from tests.support.lab import START, Snapshot


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> labs.Lab:
    monkeypatch.setattr(tasks, "run", in_process.run)
    return labs.empty(tmp_path)


def snapshot(lab: labs.Lab, day: int, out: float | None = None, hour: int = 0) -> None:
    lab.minutes = day * 1440 + hour * 60
    taken = Snapshot().topic("exports", groups={"loader": 100}, retention__ms="2592000000")
    for row in taken.tables["replicas"]:
        row["is_leader"] = row["broker_id"] == 1
    if out is not None:
        for broker in (1, 2):
            value = out if broker == 1 else 0.0
            for which in ("{}", labels(topic="exports")):
                row = {"broker_id": broker, "name": BYTES_OUT, "labels": which, "value": value}
                taken.tables["broker_metrics"].append(row)
    lab.write(taken)


def judged(lab: labs.Lab, minutes: float = 0) -> Idle:
    lab.analyze()
    now = START + timedelta(minutes=lab.minutes + minutes)
    table = lab.cluster.read("findings", lab.cluster.latest_analysis(), "idle_topics")
    rows = records(table, IdleTopic)
    return idle(rows, 7, "", lambda names: standards.said(lab.settings, lab.cluster, names, now))


@pytest.mark.further
def test_a_reader_that_metrics_showed_weeks_ago_keeps_its_topic(lab: labs.Lab) -> None:
    for day, out, hour in ((0, 0, 0), (5, 0, 0), (5, 50e9, 12), (5, 50e9, 23)):
        snapshot(lab, day, float(out), hour)
    for day in range(6, 11):
        snapshot(lab, day)
    found = judged(lab)
    (row,) = found.of("idle")
    assert str(found.not_proposed(row)).startswith("unseen-reader-suspected: ")
    assert found.delete_command(row, "k:1") is None
    assert found.deletable == []


@pytest.mark.further
def test_a_memory_of_groups_that_is_too_old_keeps_it_too(lab: labs.Lab) -> None:
    for day in range(9):
        snapshot(lab, day)
    (row,) = judged(lab).deletable
    assert row.topic == "exports"

    found = judged(lab, minutes=2 * 1440)
    (row,) = found.of("idle")
    assert str(found.not_proposed(row)).startswith("stale-history: ")
    with_old = standards.doubts(lab.settings, lab.cluster, ["exports"], START + timedelta(days=30))
    assert [guard.name for guard in with_old["exports"]] == ["stale-history"]
    assert standards.doubts(lab.settings, lab.cluster, [], START) == {}
