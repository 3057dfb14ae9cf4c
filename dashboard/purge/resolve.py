"""Which offset a target means on each partition: read once, then frozen in the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.errors import PlanError
from dashboard.model import OffsetAtTime, TopicPartition
from dashboard.purge.cluster_seam import Cluster
from dashboard.purge.facts import PartitionFacts, PlanFacts
from dashboard.purge.retained import Kept, kept
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


def _no_curves(_: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    return {}


def resolve(
    live: Cluster,
    facts: PlanFacts,
    target: Target,
    *,
    chosen_groups: Collection[str],
    waived: Collection[str],
    declarations: Mapping[str, TopicDeclaration],
    now: datetime,
    keeping: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]] = _no_curves,
) -> dict[TopicPartition, ResolvedTarget]:
    """The target offset of each partition, sorted; a partition that has none says why.

    `chosen_groups` empty means all groups but the waived ones. `declarations` maps a topic to
    its declaration; each replay window caps the target at the first offset inside it. `keeping`
    is `memory.offsets_keeping`, asked where a target keeps bytes. Raises PlanError
    PARTITION_NOT_FOUND for an offsets file that names one the cluster has not.
    """
    keys = _keys(facts, target)
    stays = kept(facts, keys, target, now)
    at_time = _each_at(live, facts, {k: s.since for k, s in stays.items() if s.since is not None})
    sizes = {k: s.size_bytes for k, s in stays.items() if s.size_bytes is not None}
    by_size = keeping(sizes) if sizes else {}
    windows = _window_starts(live, facts, keys, declarations, now)
    found: dict[TopicPartition, ResolvedTarget] = {}
    for key in keys:
        seen = facts.partitions[key]
        if target.kind == "committed":
            wanted = _committed(facts, seen, chosen_groups, waived)
        elif key in stays:
            wanted = _before(seen, stays[key], at_time.get(key), by_size.get(key))
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


def _before(
    seen: PartitionFacts, stays: Kept, at_time: OffsetAtTime | None, by_size: int | None
) -> ResolvedTarget:
    """All that is too old, and all that is too much: the higher of the two, if both are known."""
    found = []
    if stays.problem:
        found.append(ResolvedTarget(None, problem=stays.problem))
    if stays.since is not None:
        found.append(_at_time(seen, at_time))
    if stays.size_bytes is not None:
        found.append(_by_size(seen, by_size))
    unknown = next((f for f in found if f.problem), None)
    offsets = [f.offset for f in found if f.offset is not None]
    return unknown or ResolvedTarget(max(offsets, default=seen.log_start_offset))


def _by_size(seen: PartitionFacts, offset: int | None) -> ResolvedTarget:
    if offset is not None:
        return ResolvedTarget(offset)
    if seen.log_start_offset is not None and seen.log_start_offset == seen.high_watermark:
        return ResolvedTarget(seen.log_start_offset)
    return ResolvedTarget(None, problem="the bytes of its leader's log are not known")


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
    starts = {
        key: now - declared.replay_window
        for key in keys
        if (declared := declarations.get(key.topic)) is not None
        and declared.replay_window > timedelta(0)
    }
    return _each_at(live, facts, starts)


def _each_at(
    live: Cluster, facts: PlanFacts, times: Mapping[TopicPartition, datetime]
) -> dict[TopicPartition, OffsetAtTime]:
    """The first offset at or after each partition's own time."""
    by_time: dict[datetime, list[TopicPartition]] = {}
    for key, at in times.items():
        by_time.setdefault(at, []).append(key)
    found: dict[TopicPartition, OffsetAtTime] = {}
    for at, members in sorted(by_time.items()):
        found.update(_offsets_at(live, facts, members, at))
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
