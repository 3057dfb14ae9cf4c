"""Native leader-only purges on brokers that know them: from the plan to the receipt."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.forecast.text import native_said
from dashboard.purge.journal.rows import PartitionRow
from tests.brokers.preview_cluster import PreviewCluster
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import carry_out, follower, resumed, until
from tests.brokers.test_forecast import eventually, foresee

pytestmark = pytest.mark.further


def answers(bench: Bench, run_id: str) -> list[dict[str, Any]]:
    """The raw answers that the journal keeps."""
    return [dict(e.body) for e in bench.journal.entries(run_id) if e.kind == "answer"]


def row_of(bench: Bench, run_id: str) -> PartitionRow:
    return bench.journal.run(run_id).partitions[0]


def freed(bench: Bench, run_id: str) -> bool:
    """Whether bytes have left on every replica."""
    receipt = bench.journal.run(run_id).to_json()["receipt"]
    replicas = receipt["replicas"] if receipt else []
    return len(replicas) == 3 and all(r["freed_bytes"] for r in replicas)


def test_leaders_that_know_leader_only_say_so(preview_bench: Bench) -> None:
    topic = preview_bench.topic(100, 100, 100)
    preview_bench.commit("forecast-g", topic, dict.fromkeys(range(3), 60))
    plan = preview_bench.plan(topic)
    found = eventually(lambda: foresee(preview_bench, plan), lambda seen: len(seen.versions) == 3)

    assert found.versions == {1: 3, 2: 3, 3: 3}
    assert native_said(found) == "All 3 leaders support it."


def test_a_leader_only_purge_ends_done_with_its_bytes_freed(preview_bench: Bench) -> None:
    bench = preview_bench
    topic = bench.topic(4000)
    bench.commit("preview-g", topic, {0: 3000})
    view = bench.apply(bench.plan(topic), mode="leader-only", watch=True)
    run_id = view.run.run_id

    assert (view.run.state, view.exit_code) == ("done", 0)
    assert view.partitions[0].state in ("done", "leader_done")
    answer = answers(bench, run_id)[0]
    # Idle followers have not fetched when the leader answers: the low watermark is the old one.
    assert (answer["api_version"], answer["results"]) == (3, [[topic, 0, 0, 3000, 0]])
    until(lambda: row_of(bench, run_id).state == "done")
    assert row_of(bench, run_id).low_watermark == 3000
    until(lambda: freed(bench, run_id))
    bench.kill_worker(run_id)
    assert bench.offsets(topic, 0) == list(range(3000, 4000))
    assert bench.journal.verify().ok


def test_a_hanging_follower_neither_delays_the_answer_nor_fills_the_purgatory(
    preview_bench: Bench, preview_cluster: PreviewCluster
) -> None:
    bench, brokers = preview_bench, preview_cluster.brokers
    topic = bench.topic(100)
    bench.commit("preview-g", topic, {0: 60})
    behind, leader = follower(bench, topic), bench.placed(topic).leader_id
    assert leader is not None
    run_id = bench.enqueue(bench.plan(topic), mode="leader-only", start=False, watch=True)
    with resumed(brokers, behind):
        view = carry_out(bench, run_id, lambda: brokers.suspend(behind))
        assert preview_cluster.waiting(leader) == 0
        row = view.partitions[0].to_json()
        assert (view.run.state, view.exit_code) == ("done", 0)
        assert (row["state"], row["error"]) == ("leader_done", None)
        assert behind in row["followers_behind"]
        assert row["leader_log_start_offset"] == 60
        assert answers(bench, run_id)[0]["results"] == [[topic, 0, 0, 60, 0]]
        assert_a_wait_all_request_waits(bench, preview_cluster, Key(topic, 0), leader, behind)

    bench.start(run_id)  # a worker that finds the run closed watches it
    until(lambda: row_of(bench, run_id).state == "done")
    bench.kill_worker(run_id)
    assert bench.journal.run(run_id).run.state == "done"
    assert bench.offsets(topic, 0) == list(range(60, 100))
    assert bench.journal.verify().ok


def assert_a_wait_all_request_waits(
    bench: Bench, cluster: PreviewCluster, key: Key, leader: int, behind: int
) -> None:
    """In the same situation the gauge shows a request that waits: it is able to."""
    client = {"bootstrap.servers": bench.bootstrap}
    with connect(client, timedelta(seconds=30)) as live, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(live.delete_records, leader, {key: 60}, timeout_ms=25_000)
        try:
            until(lambda: cluster.waiting(leader) == 1)
        finally:
            cluster.brokers.resume(behind)
        result = asked.result().partition_results[0]
    assert (result.low_watermark, result.leader_log_start_offset, result.error) == (60, -1, None)
    until(lambda: cluster.waiting(leader) == 0)


def test_delete_records_leader_only_does_what_it_can_and_fails_loudly_for_the_rest(
    preview_bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = preview_bench
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    topic, compacted = bench.topic(100, 50), bench.topic(0, cleanup_policy="compact")
    file = tmp_path / "offsets.json"

    def delete(*words: str) -> int:
        command = ["delete-records", "--bootstrap-server", bench.bootstrap, "--leader-only"]
        return main(
            [*command, "--offset-json-file", str(file), "--data", bench.settings.data, *words]
        )

    def write(offsets: dict[str, list[int]]) -> None:
        rows = [
            {"topic": name, "partition": partition, "offset": offset}
            for name, targets in offsets.items()
            for partition, offset in enumerate(targets)
        ]
        file.write_text(json.dumps({"partitions": rows, "version": 1}))

    write({topic: [60, 20]})
    assert delete("--json") == 1  # nobody to ask
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "CONFIRMATION_REQUIRED"
    assert delete("--yes", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(p["leader_log_start_offset"], p["error"]) for p in told["partitions"]] == [
        (60, None),
        (20, None),
    ]
    entry = answers(bench, told["run_id"])
    assert {a["api_version"] for a in entry} == {3}

    write({topic: [70, 20], compacted: [0]})
    assert delete("--yes", "--json") == 2
    told = json.loads(capsys.readouterr().out)
    assert {(p["topic"], p["partition"]): p["error"] for p in told["partitions"]} == {
        (topic, 0): None,
        (topic, 1): None,
        (compacted, 0): "not-deletable",
    }
    assert delete("--yes") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Executing records delete operation"
    assert lines[1] == "Records delete operation completed:"
    assert f"partition: {compacted}-0\terror: not-deletable" in lines
    assert f"partition: {topic}-0\tlow_watermark: 70" in lines
    assert bench.offsets(topic, 0) == list(range(70, 100))
    assert bench.offsets(topic, 1) == list(range(20, 50))
    assert bench.journal.verify().ok
