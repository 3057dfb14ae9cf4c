"""How fast records are kept and proved, beside Kafka's console consumer that writes them to a file,
and librdkafka's consumer that throws them away.

`python -m tests.bench.bench_archive [--mib 1024] [--runs 3]`: three local brokers, 1 KiB records in
three partitions. All read the same partitions, in turn, each in a process of its own, and write to
the same disk; archiving reads each part back, counts, compares and hashes it besides.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from dashboard.archive.keep import Keeper
from dashboard.archive.manifest import ArchivedTopic, Range, RunArchive
from dashboard.archive.place import Place
from dashboard.cluster.live import connect
from dashboard.cluster.ranges import RangeReader
from dashboard.core.clock import utc_now
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.settings import settings
from dashboard.settings.archive import ArchiveSettings
from tests.bench.bench_inventory import Taken, measured

PARTITIONS = 3
LEAST_OF_CONSOLE, LEAST_OF_CONSUMER, MOST_MIB = 1.0, 0.5, 400
_TOPIC = "kept"
_VALUE = 1024


def produce(bootstrap: str, records: int) -> None:
    """Values of which half can be packed, as those of most topics."""
    new = NewTopic(_TOPIC, PARTITIONS, 3, config={"retention.ms": "-1"})
    admin = AdminClient(client(bootstrap))  # one that goes before its answer takes that with it
    admin.create_topics([new])[_TOPIC].result(60)
    producer = Producer(client(bootstrap, acks="1", **{
        "linger.ms": "50", "queue.buffering.max.kbytes": "65536",
    }))  # fmt: skip
    pool, packed = os.urandom(1 << 20), b"x" * (_VALUE // 2)
    for number in range(records):
        at = number * 97 % (len(pool) - _VALUE // 2)
        while True:
            try:
                producer.produce(
                    _TOPIC, pool[at : at + _VALUE // 2] + packed, partition=number % PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0


def keep(bootstrap: str, folder: str, records: int) -> None:
    """Archive all of it, as a worker does before it sends."""
    ends = [len(range(n, records, PARTITIONS)) for n in range(PARTITIONS)]
    ranges = tuple(Range(_TOPIC, n, 0, end) for n, end in enumerate(ends))
    servers = {"bootstrap.servers": bootstrap}
    with connect(servers) as live:
        cluster_id = live.cluster_id()
        run = RunArchive(
            cluster_id, "bench", "run", "0" * 64, utc_now(), "open", None,
            (ArchivedTopic(_TOPIC, "id", PARTITIONS, 3),), ranges,
        )  # fmt: skip
        Path(folder, cluster_id, "run").mkdir(parents=True)
        keeper = Keeper(
            Place(folder), run, ArchiveSettings(), live,
            lambda: RangeReader(servers, cluster_id, _TOPIC), lambda _: False, fresh=True,
        )  # fmt: skip
        found = keeper.keep(ranges)
    assert sum(archive.records for archive in found.committed.values()) == records, found


def throw_away(bootstrap: str, _: str, records: int) -> None:
    """Read it by librdkafka's consumer, whose settings are its own, and look at nothing."""
    consumer = Consumer(client(bootstrap, **{"group.id": "bench", "enable.auto.commit": "false"}))
    consumer.assign([TopicPartition(_TOPIC, n, 0) for n in range(PARTITIONS)])
    left = records
    while left > 0:
        left -= len(consumer.consume(10_000, 1))
    consumer.close()


_CHILDREN: dict[str, Callable[[str, str, int], None]] = {"keep": keep, "throw-away": throw_away}


def main(argv: list[str]) -> int:
    """Measure and print; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("WHAT", "BOOTSTRAP"), help="one of a run")
    parser.add_argument("--folder", default="")
    args = parser.parse_args(argv)
    records = args.mib * 1024
    if args.child:
        _CHILDREN[args.child[0]](args.child[1], args.folder, records)
        return 0
    chosen = settings.load()
    found = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-bench-") as text,
        LocalCluster(Path(text) / "brokers", found, heap_mb=768) as cluster,
    ):
        produce(cluster.bootstrap, records)
        taken: dict[str, list[Taken]] = {"keep": [], "console": [], "throw-away": []}
        for run in range(args.runs):
            for what in ("keep", "throw-away"):
                command = [sys.executable, "-m", "tests.bench.bench_archive", "--child", what]
                command += [cluster.bootstrap, "--mib", str(args.mib)]
                taken[what].append(measured([*command, "--folder", f"{text}/kept-{run}"]))
            console = [
                found.java, "-Xmx512M", "-cp", found.class_path,  # as its script has it
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                "--bootstrap-server", cluster.bootstrap, "--topic", _TOPIC, "--from-beginning",
                "--max-messages", str(records),
            ]  # fmt: skip
            taken["console"].append(measured(console, stdout=f"{text}/console"))
            subprocess.run(["rm", "-rf", f"{text}/kept-{run}", f"{text}/console"], check=True)
            time.sleep(1)
    return _print_table(args.mib, taken)


def _print_table(mib: int, taken: dict[str, list[Taken]]) -> int:
    ours = statistics.median(one.seconds for one in taken["keep"])
    memory = max(one.mebibytes for one in taken["keep"])
    print(f"\n{mib} MiB of 1 KiB records, {len(taken['keep'])} runs in turn\n")
    print(f"{'':<34}{'median s':>10}{'CPU s':>8}{'MiB/s':>8}{'MiB':>6}{'ours':>9}")
    missed = memory > MOST_MIB
    for name, what, least in (
        ("kept and proved", "keep", 0.0),
        ("kafka-console-consumer to a file", "console", LEAST_OF_CONSOLE),
        ("librdkafka's consumer, thrown away", "throw-away", LEAST_OF_CONSUMER),
    ):
        seconds = statistics.median(one.seconds for one in taken[what])
        cpu = statistics.median(one.cpu_seconds for one in taken[what])
        most = max(one.mebibytes for one in taken[what])
        ratio = seconds / ours
        missed = missed or ratio < least
        print(
            f"{name:<34}{seconds:>10.2f}{cpu:>8.1f}{mib / seconds:>8.0f}{most:>6.0f}{ratio:>7.2f} x"
        )
    print(
        f"goals: at least {LEAST_OF_CONSOLE:g} x of the console consumer, {LEAST_OF_CONSUMER:g} x "
        f"of the consumer, at most {MOST_MIB} MiB"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
