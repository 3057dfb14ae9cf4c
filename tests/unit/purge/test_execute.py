"""A run decides by what it read: lost answers, elections, stalls, wishes, dead workers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import ClusterError, JournalError
from dashboard.purge.execute import stop_rules
from dashboard.purge.execute.states import doubtful
from dashboard.purge.execute.stop_rules import Holding
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.guards import Override
from tests.unit.purge.facts_of import KEY, NOW
from tests.unit.purge.room import Room


def row(view: RunView) -> tuple[str, str | None]:
    return view.partitions[0].state, view.partitions[0].error


def test_a_quiet_cluster_is_purged_in_one_request(room: Room) -> None:
    view = room.carry_out()
    assert (view.run.state, row(view)) == ("done", ("done", None))
    assert room.live.sent == [(1, {KEY: 60}, 10_000)]


def test_a_lost_answer_is_read_and_not_sent_again(room: Room) -> None:
    room.live.answers = ["lost"]
    view = room.carry_out()
    assert row(view) == ("leader_done", "ANSWER_LOST")
    assert len(room.live.sent) == 1


def test_a_request_lost_on_its_way_is_sent_again_after_reading(room: Room) -> None:
    room.live.answers = ["lost-before"]
    assert row(room.carry_out()) == ("done", None)
    assert len(room.live.sent) == 2


def test_requests_that_never_truncate_are_given_up(room: Room) -> None:
    room.live.answers = ["lost-before"] * 20
    view = room.carry_out()
    assert row(view) == ("not_done", "ANSWER_LOST")
    assert view.run.state == "partial"
    assert len(room.live.sent) == 4


@pytest.mark.further_but("1")
@pytest.mark.parametrize("code", [1, 17, 29, 44])
def test_a_request_that_a_hung_leader_kept_is_watched_for_though_the_next_refused(
    room: Room, code: int
) -> None:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", code]
    view = room.carry_out()
    assert (view.run.state, row(view)) == ("partial", ("not_done", f"E{code}"))
    assert [leader for leader, _, _ in room.live.sent] == [1, 2], "refused, it is not repeated"
    room.live.elect(1)
    room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}  # the old leader carried the first one out
    after = room.watch(view)
    assert (after.run.state, row(after)) == ("done", ("done", None))


@pytest.mark.parametrize("code", [1, 17, 29, 44])
def test_an_error_that_proves_nothing_moved_ends_it(room: Room, code: int) -> None:
    room.live.answers = [code]
    view = room.carry_out()
    assert row(view) == ("not_done", f"E{code}")
    assert (view.exit_code, len(room.live.sent)) == (2, 1)


def test_a_new_leader_is_asked_after_not_leader(room: Room) -> None:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before"]
    view = room.carry_out()
    assert row(view) == ("done", None)
    assert [leader for leader, _, _ in room.live.sent] == [1, 2]


def test_offsets_that_a_new_epoch_reused_are_refused(room: Room) -> None:
    plan = room.plan()
    room.live.elect(2)
    room.live.parts[KEY].epoch_ends[3] = 59
    view = room.carry_out(plan)
    assert (view.run.state, row(view)) == ("refused", ("not_done", "offsets-reused"))
    assert room.live.sent == []


def test_a_changed_epoch_alone_is_no_refusal(room: Room) -> None:
    plan = room.plan()
    room.live.elect(2)
    assert room.carry_out(plan).run.state == "done"


def test_a_timeout_leaves_the_leader_done_and_the_followers_named(room: Room) -> None:
    room.live.answers = [7]
    view = room.carry_out()
    assert (view.run.state, row(view)) == ("partial", ("leader_done", "E7"))
    assert view.partitions[0].to_json()["followers_behind"] == [2, 3]


def test_a_leader_elected_after_a_timeout_brings_records_back(room: Room) -> None:
    room.live.answers = [7]
    view = room.carry_out()
    room.live.elect(2)
    after = room.watch(view)
    assert row(after) == ("reverted", "RECORDS_CAME_BACK")
    assert after.run.state == "partial"
    assert after.to_json()["receipt"]["final"] is True, "watching has ended"
    assert "records came back" in after.to_json()["receipt"]["gap"]


def test_followers_that_arrive_make_it_done_and_the_receipt_final(room: Room) -> None:
    room.live.answers = [7]
    view = room.carry_out()
    room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}
    after = room.watch(view)
    assert (after.run.state, row(after)) == ("done", ("done", None))
    receipt = after.to_json()["receipt"]
    assert (receipt["final"], receipt["freed_bytes"]) == (True, 3 * 60_000)


@pytest.mark.further
def test_a_dead_replica_is_watched_for_to_the_end_and_then_named(room: Room) -> None:
    view = room.carry_out()
    room.live.alive = {1, 2}
    until = room.journal.run(view.run.run_id).run.watched_until
    after = room.watch(view)
    assert until is not None and room.clock.now >= until
    assert after.partitions[0].state == "done"
    assert after.to_json()["receipt"]["final"] is True
    assert "broker 3 have not arrived" in after.to_json()["receipt"]["gap"]
    assert after.to_json()["receipt"]["calibration"] == []


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"])
def test_a_dead_replica_stays_named_when_the_topic_cannot_be_read_any_more(
    room: Room, error: str
) -> None:
    """It keeps the records, whether or not we may still see the topic."""
    view = room.carry_out()
    room.live.parts[KEY].starts[3] = 0
    room.live.alive = {1, 2}
    watching = room.watching(view)
    for _ in range(3):
        watching.step()
        room.clock.sleep(60)
    room.live.topic_errors["orders"] = error
    while watching.step() is not None:
        room.clock.sleep(60)
    after = room.journal.run(view.run.run_id)
    assert after.partitions[0].to_json()["dead_replicas"] == [3]
    assert row(after) == ("done", None)
    receipt = after.to_json()["receipt"]
    assert receipt["arrived_at"] is None
    assert "broker 3 have not arrived" in receipt["gap"]


def test_watching_ends_when_the_cluster_is_gone_and_may_be_taken_up_again(room: Room) -> None:
    view = room.carry_out()
    topics = room.live.topics

    def gone(*_: Any) -> Any:
        raise ClusterError("no broker answers", "wait")

    room.live.topics = gone  # type: ignore[method-assign]
    began = room.clock.now
    after = room.watch(view)
    assert room.clock.now - began < timedelta(minutes=2)
    assert [e.kind for e in room.journal.entries()].count("unread") == 1
    assert after.partitions[0].state == "done"
    room.live.topics = topics  # type: ignore[method-assign]
    assert room.watch(view).to_json()["receipt"]["final"]


@pytest.mark.further_but(
    "change0-topic-id-changed",
    "change1-topic-id-changed",
    "change2-TOPIC_AUTHORIZATION_FAILED",
    "change3-cluster-mismatch",
    "change4-unread-by-group",
    "change5-unread-by-group",
    "change6-no-committed-offset",
)
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"topic_id": "id-2"}, "topic-id-changed"),
        ({"topic_errors": {"orders": "UNKNOWN_TOPIC_OR_PARTITION"}}, "topic-id-changed"),
        ({"topic_errors": {"orders": "TOPIC_AUTHORIZATION_FAILED"}}, "TOPIC_AUTHORIZATION_FAILED"),
        ({"id": "cluster-2"}, "cluster-mismatch"),
        ({"offsets_of": {"a": {0: 60}, "b": {0: 7}}}, "unread-by-group"),
        ({"offsets_of": {"a": {0: 59}}}, "unread-by-group"),
        ({"offsets_of": {}}, "no-committed-offset"),  # who is listed no more was deleted
        ({"incomplete": ("broker 2 is silent",)}, "groups-incomplete"),
    ],
)
def test_what_changed_since_the_plan_is_refused_before_sending(
    room: Room, change: dict[str, Any], error: str
) -> None:
    plan = room.plan()
    for name, value in change.items():
        setattr(room.live, name, value)
    view = room.carry_out(plan)
    assert (view.run.state, view.exit_code, row(view)) == ("refused", 3, ("not_done", error))
    assert room.live.sent == []


def test_a_coordinator_that_hides_the_topic_stops_planning(room: Room) -> None:
    """Group b stands at 50, which its coordinator leaves out by its own copy of the ACLs."""
    room.live.offsets_of, room.live.hidden = {"a": {0: 90}, "b": {0: 50}}, {"b"}
    (partition,) = room.plan().partitions

    assert [g.name for g in partition.guards] == ["groups-incomplete"]
    assert room.live.sent == []


@pytest.mark.further
def test_a_coordinator_that_begins_to_hide_the_topic_stops_the_last_look(room: Room) -> None:
    plan = room.plan()
    room.live.offsets_of["b"], room.live.hidden = {0: 7}, {"b"}

    assert row(room.carry_out(plan)) == ("not_done", "groups-incomplete")
    assert room.live.sent == []


def test_a_transaction_opened_below_the_target_is_refused(room: Room) -> None:
    plan = room.plan()
    room.live.parts[KEY].last_stable_offset = 59
    assert row(room.carry_out(plan)) == ("not_done", "beyond-last-stable-offset")


def test_an_accepted_group_that_moved_back_is_refused(room: Room) -> None:
    lifted = Override("unread-by-group", None, "why", "ann", NOW)
    plan = room.plan("offset:80", (lifted,))
    room.live.offsets_of["a"][0] = 10
    assert row(room.carry_out(plan)) == ("not_done", "unread-by-group")


def test_coordinators_that_come_back_in_time_are_waited_for(room: Room) -> None:
    plan, asked = room.plan(), []
    listing = room.live.groups

    def groups(topics: Any) -> Any:
        asked.append(1)
        room.live.incomplete = ("broker 2 is silent",) if len(asked) < 4 else ()
        return listing(topics)

    room.live.groups = groups  # type: ignore[method-assign]
    assert room.carry_out(plan).run.state == "done"


def test_a_log_start_past_the_target_leaves_nothing_to_send(room: Room) -> None:
    plan = room.plan()
    room.live.parts[KEY].starts = {1: 70, 2: 70, 3: 70}
    view = room.watch(room.carry_out(plan))
    assert (view.run.state, room.live.sent) == ("done", [])
    assert view.to_json()["receipt"]["freed_bytes"] == 0


def test_a_leader_that_stays_away_ends_in_unknown_never_in_a_guess(room: Room) -> None:
    room.live.answers = ["lost"]
    room.live.on_send = [lambda: room.live.elect(None)]
    view = room.carry_out()
    assert (view.run.state, row(view)[0]) == ("partial", "unknown")
    assert room.clock.now - NOW >= timedelta(seconds=10)


@pytest.mark.parametrize("state", ["unknown", "sent"])
def test_a_run_closed_while_nobody_answered_is_read_by_its_watch(room: Room, state: str) -> None:
    """Also one that an earlier release closed, which left such a partition `sent`."""

    def silent(_: Any) -> Any:
        raise ClusterError("nobody answers", "Look at the brokers.", code="BROKERS_UNREACHABLE")

    heard = room.live.topics
    room.live.on_send = [lambda: setattr(room.live, "topics", silent)]
    view = room.carry_out()
    assert (view.run.state, row(view)) == ("partial", ("unknown", "BROKERS_UNREACHABLE"))
    room.journal.note(view.run.run_id, [replace(view.partitions[0], state=state)])
    room.live.topics = heard  # type: ignore[method-assign]
    assert room.watch(view).run.state == "done"


def test_a_clock_that_is_set_back_prolongs_no_patience(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause, pauses = room.clock.sleep, iter([timedelta(minutes=5)])

    def set_back(seconds: float) -> None:
        pause(seconds)
        room.clock.now -= next(pauses, timedelta(0))

    monkeypatch.setattr(room.clock, "sleep", set_back)
    room.live.answers, room.live.on_send = ["lost"], [lambda: room.live.elect(None)]
    assert row(room.carry_out())[0] == "unknown"
    assert room.clock.steady() < 60


def test_an_unreachable_leader_got_nothing_and_is_given_up(room: Room) -> None:
    room.live.answers = ["unreachable"] * 100
    view = room.carry_out()
    assert (view.run.state, row(view)) == ("refused", ("not_done", "BROKER_UNREACHABLE"))


@pytest.mark.further
@pytest.mark.parametrize("code", ["AUTHENTICATION_FAILED", "TLS_FAILED", "API_UNSUPPORTED"])
def test_what_never_left_counts_as_not_sent(room: Room, code: str) -> None:
    """The purge's own connection is a new one: a password may have changed since the others."""
    room.live.answers = [code] * 100
    view = room.carry_out()
    assert (view.run.state, view.exit_code, row(view)) == ("refused", 3, ("not_done", code))
    assert (view.partitions[0].was_sent, view.partitions[0].attempts) == (False, 0)


