"""A run moves a dead group's offset once, after the records are gone, and proves it by reading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.purge import preview
from dashboard.core.errors import BrokerError, ClusterError, JournalError
from dashboard.purge.execute import carrying, stop_rules
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.links import append
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.plan import Plan
from dashboard.ui.purge import run_view
from tests.unit.purge.facts_of import KEY, NOW
from tests.unit.purge.room import Room, with_a_dead_group

WAIVED = (Waiver("dead", "gone", "ann", NOW, move=True),)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with with_a_dead_group(tmp_path) as made:
        yield made


def plan_of(room: Room) -> Plan:
    return room.plan(waivers=WAIVED)


def carry_out(room: Room, **change: Any) -> RunView:
    return room.carry_out(plan_of(room), **change)


def move(view: RunView) -> tuple[str, str | None]:
    return view.moves[0].state, view.moves[0].error


def kinds(room: Room) -> list[str]:
    return [e.kind for e in room.journal.entries()]


def test_the_offset_follows_to_the_target_after_the_records_are_gone(room: Room) -> None:
    starts: list[int] = []
    commit = room.live.commit_offsets

    def commit_offsets(*words: Any, **named: Any) -> Any:
        starts.append(room.live.parts[KEY].starts[1])
        return commit(*words, **named)

    room.live.commit_offsets = commit_offsets  # type: ignore[method-assign]
    view = carry_out(room)
    assert (view.run.state, view.exit_code, move(view)) == ("done", 0, ("moved", None))
    assert starts == [60]
    assert room.live.commits == [("dead", {KEY: 60})]
    assert room.live.offsets_of["dead"][0] == 60
    assert view.to_json()["moves"] == [
        {"group_id": "dead", "topic": "orders", "partition": 0, "from_offset": 10,
         "to_offset": 60, "state": "moved", "error": None, "message": None, "sent": True}
    ]  # fmt: skip
    found = [k for k in kinds(room) if k.startswith("move")]
    assert found == ["move-intent", "move-answer", "moves-read"]


def test_a_plan_without_moves_asks_for_none(room: Room) -> None:
    view = room.carry_out(room.plan(waivers=(Waiver("dead", "gone", "ann", NOW),)))
    assert (view.exit_code, view.moves, room.live.commits) == (0, (), [])
    assert view.to_json()["moves"] == []


def test_a_partition_that_was_not_purged_moves_nobody(room: Room) -> None:
    room.live.answers = [44]
    view = carry_out(room)
    assert (view.partitions[0].state, move(view)) == ("not_done", ("refused", "PARTITION_NOT_DONE"))
    assert room.live.commits == []


def test_records_that_are_back_before_the_move_keep_the_group_where_it_is(room: Room) -> None:
    room.live.answers = [7]
    groups, asked = room.live.groups, []

    def elect_at_the_second_listing(topics: Any) -> Any:
        asked.append(1)
        if len(asked) == 2:  # the first belongs to the recheck, the second to the move
            room.live.elect(2)
        return groups(topics)

    plan = plan_of(room)
    room.live.groups = elect_at_the_second_listing  # type: ignore[method-assign]
    view = room.carry_out(plan)
    assert move(view) == ("refused", "RECORDS_CAME_BACK")
    assert room.live.commits == []


def test_no_group_moves_to_where_nothing_lies_any_more(room: Room) -> None:
    """Retention went past the target since the plan: there it would not resume, but reset."""
    plan = plan_of(room)
    room.live.parts[KEY].starts = {1: 80, 2: 80, 3: 80}
    view = room.carry_out(plan)
    assert (view.partitions[0].state, move(view)) == ("done", ("refused", "TARGET_BELOW_LOG_START"))
    assert room.live.commits == []


@pytest.mark.parametrize(
    ("offset", "members", "state", "error"),
    [
        (20, 0, "refused", "OFFSET_CHANGED"),
        (60, 0, "moved", None),
        (75, 2, "moved", None),
    ],
)
def test_a_group_that_changed_since_the_plan_is_left_alone(
    room: Room, offset: int, members: int, state: str, error: str | None
) -> None:
    plan = plan_of(room)
    room.live.offsets_of["dead"] = {0: offset}
    room.live.members["dead"] = members
    view = room.carry_out(plan)
    assert (view.run.state, view.partitions[0].state) == ("done", "done")
    assert (view.exit_code, move(view)) == (0 if state == "moved" else 2, (state, error))
    assert room.live.commits == []
    assert room.live.offsets_of["dead"].get(0) == offset
    there = "1 there already" if state == "moved" else "1 refused"
    assert there in "".join(preview.made_moves(view.moves))
    stood = "0 of 1 offset moved to the target, 1 stood there or further before"
    assert (stood in run_view.moves_html(view.moves)) == (state == "moved")


def test_a_waived_group_whose_offset_was_deleted_since_the_plan_is_refused(room: Room) -> None:
    """It is to read all again, more than the plan said that it loses."""
    plan = plan_of(room)
    room.live.offsets_of["dead"] = {}
    view = room.carry_out(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "unread-by-group")
    assert (room.live.sent, room.live.commits) == ([], [])


def test_a_group_that_wakes_up_after_it_was_read_is_refused_by_its_coordinator(room: Room) -> None:
    room.live.commit_answers = ["UNKNOWN_MEMBER_ID"]
    view = carry_out(room)
    assert (view.run.state, move(view)) == ("done", ("refused", "GROUP_ALIVE"))


def test_a_lost_answer_is_read_and_not_sent_again(room: Room) -> None:
    room.live.commit_answers = ["lost"]
    view = carry_out(room)
    assert (move(view), view.moves[0].message) == (("moved", None), None)
    assert len(room.live.commits) == 1
    lost = next(e for e in room.journal.entries() if e.kind == "move-no-answer")
    assert lost.body["moves"][0]["state"] == "unknown"


@pytest.mark.further_but("NOT_COORDINATOR")
@pytest.mark.parametrize("answer", ["lost-before", "NOT_COORDINATOR", "unreachable"])
def test_a_commit_that_did_not_take_is_sent_again_after_reading(room: Room, answer: str) -> None:
    room.live.commit_answers = [answer]
    assert move(carry_out(room)) == ("moved", None)
    assert len(room.live.commits) == 2


@pytest.mark.further_but("NOT_COORDINATOR-NOT_COORDINATOR")
@pytest.mark.parametrize(
    ("answer", "error"),
    [("NOT_COORDINATOR", "NOT_COORDINATOR"), ("unreachable", "BROKER_UNREACHABLE")],
)
def test_a_move_that_never_takes_is_given_up_by_name(room: Room, answer: str, error: str) -> None:
    room.live.commit_answers = [answer] * 1000
    view = carry_out(room)
    assert (view.run.state, move(view)) == ("done", ("refused", error))
    assert room.live.offsets_of["dead"][0] == 10


def test_a_coordinator_that_moves_is_given_time_to_settle(room: Room) -> None:
    commit, settled = room.live.commit_offsets, NOW + timedelta(seconds=3)

    def commit_offsets(group_id: str, offsets: Any, **named: Any) -> Any:
        if room.clock.now < settled:
            return dict.fromkeys(offsets, "COORDINATOR_LOAD_IN_PROGRESS")
        return commit(group_id, offsets, **named)

    room.live.commit_offsets = commit_offsets  # type: ignore[method-assign]
    assert move(carry_out(room)) == ("moved", None)


def test_a_missing_right_is_named_and_not_tried_again(room: Room) -> None:
    room.live.commit_answers = ["GROUP_AUTHORIZATION_FAILED"]
    assert move(carry_out(room)) == ("refused", "GROUP_AUTHORIZATION_FAILED")
    assert len(room.live.commits) == 1


@pytest.mark.parametrize("lost", [True, False])
def test_offsets_that_cannot_be_read_leave_a_sent_move_unknown(room: Room, lost: bool) -> None:
    def hide(*_: Any, **__: Any) -> Any:
        room.live.incomplete, room.live.offsets_of = ("broker 2 is silent",), {"a": {0: 60}}
        if lost:
            raise BrokerError(1, "lost", "read", code="ANSWER_LOST")
        return {KEY: "REQUEST_TIMED_OUT"}

    room.live.commit_offsets = hide  # type: ignore[method-assign]
    view = carry_out(room)
    assert (view.exit_code, move(view)) == (2, ("unknown", "groups-incomplete"))
    assert room.clock.now - NOW >= timedelta(seconds=10)


def test_an_offset_that_a_coordinator_hides_is_not_taken_for_gone(room: Room) -> None:
    commit = room.live.commit_offsets

    def hide(*words: Any, **named: Any) -> Any:
        room.live.hidden = {"a", "dead"}
        return commit(*words, **named)

    room.live.commit_answers, room.live.commit_offsets = ["lost"], hide  # type: ignore[method-assign]
    assert move(carry_out(room)) == ("unknown", "groups-incomplete")


def test_no_offset_moves_while_the_list_of_groups_is_in_doubt(room: Room) -> None:
    """Another coordinator may know the group with members, or further on."""
    read = room.live.groups

    def in_doubt_once_the_records_are_gone(topics: Any, **flags: Any) -> Any:
        room.live.incomplete = ("groups are listed by brokers 1, 2",) if room.live.sent else ()
        return read(topics, **flags)

    room.live.groups = in_doubt_once_the_records_are_gone  # type: ignore[method-assign]
    assert move(carry_out(room)) == ("refused", "groups-incomplete")
    assert "move-intent" not in kinds(room)


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_worker_that_died_with_the_intent_is_followed_by_one_that_reads(
    room: Room, carried_out: bool
) -> None:
    run_id, commit = room.queue(plan_of(room)), room.live.commit_offsets

    def die(*words: Any, **named: Any) -> Any:
        if carried_out:
            commit(*words, **named)
        raise KeyboardInterrupt

    room.live.commit_offsets = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        room.execution(run_id).execute()
    assert room.journal.moves(run_id)[0].state == "unknown"
    room.live.commit_offsets = commit  # type: ignore[method-assign]
    room.execution(run_id).execute()
    assert move(room.journal.run(run_id)) == ("moved", None)
    assert len(room.live.commits) == 1


def test_no_move_is_sent_when_its_intent_cannot_be_written(room: Room) -> None:
    run_id = room.queue(plan_of(room))
    record = room.journal.record_moves

    def full(run: str, kind: str, *rest: Any, **details: Any) -> None:
        if kind == "move-intent":
            raise JournalError("database or disk is full", "free some")
        record(run, kind, *rest, **details)

    room.journal.record_moves = full  # type: ignore[method-assign]
    with pytest.raises(JournalError):
        room.execution(run_id).execute()
    assert room.live.commits == []
    assert room.journal.partitions(run_id)[0].state == "done"


@pytest.mark.parametrize("stop", ["CANCELLED", "READ_ONLY"])
def test_a_cancel_or_the_read_only_switch_holds_moves_back(room: Room, stop: str) -> None:
    run_id = room.queue(plan_of(room))

    def wish() -> None:
        if stop == "CANCELLED":
            room.journal.set_wish(run_id, "cancel", "ann", NOW)
        room.read_only = stop == "READ_ONLY"

    room.live.on_send = [wish]
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert (view.run.state, view.partitions[0].state) == ("done", "done")
    assert (view.exit_code, move(view), room.live.commits) == (2, ("refused", stop), [])


@pytest.mark.parametrize("moment", ["while its intent is written", "while connecting"])
def test_a_move_that_was_called_off_on_its_way_out_does_not_leave(room: Room, moment: str) -> None:
    """The journal may wait for half a minute; the coordinator is found, TLS, signing in."""
    run_id = room.queue(plan_of(room))
    record, commit = room.journal.record_moves, room.live.commit_offsets

    def cancel() -> None:
        room.journal.set_wish(run_id, "cancel", "ann", room.clock.now)

    def slow_journal(run: str, kind: str, *rest: Any, **details: Any) -> None:
        record(run, kind, *rest, **details)
        if kind == "move-intent":
            cancel()

    def slow_connection(*words: Any, **named: Any) -> Any:
        cancel()
        return commit(*words, **named)

    if moment == "while connecting":
        room.live.commit_offsets = slow_connection  # type: ignore[method-assign]
    else:
        room.journal.record_moves = slow_journal  # type: ignore[method-assign]
    room.execution(run_id).execute()
    assert (room.live.commits, room.live.offsets_of["dead"][0]) == ([], 10)
    assert move(room.journal.run(run_id)) == ("refused", "CANCELLED")
    found = [k for k in kinds(room) if k.startswith("move")]
    assert found == ["move-intent", "move-not-sent", "moves-refused"]


def test_a_move_waits_for_a_pause_that_began_while_connecting(room: Room) -> None:
    run_id, commit = room.queue(plan_of(room)), room.live.commit_offsets
    paused: list[list[Any]] = []

    def slow_connection(*words: Any, **named: Any) -> Any:
        if not paused:
            room.journal.set_wish(run_id, "pause", "ann", room.clock.now)
            paused.append(list(room.live.commits))
        return commit(*words, **named)

    def sleep(seconds: float) -> None:
        room.clock.sleep(seconds)
        if paused:
            paused.append(list(room.live.commits))
        if len(paused) == 5:
            room.journal.set_wish(run_id, None, "ann", room.clock.now)

    room.live.commit_offsets = slow_connection  # type: ignore[method-assign]
    execution = room.execution(run_id)
    execution.sleep = sleep
    assert execution.execute() == "done"
    assert paused[:5] == [[]] * 5
    assert move(room.journal.run(run_id)) == ("moved", None)


def test_a_pause_holds_moves_until_it_ends(room: Room) -> None:
    run_id, slept = room.queue(plan_of(room)), []
    room.live.on_send = [lambda: room.journal.set_wish(run_id, "pause", "ann", NOW)]
    execution = room.execution(run_id)

    def sleep(seconds: float) -> None:
        slept.append((room.journal.head(run_id).state, list(room.live.commits)))
        room.clock.sleep(seconds)
        if len(slept) == 200:  # longer than any timeout
            room.journal.set_wish(run_id, None, "ann", room.clock.now)

    execution.sleep = sleep
    assert execution.execute() == "done"
    assert all(found == ("paused", []) for found in slept[:200])
    assert move(room.journal.run(run_id)) == ("moved", None)


def test_records_that_come_back_later_name_the_group_that_will_skip_them(room: Room) -> None:
    room.live.answers = [7]
    view = carry_out(room, watch_for_ms=5_000)
    assert move(view) == ("moved", None)
    room.live.elect(2)
    after = room.watch(view)
    assert after.partitions[0].state == "reverted"
    assert "group dead was moved to 60 and will skip them" in str(after.partitions[0].message)


def test_a_run_that_never_reaches_its_cluster_moves_nobody(room: Room) -> None:
    run_id = room.queue(plan_of(room))
    error = ClusterError("no broker answers", "wait")
    stop_rules.close(room.journal, room.journal.head(run_id), "unreached", error, NOW)
    view = room.journal.run(run_id)
    assert (view.run.state, move(view)) == ("refused", ("refused", "CLUSTER_UNREACHABLE"))


def test_a_run_whose_plan_expired_before_it_began_moves_nobody(room: Room) -> None:
    run_id = room.queue(plan_of(room))
    room.clock.sleep(3600)
    carrying.carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: None, standards=lambda _: room.standards,
    )  # fmt: skip
    view = room.journal.run(run_id)
    assert (view.run.state, move(view)) == ("refused", ("refused", "PLAN_EXPIRED"))
    assert room.live.commits == []


def test_a_run_that_an_older_version_queued_is_still_carried_out(tmp_path: Path) -> None:
    room = Room(tmp_path)
    run_id = room.queue(room.plan())
    old = {"timeout_ms": 10_000, "partitions_per_request": 2, "requests_in_flight": 1,
           "watch_for_ms": 0, "canary": False}  # fmt: skip
    with room.journal.file.accepting() as db:
        db.execute("DROP TABLE run_moves")
        db.execute("UPDATE runs SET options=?", (json.dumps(old),))
        (queued,) = room.journal.entries()
        db.execute("DELETE FROM entries")
        append(db, run_id, "queued", {**queued.body, "options": json.dumps(old)}, NOW)
    room.journal.close()
    room.journal = Journal(tmp_path / "journal.sqlite")
    assert room.execution(run_id).execute() == "done"
    view = room.journal.run(run_id)
    assert (view.exit_code, view.moves, view.run.options.stop_on_isr_loss) == (0, (), True)
    assert room.journal.verify().ok
    room.journal.close()


def test_many_partitions_move_in_requests_of_the_allowed_size(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=5)
    room.live.offsets_of["dead"] = dict.fromkeys(range(5), 10)
    room.live.offsets_of["dead"][3] = 80  # past the target already: nothing to move there
    view = carry_out(room)
    assert [m.partition for m in view.moves] == [0, 1, 2, 4]
    assert [len(offsets) for _, offsets in room.live.commits] == [2, 2]
    assert room.live.offsets_of["dead"] == {0: 60, 1: 60, 2: 60, 3: 80, 4: 60}
    room.journal.close()
