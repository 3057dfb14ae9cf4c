"""What a plan is judged on: everything read of topics, partitions and groups, in one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from dashboard.core.errors import ClusterError, RefusedError
from dashboard.domain.model import (
    ConfigEntry,
    Group,
    GroupListing,
    GroupOffset,
    Guard,
    LogDirsAnswer,
    PartitionOffsets,
    Reassignment,
    TopicPartition,
    TopicState,
)
from dashboard.domain.system_topics import REMOTE_STORAGE
from dashboard.history.epoch_ends import read_lost
from dashboard.purge.plan.claims import (
    GroupClaim,
    RememberedOffset,
    claims_of,
    key_of,
    offset_errors,
    offset_topics,
    seen_of,
    unplaced,
    unread_groups,
)
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.tiers import Tiers, read_tiers
from dashboard.safety.unseen_readers import TopicReading

# What targets, guards, forecasts and the receipt need of a topic's configs.
TOPIC_CONFIGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    *REMOTE_STORAGE,
    "unclean.leader.election.enable",
    "segment.bytes",
    "segment.ms",
    "file.delete.delay.ms",
)


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition as seen live. `error` says why its offsets are not known."""

    topic: str
    partition: int
    topic_id: str | None
    leader_id: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    is_internal: bool = False
    reassigning: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # adding, removing
    # Leader epochs that end, in the log as it is now, below an offset that was committed in them.
    epoch_ends: Mapping[int, int] = field(default_factory=dict)
    leader_moves_to: str | None = None  # the log dir of the leader's future replica
    reassigning_untold: str | None = None  # why nobody can tell whether it is
    leader_move_untold: str | None = None  # why nobody can tell whether there is one
    error: str | None = None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_empty(self) -> bool:
        """Whether its log is known to have no record."""
        return self.log_start_offset is not None and self.log_start_offset == self.high_watermark


@dataclass(frozen=True, slots=True)
class Reassignments:
    """The reassignments under way; `untold` says why nobody can tell them, None: these are all."""

    found: tuple[Reassignment, ...]
    untold: str | None = None

    def __iter__(self) -> Iterator[Reassignment]:
        return iter(self.found)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """All live reads of a plan, and the groups that earlier snapshots remember."""

    cluster_id: str
    cluster_name: str
    read_at: datetime
    partitions: Mapping[TopicPartition, PartitionFacts]
    configs: Mapping[str, Mapping[str, str | None]]
    groups: Mapping[str, Group]
    claims: Mapping[TopicPartition, tuple[GroupClaim, ...]]  # sorted by group id
    incomplete: tuple[str, ...] = ()
    offset_errors: Mapping[TopicPartition, str] = field(default_factory=dict)
    readings: Mapping[str, TopicReading] = field(default_factory=dict)  # of kept broker metrics
    unread_groups: frozenset[str] = frozenset()  # some offset of theirs could not be read
    unplaced: frozenset[str] = frozenset()  # no members, no offset: `safety.readers.without_offset`
    # Topics where the groups have offsets that tell what they may read (`model.is_telling`).
    offset_topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    new_topics: frozenset[str] = frozenset()  # younger than consumers' metadata may be
    missed: frozenset[tuple[str, str]] = frozenset()  # topic, and a group that was down since
    by_name: frozenset[str] = frozenset()  # groups that settings say subscribe to no pattern
    deleted: frozenset[str] = frozenset()  # groups that somebody deleted lately
    streams: frozenset[str] = frozenset()  # groups that kept snapshots knew as applications
    # When kept snapshots met groups on a topic, as `past_groups` has them.
    met: Mapping[tuple[str, str], int] = field(default_factory=dict)
    unknown_to: str | None = None  # the data folder, where it has no snapshot of the cluster
    elsewhere: Guard | None = None  # the folder does not go on from what purges rested on
    known_since: str | None = None  # what the newest analysis' memory began with
    # When the offset of a group was seen last, where it is remembered.
    seen: Mapping[tuple[TopicPartition, str], datetime | None] = field(default_factory=dict)
    # Topics for which no group that came and went is known for too long, and since when.
    unremembered: Mapping[str, str] = field(default_factory=dict)
    tiers: Mapping[TopicPartition, Tiers] = field(default_factory=dict)  # of remote storage
    wrong_clock: str | None = None  # why nobody knows how old anything is (`clocks.problem`)

    @property
    def reading_groups(self) -> set[str]:
        """Groups with an offset here, live or remembered, or whose members were met here."""
        claimed = {c.group_id for claims in self.claims.values() for c in claims}
        return claimed | {group for group, topic in self.met if topic}


