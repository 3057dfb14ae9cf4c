"""Turns what the brokers answered into the tables of one snapshot, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dashboard.model import (
    Broker,
    BrokerMetrics,
    ConfigEntry,
    GroupListing,
    LogDirsAnswer,
    PartitionOffsets,
    PartitionState,
    Reassignment,
    ReplicaOffsets,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from dashboard.tables import SNAPSHOT_TABLES, build


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything one collect read. What could not be read is empty; `errors` say why."""

    brokers: Sequence[Broker]
    topics: Mapping[str, TopicState]
    offsets: Mapping[TopicPartition, PartitionOffsets]
    replicas: Sequence[ReplicaOffsets]
    log_dirs: LogDirsAnswer
    groups: GroupListing
    configs: Sequence[ConfigEntry]
    reassignments: Sequence[Reassignment]
    metrics: BrokerMetrics | None = None  # None: nobody named a source


class Numbers:
    """Topic name -> topic_no: the metadata's topics, then those only log dirs or groups know."""

    def __init__(self, answers: Answers) -> None:
        listed = sorted(answers.topics)
        elsewhere = {r.topic for r in answers.log_dirs.replicas}
        elsewhere |= {o.topic for o in answers.groups.offsets}
        elsewhere |= {r.topic for r in answers.reassignments}
        self.names = listed + sorted(elsewhere.difference(listed))
        self.of = {name: number for number, name in enumerate(self.names)}


def build_tables(answers: Answers) -> dict[str, dict[str, list[Any]]]:
    """Table name -> its columns, without snapshot_id and taken_at."""
    numbers = Numbers(answers)
    tables = {
        "brokers": brokers(answers.brokers),
        "configs": columns(answers.configs, "scope", "name", "key", "value", "source"),
        "topics": topics(answers.topics, numbers),
        "partitions": partitions(answers, numbers),
        "reassignments": {
            "topic_no": [numbers.of[r.topic] for r in answers.reassignments],
            **columns(answers.reassignments, "partition", "adding", "removing"),
        },
        "replicas": replicas(answers, numbers),
        "log_dirs": columns(
            answers.log_dirs.log_dirs,
            "broker_id",
            "log_dir",
            "total_bytes",
            "usable_bytes",
            "error",
        ),
        "groups": groups(answers.groups),
        "group_offsets": {
            "topic_no": [numbers.of[o.topic] for o in answers.groups.offsets],
            **columns(answers.groups.offsets, "group_id", "partition", "committed_offset", "error"),
        },
    }
    if answers.metrics is not None:
        samples = answers.metrics.samples
        tables["broker_metrics"] = columns(samples, "broker_id", "name", "labels", "value")
    return tables


def to_arrow(
    name: str, table: Mapping[str, list[Any]], snapshot_id: str, taken_at: Any
) -> pa.Table:
    """One table in its declared schema, sorted by its key, with the two columns of every row."""
    rows = len(next(iter(table.values())))
    stamped = {"snapshot_id": [snapshot_id] * rows, "taken_at": [taken_at] * rows, **table}
    return build(SNAPSHOT_TABLES[name], stamped)


def columns(records: Iterable[Any], *names: str) -> dict[str, list[Any]]:
    """Attributes of records as columns of the same names."""
    every = list(records)
    return {name: [getattr(record, name) for record in every] for name in names}


def brokers(found: Sequence[Broker]) -> dict[str, list[Any]]:
    """One row per broker; host and port are null when only replica lists name it."""
    return {
        **columns(found, "broker_id", "rack", "reachable", "error"),
        "host": [b.host or None for b in found],
        "port": [b.port or None for b in found],
        "api_versions": [list(b.api_versions.items()) for b in found],
    }


def topics(found: Mapping[str, TopicState], numbers: Numbers) -> dict[str, list[Any]]:
    """The dictionary of topic numbers; id and internal are null for a topic not in the metadata."""
    states = [found.get(name) for name in numbers.names]
    return {
        "topic_no": list(range(len(numbers.names))),
        "topic": numbers.names,
        "topic_id": [s.topic_id if s else None for s in states],
        "is_internal": [s.is_internal if s else None for s in states],
    }


