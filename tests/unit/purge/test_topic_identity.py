"""A leader that has another topic of that name is sent nothing, and its log proves nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

from dashboard.domain.model import TopicPartition, TopicState
from dashboard.purge.execute.readback import read_back
from dashboard.purge.execute.topic_identity import UNCERTAIN, doubts, doubts_of
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import KEY, TOPIC
from tests.unit.purge.room import WATCHED, Room


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.mark.further_but("id-of-the-next")
@pytest.mark.parametrize("said", ["id-of-the-next", "ANSWER_LOST"])
def test_metadata_of_a_broker_that_is_cut_off_is_not_enough_to_send(room: Room, said: str) -> None:
    plan = room.plan()
    room.live.leaders_say = said
    view = room.carry_out(plan)
    assert room.live.sent == []
    assert (view.partitions[0].state, view.partitions[0].error) == ("not_done", UNCERTAIN)
    assert said in str(view.partitions[0].message)


def test_a_leader_that_learns_in_time_is_sent_to(room: Room) -> None:
    plan = room.plan()
    room.live.leaders_say = "id-of-one-before"
    sleep = room.clock.sleep

    def learns(seconds: float) -> None:
        room.live.leaders_say = None
        sleep(seconds)

    room.clock.sleep = learns  # type: ignore[method-assign]
    assert room.carry_out(plan).run.state == "done"


def test_a_log_that_starts_at_its_target_is_proof_of_the_planned_topic_only(room: Room) -> None:
    plan = room.plan()
    room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}
    room.live.leaders_say = "id-of-the-next"
    assert room.carry_out(plan).partitions[0].error == UNCERTAIN


def test_records_of_another_topic_are_not_records_that_came_back(room: Room) -> None:
    view = room.carry_out()
    room.live.parts[KEY].starts = {1: 0, 2: 0, 3: 0}
    room.live.leaders_say = "id-of-the-next"
    after = room.watch(view)
    assert after.partitions[0].state == "done"
    assert room.clock.now - view.run.queued_at >= WATCHED, "watched to its end"
    room.live.leaders_say = None
    seen = read_back(room.live, {KEY: 60}, {TOPIC: "id-1"})[KEY]
    assert (seen.leader_log_start_offset, seen.error) == (0, None)


def test_a_follower_proves_nothing_by_the_log_of_another_topic(room: Room) -> None:
    """The leader is cut off and knows the planned topic; this follower has the next one already."""
    room.live.broker_says = {3: "id-of-the-next"}
    view = room.carry_out()
    (row,) = view.partitions
    assert (view.run.state, row.state) == ("partial", "leader_done")
    follower = next(f for f in row.followers if f.broker_id == 3)
    assert (follower.log_start_offset, follower.arrived, follower.error) == (None, False, UNCERTAIN)
    room.live.broker_says = {}
    assert room.watch(view).partitions[0].state == "done"


def test_a_receipt_is_not_final_while_a_leader_may_start_below_the_target(room: Room) -> None:
    """It came back from a checkpoint, and does not know yet which topic it has."""
    view = room.carry_out()
    replica_watch = ReplicaWatch(
        room.live, room.journal, view.run, room.journal.plan(view.run.run_id), room.clock,
        room.clock.sleep,
    )  # fmt: skip
    replica_watch.step()
    room.clock.sleep(600)
    room.live.parts[KEY].starts[1] = 0
    room.live.broker_says = {1: "id-of-one-before"}
    assert replica_watch.step() is not None
    assert not room.journal.run(view.run.run_id).run.receipt_final
    room.live.broker_says = {}
    replica_watch.step()
    assert room.journal.run(view.run.run_id).partitions[0].state == "reverted"


NEWER: dict[int, tuple[int | None, int]] = {2: (2, 4)}


@pytest.mark.further_but("newer0")
@pytest.mark.parametrize("newer", [NEWER, {3: (2, 4)}, {2: (None, 4), 3: (None, 4)}])
def test_a_leader_that_is_cut_off_proves_nothing_once_another_broker_knows_a_newer_epoch(
    room: Room, newer: dict[int, tuple[int | None, int]]
) -> None:
    """Metadata, and what it says of its own log, are the ex-leader's; the real one has it all."""
    room.live.newer_views = newer
    room.live.answers = [7]  # REQUEST_TIMED_OUT: it truncated itself alone
    view = room.carry_out()
    (row,) = view.partitions
    assert room.live.parts[KEY].starts == {1: 60, 2: 0, 3: 0}
    assert (view.run.state, row.state, row.leader_log_start_offset) == ("partial", "unknown", None)
    assert read(room) == "LEADER_CHANGED"
    room.live.newer_views = {}
    room.live.elect(2)
    assert room.watch(view).partitions[0].state == "reverted"


@pytest.mark.parametrize("silent", [True, False])
def test_a_leader_counts_once_one_other_broker_of_its_replicas_knows_its_epoch(
    room: Room, silent: bool
) -> None:
    room.live.controllers = None  # ZooKeeper
    room.live.parts[KEY].starts = {1: 60, 2: 0, 3: 0}
    if silent:
        room.live.broker_says = {2: "ANSWER_LOST", 3: "ANSWER_LOST"}
    else:
        room.live.newer_views = {2: (3, 2), 3: (3, 2)}  # of long ago: cut off as well
    assert read(room) == "LEADER_UNCONFIRMED"
    for told in (room.live.broker_says, room.live.newer_views):
        told.pop(3, None)  # type: ignore[attr-defined]
    assert read(room) is None
    room.live.broker_says = {2: "ANSWER_LOST", 3: "ANSWER_LOST"}
    room.live.alive = {1}
    assert read(room) is None, "no other is there to be asked"


