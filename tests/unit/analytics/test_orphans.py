"""From sightings to orphans: who has outlived enough, the evidence in words, bytes on the disk."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from analytics.orphans.broker_facts import SEGMENTS, Brokers
from analytics.orphans.orphans import judged, to_table
from analytics.orphans.suspects import Suspect
from dashboard.store.tables import FINDING_TABLES
from tests.support.one_bucket import stock

NOW = datetime(2026, 3, 8, 4, tzinfo=UTC)
BROKERS = Brokers(
    silent=frozenset(),
    log_dirs=frozenset({(1, "/d1")}),
    settings={(1, "log.retention.hours"): "24", (1, "log.segment.delete.delay.ms"): "30000"},
    held={1: (1000, 10**9)},
)


def seen(folder: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A sighting of two looks within three hours."""
    return {
        "broker_id": 1, "log_dir": "/d1", "directory": name, "topic": "t", "partition": 0,
        "topic_id": "id", "folder": folder, "kind": kind, "size_bytes": 1000, "index_bytes": 10,
        "allocated_bytes": 4096, "newest_at": NOW - timedelta(days=2), "scanned_at": NOW,
        "first_seen_at": NOW - timedelta(hours=3), "last_seen_at": NOW, "snapshots_seen": 2,
        "log_end_offset": 100,
    } | more  # fmt: skip


def today(row: dict[str, Any], **more: Any) -> Suspect:
    """The suspect of this snapshot behind a sighting."""
    facts = row | {
        "answered": True, "assigned": False, "recreated": False, "has_topic": False,
        "name_no": None, "name_id": None, "lives_no": None,
    } | more  # fmt: skip
    return Suspect(
        **{field.name: facts[field.name] for field in fields(Suspect) if field.name in facts}
    )


