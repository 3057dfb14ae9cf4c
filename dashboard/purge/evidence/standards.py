"""What settings and the store say now: a plan is judged by it again, not by its own text.

A plan is a file: whoever edits and seals it anew has a right hash. So what it was judged by when it
was made counts no more when it is queued, approved and sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.errors import StoreError
from dashboard.purge.evidence import memory, memory_age
from dashboard.purge.journal.journal_rows import RestedOn
from dashboard.purge.plan.facts import PlanFacts, RememberedOffset
from dashboard.purge.plan.resolve import History
from dashboard.safety.unseen_readers import TopicReading
from dashboard.settings.settings import PurgeSettings, Settings, TopicDeclaration
from dashboard.store.snapshots import ClusterStore


@dataclass(frozen=True)
class Standards:
    """Declarations by topic, the guards that may be lifted, the limit of one run, and the store.

    `readings`: what brokers' metrics tell of unseen readers; `pattern_refresh`: how long a topic
    may be unknown to consumers that subscribe by a pattern; `remembered`: the last known offsets
    of groups, also of those that came and went since the plan; `streams`: those that were Kafka
    Streams applications; `met`: when groups were met on a topic, as `met_readers` has it; `rested`:
    runs whose history the store must have; `most_history_age`: how old that memory may be.
    """

    declarations: Mapping[str, TopicDeclaration]
    liftable: Collection[str]
    most_partitions: int
    store: ClusterStore | None = None
    readings: Mapping[str, TopicReading] = field(default_factory=dict)
    pattern_refresh: timedelta = timedelta(0)
    remembered: Sequence[RememberedOffset] = ()
    streams: frozenset[str] = frozenset()
    met: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rested: Sequence[RestedOn] = ()
    most_history_age: timedelta = PurgeSettings().most_history_age

    def applied(self, facts: PlanFacts, now: datetime) -> PlanFacts:
        """Live facts with what the store adds to them."""
        facts = replace(facts, readings=self.readings, streams=self.streams, met=self.met)
        if self.store is None:
            return facts
        facts = memory.with_holes(self.store, facts, self.rested)
        facts = memory_age.with_age(self.store, facts, self.most_history_age)
        return memory.with_new_topics(self.store, facts, now, self.pattern_refresh)

    def history(self, facts: PlanFacts) -> History:
        """What kept snapshots tell; nothing without a store."""
        return History() if self.store is None else memory.history(self.store, facts)


def standards(
    settings: Settings, store: ClusterStore, topics: Collection[str], now: datetime
) -> Standards:
    """The standards for a plan over `topics`. Raises SettingsError, StoreError."""
    return Standards(
        declarations=memory.declarations(settings, store, topics),
        liftable=settings.purge.liftable_guards,
        most_partitions=settings.purge.most_partitions,
        store=store,
        readings=readings(store, topics, now),
        pattern_refresh=settings.purge.pattern_refresh,
        remembered=memory.remembered(store, topics),
        streams=memory.streams(store),
        met=memory.met(store, topics),
        most_history_age=settings.purge.most_history_age,
    )


def readings(
    store: ClusterStore, topics: Collection[str], now: datetime
) -> dict[str, TopicReading]:
    """What kept broker metrics tell of each topic; {} where no snapshot has any."""
    if not any(_has_metrics(store, name) for name in reversed(store.ids("snapshots"))):
        return {}
    from dashboard.purge.evidence.readings import topic_readings  # loads tables

    return topic_readings(store, topics, now)


def _has_metrics(store: ClusterStore, snapshot: str) -> bool:
    with suppress(StoreError):  # damaged or pruned meanwhile: others tell
        return bool(store.manifest("snapshots", snapshot).tables.get("broker_metrics"))
    return False
