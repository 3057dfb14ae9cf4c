"""Turns what the brokers answered into the tables of one snapshot, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dashboard.collect_replicas import replicas
from dashboard.columns import Ints, LeaderOffsets, OwnOffsets, Placement, Sizes
from dashboard.epoch_ends import CutEpoch
from dashboard.model import (
    Broker,
    BrokerMetrics,
    ConfigEntry,
    GroupListing,
    Reassignment,
    TopicState,
)
from dashboard.tables import SNAPSHOT_TABLES, build, conform


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything one collect read. What could not be read is empty or None; `errors` say why."""

    brokers: Sequence[Broker]
    topics: Mapping[str, TopicState]
    placement: Placement
    offsets: LeaderOffsets | None
    replicas: OwnOffsets | None
    sizes: Sizes
    groups: GroupListing
    configs: Sequence[ConfigEntry]
    reassignments: Sequence[Reassignment]
    metrics: BrokerMetrics | None = None  # None: nobody named a source
    epoch_ends: Sequence[CutEpoch] = ()
    ends_asked_of: str | None = None
    clock_ahead_seconds: float | None = None  # of the cluster's controller; None: it tells no time


class Numbers:
    """Topic name -> topic_no: the metadata's topics, then those only log dirs or groups know."""

    def __init__(self, answers: Answers) -> None:
        listed = sorted(answers.topics)
        elsewhere = {name for broker in answers.sizes.brokers.values() for name in broker.names}
        elsewhere |= {o.topic for o in answers.groups.offsets}
        elsewhere |= {r.topic for r in answers.reassignments}
        self.names = listed + sorted(elsewhere.difference(listed))
        self.of = {name: number for number, name in enumerate(self.names)}


def build_tables(answers: Answers) -> dict[str, dict[str, Any] | pa.Table]:
    """Table name -> its columns, or the sorted table, without snapshot_id and taken_at."""
    numbers = Numbers(answers)
    ids = [t.topic_id if (t := answers.topics.get(n)) else None for n in numbers.names]
    tables: dict[str, dict[str, Any] | pa.Table] = {
        "brokers": brokers(answers.brokers),
        "configs": columns(answers.configs, "scope", "name", "key", "value", "source"),
        "topics": topics(answers.topics, numbers),
        "partitions": partitions(answers, numbers),
        "reassignments": {
            "topic_no": [numbers.of[r.topic] for r in answers.reassignments],
            **columns(answers.reassignments, "partition", "adding", "removing"),
        },
        "replicas": replicas(answers.placement, answers.replicas, answers.sizes, numbers.of, ids),
        "log_dirs": columns(
            answers.sizes.log_dirs,
            "broker_id",
            "log_dir",
            "total_bytes",
            "usable_bytes",
            "error",
        ),
        "groups": groups(answers.groups),
        "group_offsets": {
            "topic_no": [numbers.of[o.topic] for o in answers.groups.offsets],
            **columns(
                answers.groups.offsets,
                *("group_id", "partition", "committed_offset", "error", "leader_epoch"),
            ),
        },
    }
    if answers.epoch_ends:
        cut = answers.epoch_ends
        tables["epoch_ends"] = {
            "topic_no": [numbers.of[row.topic] for row in cut],
            **columns(
                cut,
                *("partition", "leader_epoch", "known_offset"),
                *("end_offset", "of_this_log", "floor_epoch"),
            ),
        }
    if answers.metrics is not None:
        samples = answers.metrics.samples
        tables["broker_metrics"] = columns(samples, "broker_id", "name", "labels", "value")
    return tables


def to_arrow(
    name: str, table: Mapping[str, Any] | pa.Table, snapshot_id: str, taken_at: Any
) -> pa.Table:
    """One table in its declared schema, sorted by its key, with the two columns of every row."""
    spec = SNAPSHOT_TABLES[name]
    rows = rows_of(table)
    stamp = {
        column: pa.repeat(pa.scalar(value, spec.schema.field(column).type), rows)
        for column, value in (("snapshot_id", snapshot_id), ("taken_at", taken_at))
    }
    if not isinstance(table, pa.Table):
        return build(spec, {**stamp, **table})
    for column, values in stamp.items():
        table = table.append_column(column, values)
    return conform(spec, table)


def rows_of(table: Mapping[str, Any] | pa.Table) -> int:
    """How many rows a table has, be it columns still."""
    return table.num_rows if isinstance(table, pa.Table) else len(next(iter(table.values())))


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


def partitions(answers: Answers, numbers: Numbers) -> dict[str, Any]:
    """One row per partition: the metadata's leader and replicas, the leader's offsets."""
    placement, offsets = answers.placement, answers.offsets
    states = [p for name in placement.names for p in answers.topics[name].partitions]
    errors: list[str | None] = [s.error for s in states]
    table: dict[str, Any] = {
        "topic_no": np.array([numbers.of[n] for n in placement.names], np.int64)[placement.topic],
        "partition": placement.partition,
        "leader_id": known(placement.leader),
        "leader_epoch": known(placement.epoch),
        **columns(states, "replicas", "isr"),
    }
    if offsets is not None:
        for name in ("log_start_offset", "last_stable_offset", "high_watermark"):
            table[name] = known(getattr(offsets, name.removesuffix("_offset")))
        errors = [o or e for o, e in zip(offsets.errors.tolist(), errors, strict=True)]
    return {**table, "error": errors}


def known(values: Ints) -> pa.Array:
    """Numbers with null for -1."""
    return pa.array(values, mask=values < 0)


def groups(listing: GroupListing) -> dict[str, Any]:
    """One row per group; `assigned` as structs of topic name and partition."""
    assigned = [tp for group in listing.groups for tp in group.assigned]
    structs = pa.StructArray.from_arrays(
        [
            pa.array([tp.topic for tp in assigned], pa.string()),
            pa.array([tp.partition for tp in assigned], pa.int32()),
        ],
        names=["topic", "partition"],
    )
    ends = np.cumsum([0, *(len(group.assigned) for group in listing.groups)])
    return {
        **columns(
            listing.groups,
            *("group_id", "type", "state", "members", "coordinator_answered", "error"),
            *("subscribed", "patterns", "is_streams"),
        ),
        "assigned": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs),
    }
