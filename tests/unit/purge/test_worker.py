"""The worker process of a run acts by the settings of who queued it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.purge import worker
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom, Streams

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceRoom]:
    """A policy's run (it is Sunday, 12:00) whose service died before it sent anything."""
    made = ServiceRoom(tmp_path, policy(REPARTITION + '\nwindows = ["Sun 12:00-13:00"]', "streams"))
    made.live.topic(TOPIC)
    made.live.produce(TOPIC, 10)
    made.live.commit("billing", TOPIC)
    made.service(start=lambda _: None).turn()
    monkeypatch.setattr(worker, "utc_now", made.clock)
    monkeypatch.setattr(worker.time, "sleep", made.clock.sleep)
    monkeypatch.setattr(worker, "_settings", lambda _: made.settings)
    monkeypatch.setattr(worker, "_connect", lambda *_: made.live)
    monkeypatch.setattr(Streams, "__enter__", lambda live: live, raising=False)
    monkeypatch.setattr(Streams, "__exit__", lambda *_: None, raising=False)
    yield made
    made.journal.close()


def work(room: ServiceRoom) -> str:
    run_id = room.runs()[0].run_id
    assert worker.main(["--run", run_id, "--state-dir", str(room.folder)]) == 0
    return room.journal.head(run_id).state


def test_a_workers_settings_say_whether_a_policys_run_may_begin(room: ServiceRoom) -> None:
    room.clock.sleep(1800)
    assert work(room) == "done"
    assert room.live.log_start(TOPIC) == 10


def test_a_worker_that_comes_after_the_window_sends_nothing(room: ServiceRoom) -> None:
    room.clock.sleep(3600)
    assert work(room) == "refused"
    assert room.live.sent == []
