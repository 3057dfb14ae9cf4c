"""The Parquet store: list, read and write snapshots and findings of every cluster.

Layout: `DIR/<cluster_id>/snapshots/<snapshot_id>/<table>.parquet` and
`DIR/<cluster_id>/findings/<analysis_id>/<table>.parquet`. `manifest.json` is written last and is
the commit: a folder without it does not exist for readers. DIR is a local path or any URL that
fsspec reads.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from dashboard.core.canonical import parse_json, read, written
from dashboard.core.errors import StoreError
from dashboard.core.words import called
from dashboard.store import declared
from dashboard.store.local_files import open_files
from dashboard.store.snapshot_files import (
    Kind,
    Manifest,
    Part,
    Writer,
    new_id,
    not_kept,
    parse_manifest,
    spec_of,
    time_of,
    unreadable,
    write_atomically,
)

if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    import pyarrow as pa
    import pyarrow.compute as pc

    from dashboard.store.buckets import Buckets


_T = TypeVar("_T")
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")  # the name of a folder, never a path


class Store:
    """All clusters under one DIR. Reads are safe beside a running writer."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.fs, self.path = open_files(root)

    def clusters(self) -> list[str]:
        """Ids of the clusters that have a connection file or a snapshot, sorted."""
        return sorted(name for name in self._names(self.path) if self._is_cluster(name))

    def cluster(self, named: str | None = None) -> ClusterStore:
        """The cluster with this id or name, or the only one there is.

        Raises StoreError NO_SNAPSHOT, CLUSTER_NOT_FOUND or CLUSTER_AMBIGUOUS.
        """
        found = [ClusterStore(self, cluster_id) for cluster_id in self.clusters()]
        hidden = self.closed()
        closed = f"{', '.join(hidden)}, which may not be seen here" if hidden else ""
        if not found:
            where = f" that may be seen here (not {', '.join(hidden)})" if hidden else ""
            raise StoreError(
                f"{self.root} holds no snapshot of any cluster{where}",
                "Run: lowwater collect --bootstrap-server HOST:PORT "
                f"--data {shlex.quote(self.root)}",
                code="NO_SNAPSHOT",
            )
        names = ", ".join(f"{c.name} ({c.cluster_id})" for c in found)
        if named is None:
            if self.several():
                raise StoreError(
                    f"{self.root} holds several clusters: {names}{closed and f', {closed}'}",
                    "Name one with --cluster.",
                    code="CLUSTER_AMBIGUOUS",
                )
            return found[0]
        matching = [c for c in found if named in (c.cluster_id, c.name)]
        if len(matching) != 1:
            raise StoreError(
                f"{self.root} holds {len(matching)} clusters called '{named}', but: {names}"
                f"{closed and f', {closed}'}",
                "Name one of them by its id with --cluster.",
                code="CLUSTER_NOT_FOUND" if not matching else "CLUSTER_AMBIGUOUS",
            )
        return matching[0]

    def closed(self) -> list[str]:
        """Folders that nobody here may look into, sorted: clusters, or root's `lost+found`."""
        return sorted(name for name in self._names(self.path) if self._is_cluster(name) is None)

    def several(self) -> bool:
        """Whether who names no cluster may mean more than one: a closed folder may be another."""
        return len(self.clusters()) > 1 or any(map(_ID.fullmatch, self.closed()))

    def begun(self) -> list[ClusterStore]:
        """Folders that are no cluster yet: what a first attempt to collect left."""
        names = [name for name in self._names(self.path) if self._is_cluster(name) is False]
        return [ClusterStore(self, name) for name in sorted(names)]

    def _is_cluster(self, name: str) -> bool | None:
        """None: nobody here may look into it."""
        marks = ("connection.json", "snapshots", "findings")
        path = f"{self.path}/{name}"
        try:
            return any(self.fs.exists(f"{path}/{mark}") for mark in marks)
        except PermissionError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def _names(self, path: str, *, files: bool = False) -> list[str]:
        """Of the folders in this one, or of its files."""
        try:
            entries = self.fs.ls(path, detail=True, refresh=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unreadable(path, error) from error
        chosen = [e["name"] for e in entries if (e["type"] == "file") == files]
        return [name.rstrip("/").rsplit("/", 1)[-1] for name in chosen]


@dataclass(frozen=True, slots=True)
class Connection:
    """How a cluster was reached; `client_config` is a path, never what stands in the file."""

    bootstrap_servers: str | None = None
    client_config: str | None = None
    name: str | None = None


class ClusterStore:
    """One cluster's folder: its connection, declarations, snapshots and findings."""

    def __init__(self, store: Store, cluster_id: str) -> None:
        self.store = store
        self.cluster_id = cluster_id
        self.fs = store.fs
        self.path = f"{store.path}/{cluster_id}"

    @property
    def uri(self) -> str:
        """Where it lies, whoever opened it: equal for equal folders alone."""
        return str(self.fs.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The name given in settings when it was collected, else the cluster id."""
        return self.connection().name or self.cluster_id

    @property
    def called(self) -> str:
        """Its name; with its id where another cluster of the data folder has the same."""
        return called(self.name, self.cluster_id, shared=self.others_called(self.name))

    def others_called(self, name: str) -> bool:
        """Whether another cluster of the data folder has this name. One whose file that tells it is
        damaged has none: its own verbs and pages say so.
        """
        for cluster_id in self.store.clusters():
            with suppress(StoreError):
                if (
                    cluster_id != self.cluster_id
                    and ClusterStore(self.store, cluster_id).name == name
                ):
                    return True
        return False

    def connection(self) -> Connection:
        """How the cluster was reached by the last collect."""
        return self.record("connection.json", Connection) or Connection()

    def write_connection(
        self, bootstrap_servers: str, client_config: str | None, name: str
    ) -> None:
        """Remember how this cluster was reached, for `plan` and `apply`."""
        value = Connection(bootstrap_servers, client_config, name)
        if value != self.connection():
            self.write_record("connection.json", value)

    def declarations(self) -> list[dict[str, str]]:
        """Readers declared on the page: glob, owner, readers, replay_window, declared_by/_at, and
        topic_id where it was known of which topic of the name.
        """
        try:
            return declared.rows_of(self._json("declarations.json") or {})
        except ValueError as error:
            raise unreadable(f"{self.path}/declarations.json", error) from error

    def write_declarations(self, topics: list[dict[str, str]]) -> None:
        """Replace the page's declarations, atomically."""
        body = json.dumps(declared.file_of(topics), sort_keys=True, indent=1)
        self._replace("declarations.json", body.encode())

    def files(self, folder: str) -> list[str]:
        """The names of the files in a folder of it; none where it is not there. StoreError."""
        return sorted(self.store._names(f"{self.path}/{folder}", files=True))

    def record(self, name: str, kind: type[_T]) -> _T | None:
        """What a JSON file of the folder says, as a record; None: it is not there. StoreError."""
        found = self._json(name)
        try:
            return None if found is None else read(found, kind)
        except ValueError as error:
            raise unreadable(f"{self.path}/{name}", error) from error

    def write_record(self, name: str, value: object) -> None:
        """Replace it, atomically. Raises StoreError."""
        body = json.dumps(written(value), sort_keys=True, allow_nan=False)
        self._replace(name, body.encode())

    def begin(self, kind: Kind, taken_at: datetime, buckets: int = 1) -> Writer:
        """Start a new snapshot or analysis; nothing is visible before `commit`.

        Its id sorts behind every committed one's, even where the clock has stepped back since. A
        snapshot's also behind those that were analyzed and are not kept any more: who goes on from
        an analysis reads what sorts behind its snapshot.
        """
        known: list[str] = []
        with suppress(StoreError):  # whoever cannot list cannot write either, and is told so then
            known = [name for name in [self._newest(kind)] if name]
            known += self._analyzed() if kind == "snapshots" else []
        newest = max((name for name in known if time_of(name)), default=None)
        item_id = new_id(taken_at, after=newest)
        return Writer(self.fs, self.path, kind, item_id, taken_at, buckets=buckets)

    def ids(self, kind: Kind) -> list[str]:
        """Ids of all committed folders, oldest first."""
        return [name for name, committed in self.folders(kind) if committed]

    def folders(self, kind: Kind) -> list[tuple[str, bool]]:
        """Every folder, oldest first, and whether it is committed."""
        names = sorted(self.store._names(f"{self.path}/{kind}"))
        return [(name, self._committed(kind, name)) for name in names]

    def latest(self, kind: Kind) -> str | None:
        """The newest committed id: for findings the one that LATEST names, or None.

        LATEST moves only forward. Where it was put back, out of a backup say, or by the slower of
        two analyses that ended at once, a later analysis of a newer snapshot is there: that one
        counts, for it alone may remember a group. Raises StoreError.
        """
        if kind != "findings":
            return self._newest(kind)
        path = f"{self.path}/findings/LATEST"
        try:
            named = (self._bytes(path) or b"").decode().strip()
        except UnicodeDecodeError as error:
            raise unreadable(path, error) from error
        if named and not _ID.fullmatch(named):
            raise unreadable(path, ValueError("it names no analysis"))
        return self._moved_on(named) if named else None

    def _moved_on(self, named: str) -> str:
        """The analysis of the newest snapshot among this one and those that are later by id."""
        names = self.store._names(f"{self.path}/findings")
        later = [i for i in names if i > named and self._committed("findings", i)]
        of = self._snapshot_of(named) if later else None
        if of is None:  # a damaged one is named, whatever others tell
            return named
        shown = {i: at for i in later if (at := self._snapshot_of(i)) and at >= of}
        return max(shown, key=lambda name: (shown[name], name), default=named)

    def _snapshot_of(self, analysis_id: str) -> str | None:
        """Which snapshot an analysis is of; None where it does not tell it, or is not there."""
        with suppress(StoreError):
            return str(self.manifest("findings", analysis_id).details.get("snapshot_id", ""))
        return None

    def latest_snapshot(self) -> str:
        """The newest snapshot's id, or StoreError NO_SNAPSHOT."""
        found = self.latest("snapshots")
        if found is None:
            raise StoreError(
                f"cluster {self.name} has no finished snapshot in {self.store.root}",
                "Run lowwater collect, or wait until the running one ends.",
                code="NO_SNAPSHOT",
            )
        return found

    def latest_analysis(self) -> str:
        """The newest analysis' id, or StoreError NO_ANALYSIS."""
        found = self.latest("findings")
        if found is None:
            raise StoreError(
                f"cluster {self.name} has no analysis yet in {self.store.root}",
                "Run: lowwater analyze --data " + shlex.quote(self.store.root),
                code="NO_ANALYSIS",
            )
        return found

    def manifest(self, kind: Kind, item_id: str) -> Manifest:
        """The manifest of a committed folder. Raises StoreError, also for a newer major."""
        path = f"{self.path}/{kind}/{item_id}/manifest.json"
        raw = self.manifest_bytes(kind, item_id)
        if raw is None:
            raise not_kept(kind, item_id)
        found = parse_manifest(raw, path)
        if found.id != item_id:
            raise unreadable(path, ValueError(f"it is the manifest of {found.id}"))
        return found

    def manifest_bytes(self, kind: Kind, item_id: str) -> bytes | None:
        """A manifest as it is in its file; None where there is none. Raises StoreError."""
        return self._bytes(f"{self.path}/{kind}/{item_id}/manifest.json")

    def read(
        self,
        kind: Kind,
        item_id: str,
        table: str,
        columns: list[str] | None = None,
        *,
        only: pc.Expression | None = None,
    ) -> pa.Table:
        """One table in its declared schema, or the chosen columns of it, and of `only` some rows,
        by those columns: then never more than one file of it is held whole.

        Raises StoreError: STORE_UNREADABLE where a file is damaged, SNAPSHOT_NOT_FOUND where the
        folder was pruned meanwhile. Never a part of a table.
        """
        manifest = self.manifest(kind, item_id)
        return self.read_files(kind, manifest, table, manifest.files(table), columns, only=only)

    def parts(
        self,
        kind: Kind,
        item_id: str,
        table: str,
        columns: list[str] | None = None,
        *,
        only: pc.Expression | None = None,
    ) -> Iterator[pa.Table]:
        """What `read` does, file by file: for who needs all rows, and no more than one file's as
        they are.
        """
        manifest = self.manifest(kind, item_id)
        for files in [[file] for file in manifest.files(table)] or [[]]:
            yield self.read_files(kind, manifest, table, files, columns, only=only)

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
        """Some of the files of a table, in the order of its key; raises as `read` does."""
        import pyarrow as pa

        from dashboard.store.buckets import WrongTable, joined, read_part, with_key

        spec = spec_of(kind, table)
        if not files:  # written by an older minor, or not collected
            return spec.only(columns).schema.empty_table()
        chosen, parts = with_key(spec, columns, files), []
        for file, rows in files:
            path = f"{self.path}/{kind}/{manifest.id}/{file}"
            try:
                parts.append(read_part(self.fs, path, spec, chosen, rows, only=only))
            except (OSError, UnicodeDecodeError, pa.ArrowException, WrongTable) as error:
                raise self.lost(kind, manifest.id, path, error) from error
        return joined(spec, parts).select(spec.only(columns).schema.names)

    def read_bucket(
        self,
        kind: Kind,
        manifest: Manifest,
        table: str,
        columns: list[str] | None = None,
        *,
        buckets: Buckets,
        bucket: int,
    ) -> pa.Table:
        """One bucket of a long table, in however many it is kept; raises as `read` does."""
        files = manifest.files(table)
        some = [files[at] for at in buckets.parts(len(files), bucket)] if files else []
        if len(files) >= buckets.count or not files:
            return self.read_files(kind, manifest, table, some, columns)
        names = spec_of(kind, table).schema.names
        by = [n for n in ("topic", "topic_no", "partition", "labels") if n in names]
        wanted = None if columns is None else list(dict.fromkeys([*columns, *by]))
        rows = self.read_files(kind, manifest, table, some, wanted)
        numbered = "topic_no" in by
        topics = self.read(kind, manifest.id, "topics", ["topic_no", "topic"]) if numbered else None
        own = rows.filter(buckets.of(rows, topics) == bucket)
        return own if columns is None else own.select(columns)

    def lost(self, kind: Kind, item_id: str, path: str, error: Exception) -> StoreError:
        """Why a file of a committed folder cannot be read: it is damaged, or pruned by now."""
        if self._committed(kind, item_id):
            return unreadable(path, error)
        return not_kept(kind, item_id)

    def set_latest(self, analysis_id: str) -> None:
        """Point readers at this analysis, atomically."""
        self._replace("findings/LATEST", analysis_id.encode())

    def _newest(self, kind: Kind) -> str | None:
        names = sorted(self.store._names(f"{self.path}/{kind}"), reverse=True)
        return next((name for name in names if self._committed(kind, name)), None)

    def _analyzed(self) -> list[str]:
        """The snapshot of LATEST; where that does not tell it, those of all analyses that do."""
        with suppress(StoreError):
            if (named := self.latest("findings")) is not None:
                return [str(self.manifest("findings", named).details.get("snapshot_id"))]
        return [of for i in self.ids("findings") if (of := self._snapshot_of(i))]

    def _committed(self, kind: Kind, name: str) -> bool:
        """One of ours of which nobody can tell counts, as damaged ones do: who reads it hears."""
        try:
            return bool(self.fs.exists(f"{self.path}/{kind}/{name}/manifest.json"))
        except OSError:
            return time_of(name) is not None

    def _json(self, name: str) -> dict[str, Any] | None:
        raw = self._bytes(f"{self.path}/{name}")
        if raw is None:
            return None
        try:
            value = parse_json(raw)
            if not isinstance(value, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            raise unreadable(f"{self.path}/{name}", error) from error
        return value

    def _bytes(self, path: str) -> bytes | None:
        try:
            return bytes(self.fs.cat_file(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def _replace(self, name: str, body: bytes) -> None:
        write_atomically(self.fs, f"{self.path}/{name}", body)
