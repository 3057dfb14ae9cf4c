"""What the analysis knows of each topic: its declaration, its settings, whether it is a system's.

Declarations match globs in the order of the file, so they are matched once per topic on the
driver and joined as a small table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dashboard.guard_texts import is_system_topic
from dashboard.settings import Settings, TopicDeclaration, declaration

DEFAULT_SEGMENT_BYTES = 1 << 30  # the broker's log.segment.bytes

_SCHEMA = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("is_system", pa.bool_()),
        ("readers_declared", pa.bool_()),
        ("owner", pa.string()),
        ("replay_window_ms", pa.int64()),
    ]
)


def all_declarations(
    settings: Settings, stored: Sequence[Mapping[str, str]]
) -> tuple[TopicDeclaration, ...]:
    """The settings' declarations first, then those made on the page. Raises SettingsError."""
    made_on_page = (
        declaration(
            entry.get("glob", ""),
            {key: value for key, value in entry.items() if key != "glob"},
            f"declarations.json, {entry.get('glob', '')}",
        )
        for entry in stored
    )
    return (*settings.topics, *made_on_page)


def describe(topics: pa.Table, declarations: Sequence[TopicDeclaration]) -> pa.Table:
    """One row per topic of the snapshot's `topics` table: topic_no, topic, topic_id, is_system,
    readers_declared, owner (null: undeclared), replay_window_ms (0: none).
    """
    rows = [
        _row(topic, next((d for d in declarations if d.matches(topic["topic"])), None))
        for topic in topics.select(["topic_no", "topic", "topic_id", "is_internal"]).to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _row(topic: Mapping[str, object], found: TopicDeclaration | None) -> dict[str, object]:
    name = str(topic["topic"])
    declared = found is not None and found.readers == "groups"
    window = found.replay_window if found is not None else timedelta(0)
    return {
        "topic_no": topic["topic_no"],
        "topic": name,
        "topic_id": topic["topic_id"],
        "is_system": bool(topic["is_internal"]) or is_system_topic(name),
        "readers_declared": declared,
        "owner": found.owner or None if found is not None else None,
        "replay_window_ms": window // timedelta(milliseconds=1),
    }


def with_settings(topics: DataFrame, configs: DataFrame) -> DataFrame:
    """`topics` with the settings that decide about a purge, from the snapshot's `configs`.

    Adds cleanup_policy (null: not readable), segment_bytes, remote_storage, unclean_election.
    """
    values = (
        configs.where(F.col("scope") == "topic")
        .groupBy(F.col("name").alias("topic"))
        .agg(
            _setting("cleanup.policy").alias("cleanup_policy"),
            _setting("segment.bytes").cast("long").alias("configured_segment_bytes"),
            (_setting("remote.storage.enable") == "true").alias("remote_storage"),
            (_setting("unclean.leader.election.enable") == "true").alias("unclean_election"),
        )
    )
    segment_bytes = F.coalesce("configured_segment_bytes", F.lit(DEFAULT_SEGMENT_BYTES))
    return topics.join(F.broadcast(values), "topic", "left").select(
        *topics.columns,
        "cleanup_policy",
        segment_bytes.alias("segment_bytes"),
        F.coalesce("remote_storage", F.lit(False)).alias("remote_storage"),
        F.coalesce("unclean_election", F.lit(False)).alias("unclean_election"),
    )


def _setting(key: str) -> Column:
    return F.max(F.when(F.col("key") == key, F.col("value")))
