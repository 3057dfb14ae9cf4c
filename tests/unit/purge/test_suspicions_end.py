"""What ends a suspicion of unseen readers was counted: no gap in which counters began anew, no
source that stands still; and in ordinary life it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.history import readings
from dashboard.history.readings import topic_readings
from dashboard.store.snapshots import ClusterStore, Store
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.test_unseen_readers import HOUR_BYTES, MIB, an_hour, guard_of, write

JOB = 50_000.0 * MIB  # what a job reads each night, and commits nothing


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


class Broker:
    """Broker 1 as its source tells it; a restart sets all of it back. Broker 2 follows."""

    def __init__(self, store: ClusterStore) -> None:
        self.store, self.sent, self.since = store, 0.0, -10_000.0

    def restart(self, hour: float) -> None:
        self.sent, self.since = 0.0, hour

    def collect(self, hour: float, *, answers: bool = True, log_end: int = 100) -> None:
        """A snapshot so many hours after NOW."""
        counters: Mapping[int, float] = {1: self.sent, 2: 0.0} if answers else {}
        write(
            self.store, NOW + timedelta(hours=hour), counters, 10, log=(0, log_end, 1000 * log_end),
            requests=7200 * (hour - self.since), started=1e9 + 3600 * self.since,
        )  # fmt: skip

    def guard(self, hour: float) -> str:
        return guard_of(self.store, NOW + timedelta(hours=hour))


@pytest.fixture
def broker(store: ClusterStore) -> Broker:
    return Broker(store)


def suspected(broker: Broker, hour: float) -> None:
    """Two snapshots, the last one at that hour, with a night between them."""
    broker.collect(hour - 24)
    broker.sent += JOB
    broker.collect(hour)
    assert broker.guard(hour)


@pytest.mark.further
def test_an_exporter_that_comes_back_by_a_restart_has_not_counted_the_days_before(
    broker: Broker,
) -> None:
    suspected(broker, -110)
    broker.collect(-50, answers=False)
    broker.restart(-0.1)
    broker.collect(0)
    assert "the counters of broker 1, 2 began anew between samples" in broker.guard(0)
    for hour in range(1, 25):
        broker.collect(hour)
        assert bool(broker.guard(hour)) == (hour < 24), "a day that shows nobody has been counted"


def test_nor_where_the_topics_own_counter_had_stood_at_0(broker: Broker) -> None:
    """The job reads the night before it: the counter is 0 on both sides of the restart."""
    suspected(broker, -72)
    broker.restart(-71)
    broker.collect(-48)
    assert broker.guard(-48)
    broker.sent = JOB
    broker.restart(-24.5)
    broker.collect(-24)
    assert broker.guard(-24)
    broker.collect(0)
    assert broker.guard(0) == "", "the day after no broker was restarted, and nobody read"


def test_snapshots_of_each_day_end_it_though_brokers_are_restarted_each_week(
    broker: Broker,
) -> None:
    suspected(broker, 0)
    gone = None
    for day in range(1, 15):
        if day % 7 == 1:
            broker.restart(24 * day - 0.5)
        broker.collect(24 * day)
        gone = gone if gone is not None or broker.guard(24 * day) else day
    assert gone == 2
    assert broker.guard(24 * 14) == ""


def test_a_restart_may_have_hidden_who_read_within_the_hour_before_it(broker: Broker) -> None:
    suspected(broker, 0)
    for hour in range(1, 49):
        if hour % 24 == 0:
            broker.sent += JOB
        if hour == 24:
            broker.restart(hour - 0.1)
        broker.collect(hour)
        if hour > 23:
            assert broker.guard(hour), hour


@pytest.mark.further
def test_snapshots_of_each_hour_end_it_within_three_days_though_brokers_are_restarted_each_day(
    broker: Broker,
) -> None:
    """A nightly stop of a test environment, or a rolling restart that goes on for days."""
    suspected(broker, 0)
    for minute in range(90, 60 * 72 + 1, 90):
        if minute % (24 * 60) == 9 * 60:
            broker.restart(minute / 60 - 0.5)
        broker.collect(minute / 60)
        if minute == 27 * 60:
            assert broker.guard(27), "what was read before a restart is not counted"
    assert broker.guard(72) == ""


@pytest.mark.parametrize("restart", [None, 3])
def test_snapshots_of_each_five_minutes_end_it_after_a_day_without_a_restart(
    broker: Broker, restart: int | None
) -> None:
    """As `watch` takes them."""
    suspected(broker, 0)
    for minute in range(5, 60 * 30 + 1, 5):
        hour = minute / 60
        if hour == restart:
            broker.restart(hour - 0.01)
        broker.collect(hour)
        if hour in (20, 25):
            assert bool(broker.guard(hour)) == (hour == 20 or restart is not None)
    assert broker.guard(30) == ""


@pytest.mark.further_but("False")
@pytest.mark.parametrize("restart", [False, True])
def test_a_job_of_each_night_is_held_whatever_else_happens(broker: Broker, restart: bool) -> None:
    suspected(broker, 0)
    for day in range(1, 11):
        broker.sent += JOB
        if restart:
            broker.restart(24 * day - 0.5)
        broker.collect(24 * day)
        assert broker.guard(24 * day), day


@pytest.mark.further
def test_a_source_that_stands_still_while_logs_grow_has_measured_nobody(
    store: ClusterStore,
) -> None:
    """Who fills its file has died; each collection reads the same numbers again."""
    for hour in range(-60, 49, 3):
        alive = min(hour, -30) + 61
        end = 1000 * (hour + 61)
        write(
            store, NOW + timedelta(hours=hour), {1: JOB * alive, 2: 0.0}, 10,
            sums={1: JOB * alive, 2: 0.0}, requests=7200.0 * alive, log=(0, end, 1000 * end),
        )  # fmt: skip
        if hour >= -30:
            assert guard_of(store, NOW + timedelta(hours=hour)), hour
    assert "broker 1 has no two samples" in guard_of(store, NOW + timedelta(hours=48))


def test_one_of_which_no_log_grows_may_be_a_cluster_at_rest(store: ClusterStore) -> None:
    for hour in range(-60, 1, 3):
        sent = {1: JOB if hour > -50 else 0.0, 2: 0.0}
        write(store, NOW + timedelta(hours=hour), sent, 10, requests=7200.0)
    assert guard_of(store, NOW - timedelta(hours=40))
    assert guard_of(store) == ""


@pytest.mark.further
def test_who_was_suspected_and_then_reads_half_as_much_as_a_group_is_held_for_a_week(
    store: ClusterStore,
) -> None:
    """From the tenth day on nobody is looked for any more who reads no more than the group."""
    for hour in range(-24, 24 * 9 + 1, 1):
        read = 6.0 * min(hour, 0) + 1.5 * max(hour, 0) + 6 * 24
        an_hour(store, hour + 72, None, counters={1: HOUR_BYTES * read, 2: 0.0})
        if hour in (0, 24, 48, 24 * 6):
            assert guard_of(store, NOW + timedelta(hours=hour)), hour
    assert guard_of(store, NOW + timedelta(hours=24 * 9)) == ""


@pytest.mark.further
def test_days_that_are_over_are_read_once_though_a_page_opens_the_store_anew(
    store: ClusterStore,
) -> None:
    for hours in range(240, -1, -12):
        write(store, NOW - timedelta(hours=hours), {1: 0.0}, 10)
    before = readings._whole_day.cache_info()
    for _ in range(3):
        again = ClusterStore(Store(store.store.root), store.cluster_id)
        topic_readings(again, [TOPIC], NOW)
    after = readings._whole_day.cache_info()
    days = after.misses - before.misses
    assert days > 5 and after.hits - before.hits == 2 * days
    assert after.maxsize == 128, "the measures of 10,000 topics are 4 MiB a day"
