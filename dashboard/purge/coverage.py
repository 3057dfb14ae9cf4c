"""What of a plan no group's offset covers: no group, never committed, or only remembered. Pure.

A partition without an offset of a group is unknown to us, not unread by it and not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dashboard.purge.plan import PlannedPartition


def coverage(partitions: Iterable[PlannedPartition]) -> list[dict[str, Any]]:
    """One row per topic, sorted, of all planned partitions, waived groups too.

    `without_group` are partitions on which no group's offset is known. `never_committed` are
    groups of the topic with the partitions where they have none; a share group that has not begun
    there counts among them. `remembered` are offsets that only kept snapshots show: expired, or
    the group is gone.
    """
    ordered = sorted(partitions, key=lambda p: p.key)
    return [_of_topic(topic, list(found)) for topic, found in groupby(ordered, lambda p: p.topic)]


def _of_topic(topic: str, partitions: list[PlannedPartition]) -> dict[str, Any]:
    known = {
        p.partition: {c.group_id: c.remembered for c in p.groups if c.committed_offset is not None}
        for p in partitions
    }
    groups = sorted({c.group_id for p in partitions for c in p.groups})
    never = {g: [p for p, by in known.items() if g not in by] for g in groups}
    remembered = {g: [p for p, by in known.items() if by.get(g)] for g in groups}
    return {
        "topic": topic,
        "partitions": len(partitions),
        "without_group": [p for p, by in known.items() if not by],
        "never_committed": _listed(never),
        "remembered": _listed(remembered),
    }


def _listed(found: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [{"group_id": g, "partitions": ids} for g, ids in found.items() if ids]