@pytest.mark.further_but("wait-all")
@pytest.mark.parametrize("mode", ["wait-all", "leader-only-verified"])
def test_two_that_are_cut_off_together_do_not_confirm_each_other(room: Room, mode: str) -> None:
    """The host is on their side: broker 2, which leads by now, and the controllers are not."""
    plan = room.plan()

    def split() -> None:
        room.live.broker_says, room.live.controllers = {2: "ANSWER_LOST"}, {2}

    room.live.on_send, room.live.answers = [split], [7]
    view = room.carry_out(plan, mode=mode)
    assert room.live.parts[KEY].starts == {1: 60, 2: 0, 3: 0}
    assert (view.run.state, view.partitions[0].state) == ("partial", "unknown")
    assert read(room) == "LEADER_UNCONFIRMED"
    room.live.broker_says, room.live.controllers = {}, {1, 2, 3}
    room.live.elect(2)
    assert room.watch(view).partitions[0].state == "reverted"


def test_all_that_hung_together_do_not_confirm_each_other_when_they_go_on(room: Room) -> None:
    """None of them has heard yet what the controllers decided meanwhile, nor of who lives."""
    room.live.parts[KEY].starts = {1: 60, 2: 0, 3: 0}
    assert read(room) is None
    room.live.controllers = set()
    assert read(room) == "LEADER_UNCONFIRMED", "all three name one epoch, which may be an old one"


def test_a_leader_that_reaches_the_controllers_counts_while_others_hang(room: Room) -> None:
    room.live.parts[KEY].starts = {1: 60, 2: 0, 3: 0}
    room.live.broker_says = {2: "ANSWER_LOST", 3: "ANSWER_LOST"}
    assert read(room) is None
    room.live.controllers = set()
    assert read(room) == "LEADER_UNCONFIRMED", "one of them may lead"
    room.live.alive = {1}
    assert read(room) == "LEADER_UNCONFIRMED", "also one that is gone, as it comes back (KIP-966)"
    room.live.controllers = {1}
    assert read(room) is None


def test_a_leader_whose_other_replicas_are_gone_is_confirmed_by_controllers(room: Room) -> None:
    """The ISR had shrunk to it before it was cut off: one of them is elected as it comes back."""
    plan = room.plan()

    def split() -> None:
        room.live.alive, room.live.controllers = {1}, set()
        room.live.broker_says = {2: "BROKER_UNREACHABLE", 3: "BROKER_UNREACHABLE"}

    room.live.on_send = [split]
    view = room.carry_out(plan, mode="leader-only-verified")
    assert (view.run.state, view.partitions[0].state) == ("partial", "unknown")


def test_what_is_known_to_be_done_needs_no_word_of_others(room: Room) -> None:
    room.live.controllers = set()
    room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}
    room.live.broker_says = {2: "ANSWER_LOST", 3: "ANSWER_LOST"}
    assert read(room, done=[KEY]) is None
    room.live.parts[KEY].starts[1] = 0
    assert read(room, done=[KEY]) == "LEADER_UNCONFIRMED", "it may not have come back"


def read(room: Room, done: Collection[TopicPartition] = ()) -> str | None:
    seen = read_back(room.live, {KEY: 60}, {TOPIC: "id-1"}, done)[KEY]
    assert (seen.error is None) == (seen.leader_log_start_offset is not None)
    return seen.error


class Counted(FakeCluster):
    """Keeps who was asked for what."""

    def __init__(self) -> None:
        super().__init__(2)
        self.asked: list[Mapping[int, Iterable[str]]] = []

    def topics_at(
        self, topics: Mapping[int, Iterable[str]]
    ) -> dict[int, dict[str, TopicState] | str]:
        self.asked.append(topics)
        return super().topics_at(topics)


def test_each_leader_is_asked_for_its_own_topics_and_nobody_for_none() -> None:
    live = Counted()
    assert doubts(live, {}, {TOPIC: "id-1"}) == {}
    leaders = {TopicPartition(TOPIC, 0): [1], TopicPartition(TOPIC, 1): [2]}
    assert doubts(live, leaders, {TOPIC: "id-1"}) == {}
    assert live.asked == [{1: {TOPIC}, 2: {TOPIC}}]
    assert set(doubts(live, leaders, {TOPIC: "id-0"})) == set(leaders)


def test_a_broker_that_has_another_topic_of_the_name_or_none_is_doubted_like_a_silent_one() -> None:
    planned, anew = (TopicState("orders", topic_id, False, (), None) for topic_id in ("1", "2"))
    views: dict[int, dict[str, TopicState] | str] = {
        1: {"orders": planned}, 2: {"orders": anew}, 3: "no answer", 4: {"orders": planned}, 5: {},
    }  # fmt: skip

    found = doubts_of(views, {TopicPartition("orders", 0): range(1, 7)}, {"orders": "1"})

    assert {*found[TopicPartition("orders", 0)]} == {2, 3, 5, 6}
