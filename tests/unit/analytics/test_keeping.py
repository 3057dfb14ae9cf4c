"""What a curve says to keep is kept: bytes that earlier purges left on the disk count for none."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics import history, segments
from analytics.curves import _instead
from dashboard.curve_tables import ReplicaCurves
from tests.unit.analytics.logs import Log, nothing, points


class Kept(Log):
    """A log whose segments leave at the next retention check, as a broker's do."""

    def check(self) -> None:
        self.truncate(self.start)

    def above(self, offset: int) -> int:
        return sum(self.sizes[offset:])


def looked(curves: ReplicaCurves, log: Kept, late: int, *, inventory: bool) -> ReplicaCurves:
    """One snapshot more, whose size is read before the last `late` records were written."""
    read = points(log)
    read.size[0] -= min(sum(log.sizes[log.end - late :]), log.size) if late else 0
    grown, _ = history.extended(curves, read)
    if inventory and not late:
        rows = pa.Table.from_pylist(log.rows()).select(segments.COLUMNS)
        grown = _instead(grown, *segments.drawn(rows, read))
    return ReplicaCurves(read.places, grown)


step = st.tuples(
    st.integers(1, 12),  # records
    st.sampled_from([1, 40, 300, 900]),  # bytes of each
    st.integers(0, 5),  # written between the two reads
    st.sampled_from(["", "", "check", "purge", "purge all", "inventory"]),
)


@given(st.lists(step, min_size=2, max_size=30), st.integers(1, 4000))
def test_no_purge_keeps_fewer_bytes_than_it_was_to(
    steps: list[tuple[int, int, int, str]], keep: int
) -> None:
    """By curves of any snapshot, whatever was purged, rolled and deleted between them."""
    log, curves = Kept(), nothing()
    for count, size, late, what in steps:
        log.append([size] * count)
        curves = looked(curves, log, min(late, count), inventory=what == "inventory")
        offset = int(curves.curves.keeping(np.array([keep]))[0])
        assert offset == log.start or log.above(offset) >= keep
        if what == "check":
            log.check()
        elif what == "purge":
            log.start = max(log.start, offset)
        elif what == "purge all":
            log.start = log.end - 1


def _alike(_: random.Random, __: int) -> int:
    return 10


def _uneven(dice: random.Random, _: int) -> int:
    return max(1, int(10 * dice.lognormvariate(0, 0.6)))


def _by_the_hour(_: random.Random, minute: int) -> int:
    return 4 if minute // 60 % 2 else 20


@pytest.mark.parametrize("sizes", [_alike, _uneven, _by_the_hour])
@pytest.mark.parametrize(("keep", "segment"), [(20_000, 100_000), (100_000, 10_000)])
def test_a_policy_that_keeps_bytes_keeps_them_and_little_more(
    sizes: Callable[[random.Random, int], int], keep: int, segment: int
) -> None:
    """It purges by the minute; segments leave every five, the active one with its dead bytes."""
    dice, log, curves = random.Random(1), Kept(segment_bytes=segment), nothing()
    after = []
    for minute in range(400):
        size = sizes(dice, minute)
        log.append([size] * 100)
        if minute % 5 == 4:
            log.check()
        curves = looked(curves, log, 0, inventory=False)
        offset = int(curves.curves.keeping(np.array([keep]))[0])
        if offset > log.start:
            log.start = offset
            after.append(log.above(offset) / keep)
    assert len(after) > 20
    assert min(after) >= 1
    assert float(np.median(after)) < 1.5
