"""How requests travel: by leader, side by side, few at a time, stalled partitions apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import RefusedError
from dashboard.domain.model import ReplicaOffsets, TopicPartition
from dashboard.purge.plan.guards import Override
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room


def led_by_two(folder: Path, partitions: int) -> Room:
    """Broker 1 leads the even partitions, broker 2 the odd ones."""
    made = Room(folder, partitions)
    for key, part in made.live.parts.items():
        part.leader_id = 1 + key.partition % 2
    return made


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """Six partitions: 0, 2, 4 are led by broker 1 and 1, 3, 5 by broker 2."""
    made = led_by_two(tmp_path, 6)
    yield made
    assert made.journal.verify().ok
    made.journal.close()


class Gate:
    """Stands in a fake's delete_records: who is inside together, by broker, and at most."""

    def __init__(self, room: Room) -> None:
        self.most: dict[int, int] = {}
        self.inside: dict[int, int] = {}
        self.together = threading.Barrier(1)
        self._send = room.live.delete_records
        self._lock = threading.Lock()
        room.live.delete_records = self  # type: ignore[method-assign, assignment]

    def __call__(self, leader_id: int, targets: Mapping[TopicPartition, int], **how: Any) -> Any:
        with self._lock:
            self.inside[leader_id] = self.inside.get(leader_id, 0) + 1
            self.most[leader_id] = max(self.most.get(leader_id, 0), self.inside[leader_id])
        self.together.wait(120)
        with self._lock:
            self.inside[leader_id] -= 1
            return self._send(leader_id, targets, **how)


def test_a_request_holds_the_partitions_of_one_leader_and_not_too_many(room: Room) -> None:
    assert room.carry_out().run.state == "done"
    sent = [(leader, [k.partition for k in targets]) for leader, targets, _ in room.live.sent]
    assert sorted(sent) == [(1, [0, 2]), (1, [4]), (2, [1, 3]), (2, [5])]


def test_leaders_are_asked_side_by_side(room: Room) -> None:
    gate = Gate(room)
    gate.together = threading.Barrier(2)  # breaks when one waits for the other's answer
    assert room.carry_out(partitions_per_request=3).run.state == "done"
    assert gate.most == {1: 1, 2: 1}


def test_a_broker_has_no_more_requests_in_flight_than_settings_allow(tmp_path: Path) -> None:
    room = led_by_two(tmp_path, partitions=8)
    gate = Gate(room)
    gate.together = threading.Barrier(4)
    view = room.carry_out(partitions_per_request=1, requests_in_flight=2)
    assert (view.run.state, len(room.live.sent)) == ("done", 8)
    assert gate.most == {1: 2, 2: 2}
    room.journal.close()


@pytest.mark.parametrize("mode", ["wait-all", "leader-only-verified"])
def test_partitions_that_would_stall_a_wait_all_travel_apart_and_last(
    room: Room, mode: str
) -> None:
    for part in room.live.parts.values():
        part.leader_id = 1
    room.live.parts[TopicPartition(TOPIC, 2)].isr = (1, 2)  # a follower behind, and accepted so
    plan = room.plan(overrides=(Override("under-replicated", None, "known", "ann", NOW),))
    replica_offsets = room.live.replica_offsets

    def one_hangs(partitions: Any, brokers: Any = None) -> Any:
        hung = ReplicaOffsets(3, TOPIC, 0, None, None, NOW, "ANSWER_LOST")
        return (*replica_offsets(partitions, brokers), hung)

    room.live.replica_offsets = one_hangs  # type: ignore[method-assign]
    room.carry_out(plan, mode=mode, partitions_per_request=500)
    sent = [[k.partition for k in targets] for _, targets, _ in room.live.sent]
    assert sent == ([[1, 3, 4, 5], [0, 2]] if mode == "wait-all" else [[0, 1, 2, 3, 4, 5]])


@pytest.mark.parametrize("answer", [3, 6, 56, -1, "lost", "lost-before"])
def test_after_an_error_or_a_lost_answer_the_current_leader_is_read_first(
    tmp_path: Path, answer: int | str
) -> None:
    room = Room(tmp_path)
    steps: list[str] = []
    send, read = room.live.delete_records, room.live.leader_log_starts

    def sending(*words: Any, **how: Any) -> Any:
        steps.append("send")
        return send(*words, **how)

    def reading(epochs: Mapping[TopicPartition, int]) -> Any:
        found = read(epochs)
        steps.append(f"read {[f.leader_epoch for f in found.values()]}")
        return found

    room.live.delete_records = sending  # type: ignore[method-assign]
    room.live.leader_log_starts = reading  # type: ignore[method-assign]
    room.live.on_send = [lambda: room.live.elect(2)]  # what was truncated no longer leads
    room.live.answers = [answer]
    assert room.carry_out().run.state == "done"
    assert steps[:3] == ["send", "read [4]", "send"]
    assert [leader for leader, _, _ in room.live.sent] == [1, 2]
    room.journal.close()


@pytest.mark.parametrize("wish", ["cancel", "pause"])
def test_a_wish_takes_effect_before_the_next_request(room: Room, wish: str) -> None:
    run_id = room.queue(room.plan(), partitions_per_request=1)
    room.live.on_send = [lambda: room.journal.set_wish(run_id, wish, "ann", NOW)]
    for part in room.live.parts.values():
        part.leader_id = 1
    execution, sent_when_held = room.execution(run_id), []

    def sleep(seconds: float) -> None:
        sent_when_held.append(len(room.live.sent))
        room.clock.sleep(seconds)
        with suppress(RefusedError):  # after a cancel nobody resumes
            room.journal.set_wish(run_id, None, "ann", room.clock.now)

    execution.sleep = sleep
    state = execution.execute()
    rows = room.journal.partitions(run_id)
    assert rows[0].state == "done"  # what was sent was read
    if wish == "cancel":
        assert (state, len(room.live.sent)) == ("cancelled", 1)
        assert {r.error for r in rows[1:]} == {"CANCELLED"}
    else:
        assert (state, len(room.live.sent)) == ("done", 6)
        assert sent_when_held[0] == 1
