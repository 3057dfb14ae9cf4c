"""What a shorter retention, a purge or a policy does to disks, held against simulated logs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dashboard.estimate.curves import Freed
from dashboard.ui.growth import what_if
from dashboard.ui.growth.what_if import Disk, Effect, Expired, Parts, hours_to, outcomes

HOUR_OF_BYTES = 10**9
SEGMENT = 10**9


def parts(
    size: float, came: float, left: float, *, hours: float = 24.0, replicas: int = 1
) -> Parts:
    """One topic in one log dir."""
    one = np.array([0])
    return Parts(
        ["t"], one, one, one, np.array([size]), np.array([came]), np.array([left]),
        np.array([float(SEGMENT * replicas)]), np.array([replicas]), np.array([hours]),
    )  # fmt: skip


def disk(usable: int = 100 * 10**9, slope: float | None = 10**9, wide: float = 0.0) -> Disk:
    low, high = (None, None) if slope is None else (slope - wide, slope + wide)
    return Disk(1, "/d", 10**12, usable, low, slope, high)


def none(count: int = 1) -> Expired:
    return Expired(np.full(count, np.nan), np.full(count, np.nan))


def kept(found: Parts, hours: float, today: float = math.inf, old: Expired | None = None) -> Effect:
    return what_if.retention(found, np.array([True]), hours, np.array([today]), old or none())


class Log:
    """A log of one replica that got `rates` bytes in each hour, the newest last, in segments."""

    def __init__(self, rates: np.ndarray) -> None:
        self.rates = rates
        below = np.cumsum(rates)
        self.cuts = np.flatnonzero(np.diff(np.floor(below / SEGMENT), prepend=0) >= 1)

    def older_than(self, hours: int) -> float:
        """Bytes of whole closed segments whose newest record is older."""
        closed = [cut for cut in self.cuts if cut < len(self.rates) - hours]
        return float(self.rates[: closed[-1] + 1].sum()) if closed else 0.0

    def parts(self, window: int) -> Parts:
        return parts(self.rates.sum(), self.rates[-window:].mean(), 0.0, hours=window)


def uneven(rng: np.random.Generator, hours: int) -> np.ndarray:
    """By day up and down, by the week, and by chance: a week's log."""
    at = np.arange(hours)
    day = 1 + 0.6 * np.sin(2 * np.pi * at / 24 + rng.uniform(0, 6))
    week = 1 + 0.3 * np.sin(2 * np.pi * at / 168 + rng.uniform(0, 6))
    return np.asarray(HOUR_OF_BYTES * day * week * rng.lognormal(0, 0.2, hours))


@pytest.mark.parametrize("window", [13, 24])
def test_what_a_shorter_retention_frees_lies_in_its_interval(window: int) -> None:
    rng = np.random.default_rng(3)
    inside, off = [], []
    for _ in range(300):
        log = Log(uneven(rng, 168))
        truth = log.older_than(72)
        found = kept(log.parts(window), 72)
        inside.append(found.soonest.gone[0] <= truth <= found.latest.gone[0])
        off.append(abs(found.likely.gone[0] - truth) / truth)
    assert np.mean(inside) >= 0.9
    assert np.median(off) < 0.25


def test_an_even_log_gives_what_is_older_to_a_segment() -> None:
    log = Log(np.full(168, float(HOUR_OF_BYTES)))
    found = kept(log.parts(24), 72)
    assert abs(found.likely.gone[0] - log.older_than(72)) <= SEGMENT


def test_an_inventory_says_exactly_what_is_older() -> None:
    old = Expired(np.array([7e9]), np.array([8e9]))
    found = kept(parts(20e9, 1e9, 0.0), 10, old=old)
    assert [side.gone[0] for side in (found.soonest, found.likely, found.latest)] == [7e9, 7e9, 8e9]


def test_once_retention_is_reached_as_much_leaves_as_comes() -> None:
    found = kept(parts(168e9, 1e9, 0.2e9), 72)
    (one,) = outcomes([disk(slope=1e9)], parts(168e9, 1e9, 0.2e9), found)
    assert one.growth.likely == pytest.approx(0.2e9)  # what else grows on that disk
    assert one.gone.likely == pytest.approx(168e9 - 72e9 - SEGMENT / 2)
    assert one.days.likely == pytest.approx((100e9 + one.gone.likely) / 0.2e9 / 24)


def test_a_log_that_is_younger_than_its_retention_levels_off_later() -> None:
    """The log of 20 GB grows by 1 GB an hour and will hold 72 GB: then it stays."""
    young = parts(20e9, 1e9, 0.0)
    found = kept(young, 72)
    assert found.likely.gone[0] == 0 and found.likely.change[0] == 0
    assert found.likely.after[0] == pytest.approx(52.5)
    (one,) = outcomes([disk(slope=1e9)], young, found)
    assert one.days.likely == math.inf
    (tight,) = outcomes([disk(usable=30 * 10**9, slope=1e9)], young, found)
    assert tight.days.likely == pytest.approx(30 / 24)


def test_a_longer_retention_frees_nothing_and_grows_by_all_that_comes() -> None:
    steady = parts(72e9, 1e9, 1e9)
    found = kept(steady, 168, today=72.0)
    assert found.latest.gone[0] == 0 and found.likely.change[0] == 1e9
    (one,) = outcomes([disk(usable=50 * 10**9, slope=0.0)], steady, found)
    assert one.days.likely == pytest.approx(50 / 24)
    (large,) = outcomes([disk(usable=97 * 10**9, slope=0.0)], steady, found)
    assert large.days.likely == math.inf, "it levels off at 168 GB"


