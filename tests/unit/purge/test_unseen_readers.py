"""Bytes that left a topic against what its groups explain: who reads without committing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.collect.tables import table_of, to_arrow
from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import BYTES_IN, BYTES_OUT, COUNTERS, STARTED, labels
from dashboard.history.readings import topic_readings
from dashboard.purge.plan.guards import findings
from dashboard.purge.plan.plan import Plan, build
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.safety.explained import measures
from dashboard.safety.progress import Sample, Told
from dashboard.safety.unseen_readers import (
    TopicReading,
    Verdict,
    suspicion,
)
from dashboard.settings.settings import TopicDeclaration
from dashboard.store.buckets import LONG
from dashboard.store.own_reads import Fetched, OwnRead
from dashboard.store.snapshot_files import Kind
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.in_buckets import copied
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, declared, facts

MIB = 1 << 20
FETCHES = COUNTERS["fetch_requests"]
MINUTE = timedelta(minutes=1)


def sample(
    minute: int,
    bytes_out: Mapping[int, float | None],
    record_bytes: float | None = 1000.0,
    **commits: int,
) -> Sample:
    """Two brokers host the topic; None: no counter yet."""
    return Sample(
        NOW + minute * MINUTE,
        {b: {} if size is None else {TOPIC: size} for b, size in bytes_out.items()},
        pa.table(
            {
                "group_id": pa.array(commits, pa.string()),
                "topic": pa.array([KEY.topic] * len(commits), pa.string()),
                "partition": pa.array([KEY.partition] * len(commits), pa.int32()),
                "offset": pa.array(commits.values(), pa.int64()),
            }
        ),
        leader(record_bytes),
        {TOPIC: frozenset({1, 2})},
    )


def leader(record_bytes: float | None, held: int = 1000) -> pa.Table:
    """Its log from offset 100 on, of segments of a byte."""
    size = None if record_bytes is None else round(record_bytes * held)
    return pa.table(
        {
            "topic": [TOPIC], "partition": pa.array([0], pa.int32()), "broker_id": [1],
            "start": [100], "end": [100 + held], "size_bytes": pa.array([size], pa.int64()),
            "segment_bytes": [1],
        }
    )  # fmt: skip


def reading(samples: list[Sample], topic: str) -> TopicReading:
    verdict = Verdict(topic)
    for measure in measures(samples, [topic]):
        verdict.add(measure)
    return verdict.reading(samples[-1].taken_at)


def test_bytes_out_are_counter_differences_and_a_restart_begins_at_0() -> None:
    samples = [
        sample(0, {1: 500, 2: None}),
        sample(30, {1: 700, 2: 40}),
        sample(60, {1: 90, 2: 45}),  # broker 1 was restarted
    ]
    found = reading(samples, TOPIC)
    assert (found.bytes_out, found.window_ms) == (200 + 90 + 45, 3_600_000)
    assert (found.measured, found.why) == ("measured", None)
    assert found.an_hour(found.bytes_out) == found.bytes_out


def test_groups_explain_what_they_committed_their_way_forward() -> None:
    samples = [
        sample(0, {1: 0, 2: 0}, steady=200, reset=500),
        sample(1, {1: 0, 2: 0}, steady=260, reset=100, born=150),
        sample(2, {1: 0, 2: 0}, reset=130, born=150),
    ]
    # steady 60, reset 30 after it went back, born 50 from the log start.
    assert reading(samples, TOPIC).explained_bytes == (60 + 30 + 50) * 1000


def ours(at: Sample, *going_on: str, **sizes: int) -> Sample:
    """With what Lowwater fetched of the topic since the sample before, by broker (`b1`)."""
    fetched = {TOPIC: {int(name[1:]): size for name, size in sizes.items()}} if sizes else {}
    return replace(at, ours=fetched, going_on=frozenset(going_on))


def test_what_an_archive_read_is_taken_off() -> None:
    samples = [
        sample(0, {1: 0, 2: 0}),
        ours(sample(30, {1: 40 * MIB, 2: 9 * MIB}), TOPIC),  # it goes on
        ours(sample(60, {1: 90 * MIB, 2: 10 * MIB + 7}), b1=90 * MIB - 3, b2=10 * MIB),
        sample(90, {1: 90 * MIB + 4, 2: 10 * MIB + 7}),
    ]
    found = reading(samples, TOPIC)
    assert (found.bytes_out, found.suspected, found.window_ms) == (3 + 7 + 4, False, 5_400_000)
    assert reading(samples[:2], TOPIC).measured == "not measured"
    assert reading([*samples[:3], sample(90, {1: 99 * MIB, 2: 10 * MIB})], TOPIC).suspected


def test_no_more_is_taken_off_than_surely_was_our_own() -> None:
    restarted = [
        sample(0, {1: 50 * MIB, 2: 0}),
        ours(sample(30, {1: 9 * MIB, 2: 8 * MIB}), b1=40 * MIB, b2=40 * MIB),
        sample(60, {1: 9 * MIB + 5, 2: 9 * MIB}),
    ]
    # Of broker 1 nobody knows what was lost with its counter; of 2 less left than was noted.
    assert reading(restarted, TOPIC).bytes_out == 9 * MIB + 5 + MIB
    before = [ours(sample(0, {1: 9 * MIB, 2: 0}), b1=9 * MIB), sample(30, {1: 18 * MIB, 2: 0})]
    assert reading(before, TOPIC).bytes_out == 9 * MIB, "what was read before the span is not of it"
    gap = [
        sample(0, {1: 0, 2: 0}),
        ours(sample(30, {1: math.nan, 2: 0}), b1=20 * MIB),
        sample(60, {1: 21 * MIB, 2: 0}),
    ]
    assert reading(gap, TOPIC).bytes_out == MIB, "a number that is none hides no bytes of ours"
    uncounted = [sample(0, {1: 0}), ours(sample(30, {1: 9 * MIB}), b2=9 * MIB)]
    assert reading(uncounted, TOPIC).suspected, "of a broker that nobody counts nothing is known"


def test_nothing_is_taken_off_where_a_counter_began_anew_and_passed_what_it_was() -> None:
    """An archive read 850 MiB, the broker was started again, and somebody else read 900 MiB."""

    def of_process(at: Sample, started: float) -> Sample:
        return replace(at, told={1: Told({}, {}, lambda: 1, started)})

    by_start = [
        of_process(sample(0, {1: 100 * MIB, 2: 0}), 1.0),
        of_process(ours(sample(30, {1: 900 * MIB, 2: 0}), b1=850 * MIB), 2.0),
    ]
    by_sample = [
        sample(0, {1: 100 * MIB, 2: 0}),
        ours(sample(30, {1: 3 * MIB, 2: 0}), TOPIC),  # it goes on, and measures nothing
        ours(sample(60, {1: 900 * MIB, 2: 0}), b1=850 * MIB),
    ]
    for samples in (by_start, by_sample):
        found = reading(samples, TOPIC)
        assert (found.bytes_out, found.suspected) == (800 * MIB, True)


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([sample(0, {1: 5, 2: 5})], "no broker of it has two samples"),
        ([sample(0, {3: 5}), sample(1, {3: 9})], "no broker of it has two samples"),
    ],
)
def test_without_two_samples_nothing_is_measured(samples: list[Sample], why: str) -> None:
    found = reading(samples, TOPIC)
    assert (found.bytes_out, found.measured, found.suspected) == (None, "not measured", False)
    assert why in str(found.why)


def test_a_broker_without_samples_is_named_and_the_rest_is_a_lower_bound() -> None:
    found = reading([sample(0, {1: 0}), sample(1, {1: 9 * MIB, 2: 5})], TOPIC)
    assert (found.measured, found.suspected) == ("partly measured", True)
    assert "broker 2" in str(found.why)


def test_progress_in_records_of_unknown_size_explains_nothing_and_is_not_measured() -> None:
    bare = [
        sample(0, {1: 0, 2: 0}, None, g=100),
        sample(1, {1: 9 * MIB, 2: 0}, None, g=200),
    ]
    found = reading(bare, TOPIC)
    assert (found.measured, found.why) == ("not measured", "the size of its records is unknown")
    still = [sample(0, {1: 0, 2: 0}, None, g=100), sample(1, {1: 9 * MIB, 2: 0}, None, g=100)]
    assert reading(still, TOPIC).suspected


def test_one_look_a_day_is_no_reader_where_snapshots_are_days_apart() -> None:
    week = 7 * 24 * 3_600_000
    assert not TopicReading(TOPIC, 7 * MIB, 0, week, 1, None).suspected
    assert TopicReading(TOPIC, 7 * MIB + 1, 0, week, 1, None).suspected


@pytest.mark.parametrize(
    ("bytes_out", "explained", "partitions", "suspected"),
    [
        (MIB, 0, 1, False),  # one look
        (MIB + 1, 0, 1, True),
        (MIB + 1, 0, 2, False),
        (21 * MIB, 10 * MIB, 1, False),  # everything twice: a crash before the commit
        (21 * MIB + 1, 10 * MIB, 1, True),
    ],
)
def test_a_reader_is_suspected_above_the_factor_and_the_floor(
    bytes_out: int, explained: int, partitions: int, suspected: bool
) -> None:
    found = TopicReading(TOPIC, bytes_out, explained, 1000, partitions, None)
    assert found.suspected is suspected


def plan(found: TopicReading, declarations: Mapping[str, TopicDeclaration]) -> Plan:
    seen = facts(claims={0: {"a": 80}}, readings={TOPIC: found})
    return build(
        seen, {KEY: ResolvedTarget(50)}, target="committed", declarations=declarations,
        estimates={}, analysis_id=None, most_partitions=9, created_by="ann", now=NOW,
        expires_after=MINUTE,
    )  # fmt: skip


SUSPECT = TopicReading(TOPIC, 8 * MIB, MIB, 1_800_000, 1, None)


def test_a_declaration_does_not_silence_the_suspicion() -> None:
    made = plan(SUSPECT, {TOPIC: declared()})
    (guard,) = made.partitions[0].guards
    assert guard.name == "unseen-reader-suspected"
    assert "16.0 MiB an hour" in guard.reason and "explain 2.0 MiB" in guard.reason
    assert Plan.from_json_text(made.to_json_text(), "plan.json") == made
    (row,) = (reading.to_json() for reading in preview(made, NOW).plan.unseen_readers)
    assert (row["topic"], row["measured"], row["suspected"]) == (TOPIC, "measured", True)
    assert row["bytes_out_an_hour"] == 16 * MIB


def test_where_nothing_is_deleted_no_reader_is_suspected() -> None:
    found = findings(
        facts(claims={0: {"a": 80}}, readings={TOPIC: SUSPECT}), {KEY: ResolvedTarget(0)},
        waived=(), declarations={TOPIC: declared()}, most_partitions=9, planned_partitions=1,
    )  # fmt: skip
    assert found == {KEY: []}


def test_what_nobody_measured_is_told_and_guards_nothing() -> None:
    unmeasured = TopicReading(TOPIC)
    made = plan(unmeasured, {TOPIC: declared()})
    assert made.partitions[0].free
    (row,) = (reading.to_json() for reading in preview(made, NOW).plan.unseen_readers)
    assert (row["measured"], row["bytes_out_an_hour"]) == ("not measured", None)
    assert row["why"] == "no broker metrics are kept"


def write(
    store: ClusterStore,
    at: datetime,
    counters: Mapping[int, float],
    committed: int,
    name: str = BYTES_OUT,
    *,
    hosts: tuple[int, int] = (1, 2),
    sums: Mapping[int, float] | None = None,
    made: Mapping[int, float] | None = None,
    other: float | None = None,
    log: tuple[int, int, int] = (0, 100, 100_000),
    segment_bytes: int | None = None,
    requests: float | None = None,
    started: float | None = None,
    **details: Any,
) -> None:
    """A snapshot of one topic of 100 records on two brokers, as `collect` writes it.

    `committed` below 0: the group's offset could not be read; `sums`: what brokers count over all
    topics, where they tell it; `made`: what was produced to the topic; `other`: what broker 1
    counts of another topic; `log`: where it starts and ends, and the bytes of its segments;
    `requests`: what each broker that tells anything counts of fetches, its followers' too;
    `started`: when each of their processes did.
    """
    tables: dict[str, dict[str, list[Any]]] = {
        "topics": {"topic_no": [0, 1], "topic": ["other", TOPIC]},
        "replicas": {
            "broker_id": list(hosts), "topic_no": [1, 1], "partition": [0, 0],
            "is_leader": [True, False], "size_bytes": [log[2], log[2]],
            "log_start_offset": [log[0]] * 2, "log_end_offset": [log[1]] * 2,
        },
        "group_offsets": {
            "group_id": ["g", "g"], "topic_no": [0, 1], "partition": [0, 0],
            "committed_offset": [7, committed if committed >= 0 else None],
        },
        "groups": {"group_id": ["g"], "type": ["classic"], "state": ["Stable"], "members": [1]},
    }  # fmt: skip
    if segment_bytes is not None:
        tables["configs"] = {
            "scope": ["topic"], "name": [TOPIC], "key": ["segment.bytes"],
            "value": [str(segment_bytes)],
        }  # fmt: skip
    rows = [(b, name, labels(topic=TOPIC), value) for b, value in counters.items()]
    rows += [(b, name, labels(), value) for b, value in (sums or {}).items()]
    rows += [(1, name, labels(topic="other"), other)] if other is not None else []
    rows += [(b, FETCHES, labels(), requests) for b in counters if requests is not None]
    rows += [(b, STARTED, labels(), started) for b in counters if started is not None]
    rows += [(b, BYTES_IN, labels(topic=TOPIC), value) for b, value in (made or {}).items()]
    if rows:
        columns = ("broker_id", "name", "labels", "value")
        values = (list(column) for column in zip(*rows, strict=True))
        tables["broker_metrics"] = dict(zip(columns, values, strict=True))
    writer = store.begin("snapshots", at)
    for table, columns in tables.items():
        writer.write(table, to_arrow(table, table_of(table, **columns), writer.id, at))
    writer.commit(0.1, details)


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def history(store: ClusterStore, *rows: tuple[float, Mapping[int, float]]) -> None:
    """Snapshots so many hours before NOW: MiB out by broker; a group stands still meanwhile."""
    for hours, sent in rows:
        counters = {broker: size * MIB for broker, size in sent.items()}
        at = NOW - timedelta(hours=hours)
        write(store, at, counters, 10, requests=7200 * (10_000 - hours))


SUSPECTED = ((40.0, {1: 0.0, 2: 0.0}), (39.0, {1: 50.0, 2: 0.0}))


@pytest.mark.further
def test_a_snapshot_by_a_clock_that_ran_ahead_makes_no_day_of_some_hours(
    store: ClusterStore,
) -> None:
    """Somebody fetches 50 MiB every night; the newest snapshot is of 16 h to come, and says so."""
    for hours in range(48, 0, -1):
        sent = 50 * MIB * ((hours <= 34) + (hours <= 10))
        write(store, NOW - timedelta(hours=hours), {1: sent, 2: 0}, 10)
    ahead = timedelta(hours=16)
    write(store, NOW + ahead, {1: 100 * MIB, 2: 0}, 10, clock_ahead_seconds=ahead.total_seconds())
    assert topic_readings(store, [TOPIC], NOW)[TOPIC].suspected


def test_a_day_is_a_day_where_ids_follow_one_of_a_time_to_come(store: ClusterStore) -> None:
    """A collector once dated 400 days ahead. For a month the group explained all that went out."""
    days = timedelta(days=400)
    write(store, NOW - timedelta(days=31) + days, {}, 0, clock_ahead_seconds=days.total_seconds())
    for day in range(30, 0, -1):
        read = (30 - day) * 10**5
        write(store, NOW - timedelta(days=day), {1: read * 1000, 2: 0}, read, clock_ahead_seconds=0)
    read = 29 * 10**5
    write(store, NOW, {1: read * 1000 + 300 * MIB, 2: 0}, read, clock_ahead_seconds=0)
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.window_ms, found.suspected) == (48 * 3_600_000, True)


def guard_of(store: ClusterStore, now: datetime = NOW) -> str:
    """The guard that stands by kept snapshots, in words; "" for none."""
    found = suspicion(topic_readings(store, [TOPIC], now)[TOPIC])
    return "" if found is None else found.reason


@pytest.mark.parametrize(
    "since",
    [
        (),  # nothing is collected any more
        ((3.0, {}), (2.0, {}), (0.0, {})),  # the exporters are away
        ((3.0, {2: 0.0}), (0.0, {2: 0.0})),  # another broker alone tells
    ],
)
def test_a_suspicion_stands_until_a_measurement_clears_it(
    store: ClusterStore, since: tuple[tuple[float, Mapping[int, float]], ...]
) -> None:
    history(store, *SUSPECTED, *since)
    assert topic_readings(store, [TOPIC], NOW)[TOPIC].suspected
    for later in (timedelta(0), timedelta(days=80)):
        assert "cannot be told since 2026-02-27T21:00:00.000Z" in guard_of(store, NOW + later)


@pytest.mark.parametrize("buckets", [1, 4])
def test_no_long_table_is_read_as_a_whole(
    store: ClusterStore, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they lie in buckets, a file at a time; and the same is read."""
    history(store, (9, {1: 0.0, 2: 0.0}), (5, {1: 50.0, 2: 0.0}), (0, {1: 51.0, 2: 4.0}))
    other = copied(store, "other", [buckets])
    read = ClusterStore.read_files

    def one_by_one(*given: Any, **named: Any) -> pa.Table:
        _, kind, _, table, files, *_ = given
        assert table not in LONG[kind] or len(files) <= 1, f"all of {table} is read at once"
        return read(*given, **named)

    monkeypatch.setattr(ClusterStore, "read_files", one_by_one)
    found = topic_readings(other, [TOPIC], NOW)
    assert found == topic_readings(store, [TOPIC], NOW)
    assert (found[TOPIC].bytes_out, found[TOPIC].suspected) == (55 * MIB, True)


