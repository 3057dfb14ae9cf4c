"""A run that waits for all replicas gives followers their time, also once its worker is gone."""

from __future__ import annotations

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


def test_but_no_longer_than_the_request_would_have_waited(room: Room) -> None:
    run_id = sent_by_one_who_was_killed(room)
    began = room.clock()
    assert room.execution(run_id).execute() == "partial"
    (row,) = room.journal.run(run_id).partitions
    assert (row.state, [f.broker_id for f in row.followers if not f.arrived]) == (
        "leader_done", [2, 3],
    )  # fmt: skip
    assert 9 < (room.clock() - began).total_seconds() < 12, "a timeout of 10 s"


def test_who_waits_for_the_leader_alone_waits_for_nobody(room: Room) -> None:
    run_id = sent_by_one_who_was_killed(room, mode="leader-only")
    began = room.clock()
    assert room.execution(run_id).execute() == "done"
    assert (room.clock() - began).total_seconds() < 1
