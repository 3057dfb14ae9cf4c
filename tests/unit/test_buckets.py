"""Where a row lies: the same everywhere, whatever the table; a bucket is two of twice as many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import labels
from dashboard.store import buckets as table_files
from dashboard.store.buckets import REPLICAS, Buckets, count_for, numbers
from dashboard.store.snapshot_files import Manifest, part_name, write_part
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
TOPICS = pa.table({"topic_no": pa.array([3, 1], pa.int32()), "topic": ["b", "a"]})
_WORD = (1 << 64) - 1
_NAMES = st.one_of(st.none(), st.text(min_size=1, max_size=249))
_ROWS = st.lists(st.tuples(_NAMES, st.one_of(st.none(), st.integers(0, 1 << 20))), max_size=30)


def spelt_out(topic: str | None, partition: int | None) -> int:
    """The number of one row, by plain integers."""
    if topic is None or partition is None:
        return 0
    word = (crc32(topic[:200].encode()) << 32 | partition) + 0x9E3779B97F4A7C15 & _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


def placed(rows: Sequence[tuple[str | None, int | None]]) -> pa.Table:
    topics, partitions = zip(*rows, strict=True) if rows else ((), ())
    return pa.table(
        {"topic": pa.array(topics, pa.string()), "partition": pa.array(partitions, pa.int32())}
    )


@given(_ROWS)
def test_a_rows_number_is_that_of_its_topic_and_partition(
    rows: list[tuple[str | None, int | None]],
) -> None:
    table = placed(rows)
    found = numbers(*(column.combine_chunks() for column in table.columns))
    assert found.tolist() == [spelt_out(*row) for row in rows]


@given(_ROWS, st.integers(0, 5))
def test_a_bucket_is_two_of_twice_as_many(
    rows: list[tuple[str | None, int | None]], power: int
) -> None:
    few, more = Buckets(1 << power), Buckets(2 << power)
    old, new = few.of(placed(rows)), more.of(placed(rows))
    assert (new % few.count == old).all()
    for bucket in range(few.count):
        assert list(few.parts(more.count, bucket)) == [bucket, bucket + few.count]
        for half in few.parts(more.count, bucket):
            assert list(more.parts(few.count, half)) == [bucket]


def test_a_topics_number_stands_for_its_name() -> None:
    by_name = placed([("a", 0), ("b", 7), ("a", 9), (None, 4)])
    by_number = pa.table(
        {"topic_no": pa.array([1, 3, 1, 8], pa.int32()), "partition": by_name["partition"]}
    )
    assert np.array_equal(Buckets(8).of(by_name), Buckets(8).of(by_number, TOPICS))
    assert np.array_equal(Buckets(8).of(by_name, TOPICS), Buckets(8).of(by_name))


def test_a_folder_whose_name_was_cut_lies_where_its_topic_does() -> None:
    both = placed([("x" * 249, 5), ("x" * 200, 5)])
    assert len({*Buckets(1024).of(both).tolist()}) == 1


def test_rows_are_spread_evenly() -> None:
    rows = [(f"topic-{n:05d}", partition) for n in range(500) for partition in range(20)]
    counts = np.bincount(Buckets(8).of(placed(rows)), minlength=8)
    assert counts.min() > 0.9 * counts.mean()


@pytest.mark.parametrize(
    ("replicas", "count"),
    [(0, 1), (15_000, 1), (REPLICAS, 1), (60_000, 2), (300_000, 8), (3_000_000, 128),
     (10**12, 4096)],
)  # fmt: skip
def test_a_bucket_holds_some_32_000_replicas(replicas: int, count: int) -> None:
    assert count_for(replicas) == count


@pytest.mark.parametrize(
    ("replicas", "segments", "count"),
    [(15_000, 15_000 * 40, 1), (300_000, 300_000 * 16, 8), (300_000, 36_000_000, 64)],
)
def test_a_bucket_holds_some_half_a_million_segments(
    replicas: int, segments: int, count: int
) -> None:
    """A task's Python took 1.2 GiB with 1.4 million of them."""
    assert count_for(replicas, segments) == count


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def written(cluster: ClusterStore, buckets: int, partitions: int = 40) -> Manifest:
    """A snapshot of two topics."""
    writer = cluster.begin("snapshots", NOW, buckets)
    place = {"topic_no": [1, 3] * partitions, "partition": sorted([*range(partitions)] * 2)}
    for name, columns in {
        "topics": {"topic_no": [1, 3], "topic": ["a", "b"]},
        "partitions": {**place, "high_watermark": range(2 * partitions)},
    }.items():
        length = len(columns["topic_no"])
        stamp = {"snapshot_id": [writer.id] * length, "taken_at": [NOW] * length}
        writer.split(name, build(SNAPSHOT_TABLES[name], stamp | columns), TOPICS)
    return writer.commit(1.0, {})