def test_a_later_whole_measurement_clears_a_suspicion(store: ClusterStore) -> None:
    history(store, *SUSPECTED)
    assert guard_of(store)
    history(store, (2.0, {1: 50.0, 2: 0.0}), (0.0, {1: 50.0, 2: 0.0}))
    assert guard_of(store) == ""


@pytest.mark.further_but("all")
@pytest.mark.parametrize("kept", [(), (1,)], ids=["all", "some"])
def test_series_by_topic_that_were_dropped_say_nothing_of_a_reader(
    store: ClusterStore, kept: tuple[int, ...]
) -> None:
    """The sum over all topics grows on by 50 MiB an hour, and no counter says of which topic."""
    for hour in range(0, 40, 3):
        sums = {1: hour * 50.0 * MIB, 2: 0.0}
        counters = sums if hour < 10 else {b: sums[b] for b in kept if hour < 20}
        write(store, NOW + timedelta(hours=hour - 39), counters, 10, sums=sums)
    assert "cannot be told since" in guard_of(store)
    assert topic_readings(store, [TOPIC], NOW)[TOPIC].suspected


def test_a_topic_without_a_counter_was_not_fetched_where_the_others_add_up(
    store: ClusterStore,
) -> None:
    """Kafka makes a counter with the first fetch; a restart sets the broker's own back, too."""
    for hour in range(1, 30, 2):
        size = (hour % 20) * 50.0 * MIB
        at = NOW + timedelta(hours=hour - 29)
        write(store, at, {}, 10, sums={1: size, 2: 1.0}, other=size)
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.bytes_out, guard_of(store)) == (0, "")
    assert found.why == "the counters of broker 1 began anew between samples", "of two hours each"


