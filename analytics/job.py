"""One analysis: a snapshot's id in, committed findings out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analytics import earlier
from analytics.findings import Findings, compute
from analytics.orphans import sightings
from analytics.readers import groups
from analytics.session.session import too_little
from dashboard.core.errors import AnalysisError, LowwaterError, StoreError
from dashboard.history import findings_age, known_since, past_groups
from dashboard.history.findings_age import holes_of
from dashboard.history.past_groups import STREAMS_DETAIL
from dashboard.history.pruning import prune_findings
from dashboard.settings.settings import Settings
from dashboard.store.snapshot_files import Manifest, Writer
from dashboard.store.snapshots import ClusterStore


@dataclass(frozen=True, slots=True)
class Analyzed:
    """What an analysis wrote: rows by table; `seconds` without the session's start.

    `left_out` are earlier snapshots and analyses that could not be read, or were pruned meanwhile.
    `published`: readers see it; else they see one of a newer snapshot.
    """

    analysis_id: str
    snapshot_id: str
    tables: dict[str, int]
    seconds: float
    left_out: tuple[str, ...] = ()
    published: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "analysis_id": self.analysis_id,
            "snapshot_id": self.snapshot_id,
            "tables": self.tables,
            "seconds": round(self.seconds, 3),
            "left_out": list(self.left_out),
            "published": self.published,
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

    They lie in as many buckets as the snapshot. `full` folds holds, curves and trends over all kept
    snapshots; else they go on from the last.
    LATEST moves only forward: an older snapshot's analysis does not replace a newer one's.
    Earlier snapshots and analyses that cannot be read are left out and named. Raises StoreError
    (no snapshot, unreadable, newer schema, disk full) and AnalysisError.
    """
    began = time.monotonic()
    snapshot = cluster.manifest("snapshots", snapshot_id or cluster.latest_snapshot())
    writer = cluster.begin("findings", now(), snapshot.buckets)
    try:
        found, base, left_out, missed = _computed(
            spark, cluster, snapshot, settings, writer, full=full
        )
        _write(writer, found)
        writer.commit(time.monotonic() - began, _details(snapshot, base, missed, found))
    except BaseException:
        with suppress(OSError):  # a task that nobody waits for may still write: pruning takes it
            writer.abandon()
        raise
    published = _publish(cluster, writer.id, snapshot)
    with suppress(OSError, LowwaterError):  # the analysis stands: pruning can wait
        prune_findings(cluster, settings.snapshots, snapshot)
    seconds = time.monotonic() - began
    names = tuple(sorted(left_out))
    return Analyzed(writer.id, snapshot.id, dict(writer.rows), seconds, names, published)


def _write(writer: Writer, found: Findings) -> None:
    for table, rows in found.tables.items():
        writer.write(table, rows)
    for table, parts in found.parts.items():
        writer.adopt(table, parts)
    writer.sweep()


def _computed(
    spark: SparkSession,
    cluster: ClusterStore,
    snapshot: Manifest,
    settings: Settings,
    writer: Writer,
    *,
    full: bool,
) -> tuple[Findings, Manifest | None, dict[str, StoreError], dict[str, str]]:
    """The findings, the analysis that they go on from, what could not be read now, by id, and what
    they do without: that, and what an earlier analysis could not read either.
    """
    left_out = earlier.torn(cluster)
    known = _known_holes(cluster, snapshot, full=full)
    while True:
        listed = cluster.ids("snapshots")
        kept = earlier.OnDriver(cluster.store, cluster.cluster_id, listed, left_out)
        base, before = earlier.going_on(kept, snapshot, full=full)
        try:
            missed = known | _damaged(left_out)
            found = compute(
                spark, kept, writer, snapshot, settings,
                base=base, before=before, left_out=missed,
            )  # fmt: skip
            return found, base, left_out, missed
        except (StoreError, PySparkException, Py4JError, pa.ArrowException) as error:
            wrong = earlier.unreadable(kept, base, before, snapshot)
            if snapshot.id in wrong:
                raise wrong[snapshot.id] from error
            left_out.update(wrong)
            if not wrong:
                raise failed(snapshot, error) from error


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


def failed(snapshot: Manifest, error: Exception) -> LowwaterError:
    """What is told of an error of Spark, of its tasks or of Arrow."""
    if isinstance(error, StoreError):
        return error
    if (found := too_little(error)) is not None:
        why, setting = found
        return AnalysisError(
            f"the analysis of snapshot {snapshot.id} ran out of memory: {why}", setting,
            code="SPARK_OUT_OF_MEMORY",
        )  # fmt: skip
    return AnalysisError(
        f"Spark failed on snapshot {snapshot.id}: {_first_line(error)}",
        "Collect and analyze again; if it stays, lowwater doctor shows Java and Spark.",
    )


def _publish(cluster: ClusterStore, analysis_id: str, snapshot: Manifest) -> bool:
    named = cluster.latest("findings")
    if named is not None:
        try:
            shown = str(cluster.manifest("findings", named).details.get("snapshot_id", ""))
        except StoreError:
            shown = ""
        if shown > snapshot.id:
            return False
    cluster.set_latest(analysis_id)
    return True


def _details(
    snapshot: Manifest, base: Manifest | None, left_out: Mapping[str, str], found: Findings
) -> dict[str, Any]:
    return {
        "snapshot_id": snapshot.id,
        "holds_from": base.id if base else None,
        "left_out": dict(sorted(left_out.items())),
        STREAMS_DETAIL: found.streams,
        past_groups.DETAIL: past_groups.kept(found.met),
        groups.ABSENT: found.absent,
        sightings.PROVED: True,
        known_since.DETAIL: found.known_since,
        findings_age.DETAIL: list(found.folded),
    }


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
