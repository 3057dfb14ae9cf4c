"""Rows of `idle_topics` out of sums: who reads, what is unknown, what metrics add."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from analytics.advice import idle_topics
from analytics.kernels import SUMMED
from dashboard.safety.readers import GROUPS, readers
from dashboard.store.tables import FINDING_TABLES

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
_TIME = pa.timestamp("us", tz="UTC")
_NAMES = ["old", "listened", "busy", "new", "__consumer_offsets"]
TOPICS = pa.table(
    {"topic_no": pa.array(range(5), pa.int32()), "topic": _NAMES, "topic_id": _NAMES,
     "is_new": [False] * 5, "is_system": [False] * 4 + [True], "owner": ["ann", *[None] * 4],
     "cleanup_policy": ["delete"] * 4 + ["compact"], "retention_ms": [7] * 5,
     "replay_window_ms": [0] * 5}
)  # fmt: skip
LISTENING = {"group_id": "g", "type": "consumer", "state": "Stable", "members": 1,
             "assigned": [], "subscribed": ["listened"], "patterns": []}  # fmt: skip


def ends(topic: str, **facts: Any) -> dict[str, Any]:
    row = {"topic": topic, "partitions": 2, "unread": 0, "never_known": 0, "moved_at": None,
           "known_since": LONG_AGO, "records": 9, "size_bytes": 100, "replicas": 2,
           "unmeasured": 0}  # fmt: skip
    return {**row, **facts}


ENDS = [
    ends("old"), ends("listened"), ends("busy", moved_at=NOW - timedelta(hours=1)),
    ends("new", never_known=1, unread=1, known_since=NOW, unmeasured=1),
    ends("__consumer_offsets"),
]  # fmt: skip
_ENDS = pa.schema(
    [(n, _TIME if n in ("moved_at", "known_since") else pa.string() if n == "topic" else pa.int64())
     for n in ENDS[0]]
)  # fmt: skip
_COMMITS = pa.schema(
    [("group_id", pa.string()), ("topic", pa.string()), ("last_commit_at", _TIME),
     ("held_alone", pa.int64()), ("freed", pa.int64()), ("unmeasured", pa.int64()),
     ("is_first", pa.bool_())]
)  # fmt: skip


def unread(group_id: str, records: int) -> dict[str, Any]:
    return {"topic": "old", "name": "unread-by-group", "group_id": group_id, "partitions": 1,
            "records": records}  # fmt: skip


_WANTED = pa.schema(
    [("topic", pa.string()), ("name", pa.string()), ("group_id", pa.string()),
     ("partitions", pa.int64()), ("records", pa.int64()), ("reason", pa.string())]
)  # fmt: skip


def found(
    *groups: dict[str, Any],
    incomplete: tuple[str, ...] = (),
    bytes_out: pa.Table | None = None,
    begun: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    commits = [{"group_id": "gone", "topic": "old", "last_commit_at": LONG_AGO}]
    sums = {
        # Two buckets tell of a topic each their own.
        "last_writes": pa.Table.from_pylist([*ENDS, ends("old", size_bytes=1)], schema=_ENDS),
        "blockers": pa.Table.from_pylist(commits, schema=_COMMITS),
        "wanted": pa.Table.from_pylist(
            [unread("slow", 5), unread("far", 6), unread("slow", 3)], schema=_WANTED
        ),
        "held": pa.table({"topic": ["old"], "group_id": ["gone"]}),
    }
    sums |= {name: SUMMED[name](sums[name]) for name in ("last_writes", "wanted")}
    numbers, names = pa.array([0] * len(begun), pa.int32()), pa.array(begun, pa.string())
    offsets = pa.table({"topic_no": numbers, "group_id": names})
    who = readers(pa.Table.from_pylist(list(groups), schema=GROUPS), offsets, TOPICS)
    table = idle_topics(
        sums, TOPICS, who, incomplete=incomplete, taken_at=NOW, days=7, bytes_out=bytes_out
    )
    declared = set(FINDING_TABLES["idle_topics"].schema.names) - {"snapshot_id", "taken_at"}
    assert set(table.column_names) == declared
    return {row["topic"]: row for row in table.to_pylist()}


def test_a_row_for_each_topic_without_a_write_in_the_last_day() -> None:
    rows = found(LISTENING)
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "old": "idle", "listened": "read", "new": "unknown", "__consumer_offsets": "idle",
    }  # fmt: skip
    old = rows["old"]
    assert (old["size_bytes"], old["partitions"], old["groups"]) == (101, 4, 1)
    assert (old["last_commit_at"], old["owner"], old["kind"]) == (LONG_AGO, "ann", "ordinary")
    assert old["evidence"] == ["offsets", "commits"]
    told = [(g["group_id"], g["records"], g["partitions"]) for g in old["guards"]]
    assert told == [("slow", 8, 2), ("far", 6, 1)] and rows["listened"]["guards"] == []
    assert (old["retention_ms"], old["replay_window_ms"]) == (7, 0)
    assert rows["listened"]["reading_groups"] == ["g"]
    new = rows["new"]
    assert (new["size_bytes"], new["records"], new["quiet_since"]) == (None, None, None)
    assert new["evidence"] == ["commits"]
    assert rows["__consumer_offsets"]["kind"] == "tool"


def test_a_share_group_is_told_by_its_start_offset_or_by_its_members() -> None:
    share = {**LISTENING, "group_id": "sg", "type": "share"}
    rows = found(share, {**share, "group_id": "left", "members": 0, "subscribed": []},
                 begun=("left",))  # fmt: skip
    assert (rows["old"]["reading_groups"], rows["old"]["share_groups"]) == ([], ["left"])
    assert rows["old"]["reason"] == "share group left has a start offset on it"
    assert (rows["listened"]["reading_groups"], rows["listened"]["share_groups"]) == (["sg"], [])


@pytest.mark.parametrize(
    ("group", "incomplete", "said"),
    [
        ({}, ("no DESCRIBE",), "no DESCRIBE"),
        ({"members": None, "subscribed": []}, (), "group g may read any topic"),
    ],
)
def test_nothing_is_idle_while_a_reader_may_be_missing(
    group: dict[str, Any], incomplete: tuple[str, ...], said: str
) -> None:
    old = found({**LISTENING, **group}, incomplete=incomplete)["old"]
    assert old["verdict"] == "unknown" and said in old["reason"]
    assert old["evidence"] == ["offsets"]


def test_metrics_are_evidence_where_they_were_measured() -> None:
    measured = pa.table(
        {"topic": ["old", "listened"], "bytes_out_per_hour": pa.array([0, None], pa.int64())}
    )
    rows = found(LISTENING, bytes_out=measured)
    assert rows["old"]["evidence"] == ["offsets", "commits", "metrics"]
    assert "metrics" not in rows["listened"]["evidence"]
    fetched = pa.table({"topic": ["old"], "bytes_out_per_hour": [7]})
    assert found(bytes_out=fetched)["old"]["verdict"] == "read"
