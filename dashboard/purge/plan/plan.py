"""A plan: frozen targets with all that was seen and decided, and the pure step that builds it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from dashboard.core.canonical import (
    LATER,
    Count,
    Moment,
    Offset,
    PartitionId,
    SealedKind,
    Text,
    seal,
    written,
)
from dashboard.core.errors import PlanError, RefusedError, SettingsError
from dashboard.core.words import called
from dashboard.domain.model import Guard, TopicPartition
from dashboard.domain.rights import MissingRight
from dashboard.history.known_since import is_told
from dashboard.purge.plan.claims import GroupClaim, alive
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.guards import Finding, Lifted, Override, Waiver, findings, lift
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.plan.targets import write_offsets_json
from dashboard.purge.plan.tiers import Taken, Tiers, taken
from dashboard.safety.unseen_readers import TopicReading, reading_of
from dashboard.settings.archive import check_url
from dashboard.settings.settings import TopicDeclaration

INTERVAL = (
    "bytes_at_once_low", "bytes_at_once_high", "bytes_later_low", "bytes_later", "bytes_later_high",
)  # fmt: skip
_MOST_NAMED = 3  # topics that stand by name in the confirmation
# Guards which say of a group that nobody knows what it has read of the partition.
_PLACE_UNKNOWN = ("no-committed-offset", "members-without-commits", "share-group")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes over all replicas that the purge frees at once (whole segments); None: unmeasured.

    `replicas` splits it by broker id; `method` names how it was measured. Bytes later lie below
    the target too, and leave when the segment around it does. Plans of older journals have
    neither intervals nor bytes later. `cleaned_high`: the most that each replica of a topic frees
    that the log cleaner works on, too (None: nobody knows); no other topic has any.
    """

    bytes_at_once: Count | None
    method: Text
    replicas: Mapping[int, Count] = field(default_factory=dict)
    bytes_at_once_low: Count | None = field(default=None, metadata=LATER)
    bytes_at_once_high: Count | None = field(default=None, metadata=LATER)
    bytes_later_low: Count | None = field(default=None, metadata=LATER)
    bytes_later: Count | None = field(default=None, metadata=LATER)
    bytes_later_high: Count | None = field(default=None, metadata=LATER)
    cleaned_high: Mapping[int, Count | None] = field(default_factory=dict, metadata=LATER)


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of a plan; `guards` lists only what blocks it, so () is free.

    `lifted`: what overrides lifted here. Plans of older journals do not say where they lifted.
    `epoch_ends`: leader epochs that end below an offset that was committed in them. `waived`: the
    waived groups that read it, each with the offset up to which it surely had, None: nobody knows.
    `tiers`: of a topic with remote storage, None for any other, and in plans of older journals.
    """

    topic: Text
    partition: PartitionId
    topic_id: Text | None
    leader_id: Offset | None
    leader_epoch: Offset | None
    log_start_offset: Offset | None
    last_stable_offset: Offset | None
    high_watermark: Offset | None
    target_offset: Count | None
    capped_by: Text | None
    guards: tuple[Guard, ...]
    groups: tuple[GroupClaim, ...]
    estimate: Estimate | None = None
    lifted: tuple[Lifted, ...] = field(default=(), metadata=LATER)
    epoch_ends: Mapping[int, Count] = field(default_factory=dict, metadata=LATER)
    waived: Mapping[str, Count | None] = field(default_factory=dict, metadata=LATER)
    tiers: Tiers | None = field(default=None, metadata=LATER)

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def told(self, claim: GroupClaim) -> int | None:
        """The offset of a group of it, where it tells how far the group has read."""
        offset, end = claim.committed_offset, self.high_watermark
        if offset is None or end is None:
            return None
        cut = (
            self.epoch_ends.get(claim.leader_epoch, end) if claim.leader_epoch is not None else end
        )
        return offset if offset <= min(end, cut) else None

    @property
    def places(self) -> list[tuple[str, bool, int | None]]:
        """Groups that read it, whether kept snapshots alone show them, and up to which offset each
        surely has; None: nobody knows. One that was waived, or lifted by name, may read it without
        any commit.
        """
        # What is remembered of a group that begins anew is lifted as unknown, not as read.
        untold = {found.group_id for found in self.lifted if found.name in _PLACE_UNKNOWN}
        known = [
            (c.group_id, c.remembered, None if c.group_id in untold else self.told(c))
            for c in self.groups
        ]
        committed = {c.group_id for c in self.groups}
        others = [(g, False, None) for g in self.accepted if g not in committed]
        return [(g, was, self.waived.get(g, at)) for g, was, at in (*known, *others)]

    @property
    def taken(self) -> Taken | None:
        """What it takes of each tier, where there is remote storage; None: that is not known."""
        if self.tiers is None:
            return None
        return taken(self.tiers, self.log_start_offset, self.target_offset, self.high_watermark)

    @property
    def accepted(self) -> list[str]:
        """Groups whose loss here was accepted by name: waived, or a guard lifted of theirs."""
        lifted = {found.group_id for found in self.lifted if found.group_id is not None}
        return sorted({*self.waived, *lifted})

    @property
    def free(self) -> bool:
        return not self.guards and self.target_offset is not None

    @property
    def kept_by(self) -> str | None:
        """What keeps records that were asked for: its first guard, or what lowered its target."""
        return self.guards[0].name if self.guards else self.capped_by

    @property
    def records(self) -> int | None:
        """Offsets between log start and target: an upper bound of the records that go."""
        if self.target_offset is None or self.log_start_offset is None:
            return None
        return max(0, self.target_offset - self.log_start_offset)


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of one topic's readers that the plan relied on."""

    topic: Text
    owner: str
    readers: Text
    replay_window_ms: Count
    declared_by: str
    declared_at: str
    reason: str = field(default="", metadata=LATER)
    state_restore: Text = field(default="unknown", metadata=LATER)


