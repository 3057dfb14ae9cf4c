"""Sums over two panes say what all samples together say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.replicas import panes
from analytics.replicas.panes import SECOND, Kind, Panes, Samples

KIND = Kind(600 * SECOND, ("size",), ("came",))
EPOCH = 1_772_337_600  # a multiple of 600: sums must not grow with the calendar


def followed(*seen: tuple[float, int | None], anew: tuple[int, ...] = ()) -> Panes:
    """One row after samples of (seconds, value); a value of None: it was not seen."""
    found = panes.empty(KIND, 1)
    for number, (second, value) in enumerate(seen):
        at = int((EPOCH + second) * SECOND)
        samples = Samples(
            np.array([value is not None]),
            KIND.start(at),
            np.array([at]),
            {"size": np.array([value or 0])},
            {"came": np.array([number])},
        )
        found = panes.added(found, samples, np.array([number in anew]))
    return found


def whole(name: str, found: Panes) -> list[int]:
    return [int(found.before[name][0]), int(found.now[name][0])]


def test_the_first_sample_of_a_new_pane_makes_the_running_one_the_one_before() -> None:
    found = followed((0, 5), (60, 2), (599, 9), (600, 7), (700, None), (760, 8))
    assert whole("n", found) == [3, 2]
    assert whole("from", found) == [EPOCH * SECOND, (EPOCH + 600) * SECOND]
    assert [whole(f"size_{part}", found) for part in ("first", "last", "min", "max")] == [
        [5, 7], [9, 8], [2, 7], [9, 8],
    ]  # fmt: skip
    assert found.now["x"][0] == 160 and found.now["xx"][0] == 160**2
    assert (found.now["size_y"][0], found.now["size_xy"][0]) == (1, 160)


def test_flows_count_from_the_last_sample_before_the_pane() -> None:
    found = followed((0, 5), (60, 2), (599, 9), (600, 7), (700, 8))
    assert whole("came", found) == [1 + 2, 3 + 4], "the first sample of all has nothing before it"
    since = [EPOCH * SECOND, (EPOCH + 599) * SECOND]
    assert whole("since", found) == since


def test_a_row_that_is_not_seen_keeps_its_panes_and_an_old_pane_is_no_part_of_the_window() -> None:
    silent = followed((0, 5), (60, 7), (5000, None))
    assert whole("size_last", silent) == [0, 7]
    back = followed((0, 5), (60, 7), (5000, None), (6000, 9), (6010, 9))
    assert whole("n", back) == [2, 2]
    seen = panes.window(back, KIND)
    assert (seen.whole[0], seen.n[0], seen.seconds[0], seen.slope["size"][0]) == (False, 2, 10, 0)


def test_what_begins_anew_forgets_both_panes() -> None:
    seen = ((0, 5), (610, 7), (670, 3))
    assert whole("n", followed(*seen, anew=(2,))) == [0, 1]
    assert whole("came", followed(*seen, anew=(2,))) == [0, 0]
    assert whole("n", followed(*seen, (680, None), anew=(3,))) == [0, 0]


def test_samples_at_one_time_have_no_slope() -> None:
    seen = panes.window(followed((10, 5), (10, 500)), KIND)
    assert (seen.n[0], seen.seconds[0], seen.slope["size"][0]) == (2, 0, 0)


points = st.lists(
    st.tuples(st.integers(0, 1199), st.integers(0, 10**15)),
    min_size=2,
    max_size=60,
    unique_by=lambda p: p[0],
)


@given(points)
def test_a_window_has_the_slope_of_all_its_samples(seen: list[tuple[int, int]]) -> None:
    seen = sorted(seen)
    found = panes.window(followed(*seen), KIND)
    x, y = (np.array(part, dtype=np.float64) for part in zip(*seen, strict=True))
    assert found.n[0] == len(seen)
    assert found.seconds[0] == x[-1] - x[0]
    expected = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    assert found.slope["size"][0] == pytest.approx(expected, rel=1e-6, abs=1e3)
