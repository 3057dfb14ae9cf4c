"""A policy's service on real brokers: it follows commits, bounds the disk, and dies well."""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from tests.brokers.policy_bench import PolicyBench, Process
from tests.brokers.purge_bench import Bench


def made(bench: Bench, folder: Path, seconds: float, more: str = "") -> Iterator[PolicyBench]:
    found = PolicyBench(bench, folder, timedelta(seconds=seconds), more)
    yield found
    found.close()


@pytest.fixture
def often(bench: Bench, tmp_path: Path) -> Iterator[PolicyBench]:
    yield from made(bench, tmp_path, 1)


@pytest.fixture
def seldom(bench: Bench, tmp_path: Path) -> Iterator[PolicyBench]:
    yield from made(bench, tmp_path, 5)


@pytest.fixture
def as_commits(bench: Bench, tmp_path: Path) -> Iterator[PolicyBench]:
    yield from made(bench, tmp_path, 0.1, "as_often_as_commits = true")


def assert_interval(policy: PolicyBench) -> None:
    """Each purge was queued the interval after the one before it really began."""
    queued = [run.queued_at for run in policy.runs()]
    for began, then in zip(policy.starts(), queued[1:], strict=False):
        assert then - began >= policy.interval


def test_a_service_follows_the_commits_and_ends_at_sigterm(
    bench: Bench, often: PolicyBench
) -> None:
    bench.topic(100, name=often.topic)
    bench.commit(often.app, often.topic, {0: 60})
    often.switch_on()
    service = often.service()
    service.until(lambda: bench.log_start(often.topic) == 60)
    bench.commit(often.app, often.topic, {0: 90})
    service.until(lambda: bench.log_start(often.topic) == 90)
    assert service.end() == 130, service.log()
    assert [run.state for run in often.runs()] == ["done", "done"]
    assert_interval(often)
    assert bench.journal.lease(bench.store.cluster_id) is None
    assert bench.journal.verify().ok


def test_as_often_as_commits_is_a_tenth_of_a_second_at_least(
    bench: Bench, as_commits: PolicyBench
) -> None:
    """The coupling of before KIP-811, of an application that commits all the time."""
    bench.topic(0, name=as_commits.topic)
    as_commits.switch_on()
    with as_commits.application(per_second=200):
        service = as_commits.service()
        service.until(lambda: len(as_commits.runs()) > 3)
        assert service.end() == 130, service.log()
    assert_interval(as_commits)
    assert bench.journal.verify().ok


