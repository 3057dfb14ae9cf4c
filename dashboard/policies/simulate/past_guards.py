"""Which partitions are guarded today by what a policy never lifts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.columns import Flags, Ints, keys
from dashboard.estimate.curve_tables import integers
from dashboard.policies import matching
from dashboard.policies.simulate.past_rows import Rows
from dashboard.purge.evidence import memory, standards
from dashboard.safety.unseen_readers import reading_of, suspicion
from dashboard.settings.policies.policy import Policy
from dashboard.store.snapshots import ClusterStore

# What groups had committed, and whether all were known, is judged at each moment of the past.
_OF_ITS_TIME = (
    "groups-incomplete",
    "unread-by-group",
    "no-committed-offset",
    "beyond-last-stable-offset",
    "target-unresolved",
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """Rows that are guarded, of how many partitions, and on how many each guard stands."""

    rows: Flags
    partitions: int
    names: Mapping[str, int]


def guarded_now(
    store: ClusterStore,
    policy: Policy,
    rows: Rows,
    owners: Mapping[str, str | None],
    now: datetime,
) -> Guarded:
    """What the newest analysis says, and whom plans suspect to read unseen.

    `owners` are of the topics, where their commits alone count.

    Without an analysis its guards are missing: whoever asks is told by other means.
    """
    names = sorted({name for name, _ in rows.names})
    # Also of a topic that was recreated since: guards that are asked for here are of its name.
    of_name = np.array([names.index(name) for name, _ in rows.names], dtype=np.int64)
    own = keys(of_name[rows.topic], rows.partition)
    pairs = _analysed(store, policy, names, owners) | _unseen(store, names, own, now)
    found = np.isin(own, np.array(sorted({key for key, _ in pairs}), dtype=np.int64))
    each = sorted(Counter(guard for _, guard in pairs).items())
    return Guarded(found, len({key for key, _ in pairs}), dict(each))


def _analysed(
    store: ClusterStore, policy: Policy, names: list[str], owners: Mapping[str, str | None]
) -> set[tuple[int, str]]:
    """The guards of the newest analysis on partitions of these topics, numbered as the names."""
    analysis = store.latest("findings")
    if analysis is None:
        return set()
    wanted = pa.array(names, pa.string())
    table = store.read("findings", analysis, "reclaimable", ["topic", "partition", "guards"])
    table = table.filter(pc.is_in(table["topic"], wanted))
    of, name = _flat(table)
    number = integers(pc.index_in(table["topic"], value_set=wanted), 0)
    streams = memory.streams(store)
    lifted = [matching.lifted(policy, topic, owners.get(topic), streams) for topic in names]
    stands = [
        guard not in _OF_ITS_TIME and guard not in lifted[topic]
        for guard, topic in zip(name, number[of].tolist(), strict=True)
    ]
    kept = np.flatnonzero(np.array(stands, dtype=bool))
    on = keys(number, integers(table["partition"], 0))[of[kept]]
    return set(zip(on.tolist(), (name[k] for k in kept.tolist()), strict=True))


def _unseen(
    store: ClusterStore, names: list[str], own: Ints, now: datetime
) -> set[tuple[int, str]]:
    """The guard of unseen readers on every partition of the topics that they may read."""
    found = standards.readings(store, names, now)
    of = {n: guard for n, name in enumerate(names) if (guard := suspicion(reading_of(found, name)))}
    return {(key, of[key >> 32].name) for key in own.tolist() if key >> 32 in of}


def _flat(table: pa.Table) -> tuple[Ints, list[str]]:
    """Per guard the line it stands on, and its name."""
    guards = table["guards"].combine_chunks()
    if isinstance(guards, pa.ChunkedArray):
        guards = pa.concat_arrays(guards.chunks) if guards.num_chunks else pa.array([], guards.type)
    of = pc.list_parent_indices(guards).to_numpy(zero_copy_only=False).astype(np.int64)
    return of, pc.struct_field(pc.list_flatten(guards), "name").to_pylist()
