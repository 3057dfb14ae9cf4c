"""The same analysis through a Spark Connect server, and a server that is not there."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from analytics.session.session import open_session
from dashboard.core.errors import AnalysisError
from dashboard.settings.settings import Settings
from tests.support import wide_history
from tests.support.in_buckets import copied
from tests.support.lab import Lab
from tests.support.spark_history import analytics, declared, findings, history
from tests.support.standalone_spark import Daemon, daemon

pytestmark = pytest.mark.spark


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = daemon(
        tmp_path_factory.mktemp("connect"), "connect", "org.apache.spark.deploy.SparkSubmit",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.connect.grpc.binding.port=0", "spark-internal",
        memory="1g",
    )  # fmt: skip
    yield running
    running.process.terminate()
    running.process.wait(30)


@pytest.mark.slow
def test_a_connect_server_gives_the_tables_of_one_machine(
    lab: Lab, server: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = declared(lab)
    history(store)
    local = findings(store.cluster, store.analyze(full=True).analysis_id)
    port = server.said(r"Spark Connect server started at: \S+:(\d+)")
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{port}")

    answer = analytics(store, "--full")

    assert "error" not in answer, answer
    assert findings(store.cluster, answer["analysis_id"]) == local
    other = copied(store.cluster, "other", [16])  # enough that sums are summed in tasks
    answer = analytics(store, "--cluster", "other", "--full")
    assert "error" not in answer, answer
    assert findings(other, answer["analysis_id"]) == local


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_20_000_partitions_of_a_cluster_that_lost_a_broker_are_told_alike(
    lab: Lab, server: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.said(r"Spark Connect server started at: \S+:(\d+)")
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{port}")
    assert wide_history.differing_elsewhere(lab) == []


OPENED = """
import sys
import analytics as lw
cluster = lw.open(sys.argv[1])
table = lw.to_pandas(cluster.history("partitions").where("high_watermark > 0"))
print(type(cluster.spark).__module__, sorted(set(table["topic"])), table["error"].isna().all())
"""


@pytest.mark.slow
def test_an_opened_cluster_reads_through_a_connect_server(
    lab: Lab, server: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(lab)
    port = server.said(r"Spark Connect server started at: \S+:(\d+)")
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{port}")
    done = subprocess.run(
        [sys.executable, "-c", OPENED, lab.cluster.store.root],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.split(maxsplit=1) == [
        "pyspark.sql.connect.session", "['grows', 'recreated', 'replayed'] True\n"
    ], done.stderr  # fmt: skip


def test_a_connect_server_that_is_not_there_is_named_without_its_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(AnalysisError) as caught:
        open_session(Settings(spark_remote=f"sc://127.0.0.1:{port}/;token=hidden"))
    assert caught.value.code == "SPARK_UNAVAILABLE"
    assert f"sc://127.0.0.1:{port}" in caught.value.message
    assert "hidden" not in str(caught.value.to_json())
