"""The longest lag of readers in time: bounds that hold, carried on as folded again."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analytics.readers import reader_lags
from analytics.tables import stamped
from dashboard.history.pruning import prune
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support.lab import START, Lab, Snapshot
from tests.support.sample_partitions import table_of

TOPICS = pa.array(["a", "b"])
HOUR = 3_600_000


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def write(cluster: ClusterStore, hour: float, snapshot: Snapshot) -> Manifest:
    writer = cluster.begin("snapshots", START + timedelta(hours=hour))
    for name in ("topics", "partitions", "group_offsets"):
        rows = snapshot.tables[name]
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, writer.taken_at))
    writer.commit(1.0, {})
    return cluster.manifest("snapshots", writer.id)


def kept(cluster: ClusterStore, snapshot: Manifest, found: pa.Table) -> Manifest:
    writer = cluster.begin("findings", snapshot.taken_at)
    writer.write("reader_lags", stamped("reader_lags", found, snapshot))
    writer.commit(1.0, {"snapshot_id": snapshot.id})
    return cluster.manifest("findings", writer.id)


def rows(found: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["topic"]: row for row in found.to_pylist()}


@pytest.mark.further
@pytest.mark.parametrize("seed", range(3))
def test_carried_on_or_folded_again_it_is_equal(cluster: ClusterStore, seed: int) -> None:
    dice, end, read, seen = random.Random(seed), 100, 50, []
    for step in range(30):
        end += dice.choice([0, 0, 10, 50])
        read = max(read, end - dice.choice([0, 20, 200]))
        anew = "later" if step > 25 and seed == 1 else "id"
        made = Snapshot().topic("a", end=end, groups={"g": read, "ahead": end}, topic_id=anew)
        made.topic("b", end=7, groups={} if step < 9 else {"g": 7}).topic("other")
        if dice.random() < 0.1:
            made.tables["group_offsets"].append(
                {"group_id": "now and then", "topic_no": 0, "partition": 0, "committed_offset": end}
            )
        for row in made.tables["partitions"]:
            if dice.random() < 0.1:
                row["high_watermark"] = None
        seen.append(write(cluster, step * 24, made))
    full = reader_lags.fold(cluster, seen[-1], None, (), TOPICS)
    assert set(rows(full)) == {"a", "b"}
    base = None
    for at in (5, 12, 13, 29, 29):
        found = reader_lags.fold(cluster, seen[at], base, (), TOPICS)
        base = kept(cluster, seen[at], found)
    assert found.equals(full)
    remembered = reader_lags.fold(cluster, seen[-1], None, [base], TOPICS)
    assert remembered.equals(full), "what is known twice counts once"


def test_the_longest_lag_lies_between_its_bounds(cluster: ClusterStore) -> None:
    """Ten records an hour; the reader comes every 10 hours and reads everything."""
    for hour in range(45):
        made = Snapshot().topic("a", end=10 * hour, groups={"g": 10 * (hour // 10 * 10)})
        newest = write(cluster, hour, made.topic("b", end=0))
    found = rows(reader_lags.fold(cluster, newest, None, (), TOPICS))
    # Just before it comes, what it read last is 10 hours old; the snapshot an hour before shows 9.
    assert 7 * HOUR <= found["a"]["lag_low_ms"] <= 9 * HOUR
    assert 10 * HOUR <= found["a"]["lag_high_ms"] <= 13 * HOUR
    assert (found["b"]["lag_low_ms"], found["b"]["lag_high_ms"]) == (0, 0), "nothing to read"


def longest(cluster: ClusterStore, snapshot: Manifest) -> int:
    row = rows(reader_lags.fold(cluster, snapshot, None, (), TOPICS))["a"]
    return max(int(row["before_high_ms"] or 0), int(row["lag_high_ms"]))


@pytest.mark.further
def test_lags_of_the_last_panes_count_and_older_ones_are_let_go(cluster: ClusterStore) -> None:
    before = None
    for day in range(48):
        late = 5 if day < 12 else 1
        made = Snapshot().topic("a", end=100 * day, groups={"g": 100 * max(day - late, 0)})
        newest = write(cluster, day * 24, made)
        if day == 14:
            before = rows(reader_lags.fold(cluster, newest, None, (), TOPICS))["a"]
    assert (
        before is not None and max(before["before_high_ms"], before["lag_high_ms"]) > 4 * 24 * HOUR
    )
    now = rows(reader_lags.fold(cluster, newest, None, (), TOPICS))["a"]
    assert max(now["before_high_ms"], now["lag_high_ms"]) < 4 * 24 * HOUR
    assert now["since"] > before["since"], "nothing is said of what was let go"
    assert newest.taken_at - now["since"] <= timedelta(microseconds=2 * reader_lags.PANE)


def test_a_group_that_comes_begins_anew_and_one_that_goes_does_not(cluster: ClusterStore) -> None:
    kinds = ("g", "g h", "g h", "h", "g h", "")
    seen = [
        write(cluster, hour, Snapshot().topic("a", groups=dict.fromkeys(groups.split(), 100)))
        for hour, groups in enumerate(kinds)
    ]
    base, since = None, []
    for snapshot in seen:
        found = reader_lags.fold(cluster, snapshot, base, (), TOPICS)
        base = kept(cluster, snapshot, found)
        since.append((found["groups_since"][0].as_py() - START) // timedelta(hours=1))
    assert since == [0, 1, 1, 1, 4, 4]


def test_what_pruned_snapshots_showed_of_groups_stays_known(cluster: ClusterStore) -> None:
    """The group `h` was there between two snapshots that are kept, and came before that."""
    seen = [
        write(cluster, day * 24, Snapshot().topic("a", groups=dict.fromkeys(groups, 100)))
        for day, groups in enumerate(("g", "gh", "g", "g", "g"))
    ]
    analysis = kept(cluster, seen[3], reader_lags.fold(cluster, seen[3], None, (), TOPICS))
    prune(cluster, "snapshots", lambda _: {seen[2].id, seen[4].id}, START + timedelta(days=9))
    found = rows(reader_lags.fold(cluster, seen[4], None, [analysis], TOPICS))["a"]
    assert found["groups_since"] == seen[1].taken_at


@pytest.mark.further
def test_a_topic_is_unknown_for_a_week_after_a_group_came(lab: Lab) -> None:
    """It is read once a week, and came once; another one keeps up, for twenty days."""
    came = 20 * 24 - 26
    for hour in range(0, 20 * 24 + 1, 13):
        groups = {"online": 10 * hour} | ({"weekly": 10 * came} if hour >= came else {})
        lab.minutes = hour * 60
        lab.write(Snapshot().topic("a", end=10 * hour, groups=groups, retention__ms="1209600000"))
    lab.analyze()
    (row,) = lab.rows("retention_fit")
    assert row["verdict"] == "unknown" and "a group reads it since" in row["reason"]
    assert row["lag_since"] < row["groups_since"]


def test_what_nobody_can_date_is_unknown(cluster: ClusterStore) -> None:
    """At the first look nobody knows how old unread records are; a log without commits neither."""
    first = write(cluster, 0, Snapshot().topic("a", end=100, groups={"g": 50}).topic("b"))
    found = reader_lags.fold(cluster, first, None, (), TOPICS)
    assert found["since"].null_count == found["lag_high_ms"].null_count == 2
    later = write(cluster, 1, Snapshot().topic("a", end=120, groups={"g": 110}).topic("b"))
    base = kept(cluster, first, found)
    found = reader_lags.fold(cluster, later, base, (), TOPICS)
    assert rows(found)["a"]["since"] is None, "50 was its place until now"
    newest = write(cluster, 2, Snapshot().topic("a", end=120, groups={"g": 110}).topic("b"))
    found = reader_lags.fold(cluster, newest, kept(cluster, later, found), (), TOPICS)
    assert rows(found)["a"]["since"] == newest.taken_at
    assert rows(found)["a"]["lag_high_ms"] == 2 * HOUR and rows(found)["b"]["since"] is None
    assert reader_lags.fold(cluster, newest, None, (), pa.array([], pa.string())).num_rows == 0


@pytest.mark.further
def test_knots_tell_ages_to_within_a_factor_however_many_there_were() -> None:
    minute = 60_000_000
    found = reader_lags.from_lists(pa.chunked_array([[[]]], pa.list_(pa.timestamp("us"))),
                             pa.chunked_array([[[]]], pa.list_(pa.int64())))  # fmt: skip
    told = np.array([True])
    for step in range(20_000):
        found = reader_lags.added(found, told, np.array([step]), step * minute)
    at = 19_999 * minute
    for age in (2, 30, 600, 9000):
        offset = np.array([19_999 - age])
        low, high = found.youngest(offset, at)[0], found.oldest(offset, at)[0]
        assert low <= age * minute <= high
        assert high <= 2 * max(low, 2 * minute)
