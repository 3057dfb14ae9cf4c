"""One snapshot: every table joined right, what failed is named, and all of it or nothing."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.broker_metrics.sources import Sources
from dashboard.collect import collect as collect_module
from dashboard.collect.collect import Collected, collect
from dashboard.core.errors import ClusterError, StoreError
from dashboard.domain.columns import LeaderOffsets, OwnOffsets, Placement, Sizes
from dashboard.domain.metric_names import BYTES_OUT
from dashboard.domain.model import Group, GroupListing, LogDir, ReplicaSize, TopicState
from dashboard.safety.readers import GROUPS, readers
from dashboard.store.snapshot_files import Writer
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.fake_live import FakeLive, unreachable
from tests.unit.purge.facts_of import NOW as OBSERVED_AT

NOW = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "fake")


@pytest.fixture
def live() -> Iterator[FakeLive]:
    yield FakeLive()


def run(
    live: FakeLive,
    store: ClusterStore,
    now: datetime = NOW,
    progress: Callable[[str], None] = lambda _: None,
) -> Collected:
    return collect(live, store, now=lambda: now, progress=progress)  # type: ignore[arg-type]


def rows(store: ClusterStore, snapshot_id: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.read("snapshots", snapshot_id, table).to_pylist()
    return found


def test_every_table_of_the_contract_is_written(live: FakeLive, store: ClusterStore) -> None:
    got = run(live, store)
    assert got.tables == {
        "brokers": 2, "configs": 1, "topics": 4, "partitions": 2, "reassignments": 1,
        "replicas": 8, "log_dirs": 2, "groups": 1, "group_offsets": 2,
    }  # fmt: skip
    assert store.latest_snapshot() == got.snapshot_id
    assert json.loads(json.dumps(got.to_json(), allow_nan=False))["taken_at"].endswith("Z")


def test_topics_known_to_log_dirs_or_groups_alone_get_a_number(
    live: FakeLive, store: ClusterStore
) -> None:
    topics = rows(store, run(live, store).snapshot_id, "topics")
    assert [(t["topic"], t["topic_id"]) for t in topics] == [
        ("orders", "id-orders"),
        ("payments", "id-payments"),
        ("deleted", None),
        ("stray", None),
    ]


def test_replicas_join_sizes_offsets_and_metadata(live: FakeLive, store: ClusterStore) -> None:
    replicas = rows(store, run(live, store).snapshot_id, "replicas")
    leader = next(r for r in replicas if r["broker_id"] == 1 and r["topic_no"] == 0)
    assert (leader["size_bytes"], leader["log_start_offset"], leader["log_end_offset"]) == (
        300, 5, 90,
    )  # fmt: skip
    assert (leader["is_leader"], leader["in_sync"], leader["topic_id"]) == (
        True, True, "id-orders",
    )  # fmt: skip
    assert leader["observed_at"] == OBSERVED_AT
    assert leader["error"] is None
    follower = next(r for r in replicas if r["broker_id"] == 2 and r["topic_no"] == 0)
    assert (follower["is_leader"], follower["in_sync"]) == (False, False)


def test_a_replica_named_by_one_source_only_still_has_a_row(
    live: FakeLive, store: ClusterStore
) -> None:
    replicas = rows(store, run(live, store).snapshot_id, "replicas")
    unlisted = [r for r in replicas if r["topic_no"] == 1]
    assert [(r["size_bytes"], r["log_dir"], r["error"]) for r in unlisted] == [
        (None, None, "NOT_IN_LOG_DIRS")
    ] * 2
    stray = [r for r in replicas if r["topic_no"] == 3]
    assert [(r["size_bytes"], r["error"]) for r in stray] == [(11, "NOT_IN_METADATA")] * 2
    assert {r["log_start_offset"] for r in stray} == {None}


def test_what_is_listed_without_an_assignment_is_neither_in_sync_nor_behind(
    live: FakeLive, store: ClusterStore
) -> None:
    live.dirs.append(LogDir(3, "/data", 1000, 400))
    live.hosted = [*(live.hosted or ()), ReplicaSize(3, "/data", "orders", 0, 7, 0, False)]
    replicas = rows(store, run(live, store).snapshot_id, "replicas")
    (row,) = (r for r in replicas if r["broker_id"] == 3)
    assert (row["error"], row["is_leader"], row["in_sync"]) == ("NOT_IN_METADATA", False, None)


def test_a_topic_that_only_log_dirs_show_is_asked_for_by_name(
    live: FakeLive, store: ClusterStore
) -> None:
    """Nobody may call a topic deleted that is only hidden from us."""

    def doubtful() -> object:
        done = run(live, store)
        return store.manifest("snapshots", done.snapshot_id).details["doubtful_topics"]

    assert doubtful() == []
    live.topic_errors = {"stray": "TOPIC_AUTHORIZATION_FAILED"}
    assert doubtful() == ["stray"]
    honest = live.topics

    def topics(names: Iterable[str] | None) -> dict[str, TopicState]:
        if names is not None:
            raise ClusterError("no answer", "Wait.")
        return honest(names)

    live.topic_errors, live.topics = {}, topics  # type: ignore[method-assign]
    assert doubtful() == ["stray"], "who could not ask does not know"


def test_a_future_copy_is_a_row_of_its_own(live: FakeLive, store: ClusterStore) -> None:
    replicas = rows(store, run(live, store).snapshot_id, "replicas")
    future = [r for r in replicas if r["is_future"]]
    assert [(r["log_dir"], r["size_bytes"], r["log_start_offset"]) for r in future] == [
        ("/data2", 20, None)
    ] * 2


def test_without_log_dirs_sizes_are_unknown_never_zero(live: FakeLive, store: ClusterStore) -> None:
    live.dir_errors = dict.fromkeys((1, 2), "CLUSTER_AUTHORIZATION_FAILED")
    got = run(live, store)
    replicas = rows(store, got.snapshot_id, "replicas")
    assert {r["size_bytes"] for r in replicas} == {None}
    assert {r["error"] for r in replicas} == {"CLUSTER_AUTHORIZATION_FAILED"}
    assert {r["log_start_offset"] for r in replicas} == {5}
    assert all(b["reachable"] for b in got.brokers)
    assert {"part": "log_dirs", "object": "broker 1", "error": "CLUSTER_AUTHORIZATION_FAILED"} in (
        got.errors
    )


def test_a_broker_that_fell_silent_is_named(live: FakeLive, store: ClusterStore) -> None:
    live.dir_errors = {2: "ANSWER_LOST"}
    got = run(live, store)
    assert [(b["broker_id"], b["reachable"]) for b in got.brokers] == [(1, True), (2, False)]
    manifest = store.manifest("snapshots", got.snapshot_id)
    assert manifest.details["brokers"] == [dict(b) for b in got.brokers]


class _Unanswered(FakeLive):
    """Broker 2 lists its sizes and answers no question for offsets; orders has no leader."""

    def leader_offsets(self, placement: Placement) -> LeaderOffsets:
        found = super().leader_offsets(placement)
        found.errors[0], found.log_start[0] = "LEADER_NOT_AVAILABLE", -1
        found.last_stable[0], found.high_watermark[0] = -1, -1
        return found

    def own_offsets(self, placement: Placement) -> OwnOffsets:
        found, mine = super().own_offsets(placement), placement.at_broker(2)
        found.errors[mine], found.log_start[mine], found.log_end[mine] = "ANSWER_LOST", -1, -1
        return found


class _Slow(FakeLive):
    """Tells in which order log ends and sizes were read; sizes take a while."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def sizes(self) -> Sizes:
        time.sleep(0.05)
        self.order.append("sizes")
        return super().sizes()

    def own_offsets(self, placement: Placement) -> OwnOffsets:
        self.order.append("ends")
        return super().own_offsets(placement)


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_of_a_log_is_read_after_its_size(store: ClusterStore, fails: bool) -> None:
    """So that its end tells up to where its bytes lie."""
    live = _Slow()
    if fails:
        live.failing["log_dirs"] = unreachable()
    got = run(live, store)
    assert live.order == ["sizes", "ends"]
    assert {r["log_end_offset"] for r in rows(store, got.snapshot_id, "replicas")} >= {90}


