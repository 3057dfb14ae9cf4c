"""Sweeps on a real broker's disk: a stray goes, comes back and goes again; what lives stays."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.findings import orphans_sweep
from dashboard.cli.main import main
from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.clock import CLOCKS_AGREE, utc_now
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain import acts as words
from dashboard.orphans import verdicts
from dashboard.orphans.verdicts import Verdict, Verdicts
from tests.brokers.workload import Workload, until
from tests.support.three_brokers import unregister
from tests.unit.inventory.disks import scanned, segments

BROKER = 2
# A stray is then less than 5 % of the broker's folders and bytes.
LIVE_PARTITIONS = 45

Call = Callable[..., tuple[int, dict[str, Any]]]


@dataclass(frozen=True)
class Scene:
    """A live topic, and what its broker kept of one that was deleted while it was down."""

    log_dir: Path
    live_topic: str
    stray: Path
    topic: str


@pytest.fixture(scope="module")
def scene(cluster: LocalCluster, kafka_jars: KafkaJars) -> Iterator[Scene]:
    workload = Workload({"bootstrap.servers": cluster.bootstrap})
    live_topic, topic = workload.topic(LIVE_PARTITIONS), workload.topic()
    workload.produce(live_topic, 0, 100, 1000)
    workload.produce(topic, 0, 3, 1000)
    cluster.stop_broker(BROKER)
    try:
        first, _, third = cluster.bootstrap.split(",")
        rest = Workload({"bootstrap.servers": f"{first},{third}"})
        rest.admin.delete_topics([topic], request_timeout=60)[topic].result(60)
        unregister(kafka_jars, cluster, BROKER)
    finally:
        cluster.start_broker(BROKER)
    log_dir = cluster.log_dir(BROKER)
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        until(lambda: healthy(live), 60)
    until(lambda: len(list(log_dir.glob(f"{topic}-0.*-stray"))) == 1, 60)
    (stray,) = log_dir.glob(f"{topic}-0.*-stray")
    yield Scene(log_dir, live_topic, stray, topic)
    workload.close()


def untouched() -> datetime:
    """A time by which what the broker made a stray just now was surely touched by nobody since."""
    return utc_now() + 2 * CLOCKS_AGREE + timedelta(minutes=2)


@pytest.fixture
def judged(scene: Scene, cluster: LocalCluster, tmp_path: Path) -> Verdicts:
    """The verdict that lets the stray go, by an inventory of the broker's disk."""
    found = scanned(tmp_path / "inventory", scene.log_dir, broker=BROKER)
    rows = [r for r in segments(found) if r["directory"] == scene.stray.name]
    now = utc_now()
    row = Verdict(
        BROKER, str(scene.log_dir), scene.stray.name, scene.topic, 0, rows[0]["topic_id"],
        words.STRAY, sum(r["log_bytes"] for r in rows), sum(r["allocated_bytes"] for r in rows),
        max(r["newest_at"] for r in rows), words.REMOVABLE, "seen for 3 h", None,
        scanned_at=now + timedelta(days=1),  # the earlier one counts: the snapshot's time
    )  # fmt: skip
    made = verdicts.parse(
        verdicts.write(
            Verdicts(
                cluster.cluster_id,
                "test",
                "a",
                "s",
                untouched(),
                now,
                now + timedelta(hours=24),
                (row,),
            )
        ),
        "made here",
        now=now,
    )
    assert made.rows[0].size_bytes
    return made


