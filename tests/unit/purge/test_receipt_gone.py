"""A receipt counts what its purge freed, not what the deletion of its topic did."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.domain.model import LogDirsAnswer, ReplicaSize, TopicPartition
from dashboard.purge.execute.readback import GONE, read_back
from dashboard.purge.receipt.model import Receipt, ReplicaSample, Sample
from dashboard.purge.receipt.receipt_bytes import leaving
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.fake_cluster import FakePartition
from tests.unit.purge.room import Room

KEY = TopicPartition(TOPIC, 0)
FREED = 180_000  # 60 records of 1000 bytes on three replicas


@pytest.fixture
def watch(room: Room) -> ReplicaWatch:
    """One look after a purge was done: all it freed has left."""
    run = room.carry_out().run
    found = ReplicaWatch(
        room.live, room.journal, run, room.journal.plan(run.run_id), room.clock, room.clock.sleep
    )
    found.step()
    assert receipt(room).freed_bytes == FREED
    room.clock.sleep(60)
    return found


def receipt(room: Room) -> Receipt:
    found = room.journal.runs()[0].receipt
    assert found is not None
    return found


def made_anew(room: Room, size: int = 500) -> None:
    """Deleted, and created again under its name: every replica is small, and begins at 0."""
    room.live.parts[KEY] = FakePartition({1: 0, 2: 0, 3: 0}, high_watermark=1)
    sizes = tuple(ReplicaSize(b, "/d", *KEY, size, 0, False) for b in (1, 2, 3))
    room.live.log_dirs = lambda *_: LogDirsAnswer((), sizes, {})  # type: ignore[method-assign]


def followed(room: Room, watch: ReplicaWatch) -> Receipt:
    for _ in range(300):
        if watch.step() is None:
            break
        room.clock.sleep(5)
    return receipt(room)


@pytest.mark.parametrize("size", [500, 100_000_000])
def test_bytes_of_a_topic_that_was_made_anew_are_not_counted(
    room: Room, watch: ReplicaWatch, size: int
) -> None:
    made_anew(room, size)
    room.live.topic_id = "id-2"
    found = followed(room, watch)
    assert (found.freed_bytes, found.produced_bytes, found.final) == (FREED, 0, True)
    assert found.gone_topics == (TOPIC,)
    assert found.gap == (
        "orders was deleted, or made anew, before its receipt was final: what left after the last "
        "look before that is not counted"
    )
    assert found.calibration == ()


def test_nor_while_the_broker_that_tells_metadata_does_not_know_it_yet(
    room: Room, watch: ReplicaWatch
) -> None:
    made_anew(room)
    room.live.leaders_say = "id-2"  # each broker, asked itself
    watch.step()
    assert receipt(room).freed_bytes == FREED


def test_a_topic_that_is_still_there_goes_on_being_measured(
    room: Room, watch: ReplicaWatch
) -> None:
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 70)
    found = followed(room, watch)
    assert (found.freed_bytes, found.retention_bytes) == (FREED, 30_000)
    assert found.gone_topics == ()


def test_a_later_purge_of_the_new_topic_waits_for_nothing_of_the_old(
    room: Room, watch: ReplicaWatch
) -> None:
    made_anew(room, 1_000_000)
    room.live.topic_id = "id-2"
    watch.step()
    left = replace(receipt(room), final=False)
    parts = tuple(replace(part, predicted_bytes=900_000) for part in left.replicas)
    left = replace(left, replicas=parts)
    now = ReplicaSample(TOPIC, 0, 1, 1_000_000, log_start_offset=0, log_end_offset=1)
    baseline = Sample(NOW + timedelta(hours=1), (now,))
    assert leaving([left], baseline) == {}
    assert leaving([replace(left, gone_topics=())], baseline) != {}


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"])
def test_a_topic_that_is_hidden_is_not_gone(room: Room, watch: ReplicaWatch, error: str) -> None:
    """No receipt is final, and no truncation stands, by leaders that nobody could read."""
    room.live.topic_error = error
    room.live.parts[KEY].starts = {1: 0, 2: 0, 3: 0}
    room.live.elect(2)
    assert not followed(room, watch).final
    room.live.topic_error = None
    watch.step()
    assert room.journal.runs()[0].state == "partial"
    (row,) = room.journal.partitions(room.journal.runs()[0].run_id)
    assert row.state == "reverted"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"),
        ("UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"),
        ("UNKNOWN_TOPIC_OR_PARTITION", GONE),
        (None, GONE),
    ],
)
def test_a_topic_is_gone_by_an_answer_that_says_so(
    room: Room, error: str | None, told: str
) -> None:
    room.live.topic_error = error
    seen = read_back(room.live, {KEY: 60}, {TOPIC: "another"})
    assert (seen[KEY].error, seen[KEY].leader_log_start_offset) == (told, None)
