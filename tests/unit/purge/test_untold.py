"""What could not be read is not "no": moves to other log dirs, reassignments, who is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.core.errors import ClusterError
from dashboard.domain.model import ReplicaSize, TopicPartition
from dashboard.purge.journal.rows import PartitionRow, RunView
from dashboard.purge.plan.guards import Override
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room

LEADER = 1
MOVE, REASSIGNING = "leader-log-dir-move", "reassigning"
LOST = "the log dirs of broker 1 cannot be read (ANSWER_LOST)"
NO_RIGHT = "CLUSTER_AUTHORIZATION_FAILED"


class Silent(FakeCluster):
    """Brokers that do not list their replicas; the leader's may be on its way to `moves_to`."""

    def __init__(self) -> None:
        super().__init__()
        self.unlisted: set[int] = set()
        self.moves_to: str | None = None  # the leader's future replica

    def _sizes(self) -> list[ReplicaSize]:
        told = [r for r in super()._sizes() if r.broker_id not in self.unlisted]
        future = [r for r in told if self.moves_to and r.broker_id == LEADER]
        return told + [replace(r, log_dir=str(self.moves_to), is_future=True) for r in future]


def no_controller(live: Silent, code: str) -> None:
    """Who would list reassignments answers with this error."""
    error = ClusterError("reassignments cannot be listed", "", code=code)
    live.failing["reassignments"] = error


@pytest.fixture
def live() -> Silent:
    return Silent()


@pytest.fixture
def room(tmp_path: Path, live: Silent) -> Iterator[Room]:
    made = Room(tmp_path)
    made.live = live
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def guards(room: Room, *overrides: Override) -> list[tuple[str, str]]:
    (partition,) = room.plan(overrides=overrides).partitions
    return [(guard.name, guard.reason) for guard in partition.guards]


def lifted(name: str) -> Override:
    return Override(name, None, "known", "ann", NOW)


def only(view: RunView) -> PartitionRow:
    (row,) = view.partitions
    return row


@pytest.mark.parametrize("error", ["ANSWER_LOST", "API_UNSUPPORTED", NO_RIGHT])
def test_a_leader_whose_log_dirs_cannot_be_read_may_be_moving(
    room: Room, live: Silent, error: str
) -> None:
    live.dir_errors[LEADER] = error
    assert guards(room) == [
        (
            MOVE,
            "Whether the leader is moving the partition to another log dir cannot be told: the log "
            f"dirs of broker 1 cannot be read ({error}). Lifted, the purge is leader_done at most "
            "until it can be.",
        )
    ]
    assert guards(room, lifted(MOVE)) == []


def test_a_leader_that_nobody_asked_may_be_moving(room: Room, live: Silent) -> None:
    """It is not in the metadata of the broker that was asked, so it stands in no error either."""
    live.unlisted = {LEADER}
    ((name, reason),) = guards(room)
    assert (name, "broker 1 does not list the replica" in reason) == (MOVE, True)


def test_followers_that_do_not_tell_hold_nothing_back(room: Room, live: Silent) -> None:
    live.dir_errors = {2: "ANSWER_LOST", 3: "ANSWER_LOST"}
    assert guards(room) == []
    assert only(room.carry_out()).state == "done"


def test_a_reassignment_that_no_controller_tells_of_may_be_under_way(
    room: Room, live: Silent
) -> None:
    no_controller(live, "REASSIGNMENTS_UNKNOWN")
    ((name, reason),) = guards(room)
    assert (name, "cannot be told: reassignments cannot be listed" in reason) == (REASSIGNING, True)
    assert guards(room, lifted(REASSIGNING)) == []
    # Without the right the list of groups is incomplete, and that guard is never lifted.
    no_controller(live, NO_RIGHT)
    live.incomplete = ("no DESCRIBE right on the cluster",)
    assert [name for name, _ in guards(room)] == ["groups-incomplete"]


