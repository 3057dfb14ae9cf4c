"""One cluster of a store, opened for people: its tables as DataFrames with topics by name.

What is looked at is pinned when it is opened, a snapshot and the newest analysis of it: tables
that are joined with each other then agree, while `lowwater watch` goes on collecting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import StoreError, UsageError
from dashboard.core.words import span
from dashboard.settings import settings as settings_files
from dashboard.settings.settings import Settings
from dashboard.store.snapshot_files import Kind, Manifest, spec_of, time_of
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES

if TYPE_CHECKING:  # a JVM is started by the first DataFrame, not by looking at a repr
    from pyspark.sql import DataFrame, SparkSession


Last = int | str | timedelta | None


@dataclass
class Session:
    """The Spark session of one `open`: the one there is, or ours from the first use on."""

    settings: Settings
    ours: SparkSession | None = None

    def get(self) -> SparkSession:
        """Begins one where there is none."""
        from pyspark.sql import SparkSession

        from analytics.session.session import open_session

        there = SparkSession.getActiveSession() is not None
        spark = open_session(self.settings)
        if not there:
            self.ours = spark
        return spark

    def stop(self) -> None:
        """Ends it if it began here: somebody else's goes on."""
        if self.ours is not None:
            self.ours.stop()
            self.ours = None


@dataclass(frozen=True, repr=False)
class Cluster:
    """A snapshot and its newest analysis (None: not analyzed yet), and tables of both.

    `with` ends the Spark session that it began.
    """

    store: ClusterStore
    settings: Settings
    snapshot: Manifest
    analysis: Manifest | None
    session: Session
    now: Callable[[], datetime] = field(default=utc_now)

    @property
    def spark(self) -> SparkSession:
        """The session behind every table: the one there is, else begun as settings say.

        Raises SettingsError when Java is missing, AnalysisError when Spark cannot start.
        """
        return self.session.get()

    def findings(self, table: str) -> DataFrame:
        """A table of the analysis, such as `reclaimable`, `blockers` or `slow_followers`.

        Columns: docs/notebooks.md. Bytes are summed over replicas; unknown is null, times are
        UTC. Raises StoreError NO_ANALYSIS, TABLE_UNKNOWN.
        """
        _check("findings", table)
        if self.analysis is None:
            raise StoreError(
                f"snapshot {self.snapshot.id} of cluster {self.store.name} is not analyzed",
                "Analyze it: cluster = cluster.analyze(); or open another one.",
                code="NO_ANALYSIS",
            )
        return self._read("findings", table, [self.analysis.id])

    def table(self, table: str) -> DataFrame:
        """A table of the snapshot, such as `partitions`, `replicas` or `group_offsets`.

        `topic` stands where the store has `topic_no`. Raises StoreError TABLE_UNKNOWN.
        """
        _check("snapshots", table)
        return self._read("snapshots", table, [self.snapshot.id])

    def history(self, table: str, last: Last = None) -> DataFrame:
        """A table of the kept snapshots, or of one analysis for each, up to the opened one.

        `last`: so many, or no older than a duration (`"24h"`); None: all. `taken_at` tells the
        rows of one from another's. Raises StoreError TABLE_UNKNOWN, UsageError.
        """
        if table in FINDING_TABLES:
            return self._read("findings", table, kept_analyses(self.store, self.snapshot, last))
        _check("snapshots", table)
        return self._read("snapshots", table, kept_snapshots(self.store, self.snapshot, last))

    def analyze(self) -> Cluster:
        """Analyzes the opened snapshot; the cluster with its findings.

        They are committed to the store as by `lowwater analyze`, so pages show them too. Raises
        StoreError and AnalysisError.
        """
        from analytics.job import analyze

        done = analyze(
            self.session.get(),
            self.store,
            self.settings,
            now=self.now,
            snapshot_id=self.snapshot.id,
        )
        return replace(self, analysis=self.store.manifest("findings", done.analysis_id))

    def _read(self, kind: Kind, table: str, ids: list[str]) -> DataFrame:
        from analytics.tables import Tables

        return Tables(self.spark, self.store).named(kind, table, ids)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.session.stop()

    def __repr__(self) -> str:
        taken_at = self.snapshot.taken_at
        lines = [
            f"Cluster {self.store.name} ({self.store.cluster_id})",
            f"  snapshot {self.snapshot.id}, taken {taken_at:%Y-%m-%d %H:%M:%S} UTC, "
            f"{span(self.now() - taken_at)} ago",
            f"  .table(…): {_rows(self.snapshot.tables)}",
        ]
        if self.analysis is None:
            lines.append("  .findings(…): not analyzed yet; cluster.analyze() does it")
        else:
            lines.append(f"  .findings(…): {_rows(self.analysis.tables)}")
        return "\n".join(lines)