@pytest.mark.further
@pytest.mark.parametrize(
    ("left", "suspected"), [(4, True), (2.1, True), (1.5, True), (1, False), (0, False)]
)
def test_a_group_that_catches_up_on_a_backlog_is_no_cover_for_who_was_suspected(
    store: ClusterStore, left: float, suspected: bool
) -> None:
    """4 MiB an hour are written, and somebody reads them; on the third day a job reads them all,
    and then goes on beside who is `left`.
    """
    for hour in range(100):
        at, end = NOW + timedelta(hours=hour - 72), hour * 4194
        own = 4.0 * hour if hour > 48 else 0.0
        read = 4.0 * min(hour, 48) + left * max(hour - 48, 0) + own
        committed = end if hour > 48 else 0
        log = (0, end, end * 1000)
        write(store, at, {1: read * MIB, 2: 0.0}, committed, log=log)
        if hour == 72:
            assert "too little to tell" in guard_of(store, at), "it covers whatever is left"
    assert bool(guard_of(store, at)) == suspected


HOUR_BYTES = 40 * MIB  # what is written in an hour, in records of 1000 bytes


def an_hour(
    store: ClusterStore,
    hour: int,
    committed: int | None,
    *,
    others: float = 5.0,
    made: bool = True,
    **told: Any,
) -> None:
    """Snapshot of an `hour`: group g reads all that is written, and somebody `others` times that;
    a week is kept, as retention has it.
    """
    end = HOUR_BYTES // 1000 * (200 + hour)
    start = HOUR_BYTES // 1000 * (32 + hour)
    out = {1: HOUR_BYTES * hour * (1 + others), 2: 0.0}
    write(
        store, NOW + timedelta(hours=hour - 72), told.pop("counters", out),
        end if committed is None else committed, log=(start, end, (end - start) * 1000),
        made={1: float(HOUR_BYTES) * hour, 2: 0.0} if made else None, **told,
    )  # fmt: skip


