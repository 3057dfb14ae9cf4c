"""The curve that snapshots draw: growth, deletions, compaction, what begins a new one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.replicas.history import KNOTS, extended
from analytics.replicas.points import Rolls
from dashboard.estimate.curve_tables import ReplicaCurves
from dashboard.estimate.curves import HISTORY, PROPORTIONAL, UNKNOWN, Curves
from tests.unit.analytics.logs import Log, freed, nothing, places, points, seen


def snapshots(*told: tuple[int, int, int], ids: tuple[str | None, ...] = ()) -> Curves:
    """One replica's curve after snapshots of (log start, log end, size)."""
    found = nothing()
    for number, (start, end, size) in enumerate(told):
        whose = places("t", topic_id=ids[number] if ids else "id")
        at = seen([start], [end], [size], whose)
        found = ReplicaCurves(whose, extended(found, at)[0])
    return found.curves


def knots(curves: Curves) -> list[tuple[int, int]]:
    return list(zip(curves.offset.tolist(), curves.below.tolist(), strict=True))


def test_growth_is_a_knot_and_one_snapshot_alone_is_proportional() -> None:
    assert snapshots((5, 10, 100)).method.tolist() == [PROPORTIONAL] * 2
    grown = snapshots((0, 10, 100), (0, 20, 1000), (0, 20, 1000), (0, 30, 1100))
    assert knots(grown) == [(0, 0), (10, 100), (20, 1000), (30, 1100)]
    assert grown.method.tolist() == [PROPORTIONAL, PROPORTIONAL, HISTORY, HISTORY]
    assert freed(grown, 0, 10).method.tolist() == [HISTORY]
    assert freed(grown, 0, 9).method.tolist() == [PROPORTIONAL]


def test_what_retention_took_is_taken_out_and_growth_goes_on() -> None:
    # 100 bytes an offset; retention takes 10 offsets while 10 more come.
    moved = snapshots((0, 10, 1000), (0, 20, 2000), (10, 30, 2000))
    assert knots(moved) == [(10, 0), (20, 1000), (30, 2000)]
    # 5 offsets were deleted by a purge, and their segment is still there.
    stays = snapshots((0, 10, 1000), (0, 20, 2000), (5, 30, 3000))
    assert knots(stays) == [(5, 500), (10, 1000), (20, 2000), (30, 3000)]


def test_a_log_that_shrank_by_itself_is_scaled_and_never_negative() -> None:
    assert knots(snapshots((0, 10, 1000), (0, 20, 2000), (0, 20, 500))) == [
        (0, 0), (10, 250), (20, 500),
    ]  # fmt: skip
    assert knots(snapshots((0, 10, 1000), (0, 20, 2000), (0, 30, 0)))[-1] == (30, 0)


@pytest.mark.parametrize(
    "new", [(0, 15, 100), (3, 40, 100), (20, 40, 100)], ids=["end back", "start back", "all gone"]
)
def test_a_log_that_went_back_or_left_whole_begins_anew(new: tuple[int, int, int]) -> None:
    curve = snapshots((4, 10, 1000), (4, 20, 2000), new)
    assert knots(curve) == [(new[0], 0), (new[1], new[2])]


def test_a_recreated_topic_begins_anew_and_an_unknown_id_goes_by_name() -> None:
    told = (0, 10, 100), (0, 20, 200)
    assert len(snapshots(*told, ids=("a", "b")).offset) == 2
    assert len(snapshots(*told, ids=("a", None)).offset) == 3