def open_cluster(
    data: str | None,
    *,
    cluster: str | None,
    snapshot: str | None,
    settings: str | None,
    now: Callable[[], datetime] = utc_now,
) -> Cluster:
    """What `analytics.open` says; the clock tells how old a snapshot is, and names analyses."""
    chosen = settings_files.load(settings)
    store = _named(Store(data or chosen.data), cluster)
    found, analysis = _pinned(store, snapshot)
    return Cluster(store, chosen, found, analysis, Session(chosen), now)


def _pinned(store: ClusterStore, snapshot: str | None) -> tuple[Manifest, Manifest | None]:
    analysis = newest_analysis(store, snapshot)
    if snapshot is not None:
        return store.manifest("snapshots", snapshot), analysis
    with suppress(StoreError):  # analyses may have stopped long ago: their snapshot is not kept
        if analysis is not None:
            return store.manifest("snapshots", str(analysis.details["snapshot_id"])), analysis
    return store.manifest("snapshots", store.latest_snapshot()), None


def _named(store: Store, cluster: str | None) -> ClusterStore:
    try:
        return store.cluster(cluster)
    except StoreError as error:
        if error.code not in {"CLUSTER_AMBIGUOUS", "CLUSTER_NOT_FOUND"}:
            raise
        next_step = 'Name one: lw.open(…, cluster="NAME or id").'
        raise StoreError(error.message, next_step, code=error.code) from None


def _check(kind: Kind, table: str) -> None:
    """The table is of this kind. Raises StoreError TABLE_UNKNOWN, which names the other method."""
    other, call = (SNAPSHOT_TABLES, "table") if kind == "findings" else (FINDING_TABLES, "findings")
    if table in other:
        raise StoreError(
            f"'{table}' is no {kind} table",
            f'Read it by .{call}("{table}").',
            code="TABLE_UNKNOWN",
        )
    spec_of(kind, table)


def _rows(tables: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {rows:,}" for name, rows in sorted(tables.items()))


# Which of the kept snapshots and analyses a history reads, and which analysis is a snapshot's.


def newest_analysis(cluster: ClusterStore, snapshot_id: str | None) -> Manifest | None:
    """The newest analysis of a snapshot (None: the one that LATEST names); None without one."""
    if snapshot_id is None:
        shown = cluster.latest("findings")
        return cluster.manifest("findings", shown) if shown else None
    newest_first = _kept(cluster, reversed(cluster.ids("findings")))
    return next((m for m in newest_first if m.details.get("snapshot_id") == snapshot_id), None)


def kept_snapshots(cluster: ClusterStore, newest: Manifest, last: Last) -> list[str]:
    """Ids of kept snapshots up to `newest`, oldest first. Raises UsageError for a wrong `last`."""
    return _last([i for i in cluster.ids("snapshots") if i <= newest.id], newest, last)


def kept_analyses(cluster: ClusterStore, newest: Manifest, last: Last) -> list[str]:
    """Ids of the newest kept analysis of each snapshot up to `newest`, oldest first."""
    kept = _kept(cluster, cluster.ids("findings"))
    by_snapshot = {str(found.details["snapshot_id"]): found.id for found in kept}
    chosen = _last(sorted(i for i in by_snapshot if i <= newest.id), newest, last)
    return [by_snapshot[i] for i in chosen]


def _kept(cluster: ClusterStore, ids: Iterable[str]) -> Iterator[Manifest]:
    """Manifests of analyses, without those that were pruned since they were listed."""
    for analysis_id in ids:
        try:
            yield cluster.manifest("findings", analysis_id)
        except StoreError as error:
            if error.code != "SNAPSHOT_NOT_FOUND":
                raise


def _last(ids: list[str], newest: Manifest, last: Last) -> list[str]:
    if last is None:
        return ids
    if isinstance(last, int):
        if last < 1:
            raise UsageError(
                f"last={last} is no number of snapshots",
                'Give 1 or more, or a duration such as "24h".',
            )
        return ids[-last:]
    age = parse_duration(last) if isinstance(last, str) else last
    since = newest.taken_at - age
    return [i for i in ids if (time_of(i) or datetime.min.replace(tzinfo=UTC)) >= since]