BEYOND = HOUR_BYTES // 1000 * 40  # of offsets at the start of what is kept


@pytest.mark.further
@pytest.mark.parametrize("made", [True, False], ids=["bytes in told", "not told"])
def test_an_offset_that_is_seen_for_the_first_time_ends_no_suspicion(
    store: ClusterStore, made: bool
) -> None:
    """Where a group's offset could not be read once, the next one is the first of a day: nothing
    tells that it has read the log up to there. Nor where it begins at the end (`latest`).
    """
    for hour in range(81):
        lost = -1 if hour == 40 else None
        an_hour(store, hour, lost, made=made)
        if hour in (40, 44, 64, 68, 80):  # the lost one is the first of its day at hour 64
            assert guard_of(store, NOW + timedelta(hours=hour - 72)), hour


@pytest.mark.further
def test_nor_does_one_that_a_tool_sets_to_the_end(store: ClusterStore) -> None:
    for hour in range(81):
        an_hour(store, hour, BEYOND if hour < 60 else None)
        if hour in (56, 60, 64, 80):
            assert guard_of(store, NOW + timedelta(hours=hour - 72)), hour


@pytest.mark.further
def test_nor_one_that_a_tool_sets_there_after_a_day_in_which_another_read_on(
    store: ClusterStore,
) -> None:
    """The group is down since hour 40, and who reads unseen reads all once since: as much as the
    group seems to have read at hour 72.
    """
    for hour in range(81):
        read = 6.0 * min(hour, 40) + max(hour - 40, 0)
        down = HOUR_BYTES // 1000 * 240 if 40 < hour < 72 else None
        an_hour(store, hour, down, counters={1: HOUR_BYTES * read, 2: 0.0})
        if hour >= 40 and hour % 8 == 0:
            assert guard_of(store, NOW + timedelta(hours=hour - 72)), hour


