"""The growth what-if from tables: sizes by log dir, old segments, what nobody consumed yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dashboard.estimate.curve_tables import from_table
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import SNAPSHOT_TABLES, build
from dashboard.ui.growth.scenario import Known, Scenario, backlog, earlier, effect_of, expired
from dashboard.ui.growth.what_if import disks_of, parts_of
from dashboard.views.facts import partition_facts, total
from dashboard.views.what_if import freed, waive
from tests.support import sample_store

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterStore:
    return sample_store.write(Path(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def known(cluster: ClusterStore) -> Known:
    def table(name: str) -> pa.Table:
        return cluster.read("findings", cluster.latest_analysis(), name)

    facts = partition_facts(table("reclaimable"))
    curves, disks = from_table(table("curves")), disks_of(table("disks"), table("growth"))

    def without(groups: tuple[str, ...]) -> pa.Table:
        return waive(facts, table("holds"), curves, groups) if groups else facts

    parts = parts_of(curves, table("growth"), disks)
    return Known(disks, parts, curves, without, lambda _: (None, 0.0), {}, None, NOW)


def of(known: Known, topic: str) -> np.ndarray[Any, Any]:
    return known.parts.topic == known.parts.names.index(topic)


def test_parts_are_the_replicas_bytes_by_topic_and_log_dir(known: Known) -> None:
    facts, parts = known.facts(()), known.parts
    assert len(parts.size) == 13 * 3 and parts.replicas.sum() == facts.num_rows * 3
    assert parts.size.sum() == total(facts, "size_bytes")
    orders = facts.filter(pc.equal(facts["topic"], "orders"))
    assert parts.size[of(known, "orders")].sum() == total(orders, "size_bytes")
    assert parts.size[of(known, "orders")][0] / 96 == pytest.approx(
        parts.came[of(known, "orders")][0]
    )
    assert np.isnan(parts.came[of(known, "tiny-events")]).all(), "too new to tell is not 0"
    assert (parts.hours[of(known, "orders")] == 1).all()


def test_a_replica_on_a_log_dir_that_nobody_told_belongs_to_no_part(known: Known) -> None:
    fewer = parts_of(known.curves, pa.table({
        "topic": pa.array([], pa.string()), "broker_id": pa.array([], pa.int32()),
        "log_dir": pa.array([], pa.string()), "bytes_in_per_hour": pa.array([], pa.int64()),
        "bytes_out_per_hour": pa.array([], pa.int64()), "window_seconds": pa.array([], pa.int64()),
    }), known.disks[:1])  # fmt: skip
    assert len(fewer.size) == 13 and (fewer.part < 0).sum() == 2 * (fewer.part >= 0).sum()
    assert np.isnan(fewer.came).all()


def test_a_policy_and_a_waiver_free_what_reclaimable_promises(known: Known) -> None:
    facts = known.facts(())
    consumed = facts.filter(facts["consumed"])
    every = frozenset(consumed["topic"].to_pylist())
    drawn = freed(facts, known.curves, np.asarray(facts["consumed"].to_numpy()))
    gone = effect_of(known, Scenario(purged=every)).likely.gone.sum()
    assert gone == drawn.once.sum() > 0
    waived = effect_of(known, Scenario(waived=("billing-replay",))).likely
    assert waived.gone[of(known, "orders")].sum() > 0 == waived.gone[~of(known, "orders")].sum()
    both = effect_of(known, Scenario(waived=("billing-replay",), purged=frozenset({"orders"})))
    alone = effect_of(known, Scenario(purged=frozenset({"orders"})))
    assert both.likely.gone.sum() == waived.gone.sum() > alone.likely.gone.sum() > 0


def test_guarded_topics_are_not_purged(known: Known) -> None:
    found = effect_of(known, Scenario(purged=frozenset({"inventory", "audit-log"})))
    assert found.latest.gone.sum() == 0


def test_retention_is_asked_of_its_topics_alone(known: Known) -> None:
    asked = Scenario(keep=timedelta(hours=24), kept=frozenset({"clickstream"}))
    found = effect_of(known, asked)
    there = of(known, "clickstream")
    assert (found.likely.gone[there] > 0).all() and found.latest.gone[~there].sum() == 0
    assert not Scenario(keep=timedelta(hours=24)).asks and asked.asks


def segment(
    base: int, size: int, hours: int, folder: str = "orders-0", **more: Any
) -> dict[str, Any]:
    topic, partition = folder.rsplit("-", 1)
    return {"broker_id": 1, "log_dir": "/d1", "directory": folder, "base_offset": base,
            "topic": topic, "partition": int(partition), "kind": "live", "log_bytes": size,
            "newest_at": NOW - timedelta(hours=hours), **more}  # fmt: skip


def old_bytes(known: Known, *rows: dict[str, Any]) -> tuple[float, float]:
    spec = SNAPSHOT_TABLES["segments"]
    table = build(spec, {f.name: [row.get(f.name) for row in rows] for f in spec.schema})
    before = NOW - timedelta(hours=10)
    found = expired(table, known.parts, known.disks, {"orders"}, before)
    at = np.flatnonzero(of(known, "orders") & (known.parts.disk == 0))[0]
    return found.closed[at], found.all[at]


def test_old_segments_leave_up_to_the_first_that_is_not(known: Known) -> None:
    rest = [segment(0, 5, 1, f"orders-{n}") for n in range(1, 6)]
    log = [segment(0, 10, 40), segment(9, 20, 30), segment(20, 40, 2), segment(30, 80, 20)]
    assert old_bytes(known, *log, *rest) == (30, 30)
    assert old_bytes(known, *log[:2], *rest) == (10, 30), "the active one is rolled once it is old"
    assert np.isnan(old_bytes(known, *log)).all(), "five partitions were not scanned"
    strays = [segment(0, 10, 40, kind="stray"), *rest]
    assert np.isnan(old_bytes(known, *strays)).all()


def test_what_nobody_consumed_grows_as_it_did_between_two_analyses(known: Known) -> None:
    now = known.facts(())
    at, was = known.parts.names.index("orders"), now
    for name in ("bytes_low", "bytes_likely", "bytes_high"):  # 6 partitions were 10 MB further
        column = pc.add(now[name], 10**7)
        was = was.set_column(was.column_names.index(name), name, column)
    low, likely, high = backlog(known.parts, now, was, 2.0)
    assert likely[at] == pytest.approx(6 * 10**7 / 2)
    assert low[at] < likely[at] < high[at]
    new = known.parts.names.index("audit-log")
    assert (low[new], np.isnan(likely[new])) == (0, True) and high[new] > 0, "no group: unknown"
    low, likely, high = backlog(known.parts, now, None, 0.0)
    assert np.isnan(likely).all() and (low == 0).all()
    assert high[at] == pytest.approx(known.parts.came[of(known, "orders")].sum())


def test_an_earlier_analysis_is_the_oldest_of_a_day() -> None:
    ages = {"a": 30 * 60, "b": 20 * 60, "c": 15, "d": 5, "e": 0}
    taken = [(name, NOW - timedelta(minutes=age)) for name, age in ages.items()]
    assert earlier(taken, NOW) == taken[1]
    assert earlier(taken[3:], NOW) is None
