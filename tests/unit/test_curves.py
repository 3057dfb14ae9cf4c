"""Reading curves: intervals, whole segments, and what must hold of every curve and target."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.estimate.curve_tables import PLACE, ReplicaCurves, from_table, read, to_table
from dashboard.estimate.curves import (
    HISTORY,
    PROPORTIONAL,
    SAMPLED,
    SEGMENTS,
    Curves,
    Freed,
    curves_of,
)
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, build, conform

FIELDS = ("low", "likely", "high", "once_low", "once", "once_high")


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def row(found: Freed) -> dict[str, int]:
    return {name: int(getattr(found, name)[0]) for name in FIELDS}


def segments(bases: list[int], sizes: list[int], end: int, segment_bytes: int = 1000) -> Curves:
    """What an inventory draws: knots at the segments' bases, then the log end."""
    below = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    knots = [*zip(bases, below[:-1], strict=True), (end, below[-1])]
    plain = curves_of([knots], [segment_bytes], SEGMENTS)
    return replace(plain, base=np.array([True] * len(bases) + [False]))


@pytest.mark.parametrize(
    ("target", "once"),
    [(5, 0), (9, 0), (10, 900), (29, 900), (30, 1700), (99, 1700), (100, 1700)],
)
def test_a_segment_goes_when_its_successor_begins_at_or_below_the_target(
    target: int, once: int
) -> None:
    found = row(segments([0, 10, 30], [900, 800, 500], 100).freed(ints(0), ints(target)))
    assert (found["once_low"], found["once"], found["once_high"]) == (once, once, once)
    assert found["once"] <= found["low"] <= found["likely"] <= found["high"]


def test_an_empty_active_segment_lets_all_others_go() -> None:
    rolled = segments([0, 10], [900, 0], 10)
    rolled = Curves(ints(0), ints(0, 10), ints(0, 900), np.array([True, True]),
                    rolled.method[:2], rolled.segment_bytes)  # fmt: skip
    assert row(rolled.freed(ints(0), ints(10)))["once"] == 900


def test_segments_that_a_first_purge_took_are_not_promised_again() -> None:
    curve = segments([0, 10, 30], [900, 800, 500], 100)
    again = row(curve.freed(ints(12), ints(30)))
    assert (again["once"], again["likely"]) == (800, 800)
    assert set(row(curve.freed(ints(30), ints(30))).values()) == {0}


def test_a_log_start_in_segments_that_rolled_since_makes_the_interval_wider() -> None:
    # The inventory knew one segment of 537 bytes; 1,213 more came, and the log starts at 4.
    told = row(segments([0], [1750], 7).freed(ints(4), ints(6)))
    assert told["low"] <= 850 <= told["high"]


def test_what_lies_in_the_log_starts_segment_leaves_with_it() -> None:
    # The log start is 50; 300 bytes of its segment lie below. Segments hold 1,000.
    curve = curves_of([[(50, 300), (150, 4300)]], [1000], HISTORY)
    found = row(curve.freed(ints(50), ints(70)))
    assert (found["once"], found["likely"]) == (1000, 1100)