@pytest.mark.further
def test_nor_do_bytes_that_brokers_compress(store: ClusterStore) -> None:
    """A tenth of what is produced is kept; the leader's size tells nothing after it moved, inside
    one segment that is purged.
    """
    for hour in range(61):
        end = 100_000 * (hour + 1)
        sent = {1: 250.0 * end, 2: 0.0}
        write(
            store, NOW + timedelta(hours=hour - 60), sent, end,
            hosts=(1, 2) if hour < 48 else (2, 1), log=(end - 10, end, 100 * end),
            made={1: 1000.0 * end, 2: 0.0}, segment_bytes=1 << 30,
        )  # fmt: skip
        if hour > 12 and hour % 8 == 0:
            assert guard_of(store, NOW + timedelta(hours=hour - 60)), hour


@pytest.mark.further
def test_a_group_that_reads_all_ends_it_as_soon_as_nobody_reads_beside_it(
    store: ClusterStore,
) -> None:
    """Also where retention shortens the log meanwhile, and where its old records were larger."""
    for hour in range(97):
        both = {1: HOUR_BYTES * (6.0 * min(hour, 48) + max(hour - 48, 0)), 2: 0.0}
        an_hour(store, hour, None, counters=both)
    assert guard_of(store, NOW + timedelta(hours=24)) == ""


