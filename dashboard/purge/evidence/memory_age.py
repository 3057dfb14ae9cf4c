"""How old the memory of groups is: one that came and went since then is known to nobody.

A group that is gone counts at the offset that kept snapshots show. Kafka forgets its offsets some
time after its end (offsets.retention.minutes, a week by default), a person any time: only what was
collected meanwhile tells that it was there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.core.errors import StoreError
from dashboard.core.words import duration
from dashboard.history.seen_topics import ids_of
from dashboard.purge.plan.facts import PlanFacts
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