def test_between_knots_bytes_bend_as_the_intervals_beside_them_do() -> None:
    # Records grew by one byte each: below offset n lie n x n / 2 bytes.
    knots = [(n, n * n // 2) for n in (0, 1000, 2000, 3000)]
    found = row(curves_of([knots], [10**9], HISTORY).freed(ints(0), ints(1500)))
    assert found["likely"] == pytest.approx(1500 * 1500 / 2, rel=0.02)
    straight = (knots[1][1] + knots[2][1]) / 2
    assert straight > 1.1 * found["likely"]


def test_a_short_interval_hardly_bends_a_long_one() -> None:
    # 800 bytes an offset; of the last one a record was huge.
    knots = [(0, 0), (10_000, 8_000_000), (10_001, 9_000_000)]
    found = row(curves_of([knots], [10**9], HISTORY).freed(ints(0), ints(7000)))
    assert found["likely"] == pytest.approx(5_600_000, rel=0.001)


def test_what_is_written_in_segment_ms_is_a_segment_where_that_is_less() -> None:
    plain = curves_of([[(0, 0), (100, 5000)]], [10_000], HISTORY)
    assert row(plain.freed(ints(0), ints(80)))["once"] == 0
    timed = replace(plain, rolled_bytes=ints(500))
    found = row(timed.freed(ints(0), ints(80)))
    assert (found["once_low"], found["once"]) == (
        0,
        3750,
    )  # eight of 500, but where they begin has drifted
    assert row(timed.freed(ints(0), ints(9)))["once"] == 0, "it fits one segment"


def test_segments_are_counted_near_a_known_begin_and_drift_far_from_it() -> None:
    curve = curves_of([[(0, 0), (1000, 100_000)]], [1000], HISTORY)
    once = [row(curve.freed(ints(0), ints(o)))["once"] for o in (9, 15, 25, 505, 509)]
    assert once == [0, 1000, 2000, 50_000, 50_400]


def test_a_log_of_one_segment_gives_nothing_at_once_but_may_have_rolled_by_time() -> None:
    found = row(curves_of([[(0, 0), (100, 500)]], [1000], PROPORTIONAL).freed(ints(0), ints(50)))
    assert (found["once_low"], found["once"], found["once_high"]) == (0, 0, found["high"])


def test_proportional_covers_a_topic_whose_records_grew_fifteenfold() -> None:
    # 30,000 records of 100 bytes, then 10,000 of 1,500.
    size = 3_000_000 + 15_000_000
    curve = curves_of([[(0, 0), (40_000, size)]], [1 << 20], PROPORTIONAL)
    found = row(curve.freed(ints(0), ints(30_000)))
    assert found["low"] <= 3_000_000 <= found["high"]
    assert found["likely"] > 4 * 3_000_000


@st.composite
def curves(draw: st.DrawFn) -> Curves:
    """Some replicas of any shape: rising offsets, bytes that never fall, bases anywhere."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        steps = draw(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5000)),
                              min_size=1, max_size=8))  # fmt: skip
        knots = [(draw(st.integers(0, 2**53)), draw(st.integers(0, 3000)))]
        for offsets, size in steps:
            knots.append((knots[-1][0] + offsets, knots[-1][1] + size))
        parts.append(knots)
    segment = draw(st.integers(1, 4000))
    plain = curves_of(parts, [segment] * len(parts), draw(st.sampled_from([SEGMENTS, SAMPLED])))
    flags = draw(st.lists(st.booleans(), min_size=len(plain.base), max_size=len(plain.base)))
    base = np.array(flags)
    if (plain.method == SEGMENTS).any():  # an inventory's curve begins at a base, with nothing
        base[plain.first] = True
        below = plain.below - np.repeat(plain.below[plain.first], plain.last - plain.first + 1)
        plain = replace(plain, below=below)
    return replace(plain, base=base)


@given(curves(), st.integers(-5, 500), st.integers(-5, 500), st.integers(0, 500))
def test_bytes_are_ordered_bounded_and_never_fewer_for_a_later_target(
    curve: Curves, one: int, other: int, start: int
) -> None:
    begin = curve.offset[curve.first]
    size = curve.below[curve.last]
    low, high = (curve.freed(begin + start, begin + at) for at in sorted((one, other)))
    for name in FIELDS:
        assert (getattr(low, name) <= getattr(high, name)).all()
    for found in (low, high):
        assert (found.low <= found.likely).all() and (found.likely <= found.high).all()
        assert (found.once_low <= found.once).all() and (found.once <= found.once_high).all()
        assert (found.once <= found.likely).all() and (found.once_low <= found.low).all()
        assert (found.once_high <= found.high).all() and (found.likely <= size).all()
        assert (found.once_low >= 0).all() and (found.low >= 0).all()
    measured = begin + max(one, other) <= curve.offset[curve.last]
    assert (high.high <= size)[measured].all() and curve.bounded(begin + one)[measured].all()


GIB = 1 << 30


def test_what_was_written_past_the_curve_is_unknown_never_nothing() -> None:
    # A GiB in 1,000 offsets, then 50 GiB more that no analysis saw; segments of 50 MiB.
    curve = curves_of([[(0, 0), (1000, GIB)]], [50 << 20], HISTORY)
    behind = row(curve.freed(ints(1000), ints(51_000)))
    assert behind["once"] < 100 << 20, "the point estimate is what was measured"
    assert 50 * GIB <= behind["once_high"] <= 51 * GIB
    across = row(curve.freed(ints(500), ints(51_000)))
    assert across["once_high"] >= 50 * GIB > across["once"]
    assert row(curve.freed(ints(0), ints(1000)))["high"] == GIB, "nothing is added below its end"


def test_a_log_start_past_the_curve_leaves_one_segment_and_what_was_written_since() -> None:
    # 10 bytes an offset; the purge before this one went to 5,000.
    curve = curves_of([[(0, 0), (100, 1000)]], [300], HISTORY)
    found = row(curve.freed(ints(5000), ints(5100)))
    assert (found["low"], found["once_low"]) == (0, 0)
    assert found["high"] == found["once_high"] == 300 + 100 * 10


def test_the_steepest_interval_bounds_what_was_written_since() -> None:
    curve = curves_of([[(0, 0), (100, 1000), (200, 51_000), (300, 52_000)]], [1000], HISTORY)
    assert row(curve.freed(ints(0), ints(310)))["high"] == 52_000 + 10 * 500


def test_an_inventory_is_exact_below_its_last_knot_alone() -> None:
    curve = segments([0, 10, 30], [900, 800, 500], 100)
    assert row(curve.freed(ints(0), ints(100)))["once_high"] == 1700
    past = row(curve.freed(ints(0), ints(101)))
    assert (past["once_low"], past["once"], past["once_high"]) == (1700, 1700, 2200 + 90)


@pytest.mark.parametrize("knots", [[(7, 500)], [(7, 500), (7, 500)], [(0, 0), (7, 0)]])
def test_without_bytes_per_offset_there_is_no_bound_past_the_curve(
    knots: list[tuple[int, int]],
) -> None:
    curve = curves_of([knots, [(0, 0), (7, 70)]], [1000, 1000], HISTORY)
    assert curve.bounded(ints(7, 7)).tolist() == [True, True]
    assert curve.bounded(ints(8, 8)).tolist() == [False, True]
    assert curve.bounded(ints(8, 2**62)).tolist() == [False, False], "nor one that far away"


@given(curves(), st.integers(0, 500), st.integers(1, 300), st.integers(1, 300))
def test_the_most_holds_of_a_log_that_went_on_as_its_curve_did(
    curve: Curves, start: int, first: int, more: int
) -> None:
    """As many bytes per offset as its steepest interval: the next analysis' curve says so."""
    end, size = curve.offset[curve.last], curve.below[curve.last]
    for one in range(len(curve.first)):
        alone = curve.of(ints(one))
        offsets, below = (v[curve.first[one] : curve.last[one] + 1]
                          for v in (curve.offset, curve.below))  # fmt: skip
        steepest = (np.diff(below) / np.diff(offsets)).max()
        here, target = ints(offsets[0] + start), ints(end[one] + first)
        written = int((target - np.maximum(here, end[one]))[0] * steepest)
        found = alone.freed(here, target)
        if here < target:
            assert found.high[0] >= written
        if start == 0 and steepest > 0:
            assert found.high[0] >= size[one] + written
        further = alone.freed(here, target + more)
        assert further.once_high[0] >= found.once_high[0]


@given(curves(), st.integers(0, 500), st.integers(0, 500), st.data())
def test_some_replicas_are_read_as_among_all(
    curve: Curves, start: int, target: int, data: st.DataObject
) -> None:
    every = list(range(len(curve.first)))
    chosen = np.array(data.draw(st.lists(st.sampled_from(every), unique=True)), dtype=np.int64)
    begin = curve.offset[curve.first]
    whole = curve.freed(begin + start, begin + target)
    some = curve.of(chosen).freed((begin + start)[chosen], (begin + target)[chosen])
    for name in (*FIELDS, "method"):
        assert (getattr(some, name) == getattr(whole, name)[chosen]).all()
    bounded = curve.bounded(begin + target)[chosen]
    assert (curve.of(chosen).bounded((begin + target)[chosen]) == bounded).all()


@given(curves())
def test_a_curve_survives_its_table(curve: Curves) -> None:
    count = len(curve.first)
    whose = {"topic": ["t"] * count, "partition": list(range(count)), "broker_id": [1] * count,
             "log_dir": ["/d"] * count, "topic_id": [None] * count}  # fmt: skip
    spec = FINDING_TABLES["curves"]
    places = build(spec, whose).select(list(whose))
    again = from_table(conform(spec, to_table(ReplicaCurves(places, curve))))
    assert again.places.equals(places)
    for name in ("first", "offset", "below", "base", "method", "segment_bytes", "rolled", "surely"):
        assert (getattr(again.curves, name) == getattr(curve, name)).all(), name


@pytest.mark.further
@given(curves(), st.sampled_from([1, 2, 8]))
def test_curves_read_part_by_part_are_those_of_the_whole_table(curve: Curves, buckets: int) -> None:
    count = len(curve.first)
    whose = {"topic": ["t"] * count, "partition": list(range(count)), "broker_id": [1] * count,
             "log_dir": ["/d"] * count, "topic_id": [None] * count}  # fmt: skip
    spec = FINDING_TABLES["curves"]
    table = conform(spec, to_table(ReplicaCurves(build(spec, whose).select(list(whose)), curve)))
    with TemporaryDirectory() as folder:
        cluster = ClusterStore(Store(folder), "c")
        writer = cluster.begin("findings", datetime(2026, 3, 1, tzinfo=UTC), buckets)
        writer.split("curves", table)
        writer.commit(1.0, {})
        found = read(cluster, writer.id)
        some = read(cluster, writer.id, pc.field("partition") == 1)
        gone = read(cluster, writer.id, pc.field("partition") < 0, [*PLACE, "topic_id", "offset"])
    order = np.argsort(found.places["partition"].to_numpy())
    again = to_table(ReplicaCurves(found.places, found.curves)).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    assert again.equals(to_table(from_table(table)))
    assert (found.curves.segment_bytes[order] == curve.segment_bytes).all()
    assert some.places["partition"].to_pylist() == ([1] if count > 1 else [])
    assert gone.places.num_rows == len(gone.curves.offset) == 0


def test_an_older_table_is_proportional_in_default_segments() -> None:
    spec = FINDING_TABLES["curves"]
    older = {"topic": ["t"] * 2, "partition": [0] * 2, "broker_id": [1] * 2, "log_dir": ["/d"] * 2,
             "offset": [0, 10], "bytes_below": [0, 100]}  # fmt: skip
    found = from_table(build(spec, older)).curves
    assert found.method.tolist() == [PROPORTIONAL] * 2
    assert found.segment_bytes.tolist() == [1 << 30]
    empty = from_table(spec.schema.empty_table()).curves
    assert len(empty.freed(ints(), ints()).likely) == 0


def kept(curve: Curves, *size_bytes: int) -> list[tuple[int, bool]]:
    offsets, sure = curve.keeping(ints(*size_bytes))
    return list(zip(offsets.tolist(), sure.tolist(), strict=True))


@pytest.mark.parametrize(
    ("keep", "offset"),
    [(0, 100), (1, 30), (499, 30), (500, 30), (501, 10), (1300, 10), (1301, 0), (2201, None)],
)
def test_the_last_bytes_are_kept_from_the_highest_knot_that_surely_has_them(
    keep: int, offset: int | None
) -> None:
    curve = replace(segments([0, 10, 30], [900, 800, 500], 100), above=ints(2200, 1300, 500, 0))
    ((found, sure),) = kept(curve, keep)
    assert (found if sure else None) == offset


def test_of_a_curve_that_tells_nothing_surely_all_is_kept() -> None:
    curve = curves_of([[(7, 0), (90, 1000)], [(0, 0), (5, 10), (9, 40)]], [1000, 1000], HISTORY)
    assert kept(curve, 1, 1) == [(7, False), (0, False)]
    assert kept(curves_of([], [], HISTORY)) == []
