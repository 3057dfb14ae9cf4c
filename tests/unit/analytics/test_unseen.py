"""Unseen readers as a finding: what all buckets tell together is what a plan reads of the day."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics import kernels
from analytics.bucket_view import Place
from analytics.metrics import unseen
from dashboard.collect.tables import table_of, to_arrow
from dashboard.core.clock import format_time
from dashboard.domain.metric_names import BYTES_IN, BYTES_OUT, COUNTERS, labels
from dashboard.history import readings
from dashboard.store.own_reads import Fetched, OwnRead
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from tests.spark.test_unseen import snapshot
from tests.support import in_process
from tests.support.in_buckets import copied
from tests.support.lab import Lab
from tests.unit.purge.facts_of import NOW

MIB = 1 << 20
TOPICS = [f"topic-{number}" for number in range(12)]
PARTITIONS = 6
HOURS = 26


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def write(store: ClusterStore, hour: int, *, silent: Sequence[int] = (), **details: Any) -> str:
    """A snapshot of an hour: every partition takes a MiB an hour. On even topics a group reads on;
    somebody else reads each third one twice; broker 3 was started anew at hour 20.
    """
    at = NOW + timedelta(hours=hour - HOURS)
    places = [(no, p, 1 + (no + p) % 3) for no in range(len(TOPICS)) for p in range(PARTITIONS)]
    end, start = 1024 * hour + 5000, 1024 * max(0, hour - 5)
    copies = [(b, *place) for place in places for b in (place[2], 1 + place[2] % 3)]
    metrics = []
    for broker in {1, 2, 3} - {*silent}:
        since = hour - 20 if broker == 3 and hour >= 20 else hour
        sent = {n: MIB * since * 2 * ((n % 2 == 0) + 2 * (n % 3 == 0)) for n in range(len(TOPICS))}
        metrics += [(broker, BYTES_OUT, labels(topic=TOPICS[n]), v) for n, v in sent.items() if v]
        made = dict.fromkeys(TOPICS, 2.0 * MIB * since)
        metrics += [(broker, BYTES_IN, labels(topic=t), v) for t, v in made.items()]
        metrics += [(broker, BYTES_OUT, labels(), sum(sent.values()))]
        metrics += [(broker, COUNTERS["fetch_requests"], labels(), 7200.0 * since)]
    tables: dict[str, dict[str, list[Any]]] = {
        "topics": {"topic_no": list(range(len(TOPICS))), "topic": TOPICS},
        "partitions": {"topic_no": [n for n, *_ in places], "partition": [p for _, p, _ in places],
                       "leader_id": [leader for *_, leader in places]},
        "replicas": {
            "broker_id": [b for b, *_ in copies], "topic_no": [n for _, n, *_ in copies],
            "partition": [p for _, _, p, _ in copies],
            "is_leader": [b == leader for b, *_, leader in copies],
            "size_bytes": [(end - start) * 1024] * len(copies),
            "log_start_offset": [start] * len(copies), "log_end_offset": [end] * len(copies),
        },
        "group_offsets": {
            "group_id": ["g"] * len(places), "topic_no": [n for n, *_ in places],
            "partition": [p for _, p, _ in places],
            "committed_offset": [end if n % 2 == 0 else None for n, *_ in places],
        },
        "groups": {"group_id": ["g"], "type": ["classic"], "state": ["Stable"], "members": [1]},
    }  # fmt: skip
    if metrics:
        columns = zip(*metrics, strict=True)
        names = ("broker_id", "name", "labels", "value")
        tables["broker_metrics"] = dict(zip(names, map(list, columns), strict=True))
    writer = store.begin("snapshots", at)
    for table, columns in tables.items():
        writer.write(table, to_arrow(table, table_of(table, **columns), writer.id, at))
    writer.commit(0.1, details)
    return writer.id


def found(
    store: ClusterStore, before: pa.Table | None = None
) -> tuple[dict[str, dict[str, Any]], Manifest]:
    """The rows by topic as the tasks of the newest snapshot's analysis find them."""
    snapshot = store.manifest("snapshots", store.ids("snapshots")[-1])
    written = Manifest("made", snapshot.taken_at, {}, 0.0, buckets=snapshot.buckets)
    place = Place(store.store.path, store.cluster_id, tuple(store.ids("snapshots")),
                  frozenset(), written)  # fmt: skip
    ids = readings.last_day(store, snapshot)
    sent = in_process.run(None, partial(kernels.scraped, ids=ids), place, snapshot).sums["sent"]
    known = unseen.remembered(before, NOW - timedelta(days=90)) if before is not None else {}
    day = unseen.day(store, ids, sent, known, snapshot.taken_at)
    topics = store.read("snapshots", snapshot.id, "topics", ["topic_no", "topic"])
    kernel = partial(kernels.sampled, ids=ids, topics=topics, snapshot=snapshot)
    done = in_process.run(None, kernel, place, snapshot, then=partial(unseen.measured, day=day))
    assert not done.sums["torn"].num_rows
    return {row["topic"]: row for row in done.sums["unseen"].to_pylist()}, snapshot


