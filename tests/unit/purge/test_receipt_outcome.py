"""A receipt counts what a purge deleted, whatever was known of that when the run closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.domain.model import LogDirsAnswer
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt import receipt, receipt_bytes
from dashboard.purge.receipt.model import Receipt
from tests.unit.purge.facts_of import KEY, NOW, facts
from tests.unit.purge.room import Room
from tests.unit.purge.test_plan import plan_of
from tests.unit.purge.test_receipt import advance, row, sample, started

ESTIMATE = Estimate(4_000, "proportional", {1: 4_000})


def at_sleep(room: Room, number: int, then: Callable[[], None]) -> None:
    """Something that happens while somebody sleeps for the nth time."""
    sleep, slept = room.clock.sleep, [0]

    def later(seconds: float) -> None:
        slept[0] += 1
        if slept[0] == number:
            then()
        sleep(seconds)

    room.clock.sleep = later  # type: ignore[method-assign]


def starts(room: Room, offset: int) -> None:
    room.live.parts[KEY].starts = dict.fromkeys((1, 2, 3), offset)


def receipt_of(room: Room, view: Any) -> Receipt:
    found = room.watch(view).run.receipt
    assert found is not None
    return found


def test_what_retention_took_of_a_partition_that_was_not_purged_is_not_counted(
    room: Room,
) -> None:
    room.live.answers = ["lost-before"]
    room.live.on_send = [lambda: room.live.elect(None)]
    view = room.carry_out()
    assert view.partitions[0].state == "unknown"
    room.live.elect(1)  # reads below the target: not done after all
    at_sleep(room, 3, lambda: starts(room, 40))
    found = receipt_of(room, view)
    assert room.journal.run(view.run.run_id).counts == {"not_done": 1}
    assert (found.final, found.predicted_bytes, found.freed_bytes) == (True, 0, 0)
    assert (found.replicas, found.aside, found.gap) == ((), None, None)


def test_what_a_broker_carried_out_after_the_run_closed_is_counted(room: Room) -> None:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", 44]
    view = room.carry_out()
    assert view.counts == {"not_done": 1}

    def carried_out() -> None:
        room.live.elect(1)
        starts(room, 60)

    at_sleep(room, 3, carried_out)
    found = receipt_of(room, view)
    assert (found.final, found.freed_bytes, found.retention_bytes) == (True, 180_000, 0)
    assert [r.broker_id for r in found.replicas] == [1, 2, 3]


def not_done_then_again(room: Room, answer: int) -> tuple[Any, Any]:
    """A run of which nothing is known to have taken effect, and the same once more."""
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", 44]
    first = room.carry_out()
    room.live.answers = [answer]
    return first, room.carry_out(room.plan("offset:60"))


def test_what_a_later_run_purged_is_counted_there_alone(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = not_done_then_again(room, 0)
    asked, log_dirs = [], room.live.log_dirs

    def recorded(keys: Any) -> LogDirsAnswer:
        asked.append(set(keys))
        return log_dirs(keys)

    monkeypatch.setattr(room.live, "log_dirs", recorded)
    watches = [room.watching(view) for view in runs]
    while {watch.step() for watch in watches} != {None}:
        room.clock.sleep(5)
    first, second = (room.journal.run(view.run.run_id) for view in runs)
    assert (first.run.state, first.counts) == ("partial", {"not_done": 1})
    assert (second.run.state, second.counts) == ("done", {"done": 1})
    found = [view.run.receipt or Receipt() for view in (first, second)]
    assert [(r.freed_bytes, r.final) for r in found] == [(0, True), (180_000, True)]
    assert asked and all(asked)  # no key asks a broker for all that it has


@pytest.mark.further
def test_what_retention_took_past_the_target_of_what_was_not_done_is_not_counted(
    room: Room,
) -> None:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", 44]
    view = room.carry_out()
    at_sleep(room, 3, lambda: starts(room, 80))
    found = receipt_of(room, view)
    assert (found.freed_bytes, found.final) == (0, True)
    assert room.journal.run(view.run.run_id).counts == {"not_done": 1}


@pytest.mark.further
def test_what_a_broker_carried_out_after_a_later_run_was_refused_is_counted(room: Room) -> None:
    first, second = not_done_then_again(room, 29)
    assert second.counts == {"not_done": 1}
    at_sleep(room, 3, lambda: starts(room, 60))
    assert receipt_of(room, first).freed_bytes == 180_000
    assert room.journal.run(first.run.run_id).counts == {"done": 1}
    assert receipt_of(room, second).freed_bytes == 0


@pytest.mark.further
def test_what_retention_took_before_it_was_carried_out_is_retentions(room: Room) -> None:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", 44]
    view = room.carry_out()
    at_sleep(room, 3, lambda: starts(room, 20))
    at_sleep(room, 6, lambda: starts(room, 60))
    found = receipt_of(room, view)
    assert (found.freed_bytes, found.retention_bytes) == (120_000, 60_000)


@pytest.mark.further
@pytest.mark.parametrize("silent", [False, True])
def test_what_retention_took_while_the_run_was_paused_is_nobodys(
    tmp_path: Path, silent: bool
) -> None:
    room = Room(tmp_path, partitions=2)
    run_id = room.queue(room.plan(), partitions_per_request=1)
    room.live.on_send = [lambda: room.journal.set_wish(run_id, "pause", "ann", room.clock.now)]
    second = sorted(room.live.parts)[1]

    def retention() -> None:
        room.live.parts[second].starts = {1: 50, 2: 50, 3: 50}
        if silent:  # and broker 3 says nothing of its sizes when the run goes on
            room.clock.now += timedelta(minutes=2)
            dirs = room.live.log_dirs
            monkey.setattr(room.live, "log_dirs", lambda keys: without_broker_3(dirs(keys)))

    def resumed() -> None:
        room.journal.set_wish(run_id, None, "ann", room.clock.now)

    sleep = room.clock.sleep
    with pytest.MonkeyPatch.context() as monkey:
        at_sleep(room, 5, retention)
        at_sleep(room, 8, resumed)
        room.execution(run_id).execute()
    room.clock.sleep = sleep  # type: ignore[method-assign]
    found = receipt_of(room, room.journal.run(run_id))
    freed = {(r.partition, r.broker_id): r.freed_bytes for r in found.replicas}
    brokers = (1, 2) if silent else (1, 2, 3)
    assert freed == {(0, b): 60_000 for b in (1, 2, 3)} | {(1, b): 10_000 for b in brokers}
    assert found.final
    room.journal.close()


def without_broker_3(answer: LogDirsAnswer) -> LogDirsAnswer:
    return replace(answer, replicas=tuple(r for r in answer.replicas if r.broker_id != 3))


@pytest.mark.further
def test_a_partition_that_goes_again_is_measured_anew_where_nothing_took_effect(
    room: Room,
) -> None:
    room.live.answers = ["lost-before"]
    at_sleep(room, 1, lambda: starts(room, 50))  # before the second request
    found = receipt_of(room, room.carry_out())
    assert len(room.live.sent) == 2
    assert (found.freed_bytes, found.retention_bytes) == (30_000, 0)


def test_a_round_reads_sizes_once_whatever_its_partitions(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=40)
    asked, measure = [], receipt_bytes.measure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipt_bytes, "measure", lambda *a: asked.append(a) or measure(*a))
        room.carry_out()
    assert len(room.live.sent) == 20
    assert len(asked) == 1
    room.journal.close()


def test_a_gap_names_what_left_before_the_request() -> None:
    world = facts(claims={0: {"a": 40}})
    plan = plan_of(world, {KEY: ResolvedTarget(40)}, estimates={KEY: ESTIMATE})
    begun = receipt.start(sample(9_000, 10), [row()], plan)
    late = receipt.advance(begun, sample(6_000, 40), [row()], timedelta(0), NOW)
    assert (late.freed_bytes, late.predicted_bytes) == (3_000, 4_000)
    assert late.gap.endswith("moved on since the plan, before the request left")


def test_what_leaves_while_the_log_start_is_below_the_target_is_retentions() -> None:
    below = advance(started(), sample(8_000, 20))
    assert (below.freed_bytes, below.retention_bytes) == (0, 2_000)
    after = advance(below, sample(6_000, 40))
    assert (after.freed_bytes, after.retention_bytes) == (2_000, 2_000)
    above = advance(after, sample(5_000, 50))  # of 20 to 50 a third lies above the target
    assert above.freed_bytes + above.retention_bytes == 5_000
    assert above.retention_bytes == 2_000 + 1_000


def test_segments_that_leave_after_records_came_back_stay_the_purges() -> None:
    past = advance(started(), sample(9_000, 40))
    back = advance(past, sample(6_000, 40), sample(6_000, 20), state="reverted")
    assert (back.freed_bytes, back.retention_bytes) == (4_000, 0)


def test_bytes_written_below_the_target_hide_no_more_than_was_written() -> None:
    below = advance(started(), sample(8_500, 20, 105))  # 5 records of 100 bytes came in
    assert (below.freed_bytes, below.retention_bytes) == (0, 2_000)
    assert below.produced_bytes == 500
    assert advance(below, sample(6_500, 40, 105)).freed_bytes == 2_000
