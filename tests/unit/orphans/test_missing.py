"""A disk that nobody listed is never passed over: its bytes, and the line that lists it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dashboard.inventory.listing import shell_line
from dashboard.orphans.verdicts import missing_inventories


def disk(broker: int, log_dir: str | None, unexplained: int | None, **more: Any) -> dict[str, Any]:
    return {"broker_id": broker, "log_dir": log_dir, "unexplained_bytes": unexplained,
            "inventory_at": None, **more}  # fmt: skip


def test_each_broker_without_an_inventory_gets_the_line_of_all_its_log_dirs() -> None:
    seen = datetime(2026, 3, 1, tzinfo=UTC)
    first, third, fourth = missing_inventories([
        disk(9, "/b", 41 * 2**30, inventory_at=seen),
        disk(3, "/b", 2**30), disk(3, "/a", 40 * 2**30),
        disk(1, "/a", 5, inventory_at=seen), disk(1, "/c", 7),
        disk(4, "/a", None),
        disk(5, None, None),
    ])  # fmt: skip

    assert (third.broker_id, third.log_dirs, third.unexplained_bytes) == (
        3, ("/a", "/b"), 41 * 2**30,
    )  # fmt: skip
    assert third.said == "unexplained: 41.0 GiB on broker 3; run this line there"
    assert third.line == shell_line(["/a", "/b"])
    assert (fourth.broker_id, fourth.unexplained_bytes) == (4, None)
    assert "an unknown part of the disk on broker 4" in fourth.said
    assert (first.broker_id, first.log_dirs, first.unexplained_bytes) == (1, ("/a", "/c"), 7)


def test_where_every_disk_was_listed_nothing_is_missing() -> None:
    seen = datetime(2026, 3, 1, tzinfo=UTC)
    assert missing_inventories([disk(1, "/a", 5, inventory_at=seen)]) == []
