"""A forecast: which partitions answer at once, which would wait, for whom and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.domain.model import TopicPartition
from dashboard.purge.forecast import reading as forecast_reading
from dashboard.purge.forecast import text as forecast_text
from dashboard.purge.forecast.forecast import Forecast, judge
from dashboard.purge.forecast.reading import Reading
from dashboard.purge.forecast.stalls import holdups
from dashboard.settings.settings import PurgeSettings
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.forecasts import EVEN, KEY, Answering, offsets, reading, state

PURGE = PurgeSettings(request_timeout=timedelta(seconds=30))


def foresee(found: Reading) -> Forecast:
    return judge(found, {}, PURGE)


def said(found: Forecast) -> str:
    return " ".join(h.said for h in holdups(found.stalls))


def test_followers_at_the_log_end_answer_within_their_long_poll() -> None:
    found = foresee(reading(EVEN))

    assert (found.quick, found.waiting, found.timing_out) == (1, 0, 0)
    assert found.quick_seconds == 0.5
    assert forecast_text.modes(found)[0].predicted == "1 partition in at most about 0.5 s."
    assert "waiting for all is quick" in forecast_text.headline(found)


def test_the_requests_of_one_leader_queue_behind_each_other() -> None:
    parts = {TopicPartition(TOPIC, n): state(n) for n in range(9)}
    first = {k: v for n in range(9) for k, v in offsets(EVEN, number=n).items()}
    found = replace(reading(EVEN), partitions=parts, first=first)

    # Nine partitions of one leader, two a request, two requests side by side: three rounds.
    purge = replace(PURGE, partitions_per_request=2, requests_in_flight=2)
    assert judge(found, {}, purge).quick_seconds == 1.5


def test_without_the_long_poll_the_time_is_unknown_and_not_zero() -> None:
    found = foresee(reading(EVEN, fetch_wait_ms={}))

    assert found.quick_seconds is None
    assert "soon (no broker told" in forecast_text.modes(found)[0].predicted


def test_a_broker_that_does_not_answer_is_named() -> None:
    found = foresee(reading({1: 100, 2: 100, 3: "BROKER_UNREACHABLE"}))

    assert (found.quick, found.timing_out) == (0, 1)
    assert "Broker 3 does not answer: 1 partition would wait" in said(found)
    assert "would time out after 30 s" in forecast_text.headline(found)


def test_a_broker_that_is_down_is_not_waited_for_but_told() -> None:
    down = reading({1: 100, 2: 100, 3: "BROKER_UNREACHABLE"}, alive=frozenset({1, 2}))
    found = foresee(down)

    assert (found.quick, found.not_alive) == (1, {3: 1})
    assert "Broker 3 is down and not waited for" in forecast_text.notes(found)[0]


def test_a_follower_that_fetches_takes_a_deletion_with_its_next_fetch() -> None:
    out = state(isr=(1, 2))
    found = foresee(reading({1: 1000, 2: 1000, 3: 0}, {1: 1000, 2: 1000, 3: 200}, partition=out))

    (stall,) = found.stalls
    assert (stall.lag_records, stall.closing_per_second, stall.seconds_to_go) == (800, 100, 8)
    assert (found.waiting, found.timing_out) == (1, 0)
    assert said(found) == (
        "Broker 3 is out of sync on 1 partition: 800 records behind, closing at 100 records/s, "
        "about 8 s to go; it fetches, and a deletion reaches it with its next fetch."
    )
    assert forecast_text.modes(found)[0].predicted == "1 with the next fetch of broker 3."


def test_a_follower_that_stands_still_never_arrives() -> None:
    out = state(isr=(1, 2))
    back = foresee(reading({1: 1000, 2: 1000, 3: 500}, {1: 1600, 2: 1600, 3: 900}, partition=out))
    still = foresee(reading({1: 1000, 2: 1000, 3: 500}, {1: 1000, 2: 1000, 3: 500}, partition=out))
    lost = foresee(reading({1: 1000, 2: 1000, 3: 500}, {1: 1600, 2: 1600, 3: 500}, partition=out))

    assert (back.timing_out, still.timing_out, lost.timing_out) == (0, 1, 1)
    assert "falling back at 100 records/s; it fetches" in said(back)
    assert "500 records behind, standing still." in said(still)
    assert "1\u202f100 records behind, falling back at 300 records/s." in said(lost)


def test_a_follower_in_sync_that_has_what_the_leader_had_keeps_up() -> None:
    moved = reading({1: 100, 2: 90, 3: 100}, {1: 130, 2: 120, 3: 130})
    stuck = reading({1: 100, 2: 90, 3: 100}, {1: 130, 2: 90, 3: 130})

    assert foresee(moved).quick == 1
    assert "Broker 2 trails on 1 partition: 40 records behind" in said(foresee(stuck))


def test_the_lag_in_seconds_comes_from_where_the_leader_was_when() -> None:
    out = reading({1: 1000, 2: 1000, 3: 400}, {1: 1000, 2: 1000, 3: 400},
                  partition=state(isr=(1, 2)))  # fmt: skip
    ends = {KEY: [(NOW - timedelta(seconds=38), 400)]}
    found = judge(out, ends, PURGE)

    assert found.stalls[0].lag_seconds == 40
    assert forecast_text.headline(found).startswith(
        "Broker 3 is 40 s behind (600 records); waiting for all replicas would time out after 30 s"
    )
    assert judge(out, {}, PURGE).stalls[0].lag_seconds is None


def test_a_leader_that_moves_log_dirs_is_a_cause_of_its_own() -> None:
    found = foresee(reading(EVEN, moving=frozenset({KEY})))

    assert found.timing_out == 1
    assert "Broker 1 leads 1 partition and moves the log to another log dir" in said(found)


def test_brokers_that_hide_their_log_dirs_are_told() -> None:
    found = foresee(reading(EVEN, log_dirs_unread=frozenset({1, 2})))

    assert found.moves_unknown == (1,)
    assert "Broker 1 did not list log dirs" in forecast_text.notes(found)[0]


@pytest.mark.parametrize(
    ("partition", "first", "words"),
    [
        (state(leader=None), EVEN, "without a leader"),
        (state(), {1: "BROKER_UNREACHABLE", 2: 100, 3: 100}, "does not answer and leads"),
    ],
)
def test_without_a_leader_that_answers_no_mode_helps(
    partition: object, first: dict[int, int | str], words: str
) -> None:
    found = foresee(reading(first, partition=partition))  # type: ignore[arg-type]

    assert (found.unusable, found.timing_out) == (1, 0)
    assert words in said(found)
    assert "cannot be purged just now in any mode" in forecast_text.headline(found)


def test_an_offset_error_is_unknown_and_not_quick() -> None:
    found = foresee(reading({1: 100, 2: 100, 3: "KAFKA_STORAGE_ERROR"}))

    assert found.quick == 0
    assert "gives no offsets for 1 partition (KAFKA_STORAGE_ERROR)" in said(found)


def test_native_leader_only_is_told_by_each_leader() -> None:
    old = forecast_text.modes(foresee(reading(EVEN)))[1].predicted
    new = forecast_text.modes(foresee(reading(EVEN, versions={1: 3, 2: 2})))[1].predicted
    silent = forecast_text.modes(foresee(reading(EVEN, versions={})))[1].predicted

    assert old == (
        "Broker 1 speaks v2: its partitions would be refused with UNSUPPORTED_VERSION; choose "
        "'leader only, verified'."
    )
    assert "The leader supports it." in new
    assert silent == "Broker 1 did not say which version it speaks."


def test_brokers_of_one_version_are_named_together() -> None:
    parts = {TopicPartition(TOPIC, n): state(n, leader=n + 1) for n in range(3)}
    first = {k: v for n in range(3) for k, v in offsets(EVEN, number=n).items()}
    three = replace(reading(EVEN), partitions=parts, first=first)

    assert forecast_text.native_said(foresee(three)).startswith("Brokers 1, 2, 3 speak v2: their")
    assert forecast_text.native_said(
        foresee(replace(three, versions={1: 3, 2: 3, 3: 3}))
    ) == "All 3 leaders support it."  # fmt: skip


def test_json_carries_the_numbers_and_the_words() -> None:
    body = forecast_text.to_json(foresee(reading({1: 100, 2: 100, 3: "BROKER_UNREACHABLE"})))

    assert body["timing_out"] == {"partitions": 1, "after_seconds": 30.0}
    assert body["held_up_by"][0]["broker_id"] == 3
    assert body["held_up_by"][0]["cause"] == "silent"
    assert [m["mode"] for m in body["modes"]] == [
        "wait-all", "leader-only", "leader-only-verified",
    ]  # fmt: skip
    assert body["leaders"] == [{"broker_id": 1, "partitions": 1, "delete_records_version": 2}]


def test_a_healthy_cluster_is_read_once_and_no_group_is_asked_for() -> None:
    live = Answering(2)
    found = forecast_reading.read(live, list(live.parts), now=lambda: NOW, sleep=_never)

    assert live.looks == 1
    assert len(found.first) == 6
    assert found.versions == {1: 2, 2: 2, 3: 2}


def test_partitions_with_a_follower_out_of_sync_are_read_twice_a_second_apart() -> None:
    live = Answering(2)
    live.parts[KEY].isr = (1, 2)
    slept: list[float] = []
    found = forecast_reading.read(live, list(live.parts), now=lambda: NOW, sleep=slept.append)

    assert 0 < slept[0] <= 1
    assert {key.partition for _, key in found.second} == {0}


@pytest.mark.parametrize("shown", [0, 1])
def test_what_the_cluster_does_not_describe_is_no_replica_that_keeps_up(shown: int) -> None:
    """Its topic was deleted since the plan, or its DESCRIBE right was taken away."""
    live = Answering(shown)
    hidden = [TopicPartition("gone", 0), TopicPartition("gone", 1), TopicPartition(TOPIC, 7)]
    found = foresee(forecast_reading.read(live, [*live.parts, *hidden], sleep=_never))

    assert (found.partitions, found.quick, found.unusable) == (3 + shown, shown, 3)
    assert forecast_text.headline(found) == "3 partitions cannot be purged just now in any mode."
    assert "without a leader that can be seen (UNKNOWN_TOPIC_OR_PARTITION)" in said(found)
    assert [wait.high_seconds for wait in found.waits].count(None) == 3


def test_who_asks_for_nothing_is_told_so() -> None:
    found = foresee(reading(EVEN, partitions={}))

    assert forecast_text.headline(found) == "No partition to ask for."


def _never(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s for nothing")
