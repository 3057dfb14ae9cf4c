"""An analysis goes on with what is left of history: pruned meanwhile, thinned out, or damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analytics import tasks
from dashboard.history.pruning import prune
from tests.support import looks
from tests.support.lab import START, Lab, Snapshot


@pytest.mark.further
def test_a_damaged_analysis_is_left_out_and_an_older_one_serves(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 10, "gone": 5}))
    lab.analyze()
    lab.write(Snapshot().topic("t", groups={"g": 20}))
    damaged = lab.analyze().analysis_id
    (Path(lab.cluster.path) / "findings" / damaged / "curves.parquet").write_bytes(b"PAR1")
    lab.write(Snapshot().topic("t", groups={"g": 40}))
    done = lab.analyze()
    assert done.left_out == (damaged,)
    assert looks.held(lab) == {("t", "g"): 40, ("t", "gone"): 5}


@pytest.mark.further
def test_an_older_snapshot_analyzed_again_is_no_base_and_not_shown(lab: Lab) -> None:
    first = lab.write(Snapshot().topic("t", groups={"g": 10}))
    brief = lab.write(Snapshot().topic("t", groups={"g": 10, "brief": 5}))
    newest = lab.write(Snapshot().topic("t", groups={"g": 10}))
    shown = lab.analyze()
    prune(lab.cluster, "snapshots", lambda _: {first, newest}, START)
    assert brief not in lab.cluster.ids("snapshots")
    lab.analyze(snapshot_id=first)
    assert lab.cluster.latest_analysis() == shown.analysis_id
    lab.write(Snapshot().topic("t", groups={"g": 20}))
    lab.analyze()
    assert looks.held(lab) == {("t", "g"): 20, ("t", "brief"): 5}


def test_all_history_again_forgets_no_group_that_only_thinned_out_snapshots_saw(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 10, "brief": 5}).topic("r", groups={"brief": 7}))
    middle = lab.write(Snapshot().topic("t", groups={"g": 10, "brief": 8}))
    lab.analyze()
    newest = lab.write(Snapshot().topic("t", groups={"g": 20}).topic("r", topic_id="anew"))
    first = lab.cluster.ids("snapshots")[0]
    prune(lab.cluster, "snapshots", lambda _: {first, newest}, START)
    assert middle not in lab.cluster.ids("snapshots")
    lab.analyze(full=True)
    assert looks.held(lab) == {("t", "g"): 20, ("t", "brief"): 8}


@pytest.mark.further
def test_snapshots_pruned_while_they_are_folded_cost_resolution_only(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [
        lab.write(Snapshot().topic("t", end=end, size=end * 100, groups={"g": end // 2}))
        for end in (100, 120, 140, 160, 180)
    ]
    # The first before offsets are folded, which begin again; the second before curves are drawn.
    _pruned_before_tasks(lab, monkeypatch, ids[1], None, ids[2])
    done = lab.analyze()
    assert lab.cluster.ids("snapshots") == [ids[0], ids[3], ids[4]]
    assert done.left_out == (ids[1],)
    assert looks.held(lab) == {("t", "g"): 90}
    assert [offset for offset, _ in looks.curve(lab)] == [0, 100, 160, 180]


def test_the_analyzed_snapshot_itself_pruned_meanwhile_has_its_own_name(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write(Snapshot().topic("t"))
    doomed = lab.write(Snapshot().topic("t"))
    _pruned_before_tasks(lab, monkeypatch, doomed)
    assert looks.refused(lab).code == "SNAPSHOT_NOT_FOUND"


def _pruned_before_tasks(lab: Lab, monkeypatch: pytest.MonkeyPatch, *doomed: str | None) -> None:
    """Before each run of tasks one snapshot goes, or none."""
    left, run = iter(doomed), tasks.run

    def pruned_first(*arguments: Any, **options: Any) -> tasks.Done:
        gone = next(left, None)
        prune(lab.cluster, "snapshots", lambda kept: set(kept) - {gone}, START)
        return run(*arguments, **options)

    monkeypatch.setattr(tasks, "run", pruned_first)
