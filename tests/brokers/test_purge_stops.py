"""Runs of real clusters that stop by themselves: too many errors, or a replica leaves the ISR."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.demo.kafka.brokers import LocalCluster
from tests.brokers.purge_bench import PURGE, Bench
from tests.brokers.purge_faults import carry_out, resumed, until

pytestmark = pytest.mark.further


def in_small_requests(bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    purge = replace(PURGE, partitions_per_request=size, requests_in_flight=1)
    monkeypatch.setattr(bench, "settings", replace(bench.settings, purge=purge))


def test_a_run_whose_leaders_all_refuse_stops_and_leaves_the_rest_unsent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.topic(*[2] * 36)
    bench.commit("stops-g", topic, dict.fromkeys(range(36), 1))
    in_small_requests(bench, monkeypatch, 2)
    # No released broker speaks DeleteRecords v3, so each refuses and nothing is sent.
    view = bench.apply(bench.plan(topic), mode="leader-only")
    errors = [row.error for row in view.partitions]
    assert set(errors) == {"UNSUPPORTED_VERSION", "STOPPED_ERROR_RATE"}
    assert errors.count("UNSUPPORTED_VERSION") >= 20
    assert (view.run.state, view.exit_code) == ("refused", 3)
    assert view.run.error is not None
    assert view.run.error["code"] == "STOPPED_ERROR_RATE"
    assert "UNSUPPORTED_VERSION" in view.run.error["message"]
    assert bench.offsets(topic, 35) == [0, 1]
    assert bench.journal.verify().ok


@pytest.mark.slow  # the broker's session has to end
def test_a_follower_that_hangs_and_leaves_the_isr_stops_the_run_and_is_named(
    bench: Bench, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.topic(*[20] * 12, placed=[[1, 2, 3]] * 12)  # broker 3 only follows
    bench.commit("stops-g", topic, dict.fromkeys(range(12), 10))
    in_small_requests(bench, monkeypatch, 1)
    run_id = bench.enqueue(bench.plan(topic), mode="leader-only-verified", start=False)

    def hang() -> None:
        cluster.suspend(3)
        until(lambda: 3 not in bench.placed(topic).isr, seconds=60)

    with resumed(cluster, 3):
        view = carry_out(bench, run_id, lambda: None, after=hang)
    assert (view.run.state, view.exit_code) == ("partial", 2)
    stopped = [row for row in view.partitions if row.error == "STOPPED_ISR_SHRANK"]
    assert len(stopped) == 11  # one request was answered before
    assert all("broker 3 left the in-sync replicas" in str(row.message) for row in stopped)
    for row in view.partitions:
        sent = row.error != "STOPPED_ISR_SHRANK"
        # Once the metadata calls broker 3 dead nobody waits for it: done, as KIP-107 has it.
        assert row.state in (("leader_done", "done") if sent else ("not_done",))
        assert bench.offsets(topic, row.partition)[0] == (10 if sent else 0)
    assert view.run.error is not None
    assert view.run.error["code"] == "STOPPED_ISR_SHRANK"
    assert bench.journal.verify().ok
