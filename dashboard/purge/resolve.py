"""Which offset a target means on each partition: read once, then frozen in the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.errors import PlanError
from dashboard.model import OffsetAtTime, TopicPartition
from dashboard.purge.cluster_seam import Cluster
from dashboard.purge.facts import PartitionFacts, PlanFacts
from dashboard.purge.targets import HIGH_WATERMARK, Target
from dashboard.settings import TopicDeclaration


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """The frozen offset, or None with `problem` (None too when no group ever committed).

    `capped_by` names what lowered it: `replay-window` or `last-stable-offset`.
    """

    offset: int | None
    capped_by: str | None = None
    problem: str | None = None


def resolve(
    live: Cluster,
    facts: PlanFacts,
    target: Target,
    *,
    chosen_groups: Collection[str],
    waived: Collection[str],
    declarations: Mapping[str, TopicDeclaration],
    now: datetime,
) -> dict[TopicPartition, ResolvedTarget]:
    """The target offset of each partition, sorted; a partition that has none says why.

    `chosen_groups` empty means all groups but the waived ones. `declarations` maps a topic to
    its declaration; each replay window caps the target at the first offset inside it. Raises
    PlanError PARTITION_NOT_FOUND for an offsets file that names one the cluster has not.
    """
    keys = _keys(facts, target)
    at_time = _offsets_at(live, facts, keys, target.at) if target.at is not None else {}
    windows = _window_starts(live, facts, keys, declarations, now)
    found: dict[TopicPartition, ResolvedTarget] = {}
    for key in keys:
        seen = facts.partitions[key]
        if target.kind == "committed":
            wanted = _committed(facts, seen, chosen_groups, waived)
        elif target.kind == "timestamp":
            wanted = _at_time(seen, at_time.get(key))
        else:
            wanted = _typed(target, seen)
        found[key] = _capped(seen, wanted, windows.get(key))
    return found


def _keys(facts: PlanFacts, target: Target) -> list[TopicPartition]:
    if target.offsets is None:
        return sorted(facts.partitions)
    for key in sorted(target.offsets):
        if key not in facts.partitions:
            raise PlanError(
                f"{key.topic} has no partition {key.partition}",
                "Correct the offsets file: the cluster does not have that partition.",
                code="PARTITION_NOT_FOUND",
            )
    return sorted(target.offsets)


def _committed(
    facts: PlanFacts, seen: PartitionFacts, chosen: Collection[str], waived: Collection[str]
) -> ResolvedTarget:
    offsets = [
        claim.committed_offset
        for claim in facts.claims.get(seen.key, ())
        if claim.committed_offset is not None
        and claim.group_id not in waived
        and (not chosen or claim.group_id in chosen)
    ]
    if offsets:
        lowest = min(offsets)
        # Consumers that read uncommitted records commit past an open transaction.
        if seen.last_stable_offset is not None and lowest > seen.last_stable_offset:
            return ResolvedTarget(seen.last_stable_offset, capped_by="last-stable-offset")
        return ResolvedTarget(lowest)
    if seen.log_start_offset is not None and seen.log_start_offset == seen.high_watermark:
        return ResolvedTarget(seen.log_start_offset)
    return ResolvedTarget(None)


def _at_time(seen: PartitionFacts, answer: OffsetAtTime | None) -> ResolvedTarget:
    if answer is None or answer.error:
        why = answer.error if answer else "no answer"
        return ResolvedTarget(None, problem=f"the look-up by time failed ({why})")
    if answer.offset is None or answer.offset < 0:
        # Kafka answers -1 when no record is that young; -1 sent on would empty the partition.
        if seen.log_start_offset is not None and seen.log_start_offset == seen.high_watermark:
            return ResolvedTarget(seen.log_start_offset)
        return ResolvedTarget(None, problem="no record is as young as that time")
    return ResolvedTarget(answer.offset)


def _typed(target: Target, seen: PartitionFacts) -> ResolvedTarget:
    typed = target.offset if target.offsets is None else target.offsets[seen.key]
    if target.kind == "high-watermark" or typed == HIGH_WATERMARK:
        return ResolvedTarget(seen.high_watermark, problem=seen.error)
    return ResolvedTarget(typed)


def _capped(
    seen: PartitionFacts, wanted: ResolvedTarget, window: OffsetAtTime | None
) -> ResolvedTarget:
    if seen.log_start_offset is None or seen.high_watermark is None:
        return ResolvedTarget(None, problem=f"its offsets cannot be read ({seen.error})")
    if wanted.offset is None:
        return wanted
    if window is not None and window.error:
        return ResolvedTarget(
            None, problem=f"the start of its replay window cannot be read ({window.error})"
        )
    offset, capped_by = wanted.offset, wanted.capped_by
    if window is not None and window.offset is not None and 0 <= window.offset < offset:
        offset, capped_by = window.offset, "replay-window"
    # Below the log start nothing is left to delete: raising it there deletes nothing more.
    return ResolvedTarget(max(offset, seen.log_start_offset), capped_by)


def _window_starts(
    live: Cluster,
    facts: PlanFacts,
    keys: Iterable[TopicPartition],
    declarations: Mapping[str, TopicDeclaration],
    now: datetime,
) -> dict[TopicPartition, OffsetAtTime]:
    by_window: dict[timedelta, list[TopicPartition]] = {}
    for key in keys:
        declared = declarations.get(key.topic)
        if declared is not None and declared.replay_window > timedelta(0):
            by_window.setdefault(declared.replay_window, []).append(key)
    found: dict[TopicPartition, OffsetAtTime] = {}
    for window, members in sorted(by_window.items()):
        found.update(_offsets_at(live, facts, members, now - window))
    return found


def _offsets_at(
    live: Cluster, facts: PlanFacts, keys: Iterable[TopicPartition], at: datetime
) -> dict[TopicPartition, OffsetAtTime]:
    # Time look-ups read the log: ask only where there are records.
    asked = [
        key
        for key in keys
        if facts.partitions[key].log_start_offset != facts.partitions[key].high_watermark
    ]
    found = live.offsets_at(asked, at) if asked else {}
    missing = {
        key: OffsetAtTime(key.topic, key.partition, None, "no answer")
        for key in asked
        if key not in found
    }
    empty = {key: OffsetAtTime(key.topic, key.partition, None) for key in keys if key not in asked}
    return {**empty, **missing, **found}