@dataclass(frozen=True)
class Plan:
    """Everything that may be sent, and why. Its identity is the sha256 of its canonical JSON.

    `rights_missing`: the topics whose records its principal may not delete; None where nobody
    could be asked, as in plans of older journals. `known_since`: what the memory of groups that
    it rests on began with, as `dashboard.history.known_since` has it; None where no analysis told.
    `name_shared`: another cluster of the data folder was called so, too, when it was made.
    `archive`: where its records are kept, and proved, before any is deleted; None: nowhere.
    """

    cluster_id: Text
    cluster_name: Text
    target: Text
    created_at: Moment
    expires_at: Moment
    created_by: str
    analysis_id: Text | None
    chosen_groups: tuple[Text, ...]
    partitions: tuple[PlannedPartition, ...]
    waivers: tuple[Waiver, ...]
    overrides: tuple[Override, ...]
    declarations: tuple[Declared, ...]
    unseen_readers: tuple[TopicReading, ...] = field(default=(), metadata=LATER)
    rights_missing: tuple[MissingRight, ...] | None = field(default=None, metadata=LATER)
    known_since: str | None = field(default=None, metadata=LATER)
    name_shared: bool = field(default=False, metadata=LATER)
    archive: str | None = field(default=None, metadata=LATER)

    @cached_property
    def _sealed(self) -> tuple[str, str]:
        return seal(_KIND.document(self))

    @property
    def sha256(self) -> str:
        """Hex sha256 of the canonical JSON without its own `sha256` key."""
        return self._sealed[0]

    @property
    def plan_id(self) -> str:
        return self.sha256[:16]

    @property
    def free_partitions(self) -> tuple[PlannedPartition, ...]:
        return tuple(p for p in self.partitions if p.free)

    @property
    def called(self) -> str:
        """Its cluster's name; with the id where another one had the same."""
        return called(self.cluster_name, self.cluster_id, shared=self.name_shared)

    @property
    def confirmation(self) -> str:
        """The sentence an operator must repeat: it names the topics with a free partition.

        Up to three by name, more by their number: nobody types 600 names, and "1 topics" would
        confirm any one of them.
        """
        topics = sorted({p.topic for p in self.free_partitions})
        named = ", ".join(topics) if 0 < len(topics) <= _MOST_NAMED else f"{len(topics)} topics"
        return f"purge {named} on {self.called}"

    @property
    def counted_confirmation(self) -> str:
        """The sentence of plans before topics were named, which programs may still repeat."""
        topics = {p.topic for p in self.free_partitions}
        return f"purge {len(topics)} topics on {self.called}"

    @cached_property
    def topic_ids(self) -> dict[str, str | None]:
        """The id of each planned topic, as it was when the plan was made."""
        return {p.topic: p.topic_id for p in self.partitions}

    @property
    def waived_groups(self) -> frozenset[str]:
        return frozenset(w.group_id for w in self.waivers)

    def expired(self, now: datetime) -> bool:
        return now >= self.expires_at

    def to_json_text(self) -> str:
        """Canonical JSON: sorted keys, no spaces, UTF-8, `sha256` over all but itself."""
        return self._sealed[1]

    def offsets_json(self) -> str:
        """The free partitions' targets as a file of Kafka's delete-records tool."""
        free = self.free_partitions
        return write_offsets_json(
            {p.key: p.target_offset for p in free if p.target_offset is not None}
        )

    @staticmethod
    def from_json_text(text: str, where: str) -> Plan:
        """The plan in `text`. Raises PlanError PLAN_INVALID, RefusedError PLAN_EDITED."""
        return _KIND.parse(text, where)


