"""The findings table `trends` and `analytics.replicas.trends.Trends`: one into the other.

Per replica and per log dir (topic and partition null) there are two rows, the pane before and the
running one, in one order in both halves: to read them back is to cut the table in two.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.metrics.read_times import read_times, seconds
from analytics.replicas.history import Step
from analytics.replicas.panes import Kind, Pane, Panes
from analytics.replicas.trends import BEFORE, DISK, LAG, SIZE, Trends, nothing, stepped
from dashboard.core import clock
from dashboard.estimate.curve_tables import PLACE, integers
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

PANES = ("before", "running")
_SCHEMA = FINDING_TABLES["trends"].schema
_READ = [name for name in _SCHEMA.names if name not in {"snapshot_id", "taken_at", "pane"}]
_PREFIXED = ("from", "n", "first_at", "last_at", "since", "x", "xx")


class Carried:
    """The trends of an earlier analysis, or none, as snapshot after snapshot is added to them.

    `with_disks`: those of log dirs as well, which belong to no partition; `reading`:
    `read_times.seconds` of the snapshots, where the store shows a part of each.
    """

    def __init__(
        self,
        cluster: ClusterStore,
        base: Manifest | None,
        *,
        with_disks: bool = True,
        reading: Mapping[str, float] | None = None,
    ) -> None:
        read = cluster.read("findings", base.id, "trends", _READ) if base else _SCHEMA.empty_table()
        self._cluster = cluster
        self._counted = base.details["snapshot_id"] if base else None
        self._with_disks = with_disks
        self._reading = dict(reading or {})
        self.trends = from_table(read)

    def add(self, snapshot: Manifest, replicas: pa.Table, step: Step) -> None:
        """Go on with one snapshot: its `points.told`, and the step that it was.

        That of the earlier analysis, which is analyzed again, is among the sums already.
        """
        if snapshot.id == self._counted:
            return
        log_dirs = self._cluster.read("snapshots", snapshot.id, "log_dirs")
        log_dirs = log_dirs if self._with_disks else log_dirs.slice(0, 0)
        self.trends = stepped(
            self.trends,
            replicas,
            step,
            log_dirs,
            taken_at=microseconds(snapshot),
            reading=self.reading(snapshot.id),
        )

    def reading(self, snapshot_id: str) -> float:
        """Seconds between the first and the last log end that a snapshot read."""
        if snapshot_id not in self._reading:
            self._reading |= seconds(read_times(self._cluster, [snapshot_id]))
        return self._reading[snapshot_id]


def microseconds(snapshot: Manifest) -> int:
    """When it was taken, as the carried sums count time."""
    return clock.microseconds(snapshot.taken_at)


def from_table(table: pa.Table) -> Trends:
    """The trends in a table as it was written; `nothing` in an empty one."""
    if not table.num_rows:
        return nothing()
    half = table.num_rows // 2
    dirs = table["topic"].slice(0, half).null_count
    replicas = [table.slice(at, half - dirs) for at in (0, half)]
    disks = [table.slice(at + half - dirs, dirs) for at in (0, half)]
    return Trends(
        places=replicas[1].select([*PLACE, "topic_id"]),
        size=_panes(replicas, SIZE, "size"),
        lag=_panes(replicas, LAG, "lag"),
        last={name: integers(_plain(replicas[1][name]), 0) for name in BEFORE},
        dirs=disks[1].select(["broker_id", "log_dir"]),
        disk=_panes(disks, DISK, "size"),
    )


def to_table(found: Trends) -> pa.Table:
    """The columns of the findings table, without snapshot_id and taken_at, sorted by its key."""
    pieces = []
    for name, size, lag, disk, last in (
        (PANES[0], found.size.before, found.lag.before, found.disk.before, {}),
        (PANES[1], found.size.now, found.lag.now, found.disk.now, _last(found.last)),
    ):
        replicas = _columns(size, "size") | _columns(lag, "lag") | last
        pieces += [
            _piece(name, found.places, replicas),
            _piece(name, found.dirs, _columns(disk, "size")),
        ]
    return pa.concat_tables(pieces)


def _piece(pane: str, where: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    known: dict[str, pa.Array | pa.ChunkedArray] = {
        "pane": pa.repeat(pa.scalar(pane), where.num_rows),
        **{name: where[name] for name in where.column_names},
        **columns,
    }
    fields = [field for field in _SCHEMA if field.name not in ("snapshot_id", "taken_at")]
    return pa.table(
        [
            known[field.name].cast(field.type)
            if field.name in known
            else pa.nulls(where.num_rows, field.type)
            for field in fields
        ],
        schema=pa.schema(fields),
    )


def _columns(pane: Pane, kind: str) -> dict[str, pa.Array]:
    none = pane["n"] == 0
    mask = none if none.any() else None
    # NaN is not known: null in a table.
    return {
        _name(kind, name): pa.array(values, mask=None if name == "n" else mask, from_pandas=True)
        for name, values in pane.items()
    }


def _last(pane: Pane) -> dict[str, pa.Array]:
    none = {"behind_since": pane["behind_n"] == 0, "behind_n": None}
    first = pane["before_at"] == 0
    return {name: pa.array(pane[name], mask=none.get(name, first)) for name in BEFORE}


def _panes(halves: list[pa.Table], kind: Kind, prefix: str) -> Panes:
    def one(table: pa.Table) -> Pane:
        whole = {n: integers(_plain(table[_name(prefix, n)]), 0) for n in kind.whole()}
        sums = {n: _floats(table[_name(prefix, n)]) for n in kind.sums()}
        for name in (
            kind.spread()
        ):  # an older minor did not count these: not known until its panes are over
            lost = (whole["n"] > 0) & table[_name(prefix, name)].is_null().to_numpy()
            sums[name] = np.where(lost, np.nan, sums[name])
        return whole | sums

    return Panes(before=one(halves[0]), now=one(halves[1]))


def _name(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if name in _PREFIXED else name


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.int64())


def _floats(values: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(pc.fill_null(values, 0.0).to_numpy())
