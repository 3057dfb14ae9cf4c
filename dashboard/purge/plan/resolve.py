"""Which offset a target means on each partition: read once, then frozen in the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.core.errors import PlanError
from dashboard.domain.model import OffsetAtTime, TopicPartition
from dashboard.history.epoch_ends import read_lost
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts, PlanFacts
from dashboard.purge.plan.targets import HIGH_WATERMARK, Kept, Target, kept
from dashboard.safety.guard_texts import (
    NO_SNAPSHOT,
    RESTARTED,
    SHORTENED,
    UNMEASURED,
    UNREAD,
    UNTOLD,
)
from dashboard.settings.settings import TopicDeclaration


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """The frozen offset, or None with `problem` (None too when no group ever committed).

    `capped_by` names what lowered it: `replay-window` or `last-stable-offset`.
    """

    offset: int | None
    capped_by: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a log ended in a kept snapshot, and the leader epoch in it; None: it does not tell.

    By its leader's high watermark, or where bytes are counted by the leader's own log end.
    """

    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Keeping:
    """An offset at or above which as many bytes lie as were asked for (None: all has to stay), in
    the log that ended at `end` when it was measured (None: no snapshot tells any more where).
    """

    offset: int | None
    end: LogEnd | None


def _no_curves(_: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Keeping]:
    return {}


def _nothing_kept(_: Mapping[TopicPartition, datetime]) -> Mapping[TopicPartition, LogEnd]:
    return {}


@dataclass(frozen=True)
class History:
    """What the store adds to live reads; without one nothing older than now is known.

    `keeping` is `memory.offsets_keeping`, asked where a target keeps bytes. `ends_before` is
    `memory.ends_before`: each partition's log end in a kept snapshot taken at its time or before,
    asked where records must stay for a time.
    """

    keeping: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Keeping]] = _no_curves
    ends_before: Callable[[Mapping[TopicPartition, datetime]], Mapping[TopicPartition, LogEnd]] = (
        _nothing_kept
    )


def resolve(
    live: Cluster,
    facts: PlanFacts,
    target: Target,
    *,
    chosen_groups: Collection[str],
    waived: Collection[str],
    declarations: Mapping[str, TopicDeclaration],
    now: datetime,
    history: History | None = None,
) -> dict[TopicPartition, ResolvedTarget]:
    """The target offset of each partition, sorted; a partition that has none says why.

    `chosen_groups` empty means all groups but the waived ones. `declarations` maps a topic to
    its declaration; each replay window caps the target at the first offset that may lie inside
    it. By a clock that is wrong there is none. Raises PlanError PARTITION_NOT_FOUND for an offsets
    file that names one the cluster has not.
    """
    # Loads tables, which a purge's processes can do without until they plan or judge.
    from dashboard.purge.plan import standing

    known = history or History()
    keys = _keys(facts, target)
    if facts.wrong_clock is not None:
        return dict.fromkeys(keys, ResolvedTarget(None, problem=facts.wrong_clock))
    if target.kind == "committed":
        lowest = standing.lowest(facts, keys, chosen_groups, waived)
        wanted = {key: ResolvedTarget(offset) for key, offset in lowest.items()}
    else:
        wanted = _asked(live, facts, target, keys, now=now, history=known)
    windows = replay_windows(live, facts, keys, declarations, now=now, history=known)
    offsets = {key: wanted[key].offset for key in keys}
    rows = standing.capped(facts, offsets, windows, is_committed=target.kind == "committed")
    return {
        key: ResolvedTarget(offset, capped_by)
        if offset is not None
        else ResolvedTarget(None, problem=_problem(facts.partitions[key], wanted[key], problem))
        for key, (offset, capped_by, problem) in rows.items()
    }


def _problem(seen: PartitionFacts, wanted: ResolvedTarget, problem: str | None) -> str | None:
    """Why there is no target; None: no group's offset tells one."""
    if problem == UNREAD and seen.error:
        return f"{problem} ({seen.error})"
    return problem or wanted.problem


