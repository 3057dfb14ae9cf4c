"""A policy's run begins, and goes on sending, only while its policy still allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import SettingsError
from dashboard.domain.model import TopicPartition
from dashboard.policies.service.switching import switch_off
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.journal.rows import PartitionRow, RunRow
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
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
        room.settings, room.journal, room.store, OPEN_TILL_ONE.name, who="eve", from_where="here",
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


@pytest.mark.further_but("policies0")
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

    run = carried(room, run_id, sleep)
    assert set(states) == {"paused"}
    return run


def carried(
    room: ServiceRoom,
    run_id: str,
    sleep: Callable[[float], None],
    policies: Callable[[], Sequence[Policy]] | None = None,
) -> RunRow:
    return carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=sleep, read_only=lambda: None,
        standards=lambda plan: standards(room.settings, room.store, plan.topic_ids, room.clock()),
        policies=policies or (lambda: room.settings.policies),
    )  # fmt: skip


def test_one_that_was_paused_and_resumed_in_time_begins(room: ServiceRoom) -> None:
    assert resumed(room, 58).state == "done"
    assert room.live.log_start(TOPIC) == 10


def test_one_that_was_paused_is_not_begun_after_its_window(tmp_path: Path) -> None:
    made = queued(ServiceRoom(tmp_path, OPEN_TILL_HALF))
    refused(made, resumed(made, 31), "OUTSIDE_WINDOW")
    made.journal.close()


ENDS = pytest.mark.parametrize(
    ("end", "code"), [("off", "POLICY_OFF"), ("undefined", "POLICY_CHANGED")]
)


def ended(room: ServiceRoom, end: str) -> None:
    """Somebody switches the policy off, or takes its definition out of the settings."""
    if end == "off":
        off(room)
    else:
        room.settings = replace(room.settings, policies=())


def leaving(room: ServiceRoom, run_id: str) -> PartitionRow:
    """The worker died between the intent of the first partition and its request, or after that."""
    row = room.journal.partitions(run_id)[0]
    sent = replace(
        row, state="sent", attempts=1, sent_at=room.clock(), sent_leader_id=1, sent_leader_epoch=3
    )
    room.journal.record(run_id, "intent", [sent], room.clock())
    return sent


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[ServiceRoom]:
    """A queued run of three partitions, each of which travels in a request of its own."""
    one_each = replace(Settings().purge, partitions_per_request=1, requests_in_flight=1)
    made = ServiceRoom(tmp_path, OPEN_TILL_ONE)
    made.settings = replace(made.settings, purge=one_each)
    made.live.topic(TOPIC, 3)
    for n in range(3):
        made.live.produce(TOPIC, 10, n)
        made.live.commit("billing", TOPIC, n)
    made.service(start=lambda _: None).turn()
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def outcomes(room: ServiceRoom, run_id: str) -> list[tuple[str, str | None, bool]]:
    return [(r.state, r.error, r.was_sent) for r in room.journal.partitions(run_id)]


@pytest.mark.further_but("True-off-POLICY_OFF")
@ENDS
@pytest.mark.parametrize("arrived", [True, False])
def test_one_whose_request_may_have_left_is_read_to_its_end_and_not_sent_again(
    wide: ServiceRoom, arrived: bool, end: str, code: str
) -> None:
    """Nor is what it never sent: its worker died, and the next one follows within a minute."""
    run_id = wide.runs()[0].run_id
    row = leaving(wide, run_id)
    if arrived:
        wide.live.parts[row.key].starts = dict.fromkeys(wide.live.parts[row.key].starts, 10)
    ended(wide, end)
    run = taken_over(wide, 1)
    assert (run.state, run.error and run.error["code"]) == ("partial", code)
    first = ("done", None, True) if arrived else ("not_done", code, True)
    assert outcomes(wide, run_id) == [first, *[("not_done", code, False)] * 2]
    assert [wide.live.log_start(TOPIC, n) for n in range(3)] == [10 if arrived else 0, 0, 0]
    assert wide.live.sent == []


@pytest.mark.further_but("answer-off-POLICY_OFF")
@ENDS
@pytest.mark.parametrize("when", ["answer", "connection"])
def test_a_policy_that_ends_while_its_run_sends_stops_it_before_the_next_request(
    wide: ServiceRoom, when: str, end: str, code: str
) -> None:
    run_id = wide.runs()[0].run_id
    if when == "answer":
        wide.live.on_send = [lambda: ended(wide, end)]
    else:
        wide.live.on_connect = [lambda: None, lambda: ended(wide, end)]
    run = carried(wide, run_id, wide.clock.sleep)
    assert (run.state, run.error and run.error["code"]) == ("partial", code)
    assert outcomes(wide, run_id) == [("done", None, True), *[("not_done", code, False)] * 2]
    assert [list(targets) for _, targets, _ in wide.live.sent] == [[TopicPartition(TOPIC, 0)]]


@ENDS
def test_a_policy_that_ends_while_its_run_is_paused_closes_it(
    wide: ServiceRoom, end: str, code: str
) -> None:
    run_id = wide.runs()[0].run_id
    leaving(wide, run_id)
    wide.journal.set_wish(run_id, "pause", "ann", wide.clock())
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(wide.journal.head(run_id).state)
        if len(slept) == 3:
            ended(wide, end)
        assert len(slept) < 9
        wide.clock.sleep(seconds)

    run = carried(wide, run_id, sleep)
    assert (run.state, run.error and run.error["code"]) == ("partial", code)
    assert (set(slept), wide.live.sent) == ({"paused"}, [])


def test_settings_that_cannot_be_read_leave_no_policy_to_send_for(wide: ServiceRoom) -> None:
    run_id = wide.runs()[0].run_id
    leaving(wide, run_id)

    def policies() -> tuple[Policy, ...]:
        raise SettingsError("the settings file is gone", "Put it back.", code="SETTINGS_MOVED")

    run = carried(wide, run_id, wide.clock.sleep, policies)
    assert (run.state, run.error and run.error["code"]) == ("partial", "SETTINGS_MOVED")
    assert wide.live.sent == []
