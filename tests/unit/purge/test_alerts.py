"""Records that came back stay an alert until a later run has purged as far as the first did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import RefusedError, UsageError
from dashboard.purge.journal.archive import archive
from dashboard.purge.receipt.alerts import dismiss, reverted
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import WATCHED, Room


def came_back(folder: Path) -> Room:
    """Records below 60 were purged at the leader alone, and came back with the next one."""
    made = Room(folder)
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
    return made


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = came_back(tmp_path)
    yield made
    made.journal.close()


def told(room: Room) -> list[dict[str, int]]:
    return [found.topics for found in reverted(room.journal, room.live.id)]


@pytest.mark.further_but("offset:59-True", "offset:60-False")
@pytest.mark.parametrize(
    ("to", "still"), [("offset:10", True), ("offset:59", True), ("offset:60", False)]
)
def test_a_later_purge_ends_the_alert_where_it_went_as_far(
    room: Room, to: str, still: bool
) -> None:
    assert told(room) == [{TOPIC: 1}]
    assert room.carry_out(room.plan(to)).run.state == "done"
    assert told(room) == ([{TOPIC: 1}] if still else [])


def test_a_person_ends_an_alert_that_no_purge_can_and_a_later_reversal_is_one_again(
    room: Room,
) -> None:
    """The topic was deleted: no later run purges as far, and the run could never be archived."""
    (alert,) = reverted(room.journal, room.live.id)
    said = {"who": "bob", "from_where": "here", "why": " topic deleted ", "now": NOW}
    with pytest.raises(UsageError, match="says why"):
        dismiss(room.journal, alert.run_id, **{**said, "why": " "})
    assert told(room) == [{TOPIC: 1}]
    assert dismiss(room.journal, alert.run_id, **said) == 1
    assert told(room) == []
    entry = room.journal.entries(alert.run_id)[-1]
    assert (entry.kind, entry.body["who"], entry.body["why"]) == (
        "dismissed",
        "bob",
        "topic deleted",
    )
    assert room.journal.verify().ok
    assert [row.state for row in room.journal.partitions(alert.run_id)] == ["reverted"]
    with pytest.raises(RefusedError) as refused:
        dismiss(room.journal, alert.run_id, **said)
    assert refused.value.code == "NO_ALERT"
    (row,) = room.journal.partitions(alert.run_id)  # purged by its watch, and back once more
    room.journal.note(alert.run_id, [replace(row, read_after=room.journal.newest_entry())])
    assert told(room) == [{TOPIC: 1}]


MODE = "leader-only-verified"


@pytest.fixture
def at_leader(tmp_path: Path) -> Iterator[Room]:
    """Followers that have not fetched since the leader alone was purged: they may be elected."""
    made = Room(tmp_path)
    made.live.answers = [7]
    yield made
    made.journal.close()


@pytest.mark.further
def test_a_run_that_found_the_leader_there_before_ends_no_alert_and_is_watched_itself(
    at_leader: Room,
) -> None:
    plan, later = at_leader.plan(), replace(at_leader.plan(), created_by="bob")
    first = at_leader.carry_out(plan, mode=MODE)
    second = at_leader.carry_out(later, mode=MODE)
    assert [row.state for row in second.partitions] == ["leader_done"]
    assert not second.partitions[0].was_sent
    at_leader.live.elect(2)  # behind: its log begins at 0
    assert [row.state for row in at_leader.watch(first).partitions] == ["reverted"]
    assert [found.run_id for found in reverted(at_leader.journal, "cluster-1")] == [
        first.run.run_id
    ]
    began = at_leader.clock.now = NOW
    after = at_leader.watch(second)
    assert [row.state for row in after.partitions] == ["reverted"]
    assert (after.run.state, after.run.watched_until) == ("partial", began + WATCHED)
    assert {found.run_id for found in reverted(at_leader.journal, "cluster-1")} == {
        first.run.run_id, second.run.run_id,
    }  # fmt: skip


def test_a_run_that_sent_before_the_election_ends_no_alert_either(at_leader: Room) -> None:
    plan, later = at_leader.plan("offset:50"), at_leader.plan("offset:60")
    first = at_leader.carry_out(plan, mode=MODE)
    at_leader.live.answers = [7]
    assert at_leader.carry_out(later, mode=MODE).partitions[0].was_sent
    at_leader.live.elect(2)
    at_leader.watch(first)
    assert [r.run_id for r in reverted(at_leader.journal, "cluster-1")] == [first.run.run_id]


def test_a_run_that_finds_the_leader_there_after_records_came_back_ends_the_alert(
    room: Room,
) -> None:
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 60)  # somebody else purged, or retention
    later = room.carry_out(replace(room.plan("offset:60"), created_by="bob"))
    assert [row.was_sent for row in later.partitions] == [False]
    assert told(room) == []


@pytest.mark.further
def test_rows_of_an_earlier_version_end_the_alert_if_they_were_sent(room: Room) -> None:
    room.carry_out(room.plan("offset:60"))
    runs = {row["run_id"] for row in room.journal.file.rows("SELECT run_id FROM runs")}
    for run_id in runs:
        old = [replace(row, read_after=None) for row in room.journal.partitions(run_id)]
        room.journal.note(run_id, old)
    assert told(room) == []
    for run_id in runs:
        old = [replace(row, sent_at=None) for row in room.journal.partitions(run_id)]
        room.journal.note(run_id, old)
    assert told(room) == [{TOPIC: 1}]


@pytest.mark.further
def test_a_run_that_was_there_already_is_followed_until_its_followers_are(
    at_leader: Room,
) -> None:
    at_leader.live.parts[KEY].starts[1] = 60  # by retention, or by somebody else
    view = at_leader.carry_out(at_leader.plan("offset:60"), mode=MODE)
    assert (view.partitions[0].was_sent, view.counts) == (False, {"leader_done": 1})
    assert view.run.watched_until == NOW + WATCHED

    def sleep(seconds: float) -> None:
        at_leader.clock.now += timedelta(seconds=seconds)
        if at_leader.clock.now > NOW + timedelta(seconds=30):
            at_leader.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}

    at_leader.clock.sleep = sleep  # type: ignore[method-assign]
    after = at_leader.watch(view)
    receipt = after.run.receipt
    assert receipt is not None
    assert (after.counts, receipt.final, receipt.freed_bytes) == ({"done": 1}, True, 0)
    assert (receipt.replicas, receipt.gap) == ((), None)


@pytest.mark.further
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
