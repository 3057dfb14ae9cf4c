"""When partitions were last written to: folded step by step as a plain loop over rows would."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics.readers import last_writes
from analytics.tables import stamped
from dashboard.history.pruning import prune
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support.lab import START, Snapshot
from tests.support.sample_partitions import table_of

STEPS = 9
NAMES = ("log_end_offset", "moved_at", "known_since", "seen_at")


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def write(cluster: ClusterStore, hour: float, snapshot: Snapshot, **details: Any) -> Manifest:
    writer = cluster.begin("snapshots", START + timedelta(hours=hour))
    for name in ("topics", "partitions"):
        rows = snapshot.tables[name]
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, writer.taken_at))
    writer.commit(1.0, details)
    return cluster.manifest("snapshots", writer.id)


def kept(cluster: ClusterStore, snapshot: Manifest, found: pa.Table) -> Manifest:
    """The fold as an analysis of its own."""
    writer = cluster.begin("findings", snapshot.taken_at)
    writer.write("last_writes", stamped("last_writes", found, snapshot))
    writer.commit(1.0, {"snapshot_id": snapshot.id})
    return cluster.manifest("findings", writer.id)


def made(step: int, dice: random.Random) -> Snapshot:
    """Topics that stand still, grow, are hidden, made anew, without a leader or a replica."""
    found = Snapshot()
    for number in dice.sample(range(8), 7):
        anew = number % 4 == 0 and step > STEPS // 2
        found.topic(f"t{number}", topic_id=f"{number}{anew}", end=100 + step // 3 * (number % 3))
    for row in found.tables["partitions"]:
        if dice.random() < 0.2:
            row["high_watermark"] = None
        if dice.random() < 0.1:
            row["isr"] = [1]
    return found


def looped(cluster: ClusterStore, snapshots: list[Manifest]) -> dict[str, dict[str, Any]]:
    """A row at a time."""
    known: dict[str, dict[str, Any]] = {}
    for snapshot in snapshots:
        topics = cluster.read("snapshots", snapshot.id, "topics").to_pylist()
        parts = cluster.read("snapshots", snapshot.id, "partitions").to_pylist()
        ends = [row["high_watermark"] if len(row["isr"]) == 2 else None for row in parts]
        step = {}
        for topic, end in zip(topics, ends, strict=True):
            was = known.get(topic["topic"])
            if was is None or was["topic_id"] != topic["topic_id"]:
                was = dict.fromkeys(NAMES)
            row = {**was, "topic_id": topic["topic_id"]}
            if end is not None:
                if was["log_end_offset"] not in (None, end):
                    row["moved_at"] = snapshot.taken_at
                row["known_since"] = was["known_since"] or snapshot.taken_at
                row |= {"log_end_offset": end, "seen_at": snapshot.taken_at}
            step[topic["topic"]] = row
        known = step
    return known


@pytest.mark.parametrize("seed", range(4))
def test_carried_on_or_folded_again_it_is_what_a_loop_finds(
    cluster: ClusterStore, seed: int
) -> None:
    dice = random.Random(seed)
    seen = [write(cluster, step, made(step, dice)) for step in range(STEPS)]
    full = last_writes.fold(cluster, seen[-1], None, ())
    rows = {row.pop("topic"): row for row in full.to_pylist()}
    assert {n: {k: v for k, v in r.items() if k != "partition"} for n, r in rows.items()} == (
        looped(cluster, seen)
    )
    assert full["moved_at"].null_count not in (0, full.num_rows)
    base = kept(cluster, seen[3], last_writes.fold(cluster, seen[3], None, ()))
    carried = last_writes.fold(cluster, seen[-1], base, ())
    assert carried.equals(full)
    again = kept(cluster, seen[-1], carried)
    assert last_writes.fold(cluster, seen[-1], again, ()).equals(full), "analyzed once more"


def test_what_pruned_snapshots_showed_stays_known_where_the_log_end_still_stands(
    cluster: ClusterStore,
) -> None:
    def two(end: int) -> Snapshot:
        return Snapshot().topic("quiet", end=70).topic("busy", end=end)

    seen = [write(cluster, day * 24, two(day)) for day in range(5)]
    base = kept(cluster, seen[2], last_writes.fold(cluster, seen[2], None, ()))
    prune(cluster, "snapshots", lambda _: {seen[3].id, seen[4].id}, START + timedelta(days=9))
    quiet, busy = reversed(last_writes.fold(cluster, seen[4], None, [base]).to_pylist())
    assert (quiet["known_since"], quiet["moved_at"]) == (seen[0].taken_at, None)
    assert (busy["known_since"], busy["moved_at"]) == (seen[3].taken_at, seen[4].taken_at)


def test_no_time_is_believed_of_a_wrong_clock_or_one_that_stepped_back(
    cluster: ClusterStore,
) -> None:
    write(cluster, 0, Snapshot().topic("t"), clock_ahead_seconds=-90_000.0)
    right = write(cluster, 48, Snapshot().topic("t"))
    (row,) = last_writes.fold(cluster, right, None, ()).to_pylist()
    assert row["known_since"] == right.taken_at
    back = write(cluster, 5, Snapshot().topic("t"))
    base = kept(cluster, right, last_writes.fold(cluster, right, None, ()))
    (row,) = last_writes.fold(cluster, back, base, ()).to_pylist()
    assert (row["known_since"], row["moved_at"]) == (back.taken_at, None)


def test_a_high_watermark_that_stands_while_a_replica_is_out_of_sync_tells_no_end(
    cluster: ClusterStore,
) -> None:
    """Producers with acks=1 write on, and it follows once the replica is back."""
    looks = [(100, (1, 2)), (100, (1,)), (100, (1,)), (140, (1, 2))]
    seen = [
        write(cluster, hour, Snapshot().topic("t", end=end, isr=isr))
        for hour, (end, isr) in enumerate(looks)
    ]
    behind = last_writes.fold(cluster, seen[2], None, ()).to_pylist()[0]
    assert (behind["seen_at"], behind["moved_at"]) == (seen[0].taken_at, None), "unread since then"
    back = last_writes.fold(cluster, seen[3], None, ()).to_pylist()[0]
    assert (back["seen_at"], back["moved_at"]) == (seen[3].taken_at, seen[3].taken_at)


def test_sums_of_parts_are_those_of_the_whole_and_unknown_is_counted(
    cluster: ClusterStore,
) -> None:
    snapshot = Snapshot().topic("a").topic("b").topic("c")
    snapshot.tables["partitions"][1]["high_watermark"] = None
    seen = write(cluster, 0, snapshot)
    writes = last_writes.fold(cluster, seen, None, ())
    held = pa.table(
        {"topic": ["a", "b", "c"], "log_start_offset": [10, 0, 0],
         "high_watermark": pa.array([100, None, 100]), "size_bytes": [5, 6, 7],
         "replicas": [2, 2, 1], "assigned": [2, 2, 2]}
    )  # fmt: skip
    at = int(seen.taken_at.timestamp() * 1e6)
    whole = last_writes.sums(writes, held, at)
    halves = [last_writes.sums(writes.slice(*s), held.slice(*s), at) for s in ((0, 1), (1, 2))]
    parts = last_writes.summed(pa.concat_tables(halves))
    assert parts.sort_by("topic").equals(whole.sort_by("topic"))
    a, b, c = whole.sort_by("topic").to_pylist()
    assert (a["records"], a["size_bytes"], a["unread"], a["unmeasured"]) == (90, 5, 0, 0)
    assert (a["replicas"], c["replicas"]) == (2, 1), "of so many is the size"
    assert (b["unread"], b["never_known"], b["unmeasured"]) == (1, 1, 1)
    assert (c["unread"], c["unmeasured"]) == (0, 1), "one of its replicas was not measured"
