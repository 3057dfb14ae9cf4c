"""A log dir that an inventory names and could not open was not taken stock of."""

from __future__ import annotations

from typing import Any

import pytest

from analytics.orphans import suspects
from dashboard.core.clock import format_time, parse_time
from dashboard.orphans.verdicts import missing_inventories
from tests.support.lab import START, Lab, Snapshot

SCANNED_AT = format_time(START)


def inventory(broker: int, *gaps: tuple[str | None, str], more: int = 0) -> dict[str, Any]:
    """One of /d1 and /d2 with gaps in these log dirs and paths, and some that are not named."""
    named = [{"log_dir": d, "path": path, "reason": "permission denied"} for d, path in gaps]
    return {"broker_id": broker, "log_dirs": ["/d1", "/d2"], "scanned_at": SCANNED_AT,
            "gaps": named, "gaps_total": len(named) + more}  # fmt: skip


def both_dirs() -> Snapshot:
    made = Snapshot().topic("t")
    made.tables["log_dirs"] = [
        {"broker_id": b, "log_dir": d, "total_bytes": 10**9, "usable_bytes": 5 * 10**8}
        for b in (1, 2) for d in ("/d1", "/d2")
    ]  # fmt: skip
    return made


@pytest.mark.parametrize("told", [inventory(1, ("/d2", "")), inventory(1, ("/d2", ""), more=200)])
def test_its_bytes_by_kind_are_not_known_and_its_line_is_offered(
    lab: Lab, told: dict[str, Any]
) -> None:
    lab.write(both_dirs(), inventories=[told, inventory(2, ("/d2", "t-0"))])
    lab.analyze()
    rows = lab.rows("disks")
    seen = {(r["broker_id"], r["log_dir"]): r["inventory_at"] for r in rows}
    at = parse_time(SCANNED_AT)
    assert seen == {(1, "/d1"): at, (1, "/d2"): None, (2, "/d1"): at, (2, "/d2"): at}
    of = {(r["broker_id"], r["log_dir"]): r["stray_bytes"] for r in rows}
    assert of == {(1, "/d1"): 0, (1, "/d2"): None, (2, "/d1"): 0, (2, "/d2"): 0}
    (missing,) = missing_inventories(rows)
    assert (missing.broker_id, missing.log_dirs) == (1, ("/d1", "/d2"))


def test_gaps_are_those_of_every_inventory(lab: Lab) -> None:
    told = [
        inventory(1, INSIDE, ("/d1", "a-1"), ("/d2", "")),
        inventory(2, ("/d1", "line 17"), more=1),
        inventory(3, (None, "line 4")),
    ]
    manifest = lab.cluster.manifest("snapshots", lab.write(both_dirs(), inventories=told))
    found = suspects.gaps(manifest)
    assert found.unread == {
        (1, "/d1", "a-1"), (1, "/d2", ""), (2, "/d1", suspects.ANY), (3, None, suspects.ANY),
    }  # fmt: skip
    assert (found.unopened, found.more) == ({1}, {2, 3})
    both = {(broker, log_dir) for broker in (1, 2, 3) for log_dir in ("/d1", "/d2")}
    assert set(suspects.scans(manifest)) == both - {(1, "/d2")}


INSIDE = ("/d1", "a-0/partition.metadata")


@pytest.mark.parametrize(
    ("named", "more", "hides"),
    [
        ([INSIDE] * 100, 300, False),  # files that may not be read: their folders have rows
        ([INSIDE] * 100 + [("/d1", "lost+found")], 300, False),
        ([INSIDE] * 100 + [("/d1", "a-1")] * 100, 300, True),
        ([INSIDE] * 60 + [("/d1", "a-1")] * 40, 300, True),  # of an earlier release
        ([("/d1", "a-1")] * 100, 0, False),
    ],
)
def test_gaps_inside_folders_hide_none_however_many_they_are(
    lab: Lab, named: list[tuple[str, str]], more: int, hides: bool
) -> None:
    told = [inventory(1, *named, more=more)]
    manifest = lab.cluster.manifest("snapshots", lab.write(both_dirs(), inventories=told))
    found = suspects.gaps(manifest)
    assert found.may_hide(1, "/d1", "t-0.x-stray", "stray") is hides
    assert found.may_hide(1, "/d1", "a-0", "live") is hides
