"""How much is written in `segment.ms`: a mean over what the log holds, carried on."""

from __future__ import annotations

import numpy as np

from analytics.replicas import points
from analytics.replicas.points import Rolls
from dashboard.estimate.curves import UNKNOWN, Ints


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def by(segment_ms: int, took_ms: int | None) -> Rolls:
    return Rolls(ints(1 << 30), ints(segment_ms), took_ms)


def test_the_mean_follows_the_bytes_that_each_rate_wrote() -> None:
    first = points.rolled(ints(UNKNOWN), ints(600), ints(600), by(10_000, 60_000))
    assert first.tolist() == [100]
    twice = points.rolled(first, ints(600), ints(1200), by(10_000, 20_000))
    assert twice.tolist() == [200], "half of the log came at 300 in segment.ms"


def test_it_stays_where_nothing_came_or_no_time_is_known() -> None:
    for growth, found in ((0, by(10_000, 60_000)), (600, by(10_000, None))):
        assert points.rolled(ints(70), ints(growth), ints(600), found).tolist() == [70]
    assert points.rolled(ints(UNKNOWN), ints(5), ints(9), by(UNKNOWN, 1000)).tolist() == [UNKNOWN]


def test_it_is_at_least_a_byte_and_an_endless_segment_ms_does_no_harm() -> None:
    assert points.rolled(ints(UNKNOWN), ints(1), ints(9), by(1, 60_000)).tolist() == [1]
    (endless,) = points.rolled(ints(UNKNOWN), ints(10**12), ints(10**12), by(UNKNOWN - 1, 1))
    assert endless > 1 << 60


def test_time_between_snapshots_is_read_off_their_ids() -> None:
    assert points.took_ms("20260301T040400000Z-952a", "20260301T040500000Z-0001") == 60_000
    assert points.took_ms("20260301T040500000Z-0001", "20260301T040400000Z-952a") is None
    assert points.took_ms("", "20260301T040400000Z-952a") is None
