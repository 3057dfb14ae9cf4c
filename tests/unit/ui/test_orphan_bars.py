"""A log dir's bar: orphans by kind sum to what was measured, and nothing is counted twice."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from dashboard.orphans.verdicts import missing_inventories
from dashboard.store.finding_rows import DiskRow, OrphanRow
from dashboard.ui import orphan_bars
from dashboard.ui.orphan_bars import bars

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
_DISK = DiskRow(NOW, 1, "/d", 1000, 100, live_bytes=500, inventory_at=NOW)


def disk(**columns: Any) -> DiskRow:
    return replace(_DISK, **columns)


def orphan(kind: str, size: int | None, **columns: Any) -> OrphanRow:
    return OrphanRow(1, "/d", None, None, None, kind, size, "never", **columns)


def parts(bar: orphan_bars.DirBar) -> dict[str, int]:
    return {part.word: part.size_bytes for part in bar.parts}


def test_orphans_are_told_by_kind_and_the_rest_of_what_was_measured_is_stray() -> None:
    row = disk(stray_bytes=120, orphan_bytes=60, index_bytes=7, unexplained_bytes=213)
    rows = [orphan("stray", 90), orphan("deleted-topic", 1, allocated_bytes=40),
            orphan("moved-away", 20), orphan("checkpoint-entry", None)]  # fmt: skip
    (bar,) = bars([row], rows)

    assert parts(bar) == {
        "live": 500, "indexes": 7, "deleted topic": 40, "moved away": 20, "stray": 120,
        "unexplained": 213,
    }  # fmt: skip
    assert (bar.orphan_bytes, bar.used_bytes) == (180, 900)


def test_kinds_never_add_up_to_more_than_was_measured() -> None:
    rows = [orphan("deleted-topic", 50), orphan("moved-away", 50)]
    (bar,) = bars([disk(orphan_bytes=60)], rows)  # one of them was seen earlier only

    assert bar.orphan_bytes == 60
    assert all(part.size_bytes > 0 for part in bar.parts)


def test_orphans_seen_earlier_lie_in_the_unexplained_part_and_are_told_beside_it() -> None:
    row = disk(inventory_at=None, unexplained_bytes=400)
    (bar,) = bars([row], [orphan("stray", 300)])

    assert parts(bar) == {"live": 500, "unexplained": 400}
    html = orphan_bars.bars_html([bar], NOW)
    assert "1 orphan seen earlier, not measured now" in html
    assert "no inventory" in html


def test_other_files_that_dwarf_kafkas_are_left_out_of_the_drawing_but_told() -> None:
    (bar,) = bars([disk(live_bytes=10, stray_bytes=5, unexplained_bytes=10_000)], [])

    assert [part.word for part in bar.drawn] == ["live", "stray"]
    assert "unexplained 9.8 KiB" in orphan_bars.bars_html([bar], NOW)


def test_a_log_dir_that_did_not_answer_is_hatched_with_its_reason() -> None:
    silent = DiskRow(NOW, 2, None, None, None, "no answer within <10 s>")
    html = orphan_bars.bars_html(bars([silent], []), NOW)

    assert "no answer within &lt;10 s&gt;" in html
    assert "unknown" in html


def test_lines_for_disks_that_nobody_listed_quote_what_a_shell_would_run() -> None:
    bare = [disk(inventory_at=None, log_dir="/a b", unexplained_bytes=5),
            disk(broker_id=2, inventory_at=None, unexplained_bytes=None)]  # fmt: skip
    missing = missing_inventories(map(asdict, bare))
    lines = orphan_bars.missing_lines(missing, {1: "h;rm -rf x"}).splitlines()

    assert lines[0] == (
        "lowwater inventory command --log-dirs '/a b' | ssh 'h;rm -rf x' sh > 1.listing"
    )
    assert "ssh BROKER-2 sh" in lines[2]
    assert "| ssh -- -oProxyCommand=id sh >" in orphan_bars.missing_lines(
        missing, {1: "-oProxyCommand=id"}
    )
    assert (
        orphan_bars.missing_title(missing)
        == "At least 5 B unexplained on brokers 1, 2: no inventory"
    )
