"""Snapshot tables with topics by name, as people ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from analytics.tables import Tables
from dashboard.store.snapshot_files import Kind, spec_of

_KEY = ["snapshot_id", "topic_no"]


def read_named(tables: Tables, kind: Kind, table: str, ids: Sequence[str]) -> DataFrame:
    """A table of some snapshots or analyses; `topic` stands where the store has `topic_no`.

    Each snapshot numbers its topics anew, so the number says nothing outside of it. A number
    without a name, as damage would leave it, keeps its rows with a null topic. Raises StoreError
    when a folder is gone or damaged.
    """
    found = tables.read(kind, table, ids)
    columns = spec_of(kind, table).schema.names
    if table == "topics" or "topic_no" not in columns:
        return found
    names = tables.read("snapshots", "topics", ids).select(*_KEY, "topic")
    return found.join(names, on=_KEY, how="left").select(
        *("topic" if name == "topic_no" else name for name in columns)
    )