def hide(live: Silent, name: str) -> None:
    if name == MOVE:
        live.dir_errors[LEADER] = "ANSWER_LOST"
    else:
        no_controller(live, "REASSIGNMENTS_UNKNOWN")


def tell(live: Silent) -> None:
    live.dir_errors, live.failing = {}, {}


@pytest.mark.further
@pytest.mark.parametrize("name", [MOVE, REASSIGNING])
def test_before_sending_it_is_asked_again_until_the_run_gives_up(
    room: Room, live: Silent, name: str
) -> None:
    plan = room.plan()
    hide(live, name)
    view = room.carry_out(plan)
    assert (view.run.state, only(view).state, only(view).error) == ("refused", "not_done", name)
    assert "cannot be told" in str(only(view).message)
    assert live.sent == []


@pytest.mark.parametrize("name", [MOVE, REASSIGNING])
def test_once_it_is_told_the_run_goes_on(room: Room, live: Silent, name: str) -> None:
    run_id = room.queue(room.plan())
    hide(live, name)
    execution = room.execution(run_id)
    execution.sleep = passing(room, lambda: tell(live))
    assert execution.execute() == "done"
    assert len(live.sent) == 1


def passing(room: Room, meanwhile: Callable[[], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        room.clock.sleep(seconds)
        meanwhile()

    return sleep


def test_a_leader_that_tells_nothing_after_it_was_purged_is_leader_done_until_it_does(
    room: Room, live: Silent
) -> None:
    live.on_send = [lambda: hide(live, MOVE)]
    view = room.carry_out()
    row = only(view)
    assert (view.run.state, row.state, row.low_watermark) == ("partial", "leader_done", None)
    assert row.message == (
        f"whether the leader moves its replica to another log dir cannot be told: {LOST}"
    )
    tell(live)
    view = room.watch(view)
    assert (view.run.state, only(view).state, only(view).message) == ("done", "done", None)


def test_what_was_told_once_is_not_taken_back_by_silence(room: Room, live: Silent) -> None:
    view = room.carry_out()
    assert only(view).state == "done"
    hide(live, MOVE)
    view = room.watch(view)
    assert (view.run.state, only(view).state) == ("done", "done")


def test_who_lifts_the_guard_ends_at_leader_done(room: Room, live: Silent) -> None:
    live.dir_errors[LEADER] = NO_RIGHT
    view = room.carry_out(room.plan(overrides=(lifted(MOVE),)))
    assert (view.run.state, only(view).state) == ("partial", "leader_done")
    assert NO_RIGHT in str(only(view).message)


def test_a_follower_that_any_broker_calls_alive_is_waited_for(room: Room, live: Silent) -> None:
    """The broker that tells metadata is cut off, and has not heard that broker 3 is back."""

    def arrive() -> None:
        live.alive = {1, 2}
        live.alive_to_others = {3}
        live.parts[TopicPartition(TOPIC, 0)].starts[2] = 60

    run_id = room.queue(room.plan())
    live.answers = [7]  # the request times out, since broker 3 has not arrived
    live.on_send = [arrive]
    room.execution(run_id).execute()
    row = only(room.journal.run(run_id))
    assert (row.state, [(f.broker_id, f.alive) for f in row.followers]) == (
        "leader_done", [(2, True), (3, True)],
    )  # fmt: skip
    live.alive_to_others = set()  # now every broker calls it dead
    assert only(room.watch(room.journal.run(run_id))).state == "done"


@pytest.mark.further
def test_who_accepts_a_move_has_not_accepted_that_nobody_can_tell(room: Room, live: Silent) -> None:
    live.moves_to = "/d2"
    plan = room.plan(overrides=(lifted(MOVE),))
    assert [found.name for found in plan.partitions[0].lifted] == [MOVE]
    live.dir_errors = {LEADER: "ANSWER_LOST"}
    row = only(room.carry_out(plan))
    assert (row.state, row.error, live.sent) == ("not_done", MOVE, [])
