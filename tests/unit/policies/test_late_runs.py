"""A run that was queued and never sent begins only while its policy still allows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.policies.switching import switch_off
from dashboard.policy_settings import Policy
from dashboard.purge.carrying import carry_out
from dashboard.purge.journal_rows import RunRow
from dashboard.purge.standards import standards
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom

TOPIC = "billing-sum-repartition"
OPEN_TILL_ONE = policy(REPARTITION + '\nwindows = ["Sun 12:00-13:00"]', "streams")
OPEN_TILL_HALF = policy(REPARTITION + '\nwindows = ["Sun 12:00-12:30"]', "streams")


def queued(room: ServiceRoom) -> ServiceRoom:
    """A service queued a run (it is Sunday, 12:00), and died before it sent anything."""
    room.live.topic(TOPIC)
    room.live.produce(TOPIC, 10)
    room.live.commit("billing", TOPIC)
    room.service(start=lambda _: None).turn()
    assert [run.state for run in room.runs()] == ["queued"]
    return room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = queued(ServiceRoom(tmp_path, OPEN_TILL_ONE))
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def taken_over(room: ServiceRoom, minutes: float) -> RunRow:
    """What the next service, so much later, makes of the first run."""
    room.clock.sleep(minutes * 60)
    room.service().turn()
    return room.runs()[0]


def off(room: ServiceRoom) -> None:
    switch_off(
        room.settings, room.journal, room.store, OPEN_TILL_ONE, who="eve", from_where="here",
        now=room.clock(),
    )  # fmt: skip


def refused(room: ServiceRoom, run: RunRow, code: str) -> None:
    """Nothing was sent, and the run and its partition say why."""
    assert room.live.sent == []
    assert (run.state, run.error and run.error["code"]) == ("refused", code)
    (row,) = room.journal.partitions(run.run_id)
    assert (row.state, row.error, row.was_sent) == ("not_done", code, False)
    assert run.error is not None
    assert row.message == run.error["message"]
    assert room.journal.busy_topics(room.live.id) == {}, "its topic is free again"


def test_it_begins_while_it_is_on_and_its_window_open(room: ServiceRoom) -> None:
    assert taken_over(room, 59).state == "done"
    assert room.live.log_start(TOPIC) == 10


def test_it_does_not_begin_once_the_policy_is_off(room: ServiceRoom) -> None:
    off(room)
    refused(room, taken_over(room, 1), "POLICY_OFF")


def test_it_does_not_begin_outside_its_window(room: ServiceRoom) -> None:
    refused(room, taken_over(room, 60), "OUTSIDE_WINDOW")


def test_it_does_not_begin_after_another_definition_was_switched_on(room: ServiceRoom) -> None:
    room.switch_on(policy(REPARTITION, "streams"))
    refused(room, taken_over(room, 1), "POLICY_CHANGED")


@pytest.mark.parametrize("policies", [(), (policy(REPARTITION, "streams"),)])
def test_it_does_not_begin_where_the_settings_no_longer_define_it(
    room: ServiceRoom, policies: tuple[Policy, ...]
) -> None:
    room.settings = replace(room.settings, policies=policies)
    refused(room, taken_over(room, 1), "POLICY_CHANGED")


def test_it_does_not_begin_with_a_plan_that_expired(tmp_path: Path) -> None:
    made = queued(ServiceRoom(tmp_path, policy(REPARTITION, "streams")))
    late = taken_over(made, 60)
    assert (late.state, late.error and late.error["code"]) == ("refused", "PLAN_EXPIRED")
    assert [run.state for run in made.runs()] == ["refused", "done"], "it plans anew"
    made.journal.close()


def resumed(room: ServiceRoom, minutes: float) -> RunRow:
    """A worker takes the run while it is paused; somebody resumes it so much later."""
    run_id, until = room.runs()[0].run_id, room.clock() + timedelta(minutes=minutes)
    room.journal.set_wish(run_id, "pause", "ann", room.clock())
    states = []

    def sleep(seconds: float) -> None:
        states.append(room.journal.head(run_id).state)
        room.clock.sleep(60)
        if room.clock() >= until:
            room.journal.set_wish(run_id, None, "ann", room.clock())

    run = carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=sleep, read_only=lambda: None,
        standards=lambda plan: standards(room.settings, room.store, plan.topic_ids, room.clock()),
        policies=lambda: room.settings.policies,
    )  # fmt: skip
    assert set(states) == {"paused"}
    return run


def test_one_that_was_paused_and_resumed_in_time_begins(room: ServiceRoom) -> None:
    assert resumed(room, 58).state == "done"
    assert room.live.log_start(TOPIC) == 10


def test_one_that_was_paused_is_not_begun_after_its_window(tmp_path: Path) -> None:
    made = queued(ServiceRoom(tmp_path, OPEN_TILL_HALF))
    refused(made, resumed(made, 31), "OUTSIDE_WINDOW")
    made.journal.close()


@pytest.mark.parametrize("arrived", [True, False])
def test_one_whose_request_may_have_left_is_read_to_its_end_and_not_sent_again(
    room: ServiceRoom, arrived: bool
) -> None:
    run_id = room.runs()[0].run_id
    (row,) = room.journal.partitions(run_id)
    leaving = replace(
        row, state="sent", attempts=1, sent_at=room.clock(), sent_leader_id=1, sent_leader_epoch=1
    )
    room.journal.record(run_id, "intent", [leaving], room.clock())
    if arrived:
        room.live.parts[row.key].starts = dict.fromkeys(room.live.parts[row.key].starts, 10)
    off(room)
    assert taken_over(room, 120).state == ("done" if arrived else "partial")
    assert room.live.log_start(TOPIC) == (10 if arrived else 0)
    assert room.live.sent == []
