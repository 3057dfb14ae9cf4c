"""What settings and the store say now: a plan is judged by it again, not by its own text; how old
the memory of groups is; and what a purge of whole topics would be asked beside their findings,
before there is a plan.

A plan is a file: whoever edits and seals it anew has a right hash. So what it was judged by when it
was made counts no more when it is queued, approved and sent. An analysis of one snapshot tells
neither days of metrics, nor how much is remembered of groups, nor who was down since a topic was
made.

A group that is gone counts at the offset that kept snapshots show. Kafka forgets its offsets some
time after its end (offsets.retention.minutes, a week by default), a person any time: only what was
collected meanwhile tells that it was there. One that came and went since then is known to nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.core.errors import StoreError
from dashboard.core.words import duration
from dashboard.domain.model import WORKERS, Guard
from dashboard.history.seen_topics import ids_of
from dashboard.purge.evidence import memory
from dashboard.purge.journal.reads import told_by_journal
from dashboard.purge.journal.rows import RestedOn
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.guards import Finding, of_history
from dashboard.purge.plan.resolve import History
from dashboard.safety.guard_texts import guard
from dashboard.safety.unseen_readers import TopicReading, reading_of
from dashboard.settings.settings import PurgeSettings, Settings, TopicDeclaration
from dashboard.store.clocks import clock_was_right
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

KAFKA_FORGETS_AFTER = timedelta(days=7)  # offsets.retention.minutes, where brokers tell none


def with_age(store: ClusterStore, facts: PlanFacts, most: timedelta) -> PlanFacts:
    """`facts`, with why the memory of groups is too old for them, if it is. Raises StoreError."""
    topics = {key.topic for key in facts.partitions}
    return replace(facts, unremembered=unremembered(store, topics, facts.read_at, most))


def unremembered(
    store: ClusterStore, topics: Collection[str], now: datetime, most: timedelta
) -> dict[str, str]:
    """Topics for which no group that came and went is remembered for longer than `most`: why.

    The newest snapshot counts that lists all groups, by a clock that was right, and knows the
    topic: what was collected since then without proof is told. A coordinator leaves out, without
    an error, what groups committed on topics that the collector may not describe. Where there is
    no snapshot at all, guard no-history stands.

    Raises StoreError where snapshots cannot be listed.
    """
    left, doubtful, hides = set(topics), "", ""
    for snapshot_id, manifest in _newest_first(store):
        doubt = _doubt(manifest, now)
        if doubt is None and manifest is not None:
            if late := _too_old(manifest, now, most, doubtful):
                return dict.fromkeys(left, hides or late)
            left -= _shown(store, manifest, left)
            if not left:
                return {}
            hides = hides or _hides(manifest)
            continue
        doubtful = doubtful or f"; {snapshot_id} does not count: {doubt}"
    nothing = f"No kept snapshot lists all groups{doubtful}" if doubtful else ""
    return dict.fromkeys(left, hides or nothing) if hides or nothing else {}


def _shown(store: ClusterStore, manifest: Manifest, topics: Collection[str]) -> set[str]:
    """Those whose id a snapshot tells: what disks or groups alone named has none there.

    One that it does not show may have been hidden: its replicas' brokers may have been down.
    """
    try:
        ids = ids_of(store, manifest.id, topics)
    except StoreError:  # damaged, or pruned meanwhile
        return set()
    return {topic for topic, topic_id in ids.items() if topic_id is not None}


def _hides(manifest: Manifest) -> str:
    return (
        f"The snapshot of {format_time(manifest.taken_at)} does not show this topic: it "
        "is younger, or its collector may not describe it nor see what groups committed here"
    )


def _newest_first(store: ClusterStore) -> Iterator[tuple[str, Manifest | None]]:
    """Each kept snapshot's manifest; None where it is damaged, or was pruned meanwhile."""
    for snapshot_id in reversed(store.ids("snapshots")):
        try:
            yield snapshot_id, store.manifest("snapshots", snapshot_id)
        except StoreError:
            yield snapshot_id, None


def _doubt(manifest: Manifest | None, now: datetime) -> str | None:
    """Why a snapshot is no proof that groups were remembered when it says so; None: it is."""
    if manifest is None:
        return "it cannot be read"
    if incomplete := manifest.details.get("groups_incomplete"):
        return f"its list of groups is incomplete ({incomplete[0]})"
    if not clock_was_right(manifest):
        return "the clock that it was taken by was wrong, or could not be compared"
    if manifest.taken_at > now + CLOCKS_AGREE:
        return "it bears a time to come"
    return None


def _too_old(manifest: Manifest, now: datetime, most: timedelta, doubtful: str) -> str | None:
    allowed, by = most, "most_history_age"
    minutes = manifest.details.get("offsets_retention_minutes")
    kept = KAFKA_FORGETS_AFTER if minutes is None else timedelta(minutes=minutes)
    if kept / 2 < most:
        allowed, by = kept / 2, "half of offsets.retention.minutes"
    if now - manifest.taken_at <= allowed:
        return None
    return (
        f"The newest snapshot that lists all groups is of {format_time(manifest.taken_at)}, longer "
        f"ago than {duration(allowed.total_seconds())} ({by}){doubtful}"
    )