def read_facts(
    live: Cluster,
    topics: Iterable[str],
    *,
    cluster_name: str,
    remembered: Iterable[RememberedOffset],
    now: datetime,
    readings: Mapping[str, TopicReading] | None = None,
) -> PlanFacts:
    """Read everything a plan over `topics` needs, side by side once the topics are known.

    `remembered` is from `memory.remembered`, `readings` from `readings.topic_readings`.

    Raises RefusedError TOPIC_NOT_FOUND or CONFIGS_UNREADABLE, and ClusterError when nothing
    could be read.
    """
    names = sorted(set(topics))
    states = live.topics(names)
    _all_found(states, names)
    wanted = [TopicPartition(s.topic, p.partition) for s in states.values() for p in s.partitions]
    with ThreadPoolExecutor(6, thread_name_prefix="facts") as pool:
        cluster_id = pool.submit(live.cluster_id)
        entries = pool.submit(live.configs, names)
        offsets = pool.submit(live.offsets, wanted, states)
        groups = pool.submit(live.groups, states)
        moving = pool.submit(reassignments, live)
        log_dirs = pool.submit(live.log_dirs, wanted)
    configs = config_values(entries.result())
    _configs_known(configs, names)
    listing = groups.result()
    ends = with_later_ends(live, states, offsets.result(), listing)
    partitions = partition_facts(states, ends, moving.result(), log_dirs.result())
    kept = tuple(remembered)
    partitions = with_epoch_ends(live, partitions, listing, kept)
    return PlanFacts(
        cluster_id=cluster_id.result(),
        cluster_name=cluster_name,
        read_at=now,
        partitions=partitions,
        configs=configs,
        groups={g.group_id: g for g in listing.groups},
        claims=claims_of(listing, kept, partitions),
        incomplete=listing.incomplete,
        offset_errors=offset_errors(listing),
        unread_groups=unread_groups(listing),
        unplaced=unplaced(listing),
        offset_topics=offset_topics(listing),
        readings=readings or {},
        seen=seen_of(kept),
        tiers=read_tiers(live, states, configs, log_dirs.result()),
    )


def with_later_ends(
    live: Cluster,
    states: Mapping[str, TopicState],
    offsets: Mapping[TopicPartition, PartitionOffsets],
    listing: GroupListing,
) -> Mapping[TopicPartition, PartitionOffsets]:
    """`offsets`, read again where a group has committed past the end that they show.

    Groups go on while a cluster is read, so a commit may lie past an end that was read before it.
    One past an end read after it tells nothing of what was read (`committed_offsets.tells`).
    """
    late = sorted(
        {
            key
            for o in listing.offsets
            if o.committed_offset is not None
            and (seen := offsets.get(key := TopicPartition(o.topic, o.partition))) is not None
            and seen.high_watermark is not None
            and o.committed_offset > seen.high_watermark
        }
    )
    return {**offsets, **live.offsets(late, states)} if late else offsets


def partition_facts(
    states: Mapping[str, TopicState],
    offsets: Mapping[TopicPartition, PartitionOffsets],
    reassignments: Iterable[Reassignment],
    log_dirs: LogDirsAnswer,
) -> dict[TopicPartition, PartitionFacts]:
    """Join metadata, leader offsets, reassignments and log-dir moves by partition, sorted."""
    move_untold = log_dirs.untold()
    untold = reassignments.untold if isinstance(reassignments, Reassignments) else None
    moving = {TopicPartition(r.topic, r.partition): (r.adding, r.removing) for r in reassignments}
    future = {
        (r.broker_id, TopicPartition(r.topic, r.partition)): r.log_dir
        for r in log_dirs.replicas
        if r.is_future
    }
    found: dict[TopicPartition, PartitionFacts] = {}
    for topic, state in sorted(states.items()):
        for p in state.partitions:
            key = TopicPartition(topic, p.partition)
            seen = _of_epoch(offsets.get(key), p.leader_epoch)
            leader = (p.leader_id, key) if p.leader_id is not None else None
            found[key] = PartitionFacts(
                topic=topic,
                partition=p.partition,
                topic_id=state.topic_id,
                leader_id=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=p.replicas,
                isr=p.isr,
                log_start_offset=seen.log_start_offset if seen else None,
                last_stable_offset=seen.last_stable_offset if seen else None,
                high_watermark=seen.high_watermark if seen else None,
                is_internal=state.is_internal,
                reassigning=moving.get(key),
                leader_moves_to=future.get(leader) if leader else None,
                reassigning_untold=untold,
                leader_move_untold=move_untold(*leader) if leader else None,
                error=p.error or (seen.error if seen else "offsets were not read"),
            )
    return found


