"""The snapshot's table of replicas: metadata, log dirs and own offsets joined, broker by broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dashboard.columns import (
    BrokerSizes,
    Flags,
    Ints,
    Names,
    OwnOffsets,
    Placement,
    Sizes,
    failed,
    keys,
    no_names,
    positions,
)
from dashboard.tables import SNAPSHOT_TABLES, TableSpec

_SPEC = SNAPSHOT_TABLES["replicas"]
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
    log dir is known, never 0. Offsets belong to the live replica, not to a future one. `number`
    is a topic's number, `topic_ids` its id; the columns of every row (snapshot) are left out.
    """
    spec = TableSpec(_SPEC.name, _SPEC.key, pa.schema(list(_SPEC.schema)[2:]))
    known = keys(placement.topic, placement.partition)
    ids = pa.array(topic_ids, pa.string())
    parts = [spec.schema.empty_table()]
    for broker_id in sorted({*placement.brokers(), *sizes.brokers}):
        one = _Broker(broker_id, placement, known, sizes, number)
        both = [_table(spec, columns, ids) for columns in (one.live(offsets), one.future())]
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
        errors = _unless(is_named, "NOT_IN_METADATA")
        errors[~has_size] = "NOT_IN_LOG_DIRS"
        if self.hidden:
            errors[:] = self.hidden
        columns = self._columns(wanted, rows[size[has_size]], has_size, False)
        columns["is_leader"] = _array(leader, has_state)
        columns["in_sync"] = _array(in_sync, has_state)
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
        errors = _unless(is_named, "NOT_IN_METADATA")
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


def _unless(right: Flags, error: str) -> Names:
    errors = no_names(len(right))
    errors[~right] = error
    return errors


def _spread(values: Names, where: Ints, there: Flags) -> Names:
    found = no_names(len(there))
    found[there] = values[where]
    return found


def _array(values: Any, known: Flags) -> pa.Array:
    return pa.array(values, mask=~known)


def _table(spec: TableSpec, columns: Columns, topic_ids: pa.Array) -> pa.Table:
    rows = len(columns["broker_id"])
    columns["topic_id"] = topic_ids.take(columns["topic_no"])
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in spec.schema
    ]
    return pa.table(arrays, schema=spec.schema)
