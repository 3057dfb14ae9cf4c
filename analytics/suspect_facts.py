"""What else a snapshot says of each suspect, and by that what kind it is, or that it is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
from dashboard.safety.arrow import column, places
from dashboard.snapshots import ClusterStore

Row = dict[str, Any]
_TOLD = ["broker_id", "log_dir", "topic_no", "partition", "is_future", "size_bytes"]
_PLACED = ["topic_no", "partition", "leader_id", "replicas", "isr"]


def told_of(cluster: ClusterStore, snapshot_id: str, rows: Sequence[Row]) -> list[Row]:
    """The rows that stay suspects, with listed, told_bytes, answered, kind, and of the partition
    of the same name: leader_id, replicas, isr, adding, removing.

    Suspects are few: the long tables are cut to them before they become rows.
    """
    if not rows:
        return []
    wanted = pa.table({
        "topic_no": pa.array([r["name_no"] for r in rows], pa.int32()),
        "partition": pa.array([r["partition"] for r in rows], pa.int32()),
    }).drop_null()  # fmt: skip
    at = places(column(wanted, "topic_no"), column(wanted, "partition"))

    def read(table: str, names: list[str]) -> list[Row]:
        found = cluster.read("snapshots", snapshot_id, table, names)
        here = places(column(found, "topic_no"), column(found, "partition"))
        return list(found.filter(pc.is_in(here, value_set=at)).to_pylist())

    told = {
        (r["broker_id"], r["log_dir"], r["topic_no"], r["partition"], bool(r["is_future"])):
            r["size_bytes"]
        for r in read("replicas", _TOLD) if r["size_bytes"] is not None
    }  # fmt: skip
    placed = {(r["topic_no"], r["partition"]): r for r in read("partitions", _PLACED)}
    moves = read("reassignments", ["topic_no", "partition", "adding", "removing"])
    moving = {(r["topic_no"], r["partition"]): r for r in moves}
    answered = _answered(cluster, snapshot_id)
    described = [_described(row, told, placed, moving, answered=answered) for row in rows]
    return [row for row in described if is_suspect(row)]


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
    return row | {
        "told_bytes": told_bytes if listable else None,
        "listed": listable and told_bytes is not None,
        "answered": (broker, log_dir) in answered,
        **{key: home.get(key) for key in ("leader_id", "replicas", "isr")},
        **{key: move.get(key) for key in ("adding", "removing")},
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
