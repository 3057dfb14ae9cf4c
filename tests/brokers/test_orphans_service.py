"""KIP-370's own scenario: partitions are reassigned away while their broker is down. The service of
its host removes what it kept, once nothing wants it any more.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import TopicPartition as KafkaPart
from kafka.admin import KafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from analytics.earlier import newest_base
from analytics.orphans.sightings import PROVED
from analytics.session.session import open_session
from analytics.tables import Tables, stamped
from dashboard.cli.findings import orphans_sweep
from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.exporter import own
from dashboard.exporter.own_reading import Reader
from dashboard.exporter.serve import MetricsServer
from dashboard.orphans.sweep import sweep
from dashboard.purge.journal.journal import Journal
from dashboard.settings import settings
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import Store
from tests.brokers.orphan_operator import BROKER, LOG_BYTES, RECORDS, grow_old, produce
from tests.brokers.workload import Workload, until
from tests.support.one_bucket import find_orphans
from tests.support.three_brokers import unregister

pytestmark = pytest.mark.spark
DELAY = timedelta(seconds=1)
KIP = "kafka_log_LogManager_OrphanLogPartition"
Row = dict[str, Any]


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@dataclass
class Host:
    """The broker's host: `lowwater` there, and the analysis that somebody runs elsewhere."""

    cluster: LocalCluster
    spark: SparkSession
    folder: Path
    capsys: pytest.CaptureFixture[str]
    sentence: str = ""

    @property
    def log_dir(self) -> Path:
        return self.cluster.log_dir(BROKER)

    @property
    def inventory(self) -> str:
        return str(self.folder / f"{BROKER}.inventory")

    def call(self, *line: str) -> tuple[int, Row, str]:
        self.capsys.readouterr()
        code = main([*line, "--json"])
        out, err = self.capsys.readouterr()
        return code, json.loads(out), err

    def look(self) -> dict[str, Row]:
        """A snapshot with the inventory that lies there, and its orphans by topic."""
        where = ("--bootstrap-server", self.cluster.bootstrap, "--inventory", self.inventory)
        code, told, _ = self.call("collect", *where)
        assert code == 0, told
        found = settings.load()
        store = Store(found.data).cluster(None)
        snapshot = store.manifest("snapshots", store.latest_snapshot())
        base = newest_base(store, snapshot, ["sightings"])
        orphans = find_orphans(Tables(self.spark, store), snapshot, base, found)
        writer = store.begin("findings", snapshot.taken_at)
        for name, table in (("orphans", orphans.orphans), ("sightings", orphans.sightings)):
            writer.write(name, stamped(name, table, snapshot))
        writer.commit(1.0, {"snapshot_id": snapshot.id, PROVED: True})
        store.set_latest(writer.id)
        rows = store.read("findings", writer.id, "orphans").to_pylist()
        return {row["topic"]: row for row in rows}

    @property
    def line(self) -> tuple[str, ...]:
        aside = str(self.log_dir.parent / "service-quarantine")
        where = ("--log-dirs", str(self.log_dir), "--quarantine-dir", aside)
        return ("orphans", "run", "--once", *where)

    def round(self, *flags: str) -> Row:
        """One round of the service, switched on by the sentence that it told, if any."""
        on = ("--confirm", self.sentence) if self.sentence else ()
        _, told, err = self.call(*self.line, *flags, *on)
        assert "rows" in told, told
        if not self.sentence:
            self.sentence = err.split('--confirm "')[1].split('"')[0]
        return told

    def stray(self, topic: str) -> Path:
        until(lambda: len(list(self.log_dir.glob(f"{topic}-0.*-stray"))) == 1, 60)
        (found,) = self.log_dir.glob(f"{topic}-0.*-stray")
        return found

    def scraped(self) -> dict[str, float]:
        """KIP-370's two metrics of this broker, as Prometheus gets them from our exporter."""
        reader = Reader(Store(settings.load().data).cluster(None), lambda: None)

        def text() -> bytes:
            return own.text(own.families(reader.read(), utc_now(), 5))

        with MetricsServer("127.0.0.1", 0, text) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            with urllib.request.urlopen(server.url) as answer:
                families = text_string_to_metric_families(answer.read().decode())
                samples = [s for family in families for s in family.samples]
            server.shutdown()
        mine = [s for s in samples if s.labels.get("broker_id") == str(BROKER)]
        return {s.name.removeprefix(KIP): s.value for s in mine if s.name.startswith(KIP)}


