"""A log dir that went offline: triage says so, and its steps instead do what they say."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import until
from tests.brokers.test_triage import GROUP, by_segments, call, prepared
from tests.brokers.workload import ANSWERS_WITHIN

pytestmark = pytest.mark.slow
BROKER = 1
RECORDS = 3000  # of a kilobyte


@pytest.fixture(scope="module")
def two_dirs(kafka_jars: KafkaJars) -> Iterator[LocalCluster]:
    """Two brokers with two log dirs each; the second is not that of the cluster's metadata."""
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        LocalCluster(Path(folder), kafka_jars, brokers=2, log_dirs=2) as running,
    ):
        yield running


@pytest.fixture
def bench(two_dirs: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(two_dirs.bootstrap, two_dirs.cluster_id, tmp_path, replicas=2)
    yield made
    made.close()


def spread(bench: Bench, cluster: LocalCluster, count: int, leader: int) -> tuple[str, ...]:
    """Topics of 3 MB, read to their 2,900th record: those of them in broker 1's second log dir.

    They are made before they are filled: the broker deals folders out by their count.
    """
    names = [f"triage-known-{leader}-{n}" for n in range(count)]
    placed = [[leader, 3 - leader]]
    for name in names:
        bench.topic(0, name=name, placed=placed)
    for name in names:
        bench.produce(name, 0, RECORDS)
        bench.commit(GROUP, name, {0: 2900})
    second = cluster.log_dirs(BROKER)[1]
    return tuple(name for name in names if (second / f"{name}-0").is_dir())


def fail(cluster: LocalCluster) -> Path:
    """An I/O error in the second log dir, as on a disk that fails; where its files are then."""
    broken = cluster.log_dirs(BROKER)[1]
    aside = broken.with_name("aside")
    broken.rename(aside)  # the next checkpoint cannot be written
    until(lambda: errors(cluster)[str(broken)] == "KAFKA_STORAGE_ERROR", 40)
    return aside


def errors(cluster: LocalCluster) -> dict[str, str | None]:
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        return {d.log_dir: d.error for d in live.log_dirs(None, [1]).log_dirs}


def test_an_offline_log_dir_says_what_to_do_and_comes_back_by_a_restart(
    bench: Bench,
    two_dirs: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prepared(bench, monkeypatch)
    in_broken = spread(bench, two_dirs, 2, BROKER)
    names = {f"triage-known-{BROKER}-{n}": RECORDS for n in range(2)}
    by_segments(bench, two_dirs, names)
    sound, broken = two_dirs.log_dirs(BROKER)
    aside = fail(two_dirs)
    assert errors(two_dirs) == {str(sound): None, str(broken): "KAFKA_STORAGE_ERROR"}

    out, data = str(tmp_path / "plan.json"), ("--data", bench.settings.data)
    asked = ("triage", "--broker", "1", "--need", "1MiB", "--within", "2m", "--out", out, *data)
    offline = call(capsys, 3, *asked, "--log-dir", str(broken))
    assert offline["error"]["code"] == "LOG_DIR_OFFLINE"
    assert "KAFKA_STORAGE_ERROR" in " ".join(offline["said"])
    assert offline["plan"] is None and not Path(out).exists()
    assert any("by a restart alone" in step for step in offline["instead"])
    until(lambda: main([*asked]) == 0)  # the groups' offsets have leaders elsewhere by then
    beside = call(capsys, 0, *asked)
    assert beside["log_dir"] == str(sound)
    assert {p["topic"] for p in beside["partitions"]} == set(names) - set(in_broken)
    assert beside["disk"]["offline_log_dirs"] == [str(broken)]

    aside.rename(broken)  # room was made: it stays offline until the restart
    assert errors(two_dirs)[str(broken)] == "KAFKA_STORAGE_ERROR"
    two_dirs.kill_broker(BROKER)
    two_dirs.start_broker(BROKER)
    until(lambda: main([*asked, "--log-dir", str(broken)]) == 0)  # in sync again
    again = call(capsys, 0, *asked, "--log-dir", str(broken))
    assert {p["topic"] for p in again["partitions"]} == set(in_broken)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def test_the_steps_instead_of_a_purge_do_what_they_say(
    bench: Bench, two_dirs: LocalCluster
) -> None:
    sound, broken = two_dirs.log_dirs(BROKER)
    purged, waited, deleted, moved, removed = spread(bench, two_dirs, 14, 2)[:5]
    aside = fail(two_dirs)

    # Purged from its leader elsewhere: waiting for all would stall, leader-only-verified does not.
    lifted = ("under-replicated=its log dir is offline",)
    done = bench.apply(bench.plan(purged, override=lifted), mode="leader-only-verified")
    assert [p.state for p in done.partitions] == ["leader_done"]
    stalled = bench.apply(bench.plan(waited, override=lifted), timeout=timedelta(seconds=2))
    assert (stalled.run.state, stalled.partitions[0].error) == ("partial", "REQUEST_TIMED_OUT")
    bench.admin.delete_topics([deleted])[deleted].result(ANSWERS_WITHIN)

    aside.rename(broken)
    two_dirs.kill_broker(BROKER)
    before = {name: size(broken / f"{name}-0") for name in (purged, deleted, removed)}
    (broken / f"{moved}-0").rename(sound / f"{moved}-0")
    shutil.rmtree(broken / f"{removed}-0")
    two_dirs.start_broker(BROKER)
    kept = (purged, waited, moved, removed)
    until(lambda: all(set(bench.placed(name).isr) == {1, 2} for name in kept), 60)

    until(lambda: size(broken / f"{purged}-0") < before[purged], 30)
    assert bench.log_start(purged) == 2900
    # The deleted topic keeps its bytes, set aside.
    (stray,) = broken.glob(f"{deleted}-0.*-stray")
    assert size(stray) == before[deleted]
    assert (sound / f"{moved}-0").is_dir() and not (broken / f"{moved}-0").exists()
    # The removed replica was copied again, to the same disk or the other one.
    copies = [d / f"{removed}-0" for d in (sound, broken) if (d / f"{removed}-0").is_dir()]
    assert [size(copy) for copy in copies] == [before[removed]]
