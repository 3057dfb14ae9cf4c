"""Bytes by the surest estimator, and tables that are equal however they were folded."""

from __future__ import annotations

import pytest

from tests.support.lab import Lab, Snapshot
from tests.unit.analytics.logs import Log

TABLES = (
    "reclaimable", "curves", "blockers", "disks", "holds", "trends", "growth", "slow_followers",
)  # fmt: skip

pytestmark = [pytest.mark.spark, pytest.mark.further]


def of(log: Log, *, inventory: bool) -> Snapshot:
    """A topic whose records grow, on two brokers, and one that stands still."""
    snapshot = Snapshot().topic(
        "grows", start=log.start, end=log.end, size=log.size, groups={"g": log.end - 5}
    )
    snapshot.topic("still", groups={"g": 50, "slow": 10})
    if inventory:
        snapshot.tables["segments"] = [
            {**row, "topic": "grows", "topic_id": "id-grows", "directory": "grows-0",
             "broker_id": broker}
            for broker in (1, 2) for row in log.rows()
        ]  # fmt: skip
    return snapshot


def test_a_full_analysis_gives_the_tables_that_were_carried_on(lab: Lab) -> None:
    log = Log()
    for step in range(5):
        log.append([20 * (step + 1)] * 20)
        if step == 3:
            log.truncate(30)
        lab.write(of(log, inventory=step == 1))
        if step != 2:  # only the next analysis sees this one
            lab.analyze()
    carried = {table: lab.rows(table) for table in TABLES}
    lab.analyze(full=True)
    assert {table: lab.rows(table) for table in TABLES} == carried
    found = lab.targets()
    assert (found["grows"]["method"], found["still"]["method"]) == ("history", "proportional")
    assert found["grows"]["bytes_likely"] == pytest.approx(2 * log.below(95), rel=0.15)


def test_an_inventory_makes_findings_exact(lab: Lab) -> None:
    log = Log()
    log.append([60] * 50)
    log.append([400] * 20)
    lab.write(of(log, inventory=True))
    lab.analyze()
    row = lab.targets()["grows"]
    assert row["method"] == "segments"
    at_once = {row[f"bytes_at_once{end}"] for end in ("", "_low", "_high")}
    assert at_once == {2 * log.once(log.end - 5)}
    assert row["bytes_low"] <= 2 * log.below(log.end - 5) <= row["bytes_high"]
    assert {r["is_base"] for r in lab.rows("curves") if r["topic"] == "grows"} == {True, False}
