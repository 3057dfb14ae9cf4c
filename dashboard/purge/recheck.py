"""The last look before sending: what the plan saw is read again, and refused where it changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from dashboard.guard_texts import guard
from dashboard.model import (
    GroupListing,
    Guard,
    LogDirsAnswer,
    PartitionOffsets,
    TopicPartition,
    TopicState,
)
from dashboard.purge.cluster_seam import Cluster
from dashboard.purge.facts import (
    GroupClaim,
    PartitionFacts,
    PlanFacts,
    RememberedOffset,
    claims_of,
    config_values,
    offset_errors,
    partition_facts,
    share_topics,
    without_offsets,
)
from dashboard.purge.guards import Judge, judge
from dashboard.purge.journal_rows import PartitionRow
from dashboard.purge.lifting import accepted, lift
from dashboard.purge.plan import Plan, PlannedPartition
from dashboard.purge.resolve import ResolvedTarget
from dashboard.purge.topic_identity import UNCERTAIN, doubts

_GONE = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")


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
    """

    allowed: dict[TopicPartition, PartitionFacts] = field(default_factory=dict)
    arrived: dict[TopicPartition, PartitionFacts] = field(default_factory=dict)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)
    unreadable: dict[TopicPartition, Refusal] = field(default_factory=dict)


def recheck(live: Cluster, plan: Plan, rows: Iterable[PartitionRow], now: datetime) -> Rechecked:
    """Judge pending rows on live reads. Raises ClusterError when nothing could be read.

    Cluster id, topic ids, every group's offset (a group born after the plan counts), log start,
    last stable offset; and where the leader epoch changed, that the planned epoch did not end
    below the target (OffsetForLeaderEpoch): then its offsets mean other records. At last each
    leader is asked whether it takes the topic for the planned one, too.
    """
    pending = {row.key: row.target_offset for row in rows}
    result = Rechecked()
    planned = _as_planned(plan, pending, result)
    found = live.cluster_id()
    if found != plan.cluster_id:
        reason = guard("cluster-mismatch", planned=plan.cluster_id, found=found).reason
        result.refused.update({k: Refusal("cluster-mismatch", reason) for k in pending})
        return result
    names = sorted({key.topic for key in pending})
    states = live.topics(names)
    facts = _facts(live, plan, states, _same_topics(states, planned, result), now)
    over = judge(
        facts,
        waived=plan.waived_groups,
        declarations={},
        most_partitions=len(pending),
        planned_partitions=len(pending),
    )
    for key, seen in facts.partitions.items():
        _place(over, plan, planned[key], seen, result)
    _refuse_reused_offsets(live, planned, result)
    _doubt_identity(live, plan, result)
    return result


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
        error = state.error if state else _GONE[0]
        if state is not None and not error and state.topic_id != plan.topic_id:
            _refuse_topic(result, plan, str(state.topic_id))
        elif error in _GONE or (not error and not known):
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
    now: datetime,
) -> PlanFacts:
    names = {key.topic for key in keys}
    offsets, listing, configs = _read(live, states, keys, sorted(names))
    partitions = partition_facts(
        {n: s for n, s in states.items() if n in names}, offsets, (), LogDirsAnswer((), (), {})
    )
    wanted = set(keys)
    return PlanFacts(
        cluster_id=plan.cluster_id,
        cluster_name=plan.cluster_name,
        read_at=now,
        partitions={k: p for k, p in partitions.items() if k in wanted},
        configs=configs,
        groups={g.group_id: g for g in listing.groups},
        claims=claims_of(listing, _remembered(plan), partitions),
        incomplete=listing.incomplete,
        offset_errors=offset_errors(listing),
        share_topics=share_topics(listing),
        without_offsets=without_offsets(listing),
    )


def _read(
    live: Cluster,
    states: Mapping[str, TopicState],
    keys: list[TopicPartition],
    names: list[str],
) -> tuple[
    Mapping[TopicPartition, PartitionOffsets],
    GroupListing,
    Mapping[str, Mapping[str, str | None]],
]:
    """Offsets, groups and configs, side by side; nothing is asked for no partition."""
    if not keys:
        return {}, GroupListing((), ()), {}
    with ThreadPoolExecutor(3, thread_name_prefix="recheck") as pool:
        offsets = pool.submit(live.offsets, keys, states)
        groups = pool.submit(live.groups, with_offsets=True)
        configs = pool.submit(live.configs, names)
    return offsets.result(), groups.result(), config_values(configs.result())


