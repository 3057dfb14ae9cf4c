"""Our own metrics: what the text says is what the findings and the journal say, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashboard.core.clock import utc_now
from dashboard.exporter import own
from dashboard.exporter.own_reading import Own, Purges, Reader
from dashboard.purge.journal.journal import Journal
from dashboard.purge.receipt.model import Receipt
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.views.facts import partition_facts, total
from tests.support import sample_store
from tests.unit.purge.room import Room

COUNT = "kafka_log_LogManager_OrphanLogPartitionCount"
SIZE = "kafka_log_LogManager_OrphanLogPartitionSize"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterStore:
    return sample_store.write(Path(tmp_path_factory.mktemp("store")))


def parsed(text: bytes) -> Series:
    """Every series once; each family with its HELP and TYPE."""
    found: Series = {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation, family.name
        assert family.type in ("gauge", "counter"), family.name
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def of(series: Series, name: str) -> dict[tuple[str, ...], float]:
    return {tuple(v for _, v in labels): x for (n, labels), x in series.items() if n == name}


def told(seen: Own, top: int = 50) -> Series:
    return parsed(own.text(own.families(seen, utc_now(), top)))


def read(cluster: ClusterStore, journal: Journal | None = None) -> Own:
    return Reader(cluster, lambda: journal).read()


def orphans(**columns: list[object]) -> Mapping[str, pa.Table]:
    return {"orphans": pa.table(columns)}


def test_a_disk_that_does_not_fill_up_has_no_days_to_full(cluster: ClusterStore) -> None:
    series = told(read(cluster))
    days = of(series, "lowwater_disk_days_to_full")
    assert days[("low", "1", "/d1")] < days[("likely", "1", "/d1")] < days[("high", "1", "/d1")]
    assert [bound for bound, broker, _ in days if broker == "2"] == ["low"]
    rates = of(series, "lowwater_disk_used_growth_bytes_per_hour")
    assert rates[("low", "2", "/d1")] < rates[("likely", "2", "/d1")] == 0


def test_bytes_are_those_of_the_overview_whatever_has_a_series(cluster: ClusterStore) -> None:
    analysis = cluster.latest_analysis()
    rows, blockers = (cluster.read("findings", analysis, n) for n in ("reclaimable", "blockers"))
    consumed = total(partition_facts(rows), "bytes_likely", "consumed")
    for top in (1, 2, 50):
        series = told(read(cluster), top)
        by_topic = of(series, "lowwater_reclaimable_bytes")
        assert sum(by_topic.values()) == consumed
        own_series = [labels for labels in by_topic if own.OTHER not in labels]
        assert len(own_series) <= top
        assert sum(of(series, "lowwater_held_bytes").values()) == sum(
            size for size in blockers["bytes_held_alone"].to_pylist() if size
        )


def test_ages_and_brokers_are_the_newest_snapshots(tmp_path: Path) -> None:
    now = utc_now()
    cluster = sample_store.write(tmp_path, "broker-missing", now=now)
    series = parsed(own.text(own.families(read(cluster), now + timedelta(minutes=5), 5)))

    assert of(series, "lowwater_findings_age_seconds")[()] == pytest.approx(338, abs=0.01)
    assert of(series, "lowwater_snapshot_age_seconds")[()] == pytest.approx(338, abs=0.01)
    assert of(series, "lowwater_broker_answered") == {("1",): 1, ("2",): 1, ("3",): 0}
    assert of(series, "lowwater_brokers_missing") == {(): 1}
    assert 0 in of(series, "lowwater_table_complete").values()


def test_what_is_not_known_has_no_sample(tmp_path: Path, cluster: ClusterStore) -> None:
    before = told(read(sample_store.write(tmp_path, "no-analysis")))
    assert of(before, "lowwater_snapshot_age_seconds")
    assert not of(before, "lowwater_findings_age_seconds")
    assert not of(before, "lowwater_reclaimable_bytes")
    assert of(before, "lowwater_purge_runs")[("done",)] == 0  # no journal: nothing was purged
    # No table of orphans or slow followers: nobody has looked.
    seen = read(cluster)
    without = replace(seen, tables={k: v for k, v in seen.tables.items() if k == "disks"})
    assert not {name for name, _ in told(without)} & {COUNT, SIZE, "lowwater_slow_followers"}


def test_orphans_have_the_names_of_kip_370_and_0_only_where_a_disk_was_listed() -> None:
    rows = orphans(
        broker_id=[1, 1, 2, 2, 4, 4],
        kind=["stray", "moved-away", "stray", "abandoned-future", "checkpoint-entry",
              "two-log-dirs"],
        verdict=["removable", "scheduled", "scheduled", "scheduled", "never", "never"],
        size_bytes=[10, 5, 7, None, None, 9],
        allocated_bytes=[4096, 8192, None, 512, None, 9],
    )  # fmt: skip
    found = {f.name: f for f in own.finding_families(rows, [3], 5)}
    count, size = (
        {s.labels["broker_id"]: s.value for s in found[name].samples} for name in (COUNT, SIZE)
    )
    assert count == {"1": 2, "2": 1, "3": 0}  # a future copy is no partition of its own
    assert size == {"1": 4096 + 8192, "3": 0}  # as the disk gives it; unknown of broker 2's stray
    by_verdict = found["lowwater_orphan_bytes"].samples
    assert [(*s.labels.values(), s.value) for s in by_verdict] == [
        ("1", "moved-away", "scheduled", 5), ("1", "stray", "removable", 10),
        ("2", "stray", "scheduled", 7),
    ]  # fmt: skip
    assert [(*s.labels.values(), s.value) for s in found["lowwater_orphan_disk_bytes"].samples] == [
        ("1", "moved-away", "scheduled", 8192), ("1", "stray", "removable", 4096),
        ("2", "abandoned-future", "scheduled", 512),
    ]  # fmt: skip
    folders = found["lowwater_orphan_folders"].samples
    assert [(*s.labels.values(), s.value) for s in folders] == [
        ("1", "moved-away", "scheduled", 1), ("1", "stray", "removable", 1),
        ("2", "abandoned-future", "scheduled", 1), ("2", "stray", "scheduled", 1),
    ]  # fmt: skip


def test_a_disk_of_which_a_log_dir_could_not_be_opened_was_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = sample_store.write(tmp_path)
    paths = {1: ["t-0"], 2: ["t-0", ""], 3: []}
    told = [{"broker_id": b, "gaps": [{"log_dir": "/d2", "path": path} for path in paths[b]]}
            for b in paths]  # fmt: skip
    plain = ClusterStore.manifest

    def manifest(store: ClusterStore, table: str, name: str) -> Manifest:
        found = plain(store, table, name)
        return replace(found, details={**found.details, "inventories": told})

    monkeypatch.setattr(ClusterStore, "manifest", manifest)
    assert read(cluster).inventoried == {1, 3}


def test_slow_followers_are_counted_by_broker_and_unknown_lag_is_no_zero() -> None:
    rows = {
        "slow_followers": pa.table(
            {
                "broker_id": [1, 2, 2],
                "lag_records": [None, 40, 7],
                "lag_seconds": [None, 2.5, None],
                "slow": [None, True, False],
            },
            schema=pa.schema(
                [("broker_id", pa.int32()), ("lag_records", pa.int64()),
                 ("lag_seconds", pa.float64()), ("slow", pa.bool_())]
            ),
        )
    }  # fmt: skip
    found = {
        f.name: {s.labels["broker_id"]: s.value for s in f.samples}
        for f in own.finding_families(rows, (), 5)
    }
    assert found["lowwater_slow_followers"] == {"1": 0, "2": 1}
    assert found["lowwater_follower_lag_max_records"] == {"2": 40}
    assert found["lowwater_follower_lag_max_seconds"] == {"2": 2.5}


def test_odd_names_survive_the_text_and_a_group_named_as_the_rest_is_no_second_series() -> None:
    odd = ['quote"d', "back\\slash", "new\nline", "ünï", own.OTHER, "x" * 255]
    blockers = pa.table({"group_id": odd, "bytes_held_alone": [6, 5, 4, 3, 2, None]})
    for top in (2, 5, 9):
        text = own.text(own.finding_families({"blockers": blockers}, (), top))
        series = of(parsed(text), "lowwater_held_bytes")
        assert sum(series.values()) == 20
        assert series[('quote"d',)] == 6
        assert top < 4 or series[("new\nline",)] == 4


def test_purges_count_runs_by_state_and_bytes_of_final_receipts(
    tmp_path: Path, cluster: ClusterStore
) -> None:
    room = Room(tmp_path)
    view = room.watch(room.carry_out())
    receipt = Receipt(predicted_bytes=100, freed_bytes=90, final=True)
    unpredicted = replace(receipt, predicted_bytes=None)
    runs = [
        replace(view.run, kept_receipt=receipt),
        replace(view.run, kept_receipt=replace(receipt, final=False)),
        replace(view.run, kept_receipt=unpredicted, state="partial"),
        replace(view.run, kept_receipt=None, state="running"),
    ]
    series = told(replace(read(cluster), purges=Purges(runs, 3)))

    assert {k[0]: v for k, v in of(series, "lowwater_purge_runs").items() if v} == {
        "done": 2, "partial": 1, "running": 1,
    }  # fmt: skip
    assert of(series, "lowwater_purge_predicted_bytes_total") == {(): 100}
    assert of(series, "lowwater_purge_freed_bytes_total") == {(): 90}
    assert of(series, "lowwater_purge_receipts_total") == {(): 1}
    assert of(series, "lowwater_purge_reverted_partitions") == {(): 3}
    room.journal.close()


def test_a_part_that_cannot_be_read_is_named_and_costs_only_itself(tmp_path: Path) -> None:
    cluster = sample_store.write(tmp_path)
    reader = Reader(cluster, lambda: None)
    assert of(told(reader.read()), "lowwater_reclaimable_bytes")
    latest = tmp_path / cluster.cluster_id / "findings" / "LATEST"
    latest.write_text("20200101T000000000Z-0000")
    series = told(reader.read())

    assert of(series, "lowwater_readable") == {("findings",): 0, ("journal",): 1, ("snapshot",): 1}
    assert not of(series, "lowwater_reclaimable_bytes")
    assert of(series, "lowwater_snapshot_age_seconds")


def test_findings_are_read_once_and_a_newer_analysis_replaces_them(tmp_path: Path) -> None:
    cluster = sample_store.write(tmp_path, "nothing")
    reader = Reader(cluster, lambda: None)
    first = reader.read()
    assert reader.read().tables is first.tables
    sample_store.write(tmp_path, now=utc_now() + timedelta(seconds=5))
    newer = reader.read()

    assert newer.tables is not first.tables
    assert of(told(newer), "lowwater_held_bytes")


def test_every_metric_stands_in_the_docs_with_its_labels(cluster: ClusterStore) -> None:
    tables = {
        **read(cluster).tables,
        **orphans(
            broker_id=[1], kind=["stray"], verdict=["never"], size_bytes=[1], allocated_bytes=[1]
        ),
        "slow_followers": pa.table(
            {"broker_id": [1], "lag_records": [1], "lag_seconds": [1.0], "slow": [True]}
        ),
    }
    page = (Path(own.__file__).parents[2] / "docs" / "metrics.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    for name, labels in told(replace(read(cluster), tables=tables)):
        (line,) = (line for line in lines if f"`{name}`" in line.split("|")[1])
        assert all(f"`{label}`" in line.split("|")[2] for label, _ in labels), name
