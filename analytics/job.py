"""One analysis: a snapshot's id in, committed findings out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analytics import (
    absent,
    blockers,
    curves,
    disks,
    earlier,
    followers,
    freed,
    groups,
    growth,
    holds,
    orphans,
    partitions,
    points,
    quality,
    reclaimable,
    streams,
    topics,
    trend_tables,
    windows,
)
from analytics.session import is_local
from analytics.tables import Tables, stamped, write_all
from analytics.trend_tables import microseconds
from dashboard import known_since
from dashboard.curve_tables import to_table
from dashboard.errors import AnalysisError, LowwaterError, StoreError
from dashboard.holes import holes_of, reasons
from dashboard.pruning import prune_findings
from dashboard.safety.arrow import column
from dashboard.safety.standing import standing as stand
from dashboard.settings import Settings
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore
from dashboard.streams_groups import DETAIL


@dataclass(frozen=True, slots=True)
class Analyzed:
    """What an analysis wrote: rows by table; `seconds` without the session's start.

    `left_out` are earlier snapshots and analyses that could not be read, or were pruned meanwhile.
    """

    analysis_id: str
    snapshot_id: str
    tables: dict[str, int]
    seconds: float
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "analysis_id": self.analysis_id,
            "snapshot_id": self.snapshot_id,
            "tables": self.tables,
            "seconds": round(self.seconds, 3),
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True, slots=True)
class Findings:
    """Tables by name; the Kafka Streams applications that are known, as `streams` has them, the
    topics that are missed, as `absent` has them, and the snapshot that what is remembered of groups
    began with.
    """

    tables: dict[str, pa.Table]
    streams: dict[str, str]
    absent: dict[str, str]
    known_since: str | None


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

    `full` folds holds, curves and trends over all kept snapshots; else they go on from the last.
    LATEST moves only forward: an older snapshot's analysis does not replace a newer one's.
    Earlier snapshots and analyses that cannot be read are left out and named. Raises StoreError
    (no snapshot, unreadable, newer schema, disk full) and AnalysisError.
    """
    began = time.monotonic()
    snapshot = cluster.manifest("snapshots", snapshot_id or cluster.latest_snapshot())
    found, base, left_out, missed = _computed(spark, cluster, snapshot, settings, full=full)
    writer = cluster.begin("findings", now())
    try:
        rows = write_all(writer, found.tables.items())
        writer.commit(time.monotonic() - began, _details(snapshot, base, missed, found))
    except BaseException:
        writer.abandon()
        raise
    _publish(cluster, writer.id, snapshot)
    with suppress(OSError, LowwaterError):  # the analysis stands: pruning can wait
        prune_findings(cluster, settings.snapshots, now())
    seconds = time.monotonic() - began
    return Analyzed(writer.id, snapshot.id, rows, seconds, tuple(sorted(left_out)))


def _computed(
    spark: SparkSession,
    cluster: ClusterStore,
    snapshot: Manifest,
    settings: Settings,
    *,
    full: bool,
) -> tuple[Findings, Manifest | None, dict[str, StoreError], dict[str, str]]:
    """The findings, the analysis that they go on from, what could not be read now, by id, and what
    they do without: that, and what an earlier analysis could not read either.
    """
    left_out = earlier.torn(cluster)
    known = _known_holes(cluster, snapshot, full=full)
    while True:
        kept = earlier.Kept(cluster, left_out)
        newest = earlier.newest_base(kept, snapshot, _CARRIED)
        base = None if full else newest
        try:
            missed = known | _damaged(left_out)
            found = compute(Tables(spark, kept), snapshot, settings, base, missed)
            return found, base, left_out, missed
        except (StoreError, PySparkException, Py4JError, pa.ArrowException) as error:
            wrong = earlier.unreadable(kept, newest, snapshot, full=full)
            if snapshot.id in wrong:
                raise wrong[snapshot.id] from error
            left_out.update(wrong)
            if not wrong:
                raise _failed(snapshot, error) from error


def _known_holes(cluster: ClusterStore, snapshot: Manifest, *, full: bool) -> dict[str, str]:
    """What the newest analysis that can be read had to do without.

    A `full` one reads all snapshots that are kept by itself, and the analyses that were put back.
    """
    newest = earlier.newest_readable(cluster, snapshot)
    found = holes_of(cluster, newest) if newest is not None else {}
    if not full:
        return found
    back = {analysis.id for analysis in earlier.put_back(cluster, snapshot)}
    return {i: found[i] for i in cluster.ids("findings") if i in found and i not in back}


def _damaged(left_out: Mapping[str, StoreError]) -> dict[str, str]:
    """What was pruned meanwhile is not kept any more, and nothing of it is missed."""
    return {n: e.message for n, e in left_out.items() if e.code != "SNAPSHOT_NOT_FOUND"}


def _failed(snapshot: Manifest, error: Exception) -> LowwaterError:
    if isinstance(error, StoreError):
        return error
    return AnalysisError(
        f"Spark failed on snapshot {snapshot.id}: {_first_line(error)}",
        "Collect and analyze again; if it stays, lowwater doctor shows Java and Spark.",
    )


def compute(
    tables: Tables,
    snapshot: Manifest,
    settings: Settings,
    base: Manifest | None,
    left_out: Mapping[str, str] | None = None,
) -> Findings:
    """All findings of one snapshot, in memory. `base`: the analysis to go on from.

    `left_out` are earlier snapshots and analyses that could not be read, and why: what they alone
    knew of groups is missing.
    """
    made = _findings(tables, snapshot, settings, base, reasons(left_out or {}))
    found = made.tables
    found["quality"] = quality.with_left_out(found["quality"], left_out or {})
    found["quality"] = quality.with_metrics(found["quality"], snapshot.details.get("metrics", ()))
    written = {table: stamped(table, data, snapshot) for table, data in found.items()}
    return replace(made, tables=written)


