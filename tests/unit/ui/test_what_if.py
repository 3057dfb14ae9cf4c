"""What-if numbers: exact minima over the groups that remain, read from the replicas' curves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dashboard.estimate.curve_tables import from_table
from dashboard.store.tables import FINDING_TABLES, build
from dashboard.views.facts import partition_facts
from dashboard.views.topic_rows import topic_rows
from dashboard.views.what_if import waive
from tests.bench import large_findings

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def table(name: str, *rows: dict[str, Any]) -> pa.Table:
    spec = FINDING_TABLES[name]
    columns = {field.name: [row.get(field.name) for row in rows] for field in spec.schema}
    return build(spec, columns)


def partition(
    target: int | None,
    *,
    stable: int = 1000,
    number: int = 0,
    topic: str = "t",
    start: int = 0,
    high: int = 1000,
) -> list[dict[str, Any]]:
    """A partition's committed target; `stable` is the limit whatever groups did."""
    common = {
        "topic": topic, "partition": number, "log_start_offset": start,
        "high_watermark": high, "guards": [], "limit_offset": stable,
    }  # fmt: skip
    likely = None if target is None else (target - start) * 30
    return [
        {**common, "target": "committed", "target_offset": target, "bytes_likely": likely,
         "bytes_at_once": likely, "records": None if target is None else target - start},
        {**common, "target": "high-watermark", "target_offset": stable},
    ]  # fmt: skip


def hold(group: str, offset: int | None, number: int = 0, topic: str = "t") -> dict[str, Any]:
    return {"topic": topic, "partition": number, "group_id": group, "committed_offset": offset}


def curve(
    broker: int, *knots: tuple[int, int], number: int = 0, topic: str = "t"
) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": number, "broker_id": broker, "log_dir": "/d",
         "offset": offset, "bytes_below": size}
        for offset, size in knots
    ]  # fmt: skip


def three_replicas(number: int = 0, topic: str = "t") -> list[dict[str, Any]]:
    return [
        row
        for broker in (1, 2, 3)
        for row in curve(broker, (0, 0), (1000, 10_000), number=number, topic=topic)
    ]


def what_if(
    rows: list[dict[str, Any]],
    holds: list[dict[str, Any]],
    curves: list[dict[str, Any]],
    *waived: str,
) -> list[dict[str, Any]]:
    reclaimable = table("reclaimable", *rows)
    return waive(
        partition_facts(reclaimable),
        table("holds", *holds),
        from_table(table("curves", *curves)),
        waived,
    ).to_pylist()


HOLDS = [hold("slow", 100), hold("middle", 400), hold("fast", 900)]


def test_without_a_waiver_the_numbers_stay_those_of_the_analysis() -> None:
    (row,) = what_if(partition(100), HOLDS, three_replicas())

    assert (row["target_offset"], row["bytes_likely"], row["bytes_at_once"]) == (100, 3000, 3000)


@pytest.mark.parametrize(
    ("waived", "target"),
    [(("slow",), 400), (("slow", "middle"), 900), (("middle",), 100), (("fast", "middle"), 100)],
)
def test_the_target_is_the_minimum_over_the_groups_that_remain(
    waived: tuple[str, ...], target: int
) -> None:
    (row,) = what_if(partition(100), HOLDS, three_replicas(), *waived)

    assert (row["target_offset"], row["records"], row["bytes_likely"]) == (
        target,
        target,
        target * 30,
    )


def test_two_groups_that_hold_the_same_records_free_them_once() -> None:
    holds = [hold("a", 100), hold("b", 100), hold("c", 600)]

    alone = what_if(partition(100), holds, three_replicas(), "a")[0]["bytes_likely"]
    both = what_if(partition(100), holds, three_replicas(), "a", "b")[0]["bytes_likely"]

    assert (alone, both) == (3000, 18_000)


def test_waiving_every_group_frees_nothing_for_none_is_left_that_has_read() -> None:
    (row,) = what_if(partition(100, stable=950), HOLDS, three_replicas(), "slow", "middle", "fast")

    assert (row["target_offset"], row["bytes_likely"]) == (100, 3000)


def test_a_replay_window_below_every_group_keeps_its_target() -> None:
    (row,) = what_if(partition(60, stable=60), HOLDS, three_replicas(), "slow", "middle")

    assert (row["target_offset"], row["bytes_at_once"]) == (60, 1800)


