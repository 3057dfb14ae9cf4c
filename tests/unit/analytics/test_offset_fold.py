"""Offsets folded by arrays are those that a plain loop over every row remembers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics.readers import holds
from analytics.tables import stamped
from dashboard.history.pruning import prune
from dashboard.history.seen_topics import UNKNOWN_ID, seen_topics
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support.lab import START, Snapshot
from tests.support.sample_partitions import table_of

SNAPSHOTS = 9
FORGETS = 0  # a seed by which a group is forgotten
_FOUND = ("committed_offset", "leader_epoch", "last_seen_at", "last_commit_at", "topic_id")
Held = dict[tuple[str, int, str], dict[str, Any]]


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def made(step: int, dice: random.Random) -> Snapshot:
    """Topics hidden, deleted or recreated; groups that come, go, stand still or go back."""
    found = Snapshot()
    for number in dice.sample(range(8), 6):
        anew = number % 3 == 0 and step > SNAPSHOTS // 2
        chosen = dice.sample(["a", "b", "é" * 120, "d"], dice.randint(0, 4))
        found.topic(
            f"t{number}",
            topic_id=f"{number}{'new' if anew else ''}",
            groups={group: dice.choice([-1, 5, 5, 7, 1 << 60]) for group in chosen},
        )
    for row in found.tables["group_offsets"]:
        row["leader_epoch"] = dice.choice([None, 0, step])
    for row in found.tables["topics"]:
        if step % 4 == 1 or dice.random() < 0.1:
            row["topic_id"] = None  # no broker tells any, or this one is deleted
    return found


def write(cluster: ClusterStore, step: int, snapshot: Snapshot) -> str:
    writer = cluster.begin("snapshots", START + timedelta(minutes=step))
    for name, rows in snapshot.tables.items():
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, writer.taken_at))
    writer.commit(1.0, {})
    return writer.id


def looped(cluster: ClusterStore, ids: Sequence[str], held: Held) -> Held:
    """Every row of every snapshot, one after the other."""
    for snapshot_id in ids:
        topics = seen_topics(cluster, snapshot_id, ["topic_no", "topic", "topic_id"]).to_pylist()
        names = {row["topic_no"]: row for row in topics}
        for row in cluster.read("snapshots", snapshot_id, "group_offsets").to_pylist():
            if row["committed_offset"] < 0:
                continue
            topic = names[row["topic_no"]]
            key = topic["topic"], row["partition"], row["group_id"]
            old = held.get(key)
            moved = old is not None and old["committed_offset"] != row["committed_offset"]
            moved = moved or (old is not None and _recreated(old["topic_id"], topic["topic_id"]))
            told = old is None or topic["topic_id"] not in (None, UNKNOWN_ID)
            held[key] = {
                "committed_offset": row["committed_offset"],
                "leader_epoch": row["leader_epoch"],
                "last_seen_at": row["taken_at"],
                "last_commit_at": row["taken_at"] if moved else old and old["last_commit_at"],
                "topic_id": topic["topic_id"] if told or old is None else old["topic_id"],
            }
    return held


def _recreated(before: str | None, now: str | None) -> bool:
    """Two ids that brokers told of one name; some brokers tell none."""
    return not {before, now} & {None, UNKNOWN_ID} and before != now


def by_key(rows: pa.Table) -> Held:
    return {
        (row["topic"], row["partition"], row["group_id"]): {name: row[name] for name in _FOUND}
        for row in rows.to_pylist()
    }


def fold(cluster: ClusterStore, snapshot_id: str, base: Manifest | None) -> pa.Table:
    snapshot = cluster.manifest("snapshots", snapshot_id)
    present = cluster.read("snapshots", snapshot_id, "topics")
    return holds.fold(cluster, snapshot, present, base, kept_for=timedelta(days=90))


def kept(cluster: ClusterStore, snapshot_id: str) -> Manifest:
    """The fold up to a snapshot as an analysis."""
    found = fold(cluster, snapshot_id, None)
    snapshot = cluster.manifest("snapshots", snapshot_id)
    tables = holds.split(found, cluster.read("snapshots", snapshot_id, "topics"))
    writer = cluster.begin("findings", snapshot.taken_at)
    for name, rows in zip(("holds", "former_readers"), tables, strict=True):
        writer.write(name, stamped(name, rows, snapshot))
    writer.commit(1.0, {"snapshot_id": snapshot_id})
    return cluster.manifest("findings", writer.id)


@pytest.mark.further_but("0", "2")
@pytest.mark.parametrize("seed", range(5))
def test_arrays_remember_what_a_loop_does(cluster: ClusterStore, seed: int) -> None:
    dice = random.Random(seed)
    ids = [write(cluster, step, made(step, dice)) for step in range(SNAPSHOTS)]
    found = fold(cluster, ids[-1], None)
    assert found.num_rows > 10
    assert found["last_commit_at"].null_count not in (0, found.num_rows)
    assert by_key(found) == looped(cluster, ids, {})
    base = kept(cluster, ids[3])
    assert fold(cluster, ids[-1], base).equals(found), "carried on as folded again"


def test_the_same_offset_on_a_topic_made_anew_was_committed_since(cluster: ClusterStore) -> None:
    """Who is offered a waiver of that group would else read that it stopped long ago."""
    steps = [
        write(cluster, step, Snapshot().topic("t", topic_id=topic_id, groups={"g": 5}))
        for step, topic_id in enumerate(("old", "old", "new", "new"))
    ]
    (row,) = fold(cluster, steps[-1], None).to_pylist()
    assert (row["topic_id"], row["last_commit_at"]) == ("new", START + timedelta(minutes=2))
    (row,) = fold(cluster, steps[-1], kept(cluster, steps[1])).to_pylist()
    assert row["last_commit_at"] == START + timedelta(minutes=2), "going on from an analysis"
    (row,) = fold(cluster, steps[1], None).to_pylist()
    assert row["last_commit_at"] is None


@pytest.mark.further_but("0", "2")
@pytest.mark.parametrize("seed", range(5))
def test_what_only_an_analysis_remembers_goes_with_a_topic_that_was_made_anew(
    cluster: ClusterStore, seed: int
) -> None:
    dice = random.Random(seed)
    ids = [write(cluster, step, made(step, dice)) for step in range(SNAPSHOTS)]
    base, held = kept(cluster, ids[2]), looped(cluster, ids[:3], {})
    prune(cluster, "snapshots", lambda _: set(ids[2:]), START + timedelta(hours=1))
    oldest = cluster.manifest("snapshots", ids[2]).taken_at
    topics = cluster.read("snapshots", ids[-1], "topics").to_pylist()
    now = {row["topic"]: row["topic_id"] for row in topics}
    counts = {
        key: row
        for key, row in held.items()
        if row["last_seen_at"] >= oldest
        or None in (now.get(key[0]), row["topic_id"])
        or row["topic_id"] == now[key[0]]
    }
    assert seed != FORGETS or len(counts) < len(held)
    assert by_key(fold(cluster, ids[-1], base)) == looped(cluster, ids[3:], counts)
