"""A run that waits for all replicas gives followers their time, also once its worker is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.unit.purge.facts_of import KEY
from tests.unit.purge.room import Room


class Killed(BaseException):
    """The worker is gone."""


def sent_by_one_who_was_killed(room: Room, mode: str = "wait-all") -> str:
    """A run whose request has reached the leader alone, and whose worker heard no answer."""

    def killed() -> None:
        raise Killed

    run_id = room.queue(room.plan(), mode=mode)
    room.live.on_send = [killed]
    with pytest.raises(Killed):
        room.execution(run_id).execute()
    room.live.parts[KEY].starts = {1: 60, 2: 0, 3: 0}
    return run_id


def test_followers_that_arrive_a_moment_later_are_waited_for(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They truncate with their next fetch; whoever goes on begins to read before that."""
    run_id = sent_by_one_who_was_killed(room)
    sleep = room.clock.sleep

    def arrive(seconds: float) -> None:
        sleep(seconds)
        room.live.parts[KEY].starts = {1: 60, 2: 60, 3: 60}

    monkeypatch.setattr(room.clock, "sleep", arrive)
    assert room.execution(run_id).execute() == "done"
    (row,) = room.journal.run(run_id).partitions
    assert (row.state, row.error, row.attempts) == ("done", None, 1)
    assert room.journal.verify().ok


def test_meanwhile_it_is_told_what_is_behind_and_records_that_come_back_are(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that has not truncated is elected: what the leader had done is undone."""
    run_id = sent_by_one_who_was_killed(room)
    sleep, seen = room.clock.sleep, list[str]()

    def elect(seconds: float) -> None:
        sleep(seconds)
        seen.append(room.journal.run(run_id).partitions[0].state)
        room.live.elect(2)

    monkeypatch.setattr(room.clock, "sleep", elect)
    assert room.execution(run_id).execute() == "partial"
    (row,) = room.journal.run(run_id).partitions
    assert (seen, row.state, row.error) == (["leader_done"], "reverted", "RECORDS_CAME_BACK")


@pytest.mark.parametrize("gone", [0, 4, 60])
def test_but_no_longer_than_the_request_would_have_waited(room: Room, gone: int) -> None:
    """10 s from its sending on, `gone` of which are over when another worker begins."""
    run_id = sent_by_one_who_was_killed(room)
    room.clock.now += timedelta(seconds=gone)
    began = room.clock()
    assert room.execution(run_id).execute() == "partial"
    (row,) = room.journal.run(run_id).partitions
    assert row.state == "leader_done"
    assert [f.broker_id for f in row.followers if not f.arrived] == [2, 3]
    left = max(0, 10 - gone)
    assert left <= (room.clock() - began).total_seconds() < left + 2.5


def test_nor_longer_by_a_clock_that_is_set_back(room: Room) -> None:
    run_id = sent_by_one_who_was_killed(room)
    room.clock.now -= timedelta(minutes=5)
    began = room.clock()
    assert room.execution(run_id).execute() == "partial"
    assert (room.clock() - began).total_seconds() < 12.5


def test_who_waits_for_the_leader_alone_waits_for_nobody(room: Room) -> None:
    run_id = sent_by_one_who_was_killed(room, mode="leader-only")
    began = room.clock()
    assert room.execution(run_id).execute() == "done"
    assert (room.clock() - began).total_seconds() < 1
