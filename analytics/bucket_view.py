"""One bucket of a cluster's store, read with Arrow where a task runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from analytics.earlier import Kept
from dashboard.store.buckets import LONG, Buckets
from dashboard.store.snapshot_files import Kind, Manifest, Part, Writer
from dashboard.store.snapshots import ClusterStore, Store


@dataclass(frozen=True)
class Place:
    """Where tasks read and write: a store, the snapshots that the analysis sees, the folder that it
    writes, and the parts in it that earlier tasks of it wrote, a file for each bucket.
    """

    root: str
    cluster_id: str
    snapshots: tuple[str, ...]
    without: frozenset[str]
    written: Manifest
    made: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, kept: Kept, writer: Writer) -> Place:
        """The place of an analysis."""
        listed = tuple(kept.ids("snapshots"))
        written = Manifest(writer.id, writer.taken_at, {}, 0.0, buckets=writer.buckets)
        return cls(_whole(kept.store), kept.cluster_id, listed, kept.without, written)

    @classmethod
    def of_snapshot(cls, cluster: ClusterStore, snapshot: Manifest, named: str) -> Place:
        """Where tasks only read, the buckets of this snapshot; `named`: what they hold it under."""
        listed = tuple(cluster.ids("snapshots"))
        written = Manifest(named, snapshot.taken_at, {}, 0.0, buckets=snapshot.buckets)
        return cls(_whole(cluster.store), cluster.cluster_id, listed, frozenset(), written)

    def with_made(self, made: Mapping[str, tuple[Part, ...]]) -> Place:
        """The same, where earlier tasks wrote these."""
        return replace(self, made=made)


def _whole(store: Store) -> str:
    """A local folder by its whole path, as workers have their own."""
    return store.root if "://" in store.root else store.path


_MOST_HELD = 128 << 20


@dataclass
class _Held:
    """What tasks of one analysis read alike, for the next task in this process: manifests and short
    tables. A committed folder does not change, and 128 buckets of 12 snapshots would read the
    topics and settings of each snapshot 128 times.
    """

    analysis: str = ""
    manifests: dict[tuple[Kind, str], Manifest] = field(default_factory=dict)
    tables: dict[tuple[str, ...], pa.Table] = field(default_factory=dict)
    bytes: int = 0

    def hold(self, key: tuple[str, ...], table: pa.Table) -> None:
        """Keep it while there is room: tables are read in turn, the first ones first again."""
        if self.bytes + table.nbytes <= _MOST_HELD:
            self.tables[key] = table
            self.bytes += table.nbytes


_held = _Held()


def _held_of(place: Place) -> _Held:
    global _held  # noqa: PLW0603  (workers of Spark live on from task to task)
    analysis = f"{place.root} {place.cluster_id} {place.written.id}"
    if _held.analysis != analysis:
        _held = _Held(analysis)
    return _held


class BucketView(Kept):
    """A cluster's store as the task of one bucket sees it: of long tables its own rows alone.

    What reads a whole store reads one bucket of it by this, with the same functions.
    """

    def __init__(self, place: Place, bucket: int) -> None:
        super().__init__(Store(place.root), place.cluster_id, place.snapshots, place.without)
        self.place = place
        self.buckets = Buckets(place.written.buckets)
        self.bucket = bucket
        self._held = _held_of(place)

    def manifest(self, kind: Kind, item_id: str) -> Manifest:
        """As the store has it, read once in an analysis."""
        known = self._held.manifests
        if (kind, item_id) not in known:
            known[kind, item_id] = super().manifest(kind, item_id)
        return known[kind, item_id]

    def read(
        self,
        kind: Kind,
        item_id: str,
        table: str,
        columns: list[str] | None = None,
        *,
        only: pc.Expression | None = None,
    ) -> pa.Table:
        """As the store's; of a long table the rows of this bucket."""
        if table not in LONG[kind]:
            return self._short(kind, item_id, table, columns, only)
        manifest = self.manifest(kind, item_id)
        found = self.read_bucket(
            kind, manifest, table, columns, buckets=self.buckets, bucket=self.bucket
        )
        return found if only is None else found.filter(only)

    def parts(
        self,
        kind: Kind,
        item_id: str,
        table: str,
        columns: list[str] | None = None,
        *,
        only: pc.Expression | None = None,
    ) -> Iterator[pa.Table]:
        """As the store's; of a long table in more buckets those that this one is made of."""
        files = self.manifest(kind, item_id).files(table)
        if len(files) <= self.buckets.count:
            yield self.read(kind, item_id, table, columns, only=only)
            return
        for at in self.buckets.parts(len(files), self.bucket):
            part = [files[at]]
            yield self.read_files(
                kind, self.manifest(kind, item_id), table, part, columns, only=only
            )

    def _short(
        self,
        kind: Kind,
        item_id: str,
        table: str,
        columns: list[str] | None,
        only: pc.Expression | None,
    ) -> pa.Table:
        """Whole, where no rows are chosen: others of its columns are asked for next."""
        wanted = columns if only is not None else None
        key = (kind, item_id, table, *(wanted or ()), str(only))
        found = self._held.tables.get(key)
        if found is None:
            found = super().read(kind, item_id, table, wanted, only=only)
            self._held.hold(key, found)
        return found if columns is None else found.select(columns)

    def made(self, table: str) -> pa.Table:
        """What an earlier task of this analysis wrote of this bucket."""
        files = [self.place.made[table][self.bucket]]
        return self.read_files("findings", self.place.written, table, files)
