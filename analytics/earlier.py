"""What an analysis builds on: earlier snapshots and an earlier analysis, as far as they are whole.

They are read as if nothing were wrong. Only when that fails they are looked at one by one: those
that were pruned meanwhile, or are damaged, are left out and named, and the analysis goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.history import findings_age
from dashboard.history.findings_age import holes_of
from dashboard.history.past_groups import STREAMS_DETAIL
from dashboard.store.buckets import LONG
from dashboard.store.snapshot_files import Kind, Manifest, Part, time_of
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES

_T = TypeVar("_T")


class Kept(ClusterStore):
    """A cluster's store as one analysis sees it: one listing of snapshots, without some folders."""

    def __init__(
        self, store: Store, cluster_id: str, snapshots: Sequence[str], without: Collection[str] = ()
    ) -> None:
        super().__init__(store, cluster_id)
        self.without = frozenset(without)
        self._snapshots = [i for i in snapshots if i not in self.without]

    def ids(self, kind: Kind) -> list[str]:
        """As the store has them; snapshots as they were when the analysis began."""
        if kind == "snapshots":
            return list(self._snapshots)
        return [i for i in super().ids(kind) if i not in self.without]

    def latest(self, kind: Kind) -> str | None:
        """As the store has it; None for a folder that is left out."""
        found = super().latest(kind)
        return None if found in self.without else found


class OnDriver(Kept):
    """The store for what an analysis does in the driver, where there is no room for long tables."""

    def read_files(
        self,
        kind: Kind,
        manifest: Manifest,
        table: str,
        files: Sequence[Part],
        columns: list[str] | None = None,
        *,
        only: pc.Expression | None = None,
    ) -> pa.Table:
        """Files of a short table, which whatever else reads comes to; raises AssertionError for
        those of a long one, which Spark's tasks read.
        """
        assert table not in LONG[kind], f"the long table {table} is read in the driver"
        return super().read_files(kind, manifest, table, files, columns, only=only)


def since(cluster: ClusterStore, base: Manifest | None, snapshot: Manifest) -> list[str]:
    """The snapshots after the one of an analysis (None: all kept ones), up to and with this one."""
    known_to = str(base.details["snapshot_id"]) if base else ""
    return [i for i in cluster.ids("snapshots") if known_to < i < snapshot.id] + [snapshot.id]


def stepped(
    cluster: ClusterStore,
    base: Manifest | None,
    snapshot: Manifest,
    begin: _T,
    step: Callable[[_T, Manifest], _T],
) -> _T:
    """`step` by step over the snapshots `since` the base; one that was pruned meanwhile is one step
    less. Raises StoreError where another cannot be read.
    """
    found = begin
    for snapshot_id in since(cluster, base, snapshot):
        try:
            found = step(found, cluster.manifest("snapshots", snapshot_id))
        except StoreError as error:
            if snapshot_id == snapshot.id or error.code != "SNAPSHOT_NOT_FOUND":
                raise
    return found


def newest_base(
    cluster: ClusterStore, snapshot: Manifest, carried: Collection[str]
) -> Manifest | None:
    """The analysis of the newest snapshot up to this one that has these tables.

    It is LATEST, unless an older snapshot is analyzed again: an analysis of an older snapshot
    would know less, however new it is itself.
    """
    with suppress(StoreError):  # a damaged LATEST: the folders tell as well
        shown = cluster.latest("findings")
        found = _carrying(cluster, shown, snapshot, carried) if shown else None
        if found is not None:
            return found
    others = (_carrying(cluster, i, snapshot, carried) for i in cluster.ids("findings"))
    return max(
        (other for other in others if other is not None),
        key=lambda other: (str(other.details["snapshot_id"]), other.id),
        default=None,
    )


def going_on(
    cluster: ClusterStore, snapshot: Manifest, *, full: bool
) -> tuple[Manifest | None, tuple[Manifest, ...]]:
    """The analysis to go on from, and where there is none those whose memory a fold over all kept
    snapshots must not lose, the newest last; nothing before the first analysis.

    Only the newest one that remembers groups is gone on from, if it has all that is carried. Never
    one before it: what the newest alone remembers, one of an older release say that was put back
    in place for some hours, nobody would read again. With it those are remembered that it could
    not read and that were put back since, and the newest that has all that is carried. Nor is it
    gone on from where a kept snapshot came to stand before its own since: a step back is none.
    """
    newest = newest_base(cluster, snapshot, ["holds"])
    if newest is None:
        return None, ()
    whole = newest.tables.keys() >= _CARRIED and findings_age.DETAIL in newest.details
    if whole and not full and not findings_age.late(cluster.ids("snapshots"), newest):
        return newest, ()
    found = [*put_back(cluster, snapshot), newest_base(cluster, snapshot, _CARRIED), newest]
    known = {analysis.id: analysis for analysis in found if analysis is not None}
    return None, (*(a for a in known.values() if a.id != newest.id), newest)


