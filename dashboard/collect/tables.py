"""Turns what the brokers answered into the tables of one snapshot, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from dashboard.core.arrow import shaped
from dashboard.domain.columns import (
    BrokerSizes,
    Flags,
    Ints,
    LeaderOffsets,
    Names,
    OwnOffsets,
    Placement,
    Sizes,
    failed,
    keys,
    no_names,
    positions,
)
from dashboard.domain.model import (
    Broker,
    BrokerMetrics,
    ConfigEntry,
    GroupListing,
    Reassignment,
    TopicState,
)
from dashboard.history.epoch_ends import CutEpoch
from dashboard.store.tables import SNAPSHOT_TABLES, UNASSIGNED, build, conform


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


def build_tables(answers: Answers) -> dict[str, pa.Table]:
    """Table name -> the sorted table, without snapshot_id and taken_at."""
    numbers = Numbers(answers)
    ids = [t.topic_id if (t := answers.topics.get(n)) else None for n in numbers.names]
    listed, cut = answers.groups.offsets, answers.epoch_ends
    tables = {
        "brokers": brokers(answers.brokers),
        "configs": table_of(
            "configs", **columns(answers.configs, "scope", "name", "key", "value", "source")
        ),
        "topics": topics(answers.topics, numbers),
        "partitions": partitions(answers, numbers),
        "reassignments": table_of(
            "reassignments",
            topic_no=[numbers.of[r.topic] for r in answers.reassignments],
            **columns(answers.reassignments, "partition", "adding", "removing"),
        ),
        "replicas": replicas(answers.placement, answers.replicas, answers.sizes, numbers.of, ids),
        "log_dirs": table_of(
            "log_dirs",
            **columns(
                answers.sizes.log_dirs,
                *("broker_id", "log_dir", "total_bytes", "usable_bytes", "error"),
            ),
        ),
        "groups": groups(answers.groups),
        "group_offsets": table_of(
            "group_offsets",
            topic_no=[numbers.of[o.topic] for o in listed],
            **columns(
                listed, *("group_id", "partition", "committed_offset", "error", "leader_epoch")
            ),
        ),
    }
    if cut:
        tables["epoch_ends"] = table_of(
            "epoch_ends",
            topic_no=[numbers.of[row.topic] for row in cut],
            **columns(
                cut,
                *("partition", "leader_epoch", "known_offset"),
                *("end_offset", "of_this_log", "floor_epoch"),
            ),
        )
    if answers.metrics is not None:
        samples = columns(answers.metrics.samples, "broker_id", "name", "labels", "value")
        tables["broker_metrics"] = table_of("broker_metrics", **samples)
    return tables


def table_of(name: str, /, **columns: Any) -> pa.Table:
    """A table of a snapshot, sorted, without snapshot_id and taken_at; missing columns are null."""
    return build(SNAPSHOT_TABLES[name].unstamped, columns)


def to_arrow(name: str, table: pa.Table, snapshot_id: str, taken_at: datetime) -> pa.Table:
    """One table in its declared schema, with the two columns of every row."""
    spec = SNAPSHOT_TABLES[name]
    for column, value in (("snapshot_id", snapshot_id), ("taken_at", taken_at)):
        of_all = pa.repeat(pa.scalar(value, spec.schema.field(column).type), table.num_rows)
        table = table.append_column(column, of_all)
    return conform(spec, table)


def columns(records: Iterable[Any], *names: str) -> dict[str, list[Any]]:
    """Attributes of records as columns of the same names."""
    every = list(records)
    return {name: [getattr(record, name) for record in every] for name in names}


def brokers(found: Sequence[Broker]) -> pa.Table:
    """One row per broker; host and port are null when only replica lists name it."""
    return table_of(
        "brokers",
        **columns(found, "broker_id", "rack", "reachable", "error"),
        host=[b.host or None for b in found],
        port=[b.port or None for b in found],
        api_versions=[list(b.api_versions.items()) for b in found],
    )


def topics(found: Mapping[str, TopicState], numbers: Numbers) -> pa.Table:
    """The dictionary of topic numbers; id and internal are null for a topic not in the metadata."""
    states = [found.get(name) for name in numbers.names]
    return table_of(
        "topics",
        topic_no=list(range(len(numbers.names))),
        topic=numbers.names,
        topic_id=[s.topic_id if s else None for s in states],
        is_internal=[s.is_internal if s else None for s in states],
    )


def partitions(answers: Answers, numbers: Numbers) -> pa.Table:
    """One row per partition: the metadata's leader and replicas, the leader's offsets."""
    placement, offsets = answers.placement, answers.offsets
    states = [p for name in placement.names for p in answers.topics[name].partitions]
    errors: list[str | None] = [s.error for s in states]
    ends = {}
    if offsets is not None:
        for name in ("log_start_offset", "last_stable_offset", "high_watermark"):
            ends[name] = known(getattr(offsets, name.removesuffix("_offset")))
        errors = [o or e for o, e in zip(offsets.errors.tolist(), errors, strict=True)]
    return table_of(
        "partitions",
        topic_no=np.array([numbers.of[n] for n in placement.names], np.int64)[placement.topic],
        partition=placement.partition,
        leader_id=known(placement.leader),
        leader_epoch=known(placement.epoch),
        **columns(states, "replicas", "isr"),
        **ends,
        error=errors,
    )


def known(values: Ints) -> pa.Array:
    """Numbers with null for -1."""
    return pa.array(values, mask=values < 0)


def groups(listing: GroupListing) -> pa.Table:
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
    return table_of(
        "groups",
        **columns(
            listing.groups,
            *("group_id", "type", "state", "members", "coordinator_answered", "error"),
            *("subscribed", "patterns", "is_streams"),
        ),
        assigned=pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs),
    )


# The snapshot's table of replicas: metadata, log dirs and own offsets joined, broker by broker.

_NONE, _FALSE = np.zeros(0, np.int64), np.zeros(0, bool)
_NOWHERE = BrokerSizes((), (), _NONE, _NONE, _NONE, _NONE, _FALSE)
Columns = dict[str, pa.Array]


def replicas(
    placement: Placement,
    offsets: OwnOffsets | None,
    sizes: Sizes,
    number: Mapping[str, int],
    topic_ids: Sequence[str | None],
) -> pa.Table:
    """One row per replica that DescribeLogDirs or the metadata names, sorted as declared.

    A replica with a future copy has two rows. `log_dir` and `size_bytes` are null where no
    log dir is known, never 0, `in_sync` where no assignment names it. Offsets belong to the live
    replica, not to a future one. `number` is a topic's number, `topic_ids` its id; the columns of
    every row (snapshot) are left out.
    """
    spec = SNAPSHOT_TABLES["replicas"].unstamped
    known = keys(placement.topic, placement.partition)
    ids = pa.array(topic_ids, pa.string())
    parts = [spec.schema.empty_table()]
    for broker_id in sorted({*placement.brokers(), *sizes.brokers}):
        one = _Broker(broker_id, placement, known, sizes, number)
        both = [_table(spec.schema, rows, ids) for rows in (one.live(offsets), one.future())]
        parts.append(pa.concat_tables(both).sort_by([(key, "ascending") for key in spec.key]))
    return pa.concat_tables(parts)


class _Broker:
    """One broker's replicas as its metadata and its log dirs name them."""

    def __init__(
        self,
        broker_id: int,
        placement: Placement,
        known: Ints,
        sizes: Sizes,
        number: Mapping[str, int],
    ) -> None:
        self.broker_id = broker_id
        self.placement = placement
        self.known = known
        self.hidden = sizes.errors.get(broker_id)
        self.found = sizes.brokers.get(broker_id, _NOWHERE)
        self.mine = placement.at_broker(broker_id)
        self.named = known[placement.replica_of[self.mine]]
        topics = np.array([number[name] for name in self.found.names], np.int64)
        topic = topics[self.found.topic] if len(topics) else self.found.topic
        self.sized = keys(topic, self.found.partition)

    def live(self, offsets: OwnOffsets | None) -> Columns:
        """Every replica but future ones."""
        rows = np.flatnonzero(~self.found.is_future)
        rows = rows[np.argsort(self.sized[rows], kind="stable")]
        wanted = np.union1d(self.named, self.sized[rows])
        size, has_size = positions(wanted, self.sized[rows])
        own, is_named = positions(wanted, self.named)
        state, has_state = positions(wanted, self.known)
        leader, in_sync = np.zeros(len(wanted), bool), np.zeros(len(wanted), bool)
        leader[has_state] = self.placement.leader[state[has_state]] == self.broker_id
        in_sync[is_named] = self.placement.replica_in_sync[self.mine][own[is_named]]
        errors = _unnamed(is_named)
        errors[~has_size] = "NOT_IN_LOG_DIRS"
        if self.hidden:
            errors[:] = self.hidden
        columns = self._columns(wanted, rows[size[has_size]], has_size, False)
        columns["is_leader"] = _array(leader, has_state)
        columns["in_sync"] = _array(in_sync, is_named)
        if offsets is not None:
            where = own[is_named]
            own_errors = _spread(offsets.errors[self.mine], where, is_named)
            errors = np.where(failed(own_errors), own_errors, errors)
            for name, values in (
                ("log_start_offset", offsets.log_start),
                ("log_end_offset", offsets.log_end),
                ("observed_at", offsets.observed_us),
            ):
                column = np.full(len(wanted), -1)
                column[is_named] = values[self.mine][where]
                columns[name] = _array(column, column >= 0)
        columns["error"] = pa.array(errors, pa.string())
        return columns

    def future(self) -> Columns:
        """Copies on their way to another log dir of the same broker."""
        rows = np.flatnonzero(self.found.is_future)
        wanted = self.sized[rows]
        _, is_named = positions(wanted, self.named)
        errors = _unnamed(is_named)
        columns = self._columns(wanted, rows, np.ones(len(rows), bool), True)
        columns["error"] = pa.array(errors, pa.string())
        return columns

    def _columns(self, wanted: Ints, rows: Ints, has_size: Flags, future: bool) -> Columns:
        bytes_here, log_dir = np.full(len(wanted), -1), np.full(len(wanted), -1)
        bytes_here[has_size], log_dir[has_size] = (
            self.found.size_bytes[rows],
            self.found.log_dir[rows],
        )
        paths = pa.array(self.found.log_dirs, pa.string())
        return {
            "broker_id": pa.array(np.full(len(wanted), self.broker_id), pa.int32()),
            "log_dir": paths.take(_array(log_dir, has_size)),
            "topic_no": pa.array(wanted >> 32, pa.int32()),
            "partition": pa.array(wanted & 0xFFFFFFFF, pa.int32()),
            "size_bytes": _array(bytes_here, has_size),
            "is_future": pa.array(np.full(len(wanted), future)),
        }


def _unnamed(is_named: Flags) -> Names:
    errors = no_names(len(is_named))
    errors[~is_named] = UNASSIGNED
    return errors


def _spread(values: Names, where: Ints, there: Flags) -> Names:
    found = no_names(len(there))
    found[there] = values[where]
    return found


def _array(values: Any, known: Flags) -> pa.Array:
    return pa.array(values, mask=~known)


def _table(schema: pa.Schema, columns: Columns, topic_ids: pa.Array) -> pa.Table:
    columns["topic_id"] = topic_ids.take(columns["topic_no"])
    return shaped(columns, len(columns["broker_id"]), schema)
