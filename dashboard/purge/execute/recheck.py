"""The last look before sending: a plan is judged again, on live reads and by today's standards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from dashboard.domain.model import (
    NO_TOPIC,
    GroupListing,
    Guard,
    LogDirsAnswer,
    PartitionOffsets,
    TopicPartition,
    TopicState,
)
from dashboard.purge.evidence.revived import more_lost, still_waived
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.topic_identity import UNCERTAIN, doubts, offsets_reused
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.claims import (
    RememberedOffset,
    claims_of,
    offset_errors,
    offset_topics,
    seen_of,
    unplaced,
    unread_groups,
)
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import (
    PartitionFacts,
    PlanFacts,
    Reassignments,
    config_values,
    partition_facts,
    reassignments,
    unread,
    with_epoch_ends,
    with_later_ends,
)
from dashboard.purge.plan.guards import Finding, findings, still_blocking
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.resolve import ResolvedTarget, Window, kept_longer, replay_windows
from dashboard.purge.plan.targets import by_bytes
from dashboard.safety.guard_texts import guard
from dashboard.store import clocks

# A bad moment to begin with a partition passes: it is asked again until the run gives up. One
# whose request was sent already is followed to its end, whoever of its replicas has died of it.
_MOMENT = ("under-replicated", "reassigning", "leader-log-dir-move")
_PASSING = ("groups-incomplete", *_MOMENT)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a partition is not sent: a guard's name or Kafka's error, and the reason in words."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rechecked:
    """Each pending partition stands in exactly one of these.

    `allowed` may be sent, to the leader seen; `arrived` starts at or past its target already, so
    there is nothing to send; `refused` is never sent; `unreadable` may be asked again.
    `known_since`: what the memory of groups began with by which they were judged.
    """

    allowed: dict[TopicPartition, PartitionFacts] = field(default_factory=dict)
    arrived: dict[TopicPartition, PartitionFacts] = field(default_factory=dict)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)
    unreadable: dict[TopicPartition, Refusal] = field(default_factory=dict)
    known_since: str | None = None


def recheck(
    live: Cluster,
    plan: Plan,
    rows: Iterable[PartitionRow],
    now: datetime,
    standards: Standards,
) -> Rechecked:
    """Judge pending rows on live reads by the clock of this very moment, `now`: nothing may be sent
    by one that is wrong. Raises ClusterError when nothing could be read.

    Cluster id, topic ids, every guard that planning asks, by the declarations, limits and replay
    windows of `standards`: every group's offset (a group born after the plan counts), log start,
    last stable offset, the topic's own retention where it is the target, the moment; and where the
    leader epoch changed, that the planned one did not end below the target (OffsetForLeaderEpoch):
    then its offsets mean other records. A waived group must be as the plan saw it. At last each
    leader is asked whether it takes the topic for the planned one, too.
    """
    asked = list(rows)
    pending = {row.key: row.target_offset for row in asked}
    sent = {row.key for row in asked if row.was_sent}
    result = Rechecked()
    planned = _as_planned(plan, pending, result)
    wrong = clocks.problem(live, now)  # first: all that follows takes its time
    answering = live.cluster_id()
    if answering != plan.cluster_id:
        reason = guard("cluster-mismatch", planned=plan.cluster_id, found=answering).reason
        result.refused.update({k: Refusal("cluster-mismatch", reason) for k in pending})
        return result
    names = sorted({key.topic for key in pending})
    states = live.topics(names)
    same = _same_topics(states, planned, result)
    read = _facts(live, plan, states, same, now=now, remembered=standards.remembered)
    facts = standards.applied(read, now)
    targets = {key: ResolvedTarget(planned[key].target_offset) for key in facts.partitions}
    waived = still_waived(plan, facts)
    found = findings(
        facts,
        targets,
        waived=waived,
        declarations=standards.declarations,
        most_partitions=standards.purge.most_partitions,
        planned_partitions=len(plan.partitions),
    )
    history, offsets = standards.history(facts), {k: planned[k].target_offset or 0 for k in targets}
    by_retention = plan.target == "retention"
    windows = replay_windows(live, facts, targets, standards.declarations, now=now, history=history)
    kept = kept_longer(live, facts, offsets, now=now, history=history) if by_retention else {}
    places = _places(facts) if plan.waivers else {}
    for key, seen in facts.partitions.items():
        judged = _Judged(
            planned[key],
            seen,
            found[key],
            windows.get(key),
            kept.get(key),
            key in sent,
            places.get(key, {}),
            plan.waived_groups - waived,
        )
        _place(judged, plan, facts, standards, result)
    if wrong is not None:
        _refuse_by_clock(wrong, result)
    _refuse_reused_offsets(live, planned, plan, result)
    _doubt_identity(live, plan, result)
    return replace(result, known_since=facts.known_since)


def _refuse_by_clock(wrong: clocks.Wrong, result: Rechecked) -> None:
    why = Refusal("target-unresolved", guard("target-unresolved", why=wrong.why).reason)
    into = result.unreadable if wrong.passes else result.refused
    into.update(dict.fromkeys(result.allowed, why))
    result.allowed.clear()


def _places(facts: PlanFacts) -> Mapping[TopicPartition, Mapping[str, int | None]]:
    # Loads tables, as judging guards does.
    from dashboard.purge.plan import standing

    return standing.places(facts, sorted(facts.partitions))


def _as_planned(
    plan: Plan, pending: Mapping[TopicPartition, int], result: Rechecked
) -> dict[TopicPartition, PlannedPartition]:
    """The planned partitions of rows that ask for just the plan's target: that one is judged."""
    planned = {p.key: p for p in plan.partitions if p.key in pending}
    for key, target in sorted(pending.items()):
        wanted = planned[key].target_offset if key in planned else None
        if target != wanted:
            found = f"has {wanted} as its target" if wanted is not None else "does not free it"
            reason = (
                f"the journal's row asks for {target}, the plan {found}: the journal was changed; "
                "see lowwater runs --verify"
            )
            result.refused[key] = Refusal("not-planned", reason)
            planned.pop(key, None)
    return planned