def test_a_replica_that_was_away_goes_on_from_another_of_its_partition() -> None:
    both = pa.concat_tables([places("t"), places("t")]).set_column(
        2, "broker_id", pa.array([1, 2], pa.int32())
    )
    found = nothing()
    for ends in ((10, 10), (20, None), (30, 15), (40, 40)):
        here = [i for i, end in enumerate(ends) if end is not None]
        end = np.array([ends[i] for i in here], dtype=np.int64)
        size = np.where(end < 30, end * 10, 300 + (end - 30) * 200)
        at = seen(end * 0, end, size, both.take(here))
        found = ReplicaCurves(at.places, extended(found, at)[0])
        if ends == (30, 15):
            assert found.curves.method.tolist()[-2:] == [PROPORTIONAL] * 2, "it has to catch up"
    first, second = np.split(np.arange(len(found.curves.offset)), found.curves.first[1:])
    assert found.curves.offset[first].tolist() == [0, 10, 20, 30, 40]
    for values in (found.curves.offset, found.curves.below, found.curves.method):
        assert values[first].tolist() == values[second].tolist()


def test_records_that_grow_are_followed_within_fifteen_per_cent() -> None:
    log, found = Log(segment_bytes=20_000), nothing()
    for step in range(60):
        log.append([100 + 25 * step] * 20)
        if step > 40 and step % 5 == 0:
            log.truncate(log.bases[2])
        found = ReplicaCurves(places("t"), extended(found, points(log))[0])
    for target in range(log.start + 100, log.end, 37):
        told = freed(found.curves, log.start, target)
        truth = log.below(target)
        assert told.likely[0] == pytest.approx(truth, rel=0.15)
        assert told.low[0] * 0.9 <= truth <= told.high[0] * 1.1


def test_deletions_at_every_snapshot_do_not_add_up_though_records_grow() -> None:
    # Retention keeps twenty segments, and each snapshot sees some three more come and go.
    log, found = Log(segment_bytes=2000), nothing()
    by = Rolls(np.array([2000]), np.array([UNKNOWN]), None)
    for step in range(40):
        size = round(20 * 1.05**step)
        log.append([size] * (6000 // size))
        if len(log.bases) > 20:
            log.truncate(log.bases[-20])
        found = ReplicaCurves(places("t"), extended(found, points(log), by)[0])
    for target in range(log.start, log.end, 3):
        likely = freed(found.curves, log.start, target).likely[0]
        assert abs(likely - log.below(target)) < 0.05 * log.size


def test_a_purge_at_every_snapshot_inside_large_segments_adds_nothing_up() -> None:
    log, found, ends = Log(segment_bytes=400_000), nothing(), [0]
    by = Rolls(np.array([400_000]), np.array([UNKNOWN]), None)
    for step in range(120):  # records shrink, and Streams keeps thirty snapshots of them
        size = round(1000 * 0.98**step)
        log.append([size] * (20_000 // size))
        ends.append(log.end)
        log.truncate(ends[max(0, step - 30)])
        found = ReplicaCurves(places("t"), extended(found, points(log), by)[0])
    for target in range(log.start + 1, log.end, 31):
        likely = freed(found.curves, log.start, target).likely[0]
        assert abs(likely - log.below(target)) < 0.02 * log.size


def test_many_snapshots_keep_few_knots_where_they_tell_most() -> None:
    told = [(0, 10 * n, 100 * n if n < 50 else 5000 + 1500 * (n - 50)) for n in range(1, 101)]
    curve = snapshots(*told)
    assert len(curve.offset) == KNOTS
    at = np.array([500])
    assert curve.freed(np.array([0]), at).likely[0] == pytest.approx(5000, rel=0.1)


steps = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 5000)), min_size=1, max_size=40
)


@given(steps)
def test_a_curve_rises_from_the_log_start_to_the_log_end(
    moves: list[tuple[int, int, int]],
) -> None:
    """Whatever sizes are told, also impossible ones."""
    start, end, told = 0, 1, []
    for forward, more, size in moves:
        end += more
        start = min(start + forward, end - 1)
        told.append((start, end, size))
    curve = snapshots(*told)
    assert (curve.offset[0], curve.offset[-1]) == (start, end)
    assert curve.below[-1] == told[-1][2]
    assert (np.diff(curve.offset) > 0).all()
    assert (np.diff(curve.below) >= 0).all() and curve.below[0] >= 0
    assert len(curve.offset) <= KNOTS
