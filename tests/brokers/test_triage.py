"""A disk that runs full, on real brokers: the plan frees there what it promised."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from analytics.job import analyze
from analytics.session.session import open_session
from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.inventory.loading import Inventory
from dashboard.settings.settings import Settings
from dashboard.store.tables import FINDING_TABLES, build
from tests.brokers.purge_bench import SETTINGS, Bench
from tests.brokers.purge_faults import until
from tests.unit.inventory.disks import scanned

pytestmark = pytest.mark.further

MIB = 2**20
IN_NEED = 2
GROUP = "triage-g"
DECLARED = '[topics."triage-known-*"]\nowner = "team"\nreaders = "groups"\n'


@pytest.fixture
def bench(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    prepared(made, monkeypatch)
    yield made
    made.close()


def prepared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs of this process use the bench's settings, state and declarations."""
    assert bench.settings.source is not None
    bench.settings.source.write_text(SETTINGS + DECLARED)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))


PLACED = {
    "known-large": (6000, [2, 1]),
    "known-follower": (4000, [1, 2]),
    "known-small": (2500, [3, 2]),
    "known-elsewhere": (6000, [1, 3]),
    "unknown": (8000, [3, 2]),
}  # records and brokers of each topic's only partition


def skewed(bench: Bench, run: str) -> dict[str, str]:
    """Topics of which broker 2 holds much, little or nothing, all read to the end."""
    names = {kind: f"triage-{kind}-{run}" for kind in PLACED}
    for kind, (count, replicas) in PLACED.items():
        bench.topic(count, name=names[kind], placed=[replicas])
        bench.commit(GROUP, names[kind], {0: count})
    return names


def by_segments(bench: Bench, cluster: LocalCluster, records: Mapping[str, int]) -> None:
    """Findings that know each replica's segments, without the time that Spark would take; of topics
    that have so many records.
    """
    rows: list[dict[str, Any]] = []
    for topic, count in records.items():
        for broker_id in bench.placed(topic).replicas:
            log_dir = next(d for d in cluster.log_dirs(broker_id) if (d / f"{topic}-0").is_dir())
            knot = {
                "topic": topic, "partition": 0, "broker_id": broker_id, "log_dir": str(log_dir),
                "is_base": True, "method": "segments", "segment_bytes": MIB,
            }  # fmt: skip
            below = 0
            for file in sorted((log_dir / f"{topic}-0").glob("*.log")):
                rows.append({**knot, "offset": int(file.stem), "bytes_below": below})
                below += file.stat().st_size
            end = {"offset": count, "bytes_below": below, "is_base": False}
            rows.append({**knot, **end})
    targets = [
        {"topic": topic, "partition": 0, "target": "committed", "log_start_offset": 0,
         "target_offset": 2000}
        for topic in records
    ]  # fmt: skip
    writer = bench.store.begin("findings", utc_now())
    for name, found in (("curves", rows), ("reclaimable", targets)):
        columns = {column: [row[column] for row in found] for column in found[0]}
        writer.write(name, build(FINDING_TABLES[name], columns))
    writer.commit(0.1, {"snapshot_id": ""})
    bench.store.set_latest(writer.id)


def call(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    done = main([*words, "--json"])
    printed = capsys.readouterr()
    assert done == code, printed.out + printed.err
    value: dict[str, Any] = json.loads(printed.out)
    return value


def on_disk(cluster: LocalCluster, broker_id: int, topics: Mapping[str, str]) -> int:
    """Bytes of these topics' segments that this broker's disk holds, deleted files included."""
    while True:  # Kafka renames and removes files meanwhile: then all of them are looked at again
        with suppress(FileNotFoundError):
            return sum(
                file.stat().st_size
                for topic in topics.values()
                for file in (cluster.log_dir(broker_id) / f"{topic}-0").glob("*.log*")
            )


def test_the_plan_frees_at_least_the_need_on_that_disk(
    bench: Bench, cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = skewed(bench, "a")
    by_segments(bench, cluster, {names[kind]: count for kind, (count, _) in PLACED.items()})
    out, data = str(tmp_path / "plan.json"), ("--data", bench.settings.data)
    asked = ("--broker", str(IN_NEED), "--within", "2m", "--out", out, *data)
    short = call(capsys, 3, "triage", *asked, "--need", "1GiB")
    assert short["error"]["code"] == "NEED_NOT_MET"
    assert short["tiers"][1]["not_accepted"]["bytes_low"] > 5 * MIB

    need = 8 * MIB
    found = call(capsys, 0, "triage", *asked, "--need", "8MiB")
    topics = {p["topic"] for p in found["partitions"]}
    assert topics == {names["known-large"], names["known-follower"]}
    assert found["log_dir"] == str(cluster.log_dir(IN_NEED))
    # The brokers of the tests look every 5 s and wait 1 s.
    assert found["time"]["retention_check_seconds"] == 5
    assert found["time"]["file_delete_delay_seconds"] == 1
    assert (found["sure"], found["mode"], found["followers"]) == ("sure", "wait-all", [])

    before = {b: on_disk(cluster, b, names) for b in cluster.broker_ids}
    call(capsys, 0, "preview", out)
    confirm = ("--confirm", found["plan"]["confirmation"])
    call(capsys, 0, "apply", out, "--mode", found["mode"], *confirm, *data)
    promised = found["bytes_low"]
    assert promised >= need
    until(lambda: before[IN_NEED] - on_disk(cluster, IN_NEED, names) >= promised)
    assert before[IN_NEED] - on_disk(cluster, IN_NEED, names) == promised == found["bytes_high"]
    # What was not needed, and what nobody declared, is untouched.
    assert bench.log_start(names["known-small"]) == 0
    assert bench.log_start(names["known-elsewhere"]) == 0
    assert bench.log_start(names["unknown"]) == 0


@pytest.mark.slow
@pytest.mark.spark
def test_snapshot_and_analysis_promise_what_the_disk_gives(
    bench: Bench, cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = skewed(bench, "b")
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        collect(
            live, bench.store, now=utc_now, progress=lambda _: None,
            inventories=inventories(cluster, tmp_path),
        )  # fmt: skip
    session = open_session(Settings())
    try:
        analyze(session, bench.store, bench.settings, now=utc_now)
    finally:
        session.stop()
    out, data = str(tmp_path / "plan.json"), ("--data", bench.settings.data)
    asked = ("--broker", str(IN_NEED), "--need", "14MiB", "--within", "2m", "--out", out, *data)
    short = call(capsys, 3, "triage", *asked)
    assert short["sure"] == "short"
    found = call(capsys, 0, "triage", *asked, "--accept-undeclared", "test data")
    assert {p["tier"] for p in found["partitions"]} == {1, 2}
    before = on_disk(cluster, IN_NEED, names)
    confirm = ("--confirm", found["plan"]["confirmation"])
    call(capsys, 0, "apply", out, "--mode", "wait-all", *confirm, *data)
    until(lambda: before - on_disk(cluster, IN_NEED, names) >= 14 * MIB, 30)
    assert before - on_disk(cluster, IN_NEED, names) == found["bytes_low"]


def inventories(cluster: LocalCluster, folder: Path) -> list[Inventory]:
    return [
        scanned(folder / f"{broker}.inventory", *cluster.log_dirs(broker), broker=broker)
        for broker in cluster.broker_ids
    ]
