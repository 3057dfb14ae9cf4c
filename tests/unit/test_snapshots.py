"""The store: a folder without a manifest does not exist; what is broken is named, not fatal."""

from __future__ import annotations

import errno
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard.core.errors import StoreError
from dashboard.history.pruning import prune
from dashboard.store import snapshot_files
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Connection, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build

NOW = datetime(2026, 3, 1, 4, 0, 0, 5000, tzinfo=UTC)


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def _brokers(*ids: int) -> pa.Table:
    return build(SNAPSHOT_TABLES["brokers"], {"broker_id": list(ids)})


def _snapshot(cluster: ClusterStore, at: datetime = NOW) -> Manifest:
    writer = cluster.begin("snapshots", at)
    writer.write("brokers", _brokers(2, 1))
    return writer.commit(1.5, {"errors": []})


def _manifest_path(cluster: ClusterStore, item_id: str) -> Path:
    return Path(cluster.path) / "snapshots" / item_id / "manifest.json"


def test_a_committed_snapshot_reads_back(cluster: ClusterStore) -> None:
    written = _snapshot(cluster)
    assert cluster.latest_snapshot() == written.id
    assert cluster.manifest("snapshots", written.id) == written
    assert (
        cluster.read("snapshots", written.id, "brokers").schema == SNAPSHOT_TABLES["brokers"].schema
    )
    assert cluster.read("snapshots", written.id, "brokers", ["broker_id"]).to_pylist() == [
        {"broker_id": 1},
        {"broker_id": 2},
    ]


def test_a_snapshot_without_manifest_does_not_exist(cluster: ClusterStore) -> None:
    finished = _snapshot(cluster)
    half = cluster.begin("snapshots", NOW + timedelta(seconds=60))
    half.write("brokers", _brokers(1))
    assert cluster.ids("snapshots") == [finished.id]
    assert cluster.latest("snapshots") == finished.id
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", half.id, "brokers")
    assert caught.value.code == "SNAPSHOT_NOT_FOUND"


def test_an_abandoned_snapshot_leaves_nothing(cluster: ClusterStore) -> None:
    half = cluster.begin("snapshots", NOW)
    half.write("brokers", _brokers(1))
    half.abandon()
    half.abandon()
    assert not Path(half.path).exists()


def test_a_table_that_the_manifest_does_not_list_is_empty(cluster: ClusterStore) -> None:
    found = cluster.read("snapshots", _snapshot(cluster).id, "segments")
    assert found.num_rows == 0
    assert found.schema == SNAPSHOT_TABLES["segments"].schema


def test_an_unknown_table_is_refused_with_the_known_ones(cluster: ClusterStore) -> None:
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", _snapshot(cluster).id, "broker")
    assert caught.value.code == "TABLE_UNKNOWN"
    assert "brokers" in caught.value.next_step


def test_a_newer_major_is_refused_and_a_newer_minor_is_read(cluster: ClusterStore) -> None:
    written = _snapshot(cluster)
    path = _manifest_path(cluster, written.id)
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "schema_version": [1, 9], "later": True}))
    assert cluster.manifest("snapshots", written.id).schema_version == (1, 9)
    path.write_text(json.dumps({"schema_version": [3, 0]}))
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", written.id, "brokers")
    assert caught.value.code == "SCHEMA_TOO_NEW"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"schema_version": "1.0"}',
        b'{"schema_version": [1, 0], "id": "a", "taken_at": "now", "tables": {}, "seconds": 1,'
        b' "details": {}}',
        b'{"schema_version": [1, 0], "id": "a", "taken_at": 5, "tables": {}, "seconds": 1,'
        b' "details": {}}',
        b'{"schema_version": [1, 0], "id": "ID", "taken_at": "2026-03-01T04:00:00Z", "seconds": 1,'
        b' "tables": {"brokers": "two"}, "details": {}}',
        b'{"schema_version": [1, 0], "id": "ID", "taken_at": "2026-03-01T04:00:00Z", "seconds": 1,'
        b' "tables": {"brokers": 2}, "details": 5}',
        b'{"schema_version": [1, 0], "id": "other", "taken_at": "2026-03-01T04:00:00Z",'
        b' "seconds": 1, "tables": {"brokers": 2}, "details": {}}',
    ],
)
def test_an_unreadable_manifest_is_named(cluster: ClusterStore, body: bytes) -> None:
    written = _snapshot(cluster)
    _manifest_path(cluster, written.id).write_bytes(body.replace(b"ID", written.id.encode()))
    with pytest.raises(StoreError) as caught:
        cluster.manifest("snapshots", written.id)
    assert caught.value.code == "STORE_UNREADABLE"
    assert written.id in caught.value.message


