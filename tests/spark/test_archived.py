"""Archives as DataFrames: each record once, sealed ones too, whatever the tasks are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import analytics as lw
from analytics import archived
from dashboard.archive.sealing import Sealer
from tests.support import archives

pytestmark = pytest.mark.spark
ROWS = {0: archives.records(130, first=1000, step=2), 1: archives.records(57)}
OTHER = {0: archives.records(9, tag="other")}


@pytest.mark.further
def test_each_record_is_a_row_with_all_that_it_had(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Sealer(bytes(range(32)))
    folder = archives.write(tmp_path / "kept", {"orders": ROWS, "clicks": OTHER}, key=key)
    settings = tmp_path / "lowwater.toml"
    settings.write_text(f'[archive]\nkey_file = "{tmp_path}/key"\n')
    (tmp_path / "key").write_text(key.key.hex())
    monkeypatch.setattr(archived, "_TASK_BYTES", 1000)  # several tasks
    frame = lw.archive(str(folder), settings=str(settings))
    assert frame.sparkSession is spark
    assert frame.rdd.getNumPartitions() > 2
    wanted = [("clicks", 0, *pair) for pair in OTHER[0]]
    wanted += [("orders", number, *pair) for number in (0, 1) for pair in ROWS[number]]
    for row, (topic, partition, offset, (k, value, time, headers)) in zip(
        frame.orderBy("topic", "partition", "offset").toArrow().to_pylist(), wanted, strict=True
    ):
        assert (row["topic"], row["partition"], row["offset"]) == (topic, partition, offset)
        assert (row["key"], row["value"], row["timestamp_type"]) == (k, value, "create")
        assert row["timestamp"].timestamp() * 1000 == time
        assert [(h["name"], h["value"]) for h in row["headers"]] == (headers or [])
    assert lw.archive(str(folder), topic="clicks", settings=str(settings)).count() == 9
