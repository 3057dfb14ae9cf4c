"""A leader-only purge whose leader dies before its followers fetched: the records come back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from dashboard.cli.main import main
from dashboard.core.errors import LowwaterError
from dashboard.purge.plan.plan import Plan
from tests.brokers.preview_cluster import PreviewCluster
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import carry_out, followers, kinds, resumed, until


@pytest.fixture
def lowwater(
    preview_bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Calls `lowwater` as a person does: its exit code and its text."""
    monkeypatch.setenv("LOWWATER_SETTINGS", str(preview_bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(preview_bench.settings.state_dir))

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        return main([*words, "--data", preview_bench.settings.data]), capsys.readouterr().out

    return call


def planned(bench: Bench) -> tuple[str, int, list[int]]:
    """A topic whose records below 60 are read by its group; its leader and its followers."""
    topic = bench.topic(100)
    bench.commit("preview-g", topic, {0: 60})
    leader = bench.placed(topic).leader_id
    assert leader is not None
    return topic, leader, followers(bench, topic)


def stop_fetching(cluster: PreviewCluster, leader: int, stale: list[int]) -> None:
    """Suspend the followers, and wait until nothing is on its way to them.

    A fetch that the leader still holds would carry the new log start to its follower.
    """
    for broker_id in stale:
        cluster.brokers.suspend(broker_id)
    until(lambda: cluster.fetches(leader) == 0)


@pytest.mark.parametrize(
    "mode", ["leader-only", pytest.param("leader-only-verified", marks=pytest.mark.slow)]
)
def test_an_elected_stale_follower_brings_the_records_back_and_the_run_says_so(
    mode: str,
    preview_bench: Bench,
    preview_cluster: PreviewCluster,
    lowwater: Callable[..., tuple[int, str]],
) -> None:
    bench, brokers = preview_bench, preview_cluster.brokers
    topic, leader, stale = planned(bench)
    run_id = bench.enqueue(bench.plan(topic), mode=mode, start=False, watch=True)
    try:
        with resumed(brokers, *stale):
            view = carry_out(bench, run_id, lambda: stop_fetching(preview_cluster, leader, stale))
            # Both that hang could have elected a leader: nobody says that this one is the newest.
            row = view.partitions[0]
            # An error of the answer stands before that of the reading: verified, it waits for 0 ms.
            error = "LEADER_UNCONFIRMED" if mode == "leader-only" else "REQUEST_TIMED_OUT"
            assert (row.state, row.error) == ("unknown", error)
            assert (view.run.state, view.exit_code) == ("partial", 2)
            assert view.to_json()["partitions"][0]["followers_behind"] == sorted(stale)
            brokers.kill_broker(leader)
        preview_cluster.unregister(leader)
        bench.start(run_id)  # a worker that finds the run closed watches it
        until(lambda: bench.journal.run(run_id).partitions[0].state == "reverted", 60)
        bench.kill_worker(run_id)
    finally:
        brokers.start_broker(leader)

    told = bench.journal.run(run_id).partitions[0].to_json()
    assert (told["state"], told["error"]) == ("reverted", "RECORDS_CAME_BACK")
    assert (told["leader_log_start_offset"], told["target_offset"]) == (0, 60)
    assert bench.offsets(topic, 0) == list(range(100))

    code, text = lowwater("run", run_id)
    assert code == 2
    assert "partial: 1 reverted" in text
    assert f"ALERT, reverted: {topic}" in text
    assert f"next: lowwater plan --topic {topic}" in text
    assert lowwater("runs", "--verify")[0] == 0

    # Until the dead leader is in sync again, a plan is guarded: it could be the next to revert.
    plans: list[Plan] = []

    def freed() -> bool:
        with suppress(LowwaterError):
            plans.append(bench.plan(topic))
        return bool(plans and plans[-1].free_partitions)

    until(freed)
    again = bench.apply(plans[-1], mode=mode)
    assert again.run.state == "done"
    assert bench.offsets(topic, 0) == list(range(60, 100))
    assert bench.journal.verify().ok


def test_a_leader_that_dies_before_it_is_read_leaves_no_doubt_and_nothing_is_sent_again(
    preview_bench: Bench, preview_cluster: PreviewCluster
) -> None:
    bench, brokers = preview_bench, preview_cluster.brokers
    topic, leader, stale = planned(bench)

    def hand_over() -> None:
        brokers.kill_broker(leader)
        for broker_id in stale:
            brokers.resume(broker_id)
        preview_cluster.unregister(leader)

    run_id = bench.enqueue(bench.plan(topic), mode="leader-only", start=False)
    try:
        with resumed(brokers, *stale):
            view = carry_out(
                bench, run_id, lambda: stop_fetching(preview_cluster, leader, stale), hand_over
            )
    finally:
        brokers.start_broker(leader)

    row = view.partitions[0]
    assert (view.run.state, view.exit_code) == ("partial", 2)
    assert (row.state, row.error) == ("reverted", "RECORDS_CAME_BACK")
    assert kinds(bench, run_id).count("intent") == 1
    assert bench.offsets(topic, 0) == list(range(100))
    assert bench.journal.verify().ok