@pytest.fixture
def call(
    scene: Scene,
    cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """`lowwater orphans sweep` on the broker's host: exit code and object."""
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(orphans_sweep, "LEAST_QUARANTINE", timedelta(0))

    def called(*flags: str, found: Verdicts | None = None) -> tuple[int, dict[str, Any]]:
        line = ["orphans", "sweep", "--log-dirs", str(scene.log_dir), "--json"]
        line += ["--bootstrap-server", cluster.bootstrap]
        if found is not None:
            (tmp_path / "v.json").write_text(verdicts.write(found))
            line += ["--verdicts", str(tmp_path / "v.json")]
        code = main([*line, *flags])
        return code, json.loads(capsys.readouterr().out)

    return called


def healthy(live: LiveCluster) -> bool:
    states = live.topics(None).values()
    return not any(p.under_replicated or p.error for state in states for p in state.partitions)


def one(answer: tuple[int, dict[str, Any]], code: int = 0) -> dict[str, Any]:
    """The only row of an answer with this exit code."""
    assert answer[0] == code, answer
    (row,) = answer[1]["rows"]
    return dict(row)


def test_a_live_folder_with_a_forged_verdict_stays(
    scene: Scene, cluster: LocalCluster, judged: Verdicts, call: Call, tmp_path: Path
) -> None:
    """The file's checksum is its own, and everything about the disk is true."""
    found = scanned(tmp_path / "again", scene.log_dir, broker=BROKER)
    name = f"{scene.live_topic}-1"
    (segment,) = (r for r in segments(found) if r["directory"] == name)
    row = replace(
        judged.rows[0], directory=name, topic=scene.live_topic, partition=1,
        topic_id=segment["topic_id"], kind=words.DELETED_TOPIC, size_bytes=segment["log_bytes"],
        newest_at=segment["newest_at"],
    )  # fmt: skip
    # Its files are open in the broker already; without that the cluster itself says no.
    assert one(call("--apply", found=replace(judged, rows=(row,))), 3)["code"] == "open-file"
    stray = replace(row, kind=words.STRAY, directory=f"{name}.{'0' * 32}-stray")
    (scene.log_dir / str(stray.directory)).mkdir()
    try:
        metadata = (scene.log_dir / name / "partition.metadata").read_text()
        (scene.log_dir / str(stray.directory) / "partition.metadata").write_text(metadata)
        forged = replace(judged, rows=(replace(stray, newest_at=utc_now() + timedelta(hours=1)),))
        assert one(call("--apply", found=forged), 3)["code"] == "assigned"
    finally:
        (scene.log_dir / str(stray.directory) / "partition.metadata").unlink()
        (scene.log_dir / str(stray.directory)).rmdir()
    assert (scene.log_dir / name).is_dir()


def test_a_wrong_cluster_and_a_copy_of_a_disk_are_refused(
    scene: Scene, judged: Verdicts, call: Call, tmp_path: Path
) -> None:
    code, answer = call("--apply", found=replace(judged, cluster_id="x" * 22))
    assert (code, answer["error"]["code"]) == (3, "CLUSTER_MISMATCH")
    copy = tmp_path / "copy"
    copy.mkdir()
    meta = (scene.log_dir / "meta.properties").read_text()
    (copy / "meta.properties").write_text(meta)
    code, answer = call("--apply", "--log-dirs", str(copy), found=judged)
    assert (code, answer["error"]["code"]) == (3, "NOT_ITS_DISK")
    other = meta.replace("cluster.id=", "cluster.id=x")
    (copy / "meta.properties").write_text(other)
    code, answer = call("--apply", "--log-dirs", str(copy), found=judged)
    assert (code, answer["error"]["code"]) == (3, "CLUSTER_MISMATCH")
    inside = str(scene.log_dir / "quarantine")
    assert one(call("--quarantine-dir", inside, "--apply", found=judged), 3)["code"] == "quarantine"
    assert scene.stray.is_dir()


def test_the_script_sweeps_a_real_disk_and_its_line_undoes_it(
    scene: Scene, judged: Verdicts, call: Call
) -> None:
    code, made = call("--script", found=judged)
    assert (code, made["folders"]) == (0, 1)
    words_ = ["sh", "-s", "--", "--apply"]
    done = subprocess.run(
        words_, input=made["script"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, "restarts" in done.stdout) == (0, True), done.stdout + done.stderr
    assert not scene.stray.exists()
    undo = next(line for line in done.stdout.splitlines() if line.startswith("  undo:"))
    subprocess.run(["sh", "-c", undo.removeprefix("  undo:")], check=True)
    assert scene.stray.is_dir()
    left = one(call("--apply", found=replace(judged, taken_at=utc_now())), 3)
    script_log = scene.log_dir.parent / ".lowwater-quarantine" / "sweep-script.log"
    assert (left["code"], str(script_log) in left["reason"]) == ("restored", True)
    script_log.unlink()  # somebody decided that it may go after all


@pytest.mark.further
def test_another_users_quarantine_on_a_real_disk_is_refused_by_program_and_script(
    scene: Scene, judged: Verdicts, call: Call, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can plant another user's folder")
    victim, place = tmp_path / "victim", scene.log_dir.parent / "planted"
    victim.write_text("whole")
    place.mkdir()
    for log in ("sweep.log", "sweep-script.log"):
        (place / log).symlink_to(victim)
    os.chown(place, 65534, 65534)
    refused = one(call("--apply", "--quarantine-dir", str(place), found=judged), 3)
    assert (refused["code"], "belongs to uid 65534" in refused["reason"]) == ("quarantine", True)
    _, made = call("--script", found=judged)
    done = subprocess.run(
        ["sh", "-s", "--", "--apply"], input=made["script"], capture_output=True, text=True,
        check=False, timeout=60, env={**os.environ, "QUARANTINE": str(place)},
    )  # fmt: skip
    assert (done.returncode, "belongs to another user" in done.stdout) == (3, True), done.stdout
    assert scene.stray.is_dir()
    assert victim.read_text() == "whole"


@pytest.mark.further
def test_a_stray_goes_comes_back_goes_again_and_the_broker_starts(
    scene: Scene, cluster: LocalCluster, kafka_jars: KafkaJars, judged: Verdicts, call: Call
) -> None:
    told = one(call(found=judged))
    assert (told["state"], scene.stray.is_dir()) == ("would_move", True)
    assert "restarts" in told["reason"]  # a running broker holds every stray open
    moved = one(call("--apply", found=judged))
    assert (moved["state"], scene.stray.exists()) == ("moved", False)
    assert one(call("--restore", moved["quarantined_as"]))["state"] == "restored"
    assert scene.stray.is_dir()
    assert one(call("--apply", found=judged), 3)["code"] == "restored"
    soon = replace(judged, taken_at=utc_now())  # by clocks that may lie apart
    assert one(call("--apply", found=soon), 3)["code"] == "restored"
    newer = replace(judged, taken_at=untouched())
    assert one(call("--apply", found=newer))["state"] == "moved"

    cluster.stop_broker(BROKER)
    unregister(kafka_jars, cluster, BROKER)
    cluster.start_broker(BROKER)
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        until(lambda: healthy(live), 60)
    assert not scene.stray.exists()
    deleted = one(call("--apply", "--quarantine", "0s"))
    assert (deleted["state"], deleted["reason"]) == ("deleted", None)  # nobody holds it now
    code, checked = call("--verify")
    assert (code, checked["logs"][0]["ok"], checked["logs"][0]["entries"]) == (0, True, 8)