@pytest.mark.parametrize(("limit", "target"), [(60, 60), (700, 700), (1000, 900)])
def test_a_waiver_frees_no_further_than_a_plan_would(limit: int, target: int) -> None:
    """The last stable offset or the replay window, whichever is lower, holds for both."""
    (row,) = what_if(
        partition(min(100, limit), stable=limit), HOLDS, three_replicas(), "slow", "middle"
    )
    assert row["target_offset"] == target


def test_an_offset_past_the_end_of_the_log_tells_no_target() -> None:
    holds = [hold("slow", 100), hold("reset", 1_000_000)]
    (row,) = what_if(partition(100), holds, three_replicas(), "slow")
    assert row["target_offset"] == 100, "no group that counts is left: a plan is guarded"


def test_in_an_analysis_of_an_earlier_version_targets_stay() -> None:
    rows = [{**row, "limit_offset": None} for row in partition(100)]
    (row,) = what_if(rows, HOLDS, three_replicas(), "slow")
    assert (row["target_offset"], row["bytes_at_once"]) == (100, 3000)


def test_a_partition_of_no_group_stays_unknown() -> None:
    (row,) = what_if(partition(None), [], three_replicas(), "slow")

    assert (row["target_offset"], row["records"], row["bytes_likely"]) == (None, None, None)


def test_bytes_follow_each_replica_by_its_own_curve() -> None:
    curves = [
        *curve(1, (0, 0), (500, 5000), (1000, 10000)),
        *curve(2, (200, 0), (1000, 4000)),
    ]
    (row,) = what_if(partition(100), HOLDS, curves, "slow", "middle")

    assert row["bytes_likely"] == 10000 * 900 // 1000 + 4000 * 700 // 800


def test_whole_segments_of_a_moved_target_are_those_of_the_analysis() -> None:
    (row,) = what_if(partition(100), HOLDS, three_replicas(), "slow")
    assert (row["method"], row["bytes_at_once"]) == ("proportional", 0), "one GiB to a segment"
    small = [{**knot, "segment_bytes": 3000} for knot in three_replicas()]
    (row,) = what_if(partition(100), HOLDS, small, "slow")
    assert row["bytes_at_once"] == 3 * 3000
    assert row["bytes_low"] < row["bytes_likely"] == 12_000 < row["bytes_high"]


def test_curves_of_partitions_that_are_gone_do_no_harm() -> None:
    assert what_if([], HOLDS, three_replicas(), "slow") == []


def test_a_missing_curve_means_unknown_bytes_not_zero() -> None:
    (row,) = what_if(partition(100), HOLDS, [], "slow")

    assert (row["target_offset"], row["bytes_likely"], row["bytes_at_once"]) == (400, None, None)


def test_what_the_analysis_could_not_measure_stays_so() -> None:
    """A topic with remote storage has curves of its local bytes, which no offset tells apart."""
    rows = [{**row, "method": "not measurable"} for row in partition(100)]

    (row,) = what_if(rows, HOLDS, three_replicas(), "slow")

    assert (row["target_offset"], row["bytes_likely"], row["bytes_at_once"]) == (400, None, None)


def test_partitions_and_topics_are_kept_apart() -> None:
    rows = [*partition(100), *partition(300, number=1), *partition(200, topic="u")]
    holds = [*HOLDS, hold("slow", 300, 1), hold("fast", 800, 1), hold("slow", 200, topic="u")]
    curves = [*three_replicas(), *three_replicas(1), *three_replicas(topic="u")]

    found = {(r["topic"], r["partition"]): r for r in what_if(rows, holds, curves, "slow")}

    assert {key: row["target_offset"] for key, row in found.items()} == {
        ("t", 0): 400,
        ("t", 1): 800,
        ("u", 0): 200,
    }
    assert found[("t", 1)]["bytes_likely"] == 24_000


def test_offsets_of_a_long_lived_log_keep_every_digit() -> None:
    start = 2**53 + 1
    rows = partition(start + 100, start=start, stable=start + 1000, high=start + 1000)
    holds = [hold("slow", start + 100), hold("fast", start + 901)]
    curves = [{**row, "offset": row["offset"] + start} for row in three_replicas()]

    (row,) = what_if(rows, holds, curves, "slow")

    assert (row["target_offset"], row["bytes_likely"]) == (start + 901, 27_030)


def test_the_bench_waives_groups_of_a_large_cluster_s_findings() -> None:
    found = large_findings.made(400)
    facts = waive(found.facts, found.holds, found.curves, ["group-0", "group-1"])
    moved = pc.not_equal(facts["target_offset"], found.facts["target_offset"])
    assert 0 < pc.sum(moved).as_py() < 400
    assert facts["bytes_likely"].null_count == 0
    assert len(topic_rows(facts)) == 4
