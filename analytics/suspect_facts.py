"""What else a snapshot says of each suspect, and by that what kind it is, or that it is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from analytics.tables import Tables
from dashboard.orphans.words import (
    ABANDONED_FUTURE,
    CHECKPOINT_ENTRY,
    DELETED_TOPIC,
    LATE_DELETE,
    MOVED_AWAY,
    RECREATED_TOPIC,
    STRAY,
    TWO_LOG_DIRS,
)
from dashboard.snapshots import ClusterStore

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


def told_of(tables: Tables, suspects: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """By snapshot the rows that stay suspects, with listed, told_bytes, answered, kind, and of the
    partition of the same name: leader_id, replicas, isr, adding, removing; of the partition of
    the folder's topic id living_start and living_end.
    """
    wanted = [
        {"snapshot_id": i, "topic_no": topic_no, "partition": row["partition"]}
        for i, rows in suspects.items()
        for row in rows
        for topic_no in (row["name_no"], row["lives_no"])
        if topic_no is not None and row["partition"] is not None
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


def _partition(row: Row) -> tuple[int, int]:
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
    row: Row,
    told: Mapping[tuple[Any, ...], int],
    placed: Mapping[tuple[int, int], Row],
    moving: Mapping[tuple[int, int], Row],
    *,
    answered: set[tuple[int, str]],
) -> Row:
    broker, log_dir, name = row["broker_id"], row["log_dir"], (row["name_no"], row["partition"])
    listable = row["folder"] in ("live", "future", "checkpoint")
    told_bytes = told.get((broker, log_dir, *name, row["folder"] == "future"))
    home, move = placed.get(name, {}), moving.get(name, {})
    lives = placed.get((row["lives_no"], row["partition"]), {})
    return row | {
        "told_bytes": told_bytes if listable else None,
        "listed": listable and told_bytes is not None,
        "answered": (broker, log_dir) in answered,
        **{key: home.get(key) for key in ("leader_id", "replicas", "isr")},
        **{key: move.get(key) for key in ("adding", "removing")},
        "living_start": lives.get("log_start_offset"),
        "living_end": lives.get("high_watermark"),
        "kind": kind_of(row),
    }


def kind_of(row: Row) -> str:
    """By the folder's name, then by what the cluster says of its topic."""
    if row["folder"] in _BY_NAME:
        return _BY_NAME[row["folder"]]
    if row["recreated"]:
        return RECREATED_TOPIC
    if row["folder"] == "stray":
        return STRAY
    if row["assigned"]:
        return TWO_LOG_DIRS
    return MOVED_AWAY if row["has_topic"] else DELETED_TOPIC


_BY_NAME = {
    "checkpoint": CHECKPOINT_ENTRY, "delete": LATE_DELETE, "future": ABANDONED_FUTURE,
}  # fmt: skip


def is_suspect(row: Row) -> bool:
    """Whether the broker's own list leaves it unexplained.

    A future copy of an assigned partition is one only if its log dir answered without it; of an
    assigned partition in two log dirs the folder that the broker lists is the live one.
    """
    if row["folder"] == "checkpoint":
        return not row["listed"]
    if row["folder"] == "future":
        return not row["assigned"] or (row["answered"] and not row["listed"])
    return not (row["folder"] == "live" and row["assigned"] and row["listed"])
