"""The interval of a slope holds the truth as often as it says, however samples are alike."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.replicas import growth, panes
from analytics.replicas.panes import SECOND, Floats, Kind, Panes, Samples, Window

KIND = Kind(3600 * SECOND, ("size",), unsure=("size",))
EPOCH = 1_772_337_600  # a multiple of 3600
DISKS = 400
SLOPE = 5e5  # bytes per second


def filled(values: Floats, seconds: Floats) -> Panes:
    """One row per disk, a column of `values` (bytes) per sample."""
    found = panes.empty(KIND, len(values))
    everywhere, never = np.ones(len(values), dtype=bool), np.zeros(len(values), dtype=bool)
    for second, now in zip(seconds, values.T, strict=True):
        at = int((EPOCH + second) * SECOND)
        when, sizes = np.full(len(values), at), {"size": np.rint(now).astype(np.int64)}
        samples = Samples(everywhere, KIND.start(at), when, sizes, kind=KIND)
        found = panes.added(found, samples, never)
    return found


def noise(kind: str, n: int, seconds: Floats) -> Floats:
    rng = np.random.default_rng(7)
    steps = rng.normal(size=(DISKS, n)) * 1e8
    if kind == "alone":
        return steps
    if kind == "walk":
        return np.asarray(np.cumsum(steps * np.sqrt(np.diff(seconds, prepend=0) / 60), axis=1))
    found = np.empty_like(steps)
    found[:, 0] = steps[:, 0]
    for at in range(1, n):  # alike: what is off fades
        found[:, at] = 0.8 * found[:, at - 1] + 0.6 * steps[:, at]
    return found


def told(kind: str, n: int) -> tuple[Window, Floats]:
    seconds = np.arange(n) * (7000.0 / n) + 100  # over both panes
    size = 10**12 + SLOPE * seconds + noise(kind, n, seconds)
    window = panes.window(filled(size, seconds), KIND)
    return window, growth.half_width(window.spread["size"], window.n, window.seconds)


@pytest.mark.parametrize(
    ("kind", "n", "least", "most"),
    [
        ("alone", 120, 0.87, 0.96),
        ("alike", 120, 0.85, 0.98),
        ("walk", 120, 0.83, 0.96),
        ("walk", 12, 0.86, 0.96),  # too few to tell: as a walk
        ("alone", 12, 0.98, 1.0),
        ("alike", 12, 0.93, 1.0),
    ],
)
def test_nine_of_ten_intervals_hold_the_true_slope(
    kind: str, n: int, least: float, most: float
) -> None:
    window, off = told(kind, n)
    inside = np.abs(window.slope["size"] - SLOPE) <= off
    assert least <= inside.mean() <= most


def test_samples_off_by_themselves_have_the_error_of_least_squares() -> None:
    window, off = told("alone", 120)
    alone = 1.658 * 1e8 / np.sqrt(window.spread["size"].sxx)  # t of 118 degrees of freedom
    assert np.median(off / alone) == pytest.approx(1.0, abs=0.15)


def test_a_straight_line_has_no_error_and_two_samples_tell_none() -> None:
    seconds = np.array([0.0, 60.0, 130.0, 4000.0])
    line = filled(np.array([seconds * 7 * 2**20]), seconds)
    window = panes.window(line, KIND)
    off = growth.half_width(window.spread["size"], window.n, window.seconds)
    assert off[0] == pytest.approx(0.0, abs=1.0) and window.slope["size"][0] == 7 * 2**20
    two = panes.window(filled(np.array([[5.0, 9.0]]), seconds[:2]), KIND)
    assert np.isnan(growth.half_width(two.spread["size"], two.n, two.seconds)[0])


def test_sums_that_were_not_carried_are_not_known() -> None:
    seconds = np.array([0.0, 60.0, 120.0, 4000.0])
    found = filled(np.array([[1.0, 2.0, 4.0, 9.0]]), seconds)
    found.before["size_yy"][:] = np.nan
    window = panes.window(found, KIND)
    assert np.isnan(growth.half_width(window.spread["size"], window.n, window.seconds)[0])
    assert window.slope["size"][0] > 0


def test_a_step_over_more_than_a_pane_belongs_to_no_window() -> None:
    found = filled(np.array([[0.0, 9e9, 9e9, 9e9]]), np.array([0.0, 9000.0, 9060.0, 9120.0]))
    spread = panes.window(found, KIND).spread["size"]
    assert (spread.dx[0], spread.dydy[0]) == (120, 0)
    near = filled(np.array([[0.0, 9.0, 9.0, 9.0]]), np.array([3000.0, 4000.0, 4060.0, 4120.0]))
    assert panes.window(near, KIND).spread["size"].dydy[0] == 81