def test_a_follower_that_leaves_after_a_refused_sign_in_still_holds_the_first_request(
    room: Room,
) -> None:
    room.live.answers = ["AUTHENTICATION_FAILED"]
    room.live.on_send = [lambda: setattr(room.live.parts[KEY], "isr", (1, 2))]
    view = room.carry_out()
    assert (view.run.state, view.partitions[0].was_sent) == ("refused", False)
    assert room.live.parts[KEY].starts == {1: 0, 2: 0, 3: 0}


def test_a_worker_that_died_after_sending_is_followed_by_one_that_reads(room: Room) -> None:
    run_id = room.queue(room.plan())
    room.live.on_send = [lambda: (_ for _ in ()).throw(KeyboardInterrupt)]
    with pytest.raises(KeyboardInterrupt):
        room.execution(run_id).execute()
    assert room.journal.partitions(run_id)[0].state == "sent"
    room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}  # it had been carried out
    room.execution(run_id).execute()
    assert room.journal.run(run_id).run.state == "done"
    assert len(room.live.sent) == 1


def test_nothing_is_sent_when_the_intent_cannot_be_written(room: Room) -> None:
    run_id = room.queue(room.plan())

    def full(*_: Any, **__: Any) -> Any:
        raise JournalError("database or disk is full", "free some")

    room.journal.intend = full  # type: ignore[method-assign]
    with pytest.raises(JournalError):
        room.execution(run_id).execute()
    assert room.live.sent == []
    assert room.journal.partitions(run_id)[0].state == "pending"