def _same_topics(
    states: Mapping[str, TopicState],
    planned: Mapping[TopicPartition, PlannedPartition],
    result: Rechecked,
) -> list[TopicPartition]:
    same = []
    there = {(s.topic, p.partition) for s in states.values() for p in s.partitions}
    for key, plan in sorted(planned.items()):
        state = states.get(key.topic)
        known = key in there
        error = state.error if state else NO_TOPIC[0]
        if state is not None and not error and state.topic_id != plan.topic_id:
            _refuse_topic(result, plan, str(state.topic_id))
        elif error in NO_TOPIC or (not error and not known):
            _refuse_topic(result, plan, "none, it was deleted")
        elif error == "TOPIC_AUTHORIZATION_FAILED":
            reason = f"this principal may not describe topic {key.topic}"
            result.refused[key] = Refusal(error, reason)
        elif error:
            result.unreadable[key] = Refusal(error, f"topic {key.topic} cannot be described")
        else:
            same.append(key)
    return same


def _refuse_topic(result: Rechecked, plan: PlannedPartition, found: str) -> None:
    text = guard("topic-id-changed", topic=plan.topic, planned=plan.topic_id, found=found)
    result.refused[plan.key] = Refusal(text.name, text.reason)


def _facts(
    live: Cluster,
    plan: Plan,
    states: Mapping[str, TopicState],
    keys: list[TopicPartition],
    *,
    now: datetime,
    remembered: Iterable[RememberedOffset],
) -> PlanFacts:
    names = {key.topic for key in keys}
    read = _read(live, states, keys, sorted(names))
    partitions = partition_facts(
        {n: s for n, s in states.items() if n in names},
        with_later_ends(live, states, read.offsets, read.listing),
        read.moving,
        read.log_dirs,
    )
    listing = read.listing
    # What the store remembers comes last: a plan's text may be edited.
    kept = [*_remembered(plan), *remembered]
    partitions = with_epoch_ends(live, partitions, listing, kept)
    wanted = set(keys)
    return PlanFacts(
        cluster_id=plan.cluster_id,
        cluster_name=plan.cluster_name,
        read_at=now,
        partitions={k: p for k, p in partitions.items() if k in wanted},
        configs=read.configs,
        groups={g.group_id: g for g in listing.groups},
        claims=claims_of(listing, kept, partitions),
        seen=seen_of(kept),
        incomplete=listing.incomplete,
        offset_errors=offset_errors(listing),
        unread_groups=unread_groups(listing),
        unplaced=unplaced(listing),
        offset_topics=offset_topics(listing),
        deleted=_lived(plan).difference(g.group_id for g in listing.groups),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    offsets: Mapping[TopicPartition, PartitionOffsets]
    listing: GroupListing
    configs: Mapping[str, Mapping[str, str | None]]
    moving: Reassignments
    log_dirs: LogDirsAnswer


def _read(
    live: Cluster,
    states: Mapping[str, TopicState],
    keys: list[TopicPartition],
    names: list[str],
) -> _Read:
    """What guards are judged on, side by side; nothing is asked for no partition."""
    if not keys:
        return _Read({}, GroupListing((), ()), {}, Reassignments(()), LogDirsAnswer((), (), {}))
    with ThreadPoolExecutor(5, thread_name_prefix="recheck") as pool:
        offsets = pool.submit(live.offsets, keys, states)
        groups = pool.submit(live.groups, {name: states[name] for name in names})
        configs = pool.submit(live.configs, names)
        moving = pool.submit(reassignments, live)
        log_dirs = pool.submit(live.log_dirs, keys)
    return _Read(
        offsets.result(),
        groups.result(),
        config_values(configs.result()),
        moving.result(),
        log_dirs.result(),
    )


def _lived(plan: Plan) -> frozenset[str]:
    """Groups whose offsets the plan saw live: one that nobody lists by now was deleted since, as
    who wants all read again does, or Kafka dropped it just then.
    """
    return frozenset(c.group_id for p in plan.partitions for c in p.groups if not c.remembered)


def _remembered(plan: Plan) -> list[RememberedOffset]:
    # A group of the plan that is gone by now still counts where the plan saw it, unless a snapshot
    # met it: which of the two saw it later only their clocks could tell, and one may be wrong.
    return [
        RememberedOffset(
            c.group_id, p.topic, p.partition, c.committed_offset, p.topic_id, c.leader_epoch
        )
        for p in plan.partitions
        for c in p.groups
        if c.remembered or c.committed_offset is not None
    ]


@dataclass(frozen=True, slots=True)
class _Judged:
    planned: PlannedPartition
    seen: PartitionFacts
    found: list[Finding]
    window: Window | None
    kept: Window | None  # where its own retention keeps more than it did
    was_sent: bool
    places: Mapping[str, int | None]  # of groups, where one was waived
    came_back: Collection[str]  # waived groups that count as ever


def _place(
    judged: _Judged, plan: Plan, facts: PlanFacts, standards: Standards, result: Rechecked
) -> None:
    planned, seen = judged.planned, judged.seen
    key, target = planned.key, planned.target_offset
    if target is None or planned.guards:
        result.refused[key] = Refusal("not-planned", "the plan does not free this partition")
        return
    if seen.error or seen.log_start_offset is None or seen.leader_id is None:
        name = seen.error or "LEADER_NOT_AVAILABLE"
        result.unreadable[key] = Refusal(name, "its offsets cannot be read")
        return
    if seen.log_start_offset >= target:
        result.arrived[key] = seen
        return
    if planned.log_start_offset is not None and target <= planned.log_start_offset:
        begins = f"its log begins at {seen.log_start_offset} by now"
        # Of a leader that is cut off it may be the old log: asked again, another one tells.
        found = f"nothing was to go, and {begins}: plan again"
        result.unreadable[key] = Refusal("not-planned", found)
        return
    if (why := unread(facts.configs, key.topic)) is not None:
        result.unreadable[key] = Refusal("CONFIGS_UNREADABLE", why)
        return
    blocking, elsewhere = _blocking(judged, plan, standards)
    lost = more_lost(plan, planned, seen.log_start_offset, facts, judged.places)
    inside = _inside_window(judged.window, target)
    if blocking and blocking[0].name in _PASSING:
        result.unreadable[key] = Refusal(blocking[0].name, blocking[0].reason)
    elif blocking:
        result.refused[key] = Refusal(blocking[0].name, blocking[0].reason + elsewhere)
    elif lost:
        result.refused[key] = Refusal("unread-by-group", lost)
    elif inside and judged.window is not None and judged.window.passes:
        result.unreadable[key] = Refusal("replay-window", inside)
    elif inside:
        result.refused[key] = Refusal("replay-window", inside)
    elif judged.kept is not None:
        into = result.unreadable if judged.kept.passes else result.refused
        into[key] = Refusal("target-unresolved", _kept_longer(judged.kept, target))
    else:
        result.allowed[key] = seen


def _blocking(judged: _Judged, plan: Plan, standards: Standards) -> tuple[tuple[Guard, ...], str]:
    """The guards that stand now, those that do not pass by themselves first; in words, that the
    first was lifted, but on other partitions, or that its group is waived no more.
    """
    liftable = [o for o in plan.overrides if o.name in standards.purge.liftable_guards]
    found = [f for f in judged.found if not (judged.was_sent and f.guard.name in _MOMENT)]
    blocking = still_blocking(found, liftable, judged.planned.lifted)
    if not blocking:
        return (), ""
    first, *_ = sorted(blocking, key=lambda found: found.guard.name in _PASSING)
    everywhere = {lifted for p in plan.partitions for lifted in p.lifted}
    named = (first.guard.name, first.group_id)
    guards = (first.guard, *(f.guard for f in blocking if f is not first))
    if first.group_id in judged.came_back:
        return guards, (
            f" Group {first.group_id} was waived as gone, and a snapshot met it since, so that it "
            "counts as ever. Plan again."
        )
    if named in {(lifted.name, lifted.group_id) for lifted in judged.planned.lifted}:
        return guards, " The plan lifted another fact of it."
    if not still_blocking([first], liftable, everywhere):
        topic, partition = judged.seen.key
        return guards, f" The plan lifted it elsewhere, not on {topic}-{partition}."
    return guards, ""


def _inside_window(window: Window | None, target: int) -> str | None:
    """Why the target lies inside a replay window: the plan was edited, or the window is longer."""
    if window is None:
        return None
    if window.offset is None:
        return f"the start of its replay window is not known: {window.problem}"
    if window.offset < target:
        return f"its replay window begins at {window.offset}, below the target {target}; plan again"
    return None


def _kept_longer(kept: Window, target: int) -> str:
    if kept.offset is None:
        return f"what the topic's own retention keeps is not known: {kept.problem}"
    return (
        f"the topic's own retention keeps the records from {kept.offset} on by now, below the "
        f"target {target}; plan again"
    )


def _refuse_reused_offsets(
    live: Cluster, planned: Mapping[TopicPartition, PlannedPartition], plan: Plan, result: Rechecked
) -> None:
    found = offsets_reused(live, planned, result.allowed, whole=by_bytes(plan.target))
    for key, reason in found.refused.items():
        result.refused[key] = Refusal("offsets-reused", reason)
    for key, (name, reason) in found.untold.items():
        result.unreadable[key] = Refusal(name, reason)
    for key in (*found.refused, *found.untold):
        del result.allowed[key]


def _doubt_identity(live: Cluster, plan: Plan, result: Rechecked) -> None:
    """Metadata of a broker that is cut off tells of topics that are gone; leaders know better."""
    seen = {**result.allowed, **result.arrived}
    leaders = {key: (p.leader_id,) for key, p in seen.items() if p.leader_id is not None}
    for key, why in doubts(live, leaders, plan.topic_ids).items():
        result.unreadable[key] = Refusal(UNCERTAIN, "; ".join(why.values()))
        result.allowed.pop(key, None)
        result.arrived.pop(key, None)
