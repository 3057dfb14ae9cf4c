"""What the storage report says: the Overview's numbers, unknown as unknown, nothing left unsaid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard.purge.journal.rows import Begins
from dashboard.reports.parts import Report, Section, Words
from dashboard.reports.space import Space
from dashboard.reports.storage import next_steps, storage_report
from dashboard.store.snapshots import ClusterStore
from dashboard.views.facts import partition_facts
from dashboard.views.formats import size
from dashboard.views.headline import headline
from tests.support import sample_store
from tests.unit.cli.plans import a_plan
from tests.unit.purge.outcomes import kept, receipt, run
from tests.unit.reports.sources import NOW, of_rows, of_store, of_topics

GIB = 2**30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterStore:
    return sample_store.write(tmp_path_factory.mktemp("data"), now=NOW)


def section(report: Report, name: str) -> Section:
    return next(section for section in report.sections if section.name == name)


def told(parts: Iterable[Words]) -> str:
    return "".join(part.text for part in parts)


def says(found: Section) -> str:
    return " ".join(told(paragraph) for paragraph in found.says)


def cells(found: Section, table: int = 0) -> list[list[str]]:
    return [[cell.text for cell in row] for row in found.tables[table].rows]


def test_what_a_waiver_frees_is_called_the_least_where_a_part_is_unknown(
    cluster: ClusterStore,
) -> None:
    source = of_store(cluster)

    def read(name: str) -> pa.Table:
        table = source.read(name)
        if name != "blockers":
            return table
        column = table.schema.get_field_index("unmeasured")
        return table.set_column(column, "unmeasured", pa.array([1] * len(table), pa.int64()))

    report = storage_report(replace(source, read=read))
    assert re.search(r"\. At least \S+ \S+ more would leave at once if", told(report.headline))


def test_the_headline_has_the_numbers_of_the_overview(cluster: ClusterStore) -> None:
    def read(name: str):  # type: ignore[no-untyped-def]
        return cluster.read("findings", cluster.latest_analysis(), name)

    overview = headline(partition_facts(read("reclaimable")), read("blockers"), read("disks"))

    report = storage_report(of_store(cluster))

    assert told(report.headline) == (
        f"{size(overview.consumed_bytes)} are consumed by every known group, "
        f"{size(overview.declared_bytes)} of it in topics whose readers are declared. "
        f"{size(overview.waive_bytes)} more would leave at once if {overview.waive_group} were "
        "waived. "
        f"{size(overview.orphan_bytes)} in orphans."
    )
    assert f"{size(overview.at_once_bytes)} leave at once" in report.headline_note
    assert report.brokers == "3 of 3 brokers answered"
    assert not report.warnings


def test_topics_stand_with_most_to_give_back_first(cluster: ClusterStore) -> None:
    found = section(storage_report(of_store(cluster)), "topics")

    rows = {row[0]: row for row in cells(found)}

    assert list(rows)[:2] == ["clickstream", "orders"]
    assert rows["audit-log"][2:5] == ["unknown", "unknown", "unknown"]
    assert rows["orders"][5] == "billing-replay"


def test_blockers_disks_orphans_and_followers_are_told(cluster: ClusterStore) -> None:
    report = storage_report(of_store(cluster))

    blocker = next(r for r in cells(section(report, "blockers")) if r[0] == "old-reporting")
    disks = section(report, "disks")

    assert (blocker[3], blocker[6]) == ("Empty", "41 d")
    assert "2 of 3 log dirs will be full within a week" in says(disks)
    assert cells(disks)[0][8] == "40 h (32 h to 53 h)"
    assert cells(disks)[0][6] == "unknown"  # orphans, of a disk that nobody listed
    assert "2 orphans with 921.6 MiB: 1 removable, 1 scheduled, 0 never." in says(
        section(report, "orphans")
    )
    assert "No inventory of brokers 1, 2" in says(section(report, "orphans"))
    assert "Broker 3 is slow: 12 of" in says(section(report, "followers"))


def test_partitions_of_which_no_bytes_are_known_are_told_beside_what_groups_hold(
    tmp_path: Path,
) -> None:
    store = sample_store.write(tmp_path, now=NOW)
    (file,) = tmp_path.glob("*/findings/*/blockers*.parquet")
    table = pq.read_table(file)
    at, missed = table.schema.get_field_index("unmeasured"), [2] + [0] * (table.num_rows - 1)
    pq.write_table(table.set_column(at, "unmeasured", [pa.array(missed, pa.int64())]), file)

    told_of = says(section(storage_report(of_store(store)), "blockers"))

    assert "Of 2 partitions that are held back no bytes are known" in told_of


def test_a_broker_that_is_missing_is_a_warning_and_its_parts_are_listed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = sample_store.write(tmp_path_factory.mktemp("missing"), "broker-missing", now=NOW)

    report = storage_report(of_store(store))

    assert report.warnings[0].startswith("Broker 3 did not answer")
    quality = section(report, "quality")
    assert "2 of 6 parts missing" in says(quality)
    assert [row[:2] for row in cells(quality)] == [["log_dirs", "3"], ["replicas", "3"]]
    assert cells(section(report, "disks"))[-1][2:5] == ["unknown", "unknown", "unknown"]


def test_purges_are_told_with_predicted_and_freed(cluster: ClusterStore) -> None:
    freed_all = replace(receipt(kept(GIB, GIB)), predicted_bytes=GIB, freed_bytes=GIB)
    runs = [
        run("20260301-b", freed_all),
        run("20260228-a", None),
    ]

    report = storage_report(of_store(cluster, runs))
    found = section(report, "purges")

    assert [row[5:8] for row in cells(found)] == [
        ["1.0 GiB", "1.0 GiB", "final"],
        ["unknown", "unknown", "none"],
    ]
    assert "2 purges" in says(found)
    assert len(found.charts[0].bars) == 1
    assert cells(found, 1)[0][0] == "history"
    freed = next(f for f in report.figures if f.label == "Freed by purges")
    assert (freed.value.text, freed.note) == ("1.0 GiB", "2 purges, 1 not measured")


@pytest.mark.parametrize("count", [0, 1])
def test_where_older_purges_are_archived_it_says_since_when_they_count(
    cluster: ClusterStore, count: int
) -> None:
    runs = [run("20260301-b", replace(receipt(kept(GIB, GIB)), freed_bytes=GIB))][:count]
    report = storage_report(of_store(cluster, runs, begins=Begins(120, NOW - timedelta(days=9))))

    since = "counted since 2026-02-20 04:00 UTC: entries before 120 are archived"
    freed = next(f for f in report.figures if f.label == "Freed by purges")
    assert freed.note == f"{'1 purge' if count else 'no purge'}, {since}"
    assert f"Purges of this journal are {since}" in says(section(report, "purges"))


def test_a_plan_is_told_with_what_blocks_it_and_who_would_lose(cluster: ClusterStore) -> None:
    plan = a_plan()

    found = section(storage_report(of_store(cluster, plan=plan)), "plan")

    assert plan.plan_id in says(found)
    assert f"“{plan.confirmation}”" in says(found)
    assert cells(found)[0][:3] == ["orders", "2", "1"]
    assert cells(found)[0][5] == "under-replicated"


@pytest.mark.parametrize("unmeasured", [False, True])
def test_nothing_to_give_back_is_said_of_what_was_measured_alone(unmeasured: bool) -> None:
    sizes = ("size_bytes", "bytes_low", "bytes_likely", "bytes_high", "bytes_at_once")
    row = {"topic": "orders", "target": "committed", "records": 10, "target_offset": 10,
           "held_bytes": 0, "method": "history", "replicas": 3, "guards": []}  # fmt: skip
    known = row | {"partition": 0, "readers_declared": True} | dict.fromkeys(sizes, 0)
    unknown = row | {"partition": 1, "readers_declared": True, "method": "none"}
    rows = [known, unknown | dict.fromkeys(sizes)] if unmeasured else [known]

    report = storage_report(of_rows(reclaimable=rows))

    assert ("Nothing can be given back" in told(report.headline)) is not unmeasured


def test_what_a_window_or_a_transaction_keeps_is_not_told_as_a_groups() -> None:
    row = {"target": "committed", "partition": 0, "records": 10, "target_offset": 10,
           "high_watermark": 20, "limit_offset": 10, "method": "history", "replicas": 1,
           "readers_declared": True, "guards": [], "size_bytes": 3 * GIB}  # fmt: skip
    rows = [row | {"topic": "behind", "held_bytes": GIB, "held_by": "slow", "limit_offset": 20},
            row | {"topic": "kept", "held_bytes": 2 * GIB}]  # fmt: skip

    report = storage_report(of_rows(reclaimable=rows))

    holders = {line[0]: line[5] for line in cells(section(report, "topics"))}
    assert holders == {"behind": "slow", "kept": "a replay window or an open transaction"}
    (figure,) = (figure for figure in report.figures if figure.label == "Held back")
    assert figure.note == "2.0 GiB of it by a replay window or an open transaction"


def test_a_cluster_without_topics_gets_a_short_honest_report() -> None:
    report = storage_report(of_rows())

    assert told(report.headline) == "The cluster has no topics: there is nothing to give back."
    assert not report.next_steps
    assert not any(found.tables or found.charts for found in report.sections)
    assert "it is unknown" in says(section(report, "quality"))
    assert [f.value.text for f in report.figures if f.label == "Fullest disk"] == ["unknown"]


def test_bytes_that_nobody_measured_are_unknown_and_never_zero() -> None:
    row = {"topic": "a", "partition": 0, "target": "committed", "target_offset": 9, "records": 9,
           "readers_declared": True, "guards": []}  # fmt: skip
    disk = {"broker_id": 1, "log_dir": "/d1", "measured": False, "inventory_at": None}

    report = storage_report(of_rows(reclaimable=[row], disks=[disk]))

    assert "unknown" in told(report.headline)
    assert "9 records" in told(report.headline)
    assert not report.headline_note
    assert {f.label: f.value.text for f in report.figures} == {
        "On disk": "unknown", "Reclaimable": "unknown", "Readers declared": "unknown",
        "Held back": "unknown", "Fullest disk": "unknown",
        "Freed by purges": "—",
    }  # fmt: skip
    assert cells(section(report, "topics"))[0][1:5] == ["unknown"] * 4
    assert cells(section(report, "disks"))[0][2:9] == ["unknown"] * 7


def test_one_partition_is_a_report_too() -> None:
    report = storage_report(of_topics(1))

    assert told(report.headline).startswith("1.0 MiB are consumed by every known group")
    assert section(report, "topics").tables[0].more == ""
    assert report.next_steps[0].endswith(
        "lowwater plan --topic topic-00000 --to committed --out plan.json"
    )


def test_ten_thousand_topics_are_capped_and_say_where_the_others_are() -> None:
    found = section(storage_report(of_topics(10_000)), "topics")

    assert len(found.tables[0].rows) == 20
    assert found.tables[0].more.startswith("and 9\u202f980 more: see reclaimable.csv")
    assert len(found.charts[0].bars) == 12


def test_system_topics_are_nobodys_homework(cluster: ClusterStore) -> None:
    steps = next_steps(Space(of_store(cluster)))

    assert any("(audit-log, metrics-raw)" in step for step in steps)
    assert not any("__consumer_offsets" in step for step in steps)


def without_target(topic: str, *guards: str) -> dict[str, object]:
    told = [{"name": name, "reason": "", "lift": ""} for name in guards]
    return {"topic": topic, "partition": 0, "target": "committed", "target_offset": None,
            "guards": told, "readers_declared": True, "records": None, "size_bytes": 5,
            "bytes_likely": None}  # fmt: skip


def test_a_target_that_is_not_known_yet_is_not_told_as_one_that_nobody_committed() -> None:
    """The first days of a store with a replay window: the topic's groups have committed."""
    space = Space(of_rows(reclaimable=[without_target("orders", "target-unresolved")]))

    assert space.numbers.uncommitted_topics == ()
    (step,) = next_steps(space)
    assert step.startswith("See why no target is known on 1 topic: ")
    assert step.endswith("the guard target-unresolved says what (orders).")
    why = space.numbers.why_nothing(())
    assert "1 topic waits for what could not be read or is not known yet" in why
    assert "no committed offset" not in why


