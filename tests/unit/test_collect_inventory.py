"""Brokers' disks in a snapshot: their rows, their age and gaps; the wrong ones are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dashboard.collect import watch
from dashboard.collect.collect import Collected, collect
from dashboard.core.canonical import written
from dashboard.core.clock import utc_now
from dashboard.core.errors import InventoryError
from dashboard.inventory.loading import META_KEY, load, load_all
from dashboard.inventory.names import CHECKPOINTS
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.fake_live import FakeLive
from tests.unit.inventory.disks import NOW, Disk, scanned

TAKEN_AT = NOW + timedelta(minutes=5)


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path / "store")), "fake")


def inventory(tmp_path: Path, broker: int = 1, cluster: str = "fake", name: str = "") -> str:
    """The file of a broker with two segments and a checkpoint entry."""
    disk = Disk(tmp_path / f"disk{broker}{name}")
    (disk.path / "meta.properties").write_text(f"cluster.id={cluster}\nnode.id={broker}\n")
    folder = disk.folder("b-0")
    disk.segment(folder, 9)
    disk.segment(folder, 0)
    (disk.path / CHECKPOINTS[0]).write_text("0\n1\nb 0 4\n")
    path = tmp_path / f"{broker}{name}.inventory"
    scanned(path, disk.path, broker=broker)
    return str(path)


def run(store: ClusterStore, *paths: str) -> Collected:
    live: Any = FakeLive()
    return collect(
        live, store, now=lambda: TAKEN_AT, progress=lambda _: None, inventories=load_all(paths)
    )


def test_rows_of_all_brokers_are_in_the_snapshot_by_key(
    tmp_path: Path, store: ClusterStore
) -> None:
    got = run(store, inventory(tmp_path, 2), inventory(tmp_path, 1))
    assert (got.tables["segments"], got.tables["checkpoints"]) == (4, 2)
    rows = store.read("snapshots", got.snapshot_id, "segments").to_pylist()
    assert [(r["broker_id"], r["base_offset"]) for r in rows] == [(1, 0), (1, 9), (2, 0), (2, 9)]
    assert {r["snapshot_id"] for r in rows} == {got.snapshot_id}
    assert {(r["taken_at"], r["scanned_at"]) for r in rows} == {(TAKEN_AT, NOW)}
    entries = store.read("snapshots", got.snapshot_id, "checkpoints").to_pylist()
    assert [(r["broker_id"], r["file"], r["topic"], r["offset"]) for r in entries] == [
        (1, CHECKPOINTS[0], "b", 4), (2, CHECKPOINTS[0], "b", 4),
    ]  # fmt: skip


def test_without_an_inventory_there_is_no_such_table(store: ClusterStore) -> None:
    got = run(store)
    assert "segments" not in got.tables
    assert got.inventories == ()


def test_age_gaps_and_unknown_log_dirs_are_told(tmp_path: Path, store: ClusterStore) -> None:
    disk = Disk(tmp_path / "disk")
    (disk.path / "meta.properties").write_text("cluster.id=fake\nnode.id=1\n")
    (disk.path / "lost+found").mkdir()
    scanned(tmp_path / "f", disk.path)
    got = run(store, str(tmp_path / "f"))
    value = json.loads(json.dumps(got.to_json(), allow_nan=False))["inventories"]
    assert [(i["broker_id"], i["age_seconds"], i["gaps_total"]) for i in value] == [(1, 300.0, 1)]
    told = [e["error"] for e in got.errors if e["part"] == "inventory"]
    assert told == [
        f"gaps: 1; the first: {disk.path}/lost+found: not a partition folder: not counted",
        f"it has no log dir {disk.path}, but /data",
    ]
    assert store.manifest("snapshots", got.snapshot_id).details["inventories"] == value


def test_an_inventory_of_another_cluster_is_refused_by_name(
    tmp_path: Path, store: ClusterStore
) -> None:
    with pytest.raises(InventoryError, match="cluster other") as refused:
        run(store, inventory(tmp_path, 1, "other"))
    assert refused.value.code == "INVENTORY_OF_OTHER_CLUSTER"
    assert store.latest("snapshots") is None


def test_two_files_of_one_broker_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"1\.inventory and .*1b\.inventory") as refused:
        load_all([inventory(tmp_path, 1), inventory(tmp_path, 1, name="b")])
    assert refused.value.code == "INVENTORY_TWICE"


def test_a_file_cut_short_or_foreign_is_refused(tmp_path: Path) -> None:
    whole = Path(inventory(tmp_path)).read_bytes()
    cut = tmp_path / "cut"
    for end in (0, 4, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:end])
        with pytest.raises(InventoryError) as refused:
            load(str(cut))
        assert refused.value.code == "INVENTORY_UNREADABLE"
    pq.write_table(pq.read_table(inventory(tmp_path, 2)), cut)  # the rows without the footer
    with pytest.raises(InventoryError, match=r"lowwater\.inventory"):
        load(str(cut))


def test_a_newer_major_is_refused_and_an_older_minor_lacks_columns(tmp_path: Path) -> None:
    path = inventory(tmp_path)
    table, summary = pq.read_table(path), written(load(path).summary)

    def of_version(version: list[int]) -> str:
        footer = {META_KEY: json.dumps({**summary, "schema_version": version})}
        kept = table.drop_columns(["allocated_bytes"])
        pq.write_table(kept.replace_schema_metadata(footer), tmp_path / "f")
        return str(tmp_path / "f")

    assert load(of_version([1, 7])).tables["segments"].to_pylist()[0]["allocated_bytes"] is None
    with pytest.raises(InventoryError) as refused:
        load(of_version([2, 0]))
    assert refused.value.code == "INVENTORY_TOO_NEW"


def watched(tmp_path: Path, files: list[str], act: Any = None) -> list[dict[str, Any]]:
    """Events of two rounds; `act` is called after the first."""
    events: list[dict[str, Any]] = []

    def emit(event: dict[str, Any]) -> None:
        events.append(event)
        if act is not None and len(events) == 1:
            act()

    live: Any = FakeLive()
    watch.run(
        lambda: live, Store(str(tmp_path / "store")), every=timedelta(milliseconds=20),
        now=utc_now, emit=emit, analysis=None, rounds=2, inventories=files,
    )  # fmt: skip
    return events


def test_watch_reads_the_files_afresh_and_survives_a_bad_one(tmp_path: Path) -> None:
    files = [inventory(tmp_path, 1), inventory(tmp_path, 2)]
    events = watched(tmp_path, files, lambda: Path(files[0]).write_bytes(b"half"))
    assert [event["event"] for event in events] == ["snapshot", "error", "snapshot"]
    assert [[i["broker_id"] for i in e["inventories"]] for e in (events[0], events[2])] == [
        [1, 2], [2],
    ]  # fmt: skip
    assert events[1]["error"]["code"] == "INVENTORY_UNREADABLE"
    assert events[2]["inventories"][0]["age_seconds"] > 0
    assert datetime.fromisoformat(events[2]["inventories"][0]["scanned_at"]) == NOW.astimezone(UTC)


def test_watch_does_not_begin_with_a_wrong_file(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="cluster other"):
        watched(tmp_path, [inventory(tmp_path, 1, "other")])
    assert Store(str(tmp_path / "store")).clusters() == []
