"""What earlier purges of the same partitions had yet to free when a run began. Pure.

Brokers delete segments at their next retention check, minutes later by default: a purge that begins
before it finds them on the disks still. They are not its own, and count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard.purge.receipt.receipt_bytes import (
    BATCH_HEADER_BYTES,
    counted,
    due_bytes,
    fallen_bytes,
    record_bytes,
)

Place = tuple[str, int, int]  # topic, partition, broker id


def place(replica: Mapping[str, Any]) -> Place:
    """What names a replica in a receipt or a sample."""
    return replica["topic"], replica["partition"], replica["broker_id"]


def leaving(
    earlier: Iterable[Mapping[str, Any]], baseline: Mapping[str, Any] | None
) -> dict[Place, int]:
    """Bytes that earlier receipts, the newest first, expected to leave after `baseline`.

    For each replica the newest receipt that has it counts: what it predicted, and waited for
    itself, less what had left. As sure as its estimate was; without one the offsets count that it
    was purged by.
    """
    if baseline is None:
        return {}
    newest: dict[Place, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for receipt in earlier:
        gone = receipt.get("gone_topics", ())  # nothing of that log is left to leave
        for replica in (r for r in receipt["replicas"] if r["topic"] not in gone):
            newest.setdefault(place(replica), (replica, receipt))
    found = {}
    for now in baseline["replicas"]:
        if (known := newest.get(place(now))) is None:
            continue
        old, receipt = known
        since = (receipt["measured_at"] or "") <= now.get("taken_at", baseline["taken_at"])
        if not (receipt["final"] and since) and (left := _left(old, now, newer=since)):
            found[place(now)] = left
    return found


def _left(old: Mapping[str, Any], now: Mapping[str, Any], *, newer: bool) -> int:
    """What `old` waits for by the look `now`; 0 where it lies within what producers wrote, and is
    less than half of what was expected: brokers delete all that is due at once. A policy purges as
    much as is written meanwhile, and none of it need have left. `newer`: than the last look at
    `old`, so that it is one more.
    """
    if old.get("restarted") or old.get("undone"):  # its segments left with the log, or stay
        return 0
    size = record_bytes(old)
    expected = due_bytes(old) + old.get("earlier_bytes", 0)
    before, after = old.get("end_before"), now["log_end_offset"]
    written = 0 if before is None or after is None else max(0, after - before)
    if newer:
        fallen = fallen_bytes({**old, **counted(old, now)})
    else:
        fallen = old["before_bytes"] + round(written * size) - now["size_bytes"]
    left = int(expected - max(0, fallen))
    doubt = (written + 1) * (size + BATCH_HEADER_BYTES)
    return min(left, int(now["size_bytes"])) if left > min(doubt, expected / 2) else 0