_CARRIED = {"holds", "curves", "trends", "sightings", "last_writes", "reader_lags"}


def _carrying(
    cluster: ClusterStore, analysis_id: str, snapshot: Manifest, carried: Collection[str]
) -> Manifest | None:
    try:
        found = cluster.manifest("findings", analysis_id)
    except StoreError:
        return None
    whole = found.tables.keys() >= set(carried)
    return found if whole and str(found.details.get("snapshot_id", "~")) <= snapshot.id else None


def torn(cluster: ClusterStore) -> dict[str, StoreError]:
    """Analyses whose manifests cannot be read, by id, where the newest one is not whole.

    Each may have been the one that the others go on from: what it carried is known to nobody. An
    older one is missed by nobody as long as a newer one can be read.
    """
    with suppress(StoreError):
        newest = cluster.latest("findings")
        if newest is not None:
            cluster.manifest("findings", newest)
            return {}
    return dict(_wrong(cluster, "findings", dict.fromkeys(cluster.ids("findings"), ())))


def newest_readable(cluster: ClusterStore, snapshot: Manifest) -> Manifest | None:
    """The newest analysis whose manifest can be read, of whichever version."""
    return newest_base(cluster, snapshot, ())


def put_back(cluster: ClusterStore, snapshot: Manifest) -> list[Manifest]:
    """Analyses of this snapshot, or of older ones, that the newest readable one had to do without,
    and that can be read by now: what they alone carried nobody has read since.
    """
    newest = newest_readable(cluster, snapshot)
    known = holes_of(cluster, newest) if newest is not None else {}
    kept = [name for name in cluster.ids("findings") if name in known]
    wrong = _wrong(cluster, "findings", dict.fromkeys(kept, tuple(FINDING_TABLES)))
    found = (_carrying(cluster, i, snapshot, ["holds"]) for i in kept if i not in wrong)
    return [manifest for manifest in found if manifest is not None]


def unreadable(
    cluster: ClusterStore, base: Manifest | None, before: Sequence[Manifest], snapshot: Manifest
) -> Mapping[str, StoreError]:
    """Why the snapshot, those since the base (without one: all), the base or what it remembers
    `before` cannot be read, by id.

    {} if all of them can. Where some were pruned meanwhile nothing more is asked.
    """
    # One of an earlier version keeps no applications and no counters: all snapshots tell them once.
    anew = base is None or STREAMS_DETAIL not in base.details or "counters" not in base.tables
    ids = since(cluster, None if anew else base, snapshot)
    gone = _wrong(cluster, "snapshots", dict.fromkeys(ids, ()))
    if gone:
        return gone
    wrong = _wrong(cluster, "snapshots", dict.fromkeys(ids, tuple(SNAPSHOT_TABLES)))
    analyses = [base.id] if base else [analysis.id for analysis in before]
    return wrong | _wrong(cluster, "findings", dict.fromkeys(analyses, tuple(FINDING_TABLES)))


def _wrong(
    cluster: ClusterStore, kind: Kind, tables: Mapping[str, Sequence[str]]
) -> dict[str, StoreError]:
    """Why these tables of some folders cannot be read whole, by the folder's id. They are only
    looked at, file by file, and nothing of them is kept: so the driver may.
    """
    store, found = ClusterStore(cluster.store, cluster.cluster_id), {}
    for item_id, names in tables.items():
        try:
            manifest = cluster.manifest(kind, item_id)
            for name in names:
                for part in manifest.files(name):
                    store.read_files(kind, manifest, name, [part])
        except StoreError as error:
            found[item_id] = error
    return found


def commit_order(ids: Sequence[str]) -> pa.Array:
    """A time for each id that grows from one to the next, also where a clock stepped back."""
    found: list[datetime] = []
    for item_id in ids:
        at = time_of(item_id) or datetime.min.replace(tzinfo=UTC)
        found.append(max(at, found[-1] + timedelta(microseconds=1)) if found else at)
    return pa.array(found, pa.timestamp("us", tz="UTC"))