def test_a_longer_retention_frees_nothing_of_a_log_from_busier_days() -> None:
    assert kept(parts(200e9, 1e9, 1e9), 168, today=72.0).latest.gone[0] == 0
    assert kept(parts(200e9, 1e9, 1e9), 168, today=168.0).latest.gone[0] > 0


def test_the_soonest_side_stands_first_though_a_log_shrinks_by_itself() -> None:
    shrinking = parts(72.5e9, 1e9, 1.8e9, hours=72)
    found = kept(shrinking, 72)
    assert (found.soonest.change[0], found.latest.change[0]) == (0, pytest.approx(0.8e9))
    (one,) = outcomes([disk()], shrinking, found)
    assert one.growth.soonest is not None and one.growth.latest is not None
    assert one.growth.soonest > one.growth.latest
    assert one.days.soonest is not None and one.days.latest is not None
    assert one.days.soonest < one.days.latest


def freed(low: int, likely: int, high: int) -> Freed:
    values = [np.array([v]) for v in (0, 0, 0, low, likely, high, 0)]
    return Freed(*values)


def test_one_purge_moves_the_day_and_leaves_growth() -> None:
    topic = parts(60e9, 1e9, 0.0)
    found = what_if.purged(topic, freed(20 * 10**9, 24 * 10**9, 30 * 10**9))
    (one,) = outcomes([disk(wide=0.25e9)], topic, found)
    assert (one.growth.latest, one.growth.likely, one.growth.soonest) == (0.75e9, 1e9, 1.25e9)
    days = (one.days.soonest, one.days.likely, one.days.latest)
    assert days == pytest.approx((120 / 1.25 / 24, 124 / 24, 130 / 0.75 / 24))
    assert one.used_bytes == 10**12 - 100 * 10**9 - 24 * 10**9


def test_under_a_policy_only_what_nobody_consumed_grows() -> None:
    topic = parts(60e9, 1e9, 0.2e9)
    once = what_if.purged(topic, freed(40 * 10**9, 40 * 10**9, 40 * 10**9))
    backlog = (np.array([0.0]), np.array([0.1e9]), np.array([0.3e9]))
    found = what_if.again_and_again(topic, once, np.array([True]), backlog)
    (one,) = outcomes([disk(slope=1e9)], topic, found)
    growth = (one.growth.latest, one.growth.likely, one.growth.soonest)
    assert growth == pytest.approx((0.2e9, 0.3e9, 0.5e9))
    unknown = (backlog[0], np.array([np.nan]), np.array([1e9]))
    found = what_if.again_and_again(topic, once, np.array([True]), unknown)
    (one,) = outcomes([disk(slope=1e9)], topic, found)
    assert one.days.likely is None and one.days.soonest is not None


def test_retention_and_a_policy_take_the_same_bytes_once() -> None:
    topic = parts(168e9, 1e9, 0.0)
    once = what_if.purged(topic, freed(50 * 10**9, 50 * 10**9, 50 * 10**9))
    both = what_if.together(kept(topic, 72), once)
    assert both.likely.gone[0] == kept(topic, 72).likely.gone[0]
    assert both.likely.change[0] == -1e9
    alone = what_if.together(what_if.nothing(topic), once)
    assert alone.likely.gone[0] == 50e9 and alone.likely.change[0] == 0


def test_what_is_not_known_is_not_told() -> None:
    new = parts(10e9, np.nan, np.nan)
    (one,) = outcomes([disk()], new, kept(new, 1))
    assert (one.gone.soonest, one.gone.likely, one.gone.latest) == (0, None, 10e9)
    assert one.days.likely is None
    (none_told,) = outcomes([disk(slope=None)], new, what_if.nothing(new))
    assert none_told.days.likely is None and none_told.growth.likely is None
    (no_size,) = outcomes([replace(disk(), usable_bytes=None)], new, what_if.nothing(new))
    assert no_size.days.likely is None


def test_a_topic_too_new_to_have_rates_stays_in_the_slope_of_its_disk() -> None:
    new = parts(10e9, np.nan, np.nan)
    once = what_if.purged(new, freed(10**9, 10**9, 10**9))
    nobody = np.array([0.0])
    found = what_if.again_and_again(new, once, np.array([True]), (nobody, nobody, nobody))
    (one,) = outcomes([disk(slope=1e9)], new, found)
    assert one.days.likely == pytest.approx(101 / 24)


def test_a_disk_fills_piece_by_piece() -> None:
    assert hours_to(100, 10, []) == 10
    assert hours_to(100, 10, [(5, -5)]) == 15
    assert hours_to(100, 10, [(20, -10), (5, -8)]) == pytest.approx(5 + 15 + math.inf)
    assert hours_to(100, 0, [(4, 50)]) == 6
    assert hours_to(-5, 10, []) == 0
    assert hours_to(100, -10, []) == math.inf


def test_days_agree_with_a_disk_that_is_simulated_by_the_hour() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        size, come = rng.uniform(5e9, 200e9), rng.uniform(0.2e9, 2e9)
        other, usable = rng.uniform(0.05e9, 1e9), int(rng.uniform(50e9, 400e9))
        topic = parts(size, come, 0.0)
        topic = replace(topic, segment=np.array([0.0]))
        (one,) = outcomes([disk(usable, come + other)], topic, kept(topic, 72))
        used, log, hours = -float(usable), min(size, come * 72), 0.0
        used -= size - log
        while used < 0 and hours < 24 * 365:
            grows = min(come / 10, come * 72 - log)
            log, used, hours = log + grows, used + grows + other / 10, hours + 0.1
        assert one.days.likely is not None
        assert one.days.likely * 24 == pytest.approx(hours, abs=0.3)