@pytest.mark.further
def test_nor_do_records_that_are_smaller_by_now(store: ClusterStore) -> None:
    """A producer begins to compress: who reads all four times beside the group reads on, in a tenth
    of the bytes, of which the average of what is held explains too much.
    """
    written, end = 0, 0
    for hour in range(0, 61, 3):
        log = (0, end + 1, max(written, 1))
        sent = {1: 5.0 * written, 2: 0.0}
        write(store, NOW + timedelta(hours=hour - 60), sent, end, log=log)
        end += 30_000
        written += 30_000 * (10_000 if hour < 33 else 1000)
    assert topic_readings(store, [TOPIC], NOW - timedelta(hours=30))[TOPIC].suspected
    assert guard_of(store)


@pytest.mark.further
def test_a_series_that_an_exporter_drops_ends_no_suspicion(store: ClusterStore) -> None:
    """The topic is less than a tenth of what leaves its broker: the others nearly add up."""
    for hour in range(0, 60, 3):
        at, of_topic = NOW + timedelta(hours=hour - 60), 50.0 * MIB * hour
        rest = 700.0 * MIB * hour
        sums = {1: of_topic + rest, 2: 0.0}
        counters = {1: of_topic, 2: 0.0} if hour < 27 else {}
        write(store, at, counters, 10, sums=sums, other=rest)
    assert guard_of(store)


@pytest.mark.further
@pytest.mark.parametrize("segment_bytes", [None, 4 * MIB])
def test_dead_records_below_a_purges_log_start_explain_nothing(
    store: ClusterStore, segment_bytes: int | None
) -> None:
    """A policy purges to what its group has read, inside a segment that stays whole: what is held
    seems to weigh a hundred times as much. Somebody reads all three times beside the group.
    """
    for hour in range(0, 49, 2):
        end = 1000 * (hour + 1)
        records = end % 4100 if segment_bytes else end  # of its one segment
        write(
            store, NOW + timedelta(hours=hour - 48), {1: 4000.0 * end, 2: 0.0}, end - 10,
            log=(end - 10, end, 1000 * max(records, 10)), segment_bytes=segment_bytes,
        )  # fmt: skip
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.bytes_out, found.explained_bytes) == (104_000_000, 26_000_000)
    assert "somebody reads it without committing" in guard_of(store)


@pytest.mark.further
def test_a_log_of_many_segments_that_retention_shortens_weighs_what_it_holds(
    store: ClusterStore,
) -> None:
    """As much goes as comes, so that it never grows; its group reads all, and nobody else does."""
    for hour in range(0, 49, 2):
        end = 1000 * (hour + 100)
        write(
            store, NOW + timedelta(hours=hour - 48), {1: 1000.0 * end, 2: 0.0}, end,
            log=(end - 80_000, end, 80_000_000), segment_bytes=MIB,
        )  # fmt: skip
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert not found.suspected
    assert 0.7 < (found.explained_bytes or 0) / (found.bytes_out or 1) <= 1


