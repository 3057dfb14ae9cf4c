"""A log start that a scan shows in its broker's checkpoint file is waited for no longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard.cli.purge import run as run_verb
from dashboard.core.clock import format_time
from dashboard.core.errors import StoreError
from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.rows import RunView
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt
from dashboard.purge.receipt.receipt import FILE, Checkpoints, Entry, on_disk_said, proved
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from dashboard.ui.purge.run_view import receipt_html
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Room

BYTES, CHECKPOINT = timedelta(minutes=6), timedelta(minutes=1)  # Kafka's own intervals
TARGET = 60
DISK = "/d"  # the fake brokers'
AFTER = NOW + timedelta(minutes=2)
Line = tuple[int, str, str, int]  # broker, log dir, file, offset


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path / "data")), "cluster-1")


def scan(store: ClusterStore, *lines: Line, topic: str = TOPIC, at: datetime = AFTER) -> None:
    """A snapshot that took in inventories with these lines of checkpoint files."""
    writer = store.begin("snapshots", AFTER)
    rows = [
        {"snapshot_id": writer.id, "taken_at": AFTER, "broker_id": broker, "log_dir": log_dir,
         "file": file, "topic": topic, "partition": 0, "offset": offset}
        for broker, log_dir, file, offset in lines
    ]  # fmt: skip
    writer.write("checkpoints", pa.Table.from_pylist(rows, SNAPSHOT_TABLES["checkpoints"].schema))
    brokers = sorted({broker for broker, *_ in lines})
    told = [{"broker_id": b, "scanned_at": format_time(at)} for b in brokers]
    writer.commit(1.0, {"inventories": told})


def entries(*brokers: int, offset: int = TARGET) -> list[Line]:
    return [(broker, DISK, FILE, offset) for broker in brokers]


def final_after(room: Room, store: ClusterStore | None) -> tuple[timedelta, RunView]:
    """How long after the last replica arrived the receipt was final."""
    run = room.carry_out().run
    watch = ReplicaWatch(
        room.live, room.journal, run, room.journal.plan(run.run_id), room.clock, room.clock.sleep,
        checkpoints=store and Checkpoints(store, room.clock),
    )  # fmt: skip
    watch.watch()
    view = room.journal.run(run.run_id)
    found = receipt_of(view)
    assert found.final and found.arrived_at and found.measured_at
    return found.measured_at - found.arrived_at, view


def receipt_of(view: RunView) -> Receipt:
    assert view.run.receipt is not None
    return view.run.receipt


def test_a_receipt_waits_for_no_checkpoint_that_scans_show_on_every_disk(
    room: Room, store: ClusterStore
) -> None:
    scan(store, *entries(1, 2, 3))
    waited, view = final_after(room, store)
    found, rows = receipt_of(view), view.partitions
    assert BYTES <= waited < BYTES + timedelta(seconds=10)
    assert {part.durable_at for part in found.replicas} == {AFTER}
    assert Receipt.from_json(found.to_json()) == found
    told = "every replica has its log start on disk, as scans of them show"
    assert on_disk_said(found, rows) == told
    there_already = replace(rows[0], partition=7, sent_at=None)
    assert on_disk_said(found, (*rows, there_already)) == told, "nothing of it is measured"
    assert told[1:] in receipt_html(found, rows) and told in run_verb.receipt(found, rows)


@pytest.mark.further_but("another file")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(entries(1, 2), id="one disk was not scanned"),
        pytest.param([*entries(1, 2), *entries(3, offset=TARGET - 1)], id="an older log start"),
        pytest.param([*entries(1, 2), *entries(3, offset=99)], id="another log of that name"),
        pytest.param([*entries(1, 2), (3, "/other", FILE, TARGET)], id="another log dir"),
        pytest.param([*entries(1, 2), (3, DISK, "replication-offset-checkpoint", TARGET)],
                     id="another file"),
    ],
)  # fmt: skip
def test_what_one_scan_does_not_show_is_waited_for(
    room: Room, store: ClusterStore, lines: Sequence[Line]
) -> None:
    scan(store, *lines)
    waited, view = final_after(room, store)
    found = receipt_of(view)
    assert BYTES + CHECKPOINT <= waited < BYTES + CHECKPOINT + timedelta(seconds=10)
    assert [part.durable_at for part in found.replicas] == [AFTER, AFTER, None]
    said = on_disk_said(found, view.partitions)
    assert said.startswith("2 of 3 replicas have their log start on disk")


def test_a_replica_without_a_size_before_the_request_is_a_replica(
    room: Room, store: ClusterStore
) -> None:
    """Its broker gave no answer before the request left, and was never scanned."""
    scan(store, *entries(1, 2))
    room.live.on_send.append(room.live.dir_errors.clear)
    room.live.dir_errors[3] = "BROKER_UNREACHABLE"
    waited, view = final_after(room, store)
    assert len(receipt_of(view).replicas) == 2
    assert on_disk_said(receipt_of(view), view.partitions).startswith("2 of 3 replicas have their")
    assert waited >= BYTES + CHECKPOINT


@pytest.mark.parametrize("late", [timedelta(hours=-20), timedelta(seconds=19)])
def test_a_scan_from_before_the_request_proves_nothing(
    room: Room, store: ClusterStore, late: timedelta
) -> None:
    """An earlier purge went to this target, and an election brought its records back."""
    scan(store, *entries(1, 2, 3), at=NOW + late)
    waited, view = final_after(room, store)
    assert waited >= BYTES + CHECKPOINT
    assert {part.durable_at for part in receipt_of(view).replicas} == {None}
    assert on_disk_said(receipt_of(view), view.partitions) == ""


def test_without_a_store_an_inventory_or_a_file_that_can_be_read_it_waits(
    room: Room, store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Checkpoints(store, room.clock)
    assert found.read([KEY]) == {}
    store.begin("snapshots", AFTER).commit(1.0, {})
    room.clock.sleep(10)
    assert found.read([KEY]) == {}
    scan(store, *entries(1))
    room.clock.sleep(9)
    assert found.read([KEY]) == {}, "a store may be far away: every ten seconds"
    room.clock.sleep(1)
    with monkeypatch.context() as broken:

        def unreadable(*_: object, **__: object) -> None:
            raise StoreError("a part is gone", "Collect again.")

        broken.setattr(ClusterStore, "read", unreadable)
        assert found.read([KEY]) == {}
    room.clock.sleep(10)
    told = {(*KEY, 1): [Entry(DISK, TARGET, AFTER)]}
    assert found.read([KEY]) == told, "tried again"
    with monkeypatch.context() as broken:
        broken.setattr(ClusterStore, "read", unreadable)
        room.clock.sleep(10)
        assert found.read([KEY]) == told, "each snapshot is read once"
    assert found.read([TopicPartition("another", 0)]) == {}
    assert final_after(room, None)[0] >= BYTES + CHECKPOINT


def test_a_log_that_begins_anew_is_no_longer_durable() -> None:
    part = ReplicaReceipt(TOPIC, 0, 1, 100, TARGET, 99, 100, 0, log_dir=DISK)
    shown = proved(part, [Entry(DISK, TARGET, AFTER)], TARGET, NOW)
    assert shown.durable_at == AFTER
    later = proved(shown, [Entry(DISK, TARGET, AFTER + CHECKPOINT)], TARGET, NOW)
    assert later.durable_at == AFTER, "since it was first seen"
    assert proved(replace(shown, restarted=True), [], TARGET, NOW).durable_at is None
    assert "durable_at" not in part.to_json()
    assert on_disk_said(replace(Receipt(), replicas=(part,)), ()) == ""