def told(*rows: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    now = [today(row, **more) for row in rows]
    return judged(rows, now, BROKERS, NOW, delay=timedelta(hours=2), most_share=0.05)


def test_a_stray_needs_one_look_a_delete_its_delay_and_all_others_two() -> None:
    once = {"snapshots_seen": 1, "first_seen_at": NOW}
    at_delay = {"first_seen_at": NOW - timedelta(seconds=90)}
    found = told(
        seen("stray", "stray", "a-stray", **once),
        seen("live", "moved-away", "t-0", **once),
        seen("live", "moved-away", "t-1"),
        seen("delete", "late-delete", "b-delete", **at_delay),
        seen("delete", "late-delete", "c-delete", first_seen_at=NOW - timedelta(seconds=91)),
        seen("checkpoint", "checkpoint-entry", "d-0", first_seen_at=NOW - timedelta(minutes=2)),
        seen("checkpoint", "checkpoint-entry", "e-0", first_seen_at=NOW - timedelta(seconds=121)),
    )
    assert [row["directory"] for row in found[:-1]] == ["a-stray", "t-1", "c-delete"]
    assert found[-1]["kind"] == "checkpoint-entry"


def test_all_that_a_verdict_needs_reaches_it() -> None:
    row = seen("stray", "stray", "a-stray")
    home = {"replicas": [1, 2], "isr": [1, 2], "leader_id": 1, "name_id": "now"}
    assert told(row)[0]["verdict"] == "removable"
    assert told(row, scanned_at=None)[0]["scanned_at"] == NOW, "the scan that its facts are of"
    assert told(row, **home)[0]["verdict"] == "removable"
    assert told(row, **home)[0]["current_topic_id"] == "now"
    for change, words in (
        ({"assigned": True}, "assigns"),
        (home | {"isr": [1]}, "under-replicated"),
        (home | {"leader_id": None}, "offline"),
    ):
        (found,) = told(row, **change)
        assert (found["verdict"], words in found["reason"]) == ("never", True)
    (young,) = told(row | {"newest_at": NOW - timedelta(hours=23)})
    assert (young["verdict"], young["check_at"]) == ("scheduled", NOW + timedelta(hours=1))
    (unseen,) = judged([row], [], BROKERS, NOW, delay=timedelta(hours=2), most_share=0.05)
    assert (unseen["verdict"], "take a new one" in unseen["reason"]) == ("scheduled", True)
    (untimed,) = judged(
        [row], [today(row)], BROKERS, NOW, delay=timedelta(0), most_share=1, clock="by a clock"
    )
    assert (untimed["verdict"], "taken by a clock" in untimed["reason"]) == ("scheduled", True)
    elsewhere = row | {"log_dir": "/d2"}
    assert "did not answer" in told(elsewhere)[0]["reason"]
    many = [row | {"directory": f"{n}-stray"} for n in range(51)]
    assert {r["verdict"] for r in told(*many)} == {"never"}
    assert {r["verdict"] for r in told(*many[:50])} == {"removable"}


def test_the_last_copy_of_a_partition_that_was_forced_elsewhere_never_goes() -> None:
    """Its only replica was on broker 1, dead for nine days; broker 2 was elected uncleanly."""
    row = seen("stray", "stray", "a-stray", newest_at=NOW - timedelta(days=9))
    home = {"replicas": [2], "isr": [2], "leader_id": 2, "has_topic": True, "name_id": "id"}

    def judge(start: int | None, end: int | None, more: dict[str, Any], **keeps: str) -> Any:
        settings = {"cleanup.policy": "delete", "retention.ms": "604800000"} | {
            name.replace("_", "."): value for name, value in keeps.items()
        }
        names, values = list(settings), list(settings.values())
        known = replace(BROKERS, of_topics=pa.table(
            {"name": ["t"] * len(names), "key": names, "value": values}))  # fmt: skip
        now = [today(row | more, **home, living_start=start, living_end=end)]
        (found,) = judged([row | more], now, known, NOW, delay=timedelta(hours=2), most_share=0.05)
        return found["verdict"], found["reason"], found["check_at"]

    gone = judge(100, 400, {})
    assert gone[0] == "removable" and "begins at 100, past its end at 100" in gone[1]
    assert judge(0, 5, {})[0] == "never"
    assert judge(0, 400, {})[::2] == ("scheduled", NOW + timedelta(hours=2))
    assert judge(100, 400, {}, retention_ms="-1")[0] == "never"
    assert judge(100, 400, {}, cleanup_policy="compact")[0] == "never"
    kept = judge(100, 400, {}, retention_ms=str(30 * 86_400_000))
    assert kept[::2] == ("scheduled", NOW + timedelta(days=21))
    assert judge(100, 400, {"log_end_offset": None})[0] == "never"
    assert judge(None, None, {})[0] == "never"
    assert told(row, **home)[0]["verdict"] == "never"  # no settings of it were read
    assert judge(None, None, {"size_bytes": 0})[0] == "removable"  # nothing to lose


def test_what_its_broker_has_loaded_is_never_removable_whatever_assignments_say() -> None:
    old = NOW - timedelta(days=9)
    for folder, kind, name in (
        ("live", "moved-away", "t-0"), ("live", "deleted-topic", "t-0"),
        ("future", "abandoned-future", "t-0.9a-future"),
    ):  # fmt: skip
        row = seen(folder, kind, name, size_bytes=0, newest_at=old)
        (listed,) = told(row, listed=True, told_bytes=0)
        assert (listed["verdict"], "has loaded it" in listed["reason"]) == ("never", True)
        assert told(row)[0]["verdict"] == "removable", "a copy that was laid there"


def test_an_entry_has_no_directory_and_does_not_count_as_a_folder() -> None:
    entries = [seen("checkpoint", "checkpoint-entry", f"t-{n}", partition=n) for n in range(60)]
    found = told(*entries, seen("stray", "stray", "a-stray"))
    assert {row["directory"] for row in found[:-1]} == {None}
    assert found[-1]["verdict"] == "removable"
    assert to_table(found).num_rows == 61
    kept = [name for name in FINDING_TABLES["orphans"].schema.names if name != "snapshot_id"]
    assert to_table(found).schema.names == [name for name in kept if name != "taken_at"]


def test_evidence_says_what_was_seen_by_whom_and_when() -> None:
    row = seen("live", "moved-away", "t-0")
    home = {"replicas": [2, 3], "isr": [2, 3], "leader_id": 2, "has_topic": True, "name_id": "id"}
    (found,) = told(row, **home, adding=[2], removing=[4], listed=True, told_bytes=1000)
    assert found["evidence"] == (
        "Seen 2 times, from 2026-03-08T01:00:00.000Z to 2026-03-08T04:00:00.000Z. "
        "The inventory of 2026-03-08T04:00:00.000Z shows /d1/t-0 with topic id id. "
        "DescribeLogDirs of 2026-03-08T04:00:00.000Z lists it with 1000 bytes. "
        "The metadata of 2026-03-08T04:00:00.000Z has topic t with id; partition 0 is on brokers "
        "2, 3, being reassigned: adding 2, removing 4."
    )
    (bare,) = told(row | {"scanned_at": None, "topic_id": None}, answered=False)
    assert "No inventory shows it. Broker 1 did not answer for that log dir." in bare["evidence"]


def segments(*rows: tuple[str, str, int, int]) -> pa.Table:
    """Of /d1: directory, kind, log and allocated bytes."""
    columns = list(zip(*rows, strict=True))
    return pa.table([[1] * len(rows), ["/d1"] * len(rows), columns[0], columns[1], columns[2],
                     columns[3]], names=SEGMENTS)  # fmt: skip


def test_each_folder_counts_once_in_the_stock_of_its_disk() -> None:
    disk = segments(
        ("t-0", "live", 1000, 4096), ("t-9", "live", 1000, 5000), ("a-stray", "stray", 1, 4096),
        ("b-delete", "delete", 1, 100), ("c-delete", "delete", 1, 200),
        ("d-future", "future", 10, 30),
    )  # fmt: skip
    rows = told(
        seen("stray", "stray", "a-stray"),
        seen("live", "moved-away", "t-9", allocated_bytes=5000),
        seen("delete", "late-delete", "c-delete", allocated_bytes=200),
        seen("checkpoint", "checkpoint-entry", "x-0"),
        listed=True, told_bytes=1000,
    )  # fmt: skip
    rows[1] |= {"told_bytes": 1000}
    rows[2] |= {"told_bytes": None}
    assert stock(disk, rows) == {(1, "/d1"): {
        "stray_bytes": 4096, "delete_bytes": 100, "orphan_bytes": 5200, "listed_bytes": 1000,
        "index_bytes": 3096 + 20,
    }}  # fmt: skip
    assert stock(disk.slice(0, 0), []) == {}