@pytest.mark.parametrize("buckets", [1, 2, 8])
def test_a_table_in_buckets_reads_as_one(cluster: ClusterStore, buckets: int) -> None:
    whole = cluster.read("snapshots", written(cluster, 1).id, "partitions")
    found = written(cluster, buckets)
    assert cluster.manifest("snapshots", found.id) == found
    assert found.schema_version == ((1, 8) if buckets == 1 else (2, 2))
    parts = cluster.read("snapshots", found.id, "partitions")
    assert parts.drop_columns("snapshot_id").equals(whole.drop_columns("snapshot_id"))
    values = cluster.read("snapshots", found.id, "partitions", ["high_watermark"])
    assert values.equals(whole.select(["high_watermark"]))


@pytest.mark.parametrize("buckets", [1, 2, 8])
def test_one_topic_is_read_from_the_files_that_can_hold_it(
    cluster: ClusterStore, buckets: int
) -> None:
    found = written(cluster, buckets, 3)
    every = cluster.read("snapshots", found.id, "partitions")
    files = found.files("partitions")
    own = table_files.files_of(files, "b", 3)
    assert len(own) <= min(3, len(files))
    mine = cluster.read_files("snapshots", found, "partitions", own, only=pc.field("topic_no") == 3)
    assert mine.equals(every.filter(pc.field("topic_no") == 3))
    assert table_files.files_of([], "b", 3) == []


