"""What of a plan no group's offset covers: none, one past the end, or only remembered. Pure.

A partition without an offset of a group is unknown to us, not unread by it and not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

from dashboard.purge.plan import PlannedPartition


def coverage(partitions: Iterable[PlannedPartition]) -> list[dict[str, Any]]:
    """One row per topic of planned partitions, sorted as a plan's are; waived groups count too.

    `without_group` are partitions on which no group's offset tells how far it has read.
    `never_committed` are groups of the topic with the partitions where they have none; a share
    group that has not begun there counts among them. `past_end` are offsets past the end of the
    log, or of their leader epoch in it, which tell nothing. `remembered` are offsets that only
    kept snapshots show: expired, or the group is gone.
    """
    by_topic = groupby(partitions, attrgetter("topic"))
    return [_of_topic(topic, list(found)) for topic, found in by_topic]


def _of_topic(topic: str, partitions: list[PlannedPartition]) -> dict[str, Any]:
    with_offset: dict[str, set[int]] = {}
    remembered: dict[str, list[int]] = {}
    past_end: dict[str, list[int]] = {}
    without = []
    for p in partitions:
        nobody = True
        for group_id in p.accepted:
            with_offset.setdefault(group_id, set())
        for claim in p.groups:
            known = with_offset.setdefault(claim.group_id, set())
            if claim.committed_offset is not None:
                known.add(p.partition)
                if p.told(claim) is None:
                    past_end.setdefault(claim.group_id, []).append(p.partition)
                    continue
                nobody = False
                if claim.remembered:
                    remembered.setdefault(claim.group_id, []).append(p.partition)
        if nobody:
            without.append(p.partition)
    never = {
        group_id: [p.partition for p in partitions if p.partition not in known]
        for group_id, known in with_offset.items()
        if len(known) < len(partitions)
    }
    return {
        "topic": topic,
        "partitions": len(partitions),
        "without_group": without,
        "never_committed": _listed(never),
        "past_end": _listed(past_end),
        "remembered": _listed(remembered),
    }


def _listed(found: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [{"group_id": group_id, "partitions": found[group_id]} for group_id in sorted(found)]