def _remembered(plan: Plan) -> list[RememberedOffset]:
    # A group of the plan that is gone by now still counts where the plan saw it.
    return [
        RememberedOffset(c.group_id, p.topic, p.partition, c.committed_offset, p.topic_id)
        for p in plan.partitions
        for c in p.groups
        if c.remembered or c.committed_offset is not None
    ]


def _place(
    over: Judge, plan: Plan, planned: PlannedPartition, seen: PartitionFacts, result: Rechecked
) -> None:
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
    blocking, elsewhere = _blocking(over, plan, planned, seen)
    moved_back = _moved_back(planned, target, over.facts.claims.get(key, ()))
    if blocking and blocking[0].name == "groups-incomplete":
        # A coordinator that is gone for a moment: it may be back before the run gives up.
        result.unreadable[key] = Refusal(blocking[0].name, blocking[0].reason)
    elif blocking:
        result.refused[key] = Refusal(blocking[0].name, blocking[0].reason + elsewhere)
    elif moved_back:
        result.refused[key] = Refusal("unread-by-group", moved_back)
    else:
        result.allowed[key] = seen


def _blocking(
    over: Judge, plan: Plan, planned: PlannedPartition, seen: PartitionFacts
) -> tuple[tuple[Guard, ...], str]:
    """The guards that stand now; in words, that the first was lifted, but on other partitions."""
    target = ResolvedTarget(planned.target_offset)
    findings = over.data_findings(seen, target)
    here = accepted(plan.overrides, planned.lifted)
    blocking, _ = lift(findings, here, has_target=True, every_group=False)
    if not blocking:
        return (), ""
    anywhere, _ = lift(findings, plan.overrides, has_target=True, every_group=False)
    if blocking[0] in anywhere:
        return blocking, ""
    return blocking, f" The plan lifted it elsewhere, not on {seen.topic}-{seen.partition}."


def _moved_back(planned: PlannedPartition, target: int, claims: Iterable[GroupClaim]) -> str | None:
    """An override accepts what a group had not read when it was planned, and no more."""
    lifted = {found.group_id for found in planned.lifted if found.name == "unread-by-group"}
    then = {
        c.group_id: c.committed_offset for c in planned.groups if c.committed_offset is not None
    }
    for claim in claims:
        was, now = then.get(claim.group_id, target), claim.committed_offset
        if claim.group_id in lifted and now is not None and now < was:
            return (
                f"Group {claim.group_id} moved back from {was} to {now} since the plan: "
                "more would be lost than was accepted."
            )
    return None


def _refuse_reused_offsets(
    live: Cluster, planned: Mapping[TopicPartition, PlannedPartition], result: Rechecked
) -> None:
    changed = {
        key: epoch
        for key, seen in result.allowed.items()
        if (epoch := planned[key].leader_epoch) is not None and epoch != seen.leader_epoch
    }
    ends = live.epoch_ends(changed) if changed else {}
    for key, epoch in changed.items():
        end, target = ends.get(key), planned[key].target_offset
        if end is None or end.error:
            name = (end.error if end else None) or "EPOCH_NOT_READ"
            result.unreadable[key] = Refusal(name, f"the end of leader epoch {epoch} is not known")
        elif end.end_offset is None or target is None or end.end_offset < target:
            result.refused[key] = Refusal(
                "offsets-reused",
                f"leader epoch {epoch} of the plan ended at {end.end_offset}, below the target "
                f"{target}: those offsets may mean other records now; plan again",
            )
        else:
            continue
        del result.allowed[key]


def _doubt_identity(live: Cluster, plan: Plan, result: Rechecked) -> None:
    """Metadata of a broker that is cut off tells of topics that are gone; leaders know better."""
    seen = {**result.allowed, **result.arrived}
    leaders = {key: (p.leader_id,) for key, p in seen.items() if p.leader_id is not None}
    for key, why in doubts(live, leaders, plan.topic_ids).items():
        result.unreadable[key] = Refusal(UNCERTAIN, "; ".join(why.values()))
        result.allowed.pop(key, None)
        result.arrived.pop(key, None)
