"""A store at a URL: whatever its package raises has a name and a next step."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dashboard.core.errors import StoreError
from dashboard.history.pruning import prune
from dashboard.store.local_files import UrlFiles
from dashboard.store.snapshots import ClusterStore, Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class EndpointError(Exception):
    """What a client library raises: no OSError."""


class Away(MemoryFileSystem):  # type: ignore[misc]
    """A store whose every call fails as `error` says."""

    protocol = "away"
    cachable = False
    error: Exception = EndpointError("no route\nand a trace")

    def _fail(self, *_args: Any, **_options: Any) -> Any:
        raise self.error

    ls = info = cat_file = pipe_file = rm = open = _fail


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> type[Away]:
    fsspec.register_implementation("away", Away, clobber=True)
    monkeypatch.setattr(Away, "error", Away.error)
    return Away


def brokers(item_id: str) -> pa.Table:
    return pa.table({"snapshot_id": [item_id], "taken_at": [NOW], "broker_id": [1]})


@pytest.mark.parametrize("error", [EndpointError("no route\nand a trace"), PermissionError("no")])
def test_a_store_that_does_not_answer_is_named(away: type[Away], error: Exception) -> None:
    away.error = error
    store = Store("away://bucket/deep")
    cluster = ClusterStore(store, "c1")
    for use in (
        store.cluster,
        cluster.latest_snapshot,
        cluster.latest_analysis,
        cluster.connection,
    ):
        with pytest.raises(StoreError) as caught:
            use()
        assert caught.value.code == "STORE_UNREACHABLE"
        assert "away://bucket/deep" in caught.value.message
        assert "trace" not in caught.value.message
        assert "credentials" in caught.value.next_step


def test_a_file_system_that_cannot_replace_a_file_at_once_is_not_written(away: type[Away]) -> None:
    cluster = ClusterStore(Store("away://bucket/deep"), "c1")
    with pytest.raises(StoreError) as caught:
        cluster.begin("findings", NOW).write("quality", pa.table({}))
    assert caught.value.code in ("STORE_READ_ONLY", "STORE_UNREACHABLE")
    with pytest.raises(StoreError) as caught:
        UrlFiles(Away(), "away://bucket").makedirs("bucket/x")
    assert caught.value.code == "STORE_READ_ONLY"


def test_a_bucket_that_does_not_exist_is_named_and_not_made() -> None:
    class NoBucket(MemoryFileSystem):  # type: ignore[misc]
        def pipe_file(self, *_args: Any, **_options: Any) -> None:
            raise FileNotFoundError("The specified bucket does not exist")

        def makedirs(self, *_args: Any, **_options: Any) -> None:
            raise AssertionError("s3fs would make the bucket")

    files = UrlFiles(NoBucket(), "s3://slip/x")
    files.makedirs("slip/x/c1")
    with pytest.raises(StoreError, match="The specified bucket") as caught:
        files.pipe_file("slip/x/c1/LATEST", b"1")
    assert caught.value.code == "STORE_UNREACHABLE"


def test_what_is_wrong_with_a_files_content_is_no_matter_of_the_store() -> None:
    class Cut(MemoryFileSystem):  # type: ignore[misc]
        def open(self, *_args: Any, **_options: Any) -> Any:
            return io.BytesIO(b"PAR1")

    files = UrlFiles(Cut(), "s3://bucket")
    with pytest.raises(pa.ArrowInvalid, match="cut"), files.open("x"):
        raise pa.ArrowInvalid("cut short")


def test_a_folder_that_may_not_be_deleted_stops_no_pruning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ClusterStore(Store("memory://pruned-url"), "c1")
    for _ in range(2):
        writer = cluster.begin("snapshots", NOW)
        writer.write("brokers", brokers(writer.id))
        writer.commit(1.0, {})
    first, _second = cluster.ids("snapshots")
    real = MemoryFileSystem.rm_file

    def rm_file(self: Any, path: str) -> None:
        if first in path:
            raise EndpointError("no right to delete")
        real(self, path)

    monkeypatch.setattr(MemoryFileSystem, "rm_file", rm_file)
    pruned = prune(cluster, "snapshots", lambda _: [], NOW)
    assert len(pruned.removed) == 1
    assert "no right to delete" in pruned.errors[0]["error"]
    assert cluster.ids("snapshots") == [first]


def test_a_path_is_no_pattern_where_one_file_is_deleted() -> None:
    files = UrlFiles(MemoryFileSystem(), "bucket://kept[1]")
    for name in ("kept[1]/a", "kept1/a"):
        files.pipe_file(f"/no-pattern/{name}", b"x")
    files.rm("/no-pattern/kept[1]/a")
    assert not files.exists("/no-pattern/kept[1]/a")
    assert files.exists("/no-pattern/kept1/a")


def test_a_listing_is_never_remembered() -> None:
    assert not Store("memory://x").fs._files.dircache.use_listings_cache
