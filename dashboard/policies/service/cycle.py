"""One cycle of a policy: what it matches now, what of that is due, and a plan per application."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dashboard.core.clock import going_on
from dashboard.core.errors import RefusedError
from dashboard.core.words import binary
from dashboard.domain.model import TopicPartition, TopicState
from dashboard.policies import matching
from dashboard.policies.service.outcome import Outcome, guarded
from dashboard.purge.evidence.estimates import most_freed
from dashboard.purge.evidence.revived import came_back
from dashboard.purge.journal.policies import Use
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.drafts import PlanRequest, Read, read_live
from dashboard.purge.plan.facts import config_values, unread
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.archive import chosen
from dashboard.settings.policies.policy import Policy, is_open, next_open
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore

LONGEST_PACE = timedelta(seconds=60)
_ONE_TOPIC = ("TOPIC_NOT_FOUND", "CONFIGS_UNREADABLE")  # `read_facts` refuses for one of many


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the cluster shows to every policy: readable topics, groups by id."""

    topics: Mapping[str, TopicState]
    group_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Application:
    """The partitions that one owner's commits decide; `owner` None: those of all groups do.

    `due` has whose last start is longest ago first, so that no budget starves any of them;
    `next_at` is when the next of the others is.
    """

    owner: str | None
    partitions: tuple[TopicPartition, ...]
    due: tuple[TopicPartition, ...]
    next_at: datetime | None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({key.topic for key in self.partitions}))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with something free in it, or (None) what there is to say instead."""

    plan: Plan | None
    outcome: Outcome


def look(live: Cluster) -> Seen:
    """Topics and groups of the cluster now. Raises ClusterError."""
    states = live.topics(None)
    return Seen(
        {name: s for name, s in states.items() if not s.error and not s.is_internal},
        frozenset(group.group_id for group in live.groups((), with_offsets=False).groups),
    )


def pace(policy: Policy) -> timedelta:
    """How soon to look again at what is due and had nothing to purge, or could not be purged."""
    return min(policy.min_purge_interval, LONGEST_PACE)


def applications(
    policy: Policy,
    seen: Seen,
    starts: Mapping[TopicPartition, datetime],
    now: datetime,
) -> tuple[Application, ...]:
    """What the policy matches, by owner; `starts` is from `Journal.last_starts`."""
    found = []
    for owner, topics in matching.applications(policy, seen.topics, seen.group_ids).items():
        keys = [TopicPartition(t, p.partition) for t in topics for p in seen.topics[t].partitions]
        ready = is_due(policy, keys, starts, now)
        due = longest_waiting_first(ready.now, starts)
        found.append(Application(owner, tuple(sorted(keys)), due, ready.next_at))
    return tuple(found)


def prepare(
    live: Cluster,
    settings: Settings,
    store: ClusterStore,
    policy: Policy,
    application: Application,
    *,
    busy: Mapping[str, str],
    use: Use,
    confirmed_by: str,
    now: datetime,
    confirmed_at: datetime | None = None,
) -> Prepared:
    """The plan of what is due, of what has anything to purge, within the policy's budget.

    `busy` names the open run of each topic that has one, `confirmed_by` who switched the policy on
    as it is defined, which is whose its waivers are, as groups were then (`confirmed_at`, in the
    order of snapshots: `PolicyState.waives_since`). Raises RefusedError as `read_live` does,
    OWNER_UNKNOWN where no known group owns the topics, ClusterError, StoreError. Nothing is sent.
    """
    owner = application.owner
    if policy.committed_by == "owner" and owner is None:
        raise _no_owner(application)
    due = [key for key in application.due if key.topic not in busy]
    if not due:
        runs = sorted({busy[key.topic] for key in application.due})
        text = f"its topics are being purged by {_list('run', runs)}"
        return Prepared(None, Outcome("busy", text, owner))
    clock = going_on(now)
    whose = _whose(policy, confirmed_by)
    asked = _request(
        policy,
        owner,
        due,
        whose,
        confirmed_at,
        archive=chosen(settings.archive, policy.archive),
    )
    try:
        read = read_live(live, settings, store, asked, now=now)
        return _planned(policy, owner, read, due, use)
    except RefusedError as error:
        rest = _readable(live, due) if error.code in _ONE_TOPIC else due
        if not rest or len(rest) == len(due):
            raise
        asked = replace(asked, topics=tuple(sorted({key.topic for key in rest})))
        read = read_live(live, settings, store, asked, now=clock())
        found = _planned(policy, owner, read, rest, use)
        told = replace(found.outcome, reason=f"{found.outcome.reason}; {error}", code=error.code)
        return replace(found, outcome=told)


def _readable(live: Cluster, due: Collection[TopicPartition]) -> list[TopicPartition]:
    """Those whose topic can be described and configs read: one that cannot stops no other."""
    names = sorted({key.topic for key in due})
    configs = config_values(live.configs(names))
    known = {
        name
        for name, state in live.topics(names).items()
        if not state.error and unread(configs, name) is None
    }
    return [key for key in due if key.topic in known]


def _whose(policy: Policy, confirmed_by: str) -> str:
    """Who waives: nobody looks at this plan, but somebody confirmed the definition."""
    definition = f"policy {policy.name} as {policy.definition_sha256[:12]}"
    return f"{confirmed_by}, by {definition}" if confirmed_by else definition


def _request(
    policy: Policy,
    owner: str | None,
    due: Collection[TopicPartition],
    whose: str,
    since: datetime | None,
    *,
    archive: str | None,
) -> PlanRequest:
    return PlanRequest(
        topics=tuple(sorted({key.topic for key in due})),
        target=parse_target(policy.target),
        groups=(owner,) if owner else (),
        waive=tuple(
            Waive(group_id, reason, gone=True, by=whose, since=since)
            for group_id, reason in sorted(policy.waive.items())
            if group_id != owner  # its commits make the target
        ),
        override=_lifts(policy.overrides),
        by=f"policy {policy.name}",
        archive=archive,
    )


def _lifts(overrides: Mapping[str, str]) -> tuple[Lift, ...]:
    return tuple(Lift(name, reason) for name, reason in sorted(overrides.items()))


def _by_lifts(
    policy: Policy, owner: str | None, read: Read, keys: Sequence[TopicPartition]
) -> dict[tuple[Lift, ...], list[TopicPartition]]:
    """The partitions by what the policy lifts on them."""
    streams = read.facts.streams | {g for g, group in read.facts.groups.items() if group.is_streams}
    readers: dict[str, set[str]] = {key.topic: set() for key in keys}
    for key in keys:
        claims = read.facts.claims.get(key, ())
        readers[key.topic] |= {c.group_id for c in claims if c.committed_offset is not None}
    of = {
        topic: _lifts(matching.lifted(policy, topic, owner, streams, groups))
        for topic, groups in readers.items()
    }
    found: dict[tuple[Lift, ...], list[TopicPartition]] = {}
    for key in keys:
        found.setdefault(of[key.topic], []).append(key)
    return found


def _to_purge(read: Read, key: TopicPartition) -> bool:
    """Whether its target lies above its log start, or is not known: a guard then says why."""
    resolved, facts = read.resolved.get(key), read.facts.partitions.get(key)
    if resolved is None or facts is None:  # it is gone since the look
        return False
    start, target = facts.log_start_offset, resolved.offset
    return start is None or target is None or target > start


def _planned(
    policy: Policy, owner: str | None, read: Read, due: Collection[TopicPartition], use: Use
) -> Prepared:
    """The plan; whom the policy waives and a coordinator lists, or a snapshot met since somebody
    confirmed that, holds as ever, and is told.
    """
    found = _of_read(policy, owner, read, due, use)
    here = tuple(sorted(policy.waive.keys() & read.facts.groups.keys() - {owner}))
    asked = [(each.group_id, each.since) for each in read.request.waive]
    came = {group_id for group_id, since in asked if came_back(group_id, since, read.facts)}
    back = tuple(sorted(came.difference(here)))
    reason = found.outcome.reason
    for names, why in (
        (here, "a coordinator lists it"),
        (back, "it was met after the policy was switched on (switch it on again to waive it)"),
    ):
        if names:
            reason = f"{reason.removesuffix('.')}; not waived, since {why}: {', '.join(names)}"
    return replace(found, outcome=replace(found.outcome, reason=reason, not_waived=here + back))


def _of_read(
    policy: Policy, owner: str | None, read: Read, due: Collection[TopicPartition], use: Use
) -> Prepared:
    wanted = [key for key in due if _to_purge(read, key)]
    if not wanted:
        text = f"nothing below the target in {len(due)} partitions"
        return Prepared(None, Outcome("nothing", text, owner))
    free, blocked = _judged(policy, owner, read, wanted)
    if not free:
        first, more = blocked[0], len(blocked) - 1
        text = f"{first.topic}-{first.partition}: {first.guards[0].reason}"
        text += f" ({more} more are guarded)" if more else ""
        return Prepared(None, Outcome("refused", text, owner, code="GUARDED", blocked=blocked))
    kept, left_out, reason = within(policy, free.items(), use)
    if not kept:
        return Prepared(None, Outcome("budget", reason, owner, blocked=blocked))
    kept = kept[: read.settings.purge.most_partitions]
    # On a partition that is free without the one or the other these lift nothing.
    plan = read.only(kept).plan(max(_by_lifts(policy, owner, read, kept), key=len))
    rest = f"; {len(left_out)} wait: {reason}" if left_out else ""
    text = f"{len(plan.free_partitions)} of {len(wanted)} partitions{rest}"
    return Prepared(plan, Outcome("ran", text, owner, blocked=blocked))


def _judged(
    policy: Policy, owner: str | None, read: Read, wanted: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int | None], tuple[PlannedPartition, ...]]:
    """The most bytes of the partitions that are free, in the order given; those with guards.

    As many at a time as a plan may hold, until that many are free: guarded ones, which stay the
    longest waiting, keep nobody's place.
    """
    most = read.settings.purge.most_partitions
    free: dict[TopicPartition, int | None] = {}
    blocked: list[PlannedPartition] = []
    for at in range(0, len(wanted), most):
        some = wanted[at : at + most]
        sizes: dict[TopicPartition, int | None] = {}
        for lifts, keys in _by_lifts(policy, owner, read, some).items():
            plan = read.only(keys).plan(lifts)
            sizes |= {p.key: most_freed(p) for p in plan.free_partitions}
            blocked += guarded(plan)
        free |= {key: sizes[key] for key in some if key in sizes}
        if len(free) >= most:
            break
    return free, tuple(blocked)


def _no_owner(application: Application) -> RefusedError:
    topics = application.topics
    return RefusedError(
        f"no group of this cluster owns {_list('topic', topics)}",
        "Their owner's group id is the topic's name up to its own part; start the application, or "
        "name the group with owner in the policy.",
        code="OWNER_UNKNOWN",
    )


def _list(noun: str, names: Collection[str]) -> str:
    shown, more = sorted(names)[:3], len(names) - 3
    return f"{noun} {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")


# Which partitions a policy may purge now, and when the next one may be (KIP-811's interval).


@dataclass(frozen=True, slots=True)
class Due:
    """Partitions whose purge may start now; when the first of the others may, None without any."""

    now: frozenset[TopicPartition]
    next_at: datetime | None


def is_due(
    policy: Policy,
    partitions: Iterable[TopicPartition],
    last_starts: Mapping[TopicPartition, datetime],
    now: datetime,
) -> Due:
    """A partition is due once its last start lies the interval back and a window is open.

    KIP-811's interval is a minimum between two starts: a purge may come later, never earlier. One
    that was never purged is due at once. A last start in the future, after the clock stepped
    back, waits for its interval too.
    """
    interval = policy.min_purge_interval
    free_at = {p: last_starts[p] + interval if p in last_starts else now for p in partitions}
    window_open = is_open(policy, now)
    ready = frozenset(p for p, at in free_at.items() if at <= now) if window_open else frozenset()
    waiting = [max(at, now) for p, at in free_at.items() if p not in ready]
    next_at = next_open(policy, min(waiting)).astimezone(UTC) if waiting else None
    return Due(ready, next_at)


def longest_waiting_first(
    partitions: Iterable[TopicPartition], last_starts: Mapping[TopicPartition, datetime]
) -> tuple[TopicPartition, ...]:
    """The order in which a budget is spent: never purged ones first, then by their last start."""
    never = datetime.min.replace(tzinfo=UTC)
    return tuple(sorted(partitions, key=lambda p: (last_starts.get(p, never), p)))


# How many of the partitions that are due fit into what a policy may purge in an hour.


class Within(NamedTuple):
    """What fits, in the order given; what does not, with why; all reasons in one text, or ""."""

    kept: tuple[TopicPartition, ...]
    left_out: Mapping[TopicPartition, str]
    reason: str


def within(
    policy: Policy, candidates: Iterable[tuple[TopicPartition, int | None]], used: Use
) -> Within:
    """The candidates (partition, the most bytes or None) that the hour's budgets still allow.

    `used` is what the policy started in the last hour. As long as bytes of it are not measured,
    nobody knows what is left of the hour's bytes, so that nothing is.

    The first that does not fit any more ends it: smaller ones behind it must not take its place
    hour after hour, so give them longest waiting first. Two kinds are passed over instead, since
    waiting helps neither: bytes that are not measured, where bytes are limited, and one partition
    that is larger than a whole hour's bytes.
    """
    kept: list[TopicPartition] = []
    left_out: dict[TopicPartition, str] = {}
    partitions, size, full = used.partitions, used.bytes, ""
    for partition, most in candidates:
        never = _never_fits(policy, most)
        full = full or ("" if never else _full(policy, partitions + 1, size + (most or 0), used))
        if never or full:
            left_out[partition] = never or full
            continue
        kept.append(partition)
        partitions, size = partitions + 1, size + (most or 0)
    return Within(tuple(kept), left_out, "; ".join(dict.fromkeys(left_out.values())))


def _never_fits(policy: Policy, size: int | None) -> str:
    most = policy.most_bytes_per_hour
    if most is None:
        return ""
    if size is None:
        return "not measured: its bytes cannot be counted against most_bytes_per_hour"
    if size > most:
        return f"larger than a whole hour's most_bytes_per_hour, {binary(most)}"
    return ""


def _full(policy: Policy, partitions: int, size: int, used: Use) -> str:
    most = policy.most_partitions_per_hour
    if most is not None and partitions > most:
        return f"most_partitions_per_hour, {most}, is used up"
    most = policy.most_bytes_per_hour
    if most is not None and used.unmeasured:
        count = f"{used.unmeasured} of the partitions that it purged in the last hour"
        return f"bytes of {count} are not measured: what is left of most_bytes_per_hour is unknown"
    if most is not None and size > most:
        return f"most_bytes_per_hour, {binary(most)}, is used up"
    return ""
