"""From a request to a plan in one call: connect, read the facts, resolve, estimate, build."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from dashboard.cluster.live import connect
from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError
from dashboard.domain.model import TopicPartition
from dashboard.domain.rights import MissingRight, missing
from dashboard.purge.evidence import memory, sampled, standards
from dashboard.purge.evidence.revived import in_force
from dashboard.purge.evidence.standards import readings, rested
from dashboard.purge.plan.cluster_seam import Cluster, prove_cluster
from dashboard.purge.plan.facts import PlanFacts, read_facts
from dashboard.purge.plan.guards import Lift, Override, Waive, Waiver
from dashboard.purge.plan.moves import refuse_alive
from dashboard.purge.plan.plan import Estimate, Plan, build
from dashboard.purge.plan.resolve import History, ResolvedTarget, resolve
from dashboard.purge.plan.targets import Target
from dashboard.settings.settings import Settings, TopicDeclaration, of_topic
from dashboard.store import clocks
from dashboard.store.connections import client_for
from dashboard.store.snapshots import ClusterStore, Store


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What an operator asks for. `topics` may be empty for a target of kind `file`.

    `groups` empty means all groups. `sample` measures record sizes by reading a few batches. `by`
    is recorded as who planned, waived and overrode. `move_waived` moves the offsets of the waived
    groups to the targets after the purge; without a waiver it raises UsageError. `archive`: where
    records are kept before any is deleted, as `settings.archive.chosen` gives it.
    """

    topics: tuple[str, ...]
    target: Target
    groups: tuple[str, ...] = ()
    waive: tuple[Waive, ...] = ()
    override: tuple[Lift, ...] = ()
    sample: bool = False
    by: str = "unknown"
    move_waived: bool = False
    archive: str | None = None

    def __post_init__(self) -> None:
        if self.move_waived and not self.waive:
            raise UsageError(
                "there is no waived group to move",
                'Name it with --waive "GROUP=why", or leave --move-waived out.',
                code="MOVE_WITHOUT_WAIVER",
            )


