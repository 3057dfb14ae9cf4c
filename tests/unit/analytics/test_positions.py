"""Group offsets by partition: in order, silent groups named, and sorting by numbers."""

from __future__ import annotations

import pyarrow as pa

from analytics.arrow import in_order
from analytics.groups import members
from analytics.positions import positions, silent

PARTITIONS = pa.table({"topic_no": pa.array([0, 0, 1], pa.int32()), "partition": [0, 1, 0]})
HOLDS = pa.table(
    {
        "topic_no": pa.array([0, 0, 0, 9], pa.int32()),
        "partition": [0, 0, 0, 0],
        "group_id": ["b", "a", "late", "elsewhere"],
        "committed_offset": pa.array([5, 5, 90, 1], pa.int64()),
    }
)


def test_groups_are_listed_by_offset_then_name() -> None:
    got = positions(PARTITIONS, HOLDS)
    found = [[(p["committed_offset"], p["group_id"]) for p in at] for at in got.lists.to_pylist()]
    assert found == [
        [(5, "a"), (5, "b"), (90, "late")], [], [],
    ]  # fmt: skip
    assert got.first_group.to_pylist() == ["a", None, None]
    assert got.second_offset.to_pylist() == [5, None, None]


def test_groups_without_a_commit_are_named_once() -> None:
    topics = pa.table(
        {
            "topic": ["t", "u"],
            "topic_no": pa.array([0, 1], pa.int32()),
            "topic_groups": [["late", "b", "x", "reads"], []],
        }
    )
    reading = pa.table({"topic": ["t", "t"], "partition": [1, 0], "group_id": ["reads", "a"]})
    here, others = silent(PARTITIONS, HOLDS, members(reading, topics), topics)
    assert here.to_pylist() == [[], ["reads"], []]
    assert others.to_pylist() == [["reads", "x"], ["b", "late", "x"], []]


def test_rows_are_sorted_as_by_their_values() -> None:
    rows = pa.table(
        {
            "name": ["b", None, "ä", "a", "b", "b"],
            "number": pa.array([2, 1, -5, None, 2, -1], pa.int32()),
            "row": [0, 1, 2, 3, 4, 5],
        }
    )
    keys = ["name", "number"]
    found = in_order(rows, keys)
    assert found.equals(rows.sort_by([(key, "ascending") for key in keys]))
    assert in_order(found, keys) is found
    nothing = rows.slice(0, 0)
    assert in_order(nothing, keys).num_rows == 0
