"""A journal whose disk is full: nothing leaves without a durable intent, and all is found again."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.purge.jobs import queue
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import kinds
from tests.brokers.purge_proof import Left, assert_proved, assert_untouched
from tests.brokers.starved_worker import BALLAST, fill

pytestmark = pytest.mark.further

NEXT_STEP = "Free disk space"


@pytest.fixture(scope="module")
def small_disk() -> Iterator[Path]:
    """A folder whose `state` is a disk of 4 MiB, where this machine lets us mount one.

    Not below pytest's own folder: a disk that a killed run left there would fail every later run,
    as it tidies up.
    """
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        state = folder / "state"
        state.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(state)]
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        yield folder
        if mounted:
            subprocess.run(["umount", "--lazy", str(state)], check=True)


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, small_disk: Path) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, small_disk)
    yield made
    made.close()


def state_dir(bench: Bench) -> Path:
    return bench.settings.state_dir


def needs_a_mount(bench: Bench) -> None:
    if not state_dir(bench).is_mount():
        pytest.skip("no small disk can be mounted on this machine")


def free(bench: Bench) -> None:
    (state_dir(bench) / BALLAST).unlink(missing_ok=True)


def work(
    bench: Bench, run_id: str, moment: str, stderr: int | IO[str] = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """A worker of this run, starved from `moment` on (or not at all), until it ends."""
    command = [sys.executable, "-m", "tests.brokers.starved_worker", moment, "--run", run_id]
    command += ["--state-dir", str(state_dir(bench))]
    return subprocess.run(command, check=False, stderr=stderr, text=True, timeout=60)


def assert_told(bench: Bench, done: subprocess.CompletedProcess[str]) -> None:
    """The journal is named with the next step, and no traceback is shown."""
    assert done.returncode == JournalError.exit_code
    assert done.stderr.startswith("JOURNAL_FAILED: ")
    assert str(state_dir(bench)) in done.stderr
    assert NEXT_STEP in done.stderr
    assert "Traceback" not in done.stderr


def respawned(bench: Bench, run_id: str) -> None:
    later = utc_now() + timedelta(minutes=1)
    assert run_id in queue.respawn_stale(bench.settings, bench.journal, now=later)


def queued(bench: Bench) -> tuple[str, str]:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    return topic, bench.enqueue(bench.plan(topic), start=False)


def test_full_before_the_intent_nothing_is_sent(bench: Bench) -> None:
    topic, run_id = queued(bench)
    try:
        assert_told(bench, work(bench, run_id, "before-the-intent"))
        assert "intent" not in kinds(bench, run_id)
        assert bench.journal.run(run_id).partitions[0].state == "pending"
        assert_untouched(bench, topic, 100)
    finally:
        free(bench)
    respawned(bench, run_id)
    view = bench.wait(run_id)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))


def test_full_between_answer_and_journal_the_next_worker_reads_and_sends_nothing(
    bench: Bench,
) -> None:
    topic, run_id = queued(bench)
    try:
        assert_told(bench, work(bench, run_id, "after-the-answer"))
        assert bench.journal.run(run_id).partitions[0].state == "sent"
        assert "answer" not in kinds(bench, run_id)
    finally:
        free(bench)
    respawned(bench, run_id)
    view = bench.wait(run_id)
    assert kinds(bench, run_id).count("intent") == 1
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))


def test_a_worker_that_starts_on_a_full_disk_says_so_and_the_run_waits(bench: Bench) -> None:
    needs_a_mount(bench)
    topic, run_id = queued(bench)
    try:
        fill(state_dir(bench))
        assert_told(bench, work(bench, run_id, "not-at-all"))
        with Path("/dev/full").open("w") as full:  # its log lies on the same disk
            assert work(bench, run_id, "not-at-all", full).returncode == JournalError.exit_code
        with pytest.raises(JournalError, match="journal"):
            queue.respawn_stale(bench.settings, bench.journal, now=utc_now() + timedelta(minutes=1))
        assert_untouched(bench, topic, 100)
    finally:
        free(bench)
    respawned(bench, run_id)
    view = bench.wait(run_id)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))


def test_an_operator_on_a_full_disk_is_told_and_can_still_read(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs_a_mount(bench)
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    plan = bench.plan(topic)
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json_text())
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(state_dir(bench)))
    before = len(bench.journal.runs())
    words = ["apply", str(file), "--mode", "wait-all", "--confirm", plan.confirmation]
    words += ["--data", bench.settings.data, "--json"]
    try:
        fill(state_dir(bench))
        capsys.readouterr()
        assert main(words) == JournalError.exit_code
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["code"] == "JOURNAL_FAILED"
        assert str(bench.journal.file.path) in error["message"]
        assert NEXT_STEP in error["next"]
        assert main(["runs", "--verify", "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["runs"]) == before
        assert_untouched(bench, topic, 100)
    finally:
        free(bench)
    view = bench.apply(plan)  # the same plan: it never became a run
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))
