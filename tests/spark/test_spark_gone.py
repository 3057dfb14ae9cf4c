"""Spark that goes away while `--serve` runs: a reason, then the next analysis on a new session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.collect.watch import AnalysisChild, command
from tests.support.lab import Lab, Snapshot
from tests.support.standalone_spark import OPTIONS, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(420)]
_PATIENCE_SECONDS = 120


class Watched:
    """What `watch` does with its child: tend it, hand it snapshots, hear its answers."""

    def __init__(self, lab: Lab) -> None:
        self.events: list[dict[str, Any]] = []
        data, cluster_id = lab.cluster.store.root, lab.cluster.cluster_id
        self.child = AnalysisChild(command(data, cluster_id), self.events.append)

    def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self.child.tend()
            if found := next((event for event in self.events if done(event)), None):
                self.events.clear()
                return found
            time.sleep(0.05)
        raise AssertionError(self.events)

    def analyzed(self, snapshot_id: str) -> bool:
        self.child.analyze(snapshot_id)
        return bool(self.until(lambda e: "analysis_id" in e)["snapshot_id"] == snapshot_id)


@pytest.fixture
def watched(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setenv("LOWWATER_SPARK_WAIT", "20s")  # executors of a busy machine
    made = Watched(lab)
    yield made
    made.child.close()


def code(event: dict[str, Any]) -> str | None:
    return event.get("error", {}).get("code")


def test_the_loop_survives_workers_and_master(
    lab: Lab, watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three, four = (
        lab.write(Snapshot().topic("t", groups={"g": 10 * step})) for step in (1, 2, 3, 4)
    )
    monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(OPTIONS))
    with standalone(tmp_path) as cluster:
        monkeypatch.setenv("LOWWATER_SPARK_MASTER", cluster.url)
        assert watched.analyzed(one)

        cluster.workers[0].kill()
        assert watched.analyzed(two), "the other worker is enough"

        cluster.workers[1].kill()
        watched.child.analyze(three)
        refused = watched.until(lambda event: code(event) == "SPARK_NO_EXECUTORS")
        assert "for 20 s" in refused["error"]["message"]
        cluster.add_worker()
        assert watched.analyzed(three)

        cluster.master.kill()
        cluster.workers[2].kill()
        watched.child.analyze(four)
        watched.until(lambda event: code(event) in ("SPARK_NO_EXECUTORS", "ANALYSIS_FAILED"))
        again = tmp_path / "again"
        again.mkdir()
        with standalone(again, workers=1, port=int(cluster.url.rsplit(":", 1)[1])):
            assert watched.analyzed(four)
