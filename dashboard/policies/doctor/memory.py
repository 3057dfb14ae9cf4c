"""What the newest analysis knows of repartition topics: last commits, and bytes to give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.settings.policies.policy import REPARTITION_SUFFIX
from dashboard.store.snapshots import ClusterStore


@dataclass(frozen=True, slots=True)
class Memory:
    """`last_commit_at` by topic and group, where one was ever seen to commit; `groups` are all.

    `committed_bytes` by topic: what its commits allow to purge, over all replicas.
    """

    groups: frozenset[str] = frozenset()
    last_commit_at: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    committed_bytes: Mapping[str, int] = field(default_factory=dict)


def read_memory(store: ClusterStore) -> Memory:
    """From the newest findings; nothing where there is no analysis, or it cannot be read."""
    analysis = store.latest("findings")
    if analysis is None:
        return Memory()
    try:
        holds = _ours(
            store.read("findings", analysis, "holds", ["topic", "group_id", "last_commit_at"])
        )
        reclaimable = _ours(
            store.read("findings", analysis, "reclaimable", ["topic", "target", "bytes_likely"])
        )
    except StoreError:
        return Memory()
    return Memory(
        frozenset(pc.unique(holds["group_id"]).to_pylist()), _commits(holds), _bytes(reclaimable)
    )


def _ours(table: pa.Table) -> pa.Table:
    return table.filter(pc.ends_with(table["topic"], REPARTITION_SUFFIX))


def _commits(holds: pa.Table) -> dict[tuple[str, str], datetime]:
    last = holds.group_by(["topic", "group_id"]).aggregate([("last_commit_at", "max")])
    return {
        (row["topic"], row["group_id"]): row["last_commit_at_max"]
        for row in last.to_pylist()
        if row["last_commit_at_max"] is not None
    }


def _bytes(reclaimable: pa.Table) -> dict[str, int]:
    """Topics of which every partition was measured."""
    own = reclaimable.filter(pc.equal(reclaimable["target"], "committed"))
    options = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = own.group_by("topic").aggregate([("bytes_likely", "sum", options)])
    return {
        row["topic"]: row["bytes_likely_sum"]
        for row in sums.to_pylist()
        if row["bytes_likely_sum"] is not None
    }