def _asked(
    live: Cluster,
    facts: PlanFacts,
    target: Target,
    keys: list[TopicPartition],
    *,
    now: datetime,
    history: History,
) -> dict[TopicPartition, ResolvedTarget]:
    """What was asked for by offset, time or size, before any cap."""
    stays = kept(facts, keys, target, now)
    since = {k: s.since for k, s in stays.items() if s.since is not None}
    at_time = _each_at(live, facts, since)
    # What is kept is kept by the time of its writing: records may bear much older times.
    kept_ends = target.kind == "keep" and bool(since)
    ends = _left(live, facts, history.ends_before(since)) if kept_ends else None
    sizes = {k: s.size_bytes for k, s in stays.items() if s.size_bytes is not None}
    by_size = history.keeping(sizes) if sizes else {}
    measured = _left(live, facts, {k: m.end for k, m in by_size.items() if m.end is not None})
    found = {}
    for key in keys:
        seen = facts.partitions[key]
        if key not in stays:
            found[key] = _typed(target, seen)
            continue
        aged = _at_time(seen, at_time.get(key))
        if ends is not None and key in since:
            aged = _written_before(seen, at_time.get(key), ends.get(key), target.keep)
        sized = _by_size(seen, by_size.get(key), measured.get(key))
        found[key] = _before(stays[key], aged, sized, seen.log_start_offset)
    return found


def kept_longer(
    live: Cluster,
    facts: PlanFacts,
    planned: Mapping[TopicPartition, int],
    *,
    now: datetime,
    history: History,
) -> dict[TopicPartition, Window]:
    """Where the topics' own retention keeps more by now than when it was `planned` as the target:
    the first offset that it keeps, or why nobody knows.

    Somebody who lengthens a retention wants what is there to stay.
    """
    target = Target("retention")
    found = _asked(live, facts, target, sorted(planned), now=now, history=history)
    return {
        key: Window(now_kept.offset, now_kept.problem, passes=now_kept.offset is None)
        for key, now_kept in found.items()
        if now_kept.offset is None or now_kept.offset < planned[key]
    }


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


def _before(
    stays: Kept, aged: ResolvedTarget, sized: ResolvedTarget, start: int | None
) -> ResolvedTarget:
    """All that is too old, and all that is too much: the higher of the two, if both are known."""
    found = []
    if stays.problem:
        found.append(ResolvedTarget(None, problem=stays.problem))
    if stays.since is not None:
        found.append(aged)
    if stays.size_bytes is not None:
        found.append(sized)
    unknown = next((f for f in found if f.problem), None)
    offsets = [f.offset for f in found if f.offset is not None]
    return unknown or ResolvedTarget(max(offsets, default=start))


def _by_size(seen: PartitionFacts, found: Keeping | None, left: int | str | None) -> ResolvedTarget:
    """`left`: up to which offset the log that was measured is in the log by now, or why nobody
    knows. What was lost since no longer counts among the bytes that stay, nor what still can be
    without anybody's fault: a clean election keeps what lies below the high watermark alone.
    """
    if seen.is_empty:
        return ResolvedTarget(seen.log_start_offset)
    if found is None:
        return ResolvedTarget(None, problem="the bytes of its leader's log are not known")
    if isinstance(left, str):
        return ResolvedTarget(None, problem=left)
    if found.end is None or left is None:
        return ResolvedTarget(None, problem=UNMEASURED)
    ended = min(left, seen.high_watermark or 0)
    if ended < found.end.offset:
        return ResolvedTarget(None, problem=SHORTENED.format(was=found.end.offset, now=ended))
    return ResolvedTarget(seen.log_start_offset if found.offset is None else found.offset)


def _at_time(seen: PartitionFacts, answer: OffsetAtTime | None) -> ResolvedTarget:
    if answer is None or answer.error:
        why = answer.error if answer else "no answer"
        return ResolvedTarget(None, problem=f"the look-up by time failed ({why})")
    if answer.offset is None or answer.offset < 0:
        # Kafka answers -1 when no record is that young; -1 sent on would empty the partition.
        if seen.is_empty:
            return ResolvedTarget(seen.log_start_offset)
        return ResolvedTarget(None, problem="no record is as young as that time")
    return ResolvedTarget(answer.offset)


