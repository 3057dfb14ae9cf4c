"""Groups that somebody deleted lately: snapshots show them with members, and nobody lists them.

Kafka itself drops a group `offsets.retention.minutes` after its members left at the soonest. One
that is gone sooner was deleted, which is how it is made to read all again: Connect's offsets of a
sink are reset so (KIP-875), and `kafka-consumer-groups --delete` does nothing else. Until its first
member joins again no coordinator lists it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from dashboard.core.errors import StoreError
from dashboard.store.clocks import taken_by_right_clock

if TYPE_CHECKING:
    from dashboard.store.snapshots import ClusterStore

# For so long after its members were seen last; then it counts where it stood, as who is gone does.
HELD_FOR = timedelta(days=1)


def deleted(
    cluster: ClusterStore, now: datetime | None, listed: Collection[str], until: str | None = None
) -> frozenset[str]:
    """Groups that a snapshot shows with members less than `HELD_FOR` before `now`, and less than
    brokers told by then that they keep offsets, and that are not `listed` now. `until` is the last
    snapshot that counts. Raises StoreError where snapshots cannot be listed.

    Age counts between proved clocks: a snapshot by another one is taken for younger, down to the
    first that is old by a proved one. `now` None: nobody knows it, and it is later than the newest
    proved one.
    """
    found: set[str] = set()
    for name in reversed(cluster.ids("snapshots")):
        if until is not None and name > until:
            continue
        with suppress(StoreError):  # damaged, which is told elsewhere, or pruned meanwhile
            manifest = cluster.manifest("snapshots", name)
            at = taken_by_right_clock(manifest)
            now = now or at
            age = timedelta(0) if at is None or now is None else now - at
            if age >= HELD_FOR:
                break
            minutes = manifest.details.get("offsets_retention_minutes")
            if minutes is None or age < timedelta(minutes=minutes):
                found |= with_members(cluster, name)
    return frozenset(found.difference(listed))


@lru_cache(maxsize=4096)  # each collect asks of the same ones which it may thin out
def with_members(cluster: ClusterStore, snapshot_id: str) -> frozenset[str]:
    """Groups that a snapshot shows with members, or whose members nobody could tell. Raises
    StoreError.
    """
    import pyarrow.compute as pc  # slow to import; a store without tables needs none

    rows = cluster.read("snapshots", snapshot_id, "groups", ["group_id", "state", "members"])
    untold = pc.and_(rows["members"].is_null(), rows["state"].is_valid())
    up = pc.or_(pc.fill_null(pc.not_equal(rows["members"], 0), False), untold)
    return frozenset(rows["group_id"].filter(up).to_pylist())


# A group with another name every minute keeps each snapshot of a day: the newest so many.
_MOST_KEPT = 200


def last_sights(
    cluster: ClusterStore, ids: Sequence[str], keep: Collection[str], since: str
) -> set[str]:
    """Those of `ids` from `since` on, outside `keep`, that show a group with members for the last
    time: the one after them does not, nor does the newest. Without them nobody knows that it was
    up, and that somebody deleted it.
    """
    found: set[str] = set()
    newest = _shown(cluster, ids[-1]) if ids else frozenset()
    for name, after in zip(reversed(ids[:-1]), reversed(ids[1:]), strict=True):
        if name < since or len(found) >= _MOST_KEPT:
            break
        # What is damaged shows nobody: it stays anyway, or may be removed once that is told.
        if name not in keep and _shown(cluster, name) - newest - _shown(cluster, after):
            found.add(name)
    return found


def _shown(cluster: ClusterStore, snapshot_id: str) -> frozenset[str]:
    try:
        return with_members(cluster, snapshot_id)
    except StoreError:  # damaged, or pruned meanwhile
        return frozenset()
