"""The interval in which a wait-all request is answered, partition by partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.domain.model import TopicPartition
from dashboard.purge.forecast.reading import Reading
from dashboard.purge.forecast.stalls import stalls_of
from dashboard.purge.forecast.waits import SLACK_SECONDS, Wait, waits_of
from tests.unit.purge.facts_of import TOPIC
from tests.unit.purge.forecasts import EVEN, KEY, offsets, reading, state

TIMEOUT = 30.0


def waits(found: Reading) -> list[Wait]:
    stalls = {key: stalls_of(found, s, {}) for key, s in found.partitions.items()}
    return waits_of(found, stalls, TIMEOUT)


def one(found: Reading) -> Wait:
    (wait,) = waits(found)
    return wait


def interval(wait: Wait) -> tuple[float | None, ...]:
    return (wait.low_seconds, wait.likely_seconds, wait.high_seconds)


def test_followers_that_keep_up_come_at_any_moment_of_their_long_poll() -> None:
    wait = one(reading(EVEN))
    # The later of two moments that are even over half a second: a third of a second on average.
    assert interval(wait) == (0.0, 0.333, 0.5 + SLACK_SECONDS)
    assert (wait.cause, wait.times_out) == ("keeps-up", False)


def test_the_longest_long_poll_counts_and_dead_brokers_do_not() -> None:
    slow = one(reading(EVEN, fetch_wait_ms={1: 500, 2: 500, 3: 4000}))
    assert slow.high_seconds == 4.0 + SLACK_SECONDS
    down = one(reading({1: 100, 2: 100}, fetch_wait_ms={2: 500, 3: 4000}, alive=frozenset({1, 2})))
    assert interval(down) == (0.0, 0.25, 0.5 + SLACK_SECONDS)
    alone = one(reading({1: 100}, alive=frozenset({1})))
    assert interval(alone) == (0.0, 0.0, SLACK_SECONDS)


def test_without_a_known_long_poll_nothing_is_said() -> None:
    assert interval(one(reading(EVEN, fetch_wait_ms={}))) == (None, None, None)


def test_partitions_of_one_leader_share_a_request_and_its_followers() -> None:
    parts = {
        KEY: replace(state(), replicas=(1, 2), isr=(1, 2)),
        TopicPartition(TOPIC, 1): replace(state(1), replicas=(1, 3), isr=(1, 3)),
        TopicPartition(TOPIC, 2): replace(state(2, leader=2), replicas=(2, 3), isr=(2, 3)),
    }
    first = {k: v for n in range(3) for k, v in offsets(EVEN, number=n).items()}
    found = waits(replace(reading(EVEN), partitions=parts, first=first))
    assert [wait.likely_seconds for wait in found] == [0.333, 0.333, 0.25]

    # A stalled one travels alone: its follower is not waited for by the others.
    first |= offsets({1: 100, 3: "BROKER_UNREACHABLE"}, number=1)
    found = waits(replace(reading(EVEN), partitions=parts, first=first))
    assert [wait.likely_seconds for wait in found] == [0.25, TIMEOUT, 0.25]


@pytest.mark.parametrize(
    ("seen", "cause", "broker_id"),
    [
        (reading({1: 100, 2: 100, 3: "BROKER_UNREACHABLE"}), "silent", 3),
        (
            reading({1: 1000, 2: 1000, 3: 5}, {1: 1000, 2: 1000, 3: 5},
                    partition=state(isr=(1, 2))),
            "behind", 3,
        ),
        (reading({1: 100, 2: 100, 3: "KAFKA_STORAGE_ERROR"}), "unreadable", 3),
        (reading(EVEN, moving=frozenset({KEY})), "log-dir-move", 1),
    ],
)  # fmt: skip
def test_who_stands_still_does_not_answer_or_moves_runs_into_the_timeout(
    seen: Reading, cause: str, broker_id: int
) -> None:
    wait = one(seen)
    assert (wait.cause, wait.broker_id, wait.times_out) == (cause, broker_id, True)
    assert interval(wait) == (TIMEOUT, TIMEOUT, TIMEOUT + SLACK_SECONDS)


def test_a_follower_far_behind_that_fetches_does_not_stall_it() -> None:
    wait = one(reading({1: 90_000, 2: 90_000, 3: 5}, {1: 90_000, 2: 90_000, 3: 105},
                       partition=state(isr=(1, 2))))  # fmt: skip
    assert (wait.cause, wait.times_out, wait.low_seconds) == ("fetches", False, 0.0)
    assert (wait.high_seconds or TIMEOUT) < 5


@pytest.mark.parametrize(
    ("looks", "expected", "times_out"),
    [
        (((0.0, 1000), (1.0, 900)), (4.5, 9.0, TIMEOUT + SLACK_SECONDS), False),
        (((0.0, 90_000), (1.0, 89_900)), (TIMEOUT, TIMEOUT, TIMEOUT + SLACK_SECONDS), True),
        (((0.0, 1000), (1.0, 1000)), (TIMEOUT, TIMEOUT, TIMEOUT + SLACK_SECONDS), True),
    ],
)
def test_a_move_ends_at_the_pace_that_two_looks_show(
    looks: tuple[tuple[float, int], ...], expected: tuple[float, ...], times_out: bool
) -> None:
    wait = one(reading(EVEN, moving=frozenset({KEY}), move_lags={KEY: looks}))
    assert interval(wait) == expected
    assert wait.times_out is times_out


def test_without_a_leader_that_answers_there_is_no_wait() -> None:
    wait = one(reading({1: "BROKER_UNREACHABLE", 2: 100, 3: 100}))
    assert (wait.cause, *interval(wait)) == ("leader-silent", None, None, None)
