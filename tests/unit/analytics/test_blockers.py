"""Which groups hold how much, and whether anybody knows that they are gone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from analytics.readers import partitions

_SUMS = pa.schema(
    {
        "group_id": pa.string(),
        "topic": pa.string(),
        "last_commit_at": pa.timestamp("us", tz="UTC"),
        "held_alone": pa.int64(),
        "freed": pa.int64(),
        "unmeasured": pa.int64(),
        "is_first": pa.bool_(),
    }
)
_GROUPS = pa.schema({"group_id": pa.string(), "state": pa.string(), "members": pa.int32()})


def rows(*, complete: bool) -> dict[str, dict[str, Any]]:
    """Of four groups that committed on one topic: `away` is in no list."""
    names = ("three", "none", "silent", "away")
    each = {"topic": "t", "last_commit_at": None, "held_alone": 5, "freed": 3, "is_first": True}
    found = pa.Table.from_pylist([{"group_id": name, **each} for name in (*names, None)], _SUMS)
    listed = pa.Table.from_pylist(
        [
            {"group_id": "three", "state": "Stable", "members": 3},
            {"group_id": "none", "state": "Empty", "members": 0},
            {"group_id": "silent", "state": "Unknown", "members": None},
        ],
        schema=_GROUPS,
    )
    made = partitions.blockers(found, listed, complete=complete).to_pylist()
    return {row["group_id"]: row for row in made}


@pytest.mark.parametrize("complete", [True, False])
def test_who_is_listed_has_the_state_and_members_of_the_list(complete: bool) -> None:
    found = rows(complete=complete)
    told = {name: (found[name]["group_state"], found[name]["members"]) for name in found}
    assert told["three"] == ("Stable", 3)
    assert told["none"] == ("Empty", 0)
    assert told["silent"] == ("Unknown", None), "members that nobody could read are not none"


def test_who_is_in_no_list_is_gone_only_where_the_list_is_whole() -> None:
    whole, parted = rows(complete=True)["away"], rows(complete=False)["away"]
    assert (whole["group_state"], whole["members"]) == ("Gone", 0)
    assert (parted["group_state"], parted["members"]) == ("Unknown", None)
    assert parted["bytes_held_alone"] == whole["bytes_held_alone"] == 5


def partition(topic: str, held: int | None, *, is_only: bool = False, **facts: Any) -> Any:
    """One on which group g is furthest behind: what it alone holds there, if that is known."""
    return {"topic": topic, "cleanup_policy": "delete", "is_system": False, "first_group": "g",
            "committed_likely": 10, "committed_at_once": 8, "is_only": is_only,
            "without_likely": None if held is None else 10 + held,
            "without_at_once": None if held is None else 8 + held, **facts}  # fmt: skip


def test_partitions_that_cannot_be_measured_are_counted_beside_the_sums() -> None:
    parts = [
        partition("whole", 5), partition("whole", 2),
        partition("part", 5), partition("part", None), partition("part", None),
        partition("none", None), partition("alone", None, is_only=True),
        partition("other", None, first_group="h"),
    ]  # fmt: skip
    topics = dict.fromkeys(row["topic"] for row in parts)
    holds = pa.table({"group_id": ["g"] * len(topics), "topic": list(topics)}).append_column(
        "last_commit_at", pa.nulls(len(topics), _SUMS.field("last_commit_at").type)
    )
    table = pa.Table.from_pylist(parts)
    halves = [
        partitions.sums(holds.slice(0, n), rows)
        for n, rows in ((len(topics), table.slice(0, 4)), (0, table.slice(4)))
    ]
    found = partitions.summed(pa.concat_tables(halves))
    made = partitions.blockers(found, _GROUPS.empty_table(), complete=True).to_pylist()
    names = ("bytes_held_alone", "bytes_freed_if_waived", "unmeasured")
    told = {r["topic"]: tuple(r[name] for name in names) for r in made if r["group_id"] == "g"}
    assert told == {
        "whole": (7, 7, 0), "part": (5, 5, 2), "none": (None, None, 1), "alone": (None, 0, 1),
        "other": (0, 0, 0),
    }  # fmt: skip
