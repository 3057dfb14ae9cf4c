"""A receipt counts what a purge deleted, whatever was known of that when the run closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.purge.facts_of import KEY
from tests.unit.purge.room import Room
from tests.unit.purge.test_receipt import advance, sample, started


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.journal.close()


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


def receipt_of(room: Room, view: Any) -> dict[str, Any]:
    found = room.watch(view).to_json()["receipt"]
    assert isinstance(found, dict)
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
    assert (found["final"], found["predicted_bytes"], found["freed_bytes"]) == (True, 0, 0)
    assert (found["replicas"], found["gap"]) == ([], None)
    assert "aside" not in found


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
    assert (found["final"], found["freed_bytes"], found["retention_bytes"]) == (True, 180_000, 0)
    assert [r["broker_id"] for r in found["replicas"]] == [1, 2, 3]


def test_what_retention_took_before_it_was_carried_out_is_retentions(room: Room) -> None:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", 44]
    view = room.carry_out()
    at_sleep(room, 3, lambda: starts(room, 20))
    at_sleep(room, 6, lambda: starts(room, 60))
    found = receipt_of(room, view)
    assert (found["freed_bytes"], found["retention_bytes"]) == (120_000, 60_000)


def test_what_leaves_while_the_log_start_is_below_the_target_is_retentions() -> None:
    below = advance(started(), sample(8_000, 20))
    assert (below["freed_bytes"], below["retention_bytes"]) == (0, 2_000)
    after = advance(below, sample(6_000, 40))
    assert (after["freed_bytes"], after["retention_bytes"]) == (2_000, 2_000)
    above = advance(after, sample(5_000, 50))  # of 20 to 50 a third lies above the target
    assert above["freed_bytes"] + above["retention_bytes"] == 5_000
    assert above["retention_bytes"] == 2_000 + 1_000


def test_segments_that_leave_after_records_came_back_stay_the_purges() -> None:
    past = advance(started(), sample(9_000, 40))
    back = advance(past, sample(6_000, 40), sample(6_000, 20), state="reverted")
    assert (back["freed_bytes"], back["retention_bytes"]) == (4_000, 0)


def test_bytes_written_below_the_target_hide_no_more_than_was_written() -> None:
    below = advance(started(), sample(8_500, 20, 105))  # 5 records of 100 bytes came in
    assert (below["freed_bytes"], below["retention_bytes"]) == (0, 2_000)
    assert below["produced_bytes"] == 500
    assert advance(below, sample(6_500, 40, 105))["freed_bytes"] == 2_000
