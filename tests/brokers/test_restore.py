"""Restoring into real brokers: every kind of record, a kill in the middle, what brokers refuse."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from dashboard.archive.opened import open_archive
from dashboard.archive.restored_topic import new_topic
from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.cluster.produce import RecordClient
from dashboard.core.errors import ClusterError
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Row
from tests.brokers.purge_bench import SETTINGS, Bench
from tests.support import archives

MiB = 1 << 20
Answer = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def answer(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Answer:
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))

    def called(*words: str) -> tuple[int, dict[str, Any]]:
        code = main([*words, "--bootstrap-server", bench.bootstrap, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return called


def lies(bench: Bench, topic: str, partition: int = 0) -> list[tuple[int, Row]]:
    """Every record of a partition."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        key = TopicPartition(topic, partition)
        found = live.offsets([key])[key]
    assert found.log_start_offset is not None and found.high_watermark is not None
    with RecordClient({"bootstrap.servers": bench.bootstrap}, bench.store.cluster_id) as reader:
        chunks = reader.read(topic, partition, found.log_start_offset, found.high_watermark)
        return [pair for offsets, rows in chunks for pair in zip(offsets, rows, strict=True)]


def every_kind(bench: Bench, topic: str) -> None:
    """Five codecs, transactions, headers, nulls, empties, old times and records of 1 MiB."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(client(bench.bootstrap, acks="all", **{"compression.type": codec}))
        for n in range(200):
            headers = [("codec", codec.encode()), ("null", None), ("codec", b"")] if n % 3 else []
            key = (b"k%d" % n, None, b"")[n % 3]
            value = (b"v%d" % n, b"", None, b"z" * n)[n % 4]
            producer.produce(topic, value, key, 0, timestamp=1_500_000_000_000 + n, headers=headers)
        assert producer.flush(60) == 0
    producer = Producer(
        client(bench.bootstrap, **{"transactional.id": f"restore-{uuid.uuid4().hex[:6]}"})
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction %d" % number, partition=0)
        producer.flush(30)
        (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)(30)
    large = Producer(client(bench.bootstrap, acks="all", **{"message.max.bytes": str(2 * MiB)}))
    for number in range(3):
        large.produce(topic, b"%d" % number + b"m" * MiB, b"large", partition=0)
    assert large.flush(60) == 0


def sealed(bench: Bench, folder: Path) -> None:
    """From now on parts are sealed, and opened, with a key."""
    assert bench.settings.source is not None
    (folder / "key").write_text("5a" * 32)
    bench.settings.source.write_text(f'{SETTINGS}[archive]\nkey_file = "{folder}/key"\n')


def kept(folder: Path, topic: str, rows: list[tuple[int, Row]], **config: str) -> str:
    return str(archives.write(folder, {topic: {0: rows}}, config=config, per_part=300))


def test_what_was_archived_and_purged_comes_back_record_for_record(
    bench: Bench, answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.topic(
        0, 40, max_message_bytes=str(2 * MiB), segment_bytes=str(8 * MiB), retention_ms="-1"
    )
    every_kind(bench, topic)
    before = lies(bench, topic), lies(bench, topic, 1)
    assert [len(rows) for rows in before] == [1009, 40]
    sealed(bench, tmp_path)
    bench.commit("restore-g", topic, {0: before[0][-1][0] + 1, 1: 30})
    (tmp_path / "kept").mkdir()
    view = bench.apply(bench.plan(topic, archive=str(tmp_path / "kept")))
    assert view.run.state == "done", view.to_json()
    assert lies(bench, topic) == []
    archive = f"{tmp_path}/kept/{view.run.cluster_id}/{view.run.run_id}"
    (part, *_) = Path(archive, topic, "1").glob("*.parquet")
    assert b"PAR1" not in part.read_bytes()
    to = f"{topic}-restored"
    bench._topics.add(to)
    code, value = answer("restore", archive, "--to-topic", to)
    assert (code, value["state"], value["records"]) == (0, "restored", 1039), value
    first, second = lies(bench, to), lies(bench, to, 1)
    assert [row for _, row in first] == [row for _, row in before[0]]
    assert [row for _, row in second] == [row for _, row in before[1][:30]]
    assert [offset for offset, _ in first] == list(range(1009))
    new = {old: found for old, (found, _) in zip([o for o, _ in before[0]], first, strict=True)}
    table = pq.read_table(value["offsets_file"]).filter(pc.field("partition") == 0)
    assert (
        dict(zip(*(table[n].to_pylist() for n in ("old_offset", "new_offset")), strict=True)) == new
    )
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        told = {e.key: e.value for e in live.configs([to])}
        # By which a topic of whose making nothing was heard is known again.
        own = live.own_configs([to])[to]
    assert own == new_topic(to, open_archive(archive, tmp_path / "key").topic(topic), 3).config
    assert (told["retention.ms"], told["segment.bytes"]) == ("-1", str(8 * MiB))
    assert "--delete-config" in value["line"] and "max.message.bytes=2097152" in value["line"]
    code, again = answer("restore", archive, "--to-topic", to)
    assert (code, again["partitions"][0]["resumed_at"]) == (0, 1009)
    assert len(lies(bench, to)) == 1009
    code, back = answer("restore", archive, "--to-topic", topic, "--existing")
    assert (code, back["made"], back["partitions"][1]["first_offset"]) == (0, False, 40)
    assert [row for _, row in lies(bench, topic, 1)] == [
        row for _, row in [*before[1][30:], *before[1][:30]]
    ]
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "another machine"))
    code, twice = answer("restore", archive, "--to-topic", topic, "--existing")
    assert (code, twice["error"]["code"]) == (3, "RESTORED_ALREADY")
    at = back["partitions"][0]["first_offset"]
    assert f"{topic}-0 holds the archive's first record at offset {at}" in twice["error"]["message"]
    assert len(lies(bench, topic, 1)) == 40


@pytest.mark.further
def test_no_time_stays_none_and_the_beginning_of_1970_is_a_millisecond_later(
    bench: Bench, answer: Answer, tmp_path: Path
) -> None:
    rows: list[tuple[int, Row]] = [
        (n, (b"k", b"v", time, None)) for n, time in enumerate((-1, 0, 1, -5))
    ]
    # Of a cluster of long ago: brokers of today do not know these.
    config = {"message.format.version": "2.8-IV1", "message.downconversion.enable": "false"}
    archive = kept(tmp_path / "kept", "t", rows, **config)
    to = f"times-{uuid.uuid4().hex[:6]}"
    bench._topics.add(to)
    code, value = answer("restore", archive, "--to-topic", to)
    assert (code, value["state"]) == (0, "restored"), value
    assert [row[2] for _, row in lies(bench, to)] == [-1, 1, 1, -5]
    assert any("1970" in said for said in value["not_the_same"])


@pytest.mark.further
def test_what_a_broker_does_not_take_is_named_and_ends_it(
    bench: Bench, answer: Answer, tmp_path: Path
) -> None:
    topic = bench.topic(0, max_message_bytes="100000", retention_ms="-1")
    rows: list[tuple[int, Row]] = [
        (n, (b"k", bytes(900_000) if n == 40 else b"v", 1_700_000_000_000, None)) for n in range(90)
    ]
    archive = kept(tmp_path / "kept", topic, rows)
    words = ("restore", archive, "--to-topic", topic, "--existing", "--compression", "none")
    code, value = answer(*words)
    assert (code, value["error"]["code"]) == (4, "RECORD_REFUSED")
    assert "MESSAGE_SIZE_TOO_LARGE" in value["error"]["message"]
    found = [row for _, row in lies(bench, topic)]
    assert found == [row for _, row in rows][: len(found)] and len(found) <= 40


@pytest.mark.further
def test_brokers_that_take_nothing_are_not_waited_for_without_an_end(
    bench: Bench, cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = bench.topic(0)
    archive = open_archive(kept(tmp_path / "kept", topic, archives.records(50)))
    key = TopicPartition(topic, 0)
    whole = archive.partition(key)
    assert whole is not None
    reached = RecordClient(
        {"bootstrap.servers": bench.bootstrap}, bench.store.cluster_id, patience_seconds=1.5
    )
    with reached.producer(topic, None) as producer:
        for broker in (1, 2, 3):
            cluster.suspend(broker)
        try:
            for batch in archive.batches(key, whole.parts[0]):
                producer.send(0, batch)
            with pytest.raises(ClusterError) as stalled:
                producer.finish()
        finally:
            for broker in (1, 2, 3):
                cluster.resume(broker)
    assert stalled.value.code == "RESTORE_STALLED"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.timeout(1800))])
def test_killed_at_any_moment_it_goes_on_and_every_record_is_there_once(
    bench: Bench, tmp_path: Path, kills: int
) -> None:
    rows: dict[int, list[tuple[int, Row]]] = {
        p: [
            (3 * n, (b"%d" % n, b"%d" % n * 90, 1_700_000_000_000 + n, None)) for n in range(60_000)
        ]
        for p in range(3)
    }
    archive = archives.write(tmp_path / "kept", {"t": rows}, per_part=20_000, per_group=2000)
    chance, left = random.Random(kills), kills
    while left > 0:
        to = f"killed-{uuid.uuid4().hex[:6]}"
        bench._topics.add(to)
        words = [
            sys.executable, "-m", "dashboard.cli.main", "restore", str(archive), "--to-topic", to,
            "--bootstrap-server", bench.bootstrap, "--json",
        ]  # fmt: skip
        environ = {
            **os.environ, "LOWWATER_SETTINGS": str(bench.settings.source),
            "LOWWATER_STATE_DIR": str(tmp_path / "state"),
        }  # fmt: skip
        shares = [0.0, 0.05, 0.2, 0.4, 0.65, 0.9]
        if kills > len(shares):  # before anything is written, and while all is compared, too
            shares = sorted(chance.uniform(-0.2, 1.2) for _ in range(8))
        for number, share in enumerate(shares[:left]):
            with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as running:
                while (
                    share >= 0
                    and running.poll() is None
                    and (written(bench, to) <= min(share, 0.999) * 180_000)
                ):
                    time.sleep(0.02)
                if not 0 <= share < 1:
                    time.sleep(chance.uniform(0, 1.5))
                running.send_signal(signal.SIGINT if number % 3 == 1 else signal.SIGKILL)
            early = share < 0.5  # of what is left by then a fast machine makes nothing
            assert running.returncode != 0 or not early, "it was done before it could be killed"
            left -= running.returncode != 0
        done = subprocess.run(words, env=environ, stdout=subprocess.PIPE, check=True)
        value = json.loads(done.stdout)
        assert (value["state"], value["records"]) == ("restored", 180_000)
        assert sum(p["resumed_at"] for p in value["partitions"]) <= 180_000
        for partition, expected in rows.items():
            assert [row for _, row in lies(bench, to, partition)] == [row for _, row in expected]
        table = pq.read_table(value["offsets_file"])
        assert table["old_offset"].to_pylist() == [3 * n for n in range(60_000)] * 3
        assert table["new_offset"].to_pylist() == list(range(60_000)) * 3


def written(bench: Bench, topic: str) -> int:
    """How many records lie in a topic; 0 while it is not there."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        state = live.topics([topic])[topic]
        keys = [TopicPartition(topic, p.partition) for p in state.partitions]
        return sum(found.high_watermark or 0 for found in live.offsets(keys).values())
