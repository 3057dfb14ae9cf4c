"""Spark's memory fits the machine, and where it was too little the error names the setting."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from analytics import job
from analytics.session.session import driver_memory, machine_memory, too_little
from dashboard.core.errors import AnalysisError
from dashboard.store.snapshot_files import Manifest

GIB = 1 << 30
SNAPSHOT = Manifest("snapshot-1", datetime(2026, 3, 1, tzinfo=UTC), {}, 1.0)


@pytest.mark.parametrize(
    ("machine", "heap", "answers"),
    [(GIB, "512m", "256m"), (4 * GIB, "1024m", "512m"), (64 * GIB, "1024m", "512m")],
)
def test_java_takes_a_quarter_of_the_machine(machine: int, heap: str, answers: str) -> None:
    assert driver_memory(machine) == {
        "spark.driver.memory": heap, "spark.driver.maxResultSize": answers,
    }  # fmt: skip
    assert machine_memory() > GIB // 4


@pytest.mark.parametrize(
    ("said", "setting"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "Set spark.driver.memory"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 GiB", "local[1]"),
        ("pyarrow.lib.ArrowMemoryError: malloc of size 9 failed", "local[1]"),
        (
            "Total size of serialized results of 9 tasks (1088.2 MiB) is bigger than "
            "spark.driver.maxResultSize (1024.0 MiB)",
            "Set spark.driver.maxResultSize",
        ),
        ("Python worker exited unexpectedly (crashed): null", "local[1]"),
    ],
)
def test_an_error_of_too_little_memory_names_the_setting(said: str, setting: str) -> None:
    error = job.failed(SNAPSHOT, RuntimeError(f"An error occurred while calling o9.get\n{said}"))
    assert isinstance(error, AnalysisError)
    assert (error.code, setting in error.next_step) == ("SPARK_OUT_OF_MEMORY", True)
    assert "snapshot-1" in error.message


def test_another_error_is_none_of_memory() -> None:
    assert too_little(RuntimeError("Path does not exist")) is None
    assert job.failed(SNAPSHOT, RuntimeError("no such path")).code == "ANALYSIS_FAILED"