def _of_epoch(seen: PartitionOffsets | None, epoch: int | None) -> PartitionOffsets | None:
    """`seen`, unknown where another leader epoch answered than the metadata tells of: commits and
    plans would be held against the wrong one.
    """
    if seen is None or seen.leader_epoch in (None, epoch):
        return seen
    return PartitionOffsets(seen.topic, seen.partition, None, None, None, "FENCED_LEADER_EPOCH")


def with_epoch_ends(
    live: Cluster,
    partitions: Mapping[TopicPartition, PartitionFacts],
    listing: GroupListing,
    remembered: Iterable[RememberedOffset],
) -> dict[TopicPartition, PartitionFacts]:
    """`partitions` with the ends of leader epochs that lost what groups committed in them.

    Asked only where an offset was committed in another epoch than the partition's own. Where that
    cannot be told, the partition's offsets count as not read: they say nothing of the group.
    """
    kept = [r for r in remembered if (p := partitions.get(key_of(r))) and _may_be_of(r, p)]
    known: dict[TopicPartition, dict[int, int]] = {}
    lowest: dict[TopicPartition, dict[int, int]] = {}
    committed: tuple[GroupOffset | RememberedOffset, ...] = (*listing.offsets, *kept)
    for o in committed:
        seen = partitions.get(key := key_of(o))
        if seen is None or seen.error or not o.committed_offset or o.leader_epoch is None:
            continue
        if o.leader_epoch != seen.leader_epoch:
            for seen_of, most in (
                (known.setdefault(key, {}), max),
                (lowest.setdefault(key, {}), min),
            ):
                other = seen_of.get(o.leader_epoch, o.committed_offset)
                seen_of[o.leader_epoch] = most(other, o.committed_offset)
    lost = read_lost(live, known, lowest)
    found = {key: replace(partitions[key], epoch_ends=ends) for key, ends in lost.ends.items()}
    for key, error in lost.errors.items():
        found[key] = replace(
            partitions[key], log_start_offset=None, last_stable_offset=None, high_watermark=None,
            error=f"{error} to OffsetForLeaderEpoch",
        )  # fmt: skip
    return {**partitions, **found}


def _may_be_of(kept: RememberedOffset, seen: PartitionFacts) -> bool:
    return not seen.topic_id or kept.topic_id == seen.topic_id


def config_values(entries: Iterable[ConfigEntry]) -> dict[str, dict[str, str | None]]:
    """Topic configs by topic and key, of those this product acts on."""
    found: dict[str, dict[str, str | None]] = {}
    for entry in entries:
        if entry.scope == "topic" and entry.key in TOPIC_CONFIGS:
            found.setdefault(entry.name, {})[entry.key] = entry.value
    return found


def reassignments(live: Cluster) -> Reassignments:
    """The reassignments under way, or why nobody can tell them; none where we may not see them."""
    try:
        return Reassignments(live.reassignments())
    except ClusterError as error:
        # That right completes the group list too, whose guard blocks already and is never lifted.
        refused = error.code == "CLUSTER_AUTHORIZATION_FAILED"
        return Reassignments((), None if refused else error.message)


def _all_found(states: Mapping[str, TopicState], names: list[str]) -> None:
    for name in names:
        state = states.get(name)
        if state is None or state.error or not state.partitions:
            why = state.error if state else "UNKNOWN_TOPIC_OR_PARTITION"
            raise RefusedError(
                f"topic {name} cannot be planned: {why}",
                "Check its name and that this principal may DESCRIBE it.",
                code="TOPIC_NOT_FOUND",
            )


def unread(configs: Mapping[str, Mapping[str, str | None]], topic: str) -> str | None:
    """That `config_values` lack a topic's, if so: an empty cleanup.policy is one (KIP-1161)."""
    if configs.get(topic, {}).get("cleanup.policy") is not None:
        return None
    return f"the configs of topic {topic} cannot be read, so its guards cannot be judged"


def _configs_known(configs: Mapping[str, Mapping[str, str | None]], names: list[str]) -> None:
    for name in names:
        if (why := unread(configs, name)) is not None:
            raise RefusedError(
                why,
                "Check that this principal may DESCRIBE_CONFIGS there and that brokers answer, "
                "then plan again.",
                code="CONFIGS_UNREADABLE",
            )