def build(
    facts: PlanFacts,
    resolved: Mapping[TopicPartition, ResolvedTarget],
    *,
    target: str,
    chosen_groups: Collection[str] = (),
    waivers: Iterable[Waiver] = (),
    overrides: Iterable[Override] = (),
    declarations: Mapping[str, TopicDeclaration],
    estimates: Mapping[TopicPartition, Estimate],
    analysis_id: str | None,
    most_partitions: int,
    created_by: str,
    now: datetime,
    expires_after: timedelta,
    rights_missing: tuple[MissingRight, ...] | None = None,
    name_shared: bool = False,
    archive: str | None = None,
) -> Plan:
    """The plan for frozen targets: pure, the same input gives the same bytes."""
    waived = tuple(
        replace(w, at=_to_millisecond(w.at), alive=alive(facts.groups.get(w.group_id)))
        for w in sorted(waivers, key=lambda w: w.group_id)
    )
    asked = [replace(o, at=_to_millisecond(o.at)) for o in overrides]
    found = findings(
        facts,
        resolved,
        waived={w.group_id for w in waived},
        declarations=declarations,
        most_partitions=most_partitions,
        planned_partitions=len(resolved),
    )
    lifted: dict[tuple[str, str], Override] = {}
    partitions = tuple(
        _partition(facts, key, resolved[key], found[key], overrides=asked, lifted=lifted,
                   estimate=estimates.get(key))
        for key in sorted(resolved)
    )  # fmt: skip
    partitions = _with_waived(facts, partitions, {w.group_id for w in waived})
    return Plan(
        cluster_id=facts.cluster_id,
        cluster_name=facts.cluster_name,
        target=target,
        created_at=_to_millisecond(now),
        expires_at=_to_millisecond(now + expires_after),
        created_by=created_by,
        analysis_id=analysis_id,
        chosen_groups=tuple(sorted(chosen_groups)),
        partitions=partitions,
        waivers=waived,
        overrides=tuple(lifted[key] for key in sorted(lifted)),
        declarations=_declared(declarations, {key.topic for key in resolved}),
        unseen_readers=tuple(
            reading_of(facts.readings, topic) for topic in sorted({key.topic for key in resolved})
        ),
        rights_missing=rights_missing,
        known_since=facts.known_since,
        name_shared=name_shared,
        archive=archive,
    )


