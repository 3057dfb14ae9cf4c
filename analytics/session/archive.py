"""The class-data archive: Java classes that Spark needs, parsed once and mapped at each start.

It more than halves a session's start. It is made in the background by a process of its own, once
per Java and installed pyspark; a job never waits for it and never fails because of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from analytics.session.session import archive_path, is_local, open_session
from dashboard.core.errors import LowwaterError
from dashboard.core.locks import take
from dashboard.core.processes import find_java
from dashboard.settings.settings import Settings, load

_LONGEST_SECONDS = 115
_KEPT = 2


def prepare(
    settings: Settings, spark: SparkSession, *, keep_waiting: bool
) -> subprocess.Popen[bytes] | None:
    """Start the builder if there is no archive yet and the session is a local one.

    With `keep_waiting` the caller ends it; else the session is stopped first and the builder
    outlives this process, at low priority and for at most two minutes.
    """
    try:
        if not is_local(settings) or archive_path(settings, find_java()).is_file():
            return None
        if not keep_waiting:
            spark.stop()
        own = {"LOWWATER_CACHE_DIR": str(settings.cache_dir)}
        if settings.source is not None:
            own["LOWWATER_SETTINGS"] = str(settings.source.absolute())
        return subprocess.Popen(
            ["nice", "-n", "19", sys.executable, "-m", "analytics.session.archive"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | own,
        )
    except (OSError, LowwaterError):
        return None


def build(settings: Settings) -> bool:
    """Make the archive under a temporary name, then rename it; False if another process does."""
    target = archive_path(settings, find_java())
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.with_suffix(".lock")) as alone:
        if not alone or target.is_file():
            return False
        for left in target.parent.glob("*.part"):  # by a builder that was ended half-way
            left.unlink(missing_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        try:
            _record(settings, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        _forget_older(target)
    return True


def _forget_older(newest: Path) -> None:
    """Leave the newest and the one before it, which another installation may use: 180 MB each."""
    made = sorted(newest.parent.glob("spark-*.jsa"), key=lambda file: file.stat().st_mtime)
    for file in made[:-_KEPT]:
        file.unlink(missing_ok=True)
        file.with_suffix(".lock").unlink(missing_ok=True)


def _record(settings: Settings, part: Path) -> None:
    """A short session that loads what an analysis loads, and writes its classes as it ends."""
    spark = open_session(settings, (f"-XX:ArchiveClassesAtExit={part}",))
    folder = part.parent / f"{part.stem}.sample"
    _exercise(spark, folder)
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    java = gateway.proc
    gateway.shutdown()
    java.stdin.close()  # Spark's gateway ends when its stdin does
    java.wait(timeout=_LONGEST_SECONDS)


def _exercise(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(200).select(
        "id", (F.col("id") % 7).alias("key"), F.col("id").cast("string").alias("text")
    )
    address = folder.as_uri()
    try:
        rows.write.mode("overwrite").parquet(address)
        read = spark.read.parquet(address)
        sums = read.groupBy("key").agg(
            F.sum("id"), F.max_by("text", "id"), F.array_sort(F.collect_set("text")).alias("all")
        )
        read.join(F.broadcast(sums), "key", "left").localCheckpoint(eager=False).toArrow()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Whether this process is the only builder; the lock ends with the process, however it ends."""
    with lock.open("w") as file:
        yield take(file.fileno())


def _end_in_time() -> None:
    """End this process and its Java together: when asked to, and after two minutes anyway."""

    def end(_number: int, _frame: object) -> None:
        os.killpg(0, signal.SIGKILL)

    if os.getpgrp() != os.getpid():  # else it has a group of its own already
        os.setpgrp()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(_LONGEST_SECONDS)


if __name__ == "__main__":
    _end_in_time()
    try:
        build(load())
    except Exception as error:  # nobody waits for it: the next start tries again
        sys.exit(f"no class-data archive was made: {error}")
