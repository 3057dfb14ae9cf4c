"""A real purge with secrets in every setting: none in plans, journal, logs, reports, processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.settings.settings import load
from tests.brokers.purge_bench import Bench
from tests.support import marked, sample_store

pytestmark = [pytest.mark.brokers, pytest.mark.slow]


@pytest.mark.usefixtures("workers_started")  # what others see of a process is what it began with
def test_a_purge_and_its_reports_tell_no_secret(
    cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    bench = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    topic = bench.topic(60, 60)
    bench.commit("readers", topic, {0: 40, 1: 40})
    sample_store.write(tmp_path / "sample", "rich")
    file = marked.settings_file(tmp_path, "test", cluster.bootstrap, topics=topic)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    for name, value in marked.TOKEN_VARIABLE.items():
        monkeypatch.setenv(name, value)
    out = {name: str(tmp_path / name) for name in ("plan.json", "offsets.json", "r.pdf", "r.html")}
    (tmp_path / "offsets.json").write_text(
        f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 1, "offset": 45}}]}}'
    )
    there = ["--bootstrap-server", cluster.bootstrap]
    config = str(tmp_path / "secret" / "client.properties")
    sample = ["--data", str(tmp_path / "sample")]

    try:
        with marked.watched_processes(tmp_path) as seen:
            codes = [
                main(words)
                for words in (
                    ["collect", *there, "--client-config", config, "--name", "test"],
                    ["collect", "--cluster", "test", "--name", "test"],
                    ["plan", "--topic", topic, "--to", "committed", "--out", out["plan.json"]],
                    ["preview", out["plan.json"], "--live"],
                    ["apply", out["plan.json"], "--mode", "wait-all",
                     "--confirm", f"purge {topic} on test"],
                    ["delete-records", *there, "--offset-json-file", out["offsets.json"],
                     "--command-config", config, "--yes"],
                    ["policies", "check"],
                    ["policies", "on", "orders",
                     "--confirm", load(file).policies[0].confirmation("test")],
                    ["policies", "run", "--once"],
                    ["doctor", *there, "--client-config", config],
                    ["runs", "--export", str(tmp_path / "runs.json")],
                    ["runs", "--export", str(tmp_path / "runs.csv")],
                    ["report", *sample, "--format", "pdf", "--out", out["r.pdf"]],
                    ["report", *sample, "--format", "html", "--out", out["r.html"]],
                )
            ]  # fmt: skip
        printed = capfd.readouterr()
        runs = bench.journal.runs()
    finally:
        bench.close()

    assert codes[:5] == [0, 0, 0, 0, 0], printed
    assert codes[-4:] == [0, 0, 0, 0], printed
    assert runs, printed
    assert seen == []
    assert not marked.marks_in(printed.out + printed.err)
    assert marked.marked_files(tmp_path) == {}
