"""Which partitions are guarded today by what a policy never lifts, as the newest analysis says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.columns import Flags, Ints, keys
from dashboard.curve_tables import integers
from dashboard.policies.past_rows import Rows
from dashboard.policy import Policy
from dashboard.snapshots import ClusterStore

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


def guarded_now(store: ClusterStore, policy: Policy, rows: Rows) -> Guarded:
    """Nothing is guarded where there is no analysis: whoever asks is told by other means."""
    analysis = store.latest("findings")
    if analysis is None:
        return Guarded(np.zeros(len(rows), dtype=bool), 0, {})
    table = store.read("findings", analysis, "reclaimable", ["topic", "partition", "guards"])
    names = pa.array(sorted({name for name, _ in rows.names}), pa.string())
    table = table.filter(pc.is_in(table["topic"], names))
    of, name = _flat(table)
    stands = [guard not in _OF_ITS_TIME and guard not in policy.overrides for guard in name]
    kept = np.flatnonzero(np.array(stands, dtype=bool))
    number = integers(pc.index_in(table["topic"], value_set=names), 0)
    on = keys(number, integers(table["partition"], 0))[of[kept]]
    # Also of a topic that was recreated since: guards that are asked for here are of its name.
    own = integers(pc.index_in(pa.array([n for n, _ in rows.names]), value_set=names), 0)
    found = np.isin(keys(own[rows.topic], rows.partition), on)
    pairs = set(zip(on.tolist(), (name[k] for k in kept.tolist()), strict=True))
    each = sorted(Counter(guard for _, guard in pairs).items())
    return Guarded(found, len({partition for partition, _ in pairs}), dict(each))


def _flat(table: pa.Table) -> tuple[Ints, list[str]]:
    """Per guard the line it stands on, and its name."""
    guards = table["guards"].combine_chunks()
    if isinstance(guards, pa.ChunkedArray):
        guards = pa.concat_arrays(guards.chunks) if guards.num_chunks else pa.array([], guards.type)
    of = pc.list_parent_indices(guards).to_numpy(zero_copy_only=False).astype(np.int64)
    return of, pc.struct_field(pc.list_flatten(guards), "name").to_pylist()
