"""Which of a policy's runs get a worker of their own: open ones, and a closed one waited for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.purge.jobs import queue
from dashboard.settings.settings import Settings
from tests.unit.policies.service_room import ServiceRoom

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    made.live.topic(TOPIC)
    made.live.produce(TOPIC, 10)
    made.live.commit("billing", TOPIC)
    yield made
    made.journal.close()


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def spawn(_: Settings, run_id: str, *, again: bool) -> None:
        assert again
        found.append(run_id)

    monkeypatch.setattr(queue, "spawn", spawn)
    return found


def respawn(room: ServiceRoom, awaited: str | None = None) -> list[str]:
    """Who looks for dead workers a minute later."""
    room.clock.now += timedelta(minutes=1)
    return queue.respawn_stale(room.settings, room.journal, awaited=awaited, now=room.clock())


def test_an_open_run_of_a_dead_service_gets_a_worker(room: ServiceRoom, spawned: list[str]) -> None:
    room.service(start=lambda _: None).turn()
    assert respawn(room) == spawned == [room.runs()[0].run_id]


def test_closed_runs_wait_for_the_next_service(room: ServiceRoom, spawned: list[str]) -> None:
    room.service().turn()
    assert room.runs()[0].state == "done"
    assert respawn(room) == spawned == []


def test_a_closed_run_that_somebody_waits_for_gets_a_worker(
    room: ServiceRoom, spawned: list[str]
) -> None:
    room.service().turn()
    run_id = room.runs()[0].run_id
    assert respawn(room, awaited="another") == []
    assert respawn(room, awaited=run_id) == spawned == [run_id]


def test_a_service_that_leads_follows_them_itself(room: ServiceRoom, spawned: list[str]) -> None:
    room.service().turn()
    run_id = room.runs()[0].run_id
    room.clock.now += timedelta(minutes=1)
    room.service().turn()
    assert queue.respawn_stale(
        room.settings, room.journal, awaited=run_id, now=room.clock()
    ) == spawned == []  # fmt: skip
