"""A plan's offsets JSON by `lowwater report`: Kafka's own DeleteRecordsCommand takes it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from tests.brokers.purge_bench import UNDECLARED, Bench
from tests.support import class_data

pytestmark = pytest.mark.further


@pytest.fixture
def bench(cluster: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    yield made
    made.close()


def test_kafkas_own_tool_purges_by_the_offsets_of_a_plan(
    bench: Bench, kafka_jars: KafkaJars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kafka_jars.has_tools:
        pytest.skip(f"Kafka {kafka_jars.version} has no tools in Maven Central")
    topic = bench.topic(300, 100)
    bench.commit("report-g", topic, {0: 250, 1: 40})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    planned = ["plan", "--topic", topic, "--to", "committed", "--override", UNDECLARED,
               "--out", "plan.json", "--data", bench.settings.data]  # fmt: skip
    assert main(planned) == 0
    written = ["report", "--format", "offsets-json", "--plan", "plan.json", "--out", "o.json"]
    assert main(written) == 0

    done = subprocess.run(
        [*class_data.java(kafka_jars), "org.apache.kafka.tools.DeleteRecordsCommand",
         "--bootstrap-server", bench.bootstrap, "--offset-json-file", "o.json"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"partition: {topic}-0\tlow_watermark: 250" in done.stdout
    assert f"partition: {topic}-1\tlow_watermark: 40" in done.stdout
    assert (bench.log_start(topic, 0), bench.log_start(topic, 1)) == (250, 40)