@pytest.mark.parametrize("buckets", [1, 2, 8])
def test_some_rows_are_chosen_in_each_file_by_itself(
    cluster: ClusterStore, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, joined = written(cluster, buckets), []
    every = cluster.read("snapshots", found.id, "partitions")
    together = table_files.joined
    monkeypatch.setattr(
        table_files, "joined", lambda spec, parts: (joined.extend(parts), together(spec, parts))[1]
    )
    few = pc.field("partition") < 3
    some = cluster.read("snapshots", found.id, "partitions", only=few)
    assert some.equals(every.filter(few))
    assert sum(part.num_rows for part in joined) == some.num_rows == 6
    chosen = cluster.read("snapshots", found.id, "partitions", ["partition"], only=few)
    assert chosen.equals(some.select(["partition"]))


@pytest.mark.parametrize("whole", [False, True], ids=["in buckets", "by an earlier version"])
def test_metrics_lie_with_the_partition_that_their_labels_name(
    cluster: ClusterStore, whole: bool
) -> None:
    writer = cluster.begin("snapshots", NOW, 8)
    told = [labels(), labels(request="x"), *(labels(topic=t) for t in "abcdef"), "no JSON", "[]"]
    told += [labels(partition=p, topic="a") for p in ("7", "0", "-1", "many", "9" * 40)]
    columns = {"broker_id": [1] * len(told), "labels": told, "name": ["n"] * len(told)}
    stamp = {"snapshot_id": [writer.id] * len(told), "taken_at": [NOW] * len(told)}
    table = build(SNAPSHOT_TABLES["broker_metrics"], columns | stamp)
    (writer.write if whole else writer.split)("broker_metrics", table)
    found, buckets = writer.commit(1.0, {}), Buckets(4)
    own = {
        bucket: cluster.read_bucket(
            "snapshots", found, "broker_metrics", ["labels"], buckets=buckets, bucket=bucket
        )["labels"].to_pylist()
        for bucket in range(4)
    }
    assert sorted(label for some in own.values() for label in some) == sorted(told)
    where = {label: bucket for bucket, some in own.items() for label in some}
    assert {where[label] for label in (*told[:2], *told[8:10])} == {0}
    named = [("a", 7), *(("a", 0) for _ in range(5)), ("b", 0), ("c", 0)]
    placed_at = buckets.of(placed(named)).tolist()
    assert [where[label] for label in (*told[10:], told[2], told[3], told[4])] == placed_at


@pytest.mark.parametrize("stored", [1, 2, 8])
@pytest.mark.parametrize("asked", [1, 2, 8])
def test_a_bucket_is_read_in_however_many_a_table_is_kept(
    cluster: ClusterStore, stored: int, asked: int
) -> None:
    found, buckets = written(cluster, stored), Buckets(asked)
    rows = cluster.read("snapshots", found.id, "partitions")
    own = buckets.of(rows, TOPICS)
    for bucket in range(asked):
        for columns in (None, ["high_watermark"]):
            part = cluster.read_bucket(
                "snapshots", found, "partitions", columns, buckets=buckets, bucket=bucket
            )
            wanted = rows.filter(own == bucket)
            assert part.equals(wanted if columns is None else wanted.select(columns))
        none = cluster.read_bucket("snapshots", found, "segments", buckets=buckets, bucket=bucket)
        assert none.num_rows == 0


@pytest.mark.parametrize(
    "change",
    [
        {"buckets": 1}, {"buckets": 3}, {"buckets": "2"}, {"buckets": None},
        {"parts": {"partitions": []}},
        {"parts": {"partitions": [["../a.parquet", 1], ["b.parquet", 79]]}},
        {"parts": {"partitions": [["a.parquet", 1], ["b.parquet", 2]]}},
        {"parts": {"partitions": [["a.parquet", -1], ["b.parquet", 81]]}}, {"parts": 5},
    ],
)  # fmt: skip
def test_a_manifest_of_impossible_buckets_is_no_manifest(
    cluster: ClusterStore, change: dict[str, Any]
) -> None:
    found = written(cluster, 2)
    path = Path(cluster.path, "snapshots", found.id, "manifest.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StoreError) as caught:
        cluster.manifest("snapshots", found.id)
    assert caught.value.code == "STORE_UNREADABLE"


@pytest.mark.parametrize("root", ["{}", "memory://buckets{}"])
def test_only_files_that_count_are_kept(tmp_path: Path, root: str) -> None:
    """Two attempts of one bucket wrote; of one bucket the file gets the table's own name."""
    cluster = ClusterStore(Store(root.format(tmp_path)), "c1")
    for buckets in (1, 2):
        writer = cluster.begin("snapshots", NOW, buckets)
        rows = build(SNAPSHOT_TABLES["partitions"], {})
        parts = []
        for bucket in range(buckets):
            for attempt in ("lost", "told"):
                file = part_name("partitions", bucket, attempt)
                write_part(cluster.fs, writer.path, SNAPSHOT_TABLES["partitions"], file, rows)
            parts.append((file, 0))
        writer.adopt("partitions", parts)
        writer.sweep()
        found = writer.commit(1.0, {})
        left = {Path(entry["name"]).name for entry in cluster.fs.ls(writer.path)}
        assert left == {"manifest.json", *(file for file, _ in found.files("partitions"))}
        assert cluster.read("snapshots", found.id, "partitions").num_rows == 0
    assert cluster.ids("snapshots")[-1] == found.id
