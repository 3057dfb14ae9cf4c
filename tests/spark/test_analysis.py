"""One snapshot with known truth in, every findings table out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dashboard.core.errors import StoreError
from tests.support.lab import Lab, Snapshot, names

pytestmark = pytest.mark.spark


def test_every_kind_of_topic_gets_its_target_bytes_and_guards(lab: Lab) -> None:
    snapshot = (
        Snapshot()
        .topic("read", groups={"slow": 50, "fast": 90})
        .topic("unread-by-all")
        .topic("dead", groups={"gone": 10})
        .topic("compacted", policy="compact", groups={"fast": 90})
        .topic("undeclared", groups={"fast": 90})
        .topic("open-transaction", stable=60, groups={"fast": 90})
        .topic("one-replica-known", brokers=(1,), groups={"fast": 50})
        .topic("unmeasured", brokers=(), groups={"fast": 50})
        .topic("behind", isr=(1,), groups={"fast": 50})
        .topic("_schemas", groups={"fast": 50})
        .topic("tiered", groups={"fast": 50}, remote__storage__enable="true")
        .group("fast", "read", "dead")
        .group("slow")
    )
    lab.write(snapshot)

    done = lab.analyze()

    assert done.tables["reclaimable"] == 22
    committed, end = lab.targets(), lab.targets("high-watermark")

    read = committed["read"]
    assert (read["target_offset"], read["records"], read["replicas"]) == (50, 50, 2)
    # 10,000 bytes over 100 offsets, two replicas; where segments of 1,000 begin is not known, so
    # half a segment less than what lies below offset 50 is likely to be whole.
    assert read["bytes_likely"] == 10_000
    assert read["bytes_low"] < 10_000 < read["bytes_high"] < read["size_bytes"] == 20_000
    assert read["bytes_at_once"] == 9_000
    assert (read["held_bytes"], read["held_by"], read["guards"]) == (10_000, "slow", [])
    assert (read["method"], read["readers_declared"]) == ("proportional", True)
    # At the high watermark nothing is guessed, but the active segment stays in each replica.
    assert end["read"]["bytes_low"] == end["read"]["bytes_high"] == 20_000
    assert end["read"]["bytes_at_once"] == 18_000
    assert names(end["read"]) == ["unread-by-group", "unread-by-group"]
    assert "Group slow committed 50: 50 records" in end["read"]["guards"][0]["reason"]

    unknown = committed["unread-by-all"]
    assert (unknown["target_offset"], unknown["bytes_likely"], unknown["records"]) == (None,) * 3
    assert unknown["bytes_at_once"] is None
    assert names(unknown) == ["no-committed-offset"]
    assert "no-committed-offset" in names(end["unread-by-all"])

    assert names(committed["dead"]) == ["members-without-commits"]
    assert names(committed["compacted"]) == ["not-deletable"]
    assert names(committed["undeclared"]) == ["readers-undeclared"]
    assert names(committed["_schemas"]) == ["system-topic"]
    assert names(committed["behind"]) == ["under-replicated"]
    assert names(committed["tiered"]) == ["remote-storage"]
    assert committed["open-transaction"]["target_offset"] == 60
    assert "beyond-last-stable-offset" in names(end["open-transaction"])
    partly = committed["one-replica-known"]
    assert (partly["method"], partly["bytes_likely"]) == ("proportional, 1 of 2 replicas", 5_000)
    unmeasured = committed["unmeasured"]
    assert (unmeasured["method"], unmeasured["bytes_likely"]) == ("not measurable", None)

    blockers = {(b["group_id"], b["topic"]): b for b in lab.rows("blockers")}
    slow, fast = blockers["slow", "read"], blockers["fast", "read"]
    assert (slow["bytes_held_alone"], slow["bytes_freed_if_waived"]) == (8_000, 8_000)
    assert (fast["bytes_held_alone"], fast["bytes_freed_if_waived"]) == (0, 0)
    gone = blockers["gone", "dead"]  # nobody else has read there: a plan without it is guarded
    assert (gone["bytes_held_alone"], gone["bytes_freed_if_waived"]) == (18_000, 0)
    assert blockers["gone", "dead"]["group_state"] == "Gone"
    assert blockers["fast", "compacted"]["bytes_held_alone"] == 0

    curve = [c for c in lab.rows("curves") if c["topic"] == "read" and c["broker_id"] == 1]
    assert [(c["offset"], c["bytes_below"]) for c in curve] == [(0, 0), (100, 10_000)]

    first, second = lab.rows("disks")
    # read 4,500 + undeclared 8,500 + open-transaction 5,500 + one-replica-known 4,500
    assert first["reclaimable_bytes"] == 23_000
    assert second["reclaimable_bytes"] == 18_500
    assert first["live_bytes"] + first["reclaimable_bytes"] + first["held_bytes"] == 100_000
    assert (first["unexplained_bytes"], first["measured"]) == (500_000_000 - 100_000, True)

    quality = {(q["table"], q["broker_id"]): q for q in lab.rows("quality")}
    assert quality["replicas", 1]["complete"] is False
    assert (quality["replicas", 1]["rows"], quality["replicas", 1]["expected_rows"]) == (10, 11)
    assert quality["groups", None]["complete"] is True


def test_a_group_that_is_gone_or_moves_is_remembered(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"gone": 10, "moves": 20}).topic("new", groups={"g": 9}))
    lab.analyze()
    assert {h["last_commit_at"] for h in lab.rows("holds")} == {None}
    # This one is never analyzed by itself, and shows a group that comes and goes.
    lab.write(Snapshot().topic("t", groups={"moves": 30, "brief": 5}))
    moved = Snapshot().topic("t", groups={"moves": 30}).topic("new", topic_id="other", end=50)
    lab.write(moved)

    lab.analyze()

    holds = {(h["topic"], h["group_id"]): h for h in lab.rows("holds")}
    assert set(holds) == {("t", "gone"), ("t", "moves"), ("t", "brief")}, "new was recreated"
    assert holds["t", "gone"]["committed_offset"] == 10
    assert holds["t", "gone"]["last_commit_at"] is None
    assert holds["t", "moves"]["last_commit_at"].minute == 2
    assert holds["t", "moves"]["last_seen_at"].minute == 3
    assert lab.targets()["t"]["target_offset"] == 5
    assert lab.targets()["new"]["target_offset"] is None
    incremental = lab.rows("holds")
    lab.analyze(full=True)
    assert lab.rows("holds") == incremental


@pytest.mark.further
def test_a_replay_window_is_bounded_by_a_snapshot_that_is_old_enough(lab: Lab) -> None:
    lab.write(Snapshot().topic("replayed", end=40, groups={"g": 40}))
    lab.analyze()
    assert lab.targets()["replayed"]["target_offset"] is None
    assert "replay window" in lab.targets()["replayed"]["method"]
    lab.minutes += 2
    lab.write(Snapshot().topic("replayed", end=100, groups={"g": 90}))
    lab.analyze()
    assert lab.targets()["replayed"]["target_offset"] == 40


@pytest.mark.further
def test_an_incomplete_group_list_guards_every_partition(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 50}), incomplete=["no DESCRIBE on the cluster"])
    lab.analyze()
    rows = lab.rows("reclaimable")
    assert all(names(row)[0] == "groups-incomplete" for row in rows)
    assert "no DESCRIBE on the cluster" in rows[0]["guards"][0]["reason"]


@pytest.mark.further
def test_a_damaged_snapshot_is_named_and_leaves_no_findings(lab: Lab) -> None:
    snapshot_id = lab.write(Snapshot().topic("t", groups={"g": 50}))
    path = f"{lab.cluster.path}/snapshots/{snapshot_id}/replicas.parquet"
    with lab.cluster.fs.open(path, "wb") as file:
        file.write(b"PAR1 half a file")
    with pytest.raises(StoreError, match=r"replicas\.parquet") as caught:
        lab.analyze()
    assert caught.value.code == "STORE_UNREADABLE"
    assert lab.cluster.ids("findings") == []
    with pytest.raises(StoreError) as unknown:
        lab.analyze(snapshot_id="20260101T000000000Z-dead")
    assert unknown.value.code == "SNAPSHOT_NOT_FOUND"


def test_an_application_is_remembered_as_long_as_its_offsets_or_a_snapshot_are(lab: Lab) -> None:
    """Its group expires: its table's source stays guarded in the findings and for the next ones."""

    def told() -> dict[str, str]:
        details = lab.cluster.manifest("findings", lab.cluster.latest_analysis()).details
        return dict(details["streams_groups"])

    def guarded() -> list[str]:
        return [g["reason"] for g in lab.targets()["t"]["guards"] if g["name"] == SOURCE]

    SOURCE = "changelog-source"
    app = Snapshot().topic("t", groups={"app": 60}).group("app", is_streams=True)
    first = lab.write(app.group("global", is_streams=True))
    lab.analyze()
    assert told() == {"app": first, "global": first}
    last = lab.write(Snapshot().topic("t"))
    lab.analyze()
    assert told() == {"app": first, "global": first}
    assert ["application app reads it" in reason for reason in guarded()] == [True]
    shutil.rmtree(f"{lab.cluster.path}/snapshots/{first}")
    for full in (False, True):
        lab.analyze(full=full)
        assert told() == {"app": first}, "an offset of it is held, of the other nothing is left"
        assert len(guarded()) == 1
    lab.write(Snapshot().topic("t", groups={"app": 70}).group("app"))
    lab.analyze()
    assert len(guarded()) == 1, "a hand set its offsets, and what told it is gone"
    assert last in lab.cluster.ids("snapshots")


@pytest.mark.further
def test_an_analysis_of_an_earlier_version_kept_none_so_all_snapshots_tell(lab: Lab) -> None:
    first = lab.write(Snapshot().topic("t", groups={"app": 60}).group("app", is_streams=True))
    done = lab.analyze()
    path = Path(f"{lab.cluster.path}/findings/{done.analysis_id}/manifest.json")
    told = json.loads(path.read_text())
    del told["details"]["streams_groups"]
    path.write_text(json.dumps(told))
    lab.write(Snapshot().topic("t"))
    lab.analyze()
    details = lab.cluster.manifest("findings", lab.cluster.latest_analysis()).details
    assert details["holds_from"] == done.analysis_id
    assert details["streams_groups"] == {"app": first}
