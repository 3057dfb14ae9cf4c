"""What kept snapshots and findings remember of groups, bytes and declarations."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import StoreError
from dashboard.domain.model import TopicPartition
from dashboard.history.pruning import prune
from dashboard.purge.evidence import memory
from dashboard.purge.plan import words
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.resolve import Keeping, LogEnd, ResolvedTarget
from dashboard.settings.settings import Settings
from dashboard.store.snapshot_files import Kind, Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES, build
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts, partition


def snapshot(
    store: ClusterStore, offsets: dict[str, int], minutes: int, topic_id: str | None = None
) -> str:
    """A snapshot of one topic with the groups that still exist then."""
    writer = store.begin("snapshots", NOW + timedelta(minutes=minutes))
    topics = {"topic_no": [7], "topic": [TOPIC], "topic_id": [topic_id]}
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], topics))
    groups = {
        "group_id": list(offsets), "topic_no": [7] * len(offsets),
        "partition": [0] * len(offsets), "committed_offset": list(offsets.values()),
    }  # fmt: skip
    writer.write("group_offsets", build(SNAPSHOT_TABLES["group_offsets"], groups))
    ends = {"topic_no": [7], "partition": [0], "leader_epoch": [3], "high_watermark": [100]}
    writer.write("partitions", build(SNAPSHOT_TABLES["partitions"], ends))
    writer.commit(0.1, {})
    return writer.id


def analysis(
    store: ClusterStore,
    snapshot_id: str,
    holds: dict[str, int],
    topic_id: str | None = None,
    left_out: dict[str, str] | None = None,
    *,
    leader_epoch: int | None = 3,
) -> str:
    writer = store.begin("findings", NOW)
    rows = {
        "topic": [TOPIC] * len(holds), "partition": [0] * len(holds),
        "group_id": list(holds), "committed_offset": list(holds.values()),
        "topic_id": [topic_id] * len(holds),
    }  # fmt: skip
    writer.write("holds", build(FINDING_TABLES["holds"], rows))
    curve = {
        "topic": [TOPIC] * 4, "partition": [0] * 4, "broker_id": [1, 1, 2, 2],
        "log_dir": ["/d"] * 4, "offset": [0, 100, 0, 100], "bytes_below": [0, 1000, 0, 2000],
        "topic_id": [topic_id] * 4, "bytes_above": [1000, 0, 2000, 0],
        "leader_epoch": [leader_epoch] * 4,
    }  # fmt: skip
    writer.write("curves", build(FINDING_TABLES["curves"], curve))
    writer.commit(0.1, {"snapshot_id": snapshot_id, "left_out": left_out or {}})
    store.set_latest(writer.id)
    return writer.id


def store_in(folder: Path) -> ClusterStore:
    return ClusterStore(Store(str(folder)), "cluster-1")


def offsets_of(store: ClusterStore) -> dict[str, int | None]:
    return {o.group_id: o.committed_offset for o in memory.remembered(store, [TOPIC])}


def test_a_group_of_any_kept_snapshot_counts_at_its_last_offset(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    snapshot(store, {"gone": 5, "alive": 7}, 0)
    snapshot(store, {"alive": 9}, 1)
    assert offsets_of(store) == {"gone": 5, "alive": 9}


def test_findings_remember_and_newer_snapshots_go_on(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    first = snapshot(store, {"alive": 7}, 0)
    analysis(store, first, {"gone": 5, "alive": 7})
    snapshot(store, {"alive": 8, "new": 1}, 1)
    assert offsets_of(store) == {"gone": 5, "alive": 8, "new": 1}


def test_what_is_remembered_names_the_topic_that_it_was_committed_on(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    first = snapshot(store, {"a": 7}, 0, "id-0")
    analysis(store, first, {"gone": 5, "a": 7}, topic_id="id-0")
    snapshot(store, {"a": 1, "new": 2}, 1, "id-1")
    snapshot(store, {"new": 3}, 2)  # by brokers that tell no ids
    at = {
        n: store.manifest("snapshots", id).taken_at for n, id in enumerate(store.ids("snapshots"))
    }
    assert memory.remembered(store, [TOPIC]) == [
        RememberedOffset("a", TOPIC, 0, 1, "id-1", None, at[1]),
        RememberedOffset("gone", TOPIC, 0, 5, "id-0"),
        RememberedOffset("new", TOPIC, 0, 3, "id-1", None, at[2]),
    ]


def test_a_snapshot_pruned_while_it_is_read_is_remembered_by_the_analysis_that_folded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {"alive": 7}, 0), {"alive": 7})
    brief, newest = snapshot(store, {"brief": 3}, 1), snapshot(store, {"alive": 8}, 2)
    read = store.manifest

    def pruned_first(kind: Kind, item_id: str) -> Manifest:
        if item_id == brief and brief in store.ids("snapshots"):
            analysis(store, newest, {"alive": 8, "brief": 3})
            prune(store, "snapshots", lambda _: {newest}, NOW)
        return read(kind, item_id)

    monkeypatch.setattr(store, "manifest", pruned_first)
    assert offsets_of(store) == {"brief": 3, "alive": 8}


def test_a_damaged_snapshot_that_no_analysis_has_folded_refuses_by_name(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    path = Path(store.path) / "snapshots" / snapshot(store, {"a": 1}, 0) / "group_offsets.parquet"
    path.write_bytes(b"PAR1")
    snapshot(store, {"a": 2}, 1)
    with pytest.raises(StoreError, match=r"group_offsets\.parquet") as caught:
        offsets_of(store)
    assert caught.value.code == "STORE_UNREADABLE"


def test_an_empty_store_remembers_nothing(tmp_path: Path) -> None:
    assert offsets_of(store_in(tmp_path)) == {}


def test_bytes_come_from_the_curves_in_whole_segments(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis_id = analysis(store, snapshot(store, {}, 0), {})
    found = facts(partition(replicas=(1, 2)), configs={"segment.bytes": "300"})
    named, estimates = memory.estimates(store, found, {KEY: ResolvedTarget(80)})
    assert named == analysis_id
    # 800 of 1,000 bytes below the target: two full segments; 1,600 of 2,000: five.
    assert estimates[KEY].replicas == {1: 600, 2: 1500}
    assert estimates[KEY].bytes_at_once == 2100
    assert estimates[KEY].method == "proportional"
    assert estimates[KEY].bytes_later == 300
    low, high = estimates[KEY].bytes_at_once_low, estimates[KEY].bytes_at_once_high
    assert low is not None and high is not None and low < 2100 < high < 3000


def test_a_replica_that_was_not_measured_leaves_no_upper_bound(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})  # broker 3 did not answer
    found = facts(partition(), configs={"segment.bytes": "300"})
    estimate = memory.estimates(store, found, {KEY: ResolvedTarget(80)})[1][KEY]
    assert (estimate.bytes_at_once, estimate.bytes_later) == (2100, 300)
    assert estimate.bytes_at_once_low is not None
    assert (estimate.bytes_at_once_high, estimate.bytes_later_high) == (None, None)
    told = words.freed(estimate)
    assert told.endswith("(at least 0 B: not all of it was measured), 300 B later"), told


def test_of_a_topic_with_remote_storage_no_byte_is_predicted(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})
    for remote, measured in (("false", {KEY}), ("true", set())):
        configs = {"segment.bytes": "300", "remote.storage.enable": remote}
        found = facts(partition(replicas=(1, 2)), configs=configs)
        assert memory.estimates(store, found, {KEY: ResolvedTarget(80)})[1].keys() == measured


def test_of_a_topic_that_is_compacted_too_each_replicas_upper_bound_is_told(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})
    policy = {"segment.bytes": "300", "cleanup.policy": "compact,delete"}
    found = facts(partition(replicas=(1, 2)), configs=policy)
    estimate = memory.estimates(store, found, {KEY: ResolvedTarget(80)})[1][KEY]
    first, second = (estimate.cleaned_high[broker] or 0 for broker in (1, 2))
    assert (first >= 600, second >= 1500) == (True, True)
    assert first + second == estimate.bytes_at_once_high
    deleted = facts(partition(replicas=(1, 2)), configs={"segment.bytes": "300"})
    assert memory.estimates(store, deleted, {KEY: ResolvedTarget(80)})[1][KEY].cleaned_high == {}


def test_what_was_written_since_the_analysis_raises_the_upper_bound_alone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})  # 1,000 and 2,000 bytes of 100 offsets
    found = facts(partition(replicas=(1, 2)), configs={"segment.bytes": "300"})
    at_end, past = (
        memory.estimates(store, found, {KEY: ResolvedTarget(target)})[1][KEY]
        for target in (100, 1100)
    )
    assert past.bytes_at_once == at_end.bytes_at_once
    assert past.bytes_at_once_high == 3000 + 1000 * 30
    assert past.bytes_later_high == 3000 + 1000 * 30 - (past.bytes_at_once_low or 0)


def test_where_nothing_was_measured_per_offset_there_is_no_upper_bound(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    writer = store.begin("findings", NOW)
    curve = {
        "topic": [TOPIC] * 2, "partition": [0] * 2, "broker_id": [1] * 2, "log_dir": ["/d"] * 2,
        "offset": [0, 0], "bytes_below": [0, 0],
    }  # fmt: skip
    writer.write("curves", build(FINDING_TABLES["curves"], curve))
    writer.commit(0.1, {"snapshot_id": "s"})
    store.set_latest(writer.id)
    estimate = memory.estimates(store, facts(partition(replicas=(1,))), {KEY: ResolvedTarget(80)})[
        1
    ][KEY]
    assert (estimate.bytes_at_once, estimate.bytes_at_once_low) == (0, 0)
    assert (estimate.bytes_at_once_high, estimate.bytes_later_high) == (None, None)


def test_an_inventory_makes_the_estimate_exact(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    writer = store.begin("findings", NOW)
    bases = [0, 40, 90, 100]
    curve = {
        "topic": [TOPIC] * 4, "partition": [0] * 4, "broker_id": [1] * 4, "log_dir": ["/d"] * 4,
        "offset": bases, "bytes_below": [0, 250, 900, 1000], "is_base": [True, True, True, False],
        "method": ["segments"] * 4,
    }  # fmt: skip
    writer.write("curves", build(FINDING_TABLES["curves"], curve))
    writer.commit(0.1, {"snapshot_id": "s"})
    store.set_latest(writer.id)
    found = facts(partition(replicas=(1,)), configs={"segment.bytes": "300"})
    estimate = memory.estimates(store, found, {KEY: ResolvedTarget(80)})[1][KEY]
    assert (estimate.method, estimate.replicas) == ("segments", {1: 250})
    assert estimate.bytes_at_once_low == estimate.bytes_at_once_high == 250
    assert estimate.bytes_later == 517  # 520 on a straight line: these records were shrinking


def test_curves_of_a_topic_that_was_recreated_since_say_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    writer = store.begin("findings", NOW)
    curve = {
        "topic": [TOPIC] * 2, "partition": [0] * 2, "broker_id": [1] * 2, "log_dir": ["/d"] * 2,
        "offset": [0, 100], "bytes_below": [0, 1000], "topic_id": ["id-0"] * 2,
    }  # fmt: skip
    writer.write("curves", build(FINDING_TABLES["curves"], curve))
    writer.commit(0.1, {"snapshot_id": "s"})
    store.set_latest(writer.id)
    assert memory.estimates(store, facts(partition()), {KEY: ResolvedTarget(80)})[1] == {}


def test_what_a_newer_analysis_took_over_while_it_was_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot is analyzed and thinned out between the looks at LATEST and at the folder."""
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})
    brief = snapshot(store, {"brief": 5}, 1)
    newest = snapshot(store, {}, 2)
    listed = ClusterStore.ids

    def ids(self: ClusterStore, kind: Kind) -> list[str]:
        if kind == "snapshots" and (tmp_path / "cluster-1" / "snapshots" / brief).exists():
            shutil.rmtree(tmp_path / "cluster-1" / "snapshots" / brief)
            analysis(store, newest, {"brief": 5})
        return listed(self, kind)

    monkeypatch.setattr(ClusterStore, "ids", ids)
    assert offsets_of(store) == {"brief": 5}


