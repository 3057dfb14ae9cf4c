"""Which groups kept snapshots met reading a topic: members had it, or asked for it.

One that was met there without its offset had begun anew. What was remembered of it before is
outdated, also when it is gone again before its first commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dashboard.clock import microseconds
from dashboard.holes import told_since
from dashboard.snapshot_clocks import seen_at
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore

if TYPE_CHECKING:  # slow to import; who reads no tables stays quick
    import pyarrow as pa

DETAIL = "met_readers"  # of an analysis' manifest: each group, its topics ("": any), and when
READ = ["group_id", "type", "members", "assigned", "subscribed"]
Met = dict[tuple[str, str], int]


def told(analysis: Manifest | None) -> Met:
    """What an analysis keeps of them: microseconds by group and topic; {} of an earlier version's.

    It keeps those alone that were met after an offset of theirs on the topic was seen last.
    """
    kept = {} if analysis is None else analysis.details.get(DETAIL, {})
    return {(group, topic): at for group, topics in kept.items() for topic, at in topics.items()}


def kept(met: Met) -> dict[str, dict[str, int]]:
    """What an analysis' manifest tells of them, as `told` reads it."""
    found: dict[str, dict[str, int]] = {}
    for (group, topic), at in sorted(met.items()):
        found.setdefault(group, {})[topic] = at
    return found


def known(
    store: ClusterStore,
    analysis: Manifest | None,
    until: str | None = None,
    topics: Iterable[str] | None = None,
) -> Met:
    """When each group was met last on these topics (None: all): by `analysis`, and snapshots since.

    `until` is the last snapshot that counts. Without an analysis that keeps them all kept
    snapshots are read, but for those that it could not read itself. Raises StoreError.
    """
    wanted = None if topics is None else {*topics, ""}
    found = {key: at for key, at in told(analysis).items() if wanted is None or key[1] in wanted}
    for snapshot in told_since(store, analysis, DETAIL, until):
        at = microseconds(seen_at(store.manifest("snapshots", snapshot)))
        for key in shown(store.read("snapshots", snapshot, "groups", READ)):
            if wanted is None or key[1] in wanted:
                found[key] = max(at, found.get(key, at))
    return found


def shown(groups: pa.Table) -> list[tuple[str, str]]:
    """Groups with members, and the topics these have or ask for; "" where they name none.

    Share groups keep their own start offsets.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from dashboard.safety.arrow import column
    from dashboard.safety.readers import alive, is_share, reading

    groups = alive(groups.filter(pc.invert(is_share(groups))))
    names, (who, topics) = column(groups, "group_id"), reading(groups)
    silent = names.filter(pc.invert(pc.is_in(names, value_set=who)))
    nowhere = pa.repeat(pa.scalar("", pa.string()), len(silent))
    pairs = pa.table(
        {
            "group_id": pa.concat_arrays([who, silent]),
            "topic": pa.concat_arrays([topics, nowhere]),
        }
    ).group_by(["group_id", "topic"])
    found = pairs.aggregate([])
    return list(zip(found["group_id"].to_pylist(), found["topic"].to_pylist(), strict=True))