def _typed(target: Target, seen: PartitionFacts) -> ResolvedTarget:
    typed = target.offset if target.offsets is None else target.offsets[seen.key]
    if target.kind == "high-watermark" or typed == HIGH_WATERMARK:
        return ResolvedTarget(seen.high_watermark, problem=seen.error)
    return ResolvedTarget(typed)


def _written_before(
    seen: PartitionFacts, answer: OffsetAtTime | None, end: int | str | None, keep: str
) -> ResolvedTarget:
    """What was written before a time: below the log end of then and the first younger record.

    With CreateTime a record's time is its producer's word: a look-up by time finds the first
    record that bears a younger one, and records before it may have been written a minute ago.
    """
    if answer is None or answer.error:
        return _at_time(seen, answer)
    if seen.is_empty:
        return ResolvedTarget(seen.log_start_offset)
    if end is None:
        return ResolvedTarget(None, problem=f"no kept snapshot is {keep} old")
    if isinstance(end, str):
        return ResolvedTarget(None, problem=end)
    if seen.high_watermark is not None and end > seen.high_watermark:
        return ResolvedTarget(None, problem=RESTARTED)
    young = answer.offset if answer.offset is not None and answer.offset >= 0 else end
    return ResolvedTarget(min(end, young))


@dataclass(frozen=True, slots=True)
class Window:
    """Where a partition's replay window begins: the first offset inside it, or why nobody knows.

    `passes`: a later look may tell it.
    """

    offset: int | None
    problem: str | None = None
    passes: bool = False


def replay_windows(
    live: Cluster,
    facts: PlanFacts,
    keys: Iterable[TopicPartition],
    declarations: Mapping[str, TopicDeclaration],
    *,
    now: datetime,
    history: History,
) -> dict[TopicPartition, Window]:
    """The replay window of each partition whose topic has one.

    The lower of two bounds: the log end of a kept snapshot at least that old, as the analysis
    takes it, and the first record that bears a time inside the window.
    """
    since = {
        key: now - declared.replay_window
        for key in keys
        if (declared := declarations.get(key.topic)) is not None
        and declared.replay_window > timedelta(0)
    }
    if not since:
        return {}
    found, ends = _each_at(live, facts, since), _left(live, facts, history.ends_before(since))
    return {key: _window(facts.partitions[key], found[key], ends.get(key)) for key in since}


def _left(
    live: Cluster, facts: PlanFacts, ends: Mapping[TopicPartition, LogEnd]
) -> dict[TopicPartition, int | str]:
    """What of the logs in kept snapshots is in the logs by now: up to which offset; or in words
    why that cannot be told.

    A log that lost its end since, and has grown past it again, holds younger records there.
    """
    known = {
        key: {end.leader_epoch: end.offset}
        for key, end in ends.items()
        if end.leader_epoch is not None
        and end.leader_epoch != facts.partitions[key].leader_epoch
        and facts.partitions[key].high_watermark is not None
    }
    lost = read_lost(live, known)
    found: dict[TopicPartition, int | str] = {}
    for key, end in ends.items():
        cut = lost.ends.get(key, {})
        left = end.offset if end.leader_epoch is None else cut.get(end.leader_epoch, end.offset)
        error = lost.errors.get(key)
        found[key] = UNTOLD.format(epoch=end.leader_epoch, error=error) if error else left
    return found


def _window(seen: PartitionFacts, answer: OffsetAtTime, end: int | str | None) -> Window:
    if isinstance(end, str):
        return Window(None, end, passes=True)
    if end is not None and seen.high_watermark is not None and end > seen.high_watermark:
        return Window(None, RESTARTED)
    if answer.error:
        return Window(None, f"the start of its replay window cannot be read ({answer.error})")
    if end is None:
        return Window(None, NO_SNAPSHOT)
    if answer.offset is None or answer.offset < 0:
        return Window(end)
    return Window(min(end, answer.offset))


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
    # Time look-ups read the log: ask only where records are known to be.
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