@pytest.mark.further
@pytest.mark.parametrize("hours", [0, 1, 12, 24, 30])
def test_a_reader_that_reads_on_is_seen_though_the_replicas_moved(
    store: ClusterStore, hours: int
) -> None:
    """40 MiB an hour leave brokers 1 and 2, and 3 and 4 since a reassignment that ended at NOW."""
    for hour in range(-48, hours + 1):
        before, since = 40.0 * MIB * (min(hour, 0) + 48), 40.0 * MIB * max(hour, 0)
        counters = {1: before, 2: 0.0, 3: since, 4: 0.0}
        at = NOW + timedelta(hours=hour)
        write(store, at, counters, hour + 48, hosts=(1, 2) if hour < 0 else (3, 4))
    assert "somebody reads it without committing" in guard_of(store, at)


def test_what_left_while_metrics_were_away_counts_when_they_are_back(store: ClusterStore) -> None:
    history(store, *SUSPECTED, (2.0, {1: 90.0, 2: 0.0}), (0.0, {1: 90.0, 2: 0.0}))
    assert "somebody reads it without committing" in guard_of(store)


@pytest.mark.further
@pytest.mark.parametrize("left", [{}, {1: 0.0}], ids=["all", "one"])
def test_a_slow_reader_is_not_cleared_by_the_minutes_that_are_left_of_a_day(
    store: ClusterStore, left: Mapping[int, float]
) -> None:
    """0.3 MiB an hour is a reader within a day, and less than a look within the last hours."""
    for hour in range(-72, 0, 4):
        history(store, (-hour, {1: 0.0, 2: 0.3 * (hour + 72)}))
    assert guard_of(store)
    for hour in (1, 8, 16, 20, 22, 23, 25):  # the exporter of broker 2 is away, or all of them
        at = NOW + timedelta(hours=hour)
        write(store, at, left, 10)
        assert guard_of(store, at), hour


def test_a_suspicion_by_a_broker_that_is_silent_by_now_is_not_diluted_by_the_others(
    store: ClusterStore,
) -> None:
    """Somebody reads from broker 2, which tells no more; the group goes on beside it."""
    for hours, sent, committed in (
        (20, {1: 0.0, 2: 0.0}, 0), (19, {1: 0.0, 2: 5.0 * MIB}, 10), (10, {1: 0.0}, 3010),
        (5, {1: 0.0}, 6010), (0, {1: 0.0}, 9010),
    ):  # fmt: skip
        write(store, NOW - timedelta(hours=hours), sent, committed)
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.suspected, found.measured) == (True, "not measured")
    assert found.until == "2026-02-28T17:00:00.000Z"
    assert "broker 2" in str(found.why)


def test_an_exporter_that_tells_no_bytes_out_any_more_clears_nothing(store: ClusterStore) -> None:
    history(store, *SUSPECTED)
    for hours in (3, 2, 0):
        at = NOW - timedelta(hours=hours)
        write(store, at, {1: 1.0, 2: 1.0}, 10, "kafka_network_requestmetrics")
    assert "cannot be told since" in guard_of(store)


def test_where_metrics_went_away_nobody_can_tell_who_reads_by_now(store: ClusterStore) -> None:
    history(store, (40, {1: 0, 2: 0}), (39, {1: 0, 2: 0}), (0, {}))
    reason = guard_of(store)
    assert reason.startswith(f"Whether somebody reads {TOPIC} without committing cannot be told ")
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.measured, found.suspected) == ("not measured", False)
    made = plan(found, {TOPIC: declared()})
    assert [g.name for g in made.partitions[0].guards] == ["unseen-reader-suspected"]
    assert Plan.from_json_text(made.to_json_text(), "plan.json") == made
    (row,) = (reading.to_json() for reading in preview(made, NOW).plan.unseen_readers)
    assert row["until"] == found.until


def test_what_was_never_measured_guards_nothing(store: ClusterStore) -> None:
    history(store, (2, {1: 9.0, 2: 9.0}), (0, {}))
    assert guard_of(store, NOW + timedelta(days=9)) == ""
    assert "two samples" in str(topic_readings(store, [TOPIC], NOW)[TOPIC].why)


def test_a_clock_that_ran_ahead_measures_nothing_of_now(store: ClusterStore) -> None:
    history(store, (-50, {1: 0, 2: 0}), (-51, {1: 0, 2: 0}))
    assert "cannot be told since" in guard_of(store)


def test_who_reads_while_an_archive_does_is_seen_where_the_last_day_begins_amid_it(
    store: ClusterStore,
) -> None:
    """It read 50 MiB from 25 hours ago on, and somebody else 500 MiB less than 24 hours ago."""
    history(
        store, (26, {1: 0, 2: 0}), (25, {1: 0, 2: 0}), (24.5, {1: 25, 2: 0}), (24, {1: 25, 2: 0}),
        (23.5, {1: 550, 2: 0}), (23, {1: 550, 2: 0}), (22, {1: 550, 2: 0}), (0, {1: 550, 2: 0}),
    )  # fmt: skip
    ids = store.ids("snapshots")
    store.write_record("reads/a.json", OwnRead(ids[1], ids[4], (Fetched(TOPIC, 1, 50 * MIB),)))
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.bytes_out, found.suspected) == (500 * MIB, True)


