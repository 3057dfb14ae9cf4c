"""15,000 folders of three brokers with 50 planted orphans of every kind, and what only looks so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

BROKERS = (1, 2, 3)
LOG_DIRS = ("/d1", "/d2")
TOPICS, PARTITIONS = 100, 50  # x 3 replicas: 15,000 folders
TABLES = ("topics", "partitions", "replicas", "segments", "checkpoints", "reassignments")
Rows = list[dict[str, Any]]
Place = tuple[int, str, str]  # broker, log dir, directory


@dataclass
class Truth:
    """Tables of a snapshot, and the kind of each planted orphan by its place."""

    tables: dict[str, Rows] = field(default_factory=dict)
    planted: dict[Place, str] = field(default_factory=dict)
    doubtful: list[str] = field(default_factory=list)

    def folder(
        self,
        place: Place,
        topic: str,
        partition: int,
        kind: str,
        topic_id: str | None,
        *,
        orphan: str | None = None,
    ) -> None:
        broker, log_dir, directory = place
        self.tables["segments"].append({
            "broker_id": broker, "log_dir": log_dir, "directory": directory, "base_offset": 0,
            "topic": topic, "partition": partition, "topic_id": topic_id, "kind": kind,
            "log_bytes": 1000, "index_bytes": 20, "allocated_bytes": 4096,
        })  # fmt: skip
        if orphan:
            self.planted[place] = orphan


def home(topic_no: int, partition: int, copy: int) -> tuple[int, str]:
    """Broker and log dir of a replica."""
    number = topic_no * PARTITIONS + partition
    return BROKERS[(number + copy) % 3], LOG_DIRS[number // 3 % 2]


def truth(look: int, scanned_at: datetime) -> Truth:
    """The cluster at the `look`-th snapshot, 0 or 1, with disks scanned at `scanned_at`.

    What outlives both looks is the truth; what is there in one alone came or went between reads.
    """
    found = Truth({name: [] for name in TABLES})
    for topic_no in range(TOPICS):
        _topic(found, topic_no)
    for plant in (_strays, _recreated, _deleted, _moved, _futures, _deletes, _entries, _twice):
        plant(found)
    _near_misses(found, look)
    for row in found.tables["segments"]:
        row |= {"scanned_at": scanned_at, "newest_at": scanned_at - timedelta(days=30)}
    return found


def _topic(found: Truth, topic_no: int) -> None:
    name = f"t{topic_no:03d}"
    found.tables["topics"].append(
        {"topic_no": topic_no, "topic": name, "topic_id": f"id-{name}", "is_internal": False}
    )
    for partition in range(PARTITIONS):
        place = {"topic_no": topic_no, "partition": partition}
        homes = [home(topic_no, partition, copy) for copy in range(3)]
        brokers = [broker for broker, _ in homes]
        found.tables["partitions"].append(
            {**place, "leader_id": brokers[0], "leader_epoch": 0, "replicas": brokers,
             "isr": brokers, "log_start_offset": 0, "high_watermark": 10,
             "last_stable_offset": 10})  # fmt: skip
        for broker, log_dir in homes:
            found.tables["replicas"].append(
                {"broker_id": broker, "log_dir": log_dir, **place, "size_bytes": 1000,
                 "is_future": False, "log_start_offset": 0, "log_end_offset": 10})  # fmt: skip
            found.folder((broker, log_dir, f"{name}-{partition}"), name, partition, "live",
                         f"id-{name}")  # fmt: skip
            found.tables["checkpoints"].append(
                {"broker_id": broker, "log_dir": log_dir, "topic": name, "partition": partition,
                 "file": "replication-offset-checkpoint", "offset": 10})  # fmt: skip


def _some(count: int) -> Iterator[tuple[int, tuple[int, str]]]:
    for number in range(count):
        yield number, (BROKERS[number % 3], LOG_DIRS[number % 2])


def _strays(found: Truth) -> None:
    for n, (broker, log_dir) in _some(8):
        place = (broker, log_dir, f"gone{n}-0.{n:032x}-stray")
        found.folder(place, f"gone{n}", 0, "stray", f"id-gone{n}" if n else None, orphan="stray")


def _recreated(found: Truth) -> None:
    for n, (broker, log_dir) in _some(7):
        stray = n % 2 == 0
        name = f"t{n:03d}-90" + (f".{n:032x}-stray" if stray else "")
        found.folder((broker, log_dir, name), f"t{n:03d}", 90, "stray" if stray else "live",
                     f"old-t{n:03d}", orphan="recreated-topic")  # fmt: skip


def _deleted(found: Truth) -> None:
    for n, (broker, log_dir) in _some(7):
        found.folder((broker, log_dir, f"dead{n}-3"), f"dead{n}", 3, "live", f"id-dead{n}",
                     orphan="deleted-topic")  # fmt: skip


def _moved(found: Truth) -> None:
    """Of partitions past the topic's last, and one that DescribeLogDirs lists as well."""
    for n, (broker, log_dir) in _some(6):
        found.folder((broker, log_dir, f"t{n:03d}-7{n}"), f"t{n:03d}", 70 + n, "live",
                     f"id-t{n:03d}", orphan="moved-away")  # fmt: skip
    found.tables["replicas"].append(
        {"broker_id": 1, "log_dir": "/d1", "topic_no": 0, "partition": 70, "size_bytes": 1000,
         "is_future": False, "error": "NOT_IN_METADATA"})  # fmt: skip


