"""What a plan would do, as an operator reads it before confirming: the CLI contract's object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from dashboard.core.clock import format_time
from dashboard.purge.plan.moves import planned_moves
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.plan_json import INTERVAL, decisions

_BYTES = ("bytes_at_once", *INTERVAL)


def preview(plan: Plan, now: datetime) -> dict[str, Any]:
    """The contract's keys, with totals over the free partitions and what each group would lose."""
    return {
        "plan_id": plan.plan_id,
        "sha256": plan.sha256,
        "confirmation": plan.confirmation,
        "created_at": format_time(plan.created_at),
        "expires_at": format_time(plan.expires_at),
        "expired": plan.expired(now),
        "cluster_id": plan.cluster_id,
        "cluster_name": plan.cluster_name,
        "target": plan.target,
        "partitions": [_row(p) for p in plan.partitions],
        "groups": _groups(plan),
        "coverage": coverage(plan.partitions),
        "totals": _totals(plan),
        "waivers": [
            {"group_id": w.group_id, "reason": w.reason, "by": w.by, "at": format_time(w.at),
             "move": w.move, "alive": w.alive}
            for w in plan.waivers
        ],
        "moves": [
            {"group_id": m.group_id, "topic": m.topic, "partition": m.partition,
             "from_offset": m.from_offset, "to_offset": m.to_offset}
            for m in planned_moves(plan)
        ],
        "declarations": decisions(plan)["declarations"],
        "unseen_readers": [r.to_json() for r in plan.readings],
        "overrides": [
            {"name": o.name, "group_id": o.group_id, "reason": o.reason, "by": o.by,
             "at": format_time(o.at)}
            for o in plan.overrides
        ],
        "rights_missing": None if plan.rights_missing is None else [
            right.to_json() for right in plan.rights_missing
        ],
    }  # fmt: skip


def _row(p: PlannedPartition) -> dict[str, Any]:
    return {
        "topic": p.topic,
        "partition": p.partition,
        "log_start_offset": p.log_start_offset,
        "target_offset": p.target_offset,
        "last_stable_offset": p.last_stable_offset,
        "high_watermark": p.high_watermark,
        "records": p.records,
        **{name: getattr(p.estimate, name, None) for name in _BYTES},
        "method": p.estimate.method if p.estimate else None,
        "capped_by": p.capped_by,
        "guards": [g.to_json() for g in p.guards],
    }


def _totals(plan: Plan) -> dict[str, Any]:
    free = plan.free_partitions
    measured = [p.estimate.bytes_at_once for p in free if p.estimate]
    known = [size for size in measured if size is not None]
    sums = {name: _sum(getattr(p.estimate, name) for p in free if p.estimate) for name in INTERVAL}
    methods = Counter(p.estimate.method for p in free if p.estimate)
    return {
        "topics": len({p.topic for p in free}),
        "partitions": len(plan.partitions),
        "free_partitions": len(free),
        "guarded_partitions": len(plan.partitions) - len(free),
        "records": sum(p.records or 0 for p in free),
        "bytes_at_once": sum(known) if known else None,
        **sums,
        "unmeasured_partitions": len(free) - len(known),
        "methods": dict(sorted(methods.items())),
    }


def _sum(sizes: Iterable[int | None]) -> int | None:
    """None where one is unknown, as in plans of older journals: a part of a range is no range."""
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return sum(known) if known and len(known) == len(listed) else None


def _groups(plan: Plan) -> list[dict[str, Any]]:
    """Each group on the planned partitions, and the range of what it would lose.

    A group left behind the log start resets to earliest (it loses what lies below the target)
    or to latest (all up to the log end); Kafka does not show which. One without an offset that
    tells may want everything.
    """
    waived = {w.group_id: w.reason for w in plan.waivers}
    rows: dict[str, dict[str, Any]] = {}
    for p in plan.partitions:
        for group_id, remembered, place in p.places:
            row = rows.setdefault(
                group_id,
                {
                    "group_id": group_id,
                    "waived": group_id in waived,
                    "reason": waived.get(group_id),
                    "remembered": True,
                    "partitions": 0,
                    "records_unread_below_targets": 0,
                    "loss_if_earliest": 0,
                    "loss_if_latest": 0,
                },
            )
            row["remembered"] = row["remembered"] and remembered
            row["partitions"] += 1
            _add_loss(row, p, place)
    return [rows[group_id] for group_id in sorted(rows)]


def _add_loss(row: dict[str, Any], p: PlannedPartition, place: int | None) -> None:
    if p.target_offset is None:
        return
    # Whose place nobody can tell may want all that is there.
    start = max(0 if place is None else place, p.log_start_offset or 0)
    if start >= p.target_offset:
        return
    row["records_unread_below_targets"] += p.target_offset - start
    if p.free:
        row["loss_if_earliest"] += p.target_offset - start
        row["loss_if_latest"] += max(p.target_offset, p.high_watermark or 0) - start


# What of a plan no group's offset covers: none, one past the end, or only remembered. Pure.
#
# A partition without an offset of a group is unknown to us, not unread by it and not read.


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