def test_the_active_segment_stays(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})
    found = facts(partition(), configs={"segment.bytes": "500"})
    _, estimates = memory.estimates(store, found, {KEY: ResolvedTarget(100)})
    assert estimates[KEY].replicas == {1: 500, 2: 1500}


def test_a_partition_that_was_not_measured_has_no_estimate(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {})
    other = TopicPartition(TOPIC, 1)
    found = facts(partition(), partition(number=1))
    assert other not in memory.estimates(store, found, {other: ResolvedTarget(5)})[1]
    assert memory.estimates(store_in(tmp_path / "b"), found, {}) == (None, {})


def test_the_settings_declaration_comes_before_the_pages(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    page = {"glob": "ord*", "owner": "page", "readers": "groups", "replay_window": "1h"}
    store.write_declarations([page])
    assert memory.declarations(Settings(), store, [TOPIC])[TOPIC].owner == "page"
    own = memory.declarations(Settings(), store, [TOPIC])[TOPIC]
    assert own.replay_window == timedelta(hours=1)
    assert memory.declarations(Settings(topics=(own,)), store, ["other"]) == {}


def test_bytes_are_kept_by_the_leaders_own_curve(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert memory.offsets_keeping(store, facts(), {KEY: 1}) == {}, "nothing was analyzed yet"
    analysis(store, snapshot(store, {}, 0, "id-1"), {}, "id-1")
    larger = partition(leader_id=2)  # 2,000 bytes there, 1,000 on broker 1
    end = LogEnd(100, 3)
    assert memory.offsets_keeping(store, facts(), {KEY: 1000}) == {KEY: Keeping(0, end)}
    assert memory.offsets_keeping(store, facts(), {KEY: 1001}) == {KEY: Keeping(None, end)}
    assert memory.offsets_keeping(store, facts(larger), {KEY: 0})[KEY].offset == 100
    cleaned = facts(configs={"cleanup.policy": "compact,delete"})
    assert memory.offsets_keeping(store, cleaned, {KEY: 1}) == {}, "the cleaner may take of them"
    hidden = replace(facts(), configs={})
    assert memory.offsets_keeping(store, hidden, {KEY: 1}) == {}, "it may, for all one knows"
    unknown = partition(leader_id=3)
    assert memory.offsets_keeping(store, facts(unknown), {KEY: 1}) == {}


@pytest.mark.parametrize(
    ("topic_id", "leader_epoch", "end"),
    [("id-1", 4, LogEnd(100, 4)), ("id-1", None, None), (None, 4, None)],
)
def test_up_to_where_bytes_were_counted_and_in_which_epoch_the_curve_itself_tells(
    tmp_path: Path, topic_id: str | None, leader_epoch: int | None, end: LogEnd | None
) -> None:
    """Its snapshot may be gone; an analysis of an earlier version does not tell."""
    store = store_in(tmp_path)
    measured = snapshot(store, {}, 0, "id-1")
    analysis(store, measured, {}, topic_id, leader_epoch=leader_epoch)
    snapshot(store, {}, 1, "id-1")
    shutil.rmtree(tmp_path / "cluster-1" / "snapshots" / measured)
    assert memory.offsets_keeping(store, facts(), {KEY: 1})[KEY].end == end


def test_a_curve_of_a_topic_that_was_recreated_tells_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    analysis(store, snapshot(store, {}, 0), {}, topic_id="id-0")
    assert memory.offsets_keeping(store, facts(), {KEY: 1}) == {}
    analysis(store, snapshot(store, {}, 1), {}, topic_id="id-1")
    assert KEY in memory.offsets_keeping(store, facts(), {KEY: 1})


def test_what_a_damaged_snapshot_alone_knew_makes_the_list_of_groups_incomplete(
    tmp_path: Path,
) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c1")
    damaged = snapshot(store, {"brief": 5}, 0)
    newest = snapshot(store, {"g": 30}, 1)
    analysis(store, newest, {"g": 30}, left_out={damaged: "it is torn", "gone": "it is torn too"})
    (why,) = memory.with_holes(store, facts(), ()).incomplete
    assert why.startswith(f"{damaged} cannot be read")
    assert "lowwater analyze --full" in why
    shutil.rmtree(f"{store.path}/snapshots/{damaged}")
    assert memory.with_holes(store, facts(), ()).incomplete == ()


def test_without_the_file_latest_the_newest_analysis_still_remembers(tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "c1")
    first = snapshot(store, {"gone": 5}, 0)
    second = snapshot(store, {"g": 30}, 1)
    analysis(store, second, {"gone": 5, "g": 30})
    analysis(store, first, {"gone": 4})
    (Path(store.path) / "findings" / "LATEST").unlink()
    found = {kept.group_id: kept.committed_offset for kept in memory.remembered(store, [TOPIC])}
    assert found == {"gone": 5, "g": 30}
