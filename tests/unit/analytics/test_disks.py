"""What a log dir's bytes are made of: consumed, held back by a group, or behind a guard."""

from __future__ import annotations

import pyarrow as pa
import pytest

from analytics.replicas import disks
from dashboard.store.tables import FINDING_TABLES

_GUARDS = FINDING_TABLES["reclaimable"].schema.field("guards").type
_NAMES = FINDING_TABLES["disks"].schema


def committed(*guards: str | None) -> pa.Table:
    """Rows of the committed target, each with a guard or none."""
    lists = [[] if name is None else [{"name": name}] for name in guards]
    return pa.table({"guards": pa.array(lists, _GUARDS)})


def replicas(*rows: tuple[int, int, int, int]) -> pa.Table:
    """Of one log dir: the row of its partition, size, bytes below the target and above it."""
    names = ("at", "size_bytes", "committed_at_once", "held_bytes")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pa.table({"broker_id": [1] * len(rows), "log_dir": ["/d"] * len(rows)} | columns)


def found(told: pa.Table, apart: pa.Table) -> dict[str, int]:
    every = told.append_column("is_future", pa.nulls(told.num_rows, pa.bool_()))
    log_dirs = pa.table(
        {"broker_id": [1], "log_dir": ["/d"], "total_bytes": [10_000], "usable_bytes": [9_000]}
    ).append_column("error", pa.nulls(1, pa.string()))
    (row,) = disks.disks(log_dirs, disks.sums(every, apart), {}, {}).to_pylist()
    return dict(row)


@pytest.mark.parametrize("guard", ["no-committed-offset", "unread-by-group"])
def test_what_a_guard_holds_is_told_apart_of_what_lives(guard: str) -> None:
    told = replicas((0, 500, 300, 100), (1, 200, 150, 50))
    row = found(told, disks.told_apart(told, committed(None, guard)))
    assert (row["reclaimable_bytes"], row["held_bytes"]) == (300, 100)
    assert (row["guarded_bytes"], row["live_bytes"]) == (200, 300)
    assert row["unexplained_bytes"] == 1_000 - 700, "they are counted once"


def test_whoever_may_read_unseen_guards_no_byte() -> None:
    told = replicas((0, 500, 300, 100))
    row = found(told, disks.told_apart(told, committed("readers-undeclared")))
    assert (row["guarded_bytes"], row["reclaimable_bytes"]) == (0, 300)
