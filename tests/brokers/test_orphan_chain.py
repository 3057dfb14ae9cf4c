"""From a deletion that a broker missed to its bytes given back, as an operator does it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.session.session import open_session
from dashboard.cli.findings import orphans_sweep
from dashboard.cluster.live import connect
from dashboard.core.clock import CLOCKS_AGREE
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.settings.settings import Settings
from tests.brokers.orphan_operator import (
    BROKER,
    DELAY,
    LOG_BYTES,
    RECORDS,
    Operator,
    grow_old,
    produce,
    served,
)
from tests.brokers.workload import Workload, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TINY, MOST = 0.0001, 0.9  # shares that two strays of a small cluster exceed, and do not


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@dataclass(frozen=True)
class Scene:
    """Two topics that were deleted while BROKER was down, and one that it leads."""

    cluster: LocalCluster
    kept: str
    gone: str
    also_gone: str


@pytest.fixture(scope="module")
def scene(cluster: LocalCluster) -> Iterator[Scene]:
    workload = Workload({"bootstrap.servers": cluster.bootstrap})
    kept = workload.topic(assignment=[[BROKER, 1, 3]])
    strays = [workload.topic(assignment=[[1, BROKER]], retention_ms="-1") for _ in range(2)]
    produce(cluster.bootstrap, kept, 0)
    for topic in strays:
        produce(cluster.bootstrap, topic, 0, aged=True)
    cluster.stop_broker(BROKER)
    try:
        first, _, third = cluster.bootstrap.split(",")
        rest = Workload({"bootstrap.servers": f"{first},{third}"})
        for done in rest.admin.delete_topics(strays, request_timeout=60).values():
            done.result(60)
    finally:
        cluster.start_broker(BROKER)
    yield Scene(cluster, kept, *strays)
    workload.close()


@pytest.fixture
def operator(
    scene: Scene,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Operator:
    made = Operator(scene.cluster, spark, tmp_path, lambda: capsys.readouterr().out)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(orphans_sweep, "LEAST_QUARANTINE", timedelta(0))
    made.allow(MOST)
    made.wait_until_well()
    return made


def looked_at(operator: Operator, topic: str) -> tuple[Path, dict[str, Any]]:
    """The stray of that topic, an old one, and what a first look says of it."""
    until(lambda: len(operator.strays(topic)) == 1, 60)
    (stray,) = operator.strays(topic)
    grow_old(stray)
    found = operator.look()[topic]
    # Old by the delay, and surely not touched since the broker started.
    time.sleep(max(2 * DELAY.seconds, 2 * CLOCKS_AGREE.total_seconds() + 1))
    return stray, found


def test_from_a_missed_deletion_to_the_bytes_given_back(operator: Operator, scene: Scene) -> None:
    operator.allow(TINY)
    stray, refused = looked_at(operator, scene.gone)
    assert refused["verdict"] == "never"
    assert "orphan_most_share" in refused["reason"]
    operator.allow(MOST)
    row = operator.look()[scene.gone]
    assert (row["kind"], row["verdict"], row["broker_id"]) == ("stray", "removable", BROKER)
    assert row["size_bytes"] > LOG_BYTES
    before = operator.stray_bytes()

    operator.allow(TINY)
    code, answer = operator.sweep("--verdicts", operator.verdicts)
    assert code == 3
    (told,) = [r for r in answer["rows"] if r["directory"] == stray.name]
    assert (told["code"], "orphan_most_share" in told["reason"]) == ("share", True)
    operator.allow(MOST)
    assert of(operator.sweep("--verdicts", operator.verdicts), stray)["state"] == "would_move"
    moved = of(operator.sweep("--verdicts", operator.verdicts, "--apply"), stray)
    assert (moved["state"], stray.exists()) == ("moved", False)
    assert scene.gone not in operator.look()
    assert operator.stray_bytes() == before - row["allocated_bytes"]

    aside = Path(moved["quarantined_as"])
    code, answer = operator.sweep("--delete-now", str(aside))
    assert answer["error"]["code"] == "CONFIRMATION_REQUIRED"
    assert aside.is_dir()
    sentence = answer["error"]["next"].split('"')[1]
    done = operator.sweep("--delete-now", str(aside), "--confirm", sentence)
    deleted = of(done, stray)
    assert (deleted["state"], "restarts" in deleted["reason"]) == ("deleted", True)
    assert not aside.exists()
    assert operator.held_open(scene.gone), "the reason tells the truth"
    operator.restart()
    assert not operator.held_open(scene.gone)
    assert serves(operator, scene)
    code, checked = operator.sweep("--verify")
    assert (code, checked["logs"][0]["ok"]) == (0, True)


def test_a_sweep_killed_on_a_real_disk_loses_nothing(operator: Operator, scene: Scene) -> None:
    topic = scene.also_gone
    stray, first = looked_at(operator, topic)
    assert (first["verdict"], "seen by 1 snapshot" in first["reason"]) == ("scheduled", True)
    assert operator.look()[topic]["verdict"] == "removable"
    judged = ("--verdicts", operator.verdicts)
    contents = digests(stray)
    operator.killed_sweep("after:moving", *judged, "--apply")
    assert digests(stray) == contents
    operator.killed_sweep("after:rename", *judged, "--apply")
    assert not stray.exists()
    operator.restart()
    assert serves(operator, scene)
    lying = of(operator.sweep(*judged, "--apply"), stray)
    assert lying["state"] == "quarantined"
    assert digests(Path(lying["quarantined_as"])) == contents
    assert of(operator.sweep("--restore", stray.name), stray)["state"] == "restored"
    assert digests(stray) == contents

    code, answer = operator.sweep(*judged, "--apply")
    assert code == 3
    assert [r["code"] for r in answer["rows"] if r["directory"] == stray.name] == ["restored"]
    time.sleep(2 * CLOCKS_AGREE.total_seconds() + 1)  # newer for sure, by clocks that agree
    assert operator.look()[topic]["verdict"] == "removable"
    moved = of(operator.sweep(*judged, "--apply"), stray)
    expired = ("--apply", "--quarantine", "0s")
    operator.killed_sweep("half:remove", *expired)
    assert of(operator.sweep(*expired), stray)["state"] == "deleted"
    assert not Path(moved["quarantined_as"]).parent.exists()
    code, checked = operator.sweep("--verify")
    assert (code, checked["logs"][0]["ok"]) == (0, True)


def of(answer: tuple[int, dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The row of that folder, in an answer that went well."""
    code, value = answer
    assert code == 0, value
    (row,) = [r for r in value["rows"] if r["directory"] == folder.name]
    return dict(row)


def digests(folder: Path) -> dict[str, str]:
    """What a restart leaves alone: the records and whose they are."""
    kept = [f for f in folder.iterdir() if f.suffix == ".log" or f.name == "partition.metadata"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}


def serves(operator: Operator, scene: Scene) -> bool:
    """The broker hosts the kept topic on its own disk, and every record of it can be read."""
    with connect({"bootstrap.servers": operator.cluster.bootstrap}) as live:
        answer = live.log_dirs(None, [BROKER])
        hosted = [r for r in answer.replicas if r.topic == scene.kept]
    return len(hosted) == 1 and served(operator.cluster.bootstrap, scene.kept, 0) == RECORDS