@dataclass(frozen=True)
class Standards:
    """Declarations by topic, what settings say of purges, and what the store tells.

    `purge`: the section's settings, as they are now; `readings`: what brokers' metrics tell of
    unseen readers; `remembered`: the last known offsets of groups, also of those that came and went
    since the plan; `streams`: those that were Kafka Streams applications; `met`: when groups were
    met on a topic, as `past_groups` has it; `rested`: runs whose history the store must have.
    """

    declarations: Mapping[str, TopicDeclaration]
    purge: PurgeSettings
    store: ClusterStore | None = None
    readings: Mapping[str, TopicReading] = field(default_factory=dict)
    remembered: Sequence[RememberedOffset] = ()
    streams: frozenset[str] = frozenset()
    met: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rested: Sequence[RestedOn] = ()

    def applied(self, facts: PlanFacts, now: datetime) -> PlanFacts:
        """Live facts with what the store adds to them."""
        facts = replace(facts, readings=self.readings, streams=self.streams, met=self.met)
        if self.store is None:
            return facts
        facts = memory.with_holes(self.store, facts, self.rested)
        facts = with_age(self.store, facts, self.purge.most_history_age)
        return memory.with_new_topics(self.store, facts, now, self.purge)

    def history(self, facts: PlanFacts) -> History:
        """What kept snapshots tell; nothing without a store."""
        return History() if self.store is None else memory.history(self.store, facts)


def standards(
    settings: Settings, store: ClusterStore, topics: Collection[str], now: datetime
) -> Standards:
    """The standards for a plan over `topics`. Raises SettingsError, StoreError."""
    return Standards(
        declarations=memory.declarations(settings, store, topics),
        purge=settings.purge,
        store=store,
        readings=readings(store, topics, now),
        remembered=memory.remembered(store, topics),
        streams=memory.streams(store),
        met=memory.met(store, topics, now),
    )


def readings(
    store: ClusterStore, topics: Collection[str], now: datetime
) -> dict[str, TopicReading]:
    """What kept broker metrics tell of each topic; {} where no snapshot has any."""
    if not any(_has_metrics(store, name) for name in reversed(store.ids("snapshots"))):
        return {}
    from dashboard.history.readings import topic_readings  # loads tables

    return topic_readings(store, topics, now)


def _has_metrics(store: ClusterStore, snapshot: str) -> bool:
    with suppress(StoreError):  # damaged or pruned meanwhile: others tell
        return bool(store.manifest("snapshots", snapshot).tables.get("broker_metrics"))
    return False


def doubts(
    settings: Settings, store: ClusterStore, topics: Collection[str], now: datetime
) -> dict[str, tuple[Guard, ...]]:
    """The plan-level guards that a purge of each topic would have now, judged as a plan judges:
    `unseen-reader-suspected`, `stale-history`, `no-history`; and `no-committed-offset` of groups
    in the newest snapshot that may come upon it yet (`log_ends.missed`). Raises StoreError.
    """
    if not topics:
        return {}
    measured = readings(store, topics, now)
    too_old = unremembered(store, topics, now, settings.purge.most_history_age)
    of_all = memory.elsewhere_of(store, rested(settings, store))
    folder = None if of_all is None else Finding(of_all, fact="elsewhere")
    found = {
        topic: of_history(reading_of(measured, topic), folder, too_old.get(topic))
        for topic in topics
    }
    down = _down(settings, store, topics, now)
    guards = {t: (*(f.guard for f in made), *down.get(t, ())) for t, made in found.items()}
    return {topic: made for topic, made in guards.items() if made}


def _down(
    settings: Settings, store: ClusterStore, topics: Collection[str], now: datetime
) -> dict[str, list[Guard]]:
    """Of each topic the groups that were down since it was made, and have no offset there."""
    from dashboard.history.log_ends import missed  # loads tables

    newest = store.latest("snapshots")
    if newest is None:
        return {}
    listed = store.read("snapshots", newest, "groups", ["group_id", "type"]).to_pylist()
    groups = {row["group_id"] for row in listed if row["type"] not in (*WORKERS, "share")}
    groups -= settings.purge.by_name(groups)
    ids = ids_of(store, newest, topics)
    found = missed(store, now, settings.purge.pattern_refresh, ids, groups)
    held = memory.remembered(store, {topic for topic, _ in found}) if found else ()
    read = {(kept.topic, kept.group_id) for kept in held if kept.topic_id == ids[kept.topic]}
    by_topic: dict[str, list[Guard]] = {}
    for topic, group in sorted(found - read):
        who = f"Group {group} may come upon it yet"
        text = guard("no-committed-offset", who=who, group_id=group)
        by_topic.setdefault(topic, []).append(text)
    return by_topic


def said(
    settings: Settings, store: ClusterStore, topics: Collection[str], now: datetime
) -> dict[str, str]:
    """The same in words, by topic; where snapshots cannot be read, that is what stands."""
    try:
        found = doubts(settings, store, topics, now)
    except StoreError as error:
        return dict.fromkeys(topics, f"who else may want its records is not known: {error.message}")
    return {
        topic: "; ".join(f"{one.name}: {one.reason.removesuffix('.')}" for one in guards)
        for topic, guards in found.items()
    }


def rested(settings: Settings, store: ClusterStore) -> list[RestedOn]:
    """What the newest run in this machine's journal rested on; nothing where there is none."""
    # Who may not read it plans without: what is sent is judged again by who has it open.
    found = told_by_journal(settings, lambda journal: journal.rested_on(store.cluster_id))
    return [found] if found else []
