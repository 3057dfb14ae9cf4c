"""Who claims a run to start its worker gives no sign of life: that is for who carries it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import JournalError, LowwaterError
from dashboard.purge.execute.carrying import carry_out, held
from dashboard.purge.jobs import queue
from dashboard.purge.journal.rows import RunRow
from dashboard.settings.settings import Settings
from tests.unit.purge.room import Room

MINUTES = 11  # most_silence is 10


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.journal.close()


def claimed(room: Room, run_id: str, minutes: int = MINUTES) -> RunRow:
    """Whoever looks starts a worker each minute, and each ends before it carries out."""
    for _ in range(minutes):
        room.clock.sleep(60)
        assert room.journal.claim(room.journal.head(run_id), room.clock())
    return room.journal.head(run_id)


def waits_for_a_person(run: RunRow) -> bool:
    return (run.state, run.wish, run.error and run.error["code"]) == (
        "paused", "pause", "WORKER_SILENT",
    )  # fmt: skip


def carried_out(room: Room, run_id: str, folder: Path, **seams: Any) -> str:
    with held(room.journal, folder, run_id, room.clock) as first:
        assert first
        seams = {"sleep": room.clock.sleep, "standards": lambda _: room.standards, **seams}
        return carry_out(
            room.live, room.journal, run_id, now=room.clock, read_only=lambda: None, **seams
        ).state


def test_workers_that_are_killed_as_they_start_are_no_sign_of_life(room: Room) -> None:
    run_id = room.queue(room.plan())
    assert not waits_for_a_person(claimed(room, run_id, 10))
    assert waits_for_a_person(claimed(room, run_id, 1))


def test_nor_is_the_first_beat_of_one_that_ends_before_it_carries_out(
    room: Room, tmp_path: Path
) -> None:
    run_id = room.queue(room.plan())
    for _ in range(MINUTES):
        claimed(room, run_id, 1)
        with held(room.journal, tmp_path, run_id, room.clock):
            pass
    assert waits_for_a_person(room.journal.head(run_id))


def test_one_that_carries_out_in_time_sends_and_leaves_no_claim(room: Room, tmp_path: Path) -> None:
    run_id = room.queue(room.plan())
    claimed(room, run_id, 9)
    assert carried_out(room, run_id, tmp_path) == "done"
    assert room.journal.file.rows("SELECT * FROM run_claims") == []


def test_a_claim_beside_a_worker_that_stood_still_for_a_moment_pauses_nothing_later(
    room: Room, tmp_path: Path
) -> None:
    run_id, said = room.queue(room.plan()), []
    room.journal.set_wish(run_id, "pause", "ann", room.clock())

    def sleep(_: float) -> None:
        if not said:
            claimed(room, run_id, 1)
        room.clock.sleep(60)
        room.journal.beat(run_id, room.clock())
        said.append(room.journal.head(run_id).error)
        if len(said) == 2 * MINUTES:
            room.journal.set_wish(run_id, None, "ann", room.clock())

    assert carried_out(room, run_id, tmp_path, sleep=sleep) == "done"
    assert set(said) == {None}


def test_one_that_stood_still_while_others_claimed_sends_nothing_more(
    room: Room, tmp_path: Path
) -> None:
    run_id, waited = room.queue(room.plan()), []

    def sleep(seconds: float) -> None:
        waited.append(room.journal.head(run_id))
        room.clock.sleep(seconds)
        room.journal.set_wish(run_id, "cancel", "ann", room.clock())

    def standards(_: object) -> Any:
        if not waited and room.journal.wish(run_id) is None:
            claimed(room, run_id)
        return room.standards

    assert carried_out(room, run_id, tmp_path, sleep=sleep, standards=standards) == "cancelled"
    assert waits_for_a_person(waited[0])
    assert room.live.sent == []


def test_whoever_resumes_a_run_that_nobody_looked_at_since_is_not_asked_twice(
    room: Room, tmp_path: Path
) -> None:
    run_id = room.queue(room.plan(), unsent_for_ms=86_400_000)
    assert waits_for_a_person(claimed(room, run_id))
    room.clock.sleep(2 * 3600)
    room.journal.set_wish(run_id, None, "ann", room.clock())
    assert room.journal.head(run_id).wish is None
    assert not waits_for_a_person(claimed(room, run_id, 10))
    assert waits_for_a_person(claimed(room, run_id, 1)), "it counts from then on"


def test_where_no_process_can_be_started_each_run_says_so_and_none_is_sent_for_it_later(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, error = (
        room.queue(room.plan()),
        JournalError("no memory", "f", code="WORKER_NOT_STARTED"),
    )

    def spawn(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(queue, "spawn", spawn)
    for minute in range(1, MINUTES + 1):
        room.clock.sleep(60)
        with pytest.raises(LowwaterError, match="no memory"):
            queue.respawn_stale(Settings(), room.journal, now=room.clock())
        run = room.journal.head(run_id)
        assert run.error is not None
        assert run.error["code"] == ("WORKER_NOT_STARTED" if minute <= 10 else "WORKER_SILENT")
    assert waits_for_a_person(run)


def test_a_lock_that_cannot_be_written_is_said_by_the_run(room: Room, tmp_path: Path) -> None:
    run_id = room.queue(room.plan())
    (tmp_path / "locks" / f"{run_id}.lock").mkdir(parents=True)
    with pytest.raises(JournalError), held(room.journal, tmp_path, run_id, room.clock):
        pass
    run = room.journal.head(run_id)
    assert run.state == "queued"
    assert run.error is not None and f"{run_id}.lock cannot be written" in run.error["message"]


def test_a_run_that_another_worker_closed_meanwhile_stays_closed(room: Room) -> None:
    """Who could not start found it open, and says so late."""
    run_id = room.queue(room.plan())
    room.journal.set_run(run_id, "done", room.clock())
    before = room.journal.newest_entry()
    error = {"code": "JOURNAL_FAILED", "message": "no lock", "next": "Free disk space."}
    room.journal.set_run(run_id, "queued", room.clock(), error=error)
    head = room.journal.head(run_id)
    assert (head.state, head.open, head.error) == ("done", False, None)
    assert room.journal.newest_entry() == before
