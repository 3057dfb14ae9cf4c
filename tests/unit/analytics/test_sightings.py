"""What counts as a second look, what is forgotten, and what is only not looked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from analytics.sightings import Seen, key_of, step

START = datetime(2026, 3, 1, 4, tzinfo=UTC)
HERE = (1, "/d1")
SUSPECT: dict[str, Any] = {
    "broker_id": 1, "log_dir": "/d1", "directory": "t-0", "topic": "t", "partition": 0,
    "topic_id": "id", "folder": "live", "kind": "deleted-topic", "size_bytes": 100,
    "index_bytes": 10, "allocated_bytes": 4096, "newest_at": START, "scanned_at": START,
    "listed": False,
}  # fmt: skip
LISTED = SUSPECT | {"scanned_at": None, "topic_id": None, "allocated_bytes": None, "listed": True}


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def look(before: Seen, minutes: float, *rows: dict[str, Any], scan: float | None) -> Seen:
    """A snapshot at `minutes` with an inventory of `scan` minutes (None: none)."""
    made = [row if row["scanned_at"] is None else row | {"scanned_at": at(scan or 0)}
            for row in rows]  # fmt: skip
    scans = {} if scan is None else {HERE: at(scan)}
    return step(before, made, at(minutes), scans, oldest=START)


def only(seen: Seen) -> dict[str, Any]:
    (row,) = seen.values()
    return row


def test_a_scan_counts_once_however_many_snapshots_carry_it() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    again = look(first, 2, SUSPECT, scan=0.5)
    assert only(again)["snapshots_seen"] == 1
    later = look(again, 3, SUSPECT, scan=2.5)
    assert only(later)["snapshots_seen"] == 2
    assert (only(later)["first_seen_at"], only(later)["last_seen_at"]) == (at(0.5), at(2.5))


def test_a_scan_older_than_the_snapshot_before_is_no_second_look() -> None:
    first = look({}, 2, SUSPECT, scan=0.5)
    assert only(look(first, 3, SUSPECT, scan=1.5))["snapshots_seen"] == 1


def test_what_a_look_does_not_show_is_forgotten() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    assert look(first, 2, scan=1.5) == {}


def test_where_nobody_looked_nothing_changes_until_no_snapshot_knows_it() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    assert look(first, 2, scan=None) == first
    assert step(first, [], at(9), {}, oldest=at(8)) == {}
    elsewhere = step(first, [], at(2), {(1, "/d2"): at(1.5), (2, "/d1"): at(1.5)}, oldest=START)
    assert elsewhere == first


def test_a_replica_that_is_listed_is_seen_by_every_snapshot() -> None:
    first = look({}, 1, LISTED, scan=None)
    second = look(first, 2, LISTED, scan=None)
    assert (only(second)["snapshots_seen"], only(second)["last_seen_at"]) == (2, at(2))
    assert look(second, 3, scan=None) == {}


def test_what_a_scan_told_stays_known_when_only_the_broker_lists_it() -> None:
    first = look({}, 1, SUSPECT | {"listed": True}, scan=0.5)
    second = only(look(first, 2, LISTED, scan=None))
    assert (second["topic_id"], second["allocated_bytes"], second["snapshots_seen"]) == (
        "id", 4096, 2,
    )  # fmt: skip


def test_another_topic_id_in_the_same_folder_begins_anew() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    second = only(look(first, 2, SUSPECT | {"topic_id": "other"}, scan=1.5))
    assert (second["snapshots_seen"], second["first_seen_at"]) == (1, at(1.5))


def test_a_checkpoint_entry_is_not_the_folder_of_the_same_name() -> None:
    assert key_of(SUSPECT) != key_of(SUSPECT | {"folder": "checkpoint"})
