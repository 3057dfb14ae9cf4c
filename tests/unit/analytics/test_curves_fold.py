"""Curves over a store: carried on or folded again they are equal, and the surest one is chosen."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analytics.readers import partitions
from analytics.replicas import curves, points
from analytics.tables import stamped
from dashboard.estimate.curve_tables import from_table, to_table
from dashboard.estimate.curves import UNKNOWN
from dashboard.history.epoch_ends import ASKED_OF
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES
from tests.support.lab import START, Snapshot
from tests.support.sample_partitions import table_of
from tests.unit.analytics.logs import Log

TOPICS = pa.table(
    {"topic": ["a", "b"], "segment_bytes": [1000, 500], "segment_ms": [3_600_000, None]}
)


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def write(cluster: ClusterStore, snapshot: Snapshot, *, asks: bool = True) -> Manifest:
    """One more snapshot; unless it `asks` where leader epochs end it is an earlier version's."""
    taken_at = START + timedelta(minutes=len(cluster.ids("snapshots")))
    asked_of = cluster.latest("snapshots")
    writer = cluster.begin("snapshots", taken_at)
    for name, rows in snapshot.tables.items():
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, taken_at))
    writer.commit(1.0, {ASKED_OF: asked_of} if asks else {})
    return cluster.manifest("snapshots", writer.id)


def fold(cluster: ClusterStore, snapshot: Manifest, base: Manifest | None) -> pa.Table:
    replicas = points.told(cluster, snapshot.id)
    found = curves.fold(cluster, snapshot, base, replicas, TOPICS)
    return stamped("curves", to_table(found), snapshot)


def analyzed(cluster: ClusterStore, snapshot: Manifest, base: Manifest | None) -> Manifest:
    writer = cluster.begin("findings", snapshot.taken_at)
    writer.write("curves", fold(cluster, snapshot, base))
    writer.commit(1.0, {"snapshot_id": snapshot.id})
    return cluster.manifest("findings", writer.id)


def inventoried(snapshot: Snapshot, log: Log, topic: str, broker: int) -> Snapshot:
    rows = [{**row, "topic": topic, "topic_id": f"id-{topic}", "broker_id": broker,
             "directory": f"{topic}-0"} for row in log.rows()]  # fmt: skip
    snapshot.tables.setdefault("segments", []).extend(rows)
    return snapshot


