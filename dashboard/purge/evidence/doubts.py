"""What a purge of whole topics would be asked beside their findings: days of metrics, and how much
is remembered of groups, and who was down since a topic was made. An analysis of one snapshot tells
none of it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress
from datetime import datetime

from dashboard.core.errors import JournalError, StoreError
from dashboard.domain.model import WORKERS, Guard
from dashboard.history.seen_topics import ids_of
from dashboard.purge.evidence import memory, memory_age
from dashboard.purge.evidence.standards import readings
from dashboard.purge.journal.journal_head import journal_in
from dashboard.purge.journal.journal_reads import JournalReads
from dashboard.purge.journal.journal_rows import RestedOn
from dashboard.purge.plan.guards import Finding, of_history
from dashboard.safety.guard_texts import guard
from dashboard.safety.unseen_readers import reading_of
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore


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
    unremembered = memory_age.unremembered(store, topics, now, settings.purge.most_history_age)
    of_all = memory.elsewhere_of(store, rested(settings, store))
    folder = None if of_all is None else Finding(of_all, fact="elsewhere")
    found = {
        topic: of_history(reading_of(measured, topic), folder, unremembered.get(topic))
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
        text = guard("no-committed-offset", who=f"Group {group} may come upon it yet")
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
    path = journal_in(settings.state_dir)
    # Who may not read it plans without: what is sent is judged again by who has it open.
    with suppress(OSError, JournalError):
        if path.is_file():
            with closing(JournalReads(path, on_network=settings.state_dir_on_network)) as journal:
                found = journal.rested_on(store.cluster_id)
                return [found] if found else []
    return []
