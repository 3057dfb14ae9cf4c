"""Workers that are killed: the next one reads the cluster first, and sends nothing twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.jobs import queue
from dashboard.purge.journal.rows import RunView
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import kinds
from tests.brokers.purge_proof import Left, assert_proved

MODES = ("wait-all", "leader-only-verified")


def killed_and_followed(bench: Bench, run_id: str, moment: str) -> RunView:
    """A worker is killed around its first request, and the next one ends the run."""
    command = [sys.executable, "-m", "tests.brokers.dying_worker", moment, "--run", run_id]
    command += ["--state-dir", str(bench.settings.state_dir)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert [row.state for row in bench.journal.partitions(run_id)].count("sent") == 1
    assert "answer" not in kinds(bench, run_id)
    later = utc_now() + timedelta(minutes=1)
    assert run_id in queue.respawn_stale(bench.settings, bench.journal, now=later)
    return bench.wait(run_id)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("moment", ["before-sending", "after-the-answer"])
def test_a_worker_killed_between_intent_and_journal_is_followed_by_one_that_reads_first(
    bench: Bench, moment: str, mode: str
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    run_id = bench.enqueue(bench.plan(topic), mode=mode, start=False)
    view = killed_and_followed(bench, run_id, moment)
    state = view.partitions[0].state
    assert state in (("done",) if mode == "wait-all" else ("done", "leader_done"))
    assert_proved(bench, view, "done", Left(topic, 0, state, range(60, 100)))
    # What had been carried out is seen by reading, and not sent a second time.
    steps = kinds(bench, run_id)
    assert steps.count("intent") == (2 if moment == "before-sending" else 1)
    assert "read" in steps[steps.index("intent") + 1 :]


@pytest.mark.parametrize("moment", ["before-sending", "after-the-answer"])
def test_the_rest_follows_a_canary_whose_worker_was_killed_once_it_is_done(
    bench: Bench, moment: str
) -> None:
    topic = bench.topic(20, 20, 20)
    bench.commit("purge-g", topic, {0: 5, 1: 6, 2: 7})
    run_id = bench.enqueue(bench.plan(topic), canary=True, start=False)
    view = killed_and_followed(bench, run_id, moment)
    left = [Left(topic, p, "done", range(5 + p, 20)) for p in range(3)]
    assert_proved(bench, view, "done", *left)
    # Below its target the canary goes once more, and again alone, before the rest does.
    attempts = sorted(row.attempts for row in view.partitions)
    assert attempts == ([1, 1, 2] if moment == "before-sending" else [1, 1, 1])
    intents = [
        [body["partition"] for body in entry.body["partitions"]]
        for entry in bench.journal.entries(run_id)
        if entry.kind == "intent"
    ]
    alone = intents[: attempts[-1]]
    assert alone and all(names == intents[0] and len(names) == 1 for names in alone), intents
