"""Where groups stand is told for some of a topic's partitions as it is for all of them at once."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from dashboard.safety.committed_offsets import COMMITS, by_offset, summed
from dashboard.safety.readers import GROUPS, Readers, readers
from dashboard.safety.standing import Standing, standing

NAMES = ("a", "b", "c", "gone", "share")
TOPICS = pa.table(
    {
        "topic_no": pa.array([0, 1, 2], pa.int32()),
        "topic": ["t", "u", "v"],
        "topic_id": ["id-t", None, "id-v"],
        "is_new": [False, False, True],
    }
)


def partitions(dice: random.Random) -> pa.Table:
    places = [(topic, partition) for topic in range(3) for partition in range(5)]
    return pa.table(
        {
            "topic_no": pa.array([topic for topic, _ in places], pa.int32()),
            "partition": pa.array([partition for _, partition in places], pa.int32()),
            "high_watermark": pa.array([dice.choice([None, 10, 50]) for _ in places], pa.int64()),
        }
    )


def commits(dice: random.Random) -> pa.Table:
    """Few of many: live and remembered ones, past the end, and of a topic before."""
    rows = [
        {"topic_no": topic, "partition": partition, "group_id": group,
         "topic_id": dice.choice([f"id-{'tuv'[topic]}", "before", None]),
         "committed_offset": dice.choice([None, 5, 20, 90]), "remembered": dice.random() < 0.5,
         "leader_epoch": 1, "epoch_end": dice.choice([None, None, 15]),
         "seen_at": dice.choice([None, 1, 2, 2])}
        for topic in range(3) for partition in range(5) for group in NAMES
        if dice.random() < 0.15
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=COMMITS)


def who(dice: random.Random, offsets: pa.Table) -> Readers:
    rows: list[dict[str, Any]] = [
        {"group_id": group, "type": "share" if group == "share" else "consumer",
         "state": "Stable", "members": dice.choice([0, 1, None]),
         "assigned": [{"topic": dice.choice("tuv"), "partition": dice.randrange(5)}],
         "subscribed": dice.sample("tuv", dice.randrange(3)),
         "patterns": dice.choice([[], ["u.*"], ["[tv]"]]), "is_streams": dice.random() < 0.3}
        for group in NAMES if group != "gone"
    ]  # fmt: skip
    groups = pa.Table.from_pylist(rows, schema=GROUPS)
    return readers(groups, offsets, TOPICS, streams=["gone"], commits=offsets)


def told(found: Standing, rows: pa.Table) -> dict[Any, Any]:
    """What stands on each partition, by its place."""
    places = list(zip(*(rows[n].to_pylist() for n in ("topic_no", "partition")), strict=True))
    columns = [found.positions, found.first_group, found.second_offset, found.has_readers]
    by_place: dict[Any, Any] = {
        place: [*values, []]
        for place, *values in zip(places, *(c.to_pylist() for c in columns), strict=True)
    }
    for table in (found.unplaced, found.unread_share, found.restorers):
        for row in table.to_pylist():
            by_place[places[row.pop("row")]][-1].append(row)
    return by_place


@pytest.mark.further_but("0", "4", "8", "12", "16", "20", "24", "28", "32", "36")
@pytest.mark.parametrize("seed", range(40))
def test_parts_are_judged_as_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    rows, offsets = partitions(dice), commits(dice)
    reading = who(dice, offsets)
    whole = told(standing(rows, offsets, TOPICS, reading), rows)
    halves = [(p["partition"].to_numpy() % 2) for p in (rows, offsets)]
    parts = [
        (rows.filter(pa.array(halves[0] == half)), offsets.filter(pa.array(halves[1] == half)))
        for half in (0, 1)
    ]
    elsewhere = summed(pa.concat_tables([by_offset(*part, TOPICS) for part in parts]))
    apart: dict[Any, Any] = {}
    for some, own in parts:
        apart |= told(standing(some, own, TOPICS, reading, elsewhere=elsewhere), some)
    assert apart == whole