@pytest.mark.parametrize("stop", ["cancel", "read-only"])
def test_what_is_not_sent_is_cancelled(room: Room, stop: str) -> None:
    run_id = room.queue(room.plan())
    room.read_only = stop == "read-only"
    if stop == "cancel":
        room.journal.set_wish(run_id, "cancel", "ann", NOW)
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert view.run.state == "cancelled"
    assert row(view) == ("not_done", "CANCELLED" if stop == "cancel" else "READ_ONLY")
    assert room.live.sent == []


@pytest.mark.parametrize("readable", [True, False])
def test_a_request_that_took_effect_since_it_was_read_is_not_called_not_done(
    room: Room, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """The leader was below the target; by the time of the cancel the one that truncated leads."""
    room.live.answers = ["lost-before"]
    run_id = room.queue(room.plan())
    asked = Holding.asked

    def ask(holding: Holding) -> str | None:
        if room.live.sent:
            room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}
            room.journal.set_wish(run_id, "cancel", "ann", NOW)
            if not readable:
                room.live.elect(None)
        return asked(holding)

    monkeypatch.setattr(Holding, "asked", ask)
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert row(view) == (("done", None) if readable else ("unknown", "CANCELLED"))
    room.live.elect(1)
    assert row(room.watch(view))[0] == "done"
    assert "not_done" not in str([entry.body for entry in room.journal.entries()])


