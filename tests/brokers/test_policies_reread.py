"""A policy's service on real brokers obeys a settings file that is edited while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.purge.journal.policies import PolicyStatus
from dashboard.settings import settings
from tests.brokers.policy_bench import PolicyBench, Process
from tests.brokers.purge_bench import Bench

_SEVERAL_LOOKS = 3.0  # the policy looks every second
_KEEP_A_DAY = """
[topics."app*"]
owner = "team app"
readers = "groups"
replay_window = "24h"
declared_by = "dana"
declared_at = 2026-03-01
"""


@pytest.fixture
def policy(bench: Bench, tmp_path: Path) -> Iterator[PolicyBench]:
    found = PolicyBench(bench, tmp_path, timedelta(seconds=1))
    bench.topic(100, name=found.topic)
    found.switch_on()
    yield found
    found.close()


def stays(bench: Bench, policy: PolicyBench, service: Process, start: int) -> None:
    """Nothing is purged in several looks, and the service goes on."""
    time.sleep(_SEVERAL_LOOKS)
    assert bench.log_start(policy.topic) == start, service.events[-3:]
    assert service.process.poll() is None, service.log()


def purged(bench: Bench, policy: PolicyBench, service: Process, start: int) -> None:
    service.until(lambda: bench.log_start(policy.topic) == start)


def status(bench: Bench) -> PolicyStatus:
    return bench.journal.policy_statuses(bench.store.cluster_id)["streams"][1]


def test_what_is_written_counts_at_the_next_look(bench: Bench, policy: PolicyBench) -> None:
    text = policy.source.read_text()
    bench.commit(policy.app, policy.topic, {0: 60})
    service = policy.service()
    purged(bench, policy, service, 60)

    policy.source.write_text(text + _KEEP_A_DAY)
    bench.commit(policy.app, policy.topic, {0: 70})
    stays(bench, policy, service, 60)
    policy.source.write_text(text)
    purged(bench, policy, service, 70)

    changed = text.replace("min_purge_interval_ms = 1000", "min_purge_interval_ms = 1500")
    policy.source.write_text(changed)
    bench.commit(policy.app, policy.topic, {0: 80})
    service.until(lambda: status(bench).state == "changed")
    stays(bench, policy, service, 70)
    policy.settings = settings.load(policy.source)
    (policy.policy,) = policy.settings.policies
    policy.switch_on()
    purged(bench, policy, service, 80)

    policy.source.write_text(changed.partition("[policies")[0])
    bench.commit(policy.app, policy.topic, {0: 90})
    stays(bench, policy, service, 80)
    assert service.end() == 130, service.log()
    assert [run.state for run in policy.runs()] == ["done"] * 3
    assert bench.journal.verify().ok


@pytest.mark.parametrize(
    "wrong", ["[topics", "[purge]\nmost_partitions = 0", None], ids=["no-toml", "value", "gone"]
)
def test_a_file_that_is_wrong_by_now_stops_purging_and_says_why(
    bench: Bench, policy: PolicyBench, wrong: str | None
) -> None:
    text = policy.source.read_text()
    bench.commit(policy.app, policy.topic, {0: 60})
    service = policy.service()
    purged(bench, policy, service, 60)
    if wrong is None:
        policy.source.unlink()
    else:
        policy.source.write_text(f"{text}\n{wrong}\n")
    bench.commit(policy.app, policy.topic, {0: 90})
    said = f"the settings file {policy.source} is wrong by now, so every purge is off"
    # The cycle that is under way may end first, with an error of its own.
    service.until(lambda: said in status(bench).reason)
    # Written after the journal; that the run before is over may be told even later.
    service.until(lambda: any(said in str(event.get("reason")) for event in service.events))
    stays(bench, policy, service, 60)
    policy.source.write_text(text)
    purged(bench, policy, service, 90)
    assert service.end() == 130, service.log()


def test_another_journal_takes_a_restart(bench: Bench, policy: PolicyBench, tmp_path: Path) -> None:
    text = policy.source.read_text()
    bench.commit(policy.app, policy.topic, {0: 60})
    service = policy.service()
    purged(bench, policy, service, 60)
    moved = tmp_path / "other"
    policy.source.write_text(text.replace(str(policy.settings.state_dir), str(moved)))
    bench.commit(policy.app, policy.topic, {0: 90})
    service.until(lambda: "Restart it" in status(bench).reason)
    stays(bench, policy, service, 60)
    assert service.end() == 130, service.log()
