"""`python -m analytics`: one analysis as a JSON object, `--serve` for one per line of stdin, or
`--week` for what a policy would have done, which is asked on stdin.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

from msgspec import to_builtins
from py4j.protocol import Py4JError
from pyarrow import ArrowException
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analytics import kernels, tasks
from analytics.bucket_view import Place
from analytics.job import Analyzed, analyze, failed
from analytics.session.archive import prepare
from analytics.session.session import (
    executors_watched,
    is_local,
    no_connector,
    open_session,
    usable,
)
from analytics.week import walked_of, walked_over
from dashboard.core.canonical import parse_json
from dashboard.core.clock import utc_now
from dashboard.core.errors import AnalysisError, LowwaterError, StoreError, UsageError
from dashboard.history.week.walk import Asked, Walked
from dashboard.settings.current import CurrentSettings
from dashboard.settings.settings import Settings, load
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES

# A first analysis that nobody waits for: Spark loads its classes, and Python workers begin.


def warm(spark: SparkSession, settings: Settings) -> None:
    """Analyze an empty snapshot in a temporary folder, where Spark runs in this process' JVM.

    It fails silently: the first real analysis is slower then, and tells what is wrong.
    """
    if not is_local(settings):
        return
    with suppress(OSError, LowwaterError), tempfile.TemporaryDirectory() as folder:
        cluster = ClusterStore(Store(folder), "warm")
        writer = cluster.begin("snapshots", utc_now())
        for name, spec in SNAPSHOT_TABLES.items():
            writer.write(name, spec.schema.empty_table())
        writer.commit(0.0, {})
        analyze(spark, cluster, settings, now=utc_now)


def main(argv: Sequence[str] | None = None) -> int:
    """Run once or serve; the exit code of the error tree. Only JSON reaches stdout."""
    arguments = _parser().parse_args(argv)
    answers = _own_stdout()
    try:
        settings = load(arguments.settings)
        root = arguments.data or settings.data
        if arguments.serve:
            return _serve(settings, root, arguments.cluster, answers)
        cluster = Store(root).cluster(arguments.cluster)
        if arguments.week:
            asked = pickle.loads(sys.stdin.buffer.read())
            found = _week(open_session(settings), settings, cluster, asked)
            _print(answers, {"week": None if found is None else to_builtins(found)})
            return 0
        # Before Java starts: an unknown snapshot is told in a moment.
        snapshot_id = arguments.snapshot or cluster.latest_snapshot()
        cluster.manifest("snapshots", snapshot_id)
        spark = open_session(settings)
        done = _analyze(spark, settings, cluster, snapshot_id, arguments.full)
        _print(answers, done.to_json())
    except LowwaterError as error:
        _print(answers, error.to_json())
        return error.exit_code
    prepare(settings, spark, keep_waiting=False)
    return 0


def _week(
    spark: SparkSession, settings: Settings, cluster: ClusterStore, asked: Asked
) -> Walked | None:
    # Rows that hold a bucket's moments, of megabytes each: few of them at once.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
    snapshot = cluster.manifest("snapshots", asked.read[-1])
    try:
        with executors_watched(spark, settings):
            return by_tasks(spark, cluster, snapshot, asked)
    except (StoreError, PySparkException, Py4JError, ArrowException) as error:
        raise failed(snapshot, error) from error


def by_tasks(
    spark: SparkSession, cluster: ClusterStore, snapshot: Manifest, asked: Asked
) -> Walked | None:
    """A policy over kept snapshots, in the buckets of this one: when which group was seen where in
    all of them, then what each tells, moment by moment.
    """
    place = Place.of_snapshot(cluster, snapshot, f"week {secrets.token_hex(8)}")
    seen = tasks.run(spark, partial(kernels.sighted, asked=asked), place, snapshot).sums
    kernel = partial(kernels.passed, asked=asked, sights=seen["sights"])
    found = tasks.run(spark, kernel, place, snapshot, then=partial(walked_over, asked=asked))
    return walked_of(found.sums)


def _serve(settings: Settings, root: str, named: str | None, answers: TextIO) -> int:
    """Answer one JSON line per line of stdin until it ends; an error answers and goes on.

    Ends when Spark is gone: a session cannot be opened twice, and who started us starts a new one.
    """
    began = time.monotonic()
    current = CurrentSettings(settings)
    spark = open_session(settings)
    _print(answers, {"ready": True, "seconds": round(time.monotonic() - began, 3)})
    warm(spark, settings)  # while the first snapshot is still collected
    builder = None
    try:
        for line in sys.stdin:
            if not line.strip():
                continue
            if not is_local(settings) and not usable(spark, settings):
                return AnalysisError.exit_code  # not answered: it is asked again
            answer = _answer(spark, current, root, named, line)
            _print(answers, answer)
            if "error" in answer and _lost(answer["error"]["code"], spark, settings):
                return AnalysisError.exit_code
            builder = builder or prepare(settings, spark, keep_waiting=True)
    except KeyboardInterrupt:
        pass
    finally:
        if builder is not None:
            builder.terminate()
    return 0


def _answer(
    spark: SparkSession, current: CurrentSettings, root: str, named: str | None, line: str
) -> dict[str, Any]:
    try:
        # Declarations and replay windows are those of now, as plans have them; [spark] is not.
        settings = current.get()
        request = _request(line)
        cluster = Store(root).cluster(request.get("cluster") or named)
        wanted, full = request.get("snapshot_id"), bool(request.get("full"))
        return _analyze(spark, settings, cluster, wanted, full).to_json()
    except LowwaterError as error:
        return {**error.to_json(), "exit_code": error.exit_code}


def _request(line: str) -> dict[str, Any]:
    try:
        request = parse_json(line)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise UsageError(
            f"'{line.strip()[:80]}' is not a JSON object",
            'Send one per line, for example {"snapshot_id": "…"}.',
        )
    return request


def _analyze(
    spark: SparkSession,
    settings: Settings,
    cluster: ClusterStore,
    snapshot_id: str | None,
    full: bool,
) -> Analyzed:
    try:
        with executors_watched(spark, settings):
            return analyze(
                spark, cluster, settings, now=utc_now, snapshot_id=snapshot_id, full=full
            )
    except AnalysisError as error:
        if no_connector(error):
            raise AnalysisError(
                f"Spark has no connector for {cluster.store.root}",
                "Name its jar in spark.jars.packages of [spark]: docs/spark-cluster.md.",
                code="SPARK_CONNECTOR_MISSING",
            ) from error
        raise
    except LowwaterError:
        raise
    except Exception as error:  # the loop must go on, whatever one snapshot did
        raise _failed(error, snapshot_id, lost=not usable(spark, settings)) from error


def _failed(error: Exception, snapshot_id: str | None, *, lost: bool) -> AnalysisError:
    named = snapshot_id or "the newest snapshot"
    if lost:
        return AnalysisError(
            f"Spark ended while it analyzed {named}",
            "Its Java was killed, often for want of memory (dmesg tells): `lowwater watch` starts "
            "it again, else run it again. spark.driver.memory of [spark] sets its memory.",
            code="SPARK_LOST",
        )
    return AnalysisError(
        f"the analysis of {named} failed: {error!r}",
        "Analyze another snapshot; keep this one for a bug report.",
    )


def _lost(code: str, spark: SparkSession, settings: Settings) -> bool:
    # A master that comes back does not know us: only a new session gets executors again.
    return code == "SPARK_NO_EXECUTORS" or not usable(spark, settings)


def _own_stdout() -> TextIO:
    """Stdout for answers alone: whatever Java or a library prints goes to stderr instead."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    return own


def _print(answers: TextIO, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value, allow_nan=False) + "\n")
    answers.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analytics", description=__doc__)
    parser.add_argument("--data", help="the folder or URL of the snapshots")
    parser.add_argument("--cluster", help="name or id, when there are several")
    parser.add_argument("--snapshot", help="its id (default: the newest)")
    parser.add_argument("--full", action="store_true", help="fold holds over all snapshots")
    parser.add_argument("--serve", action="store_true", help="read snapshot ids from stdin")
    parser.add_argument("--week", action="store_true", help="walk a policy, read from stdin")
    parser.add_argument("--settings", help="a settings file other than lowwater.toml")
    return parser


if __name__ == "__main__":
    sys.exit(main())