def _futures(found: Truth) -> None:
    for n in range(6):
        broker, log_dir = home(n, 1, 0)
        other = LOG_DIRS[LOG_DIRS.index(log_dir) - 1]
        found.folder((broker, other, f"t{n:03d}-1.{n:032x}-future"), f"t{n:03d}", 1, "future",
                     f"id-t{n:03d}", orphan="abandoned-future")  # fmt: skip


def _deletes(found: Truth) -> None:
    for n, (broker, log_dir) in _some(5):
        found.folder((broker, log_dir, f"t{n:03d}-2.{n:032x}-delete"), f"t{n:03d}", 2, "delete",
                     f"id-t{n:03d}", orphan="late-delete")  # fmt: skip


def _entries(found: Truth) -> None:
    files = ("log-begin-offset-checkpoint", "replication-low-watermark-checkpoint")
    for n, (broker, log_dir) in _some(6):
        found.planted[broker, log_dir, f"lost{n}-0"] = "checkpoint-entry"
        found.tables["checkpoints"] += [
            {"broker_id": broker, "log_dir": log_dir, "topic": f"lost{n}", "partition": 0,
             "file": file, "offset": 1}
            for file in files
        ]  # fmt: skip


def _twice(found: Truth) -> None:
    for n in range(5):
        broker, log_dir = home(n, 4, 1)
        other = LOG_DIRS[LOG_DIRS.index(log_dir) - 1]
        found.folder((broker, other, f"t{n:03d}-4"), f"t{n:03d}", 4, "live", f"id-t{n:03d}",
                     orphan="two-log-dirs")  # fmt: skip


def _near_misses(found: Truth, look: int) -> None:
    """What must not be told: each differs from an orphan in one thing."""
    name = "t050"
    for n in range(20):
        # Came after the first scan, or went before the second.
        found.folder((1, "/d1", f"brief{look}x{n}-0"), f"brief{look}x{n}", 0, "live",
                     f"id-brief{look}x{n}")  # fmt: skip
        # A folder on its way out, which Kafka gave another name by the second look.
        found.folder((2, "/d1", f"{name}-{n}.{look}{n:031x}-delete"), name, n, "delete",
                     f"id-{name}")  # fmt: skip
        # A copy under way, and a broker that a reassignment removes or adds.
        broker, log_dir = home(60, n, 0)
        other = LOG_DIRS[LOG_DIRS.index(log_dir) - 1]
        found.folder((broker, other, f"t060-{n}.{n:032x}-future"), "t060", n, "future",
                     "id-t060")  # fmt: skip
        found.tables["replicas"].append(
            {"broker_id": broker, "log_dir": other, "topic_no": 60, "partition": n,
             "size_bytes": 500, "is_future": True})  # fmt: skip
        leaving, _ = home(61, n, 0)
        moving = found.tables["partitions"][61 * PARTITIONS + n]
        moving["replicas"] = [b for b in moving["replicas"] if b != leaving]
        found.tables["reassignments"].append(
            {"topic_no": 61, "partition": n, "adding": [], "removing": [leaving]})  # fmt: skip
        # Hidden from us; no topic id, but a name that is assigned.
        found.folder((3, "/d2", f"secret{n}-0"), f"secret{n}", 0, "live", f"id-secret{n}")
        found.doubtful.append(f"secret{n}")
        at = 62 * PARTITIONS + n
        for row in found.tables["segments"][at * 3 : at * 3 + 3]:
            row["topic_id"] = None
    # A move by reassignment between the two looks: its folder is in the first scan alone.
    if look == 0:
        for n in range(20):
            found.folder((1, "/d2", f"away{n}-0"), "t063", 80 + n, "live", "id-t063")
