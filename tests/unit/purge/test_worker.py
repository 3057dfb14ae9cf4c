"""The worker process of a run acts by the settings of who queued it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard import read_only
from dashboard.model import TopicPartition
from dashboard.purge import worker
from dashboard.settings import PurgeSettings
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom, Streams

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceRoom]:
    """A policy's run (it is Sunday, 12:00) whose service died before it sent anything."""
    made = ServiceRoom(tmp_path, policy(REPARTITION + '\nwindows = ["Sun 12:00-13:00"]', "streams"))
    one_by_one = PurgeSettings(partitions_per_request=1, requests_in_flight=1)
    made.settings = replace(made.settings, purge=one_by_one)
    made.live.topic(TOPIC, 2)
    for partition in (0, 1):
        made.live.produce(TOPIC, 10, partition)
        made.live.commit("billing", TOPIC, partition)
    made.service(start=lambda _: None).turn()
    monkeypatch.setattr(worker, "utc_now", made.clock)
    # The worker's alone: a thread of another test that sleeps would move this clock too.
    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=made.clock.sleep))
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


def test_read_only_that_is_written_while_a_worker_sends_stops_its_next_request(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = room.folder / "lowwater.toml"
    file.write_text("")
    room.settings = replace(room.settings, source=file)
    monkeypatch.setattr(read_only, "_KEPT_SECONDS", 0)
    send = room.live.delete_records

    def first(*words: Any, **more: Any) -> Any:
        file.write_text("read_only = true")
        return send(*words, **more)

    monkeypatch.setattr(room.live, "delete_records", first)
    assert work(room) == "cancelled"
    assert [list(targets) for _, targets, _ in room.live.sent] == [[TopicPartition(TOPIC, 0)]]
    run_id = room.runs()[0].run_id
    sent, held = room.journal.partitions(run_id)
    assert (sent.state, held.state, held.error) == ("done", "not_done", "READ_ONLY")
    assert held.message == f"read_only of the settings ({file}) is on"


def test_a_worker_that_comes_after_the_window_sends_nothing(room: ServiceRoom) -> None:
    room.clock.sleep(3600)
    assert work(room) == "refused"
    assert room.live.sent == []
