"""The inventory file: one Parquet whose rows are segments and checkpoint entries."""

from __future__ import annotations

import pyarrow as pa

from dashboard.store.tables import SNAPSHOT_TABLES

SCHEMA_VERSION = (1, 1)
META_KEY = b"lowwater.inventory"  # the footer's entry: JSON, see Recorder.summary

SEGMENT, CHECKPOINT = "segment", "checkpoint"
TABLES = {"segments": SEGMENT, "checkpoints": CHECKPOINT}
_OF_A_SNAPSHOT = ("snapshot_id", "taken_at")


def _schema() -> pa.Schema:
    fields = {"record": pa.field("record", pa.string())}
    for table in TABLES:
        for field in SNAPSHOT_TABLES[table].schema:
            if field.name not in _OF_A_SNAPSHOT:
                fields[field.name] = field
    return pa.schema(list(fields.values()))


# `record` says which of the two a row is; columns of the other one are null.
SCHEMA = _schema()
