"""Who stands where on each partition: places in order, and groups whose place is unknown named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dashboard.core.arrow import in_order
from dashboard.history.past_groups import shown
from dashboard.safety.committed_offsets import COMMITS
from dashboard.safety.readers import GROUPS, readers
from dashboard.safety.standing import (
    ASSIGNED,
    GONE,
    OTHER_LOG,
    PAST_END,
    SKIPPED,
    Standing,
    standing,
)

PARTITIONS = pa.table(
    {
        "topic_no": pa.array([0, 0, 1], pa.int32()),
        "partition": pa.array([0, 1, 0], pa.int32()),
        "high_watermark": pa.array([100, 100, 100], pa.int64()),
    }
)
TOPICS = pa.table(
    {
        "topic_no": pa.array([0, 1], pa.int32()),
        "topic": ["t", "u"],
        "topic_id": ["T", "U"],
        "is_new": [False, False],
    }
)
NO_OFFSETS = pa.table({"topic_no": pa.array([], pa.int32()), "group_id": pa.array([], pa.string())})


def commit(
    group: str, offset: int, partition: int = 0, *, topic_id: str | None = "T", old: bool = False
) -> dict[str, object]:
    return {"topic_no": 0, "partition": partition, "group_id": group, "topic_id": topic_id,
            "committed_offset": offset, "remembered": old}  # fmt: skip


def stood(*commits: dict[str, object], assigned: dict[str, int] | None = None) -> Standing:
    groups = [
        {"group_id": g, "type": "consumer", "state": "Stable", "members": 1,
         "assigned": [{"topic": "t", "partition": at}]}
        for g, at in (assigned or {}).items()
    ]  # fmt: skip
    who = readers(pa.Table.from_pylist(groups, schema=GROUPS), NO_OFFSETS, TOPICS)
    found = pa.Table.from_pylist(list(commits), schema=COMMITS)
    return standing(PARTITIONS, found, TOPICS, who)


def places(found: Standing) -> list[list[tuple[int, str]]]:
    return [
        [(p["committed_offset"], p["group_id"]) for p in at] for at in found.positions.to_pylist()
    ]


def unplaced(found: Standing) -> list[tuple[int, int, str]]:
    return [(r["row"], r["kind"], r["group_id"]) for r in found.unplaced.to_pylist()]


def test_groups_are_listed_by_offset_then_name() -> None:
    found = stood(commit("b", 5), commit("a", 5), commit("late", 90))
    assert places(found) == [[(5, "a"), (5, "b"), (90, "late")], [], []]
    assert found.first_group.to_pylist() == ["a", None, None]
    assert found.second_offset.to_pylist() == [5, None, None]
    assert found.has_readers.to_pylist() == [True, True, False]


def test_groups_without_a_place_are_named_once_with_the_reason() -> None:
    found = stood(commit("b", 5), commit("x", 5, 1), assigned={"reads": 1, "b": 1})
    assert unplaced(found) == [
        (0, SKIPPED, "reads"), (0, SKIPPED, "x"), (1, ASSIGNED, "b"), (1, ASSIGNED, "reads"),
    ]  # fmt: skip


def test_offsets_that_no_record_of_this_log_can_explain_are_no_places() -> None:
    """Live past the end, remembered past the end, and of a topic that was made anew."""
    found = stood(
        commit("live", 101), commit("end", 100), commit("gone", 101, old=True),
        commit("old", 5, topic_id="before", old=True), commit("same", 5, topic_id="T", old=True),
    )  # fmt: skip
    assert places(found)[0] == [(5, "same"), (100, "end")]
    assert unplaced(found)[:3] == [
        (0, PAST_END, "live"), (0, OTHER_LOG, "gone"), (0, OTHER_LOG, "old"),
    ]  # fmt: skip


def test_where_the_end_of_the_log_is_not_known_offsets_stand_as_they_are() -> None:
    """Nothing is purged there; who reads is shown all the same."""
    unread = PARTITIONS.set_column(2, "high_watermark", pa.nulls(3, pa.int64()))
    who = readers(GROUPS.empty_table(), NO_OFFSETS, TOPICS)
    found = standing(unread, pa.Table.from_pylist([commit("a", 7)], schema=COMMITS), TOPICS, who)
    assert places(found)[0] == [(7, "a")]


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


def _gone(at: int | None, partition: int = 0) -> dict[str, object]:
    return commit("etl", 90, partition, old=True) | {"seen_at": at}


def _met(topic: str, at: int) -> Standing:
    who = readers(GROUPS.empty_table(), NO_OFFSETS, TOPICS, met={("etl", topic): at})
    found = pa.Table.from_pylist([_gone(5), _gone(5, 1)], schema=COMMITS)
    return standing(PARTITIONS, found, TOPICS, who)


@pytest.mark.parametrize(
    ("other", "begun"),
    [
        (commit("etl", 5, 1), True),
        (_gone(6, 1), True),
        (_gone(5, 1), False),
        (_gone(None, 1), False),
        (commit("another", 5, 1), False),
    ],
)
def test_an_offset_that_its_group_had_no_more_when_it_was_seen_last_is_no_place(
    other: dict[str, object], begun: bool
) -> None:
    """It was deleted to read all again, and committed on another partition since."""
    found = stood(_gone(5), other)
    assert ((0, GONE, "etl") in unplaced(found)) == begun
    assert places(found)[0] == [(90, "etl")], "the lowest bound it still is"


@pytest.mark.parametrize(
    ("topic", "at", "begun"),
    [("t", 6, True), ("", 6, True), ("t", 5, False), ("", 4, False)],
)
def test_so_is_one_whose_group_was_met_since(topic: str, at: int, begun: bool) -> None:
    """Also when it died before its first commit; "": on any topic."""
    assert unplaced(_met(topic, at)) == ([(0, GONE, "etl"), (1, GONE, "etl")] if begun else [])


def test_a_group_whose_members_were_met_where_it_has_no_offset_may_want_all() -> None:
    assert unplaced(_met("u", 6)) == [(2, SKIPPED, "etl")]


def test_who_is_listed_is_met_with_members_or_without() -> None:
    rows = [{"group_id": name, "members": members} for name, members in (("a", 1), ("b", 0))]
    assert shown(pa.Table.from_pylist(rows, schema=GROUPS), list) == [("a", ""), ("b", "")]


@pytest.mark.parametrize("of_the_other", [1, None], ids=["planned", "not planned"])
def test_a_share_group_that_reads_another_topic_by_now_is_named_on_all_of_the_one_it_left(
    of_the_other: int | None,
) -> None:
    """Its offsets of a topic were deleted, to read all again: it had none on one partition."""
    listed = [{"group_id": "share", "type": "share", "state": "Empty", "members": 0}]
    elsewhere = pa.table(
        {"topic_no": pa.array([of_the_other], pa.int32()), "group_id": pa.array(["share"])}
    )
    who = readers(pa.Table.from_pylist(listed, schema=GROUPS), elsewhere, TOPICS)
    held = pa.Table.from_pylist([commit("share", 5, 1, old=True)], schema=COMMITS)
    found = standing(PARTITIONS.slice(0, 2), held, TOPICS, who)
    assert unplaced(found) == [(0, SKIPPED, "share"), (1, GONE, "share")]
    assert found.unread_share.num_rows == 0
