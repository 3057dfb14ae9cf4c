"""A store that a release wrote before long tables lay in buckets: it is read, and gone on with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dashboard.store.snapshot_files import spec_of
from tests.support.lab import Lab, Snapshot
from tests.support.spark_history import findings

STORE = Path(__file__).parents[2] / "data" / "stores" / "schema-1.2.zip"


@pytest.fixture
def earlier(lab: Lab) -> Lab:
    shutil.unpack_archive(STORE, lab.cluster.store.path)
    lab.minutes = 4
    assert len(lab.cluster.ids("snapshots")) == 2 and len(lab.cluster.ids("findings")) == 1
    return lab


def test_every_table_of_it_reads_as_it_is_declared_now(earlier: Lab) -> None:
    seen = 0
    for kind in ("snapshots", "findings"):
        for item_id in earlier.cluster.ids(kind):
            found = earlier.cluster.manifest(kind, item_id)
            assert (found.schema_version, found.buckets) == ((1, 2), 1)
            for table, rows in found.tables.items():
                read = earlier.cluster.read(kind, item_id, table)
                assert (read.schema, read.num_rows) == (spec_of(kind, table).schema, rows)
                seen += rows
    assert seen > 100


def _next(lab: Lab, step: int, buckets: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """One snapshot more, in so many buckets, and the analysis of it."""
    snapshot = Snapshot().topic("grows", end=100 + step, groups={"g": 95})
    snapshot.topic("recreated", topic_id="life-1", groups={"once-3": 9})
    snapshot.topic("replayed", end=104 + step).group("g", "grows", "replayed")
    begin = lab.cluster.begin
    with monkeypatch.context() as patched:
        patched.setattr(lab.cluster, "begin", lambda kind, at: begin(kind, at, buckets))
        lab.write(snapshot)
    return lab.analyze().analysis_id


def _gone(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("topic", "group_id", "committed_offset", "last_seen_at")
    return [tuple(row[name] for name in names) for row in rows if row["group_id"] == "gone"]


@pytest.mark.further_but("1")
@pytest.mark.parametrize("buckets", [1, 4])
def test_what_it_alone_remembers_holds_in_the_analyses_that_follow(
    earlier: Lab, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them folds what is kept, for the tables that are new; the next goes on."""
    old = earlier.cluster.latest_analysis()
    before = _gone(earlier.cluster.read("findings", old, "holds").to_pylist())
    assert [(topic, offset) for topic, _, offset, _ in before] == [("replayed", 10)]
    first = _next(earlier, 0, buckets, monkeypatch)
    second = _next(earlier, 1, buckets, monkeypatch)
    assert earlier.cluster.manifest("findings", second).details["holds_from"] == first
    for analysis in (first, second):
        assert earlier.cluster.manifest("findings", analysis).buckets == buckets
        told = findings(earlier.cluster, analysis)
        assert _gone(told["holds"]) == before
        target = {row["topic"]: row for row in told["reclaimable"] if row["target"] == "committed"}
        assert (target["replayed"]["target_offset"], target["replayed"]["held_by"]) == (10, "gone")
        once = {row["group_id"] for row in told["holds"] if row["topic"] == "recreated"}
        assert once == {"once-2", "once-3"}, "of today's life of the name"
        assert {row["topic"] for row in told["curves"]} == {"grows", "recreated", "replayed"}
    again = earlier.analyze(full=True).analysis_id
    assert findings(earlier.cluster, again)["holds"] == told["holds"]
