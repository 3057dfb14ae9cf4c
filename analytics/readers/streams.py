"""Kafka Streams applications as an analysis remembers them, and hands them on to the next one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.history.streams_groups import known, told
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore


def remembered(
    cluster: ClusterStore,
    snapshot: Manifest,
    base: Manifest | None,
    before: Sequence[Manifest],
    holding: pa.Table,
) -> dict[str, str]:
    """Each application and the last snapshot that told so, by name; `holding` (group_id) are the
    groups that hold an offset.

    Goes on from `base`, without it from all kept snapshots and what the analyses `before` knew
    (`earlier.going_on`). One is let go when neither an offset
    of it nor a kept snapshot as old is left.
    """
    found = dict(pair for analysis in before for pair in told(analysis).items())
    found |= known(cluster, base, snapshot.id)
    oldest = next(iter(cluster.ids("snapshots")), snapshot.id)
    holding = _holding(holding, [name for name, last in found.items() if last < oldest])
    return {n: last for n, last in sorted(found.items()) if last >= oldest or n in holding}


def _holding(holding: pa.Table, names: list[str]) -> set[str]:
    if not names:
        return set()
    of = column(holding, "group_id")
    own = of.filter(pc.is_in(of, value_set=pa.array(names, pa.string())))
    return set(pc.unique(own).to_pylist())
