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

# The first run fetches 18 MB of jars from Maven Central.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(420)]
URL = "s3://ops/lowwater/data"
APP = Path(__file__).parents[2] / "dashboard" / "app.py"


def test_a_store_on_s3_is_collected_analyzed_and_shown(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import s3fs

    with s3.server(tmp_path) as endpoint:
        for name, value in s3.credentials(endpoint).items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        options = s3.spark_options(endpoint, Settings().cache_dir / "spark-jars")
        monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(options))
        files = s3fs.S3FileSystem(skip_instance_cache=True)
        files.mkdir("ops")
        events: list[dict[str, Any]] = []

        watch.run(
            FakeLive, Store(URL), every=timedelta(seconds=1), now=utc_now, emit=events.append,
            rounds=1,
        )  # fmt: skip

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
