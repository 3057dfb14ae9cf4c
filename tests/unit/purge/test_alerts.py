"""Records that came back stay an alert until a later run has purged as far as the first did."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.purge.alerts import reverted
from dashboard.purge.journal_archive import archive
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """Records below 60 were purged at the leader alone, and came back with the next one."""
    made = Room(tmp_path)
    made.live.alive = {1, 2}
    view = made.carry_out(mode="leader-only-verified")
    for part in made.live.parts.values():
        part.starts[3] = 0
    made.live.alive = {1, 2, 3}
    made.live.elect(3)
    assert [row.state for row in made.watch(view).partitions] == ["reverted"]
    made.clock.now = NOW
    for part in made.live.parts.values():
        part.epoch_ends[3] = 100
    yield made
    made.journal.close()


def told(room: Room) -> list[dict[str, int]]:
    return [found.topics for found in reverted(room.journal, room.live.id)]


@pytest.mark.parametrize(
    ("to", "still"), [("offset:10", True), ("offset:59", True), ("offset:60", False)]
)
def test_a_later_purge_ends_the_alert_where_it_went_as_far(
    room: Room, to: str, still: bool
) -> None:
    assert told(room) == [{TOPIC: 1}]
    assert room.carry_out(room.plan(to)).run.state == "done"
    assert told(room) == ([{TOPIC: 1}] if still else [])


@pytest.mark.parametrize("purged_again", [False, True])
def test_a_run_whose_records_came_back_is_archived_once_they_are_purged_again(
    room: Room, tmp_path: Path, purged_again: bool
) -> None:
    if purged_again:
        room.carry_out(room.plan("offset:60"))
    days = timedelta(days=91)
    archived = archive(
        room.journal, tmp_path / "archive", before=NOW + days, who="ann", from_where="h",
        now=NOW + days,
    )  # fmt: skip
    assert (archived.runs, archived.held_by is None) == ((2, True) if purged_again else (0, False))
    assert told(room) == ([] if purged_again else [{TOPIC: 1}])
