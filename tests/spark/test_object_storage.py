"""A store on S3: collect and watch write it, Spark reads it by s3a, findings and pages show it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from streamlit.testing.v1 import AppTest

from analytics.job import analyze
from dashboard.cli.main import main
from dashboard.collect import watch
from dashboard.core.clock import utc_now
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import Store
from tests.pages.conftest import new_server
from tests.support import s3
from tests.support.fake_live import FakeLive
from tests.support.in_buckets import copied
from tests.support.lab import Lab
from tests.support.spark_history import analytics, declared, findings, history
from tests.support.standalone_spark import OPTIONS, bare_python, standalone

# The first run fetches 18 MB of jars from Maven Central.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(420)]
URL = "s3://ops/lowwater/data"
APP = Path(__file__).parents[2] / "dashboard" / "app.py"


def _bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, str]]:
    """The server's files with an empty bucket, and `[spark]` for it; the environment names it."""
    import s3fs

    for name, value in s3.credentials(endpoint).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    files.mkdir("ops")
    return files, s3.spark_options(endpoint, Settings().cache_dir / "spark-jars")


def _watched() -> list[dict[str, Any]]:
    """What `watch` tells of one round: a snapshot, and its analysis by a process of its own."""
    events: list[dict[str, Any]] = []
    watch.run(
        FakeLive, Store(URL), every=timedelta(seconds=1), now=utc_now, emit=events.append, rounds=1
    )
    return events


def test_a_store_on_s3_is_collected_analyzed_and_shown(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with s3.server(tmp_path) as endpoint:
        files, options = _bucket(endpoint, monkeypatch)
        monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(options))

        events = _watched()

        found = [event for event in events if event["event"] == "analysis"]
        assert [event.get("error") for event in found] == [None], capfd.readouterr().err
        cluster = Store(URL).cluster()
        assert cluster.latest_analysis() == found[0]["analysis_id"]
        assert main(["findings", "reclaimable", "--data", URL, "--json"]) == 0
        told = capfd.readouterr()
        shown = json.loads(told.out)
        assert len(shown["rows"]) == found[0]["tables"]["reclaimable"] > 0
        assert "hidden-from-logs" not in told.out + told.err

        files.get("ops/lowwater/data", str(tmp_path / "data"), recursive=True)
        local = Store(str(tmp_path / "data")).cluster()
        again = analyze(spark, local, Settings(), now=utc_now, full=True)
        for table in again.tables:
            here = local.read("findings", again.analysis_id, table)
            assert cluster.read("findings", found[0]["analysis_id"], table) == here, table

        monkeypatch.setenv("LOWWATER_DATA", URL)
        monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
        new_server()
        app = AppTest.from_file(str(APP), default_timeout=60).run()
        assert not app.exception
        page = "\n".join(str(block.value) for block in (*app.html, *app.markdown))
        assert "STORE_" not in page and cluster.name in page
        new_server()


def test_an_object_store_is_all_that_a_cluster_of_machines_shares(
    lab: Lab,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Collected into it, analyzed by workers with numpy, pyarrow and s3fs that write there."""
    with s3.server(tmp_path) as endpoint:
        _, options = _bucket(endpoint, monkeypatch)
        python = bare_python(tmp_path_factory.mktemp("python"), "s3fs")
        monkeypatch.setenv("PYSPARK_PYTHON", str(python))
        store = declared(lab)
        history(store)
        local = findings(store.cluster, store.analyze(full=True).analysis_id)
        with standalone(tmp_path_factory.mktemp("standalone")) as running:
            monkeypatch.setenv("LOWWATER_SPARK_MASTER", running.url)
            monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(OPTIONS | options))
            shared = copied(store.cluster, "other", [16], Store(URL))

            answer = analytics(store, "--data", URL, "--cluster", "other", "--full")

            assert "error" not in answer, answer
            assert findings(shared, answer["analysis_id"]) == local
            assert all(running.finished_tasks(worker) for worker in (0, 1)), "both did the work"
            events = _watched()
            found = [event for event in events if event["event"] == "analysis"]
            assert [event.get("error") for event in found] == [None], capfd.readouterr().err
            collected = Store(URL).cluster(FakeLive().cluster_id())
            assert collected.read("findings", found[0]["analysis_id"], "reclaimable").num_rows