def test_two_snapshots_a_week_apart_measure_that_week(store: ClusterStore) -> None:
    history(store, (24 * 7, {1: 0, 2: 0}), (1, {1: 900, 2: 0}))
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.suspected, found.until) == (True, None)
    assert found.window_ms == (24 * 7 - 1) * 3_600_000


@pytest.mark.further
def test_days_that_are_over_are_read_once_by_a_process(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 2 never had an exporter: not each plan reads ninety days for its sake."""
    for hours in range(240, -1, -12):
        write(store, NOW - timedelta(hours=hours), {1: 0.0}, 10)
    read: list[str] = []
    whole = ClusterStore.read

    def noted(self: ClusterStore, kind: Kind, name: str, *rest: Any) -> pa.Table:
        read.append(name)
        return whole(self, kind, name, *rest)

    monkeypatch.setattr(ClusterStore, "read", noted)
    for most in (21, 4):
        read.clear()
        found = topic_readings(store, [TOPIC], NOW)[TOPIC]
        assert (found.measured, found.suspected) == ("partly measured", False)
        assert len(set(read)) <= most


def test_a_day_that_could_not_be_read_is_read_again(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(store, (72, {1: 0.0}), (71, {1: 50.0}), (70, {1: 50.0}), (2, {1: 50.0}), (0, {1: 50.0}))
    hidden = store.ids("snapshots")[1]
    whole = ClusterStore.read

    def failing(self: ClusterStore, kind: Kind, name: str, *rest: Any) -> pa.Table:
        if name == hidden:
            raise StoreError("it does not answer", "Wait.")
        return whole(self, kind, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(ClusterStore, "read", failing)
        guard_of(store)
    assert "2026-02-26" in guard_of(store)


def test_kept_snapshots_of_the_last_day_are_read(tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c1")
    write(store, NOW - timedelta(hours=50), {1: 0.0, 2: 0.0}, 0)  # too old to count
    write(store, NOW - timedelta(hours=26), {1: 1e6, 2: 0.0}, 10)  # a day at least
    write(store, NOW - timedelta(hours=2), {1: 1e6, 2: 0.0}, 10)
    write(store, NOW - timedelta(hours=1), {}, 20)
    write(store, NOW, {1: 9e6, 2: 5e5}, 40)
    found = topic_readings(store, [TOPIC, "unknown"], NOW)
    assert found[TOPIC].bytes_out == 8_500_000
    assert found[TOPIC].explained_bytes == 30 * 1000
    assert (found[TOPIC].window_ms, found[TOPIC].partitions) == (26 * 3_600_000, 1)
    assert found[TOPIC].suspected
    assert found["unknown"].measured == "not measured"


def test_a_damaged_snapshot_and_a_count_that_is_no_number_cost_only_themselves(
    tmp_path: Path,
) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c1")
    write(store, NOW - timedelta(hours=3), {1: 1e6, 2: 0.0}, 10)
    write(store, NOW - timedelta(hours=2), {1: math.nan, 2: math.inf}, 20)
    write(store, NOW - timedelta(hours=1), {1: 5e6, 2: 0.0}, 20)
    write(store, NOW, {1: 9e6, 2: 5e5}, 40)
    damaged = Path(store.path) / "snapshots" / store.ids("snapshots")[2]
    (damaged / "replicas.parquet").write_bytes(b"PAR1")
    found = topic_readings(store, [TOPIC], NOW)[TOPIC]
    assert (found.bytes_out, found.window_ms) == (8_500_000, 10_800_000)


def test_snapshots_without_metrics_measure_nothing(tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c1")
    write(store, NOW, {}, 10)
    assert topic_readings(store, [TOPIC], NOW) == {}


@pytest.mark.further
def test_of_a_day_of_watch_only_some_snapshots_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c1")
    ids: list[str] = []
    read: list[str] = []
    monkeypatch.setattr(store, "ids", lambda _kind: sorted(ids))
    monkeypatch.setattr(
        "dashboard.history.readings._sample", lambda _store, name, _topics: read.append(name)
    )
    monkeypatch.setattr(
        "dashboard.history.readings._with_metrics",
        lambda _store, names: len(names) - 1 if names else None,
    )
    for later in range(100):
        kept = range(1000 + later)
        ids[:] = [f"{NOW - minute * MINUTE:%Y%m%dT%H%M%S}000Z-0000" for minute in kept]
        read.clear()
        topic_readings(store, [TOPIC], NOW)
        assert len(read) < 25 and {max(ids), min(ids)} <= set(read)
        assert read == sorted(read), "a counter that is read out of order seems to begin anew"