@pytest.fixture
def host(
    cluster: LocalCluster,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Host:
    (tmp_path / "lowwater.toml").write_text(
        f'orphan_delay = "{DELAY.seconds}s"\norphan_most_share = 0.9\n'
        f'data = "{tmp_path / "data"}"\n'
    )
    monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(orphans_sweep, "LEAST_QUARANTINE", timedelta(0))
    # One machine has one clock: nobody waits here for two that lie apart.
    monkeypatch.setattr(sweep, "CLOCKS_AGREE", timedelta(0))
    return Host(cluster, spark, tmp_path, capsys)


def test_what_was_reassigned_away_from_a_broker_that_was_down_goes_by_itself(
    host: Host, kafka_jars: KafkaJars
) -> None:
    cluster = host.cluster
    workload = Workload({"bootstrap.servers": cluster.bootstrap})
    moved, revived = (workload.topic(assignment=[[BROKER, 1]], retention_ms="-1") for _ in range(2))
    kept = workload.topic(assignment=[[BROKER, 1, 3]])  # not all of the broker is orphans
    laid = workload.topic(assignment=[[1, 3]], retention_ms="-1")
    for topic in (moved, revived, laid, kept):
        produce(cluster.bootstrap, topic, 0, aged=topic != kept)
    cluster.stop_broker(BROKER)
    try:
        assign(cluster, moved, revived, to=[1, 3])
        unregister(kafka_jars, cluster, BROKER)
    finally:
        cluster.start_broker(BROKER)
    until_well(cluster)
    folder, other = host.stray(moved), host.stray(revived)
    # A copy under a live name, laid there while the broker runs: it does not list that one.
    copied = host.log_dir / f"{laid}-0"
    shutil.copytree(cluster.log_dir(1) / copied.name, copied)
    for orphan in (folder, other, copied):
        grow_old(orphan)
    log_dirs = ("--log-dirs", str(host.log_dir), "--broker", str(BROKER))
    assert host.call("inventory", "scan", *log_dirs, "--out", host.inventory)[0] == 0

    # Found, to the byte; kept while the living partition keeps what it holds.
    found = host.look()
    files = list(folder.iterdir())
    row = found[moved]
    assert (row["kind"], row["broker_id"], row["directory"]) == ("moved-away", BROKER, folder.name)
    logs = sum(f.stat().st_size for f in files if f.suffix == ".log")
    assert row["size_bytes"] == logs > LOG_BYTES
    assert row["allocated_bytes"] == sum(f.stat().st_blocks * 512 for f in files)
    assert row["log_end_offset"] == RECORDS
    assert (row["verdict"], "for ever" in row["reason"]) == ("never", True), row["reason"]
    off = host.round()
    assert (off["state"], codes(off)[folder.name]) == ("off", "verdict")
    strays = list(host.log_dir.glob("*-stray"))
    assert host.scraped() == {
        "Count": len(strays),
        "Size": sum(f.stat().st_blocks * 512 for s in strays for f in s.iterdir()),
    }

    # Its own retention lets go of it; the other one is assigned again before the delay ends.
    for topic in (moved, revived, laid):
        let_go(workload, topic)
    assign(cluster, revived, to=[1, BROKER])
    until_well(cluster)
    assert codes(host.round("--inventory-out", host.inventory))[folder.name] == "verdict"
    time.sleep(DELAY.seconds)
    found = host.look()
    assert (found[moved]["verdict"], found[moved]["kind"]) == ("removable", "moved-away")
    assert found[revived]["verdict"] == "never"
    assert (found[laid]["verdict"], found[laid]["directory"]) == ("removable", copied.name)
    keep(workload, moved, "-1")
    with service(host) as leading:
        assert next(leading)["state"] == "on"
        code, answer, _ = host.call(*host.line, "--confirm", host.sentence)
        assert (code, answer["error"]["code"]) == (3, "NOT_LEADING"), "one acts"
    assert codes(host.round())[folder.name] == "last-copy", "the cluster is asked again"
    keep(workload, moved, "1000")
    acted = host.round()
    assert (acted["state"], states(acted)[folder.name]) == ("on", "moved")
    assert (states(acted)[other.name], other.is_dir()) == ("refused", True)
    (aside,) = (Path(r["quarantined_as"]) for r in acted["rows"] if r["state"] == "moved")
    assert not copied.exists(), "nothing holds it open: it went with the round before"
    assert sum(f.stat().st_size for f in aside.glob("*.log")) == logs

    # In quarantine it stays as long as the broker is assigned the partition, and goes after that.
    host.sentence = ""
    host.round("--quarantine", "0s")
    assign(cluster, moved, to=[1, BROKER])
    assert codes(host.round("--quarantine", "0s"))[folder.name] == "assigned"
    assign(cluster, moved, to=[1, 3])
    until_well(cluster)
    assert "deleted" in [r["state"] for r in host.round("--quarantine", "0s")["rows"]]
    assert not aside.exists()
    assert other.is_dir()
    for name in (folder.name, copied.name):
        told(host.folder / "state", name)
    workload.close()


@contextmanager
def service(host: Host) -> Iterator[Iterator[Row]]:
    """The events of a service in a process of its own, which SIGKILL ends."""
    line = [word for word in host.line if word != "--once"]
    command = [sys.executable, "-c", "from dashboard.cli.main import run; run()", *line, "--json"]
    with subprocess.Popen(
        [*command, "--confirm", host.sentence], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            yield (json.loads(event) for event in process.stdout)
        finally:
            process.kill()


def told(state_dir: Path, name: str) -> None:
    """The journal's chain holds, and has what became of the folder."""
    journal = Journal(state_dir / "journal.sqlite")
    assert journal.verify().ok
    acts = [a for e in journal.entries() if e.kind == "orphans" for a in e.body["acts"]]
    assert [kind for kind, _, directory, _ in acts if directory == name] == ["moved", "deleted"]
    journal.close()


def codes(event: Row) -> dict[str, str | None]:
    return {row["directory"]: row["code"] for row in event["rows"]}


def states(event: Row) -> dict[str, str]:
    return {row["directory"]: row["state"] for row in event["rows"]}


def let_go(workload: Workload, topic: str) -> None:
    """The topic's own retention has taken all that was written."""
    keep(workload, topic, "1000")
    for deleted in workload.admin.delete_records([Part(topic, 0, RECORDS)]).values():
        deleted.result(30)


def keep(workload: Workload, topic: str, retention_ms: str) -> None:
    """The topic's own retention from now on."""
    entry = ConfigEntry("retention.ms", retention_ms, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for done in workload.admin.incremental_alter_configs([changed]).values():
        done.result(30)


def assign(cluster: LocalCluster, *topics: str, to: list[int]) -> None:
    """Partition 0 of the topics to these brokers, and wait until it is there."""
    # Broker 1 alone: the client leaves open the socket to a broker that it finds down.
    first = cluster.bootstrap.split(",")[0]
    with closing(KafkaAdminClient(bootstrap_servers=first)) as admin:
        admin.alter_partition_reassignments({KafkaPart(topic, 0): to for topic in topics})
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        until(
            lambda: (
                all(s.partitions[0].replicas == tuple(to) for s in live.topics(topics).values())
                and not live.reassignments()
            ),
            60,
        )


def until_well(cluster: LocalCluster) -> None:
    def well() -> bool:
        states = live.topics(None).values()
        return not any(p.under_replicated or p.error for s in states for p in s.partitions)

    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        until(well, 60)
