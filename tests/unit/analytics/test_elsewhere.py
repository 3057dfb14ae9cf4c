"""A cluster without executors ends an analysis with a reason; messages carry no secrets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import accumulators

from analytics.session import session
from analytics.session.session import (
    executors_watched,
    first_line,
    is_local,
    no_connector,
    place,
    usable,
)
from dashboard.core.errors import AnalysisError
from dashboard.settings.settings import Settings

CLUSTER = Settings(spark_master="spark://h:7077", spark_wait=timedelta(seconds=0.1))


class FakeSpark:
    """A session whose executors are counted from a list, the driver being one of them."""

    def __init__(self, there: Sequence[int], local: bool = False) -> None:
        self.sparkContext = self
        self._jsc = self
        self.there = list(there)
        self.local = local
        self.cancelled = threading.Event()
        self.seen = threading.Event()

    def sc(self) -> FakeSpark:
        return self

    statusTracker = sc

    def isLocal(self) -> bool:
        return self.local

    def isStopped(self) -> bool:
        raise Py4JError("the JVM is gone")

    def getExecutorInfos(self) -> list[Any]:
        count = self.there.pop(0) if len(self.there) > 1 else self.there[0]
        if len(self.there) == 1:
            self.seen.set()
        return [None] * (count + 1)

    def cancelAllJobs(self) -> None:
        self.cancelled.set()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LOOK_SECONDS", 0.05)


def test_without_executors_the_jobs_are_cancelled_and_the_reason_told() -> None:
    spark = FakeSpark([1, 0, 1, 0])
    with pytest.raises(AnalysisError) as caught, executors_watched(spark, CLUSTER):  # type: ignore[arg-type]
        assert spark.cancelled.wait(30)
        raise Py4JError("Job 3 cancelled")
    assert caught.value.code == "SPARK_NO_EXECUTORS"
    assert "spark://h:7077" in caught.value.message
    assert "spark.executor.memory" in caught.value.next_step


def test_executors_that_come_back_in_time_cancel_nothing() -> None:
    spark = FakeSpark([0, 1, 0, 1, 0, 1, 2])
    with executors_watched(spark, CLUSTER):  # type: ignore[arg-type]
        assert spark.seen.wait(30)
    assert not spark.cancelled.is_set()


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="mine"), executors_watched(FakeSpark([1]), CLUSTER):  # type: ignore[arg-type]
        raise ValueError("mine")


@pytest.mark.parametrize(
    ("settings", "spark"),
    [(Settings(), FakeSpark([0], local=True)), (Settings(spark_remote="sc://h"), FakeSpark([0]))],
)
def test_a_local_session_has_no_executors_to_wait_for(settings: Settings, spark: FakeSpark) -> None:
    with executors_watched(spark, settings):  # type: ignore[arg-type]
        assert not spark.cancelled.wait(0.5)


def test_a_session_whose_jvm_is_gone_is_of_no_use() -> None:
    assert not usable(FakeSpark([1]), CLUSTER)  # type: ignore[arg-type]


def test_only_one_process_counts_as_local() -> None:
    locals_ = {m: is_local(Settings(spark_master=m)) for m in ("local", "local[2]", "local[*]")}
    assert all(locals_.values())
    assert not is_local(Settings(spark_master="local-cluster[2,1,512]"))
    assert not is_local(Settings(spark_master="local[2]", spark_remote="sc://h"))


def test_a_place_shows_no_token_and_an_error_one_line() -> None:
    assert place(Settings(spark_remote="sc://h:1/;token=hidden;user_id=a")) == "sc://h:1/"
    trace = "An error occurred while calling o1.x\n: java.X: late\n\tat y\nCaused by: a.B: why\n"
    assert first_line(Exception(trace)) == "Caused by: a.B: why"
    assert first_line(Exception("An error occurred while calling o1.x\n: java.X: late")) == (
        "java.X: late"
    )
    assert first_line(Exception()) == "Exception"


@pytest.mark.parametrize(
    ("cause", "missing"),
    [
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem", True),
        ('UnsupportedFileSystemException: No FileSystem for scheme "gs"', True),
        ("java.lang.ClassNotFoundException: Class org.example.Codec", False),
    ],
)
def test_a_missing_connector_is_told_from_other_failures(cause: str, missing: bool) -> None:
    error = AnalysisError("Spark failed on snapshot x: An error occurred", "Collect again.")
    error.__cause__ = Py4JError(cause)
    assert no_connector(error) is missing


def test_a_java_that_was_killed_prints_no_traceback_of_a_library(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    session._say_once_that_java_died()
    server = object.__new__(accumulators.AccumulatorUnixServer)
    for error in (EOFError(), ValueError("no end")):
        try:
            raise error
        except (EOFError, ValueError):
            server.handle_error(None, None)  # type: ignore[arg-type]
    assert "EOFError" not in (told := capsys.readouterr().err) and "no end" in told
    for lost in (Py4JError("Answer from Java side is empty"), ValueError("not of Java")):
        logging.getLogger().error("Exception while sending command.", exc_info=lost)
    first, second = caplog.records
    assert first.exc_info is None and second.exc_info is not None
