"""Tables of an opened cluster as Spark has them: names for numbers, unknown as null, UTC."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

import analytics as lw
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES
from tests.support import sample_store
from tests.support.lab import Lab, Snapshot

pytestmark = pytest.mark.spark


@pytest.mark.further
def test_tables_read_in_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    cluster = lw.open(str(sample_store.write(tmp_path, "rich").store.root))
    for name in ("reclaimable", "disks"):
        assert cluster.findings(name).columns == FINDING_TABLES[name].schema.names
    for name in ("topics", "brokers", "partitions", "group_offsets", "segments"):
        spec = SNAPSHOT_TABLES[name]
        wanted = [
            "topic" if column == "topic_no" and name != "topics" else column
            for column in spec.schema.names
        ]
        assert cluster.table(name).columns == wanted


@pytest.mark.further
def test_topics_have_names_across_snapshots_that_number_them_anew(lab: Lab) -> None:
    first = lab.write(Snapshot().topic("a", end=10).topic("b", end=20))
    second = lab.write(Snapshot().topic("b", end=21).topic("c", end=30))
    cluster = lw.open(lab.cluster.store.root)
    rows = cluster.history("partitions").orderBy("taken_at", "topic").collect()
    found = [(row.snapshot_id, row.topic, row.high_watermark) for row in rows]
    assert found == [(first, "a", 10), (first, "b", 20), (second, "b", 21), (second, "c", 30)]
    assert [row.topic for row in cluster.table("partitions").orderBy("topic").collect()] == [
        "b", "c"
    ]  # fmt: skip
    assert cluster.history("partitions", last=1).count() == 2


@pytest.mark.further
def test_a_number_without_a_name_keeps_its_rows(lab: Lab) -> None:
    snapshot = Snapshot().topic("a").topic("b")
    del snapshot.tables["topics"][1]
    lab.write(snapshot)
    rows = lw.open(lab.cluster.store.root).table("partitions").collect()
    assert sorted(str(row.topic) for row in rows) == ["None", "a"]


@pytest.mark.further
def test_unknown_stays_null_and_times_stay_utc(spark: SparkSession, tmp_path: Path) -> None:
    store = sample_store.write(tmp_path)
    cluster = lw.open(str(tmp_path))
    table = lw.to_pandas(cluster.findings("reclaimable"))
    written = store.read("findings", store.latest_analysis(), "reclaimable")
    assert table["target_offset"].isna().sum() == written["target_offset"].null_count > 0
    assert table["target_offset"].dtype == pd.ArrowDtype(written["target_offset"].type)
    assert set(table["taken_at"]) == set(written["taken_at"].to_pylist())
    assert {moment.utcoffset() for moment in table["taken_at"]} == {timedelta(0)}
    largest = spark.sql("SELECT 9007199254740993L AS offset UNION ALL SELECT null")
    assert 9007199254740993 in lw.to_pandas(largest)["offset"].dropna().tolist()


@pytest.mark.further
def test_an_analysis_opens_its_own_findings(lab: Lab) -> None:
    lab.write(Snapshot().topic("a", end=50, groups={"g": 40}))
    before = lw.open(lab.cluster.store.root)
    after = before.analyze()
    assert before.analysis is None
    assert after.analysis is not None
    assert after.analysis.id == lab.cluster.latest_analysis()
    rows = after.findings("reclaimable").where("target = 'committed'").collect()
    assert [(row.topic, row.target_offset) for row in rows] == [("a", 40)]
    assert after.history("reclaimable").count() == after.findings("reclaimable").count()


@pytest.mark.further
def test_leaving_the_block_keeps_a_session_of_others(spark: SparkSession, tmp_path: Path) -> None:
    sample_store.write(tmp_path)
    with lw.open(str(tmp_path)) as cluster:
        assert cluster.spark is spark
        assert cluster.findings("blockers").count() > 0
    assert spark.range(3).count() == 3