def test_a_paused_run_sends_nothing_until_it_is_resumed(room: Room) -> None:
    run_id = room.queue(room.plan())
    room.journal.set_wish(run_id, "pause", "ann", NOW)
    execution, slept = room.execution(run_id), []

    def sleep(seconds: float) -> None:
        slept.append(room.journal.run(run_id).run.state)
        room.clock.sleep(seconds)
        if len(slept) == 200:  # longer than any timeout: a pause is nobody's fault
            room.journal.set_wish(run_id, None, "ann", room.clock.now)

    execution.sleep = sleep
    assert execution.execute() == "done"
    assert set(slept) == {"paused"}


def test_requests_hold_no_more_partitions_than_settings_allow(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=5)
    assert room.carry_out().run.state == "done"
    assert sorted(len(targets) for _, targets, _ in room.live.sent) == [1, 2, 2]
    room.journal.close()


@pytest.mark.parametrize(
    ("mode", "timeout"), [("leader-only", 10_000), ("leader-only-verified", 0)]
)
def test_in_the_leader_modes_a_leader_at_the_target_is_success(
    room: Room, mode: str, timeout: int
) -> None:
    room.live.answers = [7]
    view = room.carry_out(mode=mode)
    assert (view.run.state, view.exit_code, row(view)) == ("done", 0, ("leader_done", None))
    assert room.live.sent == [(1, {KEY: 60}, timeout)]


def test_a_leader_that_speaks_no_leader_only_was_sent_nothing(room: Room) -> None:
    room.live.leader_only_brokers = set()
    view = room.carry_out(mode="leader-only")
    assert (view.run.state, view.exit_code) == ("refused", 3)
    assert row(view) == ("not_done", "UNSUPPORTED_VERSION")
    assert view.partitions[0].sent_at is None
    assert view.run.watched_until == view.run.closed_at
    assert room.live.sent == []


def test_a_repetition_that_a_new_leader_cannot_be_sent_leaves_the_first_request_in_doubt(
    room: Room,
) -> None:
    """The first one may lie with the broker that led before, and lead again."""
    room.live.answers = ["lost-before"]

    def older() -> None:
        room.live.leader_only_brokers = set()

    room.live.on_send = [older]
    view = room.carry_out(mode="leader-only")
    assert (view.run.state, row(view)) == ("partial", ("not_done", "UNSUPPORTED_VERSION"))
    assert view.partitions[0].sent_at is not None
    assert doubtful(view.partitions[0])


def test_a_run_that_is_done_later_forgets_why_it_closed_early(room: Room) -> None:
    class Killed(BaseException):
        pass

    def killed() -> None:
        raise Killed

    run_id = room.queue(room.plan())
    room.live.on_send = [killed]
    with pytest.raises(Killed):
        room.execution(run_id).execute()
    room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}  # it had left
    away = ClusterError("no broker answers", "Check the address.")
    stop_rules.close(room.journal, room.journal.head(run_id), "unreached", away, room.clock.now)
    closed = room.journal.run(run_id)
    assert closed.run.error is not None and closed.run.state == "partial"
    after = room.watch(closed)
    assert (after.run.state, after.exit_code, after.run.error) == ("done", 0, None)
    assert room.journal.verify().ok