@pytest.mark.parametrize("columns", [None, ["broker_id"]])
def test_a_damaged_table_is_named(cluster: ClusterStore, columns: list[str] | None) -> None:
    written = _snapshot(cluster)
    table = _manifest_path(cluster, written.id).with_name("brokers.parquet")
    table.write_bytes(table.read_bytes()[:40])
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", written.id, "brokers", columns)
    assert caught.value.code == "STORE_UNREADABLE"
    assert "brokers.parquet" in caught.value.message


def test_a_listed_table_that_is_gone_is_an_error(cluster: ClusterStore) -> None:
    written = _snapshot(cluster)
    _manifest_path(cluster, written.id).with_name("brokers.parquet").unlink()
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", written.id, "brokers")
    assert "brokers.parquet" in caught.value.message


def test_chosen_columns_that_an_older_minor_lacks_read_as_null(cluster: ClusterStore) -> None:
    written = _snapshot(cluster)
    table = _manifest_path(cluster, written.id).with_name("brokers.parquet")
    pq.write_table(pa.table({"broker_id": pa.array([1, 2], pa.int32())}), table)
    rows = cluster.read("snapshots", written.id, "brokers", ["broker_id", "rack"]).to_pylist()
    assert rows == [{"broker_id": 1, "rack": None}, {"broker_id": 2, "rack": None}]
    assert cluster.read("snapshots", written.id, "brokers", ["rack"]).num_rows == 2


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"broker_id": pa.array([1], pa.int32())}, "1 rows where its manifest says 2"),
        ({"port": pa.array([1, 2], pa.int32())}, "no column 'broker_id'"),
        ({"broker_id": pa.array([1.0, float("nan")])}, "'broker_id' is double, not int32"),
        ({"broker_id": pa.array(["1", "2"])}, "'broker_id' is string, not int32"),
    ],
)
def test_a_file_that_is_another_table_is_named(
    cluster: ClusterStore, data: dict[str, pa.Array], why: str
) -> None:
    written = _snapshot(cluster)
    table = _manifest_path(cluster, written.id).with_name("brokers.parquet")
    pq.write_table(pa.table(data), table)
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", written.id, "brokers", ["rack"])
    assert caught.value.code == "STORE_UNREADABLE"
    assert f"{table} cannot be read" in caught.value.message
    assert why in caught.value.message


def test_columns_of_a_newer_minor_are_left_aside(cluster: ClusterStore) -> None:
    written = _snapshot(cluster)
    table = _manifest_path(cluster, written.id).with_name("brokers.parquet")
    pq.write_table(pq.read_table(table).append_column("mood", pa.array(["a", "b"])), table)
    found = cluster.read("snapshots", written.id, "brokers")
    assert found.schema == SNAPSHOT_TABLES["brokers"].schema


def test_what_is_pruned_while_it_is_read_is_told_apart_from_damage(
    cluster: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = _snapshot(cluster)
    opened = cluster.fs.open

    def pruned_first(path: str, mode: str) -> Any:
        prune(cluster, "snapshots", lambda _: (), NOW)
        return opened(path, mode)

    monkeypatch.setattr(cluster.fs, "open", pruned_first)
    with pytest.raises(StoreError) as caught:
        cluster.read("snapshots", written.id, "brokers")
    assert (caught.value.code, caught.value.retriable) == ("SNAPSHOT_NOT_FOUND", True)
    assert written.id in caught.value.message
    assert "newest" in caught.value.next_step


def test_latest_is_replaced_as_a_whole(
    cluster: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.set_latest("a")
    cluster.set_latest("b")
    folder = Path(cluster.path) / "findings"
    assert (folder / "LATEST").read_text() == "b"

    def cut(self: Path, target: str) -> Path:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "replace", cut)
    with pytest.raises(StoreError, match="cannot be written"):
        cluster.set_latest("c")
    assert cluster.latest("findings") == "b"
    assert [p.name for p in folder.iterdir()] == ["LATEST"]


def test_findings_without_latest_are_no_analysis(cluster: ClusterStore) -> None:
    assert cluster.latest("findings") is None
    with pytest.raises(StoreError) as caught:
        cluster.latest_analysis()
    assert caught.value.code == "NO_ANALYSIS"
    assert "lowwater analyze" in caught.value.next_step


def test_a_damaged_latest_is_named(cluster: ClusterStore) -> None:
    cluster.set_latest("a")
    (Path(cluster.path) / "findings" / "LATEST").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="LATEST"):
        cluster.latest_analysis()


