"""Looks at what an analysis made of a damaged or pruned snapshot; shared by the tests of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard.core.errors import StoreError
from tests.support.lab import Lab


def file(lab: Lab, snapshot_id: str, table: str) -> Path:
    """The file of a snapshot's table."""
    return Path(lab.cluster.path) / "snapshots" / snapshot_id / f"{table}.parquet"


def rewritten(lab: Lab, snapshot_id: str, table: str, change: Callable[..., pa.Table]) -> None:
    """Change the rows of a table that is there."""
    path = file(lab, snapshot_id, table)
    pq.write_table(change(pq.read_table(path)), path)


def refused(lab: Lab, **options: Any) -> StoreError:
    """The error of an analysis that leaves no findings."""
    with pytest.raises(StoreError) as caught:
        lab.analyze(**options)
    assert caught.value.next_step
    assert lab.cluster.latest("findings") is None
    return caught.value


def held(lab: Lab) -> dict[tuple[str, str], int]:
    """Committed offsets by topic and group."""
    return {(h["topic"], h["group_id"]): h["committed_offset"] for h in lab.rows("holds")}


def curve(lab: Lab, partition: int = 0) -> list[tuple[int, str]]:
    """Offsets of the first replica's knots, each with how the bytes before it were measured."""
    rows = [c for c in lab.rows("curves") if (c["partition"], c["broker_id"]) == (partition, 1)]
    return [(c["offset"], c["method"]) for c in rows]
