"""How fast archived records go back into Kafka, beside librdkafka's producer with the same records.

`python -m tests.bench.bench_restore [--mib 256] [--runs 3]`: three local brokers, 1 KiB records in
three partitions. The peer has its records in memory, and waits for the same acknowledgements; ours
reads each part, holds it against its proof and unpacks it first. Comparing comes on top.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer

from dashboard.archive.opened import open_archive
from dashboard.archive.restore import Goal, Restore, Restored
from dashboard.archive.restored_topic import Notes
from dashboard.cluster.live import connect
from dashboard.cluster.produce import RecordClient
from dashboard.core.clock import utc_now
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.records import Row
from dashboard.settings import settings
from tests.support import archives

PARTITIONS = 3
GOAL = 0.5
_VALUE = 1000


def main(argv: list[str]) -> int:
    """Measure and print; 1 when the goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args(argv)
    rows = _rows(args.mib * 1024)
    chosen = settings.load()
    found = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as text:
        folder = Path(text)
        kept = archives.write(folder / "kept", {"t": rows}, per_part=32_000, per_group=4_000)
        with LocalCluster(folder / "brokers", found, heap_mb=1024) as cluster:
            peer, ours = [], []
            for run in range(args.runs):
                peer.append(_peer(cluster.bootstrap, f"peer-{run}", rows))
                ours.append(_restored(cluster.bootstrap, f"ours-{run}", kept, folder))
            peak = _peak_mib(cluster.bootstrap, kept, folder)
    return _print_table(args.mib, peer, ours, peak)


def _rows(records: int) -> dict[int, list[tuple[int, Row]]]:
    """Values that no codec makes much of, as much as those of most topics: half of them is."""
    half = _VALUE // 2
    pool = os.urandom(1 << 20)
    each = records // PARTITIONS
    return {
        partition: [
            (n, (b"key-%016d" % n, pool[at : at + half] + b"x" * half, 1_700_000_000_000 + n, None))
            for n in range(each)
            for at in ((n * 97) % (len(pool) - half),)
        ]
        for partition in range(PARTITIONS)
    }


def _peer(bootstrap: str, topic: str, rows: dict[int, list[tuple[int, Row]]]) -> float:
    """Seconds that librdkafka's producer takes from Python, with its delivery reports unread."""
    with connect({"bootstrap.servers": bootstrap}) as live:
        live.create_topic(
            topic, partitions=PARTITIONS, replication_factor=3, configs={"retention.ms": "-1"}
        )
    settings = {
        "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 20,
        "queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 131_072,
    }  # fmt: skip
    producer = Producer(client(bootstrap, acks="all") | settings)
    began = time.perf_counter()
    for start in range(0, len(rows[0]), 4_000):
        for partition, records in rows.items():
            for _, (key, value, timestamp, _) in records[start : start + 4_000]:
                while True:
                    try:
                        producer.produce(topic, value, key, partition, timestamp=timestamp)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    producer.flush()
    return time.perf_counter() - began


def _restored(bootstrap: str, topic: str, kept: Path, folder: Path) -> Restored:
    archive = open_archive(str(kept))
    servers = {"bootstrap.servers": bootstrap}
    with connect(servers) as live, RecordClient(servers, live.cluster_id()) as client:
        restore = Restore(
            archive, archive.topic("t"), live, client,
            Notes(folder / "notes"), 30.0,
        )  # fmt: skip
        done = restore.run(Goal(topic), utc_now(), folder / f"{topic}.parquet")
    assert done.whole, done
    return done


def _peak_mib(bootstrap: str, kept: Path, folder: Path) -> float:
    """The most memory of a restore in a process of its own, by VmHWM of proc(5)."""
    command = [
        sys.executable, "-m", "dashboard.cli.main", "restore", str(kept), "--to-topic", "peak",
        "--bootstrap-server", bootstrap, "--json",
    ]  # fmt: skip
    environ = {**os.environ, "LOWWATER_STATE_DIR": str(folder / "state")}
    peak = 0
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        while running.poll() is None:
            with suppress(OSError, IndexError):
                status = Path(f"/proc/{running.pid}/status").read_text()
                peak = max(peak, int(status.split("VmHWM:")[1].split()[0]))
            time.sleep(0.1)
    assert running.returncode == 0
    return peak / 1024


def _print_table(mib: int, peer: list[float], ours: list[Restored], peak: float) -> int:
    theirs = statistics.median(peer)
    written = statistics.median(one.write_seconds for one in ours)
    compared = statistics.median(one.compare_seconds for one in ours)
    print(f"\n{mib} MiB of 1 KiB records, {len(ours)} runs in turn\n")
    print(f"{'':<44}{'median s':>10}{'MiB/s':>10}{'ratio':>8}")
    for name, seconds in (
        ("librdkafka's producer, records in memory", theirs),
        ("lowwater restore: read, prove, write", written),
        ("lowwater restore: read back and compare", compared),
    ):
        print(f"{name:<44}{seconds:>10.2f}{mib / seconds:>10.1f}{theirs / seconds:>7.2f}x")
    print(f"most memory of lowwater restore: {peak:.0f} MiB")
    reached = theirs / written >= GOAL
    print(f"goal: {GOAL:g}x of the producer, {'reached' if reached else 'missed'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