def _with_waived(
    facts: PlanFacts, partitions: tuple[PlannedPartition, ...], waived: Collection[str]
) -> tuple[PlannedPartition, ...]:
    """The partitions with what the waivers set aside there."""
    if not waived:
        return partitions
    # Loads tables, as judging guards does.
    from dashboard.purge.plan import standing

    places = standing.places(facts, [p.key for p in partitions])
    return tuple(
        replace(p, waived={g: at for g, at in sorted(places[p.key].items()) if g in waived})
        for p in partitions
    )


def _partition(
    facts: PlanFacts,
    key: TopicPartition,
    target: ResolvedTarget,
    found: list[Finding],
    *,
    overrides: list[Override],
    lifted: dict[tuple[str, str], Override],
    estimate: Estimate | None,
) -> PlannedPartition:
    seen = facts.partitions[key]
    blocking, used = lift(found, overrides, has_target=target.offset is not None)
    for override, _ in used:
        lifted[(override.name, override.group_id or "")] = override
    return PlannedPartition(
        topic=key.topic,
        partition=key.partition,
        topic_id=seen.topic_id,
        leader_id=seen.leader_id,
        leader_epoch=seen.leader_epoch,
        log_start_offset=seen.log_start_offset,
        last_stable_offset=seen.last_stable_offset,
        high_watermark=seen.high_watermark,
        target_offset=target.offset,
        capped_by=target.capped_by,
        guards=blocking,
        groups=facts.claims.get(key, ()),
        estimate=estimate,
        lifted=tuple(dict.fromkeys(found for _, found in used)),
        epoch_ends=seen.epoch_ends,
        tiers=facts.tiers.get(key),
    )


def _declared(
    declarations: Mapping[str, TopicDeclaration], topics: set[str]
) -> tuple[Declared, ...]:
    return tuple(
        Declared(
            topic=topic,
            owner=d.owner,
            readers=d.readers,
            replay_window_ms=round(d.replay_window.total_seconds() * 1000),
            declared_by=d.declared_by,
            declared_at=d.declared_at,
            reason=d.reason,
            state_restore=d.state_restore,
        )
        for topic in sorted(topics)
        if (d := declarations.get(topic)) is not None
    )


def _to_millisecond(moment: datetime) -> datetime:
    # JSON carries milliseconds: what is hashed must survive the way there and back.
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def decisions(plan: Plan) -> dict[str, object]:
    """What people decided, each with who, when and why: waivers, overrides, declarations."""
    named = ("waivers", "overrides", "declarations")
    return {name: written(getattr(plan, name)) for name in named}


def _check(plan: Plan) -> None:
    """A plan sealed again by hand has a right hash; its values tell that no planner made it."""
    if plan.known_since is not None and not is_told(plan.known_since):
        raise ValueError(f"known_since is {plan.known_since!r}, which names no snapshot")
    if plan.archive is not None:
        try:
            check_url(plan.archive)
        except SettingsError as error:
            raise ValueError(error.message) from error
    seen: set[TopicPartition] = set()
    for p in plan.partitions:
        if not all(text for g in p.guards for text in (g.name, g.reason, g.lift)):
            raise ValueError(f"{p.topic}-{p.partition} has a guard without name, reason or lift")
        if p.key in seen:
            raise ValueError(f"{p.topic}-{p.partition} stands in it twice")
        seen.add(p.key)


def _invalid(where: str, what: str) -> PlanError:
    return PlanError(f"{where} {what}", "Make one with: lowwater plan … --out plan.json.")


def _edited(where: str, actual: str, claimed: object) -> RefusedError:
    return RefusedError(
        f"{where} was changed after it was planned: its sha256 is {actual}, it says {claimed}",
        "Plan again; a plan is never edited by hand.",
        code="PLAN_EDITED",
    )


_KIND = SealedKind(Plan, "plan", _invalid, _edited, _check)