def test_offsets_that_were_not_read_are_null_and_counted(store: ClusterStore) -> None:
    got = run(_Unanswered(), store)
    replicas = rows(store, got.snapshot_id, "replicas")
    lost = [r for r in replicas if r["broker_id"] == 2 and r["topic_no"] < 2 and not r["is_future"]]
    assert [(r["log_start_offset"], r["log_end_offset"], r["error"]) for r in lost] == [
        (None, None, "ANSWER_LOST")
    ] * 2
    assert {r["size_bytes"] for r in lost} == {300, None}
    partitions = rows(store, got.snapshot_id, "partitions")
    assert [(p["log_start_offset"], p["high_watermark"], p["error"]) for p in partitions] == [
        (None, None, "LEADER_NOT_AVAILABLE"), (5, 90, None),
    ]  # fmt: skip
    for part, subject, error in (
        ("offsets", "1 partitions", "LEADER_NOT_AVAILABLE"),
        ("replicas", "broker 2, 2 replicas", "ANSWER_LOST"),
    ):
        assert {"part": part, "object": subject, "error": error} in got.errors


@pytest.mark.parametrize(
    "part",
    ["brokers", "offsets", "replicas", "log_dirs", "groups", "configs", "reassignments"],
)
def test_a_part_that_fails_costs_itself_only(
    live: FakeLive, store: ClusterStore, part: str
) -> None:
    live.failing[part] = unreachable()
    got = run(live, store)
    assert store.latest_snapshot() == got.snapshot_id
    assert any(e["part"] == part and e["object"] == "cluster" for e in got.errors)
    if part == "groups":
        assert got.groups_incomplete[0].startswith("groups could not be listed")


