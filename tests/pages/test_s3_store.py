"""A data folder on S3 (moto's server): collected, watched, pruned, told and shown without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.cli.main import main
from dashboard.collect import watch
from dashboard.core.clock import utc_now
from dashboard.core.errors import StoreError
from dashboard.history.pruning import prune
from dashboard.store.snapshots import ClusterStore, Store
from tests.pages.conftest import REPOSITORY, new_server, said
from tests.support import s3, sample_store
from tests.support.fake_live import FakeLive

URL = "s3://ops/lowwater/data"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3.server(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The file system with an empty bucket `ops`."""
    import s3fs

    for name, value in s3.credentials(endpoint).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    files.mkdir("ops")
    yield files
    files.rm("ops", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.further
def test_watch_writes_snapshots_that_another_process_sees_whole_or_not_at_all(bucket: Any) -> None:
    events: list[dict[str, Any]] = []
    watch.run(
        FakeLive, Store(URL), every=timedelta(milliseconds=1), now=utc_now, emit=events.append,
        analysis=None, rounds=2,
    )  # fmt: skip
    ids = [event["snapshot_id"] for event in events if event["event"] == "snapshot"]
    cluster = ClusterStore(Store(URL), "fake")
    assert cluster.ids("snapshots") == ids
    half = cluster.begin("snapshots", utc_now())
    half.write("brokers", cluster.read("snapshots", ids[1], "brokers"))
    assert (cluster.ids("snapshots"), cluster.latest_snapshot()) == (ids, ids[1])
    half.abandon()
    bucket.rm(f"ops/lowwater/data/fake/snapshots/{ids[0]}/manifest.json")  # by another process
    assert cluster.ids("snapshots") == ids[1:]
    later = datetime.now(UTC) + timedelta(hours=2)
    prune(cluster, "snapshots", lambda names: names, later)
    assert bucket.ls("ops/lowwater/data/fake/snapshots") == [
        f"ops/lowwater/data/fake/snapshots/{ids[1]}"
    ]
    cluster.set_latest("one")
    cluster.set_latest("two")
    assert ClusterStore(Store(URL), "fake").latest("findings") == "two"


@pytest.mark.further
def test_findings_and_pages_show_a_store_on_s3(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = sample_store.write(URL)
    assert main(["findings", "reclaimable", "--data", URL, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == cluster.read("findings", cluster.latest_analysis(), "reclaimable").num_rows

    monkeypatch.setenv("LOWWATER_DATA", URL)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    new_server()
    app = AppTest.from_file(str(REPOSITORY / "dashboard" / "app.py"), default_timeout=280).run()
    assert sample_store.NAME in said(app)
    for page in ("reclaimable", "quality"):
        assert "STORE_" not in said(app.switch_page(f"../pages/{page}.py").run())
    new_server()


@pytest.mark.further
def test_a_bucket_that_is_not_there_is_named_and_never_made(
    bucket: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreError, match="s3://slip/x cannot be reached") as caught:
        sample_store.write("s3://slip/x")
    assert caught.value.code == "STORE_UNREACHABLE"
    assert bucket.ls("") == ["ops"]
    assert main(["findings", "reclaimable", "--data", "s3://slip/x", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_SNAPSHOT"
