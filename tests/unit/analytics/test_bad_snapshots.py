"""Whatever a snapshot holds: a finding, or a named reason why not, and the next one is analyzed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard.history.findings_age import holes
from tests.support import looks
from tests.support.lab import START, Lab, Snapshot

# 255 characters, as many as a topic's name may have; Kafka takes any text for a group.
ODD = ("ü\n\t\"'`\\</script><b>💧\u202e%s{}$(x);--" * 9)[:255]


CUT: dict[str, Callable[[Path], object]] = {
    "topics": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "group_offsets": lambda path: path.write_bytes(b""),
    "partitions": lambda path: path.unlink(),
    "manifest": lambda path: path.with_name("manifest.json").write_text('{"schema_version": [1'),
}


def test_snapshots_cut_short_are_named_and_the_next_one_goes_on_without_them(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 10, "gone": 5}))
    cut = []
    for table, do in CUT.items():
        cut.append(lab.write(Snapshot().topic("t", groups={"g": 20})))
        do(looks.file(lab, cut[-1], table))
        error = looks.refused(lab, snapshot_id=cut[-1])
        assert (error.code, cut[-1] in error.message) == ("STORE_UNREADABLE", True)
    lab.write(Snapshot().topic("t", groups={"g": 30}))

    done = lab.analyze()

    assert done.left_out == tuple(cut)
    assert looks.held(lab) == {("t", "g"): 30, ("t", "gone"): 5}
    (row,) = [q for q in lab.rows("quality") if q["table"] == "history"]
    assert (row["complete"], all(name in row["reason"] for name in cut)) == (False, True)
    assert list(lab.cluster.manifest("findings", done.analysis_id).details["left_out"]) == cut
    assert len(lab.cluster.ids("snapshots")) == 6, "nothing is removed"
    oldest = lab.cluster.ids("snapshots")[0]
    looks.file(lab, oldest, "x").with_name("manifest.json").write_text("[]")
    lab.write(Snapshot().topic("t", groups={"g": 30}))
    assert lab.analyze().left_out == (), "what lies before the last analysis is not read again"


@pytest.mark.further
def test_what_a_damaged_snapshot_alone_knew_is_missed_until_somebody_removes_it(lab: Lab) -> None:
    """Group `brief` was seen in it alone: without it its records would be free."""
    lab.write(Snapshot().topic("t", groups={"g": 10}))
    lab.analyze()
    bad = lab.write(Snapshot().topic("t", groups={"g": 20, "brief": 5}))
    whole = looks.file(lab, bad, "group_offsets").read_bytes()
    lab.write(Snapshot().topic("t", groups={"g": 30}))
    looks.file(lab, bad, "group_offsets").write_bytes(whole[:-100])
    for _ in range(2):  # the next analysis reads it no more, and knows no more
        lab.analyze()
        (guard,) = lab.targets()["t"]["guards"]
        assert (guard["name"], bad in guard["reason"]) == ("groups-incomplete", True)
        assert [*holes(lab.cluster)] == [bad]
    looks.file(lab, bad, "group_offsets").write_bytes(whole)
    lab.analyze(full=True)
    assert holes(lab.cluster) == {}
    assert looks.held(lab)[("t", "brief")] == 5
    looks.file(lab, bad, "group_offsets").write_bytes(whole[:-100])
    lab.analyze(full=True)
    assert [*holes(lab.cluster)] == [bad]
    shutil.rmtree(looks.file(lab, bad, "group_offsets").parent)
    assert holes(lab.cluster) == {}
    lab.analyze()
    assert lab.targets()["t"]["guards"] == []


def test_a_snapshot_with_other_rows_than_its_manifest_says_is_no_half_result(lab: Lab) -> None:
    bad = lab.write(Snapshot().topic("a", groups={"g": 1}).topic("b", groups={"g": 1}))
    for table in ("partitions", "group_offsets"):
        looks.rewritten(lab, bad, table, lambda rows: rows.slice(0, 1))
    error = looks.refused(lab)
    assert error.code == "STORE_UNREADABLE"
    assert "1 rows where its manifest says 2" in error.message


def test_missing_and_extra_columns_are_those_of_other_minors(lab: Lab) -> None:
    other = lab.write(Snapshot().topic("t", groups={"g": 50}))
    looks.rewritten(
        lab, other, "partitions", lambda rows: rows.drop_columns(["isr", "leader_epoch"])
    )
    looks.rewritten(lab, other, "groups", lambda rows: rows.append_column("mood", pa.nulls(0)))
    looks.rewritten(
        lab, other, "replicas", lambda rows: rows.append_column("x", pa.nulls(2)).select([
            "x", *reversed([n for n in rows.column_names if n not in ("in_sync", "error")])])
    )  # fmt: skip
    lab.analyze()
    assert lab.targets()["t"]["bytes_likely"] == 10_000


@pytest.mark.parametrize(
    ("table", "column"), [("partitions", "topic_no"), ("group_offsets", "group_id")]
)
def test_without_a_key_column_rows_are_no_rows(lab: Lab, table: str, column: str) -> None:
    bad = lab.write(Snapshot().topic("t", groups={"g": 50}))
    looks.rewritten(lab, bad, table, lambda rows: rows.drop_columns([column]))
    error = looks.refused(lab)
    assert (error.code, f"no column '{column}'" in error.message) == ("STORE_UNREADABLE", True)


def test_a_column_of_another_type_is_named(lab: Lab) -> None:
    bad = lab.write(Snapshot().topic("t", groups={"g": 50}))

    def with_nan(rows: pa.Table) -> pa.Table:
        at = rows.column_names.index("size_bytes")
        return rows.set_column(at, "size_bytes", pa.array([math.nan] * rows.num_rows))

    looks.rewritten(lab, bad, "replicas", with_nan)
    error = looks.refused(lab)
    assert "'size_bytes' is double, not int64" in error.message


def test_two_snapshots_at_the_same_time_count_in_the_order_of_their_commits(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", end=100, groups={"g": 10}))
    lab.minutes -= 1
    first, second = lab.cluster.ids("snapshots")[0], lab.write(
        Snapshot().topic("t", end=120, size=12_000, groups={"g": 20})
    )  # fmt: skip
    assert first < second
    lab.analyze()
    assert looks.held(lab) == {("t", "g"): 20}
    assert looks.curve(lab) == [(0, "proportional"), (100, "proportional"), (120, "history")]


@pytest.mark.further
@pytest.mark.parametrize("each", [True, False])
def test_a_clock_that_steps_back_makes_the_newest_no_older(lab: Lab, each: bool) -> None:
    for minutes, end in ((0, 100), (60, 140), (11, 160)):
        lab.minutes = minutes
        lab.write(Snapshot().topic("t", end=end, size=end * 100, groups={"g": end - 50}))
        if each or end == 160:
            done = lab.analyze()
    assert lab.cluster.latest_analysis() == done.analysis_id
    assert looks.held(lab) == {("t", "g"): 110}
    assert lab.targets()["t"]["high_watermark"] == 160
    assert lab.rows("reclaimable")[0]["taken_at"] == START + timedelta(minutes=12)
    assert [offset for offset, _ in looks.curve(lab)] == [0, 100, 140, 160]
    if each:
        held = lab.rows("holds")
        lab.analyze(full=True)
        assert lab.rows("holds") == held


def test_a_replay_window_is_not_bounded_by_a_snapshot_whose_clock_stood_back(lab: Lab) -> None:
    lab.minutes = 60
    lab.write(Snapshot().topic("replayed", end=40, groups={"g": 40}))
    lab.minutes = 10
    lab.write(Snapshot().topic("replayed", end=90, groups={"g": 90}))
    lab.minutes = 62
    lab.write(Snapshot().topic("replayed", end=100, groups={"g": 90}))
    lab.analyze()
    assert lab.targets()["replayed"]["target_offset"] == 40


def test_curves_and_holds_end_where_a_topic_was_recreated(lab: Lab) -> None:
    for end in (100, 120):
        lab.write(Snapshot().topic("t", end=end, size=end * 100, groups={"g": 60}))
    lab.analyze()
    assert looks.curve(lab)[-1] == (120, "history")
    lab.write(Snapshot().topic("t", topic_id="anew", end=130, size=500))
    lab.analyze()
    assert looks.curve(lab) == [(0, "proportional"), (130, "proportional")]
    assert looks.held(lab) == {}
    assert lab.targets()["t"]["target_offset"] is None


def test_a_partition_more_begins_its_own_curve(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", end=100, groups={"g": 60}))
    grown = Snapshot().topic("t", end=120, size=12_000, groups={"g": 60})
    for table in ("partitions", "replicas"):
        grown.tables[table] += [{**row, "partition": 1} for row in grown.tables[table]]
    lab.write(grown)
    lab.analyze()
    rows = [r for r in lab.rows("reclaimable") if r["target"] == "committed"]
    assert [(r["partition"], r["target_offset"]) for r in rows] == [(0, 60), (1, None)]
    assert looks.curve(lab)[-1] == (120, "history")
    assert looks.curve(lab, 1) == [(0, "proportional"), (120, "proportional")]


def test_sizes_that_shrank_without_a_moved_log_start_scale_the_curve(lab: Lab) -> None:
    for size in (10_000, 12_000, 3_000):
        lab.write(Snapshot().topic("t", size=size, policy="compact,delete", groups={"g": 50}))
    lab.analyze()
    row = lab.targets()["t"]
    assert 0 < row["bytes_low"] <= row["bytes_likely"] <= row["bytes_high"] <= row["size_bytes"]
    assert row["size_bytes"] == 6_000


def test_null_is_unknown_in_every_column_that_may_be_null(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 60}))
    keys = {"topic_no", "partition", "topic", "broker_id", "log_dir", "group_id"}
    nothing = lab.write(Snapshot().topic("t", groups={"g": 70}).group("g", "t"))
    for table in ("topics", "partitions", "replicas", "log_dirs", "groups", "group_offsets"):

        def emptied(rows: pa.Table) -> pa.Table:
            arrays = [
                rows[f.name] if f.name in keys | {"snapshot_id", "taken_at"}
                else pa.nulls(rows.num_rows, f.type)
                for f in rows.schema
            ]  # fmt: skip
            return pa.table(arrays, schema=rows.schema)

        looks.rewritten(lab, nothing, table, emptied)
    lab.analyze()
    row = lab.targets()["t"]
    assert (row["target_offset"], row["records"], row["bytes_likely"]) == (None, None, None)
    assert looks.held(lab) == {("t", "g"): 60}, "a commit that is not known is none"
    assert lab.rows("disks")[0]["unexplained_bytes"] is None
    lab.write(Snapshot().topic("t", groups={"g": 80}))
    lab.analyze()
    assert lab.targets()["t"]["target_offset"] == 80


@pytest.mark.further
def test_a_group_of_255_odd_characters_keeps_every_one_of_them(lab: Lab) -> None:
    assert len(ODD) == 255
    lab.write(Snapshot().topic("t", groups={ODD: 50, "": 60}).group(ODD, "t").group("", "t"))
    lab.analyze()
    lab.write(Snapshot().topic("t", groups={"": 70}).group("", "t"))
    lab.analyze()
    assert looks.held(lab) == {("t", ODD): 50, ("t", ""): 70}
    assert lab.targets()["t"]["held_by"] == ODD
    assert {(b["group_id"], b["group_state"]) for b in lab.rows("blockers")} == {
        (ODD, "Gone"), ("", "Stable"),
    }  # fmt: skip
    guards = [g for g in lab.targets("high-watermark")["t"]["guards"] if ODD in g["reason"]]
    assert "unread-by-group" in {guard["name"] for guard in guards}


@pytest.mark.further
def test_no_topics_and_no_partitions_are_findings_without_rows(lab: Lab) -> None:
    lab.write(Snapshot())
    done = lab.analyze()
    assert done.tables["reclaimable"] == 0
    assert [d["broker_id"] for d in lab.rows("disks")] == [1, 2]
    bare = Snapshot().topic("t")
    bare.tables["partitions"] = bare.tables["replicas"] = []
    lab.write(bare)
    assert lab.analyze().tables["reclaimable"] == 0
    lab.write(Snapshot().topic("t", groups={"g": 50}))
    lab.write(Snapshot())
    assert lab.analyze().tables["holds"] == 1, "the topic may only be hidden from us"


def test_one_empty_snapshot_of_a_cluster_without_brokers(lab: Lab) -> None:
    writer = lab.cluster.begin("snapshots", START)
    writer.commit(1.0, {})
    assert lab.analyze().tables["reclaimable"] == 0
