"""KIP-811's interval: a least time between two starts of a partition's purge."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dashboard.domain.model import TopicPartition
from dashboard.policies.service.cycle import is_due, longest_waiting_first
from dashboard.settings.policies.policy import is_open
from tests.unit.policies.examples import NOON, policy, t

SECOND = timedelta(seconds=1)


def test_a_partition_that_was_never_purged_is_due_at_once() -> None:
    found = is_due(policy(), [t(0), t(1)], {}, NOON)
    assert (found.now, found.next_at) == ({t(0), t(1)}, None)


def test_a_partition_is_due_when_the_interval_is_over_and_not_a_moment_before() -> None:
    started = {t(0): NOON - 30 * SECOND, t(1): NOON - 29 * SECOND, t(2): NOON - 10 * SECOND}
    found = is_due(policy(), started, started, NOON)
    assert found.now == {t(0)}
    assert found.next_at == NOON + SECOND


def test_partitions_have_intervals_of_their_own_however_the_topic_was_purged() -> None:
    found = is_due(policy(), [t(0), t(1)], {t(1): NOON}, NOON)
    assert found.now == {t(0)}
    assert found.next_at == NOON + 30 * SECOND


def test_nothing_is_due_outside_the_windows_and_the_next_time_is_their_opening() -> None:
    at_night = policy('windows = ["Wed 22:00-23:00"]')
    opening = NOON + timedelta(hours=10)
    found = is_due(at_night, [t(0), t(1)], {t(0): NOON - timedelta(days=1)}, NOON)
    assert (found.now, found.next_at) == (frozenset(), opening)


def test_an_interval_that_ends_after_the_window_waits_for_the_next_one() -> None:
    hourly = policy('windows = ["Wed 12:00-13:00"]\nmin_purge_interval_ms = 7200000')
    found = is_due(hourly, [t(0)], {t(0): NOON}, NOON)
    assert found.next_at == NOON + timedelta(days=7)


def test_a_last_start_in_the_future_waits_for_its_interval() -> None:
    found = is_due(policy(), [t(0)], {t(0): NOON + 5 * SECOND}, NOON)
    assert (found.now, found.next_at) == (frozenset(), NOON + 35 * SECOND)


def test_no_partitions_are_never_due() -> None:
    assert is_due(policy(), [], {}, NOON).next_at is None


def test_those_that_never_were_purged_come_first_then_by_last_start() -> None:
    started = {t(0): NOON, t(1): NOON - SECOND}
    assert longest_waiting_first([t(0), t(1), t(3), t(2)], started) == (t(2), t(3), t(1), t(0))


_moments = st.integers(-4 * 86_400, 4 * 86_400).map(lambda s: NOON + s * SECOND)
_windows = st.sampled_from(
    ["", 'windows = ["Mon-Fri 22:00-06:00"]', 'windows = ["Sun 02:00-02:10"]']
)


@given(
    st.dictionaries(st.integers(0, 9).map(t), st.none() | _moments, max_size=6),
    st.integers(1000, 200_000_000),
    _windows,
    _moments,
)
def test_no_two_starts_come_closer_than_the_interval_or_outside_a_window(
    last: dict[TopicPartition, datetime | None], interval_ms: int, windows: str, now: datetime
) -> None:
    found_policy = policy(f"min_purge_interval_ms = {interval_ms}\n{windows}")
    starts = {p: at for p, at in last.items() if at is not None}
    found = is_due(found_policy, last, starts, now)
    interval = found_policy.min_purge_interval
    assert all(p not in starts or now - starts[p] >= interval for p in found.now)
    assert not found.now or is_open(found_policy, now)
    assert (found.next_at is None) == (found.now == last.keys())
    if found.next_at is not None:
        assert found.next_at > now
        assert is_due(found_policy, last, starts, found.next_at).now > found.now
        just_before = is_due(found_policy, last, starts, found.next_at - timedelta.resolution)
        assert just_before.now <= found.now