def test_who_committed_nothing_is_told_beside_a_target_that_waits() -> None:
    rows = [without_target("a", "target-unresolved"), without_target("b", "target-unresolved"),
            without_target("c", "readers-undeclared", "no-committed-offset"),
            without_target("__tool", "system-topic", "target-unresolved")]  # fmt: skip
    space = Space(of_rows(reclaimable=rows))

    first, second = next_steps(space)
    assert first.endswith("without any committed group: what may go there is unknown (c).")
    assert "2 topics" in second and second.endswith("(a, b).")
    why = space.numbers.why_nothing(())
    assert "1 topic has no committed offset that tells" in why
    assert "3 topics wait for what could not be read" in why


def test_the_snapshot_may_be_pruned_since(cluster: ClusterStore) -> None:
    source = of_rows()
    assert source.snapshot is None
    assert "not kept any more" in storage_report(source).brokers
    assert storage_report(of_store(cluster)).taken_at == NOW - timedelta(seconds=38)


def _log_dir(broker: int, pace: float | None, days: float | None = None) -> tuple[dict, dict]:  # type: ignore[type-arg]
    place = {"broker_id": broker, "log_dir": "/data"}
    growth = {"used_bytes_per_hour": pace, "days_to_full": days, "samples": 9, "replicas": 1}
    return {**place, "measured": True, "total_bytes": GIB, "usable_bytes": GIB // 2}, place | growth


@pytest.mark.parametrize(
    ("paces", "first", "note"),
    [
        ([(1.0, None), (None, None)], "unknown", "1 log dir of unknown pace"),
        ([(1.0, None), (0.0, None)], "not filling up", "at today's pace"),
        ([(1.0, 5.0), (None, None)], "in 5 d", "broker 1 /data, 1 log dir of unknown pace"),
        ([(None, None)], "unknown", "not enough history yet"),
    ],
)
def test_a_log_dir_of_unknown_pace_is_never_one_that_does_not_fill(
    paces: list[tuple[float | None, float | None]], first: str, note: str
) -> None:
    disks, growth = zip(*(_log_dir(at, *pace) for at, pace in enumerate(paces, 1)), strict=True)

    report = storage_report(of_rows(disks=disks, growth=growth))

    figure = next(figure for figure in report.figures if figure.label == "First disk full")
    assert (figure.value.text, figure.note) == (first, note)
    unsaid = "of unknown pace" in note
    assert ("(1 log dir of unknown pace)" in says(section(report, "disks"))) == unsaid


def test_the_place_of_a_large_number_is_cut_in_its_middle_and_whole_in_its_chapter() -> None:
    disk, growth = _log_dir(1, 1.0, 5.0)
    long = {"log_dir": "/var/lib/kafka/volumes/fast/data-1"}
    report = storage_report(of_rows(disks=[disk | long], growth=[growth | long]))
    notes = {figure.label: figure.note for figure in report.figures}
    for label in ("Fullest disk", "First disk full"):
        assert notes[label] == "broker 1 /var/lib/kaf…s/fast/data-1"
    (bars,) = section(report, "disks").charts
    assert bars.bars[0].label == f"broker 1 {long['log_dir']}"


def test_idle_topics_are_told_with_what_is_not_proposed(cluster: ClusterStore) -> None:
    found = section(storage_report(of_store(cluster)), "idle")
    assert says(found).startswith("By the snapshot of 38 s ago: 4 topics idle for 7 days or more")
    rows = {row[0]: row for row in cells(found)}
    assert list(rows) == [
        "tiny-events", "reports-old", "audit-log", "counts-app-store-repartition",
    ]  # fmt: skip
    assert rows["tiny-events"][6:9] == ["offsets, commits", "team-core", ""]
    assert rows["reports-old"][8].startswith("group old-reporting has not read 1279295 records")
    assert rows["counts-app-store-repartition"][1] == "Kafka Streams"
    assert "its application makes and deletes it" in rows["counts-app-store-repartition"][8]


def test_a_retention_that_fits_is_told_with_its_bounds(cluster: ClusterStore) -> None:
    found = section(storage_report(of_store(cluster)), "retention")
    assert says(found).startswith(
        "By the snapshot of 38 s ago: 2 of 5 topics with declared readers may keep records for less"
    )
    assert [row[:4] for row in cells(found)] == [
        ["orders", "20 h", "7 d", "3 d"], ["payments", "15 min", "7 d", "3 d"],
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "line"), [("idle", "lowwater idle"), ("retention", "lowwater r")])
def test_an_old_analysis_tells_its_age_and_proposes_nothing(
    cluster: ClusterStore, name: str, line: str
) -> None:
    old = storage_report(of_store(cluster, now=NOW + timedelta(days=60)))
    told = says(section(old, name))
    assert told.startswith("By the snapshot of 60 d ago: ") and "proposed: the newest" in told
    assert line in says(section(storage_report(of_store(cluster)), name)) and line not in told
