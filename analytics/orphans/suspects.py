"""Folders and checkpoint entries that no assignment explains, and of what kind each is.

Three sources joined in Spark: DescribeLogDirs, inventories, checkpoints. A suspect is not an orphan
yet: what was seen once may be a topic or a move that came between two reads (`sightings`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.resources import files
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from analytics.tables import Tables
from dashboard.core.arrow import column
from dashboard.core.clock import parse_time
from dashboard.domain.acts import (
    ABANDONED_FUTURE,
    CHECKPOINT_ENTRY,
    DELETED_TOPIC,
    GAPS_NAMED,
    LATE_DELETE,
    MOVED_AWAY,
    RECREATED_TOPIC,
    STRAY,
    TWO_LOG_DIRS,
)
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import UNASSIGNED


@dataclass(frozen=True, slots=True)
class Suspect:
    """A folder or an entry that no assignment explains; sizes are bytes.

    The fields without a default are the statement's columns, the others what the snapshot says of
    it besides (`told_of`).
    """

    broker_id: int
    log_dir: str
    directory: str | None  # None: a future copy that no inventory named
    topic: str | None
    partition: int | None
    topic_id: str | None  # of partition.metadata
    folder: str  # live, future, stray, delete, checkpoint
    size_bytes: int | None
    index_bytes: int | None
    allocated_bytes: int | None
    newest_at: datetime | None
    scanned_at: datetime | None  # None: only listed
    log_end_offset: int | None  # None: no scan told
    # By topic id where there is one, to this broker; a reassignment's brokers count.
    assigned: bool
    recreated: bool  # the cluster has a topic of its name, of another id
    has_topic: bool
    name_no: int | None
    name_id: str | None  # today's id of that name
    lives_no: int | None
    kind: str = ""
    # Whether DescribeLogDirs has it there, with how many bytes, and answered for that log dir.
    listed: bool = False
    told_bytes: int | None = None
    answered: bool = False
    # Of the partition of the same name.
    leader_id: int | None = None
    replicas: Sequence[int] | None = None
    isr: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    # Of the partition that has the folder's topic id: its log start and its high watermark.
    living_start: int | None = None
    living_end: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """A folder by its path, an unnamed future copy by its partition."""
        place = (self.broker_id, self.log_dir, self.directory, self.topic, self.partition)
        return (*place, self.folder == "checkpoint")


def suspects(tables: Tables, snapshots: Sequence[Manifest]) -> list[list[Suspect]]:
    """Per snapshot its suspects, sorted: folders of inventories, checkpoint entries without a
    folder, and what DescribeLogDirs lists without an assignment. Topics that the cluster may be
    hiding from us are left out.
    """
    ids = [snapshot.id for snapshot in snapshots]
    numbers = pa.array(range(len(ids)), pa.int32())
    named = {log_dir for s in snapshots for i in _inventories(s) for log_dir in i["log_dirs"]}
    found = tables.sql(
        _statement().replace("COPIES", _COUNTED if len(named) > 1 else "1"),
        args={"unassigned": UNASSIGNED},
        snaps=tables.from_arrow(pa.table({"snapshot_id": ids, "snap": numbers})),
        names=tables.from_arrow(_names(tables, snapshots)),
        scans=tables.from_arrow(_scans(snapshots)),
        **{name: tables.read("snapshots", name, ids) for name in _LONG},
    ).toArrow()
    per_snapshot: list[list[Suspect]] = [[] for _ in ids]
    for row in found.sort_by([(name, "ascending") for name in _ORDER]).to_pylist():
        per_snapshot[row.pop("snap")].append(Suspect(**row))
    told = told_of(tables, {
        snapshot.id: _without_gaps(_once(rows), snapshot)
        for rows, snapshot in zip(per_snapshot, snapshots, strict=True)
    })  # fmt: skip
    return [told[snapshot_id] for snapshot_id in ids]


def _statement() -> str:
    return files("analytics.orphans").joinpath("suspects.sql").read_text("utf-8")


# Folders of this name on the broker. Only where it has several log dirs: the window sorts them all.
_COUNTED = """if(folder = 'live',
            count(*) over (partition by folders.snap, broker_id, directory), 1)"""
_LONG = ("segments", "checkpoints", "partitions", "reassignments", "replicas")
_ORDER = ("snap", "broker_id", "log_dir", "topic", "partition", "directory", "folder")


def _names(tables: Tables, snapshots: Sequence[Manifest]) -> pa.Table:
    """snap, topic_no, topic, topic_id, listed (by the metadata), doubtful (maybe hidden)."""
    parts = []
    for number, snapshot in enumerate(snapshots):
        wanted = ["topic_no", "topic", "topic_id", "is_internal"]
        topics = tables.cluster.read("snapshots", snapshot.id, "topics", wanted)
        doubtful = pa.array(snapshot.details.get("doubtful_topics", ()), pa.string())
        unnamed = doubtful.filter(pc.invert(pc.is_in(doubtful, column(topics, "topic"))))
        rows, more = topics.num_rows, len(unnamed)
        names = pa.concat_arrays([column(topics, "topic"), unnamed])
        parts.append(pa.table({
            "snap": pa.array([number] * (rows + more), pa.int32()),
            "topic_no": pa.concat_arrays([column(topics, "topic_no"), pa.nulls(more, pa.int32())]),
            "topic": names,
            "topic_id": pa.concat_arrays([column(topics, "topic_id"), pa.nulls(more, pa.string())]),
            "listed": pa.concat_arrays(
                [column(topics, "is_internal").is_valid(), pa.array([False] * more, pa.bool_())]),
            "doubtful": pc.is_in(names, doubtful),
        }))  # fmt: skip
    return pa.concat_tables(parts)


def _scans(snapshots: Sequence[Manifest]) -> pa.Table:
    """snap, broker_id, log_dir, scanned_at of `scans`."""
    rows = [
        {"snap": number, "broker_id": broker, "log_dir": log_dir, "scanned_at": scanned_at}
        for number, snapshot in enumerate(snapshots)
        for (broker, log_dir), scanned_at in scans(snapshot).items()
    ]
    return pa.Table.from_pylist(rows, schema=_SCAN)


_SCAN = pa.schema(
    [
        ("snap", pa.int32()),
        ("broker_id", pa.int32()),
        ("log_dir", pa.string()),
        ("scanned_at", pa.timestamp("us", tz="UTC")),
    ]
)


def scans(snapshot: Manifest) -> dict[tuple[int, str], Any]:
    """Broker and log dir -> when it was scanned, of the inventories that the snapshot took in.

    One that they could not open, or not walk to its end, was not: it may hold anything.
    """
    unread = gaps(snapshot).unread
    return {
        (found["broker_id"], log_dir): parse_time(found["scanned_at"])
        for found in _inventories(snapshot)
        for log_dir in found["log_dirs"]
        if (found["broker_id"], log_dir, "") not in unread
    }


class _Gap(TypedDict):
    log_dir: str | None
    path: str


class _Inventory(TypedDict):
    """One that a snapshot took in, as its manifest has it."""

    broker_id: int
    log_dirs: Sequence[str]
    scanned_at: str
    gaps: Sequence[_Gap]
    gaps_total: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """What inventories could not look into: broker, log dir and folder of what was `unread` (no
    folder: the log dir itself; ANY: one of it), brokers with a log dir that is `unopened`, and
    those that have `more` such gaps than are named with their place.
    """

    unread: frozenset[tuple[int, str | None, str | None]] = frozenset()
    unopened: frozenset[int] = frozenset()
    more: frozenset[int] = frozenset()

    def may_hide(self, broker: int, log_dir: str, directory: str | None, folder: str) -> bool:
        """Whether such a folder, or the one of a checkpoint entry, may be there although no
        inventory shows it.
        """
        places = [(broker, log_dir, name) for name in ("", ANY, directory)]
        elsewhere = folder == "checkpoint" and broker in self.unopened
        return elsewhere or broker in self.more or not self.unread.isdisjoint(places)


ANY = "*"  # the folder of a listing's line that is damaged: no folder has this name
_DAMAGED_LINE = re.compile(r"\Aline [0-9]+\Z")
NO_GAPS = Gaps()


def gaps(snapshot: Manifest) -> Gaps:
    """Those of the inventories that the snapshot took in.

    A gap inside a folder hides nothing: the folder has its rows.
    """
    told = _inventories(snapshot)
    unread = {
        (found["broker_id"], gap["log_dir"], _DAMAGED_LINE.sub(ANY, gap["path"]))
        for found in told
        for gap in found["gaps"]
        if "/" not in gap["path"]
    }
    unplaced = {broker for broker, log_dir, _ in unread if log_dir is None}
    more = {found["broker_id"] for found in told if _unnamed(found)}
    unopened = {broker for broker, _, folder in unread if not folder}
    return Gaps(frozenset(unread), frozenset(unopened), frozenset(unplaced | more))


def _unnamed(found: _Inventory) -> bool:
    """Whether gaps that hide a folder may be among those that the inventory does not name.

    Earlier releases named the first hundred of both sorts together: where all of these lie inside
    folders, as when no file may be read, the others are taken to do so too.
    """
    named = len(found["gaps"])
    inside = sum("/" in gap["path"] for gap in found["gaps"])
    return found["gaps_total"] > named and (inside < GAPS_NAMED or named - inside >= GAPS_NAMED)


def _inventories(snapshot: Manifest) -> Sequence[_Inventory]:
    told: Sequence[_Inventory] = snapshot.details.get("inventories", ())
    return told


def _once(rows: list[Suspect]) -> list[Suspect]:
    """A folder that both an inventory and DescribeLogDirs show, once: as the inventory has it."""
    on_disk = {_place(row) for row in rows if row.scanned_at is not None}
    return [row for row in rows if row.scanned_at is not None or _place(row) not in on_disk]


def _place(row: Suspect) -> tuple[object, ...]:
    return (row.broker_id, row.log_dir, row.topic, row.partition, row.folder)


def _without_gaps(rows: list[Suspect], snapshot: Manifest) -> list[Suspect]:
    """Without checkpoint entries whose folder may be one that could not be read."""
    missed = gaps(snapshot)
    return [
        row
        for row in rows
        if row.folder != "checkpoint"
        or not missed.may_hide(row.broker_id, row.log_dir, row.directory, row.folder)
    ]


# What else a snapshot says of each suspect, and by that what kind it is, or that it is none.

Row = dict[str, Any]
_WANTED = pa.schema(
    [("snapshot_id", pa.string()), ("topic_no", pa.int32()), ("partition", pa.int32())]
)
# Of the partitions that bear suspects' names, what the long tables say: a few of their rows.
_OF_WANTED = "select {columns} from {{rows}} left semi join {{wanted}} using ({key})"
_READ = {
    "replicas": ("broker_id", "log_dir", "is_future", "size_bytes"),
    "partitions": ("leader_id", "replicas", "isr", "log_start_offset", "high_watermark"),
    "reassignments": ("adding", "removing"),
}


def told_of(tables: Tables, suspects: Mapping[str, Sequence[Suspect]]) -> dict[str, list[Suspect]]:
    """By snapshot those that stay suspects, with all that the snapshot says of them."""
    wanted = [
        {"snapshot_id": i, "topic_no": topic_no, "partition": row.partition}
        for i, rows in suspects.items()
        for row in rows
        for topic_no in (row.name_no, row.lives_no)
        if topic_no is not None and row.partition is not None
    ]
    facts = _facts(tables, pa.Table.from_pylist(wanted, schema=_WANTED))
    found = {}
    for snapshot_id, rows in suspects.items():
        answered = _answered(tables.cluster, snapshot_id) if rows else set()
        own = {name: facts[name].get(snapshot_id, []) for name in _READ}
        told = {
            (r["broker_id"], r["log_dir"], *_partition(r), bool(r["is_future"])): r["size_bytes"]
            for r in own["replicas"]
            if r["size_bytes"] is not None
        }
        placed, moving = (
            {_partition(r): r for r in own[name]} for name in ("partitions", "reassignments")
        )
        described = [_described(row, told, placed, moving, answered=answered) for row in rows]
        found[snapshot_id] = [row for row in described if is_suspect(row)]
    return found


def _partition(row: Row) -> tuple[int | None, int | None]:
    return row["topic_no"], row["partition"]


def _facts(tables: Tables, wanted: pa.Table) -> dict[str, dict[str, list[Row]]]:
    """By table and snapshot the rows of the wanted partitions."""
    found: dict[str, dict[str, list[Row]]] = {name: {} for name in _READ}
    ids = wanted["snapshot_id"].unique().to_pylist()
    for name, columns in _READ.items() if ids else ():
        key = ", ".join(_WANTED.names)
        statement = _OF_WANTED.format(columns=", ".join([key, *columns]), key=key)
        rows = tables.read("snapshots", name, ids)
        for row in (
            tables.sql(statement, rows=rows, wanted=tables.from_arrow(wanted)).toArrow().to_pylist()
        ):
            found[name].setdefault(row["snapshot_id"], []).append(row)
    return found


def _answered(cluster: ClusterStore, snapshot_id: str) -> set[tuple[int, str]]:
    """Log dirs that DescribeLogDirs could read."""
    names = ["broker_id", "log_dir", "error"]
    rows = cluster.read("snapshots", snapshot_id, "log_dirs", names).to_pylist()
    return {(r["broker_id"], r["log_dir"]) for r in rows if r["error"] is None}


def _described(
    row: Suspect,
    told: Mapping[tuple[Any, ...], int],
    placed: Mapping[tuple[int | None, int | None], Row],
    moving: Mapping[tuple[int | None, int | None], Row],
    *,
    answered: set[tuple[int, str]],
) -> Suspect:
    broker, log_dir, name = row.broker_id, row.log_dir, (row.name_no, row.partition)
    listable = row.folder in ("live", "future", "checkpoint")
    told_bytes = told.get((broker, log_dir, *name, row.folder == "future"))
    home, move = placed.get(name, {}), moving.get(name, {})
    lives = placed.get((row.lives_no, row.partition), {})
    return replace(
        row,
        told_bytes=told_bytes if listable else None,
        listed=listable and told_bytes is not None,
        answered=(broker, log_dir) in answered,
        leader_id=home.get("leader_id"),
        replicas=home.get("replicas"),
        isr=home.get("isr"),
        adding=move.get("adding"),
        removing=move.get("removing"),
        living_start=lives.get("log_start_offset"),
        living_end=lives.get("high_watermark"),
        kind=kind_of(row),
    )


def kind_of(row: Suspect) -> str:
    """By the folder's name, then by what the cluster says of its topic."""
    if row.folder in _BY_NAME:
        return _BY_NAME[row.folder]
    if row.recreated:
        return RECREATED_TOPIC
    if row.folder == "stray" and (row.assigned or not row.has_topic):
        return STRAY
    if row.assigned:
        return TWO_LOG_DIRS
    return MOVED_AWAY if row.has_topic else DELETED_TOPIC


_BY_NAME = {
    "checkpoint": CHECKPOINT_ENTRY, "delete": LATE_DELETE, "future": ABANDONED_FUTURE,
}  # fmt: skip


def is_suspect(row: Suspect) -> bool:
    """Whether the broker's own list leaves it unexplained.

    A future copy of an assigned partition is one only if its log dir answered without it; of an
    assigned partition in two log dirs the folder that the broker lists is the live one.
    """
    if row.folder == "checkpoint":
        return not row.listed
    if row.folder == "future":
        return not row.assigned or (row.answered and not row.listed)
    return not (row.folder == "live" and row.assigned and row.listed)
