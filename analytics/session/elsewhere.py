"""Spark that runs elsewhere: is it there, has it executors, and is its session still of use?

A cluster can be gone at any moment. Spark itself then waits: for executors without an end, for a
Connect server ten minutes. Somebody waits for the findings, so both end here with a reason.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dashboard.core.errors import AnalysisError
from dashboard.settings.settings import Settings

_CONNECT_PORT = 15002
_CONNECT_SECONDS = 10.0
_RETRIES = 6  # waits of 0.05 s, four times as long each: a minute in all
_LOOK_SECONDS = 1.0


def place(settings: Settings) -> str:
    """Where Spark runs, fit for a message: what follows a `;` may be a token."""
    return (settings.spark_remote or settings.spark_master).split(";", 1)[0]


def first_line(error: Exception) -> str:
    """What an error of Spark says first; the rest are traces of two languages."""
    lines = str(error).strip().splitlines()
    causes = [line.strip() for line in lines if line.startswith("Caused by:")]
    told = [line.strip() for line in lines if not line.startswith("An error occurred while")]
    return (causes[-1:] or told[:1] or [type(error).__name__])[0].removeprefix(": ")


def no_connector(error: AnalysisError) -> bool:
    """Whether Spark failed because Hadoop has no file system for the store's URL."""
    cause = str(error.__cause__)
    missing = "No FileSystem for scheme" in cause
    return missing or ("ClassNotFoundException" in cause and "hadoop.fs." in cause)


def check_answers(remote: str) -> None:
    """OSError when nothing listens at a Connect address: pyspark would try for ten minutes."""
    address = urlsplit(remote.split(";", 1)[0])
    if address.scheme == "sc" and address.hostname:
        where = (address.hostname, address.port or _CONNECT_PORT)
        socket.create_connection(where, timeout=_CONNECT_SECONDS).close()


def give_up_sooner(spark: SparkSession) -> None:
    """Let a Connect session try again for a minute, where it would for ten."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = spark.client
    client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])


def usable(spark: SparkSession, settings: Settings) -> bool:
    """Whether the session can run another statement, executors or not."""
    try:
        if settings.spark_remote is not None:
            spark.sql("select 1").toArrow()
            return True
        context: Any = spark.sparkContext._jsc
        return not context.sc().isStopped()
    except (PySparkException, Py4JError, OSError, AttributeError):
        return False


@contextmanager
def executors_watched(spark: SparkSession, settings: Settings) -> Iterator[None]:
    """Cancel what runs inside once there was no executor for `spark_wait`, with an AnalysisError.

    Local sessions run in the driver; a Connect server watches its own executors.
    """
    if settings.spark_remote is not None or _in_driver(spark):
        yield
        return
    done, starved = threading.Event(), threading.Event()
    seconds = settings.spark_wait.total_seconds()
    watcher = threading.Thread(
        target=_watch, args=(spark, seconds, done, starved), name="executors", daemon=True
    )
    watcher.start()
    try:
        yield
    except Exception as error:
        if starved.is_set():
            raise _starved(settings) from error
        raise
    finally:
        done.set()
        watcher.join(_LOOK_SECONDS)


def _in_driver(spark: SparkSession) -> bool:
    context: Any = spark.sparkContext._jsc
    return bool(context.sc().isLocal())


def _watch(
    spark: SparkSession, seconds: float, done: threading.Event, starved: threading.Event
) -> None:
    context: Any = spark.sparkContext._jsc
    missed = 0.0
    while not done.wait(_LOOK_SECONDS):
        try:
            # The driver is one of them.
            there = len(context.sc().statusTracker().getExecutorInfos()) - 1
            missed = 0.0 if there > 0 else missed + _LOOK_SECONDS
            if missed >= seconds:
                starved.set()
                context.sc().cancelAllJobs()
        except (Py4JError, OSError):  # Spark is gone: what runs inside fails by itself
            return


def _starved(settings: Settings) -> AnalysisError:
    seconds = settings.spark_wait.total_seconds()
    return AnalysisError(
        f"Spark ({place(settings)}) gave no executor for {seconds:g} s",
        "See on the cluster's page whether workers are there and have the cores and memory that "
        "[spark] asks for (spark.executor.memory, spark.cores.max); spark_wait says how long to "
        "wait.",
        code="SPARK_NO_EXECUTORS",
    )
