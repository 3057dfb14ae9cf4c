"""Look before you purge: some records below the targets, read live and kept nowhere.

Who looks needs READ on the topic (Kafka's `KafkaApis.handleFetchRequest`) and, with [people], the
operator's role: records may hold what the pages' readers shall not see. Neither the plan nor the
journal learns of it. And how old the oldest records are, which is no secret.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.records import read_records
from dashboard.core.errors import RefusedError, UsageError
from dashboard.domain import rights
from dashboard.domain.model import OffsetAtTime, PartitionOffsets, TopicPartition, TopicState
from dashboard.domain.records import TIMED_OUT, LookedAt, Span
from dashboard.people import people
from dashboard.people.people import Who
from dashboard.purge.plan.cluster_seam import prove_cluster
from dashboard.settings.settings import Settings
from dashboard.store.connections import client_for
from dashboard.store.snapshots import Store

if TYPE_CHECKING:
    from dashboard.purge.plan.cluster_seam import Cluster
    from dashboard.purge.plan.plan import Plan, PlannedPartition

MOST_PARTITIONS = 8  # at once: one look stays within PATIENCE, and within what a person reads
PATIENCE = timedelta(seconds=10)
WHAT = "look at records"
_FORBIDDEN = "TOPIC_AUTHORIZATION_FAILED"


@dataclass(frozen=True, slots=True)
class LookRequest:
    """What to look at: partitions with the offsets below which records would go.

    `topic_ids`: the topics that are meant, None where it is not known. `sampled` records of each
    partition beside the first and the last; `values` are read only when asked for.
    """

    targets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str | None]
    sampled: int
    values: bool = False


def look(
    settings: Settings,
    store_root: str,
    cluster: str | None,
    asked: LookRequest,
    who: Who,
    *,
    client_overrides: Mapping[str, str] | None = None,
    steady: Callable[[], float] = time.monotonic,
) -> tuple[LookedAt, ...]:
    """The records, or the error, of each partition, sorted. Changes nothing, joins no group.

    Raises RefusedError (ROLE_TOO_LOW, CLUSTER_MISMATCH, OFFSETS_TOPIC_UNSEEN), StoreError,
    SettingsError, and ClusterError when no broker answers.
    """
    people.require(settings, who, "operator", WHAT)
    deadline = steady() + PATIENCE.total_seconds()
    store = Store(store_root).cluster(cluster)
    client = client_for(settings, store, client_overrides)
    patience = min(settings.broker_timeout, PATIENCE)
    with connect(client, patience, cluster_id=store.cluster_id) as live:
        prove_cluster(live, store.cluster_id)
        refuse_without_offsets_topic(live)
        places, principal = _places(live, asked), live.principal()
    spans = {row.key: span for row in places if (span := _span(row)) is not None}
    read: dict[TopicPartition, LookedAt] = {}
    if spans:
        read = read_records(
            client, store.cluster_id, spans,
            sampled=asked.sampled, values=asked.values, deadline=deadline,
        )  # fmt: skip
    return tuple(_explained(read.get(row.key, row), principal) for row in places)


def refuse_without_offsets_topic(live: Cluster) -> None:
    """A consumer asks who coordinates its group: where that topic is missing brokers make it."""
    name = rights.OFFSETS_TOPIC
    if (error := live.topics([name])[name].error) is None:
        return
    raise RefusedError(
        f"a consumer would make brokers create the topic {name}, since none is seen: {error}",
        "Looking changes nothing, so it waits: give the principal Describe on that topic, or let "
        "any group commit once.",
        code="OFFSETS_TOPIC_UNSEEN",
    )


def _places(live: LiveCluster, asked: LookRequest) -> list[LookedAt]:
    """Each partition with its log start of now, or what forbids to read it, sorted."""
    names = sorted({key.topic for key in asked.targets})
    topics = live.topics(names)
    told = live.authorized(names, ()).topics
    offsets = live.offsets(asked.targets, topics)
    rows = []
    for key in sorted(asked.targets):
        operations = told.get(key.topic)
        row = _place(offsets[key], asked.targets[key])
        if operations is not None and rights.READ_TOPIC.operation not in operations:
            row = replace(row, error=_FORBIDDEN)
        elif _is_other(topics[key.topic].topic_id, asked.topic_ids.get(key.topic)):
            row = replace(row, error="UNKNOWN_TOPIC_ID")
        rows.append(row)
    return rows


def _is_other(topic_id: str | None, meant: str | None) -> bool:
    return None not in (topic_id, meant) and topic_id != meant


def _place(seen: PartitionOffsets, target: int) -> LookedAt:
    """Nothing lies at or above the high watermark that a consumer may read."""
    end = seen.high_watermark
    upto = target if end is None else min(target, end)
    return LookedAt(seen.topic, seen.partition, seen.log_start_offset, upto, error=seen.error)


def _span(row: LookedAt) -> Span | None:
    """What there is to read; None: nothing, or it may not be."""
    start = row.log_start_offset
    if row.error is not None or start is None or start >= row.target_offset:
        return None
    return Span(start, row.target_offset)


_SAID = {
    TIMED_OUT: f"not all of it was read within {PATIENCE.seconds} s",
    "OFFSET_OUT_OF_RANGE": "the log was cut meanwhile; look again",
    "UNKNOWN_TOPIC_ID": "another topic has this name by now; plan again",
}


def _explained(row: LookedAt, principal: str | None) -> LookedAt:
    """The row with its error in words, and with the line that gives a right that is missing."""
    if row.error is None:
        return replace(row, why="")
    if row.error == _FORBIDDEN:
        line = rights.command(rights.READ_TOPIC, principal or rights.ANYBODY, row.topic)
        who = principal or "the principal"
        return replace(row, why=f"{who} has no READ on topic {row.topic}: {line}")
    said = [_SAID[row.error]] if row.error in _SAID else []
    return replace(row, why=": ".join([*said, *([row.why] if row.why else [])]))


# How old the oldest records are: their times alone, so Describe is enough.

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # the first that a record can bear


@dataclass(frozen=True, slots=True)
class Oldest:
    """Of a topic the earliest time that the first record of a partition bears; `at` is None where
    it has no record with a time. `error`: of some partition it could not be read, which and why.
    """

    topic: str
    at: datetime | None
    partition: int | None = None
    error: str | None = None


def oldest(
    settings: Settings,
    store_root: str,
    cluster: str | None,
    topics: Sequence[str],
    *,
    client_overrides: Mapping[str, str] | None = None,
) -> tuple[Oldest, ...]:
    """Of each topic, in their order, by ListOffsets for the beginning of time. Changes nothing.

    Raises RefusedError CLUSTER_MISMATCH, StoreError, SettingsError, and ClusterError when no broker
    answers.
    """
    store = Store(store_root).cluster(cluster)
    client = client_for(settings, store, client_overrides)
    patience = min(settings.broker_timeout, PATIENCE)
    with connect(client, patience, cluster_id=store.cluster_id) as live:
        prove_cluster(live, store.cluster_id)
        states = live.topics(topics)
        keys = [TopicPartition(t, p.partition) for t in topics for p in states[t].partitions]
        found = live.offsets_at(keys, _ANY_TIME)
    return tuple(_oldest(states[topic], [found[k] for k in keys if k.topic == topic])
                 for topic in topics)  # fmt: skip


def _oldest(state: TopicState, found: Sequence[OffsetAtTime]) -> Oldest:
    at, partition = min(((o.at, o.partition) for o in found if o.at), default=(None, None))
    failed = next((f"{state.topic}-{o.partition}: {o.error}" for o in found if o.error), None)
    return Oldest(state.topic, at, partition, state.error or failed)


# What to look at of a plan.


def planned(plan: Plan, keys: Sequence[TopicPartition] = ()) -> dict[TopicPartition, int]:
    """Targets of the partitions named, or of at most MOST_PARTITIONS with the most records below.

    Free ones come first. Raises UsageError for one that the plan does not hold, or that has no
    target.
    """
    targets = {p.key: p.target_offset for p in worth(plan) if p.target_offset is not None}
    if not keys:
        return dict(list(targets.items())[:MOST_PARTITIONS])
    for key in keys:
        if key not in targets:
            raise UsageError(
                f"the plan has no records below a target of {key.topic}-{key.partition}",
                "Name a partition of the plan as TOPIC-N, such as orders-0.",
            )
    return {key: targets[key] for key in keys}


def worth(plan: Plan) -> list[PlannedPartition]:
    """The partitions with records below their targets: free ones first, then by most records."""
    return sorted(
        (p for p in plan.partitions if p.records), key=lambda p: (not p.free, -(p.records or 0))
    )
