"""Whether anything purges by itself: leases and signs of services, runs that others carry on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.policies.service.switching import Serving, serving
from tests.unit.policies.service_room import ServiceRoom

TOPIC = "billing-sum-repartition"
SILENCE = timedelta(hours=2)


@pytest.fixture
def room(tmp_path: Path) -> ServiceRoom:
    found = ServiceRoom(tmp_path)
    found.live.topic(TOPIC)
    found.live.produce(TOPIC, 10)
    found.live.commit("billing", TOPIC)
    return found


def known(room: ServiceRoom) -> Serving:
    return serving(room.journal, room.live.id, SILENCE)


def test_a_service_that_a_timer_runs_is_not_idle_between_two_calls(room: ServiceRoom) -> None:
    now = room.clock
    assert known(room).idle(now()), "none ever gave a sign"
    service = room.service()
    service.turn()
    assert known(room).leads(now())
    service.follow_once()
    service.close()
    assert (known(room).lease, known(room).leads(now())) == (None, False)
    now.now += timedelta(hours=1)
    assert not known(room).idle(now())
    now.now += timedelta(hours=2)
    assert known(room).idle(now())


def test_a_run_that_a_worker_may_carry_on_is_not_nothing(room: ServiceRoom) -> None:
    service = room.service(start=lambda _job: None)  # it dies between the queue and the purge
    service.turn()
    now = room.clock
    now.now += timedelta(days=1)
    assert (known(room).silent(now()), known(room).open_runs) == (True, 1)
    assert not known(room).idle(now())
