"""What Spark itself says where memory was too little is known for what it is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.session.session import too_little

pytestmark = pytest.mark.further

Batches = Iterator[pa.RecordBatch]


def huge(_: Batches) -> Batches:
    pa.allocate_buffer(1 << 50)
    yield from ()


def killed(_: Batches) -> Batches:
    os.kill(os.getpid(), signal.SIGKILL)
    yield from ()


@pytest.mark.parametrize(
    ("task", "why"),
    [(huge, "a task's Python had too little memory"), (killed, "a task's Python was killed")],
)
def test_a_task_that_has_too_little(
    spark: SparkSession, task: Callable[[Batches], Batches], why: str
) -> None:
    with pytest.raises(Exception) as caught:
        spark.range(1).mapInArrow(task, "id long").toArrow()
    found: Any = too_little(caught.value)
    assert found is not None
    assert found[0].startswith(why)


def test_java_has_what_fits_the_machine(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    heap = int(str(conf.get("spark.driver.memory")).removesuffix("m"))
    assert 512 <= heap <= 1024
    runtime: Any = spark.sparkContext._jvm.java.lang.Runtime  # type: ignore[union-attr]
    assert runtime.getRuntime().maxMemory() <= heap << 20
