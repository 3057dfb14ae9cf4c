"""Suspects become orphans by a second look; the memory of looks does not depend on its way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from analytics.earlier import newest_base
from analytics.orphans.sightings import PROVED
from analytics.tables import Tables, stamped
from dashboard.core.clock import format_time
from tests.support.lab import START, Lab, Snapshot
from tests.support.one_bucket import find_orphans

pytestmark = pytest.mark.spark
BROKERS = (1, 2)


class Disks:
    """Inventories of /d1 of both brokers, and what else a snapshot says of them."""

    def __init__(self) -> None:
        self.segments: list[dict[str, Any]] = []
        self.checkpoints: list[dict[str, Any]] = []

    def folder(self, directory: str, topic: str, kind: str, topic_id: str | None, *,
               broker: int = 1, log_dir: str = "/d1", partition: int = 0) -> Disks:  # fmt: skip
        self.segments.append({
            "broker_id": broker, "log_dir": log_dir, "directory": directory, "base_offset": 0,
            "topic": topic, "partition": partition, "topic_id": topic_id, "kind": kind,
            "log_bytes": 1000, "index_bytes": 5000, "allocated_bytes": 4096, "newest_at": START,
        })  # fmt: skip
        return self

    def live(self, name: str, *, broker: int = 1, log_dir: str = "/d1") -> Disks:
        return self.folder(f"{name}-0", name, "live", f"id-{name}", broker=broker, log_dir=log_dir)

    def entry(self, topic: str, file: str = "replication-offset-checkpoint") -> Disks:
        self.checkpoints.append({"broker_id": 1, "log_dir": "/d1", "file": file, "topic": topic,
                                 "partition": 0, "offset": 5})  # fmt: skip
        return self


def write(lab: Lab, snapshot: Snapshot, disks: Disks, *, age: int = 10, **more: Any) -> str:
    """A snapshot whose inventories were made `age` seconds before it."""
    scanned_at = START + timedelta(minutes=lab.minutes + 1, seconds=-age)
    rows = [{**row, "scanned_at": scanned_at} for row in disks.segments]
    snapshot.tables |= {"segments": rows, "checkpoints": disks.checkpoints}
    inventories = [
        {"broker_id": broker, "log_dirs": ["/d1", "/d2"], "scanned_at": format_time(scanned_at),
         "gaps": [], "gaps_total": 0} | more.pop("inventory", {})
        for broker in BROKERS
    ]  # fmt: skip
    return lab.write(snapshot, inventories=inventories, **more)


def find(lab: Lab) -> None:
    """The part of an analysis that is about orphans, going on from the one before."""
    snapshot = lab.cluster.manifest("snapshots", lab.cluster.latest_snapshot())
    base = newest_base(lab.cluster, snapshot, ["sightings"])
    found = find_orphans(Tables(lab.spark, lab.cluster), snapshot, base, lab.settings)
    writer = lab.cluster.begin("findings", snapshot.taken_at)
    for name, table in (("orphans", found.orphans), ("sightings", found.sightings)):
        writer.write(name, stamped(name, table, snapshot))
    writer.commit(1.0, {"snapshot_id": snapshot.id, PROVED: True})
    lab.cluster.set_latest(writer.id)


def orphans(lab: Lab) -> dict[str, dict[str, Any]]:
    """By folder, or where the folder of a checkpoint entry would be."""
    rows = lab.rows("orphans")
    return {row["directory"] or f"{row['topic']}-{row['partition']}": row for row in rows}


def kinds(lab: Lab) -> dict[str, str]:
    return {name: row["kind"] for name, row in orphans(lab).items()}


def cluster() -> Snapshot:
    return Snapshot().topic("t").topic("new", topic_id="id-later")


def disks() -> Disks:
    """Live replicas and their checkpoint entries."""
    return Disks().live("t").live("t", broker=2).entry("t")


@pytest.mark.further
def test_a_stray_is_told_at_once_and_the_others_by_a_second_look(lab: Lab) -> None:
    planted = (
        disks()
        .folder("gone-0.9a-stray", "gone", "stray", "id-gone")
        .folder("new-0.9a-stray", "new", "stray", "id-new")
        .folder("dead-0", "dead", "live", "id-dead")
        .folder("new-0", "new", "live", "id-new", broker=2)
        .folder("t-7", "t", "live", "id-t", partition=7)
        .folder("t-0.9a-future", "t", "future", "id-t")
        .folder("t-3.9a-delete", "t", "delete", "id-t", partition=3)
        .live("t", log_dir="/d2")
        .entry("lost", "log-begin-offset-checkpoint")
        .entry("lost")
    )
    snapshot = cluster()
    told = [{"broker_id": b, "log_dir": log_dir, "total_bytes": 10**9, "usable_bytes": 10**9 // 2}
            for b in BROKERS for log_dir in ("/d1", "/d2")]  # fmt: skip
    snapshot.tables["log_dirs"] = told
    write(lab, snapshot, planted)
    lab.analyze()
    assert kinds(lab) == {"gone-0.9a-stray": "stray", "new-0.9a-stray": "recreated-topic"}
    assert len(lab.rows("sightings")) == 9

    second = cluster()
    second.tables["log_dirs"] = told
    write(lab, second, planted)
    lab.analyze()

    assert kinds(lab) == {
        "gone-0.9a-stray": "stray",
        "new-0.9a-stray": "recreated-topic",
        "dead-0": "deleted-topic",
        "new-0": "recreated-topic",
        "t-7": "moved-away",
        "t-0.9a-future": "abandoned-future",
        "t-0": "two-log-dirs",
    }
    found = orphans(lab)
    assert found["t-0"]["log_dir"] == "/d2"
    assert found["new-0"]["current_topic_id"] == "id-later"
    assert found["gone-0.9a-stray"]["snapshots_seen"] == 2
    assert "knows no topic gone" in found["gone-0.9a-stray"]["evidence"]
    assert "with topic id id-new" in found["new-0"]["evidence"]
    assert "has topic new with id-later" in found["new-0"]["evidence"]
    incremental = [lab.rows(table) for table in ("orphans", "sightings", "disks")]
    lab.analyze(full=True)
    assert [lab.rows(table) for table in ("orphans", "sightings", "disks")] == incremental

    lab.minutes += 2  # a broker takes a minute to delete or rewrite, and there is one of slack
    third = cluster()
    third.tables["log_dirs"] = told
    write(lab, third, planted)
    lab.analyze()
    assert kinds(lab)["t-3.9a-delete"] == "late-delete"
    entry = orphans(lab)["lost-0"]
    assert (entry["kind"], entry["directory"]) == ("checkpoint-entry", None)
    assert (entry["verdict"], entry["size_bytes"]) == ("never", 0)


@pytest.mark.further
def test_what_is_assigned_moving_hidden_or_gone_is_no_orphan(lab: Lab) -> None:
    def snapshot(*, moving: bool = True) -> Snapshot:
        made = Snapshot().topic("t").topic("moving").topic("future")
        if moving:
            made.tables["reassignments"] = [
                {"topic_no": 1, "partition": 0, "adding": [3], "removing": [1]}
            ]
            made.tables["partitions"][1]["replicas"] = [2, 3]
        made.tables["replicas"].append(
            {"broker_id": 1, "log_dir": "/d2", "topic_no": 2, "partition": 0, "size_bytes": 70,
             "is_future": True})  # fmt: skip
        return made

    planted = (
        disks()
        .live("moving")
        .folder("future-0.9a-future", "future", "future", "id-future", log_dir="/d2")
        .live("hidden")
        .entry("hidden")
        .entry("unread")
    )
    gap = {"gaps": [{"log_dir": "/d1", "path": "unread-0", "reason": "denied"}], "gaps_total": 1}
    for _ in range(2):
        write(lab, snapshot(), planted, inventory=gap, doubtful_topics=["hidden"])
        find(lab)
    assert lab.rows("sightings") == []

    # A topic that came and went between two snapshots, and one that was moved away after its scan.
    write(lab, snapshot(moving=False), planted.live("brief"), inventory=gap,
          doubtful_topics=["hidden"])  # fmt: skip
    find(lab)
    assert [row["directory"] for row in lab.rows("sightings")] == ["brief-0"]
    assert lab.rows("orphans") == []
    write(lab, snapshot(moving=False), disks())
    find(lab)
    assert lab.rows("sightings") == []


# A partition's log start, end and retention, and what that makes of a folder that ends at 7.
PAST = [
    (7, 9, "1000", "removable"), (6, 9, "1000", "scheduled"), (0, 3, "1000", "never"),
    (7, 9, "-1", "never"),
]  # fmt: skip


def test_what_a_living_partition_is_past_reaches_the_verdict_of_its_folder(lab: Lab) -> None:
    """By the id of its topic: of a very long name Kafka cuts the folder's."""
    lab.settings = replace(lab.settings, orphan_most_share=1.0, orphan_delay=timedelta(seconds=1))
    planted = disks()
    names = [f"{n}".ljust(220, "l") for n in range(len(PAST))]
    for long in names:
        planted.folder(f"{long[:200]}-0.9a-stray", long[:200], "stray", f"id-{long}")
        planted.segments[-1]["log_end_offset"] = 7
    for _ in range(2):
        made = cluster()
        for long, (start, end, retention, _) in zip(names, PAST, strict=True):
            made.topic(long, start=start, end=end, brokers=(2,), retention__ms=retention)
            made.tables["partitions"][-1] |= {"replicas": [2], "isr": [2], "leader_id": 2}
        made.tables["log_dirs"] = [
            {"broker_id": broker, "log_dir": "/d1", "total_bytes": 10**9, "usable_bytes": 10**8}
            for broker in BROKERS
        ]
        made.tables["configs"].append(
            {"scope": "broker", "name": "1", "key": "log.retention.ms", "value": "1000"}
        )
        write(lab, made, planted)
        lab.analyze()
    rows = {row["topic"]: row for row in lab.rows("orphans")}
    for long, (*_, verdict) in zip(names, PAST, strict=True):
        row = rows.pop(long)
        assert (row["kind"], row["log_end_offset"]) == ("moved-away", 7)
        assert row["verdict"] == verdict, row["reason"]
    assert not rows


