"""What a storage report is told from: one analysis, its snapshot's manifest, the journal's runs;
and every findings table as CSV or Parquet: a file each, for a folder or a zip.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.core.csv_cells import table_as_csv
from dashboard.core.errors import StoreError
from dashboard.history.findings_age import Age, age_of
from dashboard.purge.journal.rows import Begins, RunRow
from dashboard.purge.plan.plan import Plan
from dashboard.settings.sections import Price
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES
from dashboard.topics.idle import Ask

Read = Callable[[str], pa.Table]


@dataclass(frozen=True, slots=True)
class Source:
    """`read` gives a findings table; `snapshot` is None where it was pruned since.

    `begins`: runs before that were archived, and are not in `runs`.
    """

    cluster_id: str
    cluster_name: str
    analysis: Manifest
    snapshot: Manifest | None
    read: Read
    runs: Sequence[RunRow]
    plan: Plan | None
    age: Age
    begins: Begins | None = None
    ask: Ask | None = None
    price: Price | None = None

    @property
    def now(self) -> datetime:
        """When the report is made."""
        return self.age.now

    @property
    def snapshot_id(self) -> str | None:
        return self.analysis.details.get("snapshot_id")

    @property
    def about(self) -> dict[str, str | None]:
        """Whose findings these are, for files and JSON."""
        return {
            "cluster_id": self.cluster_id,
            "cluster_name": self.cluster_name,
            "analysis_id": self.analysis.id,
            "snapshot_id": self.snapshot_id,
        }


def open_source(
    cluster: ClusterStore,
    runs: Sequence[RunRow],
    now: datetime,
    every: timedelta,
    *,
    plan: Plan | None = None,
    analysis_id: str | None = None,
    read: Read | None = None,
    begins: Begins | None = None,
    ask: Ask | None = None,
    price: Price | None = None,
) -> Source:
    """The newest analysis, or the one named. Raises StoreError NO_ANALYSIS.

    `runs` are the cluster's, newest first, of a journal that `begins` there; snapshots are taken
    once in `every`; `ask` is `idle`'s, `price` the cluster's; `read` serves tables that are
    already in memory.
    """
    chosen = analysis_id or cluster.latest_analysis()
    analysis = cluster.manifest("findings", chosen)
    snapshot = None
    with suppress(StoreError):  # pruned since: the report says less of the brokers
        snapshot = cluster.manifest("snapshots", analysis.details.get("snapshot_id", ""))
    return Source(
        cluster.cluster_id,
        cluster.name,
        analysis,
        snapshot,
        read or (lambda name: cluster.read("findings", chosen, name)),
        runs,
        plan,
        age_of(cluster, analysis, now, every),
        begins,
        ask,
        price,
    )


Files = Iterable[tuple[str, bytes]]

ABOUT = "report.json"
FORMATS = ("csv", "parquet")


def names(kind: str) -> frozenset[str]:
    """The files of a `csv` or `parquet` report."""
    return frozenset({ABOUT, *(f"{table}.{kind}" for table in FINDING_TABLES)})


def files(kind: str, read: Read, about: Mapping[str, str | None]) -> Iterator[tuple[str, bytes]]:
    """`(name, content)` of each table in turn, then of `report.json`: `about` and rows by table."""
    body = {"csv": table_as_csv, "parquet": as_parquet}[kind]
    rows = {}
    for name in FINDING_TABLES:
        table = read(name)
        rows[name] = table.num_rows
        yield f"{name}.{kind}", body(table)
    text = json.dumps({**about, "format": kind, "tables": rows}, allow_nan=False, indent=1)
    yield ABOUT, text.encode()


def as_zip(found: Files) -> bytes:
    """The files as one archive; equal files make an equal archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in found:
            entry = zipfile.ZipInfo(name)
            packed = name.endswith(".parquet")
            entry.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            archive.writestr(entry, body)
    return held.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """The table in its declared schema, zstd."""
    held = io.BytesIO()
    pq.write_table(table, held, compression="zstd")
    return held.getvalue()