def _findings(
    tables: Tables,
    snapshot: Manifest,
    settings: Settings,
    base: Manifest | None,
    unknown: Sequence[str],
) -> Findings:
    """The findings, their tables without stamps. Spark folds and joins the long tables;
    what is small, and every text, is made from its results on the driver.
    """
    cluster = tables.cluster
    read = {name: cluster.read("snapshots", snapshot.id, name, c) for name, c in _COLUMNS.items()}
    declarations = topics.all_declarations(settings, cluster.declarations())
    named = topics.with_settings(topics.describe(read["topics"], declarations), read["configs"])
    named = topics.with_new(named, cluster, snapshot, settings.purge.pattern_refresh)
    with ThreadPoolExecutor(1) as beside:  # what needs no Spark is done while Spark works
        in_spark = beside.submit(
            _in_spark, tables, snapshot, named, base, one_machine=is_local(settings)
        )
        told = points.told(cluster, snapshot.id)
        moved = trend_tables.Carried(cluster, base)
        drawn = curves.fold(cluster, snapshot, base, told, named, each=moved.add)
        offsets, sizes = in_spark.result()
    held, former = holds.split(offsets, named)
    before = base or earlier.newest_base(cluster, snapshot, ["holds"])
    missed = absent.carried(offsets, named, before, snapshot)
    rows = partitions.of_topics(read["partitions"], named)
    applications = streams.remembered(cluster, snapshot, base, before, offsets)
    commits = groups.commits(offsets, named, snapshot)
    who = groups.who_reads(cluster, snapshot, read, named, streams=applications, commits=commits)
    standing = stand(rows, commits, named, who)
    found = partitions.partitions(
        rows,
        read["replicas"],
        sizes,
        topics=named,
        groups=standing,
        windows=windows.window_starts(cluster, snapshot, named),
    )
    found, replicas = freed.with_bytes(found, points.measured(told), drawn)
    known = reclaimable.described(found, named, read["reassignments"])
    alone = orphans.find(tables, snapshot, base, read, settings)
    errors = groups.offset_errors(cluster, snapshot, read, rows)
    incomplete = [*snapshot.details.get("groups_incomplete", ()), *unknown]
    told_of = [
        reclaimable.reclaimable(
            known, target, sums, groups=standing, incomplete=incomplete, offset_errors=errors
        )
        for target, sums in (("committed", "committed"), ("high-watermark", "end"))
    ]
    told_too = _told(known, told_of, held, read, incomplete, replicas=replicas, alone=alone)
    every = told_too | {
        "curves": to_table(drawn),
        "former_readers": former,
        "trends": trend_tables.to_table(moved.trends),
        "slow_followers": followers.slow_followers(
            moved.trends, told, drawn, read, microseconds(snapshot)
        ),
        "growth": growth.growth(moved.trends, read["log_dirs"], microseconds(snapshot)),
    }
    since = known_since.of_analysis(cluster, before, anew=base is None)
    return Findings(every, applications, missed, since)


def _in_spark(
    tables: Tables,
    snapshot: Manifest,
    topics: pa.Table,
    base: Manifest | None,
    *,
    one_machine: bool,
) -> tuple[pa.Table, pa.Table]:
    held = holds.fold(tables, snapshot, topics, base, one_machine=one_machine)
    return held, partitions.sums(tables, snapshot)


def _told(
    known: pa.Table,
    by_target: Sequence[pa.Table],
    held: pa.Table,
    read: Mapping[str, pa.Table],
    incomplete: Sequence[str],
    *,
    replicas: pa.Table,
    alone: orphans.Found,
) -> dict[str, pa.Table]:
    """Findings from described partitions, holds, replicas, orphans and the small tables."""
    free = replicas.filter(disks.free(by_target[0]).take(column(replicas, "at")))
    return {
        "reclaimable": pa.concat_tables(by_target),
        "holds": held,
        "blockers": blockers.blockers(held, read["groups"], known),
        "disks": disks.disks(read["log_dirs"], read["replicas"], free, alone.stock, alone.scans),
        "orphans": alone.orphans,
        "sightings": alone.sightings,
        "quality": quality.quality(read, incomplete),
    }


# What the driver reads itself; of the long tables only what is counted or summed.
_COLUMNS: dict[str, list[str] | None] = {
    "topics": None,
    "configs": ["scope", "name", "key", "value"],
    "reassignments": None,
    "brokers": ["broker_id", "rack", "reachable", "error"],
    "log_dirs": None,
    "groups": None,
    "partitions": [*partitions.COLUMNS, "error"],
    "replicas": [*partitions.MOVES, "size_bytes", "log_end_offset", "error"],
    "group_offsets": ["error"],
}


_CARRIED = {"holds", "curves", "trends", "sightings"}


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


def _details(
    snapshot: Manifest, base: Manifest | None, left_out: Mapping[str, str], found: Findings
) -> dict[str, Any]:
    return {
        "snapshot_id": snapshot.id,
        "holds_from": base.id if base else None,
        "left_out": dict(sorted(left_out.items())),
        DETAIL: found.streams,
        absent.DETAIL: found.absent,
        known_since.DETAIL: found.known_since,
    }


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