def draft(
    settings: Settings,
    store_root: str,
    cluster: str | None,
    request: PlanRequest,
    *,
    client_overrides: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> Plan:
    """A plan from live facts of the cluster that `store_root` knows by this name or id.

    Raises UsageError, SettingsError, StoreError, PlanError, ClusterError, and RefusedError
    (TOPIC_NOT_FOUND, CONFIGS_UNREADABLE, CLUSTER_MISMATCH, MOVE_GROUP_ALIVE). Guarded partitions
    stay in it.
    """
    store = Store(store_root).cluster(cluster)
    client = client_for(settings, store, client_overrides)
    with connect(client, settings.broker_timeout, cluster_id=store.cluster_id) as live:
        read = read_live(live, settings, store, request, now=now or utc_now())
        return read.plan(request.override)


@dataclass(frozen=True, slots=True)
class Read:
    """All that was read for a request at one moment: plans that differ in overrides need no more.

    Planning is pure; a worker reads everything again before it sends.
    """

    settings: Settings
    request: PlanRequest
    now: datetime
    waivers: list[Waiver]
    facts: PlanFacts
    declared: Mapping[str, TopicDeclaration]
    resolved: Mapping[TopicPartition, ResolvedTarget]
    analysis_id: str | None
    estimates: Mapping[TopicPartition, Estimate]
    history: History
    rights_missing: tuple[MissingRight, ...] | None
    name_shared: bool

    def only(self, keys: Collection[TopicPartition]) -> Read:
        """What was read, for these partitions alone: a plan of it holds no other.

        A key that was not read is left out. The limit of one run counts these partitions.
        """
        wanted = set(keys)
        return replace(
            self,
            resolved={key: found for key, found in self.resolved.items() if key in wanted},
            estimates={key: found for key, found in self.estimates.items() if key in wanted},
        )

    def plan(self, override: Collection[Lift]) -> Plan:
        """The plan with these overrides."""
        purge, by = self.settings.purge, self.request.by
        return build(
            self.facts,
            self.resolved,
            target=self.request.target.text,
            chosen_groups=self.request.groups,
            waivers=self.waivers,
            overrides=_overrides(self.settings, override, by, self.now),
            declarations=self.declared,
            estimates=self.estimates,
            analysis_id=self.analysis_id,
            most_partitions=purge.most_partitions,
            created_by=by,
            now=self.now,
            expires_after=purge.plan_expires_after,
            rights_missing=self.rights_missing,
            name_shared=self.name_shared,
            archive=self.request.archive,
        )


def read_live(
    live: Cluster,
    settings: Settings,
    store: ClusterStore,
    request: PlanRequest,
    *,
    now: datetime,
) -> Read:
    """Everything that a plan for `request` is built from, by the clock of this very moment.

    Raises as `draft` does.
    """
    wrong = clocks.problem(live, now)  # first: all that follows takes its time
    seen = clocks.newest_seen(store)  # before groups are listed: who comes back then is met later
    _overrides(settings, request.override, request.by, now)  # what is wrong there is said first
    topics = _topics(request)
    prove_cluster(live, store.cluster_id)
    facts = read_facts(
        live,
        topics,
        cluster_name=store.name,
        remembered=memory.remembered(store, topics),
        now=now,
        readings=readings(store, topics, now),
    )
    facts = replace(
        facts,
        streams=memory.streams(store),
        met=memory.met(store, topics, now),
        wrong_clock=wrong.why if wrong else None,
    )
    facts = memory.with_holes(store, facts, rested(settings, store))
    facts = standards.with_age(store, facts, settings.purge.most_history_age)
    facts = memory.with_new_topics(store, facts, now, settings.purge)
    asked = in_force(request.waive, facts)
    waivers = [
        each.waiver(
            request.by,
            now,
            move=request.move_waived,
            since=None if each.group_id in facts.groups else seen,
        )
        for each in asked
    ]
    waived = {w.group_id for w in waivers}
    _known_groups(facts, {*request.groups, *waived})
    if request.move_waived:
        refuse_alive(facts.groups, waived)
    ids = {key.topic: seen.topic_id for key, seen in facts.partitions.items()}
    declared = {
        topic: of_topic(said, ids.get(topic))
        for topic, said in memory.declarations(settings, store, topics).items()
    }
    history = memory.history(store, facts)
    resolved = resolve(
        live,
        facts,
        request.target,
        chosen_groups=request.groups,
        waived=waived,
        declarations=declared,
        now=now,
        history=history,
    )
    analysis_id, estimates = memory.estimates(store, facts, resolved)
    if request.sample:
        estimates |= sampled.estimates(live, facts, _not_exact(resolved, estimates))
    return Read(
        settings, request, now, waivers, facts, declared, resolved, analysis_id, estimates,
        history, missing(live, topics), store.others_called(store.name),
    )  # fmt: skip


def _not_exact(
    resolved: Mapping[TopicPartition, ResolvedTarget],
    estimates: Mapping[TopicPartition, Estimate],
) -> dict[TopicPartition, ResolvedTarget]:
    """What an inventory measured exactly needs no sample."""
    exact = {key for key, found in estimates.items() if found.method == "segments"}
    return {key: target for key, target in resolved.items() if key not in exact}


def _overrides(
    settings: Settings, asked: Collection[Lift], by: str, now: datetime
) -> list[Override]:
    liftable = settings.purge.liftable_guards
    return [lift.override(by, now, liftable) for lift in asked]


def _topics(request: PlanRequest) -> list[str]:
    if request.target.offsets is not None:
        return sorted({key.topic for key in request.target.offsets})
    if not request.topics:
        raise UsageError(
            "no topic to plan", "Name one with --topic, or give --from-file.", code="NO_TOPIC"
        )
    return sorted(set(request.topics))


def _known_groups(facts: PlanFacts, named: Collection[str]) -> None:
    """A group name with a typo would waive nothing, or leave a reader out."""
    known = facts.reading_groups | set(facts.groups)
    for group_id in sorted(named):
        if group_id not in known:
            raise UsageError(
                f"no group {group_id} is known to this cluster or to kept snapshots",
                "Correct its name; lowwater findings holds lists the groups of a topic.",
                code="GROUP_NOT_FOUND",
            )
