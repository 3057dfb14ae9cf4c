"""Bytes that groups' progress explains, by arrays and by one commit after the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.safety.explained import measures
from dashboard.safety.progress import Sample
from tests.support.examples import examples

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
HELD = 10**9  # offsets, beside which a log start that moves is nothing
TOPICS, GROUPS = ("a", "b"), ("f", "g", "h")
Place = tuple[str, int]
Commits = dict[tuple[str, str, int], int]  # by group, topic and partition
Logs = dict[Place, tuple[int | None, float | None]]  # log start and bytes by record
_PLACES = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))
_SIZES = st.one_of(st.none(), st.integers(1, 5000).map(float))
_STEPS = st.lists(
    st.tuples(
        st.dictionaries(
            st.tuples(st.sampled_from(GROUPS), _PLACES).map(lambda c: (c[0], *c[1])),
            st.integers(0, 500),
        ),
        st.dictionaries(_PLACES, st.tuples(st.one_of(st.none(), st.integers(0, 99)), _SIZES)),
    ),
    min_size=2,
    max_size=6,
)


def sample(step: int, commits: Commits, logs: Logs) -> Sample:
    """One broker has all, and tells of no byte that left."""
    groups, topics, partitions = ([c[n] for c in commits] for n in range(3))
    return Sample(
        BEGAN + timedelta(minutes=step),
        {1: {}},
        pa.table(
            {
                "group_id": pa.array(groups, pa.string()),
                "topic": pa.array(topics, pa.string()),
                "partition": pa.array(partitions, pa.int32()),
                "offset": pa.array(commits.values(), pa.int64()),
            }
        ),
        pa.table(
            {
                "topic": pa.array([place[0] for place in logs], pa.string()),
                "partition": pa.array([place[1] for place in logs], pa.int32()),
                "broker_id": pa.array([1] * len(logs), pa.int32()),
                "start": pa.array([start for start, _ in logs.values()], pa.int64()),
                "end": pa.array([(start or 0) + HELD for start, _ in logs.values()], pa.int64()),
                "size_bytes": pa.array(
                    [
                        size * HELD if size and start is not None else None
                        for start, size in logs.values()
                    ],
                    pa.float64(),
                ),
                "segment_bytes": pa.array([0] * len(logs), pa.int64()),
            }
        ),
        {topic: frozenset({1}) for topic in TOPICS},
    )


def one_by_one(steps: Sequence[tuple[Commits, Logs]], topic: str) -> int | None:
    """None: of records that were passed the size is unknown."""
    total, known = 0.0, True
    for place in sorted({claim[1:] for commits, _ in steps for claim in commits}):
        records = sum(_passed(steps, group, place) for group in GROUPS)
        rows = [logs[place] for _, logs in steps if place in logs]
        told = [size for start, size in rows if size is not None and start is not None]
        # Of its first look alone nobody knows what lies dead below the log start.
        sure = any(
            start == 0 or n for n, (start, size) in enumerate(rows) if None not in (start, size)
        )
        told = told if sure else []
        if place[0] == topic and records:
            known = known and bool(told)
            total += records * min(told, default=0.0)
    return round(total) if known else None


def _passed(steps: Sequence[tuple[Commits, Logs]], group: str, place: Place) -> int:
    before, passed = None, 0
    for number, (commits, _) in enumerate(steps):
        offset = commits.get((group, *place))
        if offset is None:
            continue
        if number and before is None:
            before = steps[number - 1][1].get(place, (None, None))[0]
        passed += max(offset - before, 0) if number and before is not None else 0
        before = offset
    return passed


@examples(60)
@given(_STEPS)
def test_arrays_explain_what_one_commit_after_the_other_does(
    steps: list[tuple[Commits, Logs]],
) -> None:
    _explained_alike(steps)


@pytest.mark.further
@examples(300)
@given(_STEPS)
def test_so_they_do_of_many_histories(steps: list[tuple[Commits, Logs]]) -> None:
    _explained_alike(steps)


def _explained_alike(steps: list[tuple[Commits, Logs]]) -> None:
    samples = [sample(number, *step) for number, step in enumerate(steps)]
    found = {m.reading.topic: m.reading.explained_bytes for m in measures(samples, TOPICS)}
    assert found == {topic: one_by_one(steps, topic) for topic in TOPICS}


@pytest.mark.parametrize(("first", "explained"), [({}, 30 * 10), ({("g", "a", 0): 35}, 5 * 10)])
def test_a_first_commit_counts_from_the_log_start_of_the_sample_before(
    first: Commits, explained: int
) -> None:
    logs: Logs = {("a", 0): (10, 10.0)}
    samples = [sample(0, first, logs), sample(1, {("g", "a", 0): 40}, {("a", 0): (20, 12.0)})]
    assert measures(samples, ["a"])[0].reading.explained_bytes == explained