def partitions(answers: Answers, numbers: Numbers) -> dict[str, list[Any]]:
    """One row per partition: the metadata's leader and replicas, the leader's offsets."""
    states = _partition_states(answers.topics)
    nothing = PartitionOffsets("", 0, None, None, None, None)
    offsets = [answers.offsets.get(TopicPartition(s.topic, s.partition), nothing) for s in states]
    return {
        "topic_no": [numbers.of[s.topic] for s in states],
        **columns(states, "partition", "leader_id", "leader_epoch", "replicas", "isr"),
        **columns(offsets, "log_start_offset", "last_stable_offset", "high_watermark"),
        "error": [o.error or s.error for s, o in zip(states, offsets, strict=True)],
    }


def _partition_states(found: Mapping[str, TopicState]) -> list[PartitionState]:
    return [partition for state in found.values() for partition in state.partitions]


def groups(listing: GroupListing) -> dict[str, list[Any]]:
    """One row per group; `assigned` as structs of topic name and partition."""
    return {
        **columns(
            listing.groups, "group_id", "type", "state", "members", "coordinator_answered", "error"
        ),
        "assigned": [
            [{"topic": tp.topic, "partition": tp.partition} for tp in g.assigned]
            for g in listing.groups
        ],
    }


def replicas(answers: Answers, numbers: Numbers) -> dict[str, list[Any]]:
    """One row per replica that DescribeLogDirs, its own offsets or the metadata names.

    A replica with a future copy has two rows. `log_dir` and `size_bytes` are null where no
    log dir is known, never 0. Offsets belong to the live replica, not to a future one.
    """
    states = {(s.topic, s.partition): s for s in _partition_states(answers.topics)}
    offsets = {(r.broker_id, r.topic, r.partition): r for r in answers.replicas}
    sizes = {
        (r.broker_id, r.topic, r.partition): r for r in answers.log_dirs.replicas if not r.is_future
    }
    live = sorted({*offsets, *sizes, *((b, *key) for key, s in states.items() for b in s.replicas)})
    future = [r for r in answers.log_dirs.replicas if r.is_future]
    hidden = dict(answers.log_dirs.errors)
    rows = [
        _replica(key, states.get(key[1:]), offsets.get(key), sizes.get(key), hidden.get(key[0]))
        for key in live
    ]
    rows += [
        _replica(
            (r.broker_id, r.topic, r.partition), states.get((r.topic, r.partition)), None, r, None
        )
        for r in future
    ]
    names = (
        "broker_id", "log_dir", "topic", "partition", "size_bytes", "is_future",
        "log_start_offset", "log_end_offset", "is_leader", "in_sync", "observed_at", "error",
    )  # fmt: skip
    table: dict[str, list[Any]] = (
        {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
        if rows
        else {name: [] for name in names}
    )
    named = table.pop("topic")
    table["topic_no"] = [numbers.of[topic] for topic in named]
    ids = {name: state.topic_id for name, state in answers.topics.items()}
    table["topic_id"] = [ids.get(topic) for topic in named]
    return table


def _replica(
    key: tuple[int, str, int],
    state: PartitionState | None,
    offsets: ReplicaOffsets | None,
    size: ReplicaSize | None,
    hidden: str | None,
) -> tuple[Any, ...]:
    broker_id, topic, partition = key
    future = size is not None and size.is_future
    return (
        broker_id,
        size.log_dir if size else None,
        topic,
        partition,
        size.size_bytes if size else None,
        future,
        offsets.log_start_offset if offsets else None,
        offsets.log_end_offset if offsets else None,
        broker_id == state.leader_id if state and not future else None,
        broker_id in state.isr if state and not future else None,
        offsets.observed_at if offsets else None,
        (offsets.error if offsets else None) or hidden or _missing(state, size, broker_id),
    )


def _missing(state: PartitionState | None, size: ReplicaSize | None, broker_id: int) -> str | None:
    if size is None:
        return "NOT_IN_LOG_DIRS"
    if state is None or broker_id not in state.replicas:
        return "NOT_IN_METADATA"
    return None
