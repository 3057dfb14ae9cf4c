"""Errors and coverage of the estimators, from what final receipts kept."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dashboard.domain.model import METHODS
from dashboard.purge.receipt import gap
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.outcomes import kept, receipt, run

SIZES = st.integers(0, 1 << 50)
LINES = st.lists(
    st.tuples(st.sampled_from(METHODS), st.tuples(SIZES, SIZES, SIZES), SIZES),
    max_size=20,
)


def test_median_and_worst_error_are_of_topics_and_the_worst_has_its_direction() -> None:
    first = receipt(kept(100, 104, topic="a"), kept(100, 80, topic="b"))
    runs = [run("2", receipt(kept(200, 220), hours=1)), run("1", first)]
    (line,) = gap.by_method(gap.outcomes(runs))
    assert (line.purges, line.topics) == (2, 3)
    assert (line.median_error, line.worst_error) == (0.1, -0.2)


def test_estimators_stand_from_the_surest_to_the_least_sure() -> None:
    methods = ("proportional", "segments", "sampled", "history")
    found = gap.outcomes([run("1", receipt(*(kept(1, 1, method=m) for m in methods)))])
    assert [line.method for line in gap.by_method(found)] == list(METHODS)


def test_only_final_receipts_count_and_older_ones_are_left_out() -> None:
    old = replace(receipt(), calibration=None)
    nothing_sent = replace(receipt(kept(1, 1)), measured_at=None)
    runs = [
        run("open", receipt(kept(100, 50), final=False)),
        run("old", old),
        run("none", None),
        run("sent nothing", nothing_sent),
    ]
    assert gap.outcomes(runs) == []
    assert gap.to_json(runs) == {"methods": [], "points": [], "waits": []}


def test_a_prediction_of_nothing_errs_in_bytes_not_in_percent() -> None:
    found = gap.outcomes(
        [run("1", receipt(kept(0, 0, topic="a"), kept(0, 70, 0, 60, topic="b"), kept(10, 9)))]
    )
    (line,) = gap.by_method(found)
    assert (line.zero_topics, line.zero_worst_bytes) == (2, 70)
    assert (line.median_error, line.worst_error) == (0.1, -0.1)
    assert (line.inside, line.topics) == (1, 3)
    (alone,) = gap.by_method(o for o in found if not o.of.predicted_bytes)
    assert (alone.median_error, alone.worst_error) == (None, None)


def test_points_are_purges_in_order_of_time_with_topics_summed() -> None:
    later = receipt(kept(30, 0, method="sampled"), hours=2)
    both = receipt(kept(10, 8, topic="a"), kept(20, 16, topic="b"), hours=1)
    found = gap.points(gap.outcomes([run("2", later), run("1", both)]))
    assert [(p.method, p.predicted_bytes, p.freed_bytes, p.ratio) for p in found] == [
        ("history", 30, 24, 1.25),
        ("sampled", 30, 0, None),
    ]
    assert found[0].finished_at == NOW + timedelta(hours=1)


def test_freed_bytes_are_inside_as_far_as_they_could_be_measured() -> None:
    def inside(freed: int) -> bool:
        line = replace(kept(100, freed, 100, 100, method="segments"), unsure_bytes=9)
        (found,) = gap.outcomes([run("1", receipt(line))])
        return found.of.inside

    assert [inside(freed) for freed in (90, 91, 109, 110)] == [False, True, True, False]


@given(st.lists(LINES, max_size=5))
def test_coverage_counts_each_topic_of_each_purge_once(purges: list) -> None:  # type: ignore[type-arg]
    runs, expected = [], dict.fromkeys(METHODS, (0, 0))
    for number, lines in enumerate(purges):
        told = []
        for place, (method, sizes, freed) in enumerate(lines):
            low, likely, high = sorted(sizes)
            told.append(kept(likely, freed, low, high, method=method, topic=f"t{place}"))
            inside, topics = expected[method]
            is_in = not (freed < low or freed > high)
            expected[method] = (inside + is_in, topics + 1)
        runs.append(run(str(number), receipt(*told, hours=number)))
    found = {c.method: c for c in gap.by_method(gap.outcomes(runs))}
    assert set(found) == {method for method, (_, topics) in expected.items() if topics}
    for method, line in found.items():
        assert (line.inside, line.topics) == expected[method]
        assert 0 <= line.coverage <= 1
    json.dumps(gap.to_json(runs), allow_nan=False)
