"""What counts as a second look, what is forgotten, and what is only not looked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics.orphans.orphans import Facts, verdict
from analytics.orphans.sightings import Seen, carried, key_of, step
from analytics.orphans.suspects import ANY, Gaps, Suspect

START = datetime(2026, 3, 1, 4, tzinfo=UTC)
HERE = (1, "/d1")
SUSPECT = Suspect(
    1, "/d1", "t-0", "t", 0, "id", folder="live", kind="deleted-topic", size_bytes=100,
    index_bytes=10, allocated_bytes=4096, newest_at=START, scanned_at=START, log_end_offset=100,
    assigned=False, recreated=False, has_topic=False, name_no=None, name_id=None, lives_no=None,
)  # fmt: skip
LISTED = replace(SUSPECT, scanned_at=None, topic_id=None, allocated_bytes=None, listed=True)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def look(
    before: Seen, minutes: float, *rows: Suspect, scan: float | None, proved: bool = True
) -> Seen:
    """A snapshot at `minutes` with an inventory of `scan` minutes (None: none)."""
    made = [row if row.scanned_at is None else replace(row, scanned_at=at(scan or 0))
            for row in rows]  # fmt: skip
    scans = {} if scan is None else {HERE: at(scan)}
    return step(before, made, at(minutes), scans, START, proved=proved)


def only(seen: Seen) -> dict[str, Any]:
    (row,) = seen.values()
    return row


def test_a_scan_counts_once_however_many_snapshots_carry_it() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    again = look(first, 2, SUSPECT, scan=0.5)
    assert only(again)["snapshots_seen"] == 1
    later = look(again, 3, SUSPECT, scan=2.5)
    assert only(later)["snapshots_seen"] == 2
    assert (only(later)["first_seen_at"], only(later)["last_seen_at"]) == (at(1), at(2.5))


def test_a_scan_older_than_the_snapshot_before_is_no_second_look() -> None:
    first = look({}, 2, SUSPECT, scan=0.5)
    assert only(look(first, 3, SUSPECT, scan=1.5))["snapshots_seen"] == 1


def test_what_a_look_does_not_show_is_forgotten() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    assert look(first, 2, scan=1.5) == {}


def test_where_nobody_looked_nothing_changes_until_no_snapshot_knows_it() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    assert look(first, 2, scan=None) == first
    assert step(first, [], at(9), {}, oldest=at(8), proved=True) == {}
    elsewhere = step(
        first, [], at(2), {(1, "/d2"): at(1.5), (2, "/d1"): at(1.5)}, oldest=START, proved=True
    )
    assert elsewhere == first


@pytest.mark.parametrize(
    ("gaps", "forgotten"),
    [
        (Gaps(unread=frozenset({(*HERE, "t-0")})), False),
        (Gaps(unread=frozenset({(*HERE, "")})), False),
        (Gaps(unread=frozenset({(*HERE, ANY)})), False),
        (Gaps(more=frozenset({1})), False),
        (Gaps(unread=frozenset({(*HERE, "t-1"), (2, "/d1", "t-0")}), more=frozenset({2})), True),
        (Gaps(unread=frozenset({(1, "/d2", ""), (1, "/d2", ANY)}), unopened=frozenset({1})), True),
    ],
)
def test_a_folder_that_no_look_could_read_is_not_forgotten(gaps: Gaps, forgotten: bool) -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    after = step(first, [], at(2), {HERE: at(1.5)}, START, gaps=gaps, proved=True)
    assert after == ({} if forgotten else first)


def test_an_entry_is_not_forgotten_while_a_log_dir_of_its_broker_could_not_be_opened() -> None:
    first = look({}, 1, replace(SUSPECT, folder="checkpoint"), scan=0.5)
    for broker, kept in ((1, first), (2, {})):
        gaps = Gaps(frozenset({(broker, "/d2", "")}), frozenset({broker}))
        assert step(first, [], at(2), {HERE: at(1.5)}, START, gaps=gaps, proved=True) == kept


def test_a_replica_that_is_listed_is_seen_by_every_snapshot() -> None:
    first = look({}, 1, LISTED, scan=None)
    second = look(first, 2, LISTED, scan=None)
    assert (only(second)["snapshots_seen"], only(second)["last_seen_at"]) == (2, at(2))
    assert look(second, 3, scan=None) == {}


def test_what_a_scan_told_stays_known_when_only_the_broker_lists_it() -> None:
    first = look({}, 1, replace(SUSPECT, listed=True), scan=0.5)
    second = only(look(first, 2, LISTED, scan=None))
    assert (second["topic_id"], second["allocated_bytes"], second["snapshots_seen"]) == (
        "id", 4096, 2,
    )  # fmt: skip


def test_another_topic_id_in_the_same_folder_begins_anew() -> None:
    first = look({}, 1, SUSPECT, scan=0.5)
    second = only(look(first, 2, replace(SUSPECT, topic_id="other"), scan=1.5))
    assert (second["snapshots_seen"], second["first_seen_at"]) == (1, at(2))


def test_a_checkpoint_entry_is_not_the_folder_of_the_same_name() -> None:
    entry = replace(SUSPECT, folder="checkpoint")
    assert entry.key != SUSPECT.key
    assert {*look({}, 1, SUSPECT, entry, scan=0.5)} == {entry.key, SUSPECT.key}


DAY = 24 * 60.0


def verdict_of(seen: Seen, minutes: float) -> str:
    row = only(seen)
    facts = Facts(
        "stray", "t-0.x-stray", "id", False, True, True, None, 0.001, row["first_seen_at"],
        row["last_seen_at"], row["snapshots_seen"], START - timedelta(days=30), timedelta(days=7),
    )  # fmt: skip
    return verdict(facts, now=at(minutes), delay=timedelta(hours=2), most_share=0.05).verdict


@pytest.mark.parametrize("off", [-DAY, DAY])
@pytest.mark.parametrize("row", [SUSPECT, LISTED])
def test_an_interval_counts_between_proved_clocks_alone(row: Suspect, off: float) -> None:
    """A minute before a right snapshot one was taken by a clock a day off: that is no day."""
    scan = None if row is LISTED else off - 0.5
    seen = look({}, off, row, scan=scan, proved=False)
    assert only(seen)["snapshots_seen"] == 0
    scan = None if row is LISTED else 0.5
    seen = look(seen, 1, row, scan=scan)
    assert (only(seen)["snapshots_seen"], only(seen)["first_seen_at"]) == (1, at(1))
    assert verdict_of(seen, 1) == "scheduled"
    again = look(seen, off, row, scan=None if row is LISTED else off, proved=False)
    counted = ("first_seen_at", "last_seen_at", "snapshots_seen", "looked_at")
    assert [only(again)[name] for name in counted] == [only(seen)[name] for name in counted]
    later = look(again, 119, row, scan=None if row is LISTED else 118.5)
    assert (only(later)["snapshots_seen"], verdict_of(later, 119)) == (2, "scheduled")
    ripe = look(later, 122, row, scan=None if row is LISTED else 121.5)
    assert (only(ripe)["snapshots_seen"], verdict_of(ripe, 122)) == (3, "removable")


def test_a_scan_of_a_host_whose_clock_is_behind_begins_with_the_snapshot_that_knew_it() -> None:
    seen = look({}, 1, SUSPECT, scan=-DAY)
    assert only(seen)["first_seen_at"] == at(1)
    seen = look(seen, 2, SUSPECT, scan=1.5)
    assert (only(seen)["snapshots_seen"], verdict_of(seen, 2)) == (2, "scheduled")


def test_what_earlier_versions_counted_begins_anew() -> None:
    (kept,) = look({}, 1, SUSPECT, scan=0.5).values()
    assert carried(kept, True) == kept
    seen = {key_of(kept): carried(kept, False)}
    assert only(look(seen, 500, SUSPECT, scan=499))["first_seen_at"] == at(500)
