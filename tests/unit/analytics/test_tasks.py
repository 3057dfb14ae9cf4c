"""What tasks tell the driver: a row per topic and group, in however many buckets these lie."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analytics import kernels, tasks, week
from analytics.bucket_view import BucketView, Place
from analytics.metrics import unseen
from dashboard.estimate import curve_tables
from dashboard.store.snapshots import ClusterStore
from tests.bench import large_history
from tests.support.in_buckets import copied
from tests.support.lab import START, Lab

SHAPE = large_history.Shape(partitions=200, groups=30, snapshots=2)
TOPICS, PAIRS = 8, 32  # topics of 25 partitions with four groups each
BUCKETS = 16


@pytest.fixture
def told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """What the tasks of each step told, of a cluster in BUCKETS buckets."""
    large_history.write(lab.cluster, START, SHAPE, range(SHAPE.snapshots))
    found, done = [], tasks.done
    monkeypatch.setattr(tasks, "done", lambda rows: (found.append(rows), done(rows))[1])
    replace(lab, cluster=copied(lab.cluster, "other", [BUCKETS])).analyze()
    return found


@pytest.mark.further
def test_the_driver_gets_a_row_for_each_topic_and_group_and_each_buckets_files(
    told: list[pa.Table],
) -> None:
    rows: dict[str, int] = {}
    for row in pa.concat_tables(told).filter(pc.field("kind") == "sums").to_pylist():
        table = pa.ipc.open_stream(row["body"]).read_all()
        rows[row["name"]] = rows.get(row["name"], 0) + table.num_rows
    assert rows["last_writes"] == TOPICS, "each bucket has partitions of nearly every topic"
    assert rows["held"] == rows["by_offset"] == PAIRS
    assert rows["blockers"] == TOPICS + PAIRS
    assert rows["growth"] == 4 * TOPICS + 3, "a topic over all, and on three log dirs"
    elsewhere = {*unseen.SUMMED, *week.SUMMED}
    assert set(rows) == set(kernels.SUMMED) - elsewhere, "no broker tells metrics, no policy asks"
    files = pa.concat_tables(told).filter(pc.field("kind") == "table")
    assert len(set(files["file"].to_pylist())) == files.num_rows
    assert set(files["bucket"].to_pylist()) == set(range(BUCKETS))


@pytest.mark.further
def test_short_tables_are_read_once_for_all_buckets(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    large_history.write(lab.cluster, START, SHAPE, range(SHAPE.snapshots))
    reads: list[tuple[str, ...]] = []
    read = ClusterStore.read

    def counted(self: ClusterStore, *words: str, **more: object) -> pa.Table:
        if isinstance(self, BucketView):
            reads.append((*words[:3], str(more.get("only"))))
        return read(self, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ClusterStore, "read", counted)
    replace(lab, cluster=copied(lab.cluster, "other", [4])).analyze()
    assert {table for _, _, table, _ in reads} >= {"topics", "configs"}
    assert len(reads) == len(set(reads))


@pytest.mark.further
@pytest.mark.parametrize("buckets", [1, 4, 16])
def test_curves_in_more_buckets_are_read_file_by_file(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    """As after an inventory: a hundred times as many knots a replica, in more buckets than now."""
    large_history.write(lab.cluster, START, SHAPE, range(1))
    other = copied(lab.cluster, "other", [BUCKETS])
    done = replace(lab, cluster=other).analyze()
    whole = {
        tuple(p.values()) for p in curve_tables.read(other, done.analysis_id).places.to_pylist()
    }
    rows: list[int] = []
    from_table = curve_tables.from_table
    monkeypatch.setattr(
        curve_tables, "from_table", lambda part: (rows.append(part.num_rows), from_table(part))[1]
    )
    written = replace(other.manifest("findings", done.analysis_id), buckets=buckets)
    found = set()
    for bucket in range(buckets):
        place = Place(other.store.root, "other", (), frozenset(), written)
        read = curve_tables.read(BucketView(place, bucket), done.analysis_id)
        found |= {tuple(p.values()) for p in read.places.to_pylist()}
    assert found == whole
    assert rows == [n for b in range(buckets) for _, n in written.files("curves")[b::buckets]]