def test_no_offset_may_be_missing_of_any_topic_of_a_snapshot(
    live: FakeLive, store: ClusterStore
) -> None:
    run(live, store)
    assert live.offsets_asked_of == {"orders", "payments"}


def test_reasons_of_an_incomplete_group_list_reach_the_manifest(
    live: FakeLive, store: ClusterStore
) -> None:
    details = store.manifest("snapshots", run(live, store).snapshot_id).details
    assert details["groups_incomplete"] == ["a reason"]
    assert set(details["durations"]) >= {"topics", "offsets", "groups"}


def test_a_snapshot_tells_workers_and_while_they_rebalance_findings_hold_no_topic_for_them(
    live: FakeLive, store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [
        Group("registries", "sr", "CompletingRebalance", 2),
        Group("readers", "classic", "PreparingRebalance", 2),
        Group("workers", "connect", "PreparingRebalance", 2),
    ]
    monkeypatch.setattr(live, "groups", lambda *_, **__: GroupListing(tuple(waiting), ()))
    snapshot = run(live, store).snapshot_id
    told = store.read("snapshots", snapshot, "groups", GROUPS.names)
    offsets = pa.schema([("topic_no", pa.int32()), ("group_id", pa.string())]).empty_table()
    topics = store.read("snapshots", snapshot, "topics", ["topic_no", "topic"])
    topics = topics.append_column("is_new", pa.nulls(len(topics), pa.bool_()))
    assert readers(told, offsets, topics).anywhere.to_pylist() == ["readers"]


@pytest.mark.parametrize(
    ("told", "least"),
    [({}, None), ({"1": None, "2": "?"}, None), ({"1": "10080", "2": "1440"}, 1440)],
)
def test_the_manifest_tells_how_soon_groups_are_forgotten(
    live: FakeLive, store: ClusterStore, told: dict[str, str | None], least: int | None
) -> None:
    live.configs_of = {b: {"offsets.retention.minutes": at} for b, at in told.items()}
    details = store.manifest("snapshots", run(live, store).snapshot_id).details
    assert details["offsets_retention_minutes"] == least


def test_nothing_is_written_when_no_broker_answers(live: FakeLive, store: ClusterStore) -> None:
    live.failing["topics"] = unreachable()
    with pytest.raises(ClusterError):
        run(live, store)
    assert store.latest("snapshots") is None


def test_another_cluster_at_the_address_is_refused(live: FakeLive, store: ClusterStore) -> None:
    live.id = "other"
    with pytest.raises(ClusterError, match="other") as refused:
        run(live, store)
    assert refused.value.code == "CLUSTER_CHANGED"
    assert store.latest("snapshots") is None


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left")])
def test_an_interrupted_write_leaves_nothing(
    live: FakeLive,
    store: ClusterStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    interruption: BaseException,
) -> None:
    written = Writer.write

    def write(self: Writer, table: str, data: Any) -> None:
        if table == "replicas":
            raise interruption
        written(self, table, data)

    monkeypatch.setattr(Writer, "write", write)
    with pytest.raises(type(interruption)):
        run(live, store)
    assert store.latest("snapshots") is None
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["attempt.json"]


def test_a_snapshot_that_another_one_overtook_is_refused(
    live: FakeLive, store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Analyses go on from the newest: one that is committed before it is read by nobody."""
    written = Writer.write
    overtaken = []

    def write(self: Writer, table: str, data: Any) -> None:
        if not overtaken:
            overtaken.append(self.id)
            other = store.begin("snapshots", NOW + timedelta(seconds=1))
            other.commit(1.0, {})
            overtaken.append(other.id)
        written(self, table, data)

    monkeypatch.setattr(Writer, "write", write)
    with pytest.raises(StoreError) as refused:
        run(live, store)
    assert refused.value.code == "SNAPSHOT_OVERTAKEN"
    assert overtaken[1] in refused.value.message
    assert store.ids("snapshots") == overtaken[1:]


def test_a_full_disk_is_told_with_the_next_step_and_leaves_nothing(
    live: FakeLive, store: ClusterStore, tmp_path: Path
) -> None:
    run(live, store, NOW)
    files = {p for p in tmp_path.rglob("*") if p.is_file()}
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond 3,000 bytes: the kernel refuses the write as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limit[1]))
    try:
        with pytest.raises(StoreError) as full:
            run(live, store, NOW + timedelta(seconds=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert full.value.code == "STORE_UNWRITABLE"
    assert "disk space" in full.value.next_step
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == files


def test_a_folder_that_cannot_be_made_is_told(
    live: FakeLive, store: ClusterStore, tmp_path: Path
) -> None:
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "snapshots").write_text("a file where the folder should be")
    with pytest.raises(StoreError) as refused:
        run(live, store)
    assert refused.value.code == "STORE_UNWRITABLE"


def test_old_snapshots_are_thinned_out(live: FakeLive, store: ClusterStore) -> None:
    first = run(live, store, NOW)
    second = run(live, store, NOW + timedelta(minutes=5))
    third = run(live, store, NOW + timedelta(hours=3))
    assert store.ids("snapshots") == [second.snapshot_id, third.snapshot_id]
    assert third.to_json()["removed"] == [first.snapshot_id]
    assert second.to_json()["removed"] == []


@pytest.mark.parametrize("off", [timedelta(days=400), timedelta(days=-400), None])
def test_by_a_clock_that_is_wrong_or_unproved_nothing_is_thinned_out(
    live: FakeLive, store: ClusterStore, monkeypatch: pytest.MonkeyPatch, off: timedelta | None
) -> None:
    """400 days ahead, one collect took away all that anybody remembered."""
    kept = [run(live, store, NOW + n * timedelta(minutes=5)).snapshot_id for n in range(3)]
    now = NOW + timedelta(hours=3)

    def told() -> datetime:
        if off is None:
            raise ClusterError("it cannot be read (X)", "", code="CLOCK_UNREAD")
        return now

    monkeypatch.setattr(live, "controller_time", told)
    said: list[str] = []
    wrong = run(live, store, now + (off or timedelta(0)), said.append)
    assert wrong.removed == ()
    assert store.ids("snapshots") == [*kept, wrong.snapshot_id]
    (why,) = [line for line in said if "thinned out" in line]
    assert "cluster's controller" in why
    assert wrong.to_json()["errors"][-1]["part"] == "prune"
    monkeypatch.setattr(live, "controller_time", lambda: now)
    assert set(run(live, store, now).removed) >= set(kept[:2])


def test_a_failed_thinning_does_not_cost_the_snapshot(
    live: FakeLive, store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> set[str]:
        raise OSError("busy")

    monkeypatch.setattr(collect_module, "prune_snapshots", fail)
    got = run(live, store)
    assert got.snapshot_id == store.latest_snapshot()
    told = got.to_json()["errors"][-1]
    assert told == {"part": "prune", "object": "snapshots", "error": "busy"}


def test_brokers_metrics_are_rows_and_one_that_does_not_answer_costs_only_its_own(
    live: FakeLive, store: ClusterStore, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text('kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 12\n')
    sources = Sources({1: str(file), 2: "http://127.0.0.1:1/metrics"}, timedelta(seconds=5))
    got = collect(
        live,  # type: ignore[arg-type]
        store, now=lambda: NOW, progress=lambda _: None, metrics=sources,
    )  # fmt: skip
    (row,) = rows(store, got.snapshot_id, "broker_metrics")
    assert (row["broker_id"], row["labels"], row["value"]) == (1, '{"topic":"orders"}', 12.0)
    assert row["name"] == BYTES_OUT
    told = store.manifest("snapshots", got.snapshot_id).details["metrics"]
    assert [(b["broker_id"], b["answered"]) for b in told] == [(1, True), (2, False)]
    assert told == list(got.to_json()["metrics"])
    assert ("metrics", "broker 2") in [(e["part"], e["object"]) for e in got.errors]
