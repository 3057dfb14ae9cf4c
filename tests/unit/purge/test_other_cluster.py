"""A run's requests go to the cluster that it was planned on, and to no other one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeLogDirsResponse

import dashboard.purge.execute.execute as execute_module
from dashboard.cluster.live import connect
from dashboard.core.errors import OtherClusterError
from dashboard.purge.execute import stop_rules
from dashboard.purge.execute.recheck import Rechecked
from dashboard.purge.jobs import worker
from dashboard.purge.journal.rows import RunView
from dashboard.purge.receipt.model import Sample
from dashboard.settings.settings import Settings
from dashboard.store.connections import NOTHING_STORED
from tests.support.at_once import READERS
from tests.support.fake_broker import FakeBroker, topic
from tests.unit.cluster.answers import offsets_answer
from tests.unit.cluster.test_delete_records import answer_done
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, partition
from tests.unit.purge.room import Room

METADATA, DELETE_RECORDS = 3, 21


@pytest.fixture(autouse=True)
def reads_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are real here: which question meets the other cluster first is part of it."""
    for module in READERS:
        monkeypatch.setattr(module, "ThreadPoolExecutor", ThreadPoolExecutor)


@pytest.fixture
def two(room: Room) -> Iterator[tuple[FakeBroker, FakeBroker]]:
    """The plan's cluster and a mirror of it, whose broker has the same id."""
    with FakeBroker(1) as prod, FakeBroker(1) as mirror:
        prod.cluster_id, mirror.cluster_id = room.live.id, "mirror"
        for broker in (prod, mirror):
            broker.topics = [topic(TOPIC, [1])]
            broker.answers[2], broker.answers[DELETE_RECORDS] = offsets_answer, answer_done
            broker.answers[35] = lambda _, v: DescribeLogDirsResponse(
                version=v, throttle_time_ms=0, error_code=29, results=[]
            )
        yield prod, mirror


def carried_out(
    room: Room, two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch, mode: str
) -> RunView:
    """A run whose last look was right, on the plan's cluster, which then is away for a while."""
    prod, mirror = two
    run_id = room.queue(room.plan(), timeout_ms=1000, mode=mode)
    room.journal.write_baseline(run_id, Sample(NOW, ()), NOW)

    def last_look(*_: Any) -> Rechecked:
        prod.close()
        return Rechecked(allowed={KEY: partition(leader_epoch=4, replicas=(1,), isr=(1,))})

    monkeypatch.setattr(execute_module, "recheck", last_look)
    monkeypatch.setattr(stop_rules, "_ASK_EVERY", timedelta(0))  # before each request
    servers = {"bootstrap.servers": f"{prod.bootstrap},{mirror.bootstrap}"}
    with connect(servers, timedelta(seconds=30)) as live:
        room.live = live  # type: ignore[assignment]
        room.execution(run_id).execute()
    return room.journal.run(run_id)


@pytest.mark.parametrize("mode", ["wait-all", "leader-only-verified"])
def test_metadata_that_is_read_after_the_last_look_leads_to_no_other_cluster(
    room: Room,
    two: tuple[FakeBroker, FakeBroker],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    found = carried_out(room, two, monkeypatch, mode)
    (row,) = found.partitions
    assert (found.run.state, row.state) == ("refused", "not_done")
    # No broker of its cluster is left, the one that led is away, or the mirror alone answered:
    # whichever ended its time.
    assert row.error in ("LEADER_NOT_AVAILABLE", "BROKER_UNREACHABLE", "CLUSTER_CHANGED")
    assert not row.was_sent
    assert {request.API_KEY for request in two[1].requests} == {METADATA}


def test_a_last_look_that_meets_another_cluster_alone_refuses_the_run(
    room: Room, two: tuple[FakeBroker, FakeBroker]
) -> None:
    prod, mirror = two
    run_id = room.queue(room.plan())
    servers = {"bootstrap.servers": f"{prod.bootstrap},{mirror.bootstrap}"}
    with connect(servers, timedelta(seconds=30)) as live:
        room.live.cluster_id = live.cluster_id  # type: ignore[method-assign]
        prod.close()
        assert room.execution(run_id).execute() == "refused"
    (row,) = room.journal.run(run_id).partitions
    assert (row.state, row.error) == ("not_done", "cluster-mismatch")
    assert "mirror" in str(row.message)


def test_a_worker_speaks_with_its_runs_cluster_though_another_one_answers_first(
    room: Room, two: tuple[FakeBroker, FakeBroker], tmp_path: Path
) -> None:
    """What a worker that died had sent would be read back there: "the topic is gone"."""
    prod, mirror = two
    asked = {NOTHING_STORED: "1", "data": str(tmp_path)}
    run = room.journal.run(room.queue(room.plan())).run
    for servers, found in ((f"{mirror.bootstrap},{prod.bootstrap}", room.live.id),
                           (mirror.bootstrap, "mirror")):  # fmt: skip
        started = replace(run, connection={**asked, "bootstrap_servers": servers})
        with worker._connect(Settings(), started, room.clock) as live:
            assert live.cluster_id() == found
            if found == "mirror":
                with pytest.raises(OtherClusterError):
                    live.topics([TOPIC])
            else:
                assert live.topics([TOPIC])[TOPIC].error is None
    assert {request.API_KEY for request in mirror.requests} == {METADATA}