def test_a_topic_of_an_unknown_group_is_refused_and_visible(
    bench: Bench, often: PolicyBench, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    bench.topic(10, name=often.topic)
    often.switch_on()
    monkeypatch.setenv("LOWWATER_SETTINGS", str(often.source))
    assert main(["policies", "run", "--once", "--json"]) == 3
    (refused,) = [e for e in events(capsys) if e["event"] == "cycle"]
    assert (refused["state"], refused["code"]) == ("refused", "OWNER_UNKNOWN")
    assert often.topic in refused["reason"]
    assert main(["policies", "check", "--json"]) == 3
    (policy,) = events(capsys)[0]["policies"]
    assert policy["status"]["state"] == "refused"
    assert (often.runs(), bench.log_start(often.topic)) == ([], 0)


@pytest.mark.further
def test_a_group_that_is_gone_is_waived_and_holds_while_it_is_listed(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pod = f"pod-{uuid.uuid4().hex[:8]}"
    waives = f'waive = {{ "{pod}" = "looked once" }}'
    policy = PolicyBench(bench, tmp_path, timedelta(seconds=1), more=waives)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(policy.source))
    bench.topic(100, name=policy.topic)
    bench.commit(policy.app, policy.topic, {0: 100})
    bench.commit(pod, policy.topic, {0: 20})
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        collect(live, bench.store, now=utc_now, progress=lambda _: None)
    policy.switch_on()

    assert main(["policies", "run", "--once", "--json"]) == 3
    (listed,) = [e for e in events(capsys) if e["event"] == "cycle"]
    assert (listed["state"], listed["not_waived"]) == ("refused", [pod])
    assert [g["name"] for p in listed["blocked"] for g in p["guards"]] == ["unread-by-group"]
    assert (policy.runs(), bench.log_start(policy.topic)) == ([], 0)
    bench.admin.delete_consumer_groups([pod])[pod].result(20)
    assert main(["policies", "run", "--once", "--json"]) == 0
    (gone,) = [e for e in events(capsys) if e["event"] == "cycle"]
    assert (gone["state"], gone["not_waived"]) == ("ran", [])
    assert bench.log_start(policy.topic) == 100
    (run,) = policy.runs()
    (waived,) = bench.journal.plan(run.run_id).waivers
    assert (waived.group_id, waived.reason, waived.by[:16]) == (
        pod, "looked once", "test, by policy ",
    )  # fmt: skip
    assert bench.journal.verify().ok


@pytest.mark.parametrize("end", ["POLICY_OFF", "POLICY_CHANGED"])
def test_a_policy_that_ends_while_its_run_is_half_sent_sends_nothing_more(
    bench: Bench, often: PolicyBench, end: str
) -> None:
    """Its worker died with one of two partitions purged; the policy is off, or another, by then."""
    bench.topic(100, 100, name=often.topic)
    bench.commit(often.app, often.topic, {0: 60, 1: 60})
    often.switch_on()
    run_id = often.half_sent()
    if end == "POLICY_OFF":
        often.switch_off()
    else:
        often.source.write_text(often.source.read_text().replace("_ms = 1000", "_ms = 2000"))
    service = often.service()
    service.until(lambda: not bench.journal.head(run_id).open)
    run = bench.journal.head(run_id)
    assert (run.state, run.error and run.error["code"]) == ("partial", end)
    assert [(r.state, r.error) for r in bench.journal.partitions(run_id)] == [
        ("done", None), ("not_done", end),
    ]  # fmt: skip
    assert [bench.log_start(often.topic, n) for n in (0, 1)] == [60, 0]
    assert service.end() == 130, service.log()
    assert bench.journal.verify().ok


@pytest.mark.slow
def test_of_two_services_one_acts_and_the_other_takes_over(
    bench: Bench, seldom: PolicyBench
) -> None:
    bench.topic(0, name=seldom.topic)
    seldom.switch_on()
    with seldom.application(per_second=50):
        first = seldom.service()
        first.until(lambda: "leading" in first.kinds())
        second = seldom.service()
        second.until(lambda: "standby" in second.kinds())
        assert second.events[0]["leader"]["pid"] == first.pid
        first.until(lambda: len(seldom.runs()) >= 2)
        assert "cycle" not in second.kinds()
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        before = len(seldom.runs())
        second.until(lambda: "leading" in second.kinds())
        second.until(lambda: len(seldom.runs()) >= before + 2)
        assert second.end() == 130, second.log()
    assert_interval(seldom)
    assert bench.journal.verify().ok


@pytest.mark.slow
def test_three_minutes_of_a_busy_application_keep_its_disk_bounded(
    bench: Bench, seldom: PolicyBench
) -> None:
    bench.topic(0, name=seldom.topic)
    seldom.switch_on()
    seconds, sizes = 180, []
    with seldom.application(per_second=300) as application:
        service = seldom.service()
        service.until(lambda: len(seldom.runs()) > 0)
        began = time.monotonic()
        first = len(seldom.runs())
        while time.monotonic() - began < seconds:
            time.sleep(2)
            sizes.append(seldom.bytes_on_disk())
        runs = len(seldom.runs()) - first
        assert_follows(seldom, service)
        produced = 3 * application.produced_bytes
        assert service.end() == 130, service.log()
    assert seconds / 5 / 2 <= runs <= seconds / 5 + 1
    assert_interval(seldom)
    # A segment (1 MiB), what comes between two purges, two checks for old segments, and deletion.
    per_second = produced / seconds
    assert max(sizes) <= 3 * 2**20 + per_second * (5 + 2 * 5 + 1 + 5), (max(sizes), produced)
    assert max(sizes) < produced / 4
    assert bench.journal.verify().ok


def assert_follows(policy: PolicyBench, service: Process) -> None:
    """The log start moves on again and again, close behind the end."""
    found = set()
    for _ in range(3):
        found.add(policy.bench.log_start(policy.topic))
        seen = len(policy.runs())
        service.until(lambda seen=seen: len(policy.runs()) > seen, 20)  # type: ignore[misc]
        time.sleep(1)
    assert len(found) == 3
    assert all(a is not None and a > 0 for a in found)


def events(capsys: pytest.CaptureFixture[str]) -> list[dict]:  # type: ignore[type-arg]
    """The objects on stdout."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
