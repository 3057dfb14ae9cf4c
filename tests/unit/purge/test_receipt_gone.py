"""A receipt counts what its purge freed, not what the deletion of its topic did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.domain.model import LogDirsAnswer, ReplicaSize, TopicPartition, TopicState
from dashboard.purge.execute.readback import GONE, read_back
from dashboard.purge.execute.topic_identity import UNCERTAIN
from dashboard.purge.receipt.model import Receipt, ReplicaSample, Sample
from dashboard.purge.receipt.receipt_bytes import leaving
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from tests.support.cluster import FakePartition
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import WATCHED, Room

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
    """To the end of the watch, or nearly: longer than a receipt needs to be final (7 minutes)."""
    end = watch.run.queued_at + WATCHED - timedelta(minutes=1)
    while room.clock.now < end:
        if watch.step() is None:
            break
        room.clock.sleep(5)
    return receipt(room)


@pytest.mark.further_but("500")
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


@pytest.mark.further_but("TOPIC_AUTHORIZATION_FAILED")
@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"])
def test_a_topic_that_is_hidden_is_not_gone(room: Room, watch: ReplicaWatch, error: str) -> None:
    """No receipt is final, and no truncation stands, by leaders that nobody could read."""
    room.live.topic_errors[TOPIC] = error
    room.live.parts[KEY].starts = {1: 0, 2: 0, 3: 0}
    room.live.elect(2)
    assert not followed(room, watch).final
    room.live.topic_errors.clear()
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
    room.live.topic_errors[TOPIC] = error
    seen = read_back(room.live, {KEY: 60}, {TOPIC: "another"})
    assert (seen[KEY].error, seen[KEY].leader_log_start_offset) == (told, None)


def cut_off(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 1, which tells metadata, is cut off since before the topic was made."""
    topics, views = room.live.topics, room.live.topics_at
    none = {TOPIC: TopicState(TOPIC, None, False, (), "UNKNOWN_TOPIC_OR_PARTITION")}
    monkeypatch.setattr(room.live, "topics", lambda _: none)

    def at(asked: Mapping[int, Iterable[str]]) -> dict[int, dict[str, TopicState] | str]:
        monkeypatch.setattr(room.live, "topics", topics)
        found = views(asked)
        monkeypatch.setattr(room.live, "topics", lambda _: none)
        return found | ({1: none} if 1 in asked else {})

    monkeypatch.setattr(room.live, "topics_at", at)


@pytest.mark.parametrize("controllers", [{2, 3}, set(), None])
def test_a_topic_is_not_gone_by_a_broker_that_never_heard_of_it(
    room: Room, watch: ReplicaWatch, monkeypatch: pytest.MonkeyPatch, controllers: set[int] | None
) -> None:
    room.live.controllers = controllers
    with monkeypatch.context() as patched:
        cut_off(room, patched)
        seen = read_back(room.live, {KEY: 60}, {TOPIC: "id-1"})[KEY]
        assert seen.error == "UNKNOWN_TOPIC_OR_PARTITION"
        watch.step()
    assert (receipt(room).gone_topics, receipt(room).final) == ((), False)


@pytest.mark.parametrize("silent", [False, True])
def test_without_controllers_that_tell_all_live_brokers_must_say_that_it_is_gone(
    room: Room, silent: bool
) -> None:
    room.live.controllers, room.live.topic_errors = None, {TOPIC: "UNKNOWN_TOPIC_OR_PARTITION"}
    room.live.broker_says = {2: "NOT_ANSWERED"} if silent else {}
    seen = read_back(room.live, {KEY: 60}, {TOPIC: "id-1"})[KEY]
    assert seen.error == ("UNKNOWN_TOPIC_OR_PARTITION" if silent else GONE)


@pytest.mark.parametrize(("now", "then"), [(None, "id-1"), ("id-1", None)])
def test_a_topic_whose_id_is_not_told_is_not_another_one(
    room: Room, now: str | None, then: str | None
) -> None:
    """Brokers before 2.8 tell none, also while a cluster is being upgraded."""
    room.live.topic_id = now  # type: ignore[assignment]
    assert read_back(room.live, {KEY: 60}, {TOPIC: then})[KEY].error == UNCERTAIN
