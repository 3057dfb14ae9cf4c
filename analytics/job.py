"""One analysis: a snapshot's id in, committed findings out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import blockers, disks, estimate, holds, moments, quality, readers, topics
from analytics.reclaimable import reclaimable
from analytics.tables import Tables, kept_analyses, newest_at_least, stamped, write_all
from dashboard.errors import AnalysisError, StoreError
from dashboard.settings import Settings
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore

# Small jobs wait for planning more than for cores: side by side they fill both.
_JOBS_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Analyzed:
    """What an analysis wrote: rows by table; `seconds` without the session's start."""

    analysis_id: str
    snapshot_id: str
    tables: dict[str, int]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "analysis_id": self.analysis_id,
            "snapshot_id": self.snapshot_id,
            "tables": self.tables,
            "seconds": round(self.seconds, 3),
        }


def analyze(
    spark: SparkSession,
    cluster: ClusterStore,
    settings: Settings,
    *,
    now: Callable[[], datetime],
    snapshot_id: str | None = None,
    full: bool = False,
) -> Analyzed:
    """Analyze one snapshot (the newest by default) and commit its findings.

    `full` folds the holds over all kept snapshots instead of going on from the last analysis.
    LATEST moves only forward: an older snapshot's analysis does not replace a newer one's.
    Raises StoreError (no snapshot, unreadable, newer schema, disk full) and AnalysisError.
    """
    began = time.monotonic()
    snapshot = cluster.manifest("snapshots", snapshot_id or cluster.latest_snapshot())
    base = None if full else _base(cluster, snapshot)
    try:
        findings = compute(Tables(spark, cluster), snapshot, settings, base)
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise AnalysisError(
            f"Spark failed on snapshot {snapshot.id}: {_first_line(error)}",
            "Collect and analyze again; if it stays, lowwater doctor shows Java and Spark.",
        ) from error
    writer = cluster.begin("findings", now())
    try:
        rows = write_all(writer, findings.items())
        writer.commit(time.monotonic() - began, _details(snapshot, base))
    except BaseException:
        writer.abandon()
        raise
    _publish(cluster, writer.id, snapshot)
    cluster.prune("findings", kept_analyses(cluster.ids("findings")), now())
    return Analyzed(writer.id, snapshot.id, rows, time.monotonic() - began)


def compute(
    tables: Tables, snapshot: Manifest, settings: Settings, base: Manifest | None
) -> dict[str, pa.Table]:
    """All findings tables of one snapshot, in memory. `base`: the analysis to go on from."""
    return _collect(_frames(tables, snapshot, settings, base), snapshot)


def _once(frame: DataFrame) -> DataFrame:
    """The same rows, computed once by the first query that needs them.

    A checkpoint cuts the plan, which a cache does not: planning, not reading, is what a small
    job waits for.
    """
    return frame.localCheckpoint(eager=False)


def _frames(
    tables: Tables,
    snapshot: Manifest,
    settings: Settings,
    base: Manifest | None,
) -> dict[str, DataFrame]:
    """The findings as DataFrames over shared intermediate ones."""

    def read(table: str) -> DataFrame:
        return tables.read("snapshots", table, [snapshot.id])

    incomplete = list(snapshot.details.get("groups_incomplete", ()))
    partitions, groups, replicas = read("partitions"), read("groups"), read("replicas")
    named = _topics(tables, snapshot, settings, read("configs"))
    held = _once(_holds(tables, snapshot, named, base))
    targets = readers.with_targets(
        partitions,
        named,
        readers.group_positions(held, named),
        readers.topic_groups(held, named),
        _window_starts(tables, snapshot, named),
    )
    measured = _once(estimate.with_bytes(estimate.measured(replicas, targets)))
    facts = moments.with_moments(targets, groups, read("reassignments"), replicas)
    known = _once(facts.join(estimate.per_partition(measured), ["topic_no", "partition"], "left"))
    rows = _once(reclaimable(known, incomplete))
    free = disks.free_partitions(rows)
    brokers, log_dirs = read("brokers"), read("log_dirs")
    return {
        "reclaimable": rows,
        "holds": held,
        "curves": holds.curves(measured),
        "blockers": blockers.blockers(held, groups, known),
        "disks": disks.disks(log_dirs, replicas, measured, free),
        "quality": quality.of_replicas(partitions, replicas, brokers)
        .unionByName(quality.of_log_dirs(log_dirs, brokers))
        .unionByName(quality.of_cluster(partitions, read("group_offsets"), groups, incomplete)),
    }


