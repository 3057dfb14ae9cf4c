"""Purges that come to nothing are tried ever more rarely, and again at once when one helps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.policies.service.outcome import Outcome
from dashboard.policies.service.purging import LONGEST, Patience
from dashboard.purge.journal.rows import PartitionRow
from tests.unit.policies.service_room import ServiceRoom
from tests.unit.purge.facts_of import NOW

TOPIC, OTHER = "billing-sum-repartition", "orders-join-repartition"
_FORBIDDEN = 29  # TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    for topic, group in ((TOPIC, "billing"), (OTHER, "orders")):
        made.live.topic(topic)
        made.live.produce(topic, 10)
        made.live.commit(group, topic)
    yield made
    made.journal.close()


def gaps(room: ServiceRoom) -> list[float]:
    starts = [run.queued_at for run in room.runs()]
    return [round((b - a).total_seconds()) for a, b in itertools.pairwise(starts)]


def test_a_refused_application_is_left_alone_for_longer_each_time_and_no_other(
    room: ServiceRoom,
) -> None:
    room.live.answers = [0] + [_FORBIDDEN] * 1000  # one of the two succeeds, and is idle then
    service = room.service()
    room.pass_time(service, 700)
    found = gaps(room)[1:]
    assert found[:6] == [5, 10, 20, 40, 80, 160]
    assert len(found) == 7
    status = room.status()
    assert status["state"] == "refused"
    assert status["errors"][0]["code"] == "E29"
    assert "purged nothing, the next is later" in status["reason"]

    for _ in range(3):  # while the other one keeps its interval
        room.live.answers = []
        other = TOPIC if room.live.log_start(TOPIC) else OTHER
        room.live.produce(other, 10)
        room.live.commit("billing" if other == TOPIC else "orders", other)
        before = room.live.log_start(other)
        room.pass_time(service, 62)
        assert room.live.log_start(other) == before + 10


def test_one_purge_that_helps_ends_the_waiting(room: ServiceRoom) -> None:
    room.live.answers = [0] + [_FORBIDDEN] * 3
    service = room.service()
    room.pass_time(service, 100)
    assert {room.live.log_start(TOPIC), room.live.log_start(OTHER)} == {10}
    count = len(room.runs())
    for _ in range(2):
        for topic, group in ((TOPIC, "billing"), (OTHER, "orders")):
            room.live.produce(topic, 10)
            room.live.commit(group, topic)
        room.pass_time(service, 62)
    assert len(room.runs()) == count + 4


def test_an_hour_is_the_longest_or_the_policys_own_interval() -> None:
    patience, now, key = Patience(), NOW, ("streams", "billing")
    rows = [PartitionRow(TOPIC, 0, 10, "not_done")]
    outcome = Outcome("ran", "refused", "billing")
    for interval, longest in ((timedelta(seconds=5), LONGEST), (timedelta(hours=3),) * 2):
        for _ in range(40):
            patience.learn(key, outcome, rows, interval, now)
        left = patience.left_alone(key, now + longest - timedelta(seconds=1))
        assert left is not None and left.next_at == now + longest
        assert patience.left_alone(key, now + longest) is None
        assert patience.left_alone(key, now - timedelta(seconds=1)) is None, "a clock set back"
        patience.learn(key, outcome, [replace(rows[0], state="done")], interval, now)
        assert patience.left_alone(key, now) is None


@pytest.mark.further
def test_a_new_service_tries_at_once(room: ServiceRoom) -> None:
    room.live.answers = [0] + [_FORBIDDEN] * 1000
    first = room.service()
    room.pass_time(first, 100)
    first.close()
    count = len(room.runs())
    room.pass_time(room.service(), 2)
    assert len(room.runs()) == count + 1
