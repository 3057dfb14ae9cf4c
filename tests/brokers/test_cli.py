"""The command line on a real cluster: from collect to a finished purge, and what refuses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.demo.kafka.brokers import LocalCluster
from tests.brokers.purge_bench import UNDECLARED, Bench
from tests.brokers.purge_faults import follower, resumed

ROOT = Path(__file__).parents[2]


class Shell:
    """Calls `lowwater VERB … --json` in this process, against one bench."""

    def __init__(self, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
        self.bench = bench
        self.capsys = capsys

    def __call__(self, *words: str) -> tuple[int, dict[str, Any]]:
        self.capsys.readouterr()
        code = main([*words, "--data", self.bench.settings.data, "--json"])
        value: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return code, value

    def plan(self, topic: str, *more: str) -> tuple[int, dict[str, Any]]:
        return self("plan", "--topic", topic, "--to", "committed", "--out", "plan.json", *more)


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("cli"))
    yield made
    made.close()


@pytest.fixture
def lowwater(
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    return Shell(bench, capsys)


def test_from_collect_to_a_finished_purge(bench: Bench, lowwater: Shell) -> None:
    topic = bench.topic(3000, 500)
    bench.commit("cli-group", topic, {0: 2500, 1: 500})

    code, collected = lowwater("collect", "--bootstrap-server", bench.bootstrap, "--name", "test")
    assert code == 0
    assert [b["reachable"] for b in collected["brokers"]] == [True, True, True]
    assert collected["tables"]["partitions"] >= 2

    code, guarded = lowwater.plan(topic)
    assert code == 3
    assert {g["name"] for p in guarded["partitions"] for g in p["guards"]} == {"readers-undeclared"}
    code, plan = lowwater.plan(topic, "--override", UNDECLARED)
    assert code == 0
    assert [(p["partition"], p["target_offset"]) for p in plan["partitions"]] == [
        (0, 2500),
        (1, 500),
    ]
    look = ("--records", "2", "--of", f"{topic}-0", "--values", "text")
    code, view = lowwater("preview", "plan.json", *look)
    assert (code, view["sha256"]) == (0, plan["sha256"])
    (looked,) = view["looked_at"]
    shown = [looked["first"], *looked["sampled"], looked["last"]]
    assert [r["offset"] for r in shown] == [0, 833, 1666, 2499], "below the target"
    assert [r["value"]["shown"].split()[0] for r in shown] == ["0", "833", "1666", "2499"]

    words = ["apply", "plan.json", "--mode", "wait-all", "--sha256", plan["sha256"]]
    code, refused = lowwater(*words, "--confirm", "purge everything")
    assert (code, refused["error"]["code"]) == (3, "CONFIRMATION_MISMATCH")
    code, run = lowwater(*words, "--confirm", view["confirmation"])
    assert (code, run["state"]) == (0, "done")
    assert [(p["low_watermark"], p["leader_log_start_offset"]) for p in run["partitions"]] == [
        (2500, 2500),
        (500, 500),
    ]
    code, again = lowwater(*words, "--confirm", view["confirmation"])
    assert (code, again["error"]["code"]) == (3, "PLAN_ALREADY_APPLIED")
    assert again["run_id"] == run["run_id"]
    code, shown = lowwater("run", run["run_id"], "--wait")
    assert (code, shown["state"]) == (0, "done")
    code, runs = lowwater("runs", "--verify")
    assert (code, runs["verification"]["ok"]) == (0, True)
    assert bench.offsets(topic, 0)[0] == 2500


def test_an_offsets_file_keeps_guarded_partitions_and_sends_the_others(
    bench: Bench, lowwater: Shell
) -> None:
    topic = bench.topic(400, 400)
    bench.commit("cli-group", topic, {0: 300})
    rows = [{"topic": topic, "partition": p, "offset": o} for p, o in ((0, 200), (1, 200))]
    Path("offsets.json").write_text(json.dumps({"partitions": rows, "version": 1}))
    code, plan = lowwater(
        "plan", "--from-file", "offsets.json", "--override", UNDECLARED, "--out", "plan.json"
    )
    assert code == 0
    assert [len(p["guards"]) for p in plan["partitions"]] == [0, 1]
    words = ["apply", "plan.json", "--mode", "leader-only-verified"]
    code, run = lowwater(*words, "--confirm", plan["confirmation"])
    assert code == 0
    assert [(p["partition"], p["state"]) for p in run["partitions"]] in (
        [(0, "done")],
        [(0, "leader_done")],
    )
    assert bench.offsets(topic, 1)[0] == 0


def test_a_group_born_after_the_plan_refuses_the_run(bench: Bench, lowwater: Shell) -> None:
    topic = bench.topic(400)
    bench.commit("cli-group", topic, {0: 300})
    code, plan = lowwater.plan(topic, "--override", UNDECLARED)
    assert code == 0
    bench.commit("cli-late-group", topic, {0: 100})
    code, run = lowwater(
        "apply", "plan.json", "--mode", "wait-all", "--confirm", plan["confirmation"]
    )
    assert (code, run["state"]) == (3, "refused")
    assert [p["state"] for p in run["partitions"]] == ["not_done"]
    assert bench.offsets(topic, 0)[0] == 0


def test_what_the_cluster_has_not_is_named(lowwater: Shell) -> None:
    code, value = lowwater.plan("no-such-topic")
    assert code in (1, 3)
    assert "no-such-topic" in value["error"]["message"]


def test_ctrl_c_while_waiting_leaves_the_worker_to_its_work(
    bench: Bench, cluster: LocalCluster, lowwater: Shell
) -> None:
    topic = bench.topic(400)
    bench.commit("cli-group", topic, {0: 300})
    _, plan = lowwater.plan(topic, "--override", UNDECLARED)
    words = ["apply", "plan.json", "--mode", "wait-all", "--confirm", plan["confirmation"]]
    behind = follower(bench, topic)
    with resumed(cluster, behind):
        cluster.suspend(behind)  # so that the run is still open when Ctrl-C comes
        child = subprocess.Popen(
            [sys.executable, "-m", "dashboard.cli.main", *words, "--data", bench.settings.data,
             "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert child.stderr is not None
        assert any(": queued" in line for line in child.stderr)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    value = json.loads(out)
    assert value["error"]["code"] == "DETACHED"
    code, run = lowwater("run", value["run_id"], "--wait")
    assert (code, run["state"]) == (0, "done")


@pytest.mark.further
def test_doctor_finds_nothing_missing_on_a_healthy_cluster(bench: Bench, lowwater: Shell) -> None:
    bench.topic(1)
    code, value = lowwater("doctor", "--bootstrap-server", bench.bootstrap)
    failed = [c for c in value["checks"] if c["ok"] is False and not c["name"].startswith("java")]
    assert failed == []
    assert code in (0, 1)


@pytest.mark.further
def test_delete_records_asks_lifts_and_answers_as_kafkas_tool_does(
    bench: Bench, lowwater: Shell
) -> None:
    topic = bench.topic(400, 400)
    compacted = bench.topic(10, cleanup_policy="compact")
    offsets = [(topic, 0, 100), (topic, 1, -1), (compacted, 0, 5)]
    rows = [{"topic": t, "partition": p, "offset": o} for t, p, o in offsets]
    Path("offsets.json").write_text(json.dumps({"partitions": rows, "version": 1}))
    words = ["delete-records", "--bootstrap-server", bench.bootstrap]
    words += ["--offset-json-file", "offsets.json", "--cluster", "test"]

    code, asked = lowwater(*words)
    assert (code, asked["error"]["code"]) == (1, "CONFIRMATION_REQUIRED")
    assert bench.offsets(topic, 0)[0] == 0

    code, done = lowwater(*words, "--yes")
    found = {
        (r["topic"], r["partition"]): (r["low_watermark"], r["error"]) for r in done["partitions"]
    }
    assert found == {
        (topic, 0): (100, None),
        (topic, 1): (400, None),  # -1, typed, is the high watermark seen
        (compacted, 0): (None, "not-deletable"),
    }
    assert (code, done["state"]) == (2, "done")
    _, runs = lowwater("runs", "--verify")
    assert runs["runs"][0]["run_id"] == done["run_id"]
    assert runs["verification"]["ok"]