def _collect(frames: dict[str, DataFrame], snapshot: Manifest) -> dict[str, pa.Table]:
    with ThreadPoolExecutor(_JOBS_AT_ONCE) as pool:
        collected = pool.map(lambda frame: frame.toArrow(), frames.values())
        return {
            table: stamped(table, data, snapshot)
            for table, data in zip(frames, collected, strict=True)
        }


def _topics(
    tables: Tables, snapshot: Manifest, settings: Settings, configs: DataFrame
) -> DataFrame:
    cluster = tables.cluster
    declarations = topics.all_declarations(settings, cluster.declarations())
    known = topics.describe(cluster.read("snapshots", snapshot.id, "topics"), declarations)
    return topics.with_settings(tables.from_arrow(known), configs)


def _holds(
    tables: Tables, snapshot: Manifest, named: DataFrame, base: Manifest | None
) -> DataFrame:
    kept = tables.cluster.ids("snapshots")
    known_to = str(base.details["snapshot_id"]) if base else ""
    # Snapshots between two analyses count too: a group may have come and gone in between.
    new = [i for i in kept if known_to < i < snapshot.id] + [snapshot.id]
    seen = holds.observed(
        tables.read("snapshots", "group_offsets", new), tables.read("snapshots", "topics", new)
    )
    remembered = tables.read("findings", "holds", [base.id] if base else [])
    oldest = tables.cluster.manifest("snapshots", kept[0]).taken_at
    return holds.fold(seen, remembered, named, oldest)


def _window_starts(tables: Tables, snapshot: Manifest, named: DataFrame) -> DataFrame:
    """topic, topic_id, partition, window_offset for every topic with a replay window.

    Offsets only grow, so the log end of a snapshot that is at least the window old bounds the
    first offset inside the window; no snapshot that old, no row.
    """
    windows = named.where("replay_window_ms > 0").select("replay_window_ms").distinct()
    found: DataFrame | None = None
    for row in windows.collect():
        age = timedelta(milliseconds=row["replay_window_ms"])
        old = newest_at_least(tables.cluster, snapshot, age)
        if old is not None:
            ends = _log_ends(tables, old[0], named, row["replay_window_ms"])
            found = ends if found is None else found.unionByName(ends)
    schema = "topic string, topic_id string, partition int, window_offset bigint"
    return found if found is not None else tables.spark.createDataFrame([], schema)


def _log_ends(tables: Tables, old_id: str, named: DataFrame, window_ms: int) -> DataFrame:
    old_topics = tables.read("snapshots", "topics", [old_id])
    windowed = named.where(F.col("replay_window_ms") == window_ms)
    return (
        tables.read("snapshots", "partitions", [old_id])
        .join(F.broadcast(old_topics.select("topic_no", "topic", "topic_id")), "topic_no", "inner")
        .join(F.broadcast(windowed.select("topic", "topic_id")), ["topic", "topic_id"], "left_semi")
        .select("topic", "topic_id", "partition", F.col("high_watermark").alias("window_offset"))
    )


def _base(cluster: ClusterStore, snapshot: Manifest) -> Manifest | None:
    """The newest analysis of this snapshot or an older one, whose holds can be carried on."""
    for analysis_id in reversed(cluster.ids("findings")):
        try:
            found = cluster.manifest("findings", analysis_id)
        except StoreError:
            continue
        if "holds" in found.tables and str(found.details.get("snapshot_id", "~")) <= snapshot.id:
            return found
    return None


def _publish(cluster: ClusterStore, analysis_id: str, snapshot: Manifest) -> None:
    named = cluster.latest("findings")
    if named is not None:
        try:
            shown = str(cluster.manifest("findings", named).details.get("snapshot_id", ""))
        except StoreError:
            shown = ""
        if shown > snapshot.id:
            return
    cluster.set_latest(analysis_id)


def _details(snapshot: Manifest, base: Manifest | None) -> dict[str, Any]:
    return {"snapshot_id": snapshot.id, "holds_from": base.id if base else None}


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