def test_a_full_disk_is_a_clear_error_and_finished_snapshots_stay(
    cluster: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = _snapshot(cluster)
    half = cluster.begin("snapshots", NOW + timedelta(seconds=60))

    def full(*_args: Any, **_more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(StoreError) as caught:
        half.write("brokers", _brokers(1))
    assert caught.value.code == "STORE_UNWRITABLE"
    assert "No space left on device" in caught.value.message
    assert half.path in caught.value.message
    assert cluster.ids("snapshots") == [finished.id]


def test_a_table_that_vanished_before_the_commit_leaves_no_half_snapshot(
    cluster: ClusterStore,
) -> None:
    half = cluster.begin("snapshots", NOW)
    half.write("brokers", _brokers(1))
    (Path(half.path) / "brokers.parquet").unlink()  # a pruner whose clock is hours ahead
    with pytest.raises(StoreError, match=r"brokers\.parquet"):
        half.commit(1.0, {})
    assert cluster.ids("snapshots") == []


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "c1").write_text("a file where the cluster's folder should be")
    writer = ClusterStore(Store(str(tmp_path)), "c1").begin("snapshots", NOW)
    with pytest.raises(StoreError) as caught:
        writer.write("brokers", _brokers(1))
    assert caught.value.code == "STORE_UNWRITABLE"


def test_ids_sort_by_time_and_never_collide() -> None:
    ids = [snapshot_files.new_id(NOW + timedelta(milliseconds=n)) for n in range(20)]
    assert ids == sorted(ids)
    assert snapshot_files.new_id(NOW) != snapshot_files.new_id(NOW)


def test_a_clock_that_steps_back_makes_no_snapshot_the_older_one(cluster: ClusterStore) -> None:
    first = _snapshot(cluster)
    second = _snapshot(cluster, NOW - timedelta(hours=2))
    third = _snapshot(cluster, NOW + timedelta(minutes=1))
    assert cluster.ids("snapshots") == [first.id, second.id, third.id]
    assert cluster.manifest("snapshots", second.id).taken_at == NOW - timedelta(hours=2)
    assert snapshot_files.time_of(second.id) == NOW + timedelta(milliseconds=1)
    assert snapshot_files.time_of(third.id) == NOW + timedelta(minutes=1)
    assert snapshot_files.time_of("notes") is None


def test_connection_and_declarations_read_back(cluster: ClusterStore) -> None:
    assert cluster.name == "c1"
    cluster.write_connection("h:1", "/etc/client.properties", "prod")
    assert cluster.connection() == Connection("h:1", "/etc/client.properties", "prod")
    assert cluster.name == "prod"
    assert cluster.declarations() == []
    cluster.write_declarations([{"glob": "a*", "owner": "me"}])
    assert cluster.declarations() == [{"glob": "a*", "owner": "me"}]


def test_a_damaged_connection_file_is_named(cluster: ClusterStore) -> None:
    Path(cluster.path).mkdir()
    (Path(cluster.path) / "connection.json").write_text("{")
    with pytest.raises(StoreError, match=r"connection\.json"):
        cluster.connection()


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(StoreError) as caught:
            Store(str(root)).cluster()
        assert caught.value.code == "NO_SNAPSHOT"
        assert "lowwater collect" in caught.value.next_step


def test_clusters_are_chosen_by_id_or_name_or_alone(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for cluster_id, name in (("c1", "prod"), ("c2", "test"), ("c3", "test")):
        ClusterStore(store, cluster_id).write_connection("h:1", None, name)
    assert store.clusters() == ["c1", "c2", "c3"]
    assert store.cluster("prod").cluster_id == "c1"
    assert store.cluster("c2").cluster_id == "c2"
    codes = {None: "CLUSTER_AMBIGUOUS", "test": "CLUSTER_AMBIGUOUS", "x": "CLUSTER_NOT_FOUND"}
    for named, code in codes.items():
        with pytest.raises(StoreError) as caught:
            store.cluster(named)
        assert caught.value.code == code
        assert "prod (c1)" in caught.value.message


def test_folders_of_others_are_no_clusters(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file").write_text("")
    store = Store(str(tmp_path))
    ClusterStore(store, "c1").write_connection("h:1", None, "prod")
    assert store.clusters() == ["c1"]


def test_a_url_is_a_store_too() -> None:
    cluster = ClusterStore(Store("memory://lowwater-test"), "c1")
    written = _snapshot(cluster)
    cluster.write_connection("h:1", None, "prod")
    assert Store("memory://lowwater-test").cluster("prod").latest_snapshot() == written.id
    assert cluster.read("snapshots", written.id, "brokers").num_rows == 2