@pytest.mark.further
@pytest.mark.parametrize("buckets", [[4], [1, 8, 2]])
def test_tasks_find_in_any_number_of_buckets_what_a_plan_reads(
    store: ClusterStore, buckets: Sequence[int]
) -> None:
    for hour in range(HOURS):
        write(store, hour, silent=[2] if hour in (9, 25) else [])
    other = copied(store, "other", buckets)
    ids = store.ids("snapshots")
    archived = OwnRead(ids[12], ids[13], (Fetched("topic-3", 1, 2 * MIB),))
    for of in (store, other):
        of.write_record("reads/some.json", archived)
    rows, newest = found(other)
    planned = readings.topic_readings(store, TOPICS, newest.taken_at)
    assert rows.keys() == planned.keys()
    for topic, told in planned.items():
        row = rows[topic]
        until = row["until"] and format_time(row["until"])
        assert (row["bytes_out"], row["explained_bytes"], row["window_ms"], row["partitions"],
                row["why"], until, row["suspected"], row["measured"]) == (
            told.bytes_out, told.explained_bytes, told.window_ms, told.partitions,
            told.why, told.until, told.suspected, told.measured), topic  # fmt: skip
    suspected = {topic for topic, row in rows.items() if row["suspected"]}
    assert suspected == {t for n, t in enumerate(TOPICS) if n % 3 == 0}
    assert rows["topic-3"]["bytes_out"] == rows["topic-9"]["bytes_out"] - 2 * MIB


def test_a_suspicion_stands_while_nothing_is_measured_and_ends_by_a_day_without_it(
    store: ClusterStore,
) -> None:
    write(store, 0)
    write(store, 1)
    rows, newest = found(store)
    assert rows["topic-3"]["suspected"] and not rows["topic-2"]["suspected"]
    before = pa.Table.from_pylist([*rows.values()], schema=unseen._FOUND)
    assert not unseen.is_due(before, newest.taken_at + timedelta(minutes=3))
    assert unseen.is_due(before, newest.taken_at + timedelta(minutes=4))

    late = newest.taken_at + timedelta(hours=30)
    known = unseen.remembered(before, newest.taken_at)
    assert not unseen.remembered(before, newest.taken_at + timedelta(seconds=1))
    kept = {row["topic"]: row for row in unseen.kept(known, TOPICS[1:], late).to_pylist()}
    assert "topic-0" not in kept
    assert kept["topic-3"]["suspected"] and kept["topic-3"]["until"] == newest.taken_at
    assert not kept["topic-2"]["suspected"] and kept["topic-2"]["measured"] == "not measured"


def test_a_snapshot_that_a_task_cannot_read_is_told(store: ClusterStore) -> None:
    ids = [write(store, hour) for hour in range(3)]
    file = random.Random(1).choice(
        sorted(Path(store.path, "snapshots", ids[1]).glob("group_offsets*"))
    )
    file.write_bytes(b"torn")
    told = unseen.rows(store, ids, TOPICS)
    assert told["torn"]["snapshot_id"].to_pylist() == [ids[1]]
    assert told["leaders"]["snapshot_id"].unique().to_pylist() == [ids[0], ids[2]]
    sums = unseen.broker_sums(store, [*ids, "20260101T000000000Z-gone"])
    assert sums["torn"]["snapshot_id"].to_pylist() == ["20260101T000000000Z-gone"]


@pytest.mark.further
def test_a_torn_snapshot_of_the_day_is_left_out_and_the_analysis_goes_on(lab: Lab) -> None:
    ids = [lab.write(snapshot(step)) for step in range(4)]
    lab.analyze()
    ids.append(lab.write(snapshot(4)))
    Path(lab.cluster.path, "snapshots", ids[1], "group_offsets.parquet").write_bytes(b"torn")
    assert lab.analyze().left_out == ()
    rows = {row["topic"]: row for row in lab.rows("unseen_readers")}
    assert rows["tapped"]["suspected"] and not rows["calm"]["suspected"]
    assert rows["tapped"]["bytes_out"] == 20 * MIB
    assert rows["tapped"]["explained_bytes"] == 400 * 1000


def test_where_metrics_stay_away_nothing_is_measured_again_and_a_suspicion_stands(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(2):
        lab.write(snapshot(step))
    lab.analyze()
    (first,) = {row["measured_at"] for row in lab.rows("unseen_readers")}
    lab.minutes += 30 * 60
    lab.write(snapshot(2, told=False))
    monkeypatch.setattr(kernels, "sampled", None)
    lab.analyze()
    rows = {row["topic"]: row for row in lab.rows("unseen_readers")}
    assert (rows["tapped"]["suspected"], rows["calm"]["suspected"]) == (True, False)
    assert {row["until"] for row in rows.values()} == {first}


@pytest.mark.further
def test_what_is_no_older_than_a_part_of_its_span_is_not_measured_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write(snapshot(0))
    lab.minutes += 60
    lab.write(snapshot(1))
    lab.analyze()
    (first,) = {row["measured_at"] for row in lab.rows("unseen_readers")}
    lab.write(snapshot(2))
    monkeypatch.setattr(kernels, "sampled", None)
    lab.analyze()
    assert {row["measured_at"] for row in lab.rows("unseen_readers")} == {first}
    assert {row["topic"] for row in lab.rows("unseen_readers")} == {"calm", "tapped"}