def test_carried_on_or_folded_again_the_curves_are_equal(cluster: ClusterStore) -> None:
    base, log = None, Log()
    for step in range(24):
        log.append([40 + step] * 10)
        snapshot = Snapshot().topic("a", start=step // 8 * 20, end=log.end, size=log.size)
        if step != 9:
            snapshot.topic("b", end=10 + step, size=500 * step, topic_id="new" if step > 5 else "")
        if step in (12, 13):
            inventoried(snapshot, log, "a", 2)
        written = write(cluster, snapshot)
        if step not in (3, 4):  # these are only seen by the next analysis
            base = analyzed(cluster, written, base)
    assert base is not None
    carried = cluster.read("findings", base.id, "curves")
    again = fold(cluster, written, None)
    assert carried.select(again.column_names).equals(again)
    key = [(name, "ascending") for name in FINDING_TABLES["curves"].key]
    assert again.sort_by(key).equals(again), "a findings table is sorted by its key"
    found = from_table(carried)
    assert found.places["topic"].to_pylist() == ["a", "a", "b", "b"]
    assert found.curves.segment_bytes.tolist() == [1000, 1000, 500, 500]
    assert set(carried["method"].to_pylist()) == {"history", "proportional"}
    # Some 500 bytes a minute come to topic a, and it rolls every hour; of b that is not known.
    assert found.curves.rolled.tolist()[0] == pytest.approx(60 * 550, rel=0.15)
    assert (
        carried["rolled_bytes"].null_count
        == (found.curves.rolled == UNKNOWN).repeat(found.curves.last - found.curves.first + 1).sum()
    )


def surely(table: pa.Table, topic: str) -> dict[int, int]:
    """Bytes above each knot of broker 1's replica."""
    return {
        row["offset"]: row["bytes_above"]
        for row in table.to_pylist()
        if (row["topic"], row["broker_id"]) == (topic, 1)
    }


@pytest.mark.further
def test_growth_counts_by_what_each_snapshot_itself_said_of_topic_and_replica(
    cluster: ClusterStore,
) -> None:
    """Carried on or folded again, whatever the settings are by now."""
    base = None
    for step in range(1, 9):
        grown = {"end": 10 * step, "size": 1000 * step}
        snapshot = Snapshot()
        for topic, policy in {
            "always": "delete",
            "not silent": "delete",
            "hidden": "delete",
            "switched": "compact,delete" if step < 5 else "delete",
        }.items():
            snapshot.topic(topic, policy=policy, **grown)
        if step == 3:
            snapshot.tables["configs"] = [
                row for row in snapshot.tables["configs"] if row["name"] != "hidden"
            ]
        if step == 4:
            replica = next(r for r in snapshot.tables["replicas"] if r["topic_no"] == 1)
            replica["log_end_offset"] = None
        written = write(cluster, snapshot)
        if step in (2, 4, 5, 8):
            base = analyzed(cluster, written, base)
    assert base is not None
    carried = cluster.read("findings", base.id, "curves")
    again = fold(cluster, written, None)
    assert carried.select(again.column_names).equals(again)
    # A knot counts what came after the next snapshot: the one at 10 what came from 20 on.
    assert surely(again, "always")[10] == 6000
    assert surely(again, "not silent")[10] == 3000, "1000 before it, 2000 from the second one on"
    assert surely(again, "hidden")[10] == 3000
    assert surely(again, "switched")[10] == 2000
    since = {row["topic"]: row["sure_since"] for row in again.to_pylist() if row["broker_id"] == 1}
    first = {"always": 1, "not silent": 5, "hidden": 4, "switched": 5}
    assert since == {t: START + timedelta(minutes=n - 1, seconds=1) for t, n in first.items()}


def led(snapshot: Snapshot, epoch: int, end: int | None = None, known: int = 0) -> Snapshot:
    """With that leader epoch; `end`: where the one before it ends, of which more was `known`."""
    for row in snapshot.tables["partitions"]:
        row["leader_epoch"] = epoch
    if known:
        row = {"topic_no": 0, "partition": 0, "leader_epoch": epoch - 1, "known_offset": known,
               "end_offset": end, "of_this_log": True}  # fmt: skip
        snapshot.tables.setdefault("epoch_ends", []).append(row)
    return snapshot


def carried_and_folded(cluster: ClusterStore, snapshots: list[tuple[Snapshot, bool]]) -> pa.Table:
    """The newest curves, which have to be equal however they were made."""
    base = None
    for snapshot, asks in snapshots:
        written = write(cluster, snapshot, asks=asks)
        base = analyzed(cluster, written, base)
    assert base is not None
    carried = cluster.read("findings", base.id, "curves")
    again = fold(cluster, written, None)
    assert carried.select(again.column_names).equals(again)
    return again


def steps(*, epochs: dict[int, int] | None = None, count: int = 6) -> list[tuple[Snapshot, bool]]:
    """Ten offsets of 100 bytes a snapshot; `epochs`: from a step on another leader epoch."""
    found = []
    for step in range(1, count + 1):
        epoch = max((e for at, e in (epochs or {}).items() if at <= step), default=0)
        found.append((led(Snapshot().topic("a", end=10 * step, size=1000 * step), epoch), True))
    return found


@pytest.mark.further_but("40-45-sure1", "39-40-sure2")
@pytest.mark.parametrize(
    ("end", "known", "sure"),
    [
        (0, 0, {10: 2000, 20: 1000}),  # nothing was lost of what was known
        (40, 45, {10: 2000, 20: 1000}),  # another replica had more
        (39, 40, {}),
        (None, 40, {}),  # its leader did not answer
    ],
)
def test_what_is_sure_goes_by_where_the_leader_epoch_of_its_log_end_ends(
    cluster: ClusterStore, end: int | None, known: int, sure: dict[int, int]
) -> None:
    """An election between the fourth snapshot and the fifth; all grow alike."""
    snapshots = steps(epochs={5: 1})
    led(snapshots[4][0], 1, end, known)
    found = carried_and_folded(cluster, snapshots[:5])
    assert {o: s for o, s in surely(found, "a").items() if s and o} == sure
    assert len(surely(found, "a")) == (2 if end == 39 else 6), "a log that was cut begins anew"
    assert found["leader_epoch"].unique().to_pylist() == [1]


def test_a_cut_that_a_thinned_out_snapshot_found_is_known_by_the_next_one(
    cluster: ClusterStore,
) -> None:
    snapshots = steps(epochs={5: 1})
    led(snapshots[5][0], 1, 39, 40)  # what the fifth found is asked again by the sixth
    base = None
    for snapshot, _ in snapshots:
        written = write(cluster, snapshot)
        if len(cluster.ids("snapshots")) == 4:
            base = analyzed(cluster, written, None)
    shutil.rmtree(Path(cluster.store.root) / "c1" / "snapshots" / cluster.ids("snapshots")[4])
    assert not any(surely(fold(cluster, written, base), "a").values())


@pytest.mark.further_but("3")
@pytest.mark.parametrize("earlier", [3, 4])
def test_by_a_snapshot_of_an_earlier_version_nothing_is_sure(
    cluster: ClusterStore, earlier: int
) -> None:
    """It asked for less than a log may have lost of its bytes, whether or not it changed epochs."""
    snapshots = steps(count=earlier)
    snapshots[-1] = (snapshots[-1][0], False)
    found = carried_and_folded(cluster, snapshots)
    assert not any(surely(found, "a").values())
    assert found["leader_epoch"].null_count == found.num_rows


def test_an_inventory_of_a_cluster_whose_sizes_nobody_told_draws_nothing(
    cluster: ClusterStore,
) -> None:
    log = Log()
    log.append([100] * 35)
    snapshot = inventoried(Snapshot().topic("a", end=0, size=0), log, "a", 1)
    assert fold(cluster, write(cluster, snapshot), None).num_rows == 0


def test_the_surest_estimator_of_each_replica_is_chosen_and_a_sum_is_called_by_the_least_sure(
    cluster: ClusterStore,
) -> None:
    log = Log()
    log.append([100] * 35)
    snapshot = (
        Snapshot()
        .topic("a", end=35, size=log.size)
        .topic("b", end=35, size=log.size)
        .topic("c", end=0, size=0)
    )
    inventoried(snapshot, log, "a", 1)
    for broker in (1, 2):
        inventoried(snapshot, log, "b", broker)
    written = write(cluster, snapshot)
    told = points.told(cluster, written.id)
    drawn = curves.fold(cluster, written, None, told, TOPICS)
    partitions = pa.table(
        {
            "topic_no": pa.array([2, 1, 0], pa.int32()),
            "partition": pa.array([0, 0, 0], pa.int32()),
            **{f"{name}_target": pa.array([0, 25, None if name == "end" else 25])
               for name in curves.TARGETS},
        }
    )  # fmt: skip
    found, of_replicas = curves.with_bytes(partitions, points.measured(told), drawn)
    empty, exact, mixed = found.to_pylist()
    assert (exact["committed_method"], mixed["committed_method"]) == ("segments", "proportional")
    assert exact["committed_at_once"] == exact["committed_at_once_high"] == 2 * 2000
    assert (exact["committed_likely"], exact["held_bytes"]) == (5000, 2000)
    assert mixed["committed_at_once_low"] < mixed["committed_at_once_high"]
    assert (mixed["end_likely"], mixed["end_at_once"]) == (None, None)
    assert (empty["committed_likely"], empty["held_bytes"]) == (0, 0)
    assert of_replicas["at"].to_pylist() == [2, 2, 1, 1, 0, 0]
    assert of_replicas["committed_at_once"].to_pylist()[2:4] == [2000, 2000]


@pytest.mark.parametrize("remote", [["a"], ["b"], ["a", "b"]])
def test_of_topics_with_remote_storage_no_bytes_are_told(
    cluster: ClusterStore, remote: list[str]
) -> None:
    """Their log starts far below what is on the disk: consumed records need not lie there."""
    written = write(cluster, Snapshot().topic("a", end=35, size=700).topic("b", end=35, size=9000))
    told = points.told(cluster, written.id)
    drawn = curves.fold(cluster, written, None, told, TOPICS)
    is_remote = pc.is_in(TOPICS["topic"], value_set=pa.array(remote))
    topics = TOPICS.append_column("remote_storage", is_remote)
    measured = partitions.measurable(points.measured(told), topics)
    rows = pa.table(
        {
            "topic_no": pa.array([0, 1], pa.int32()),
            "partition": pa.array([0, 0], pa.int32()),
            **{f"{name}_target": pa.array([25, 25]) for name in curves.TARGETS},
        }
    )
    found, _ = curves.with_bytes(rows, measured, drawn)
    every, _ = curves.with_bytes(rows, points.measured(told), drawn)
    for name in ("committed_at_once_high", "committed_likely", "held_bytes"):
        known = every[name].to_pylist()
        expected = [None if topic in remote else known[n] for n, topic in enumerate("ab")]
        assert found[name].to_pylist() == expected


def test_a_replica_of_no_partition_lends_its_bytes_to_no_other(cluster: ClusterStore) -> None:
    """A topic that was deleted, and that a broker's disk still shows."""
    written = write(cluster, Snapshot().topic("a", end=35, size=700).topic("b", end=35, size=9000))
    told = points.told(cluster, written.id)
    drawn = curves.fold(cluster, written, None, told, TOPICS)
    rows = pa.table(
        {
            "topic_no": pa.array([0], pa.int32()),
            "partition": pa.array([0], pa.int32()),
            **{f"{name}_target": pa.array([35]) for name in curves.TARGETS},
        }
    )
    found, of_replicas = curves.with_bytes(rows, points.measured(told), drawn)
    assert found["committed_likely"].to_pylist() == [2 * 700]
    assert of_replicas["held_bytes"].to_pylist() == [0, 0]