def test_the_same_old_scan_is_no_second_look(lab: Lab) -> None:
    planted = disks().live("dead")
    write(lab, cluster(), planted, age=10)
    write(lab, cluster(), planted, age=70)
    find(lab)
    assert lab.rows("orphans") == []
    assert [row["snapshots_seen"] for row in lab.rows("sightings")] == [1]
    lab.write(cluster())  # nobody looks
    find(lab)
    assert [row["snapshots_seen"] for row in lab.rows("sightings")] == [1]
    write(lab, cluster(), planted, age=10)
    find(lab)
    assert kinds(lab) == {"dead-0": "deleted-topic"}
    (row,) = lab.rows("orphans")
    assert (row["verdict"], row["reason"][:4]) == ("never", "50 %")
    lab.settings = replace(lab.settings, orphan_most_share=1.0)
    lab.write(cluster())
    find(lab)
    (row,) = lab.rows("orphans")
    assert row["verdict"] == "scheduled"
    assert "take a new one" in row["reason"]


def test_describe_log_dirs_alone_shows_orphans_without_an_inventory(lab: Lab) -> None:
    for _ in range(2):
        snapshot = cluster()
        snapshot.tables["topics"].append({"topic_no": 2, "topic": "old"})  # not in the metadata
        snapshot.tables["replicas"].append(
            {"broker_id": 1, "log_dir": "/d1", "topic_no": 2, "partition": 4, "size_bytes": 300,
             "is_future": False, "error": "NOT_IN_METADATA"})  # fmt: skip
        lab.write(snapshot)
        lab.analyze()
    (row,) = lab.rows("orphans")
    assert (row["directory"], row["kind"], row["size_bytes"]) == ("old-4", "deleted-topic", 300)
    assert (row["verdict"], row["topic_id"], row["allocated_bytes"]) == ("never", None, None)
    assert "DescribeLogDirs" in row["evidence"]
    first, second = lab.rows("disks")
    assert (first["orphan_bytes"], first["stray_bytes"], first["inventory_at"]) == (300, None, None)
    assert first["live_bytes"] == 20_000
    assert first["unexplained_bytes"] == 500_000_000 - 20_300
    assert second["orphan_bytes"] is None


def test_an_inventory_explains_the_disk(lab: Lab) -> None:
    planted = (
        disks()
        .folder("gone-0.9a-stray", "gone", "stray", "id-gone")
        .folder("t-3.9a-delete", "t", "delete", "id-t", partition=3)
        .live("dead")
    )
    for _ in range(2):
        write(lab, cluster(), planted)
        lab.analyze()
    first, second = lab.rows("disks")
    assert (first["stray_bytes"], first["delete_bytes"], first["orphan_bytes"]) == (4096,) * 3
    assert first["index_bytes"] == 4096 - 1000
    assert first["unexplained_bytes"] == 500_000_000 - 20_000 - 3 * 4096 - 3096
    assert (first["inferred"], first["inventory_at"].second) == (["unexplained"], 50)
    assert (second["stray_bytes"], second["orphan_bytes"]) == (0, 0)
