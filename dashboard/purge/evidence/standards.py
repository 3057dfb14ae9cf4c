"""What settings and the store say now: a plan is judged by it again, not by its own text.

A plan is a file: whoever edits and seals it anew has a right hash. So what it was judged by when it
was made counts no more when it is queued, approved and sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

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
    """Declarations by topic, what settings say of purges, and what the store tells.

    `purge`: the section's settings, as they are now; `readings`: what brokers' metrics tell of
    unseen readers; `remembered`: the last known offsets of groups, also of those that came and went
    since the plan; `streams`: those that were Kafka Streams applications; `met`: when groups were
    met on a topic, as `met_readers` has it; `rested`: runs whose history the store must have.
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
        facts = memory_age.with_age(self.store, facts, self.purge.most_history_age)
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
    from dashboard.purge.evidence.readings import topic_readings  # loads tables

    return topic_readings(store, topics, now)


def _has_metrics(store: ClusterStore, snapshot: str) -> bool:
    with suppress(StoreError):  # damaged or pruned meanwhile: others tell
        return bool(store.manifest("snapshots", snapshot).tables.get("broker_metrics"))
    return False
