"""The sample store that tests share: the same files for the next test, new ones in its folder."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.store.snapshots import ClusterStore, Store
from tests.support import odd_store, sample_store


def _files(cluster: ClusterStore) -> dict[str, bytes]:
    root = Path(cluster.store.root)
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}


def test_the_next_one_reads_as_if_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_store, "_LAST", {})
    monkeypatch.setattr(sample_store, "_AS_NEW", timedelta(hours=1))  # machines stall
    first, second = (sample_store.write(tmp_path / name) for name in ("a", "b"))
    other = sample_store.write(tmp_path / "c", "rich")

    for cluster in (first, second):
        assert cluster.read("snapshots", cluster.latest_snapshot(), "topics").num_rows > 0
    assert _files(first) == _files(second) != _files(other)


def test_another_in_the_same_folder_is_newer(tmp_path: Path) -> None:
    first = sample_store.write(tmp_path).latest_snapshot()
    second = sample_store.write(tmp_path).latest_snapshot()

    assert second > first


def test_what_a_test_has_replaced_is_in_no_others_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sample_store.write(tmp_path / "a")
    with monkeypatch.context() as patched:
        odd_store.write(tmp_path / "b", patched)
    after = sample_store.write(tmp_path / "c")

    def groups(cluster: ClusterStore) -> set[str]:
        table = cluster.read("snapshots", cluster.latest_snapshot(), "groups")
        return set(table["group_id"].to_pylist())

    odd = ClusterStore(Store(str(tmp_path / "b")), sample_store.CLUSTER_ID)
    assert groups(plain) == groups(after) != groups(odd)
    assert odd_store.ODD in groups(odd)
