"""What no group's offset covers is stated as unknown: no group, never committed, remembered."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dashboard.purge.plan import words
from dashboard.purge.plan.preview import GroupPartitions, TopicCoverage, preview
from dashboard.purge.plan.resolve import ResolvedTarget
from tests.unit.purge.facts_of import NOW, TOPIC, facts, partition
from tests.unit.purge.test_plan import plan_of


def coverage_of(
    claims: dict[int, dict[str, int | None]], partitions: int, remembered: frozenset[str]
) -> TopicCoverage:
    found = facts(
        *(partition(number=n) for n in range(partitions)), claims=claims, remembered=remembered
    )
    resolved = {key: ResolvedTarget(10) for key in found.partitions}
    (row,) = preview(plan_of(found, resolved), NOW).coverage
    return row


def test_gaps_are_told_by_partition_and_group() -> None:
    claims: dict[int, dict[str, int | None]] = {
        0: {"a": 5, "gone": 3},
        1: {"a": 6, "share": None},
        2: {"share": None},
    }
    row = coverage_of(claims, 4, frozenset({"gone"}))
    assert row == TopicCoverage(
        topic=TOPIC,
        partitions=4,
        without_group=[2, 3],
        never_committed=[
            GroupPartitions("a", [2, 3]),
            GroupPartitions("gone", [1, 2, 3]),
            GroupPartitions("share", [0, 1, 2, 3]),
        ],
        past_end=[],
        remembered=[GroupPartitions("gone", [0])],
    )
    (said,) = words.coverage([row])
    assert said == (
        f"Groups of {TOPIC}: 2 of 4 partitions without any, so unknown; "
        "a never committed on partitions 2, 3, so unknown; "
        "gone never committed on partitions 1, 2, 3, so unknown; "
        "share never committed on partitions 0, 1, 2, 3, so unknown; "
        "gone only remembered from kept snapshots on partition 0"
    )


def test_an_offset_past_the_end_covers_nothing() -> None:
    row = coverage_of({0: {"far": 1_000_000}}, 1, frozenset())
    assert (row.without_group, row.never_committed) == ([0], [])
    assert row.past_end == [GroupPartitions("far", [0])]
    (said,) = words.coverage([row])
    assert "far's offset on partition 0 is not of the log as it is now, so unknown" in said


def test_full_coverage_needs_no_words() -> None:
    row = coverage_of({0: {"a": 5}, 1: {"a": 0}}, 2, frozenset())
    assert (row.without_group, row.never_committed, row.remembered) == ([], [], [])
    assert words.coverage([row]) == []


def test_of_many_topics_and_partitions_the_line_stays_short() -> None:
    row = coverage_of({0: {"a": 5}}, 9, frozenset())
    said = words.coverage([replace(row, topic=f"t{n}") for n in range(12)])
    assert len(said) == 9
    assert said[0].endswith("a never committed on 8 partitions, so unknown")
    assert said[-1] == "Groups of 4 more topics have such gaps"


@given(
    st.dictionaries(
        st.integers(0, 4),
        st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 100))),
    ),
    st.frozensets(st.sampled_from("abc")),
)
def test_each_group_and_partition_is_covered_or_named(
    claims: dict[int, dict[str, int | None]], remembered: frozenset[str]
) -> None:
    """An offset of 0 is a commit; no offset is none."""
    row = coverage_of(claims, 5, remembered)
    groups = {g for by in claims.values() for g in by}
    never = {(g.group_id, p) for g in row.never_committed for p in g.partitions}
    known = {(g.group_id, p) for g in row.remembered for p in g.partitions}
    for number in range(5):
        by = claims.get(number, {})
        assert (number in row.without_group) == all(by.get(g) is None for g in groups)
        for group in groups:
            assert ((group, number) in never) == (by.get(group) is None)
            seen = by.get(group) is not None and group in remembered
            assert ((group, number) in known) == seen
