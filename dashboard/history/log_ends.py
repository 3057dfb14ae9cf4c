"""Where logs ended some time ago, as kept snapshots show it: records below are at least that old.

A record's own time may be its producer's word (CreateTime), so that a look-up by time does not tell
when it was written; a snapshot that saw the end of the log does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

import pyarrow as pa

from dashboard.core.arrow import column, looked_up
from dashboard.core.clock import parse_time
from dashboard.core.errors import StoreError
from dashboard.history.seen_topics import ids_of
from dashboard.store.snapshot_clocks import taken_by_right_clock
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

LOG_ENDS = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("partition", pa.int32()),
        ("high_watermark", pa.int64()),
        ("leader_epoch", pa.int32()),
    ]
)


def log_ends(cluster: ClusterStore, before: datetime, topics: pa.Table) -> pa.Table:
    """LOG_ENDS in the newest readable snapshot taken at `before` or earlier; none: no rows.

    `topics`: topic_no, topic and topic_id as they are now; one that was recreated since, or has no
    id (brokers before 2.8), has no rows. Of the log as it is now that tells up to the end of the
    leader epoch in it: what lies above was lost since, and written anew.
    """
    for snapshot_id in taken_before(cluster, before):
        with suppress(StoreError):  # damaged, or pruned meanwhile: an older one bounds it too
            return ends_in(cluster, snapshot_id, topics)
    return LOG_ENDS.empty_table()


def new_topics(
    cluster: ClusterStore,
    now: datetime,
    refresh: timedelta,
    topic_ids: Mapping[str, str | None],
    *,
    unknown: bool,
) -> frozenset[str]:
    """Those of these topics (name to id) that consumers who resolve their patterns themselves may
    not read yet: no snapshot shows them that is older than twice `refresh`, after which consumers
    refresh their metadata. Then they rejoin, and a rebalance takes as long as its slowest member's
    `max.poll.interval.ms`, 5 minutes unless set, as the refresh. 0: nobody does; none is new.

    The id counts: a topic made anew is new. Without a readable snapshot that old, all are if
    `unknown` counts as new.
    """
    if not refresh:
        return frozenset()
    for snapshot_id in taken_before(cluster, now - 2 * refresh):
        with suppress(StoreError):  # damaged, or pruned meanwhile
            return frozenset(topic_ids.keys() - _shown(cluster, snapshot_id, topic_ids))
    return frozenset(topic_ids) if unknown else frozenset()


def missed(
    cluster: ClusterStore,
    now: datetime,
    refresh: timedelta,
    topic_ids: Mapping[str, str | None],
    groups: Collection[str],
) -> frozenset[tuple[str, str]]:
    """Each of these topics with those of `groups` that were there before it was made, and have had
    no members since that may have come upon it (`new_topics`), by kept snapshots: a consumer that
    is down learns when it is up again what its pattern takes in. What the oldest one shows is older
    than they tell.
    """
    ids = cluster.ids("snapshots") if refresh else []
    waiting = {name: set(groups) for name in topic_ids}
    if not ids:
        return frozenset()
    with suppress(StoreError):
        for name in _shown(cluster, ids[0], topic_ids):
            del waiting[name]
    found: set[tuple[str, str]] = set()
    for snapshot_id in taken_before(cluster, now - 2 * refresh) if waiting else ():
        if not any(waiting.values()):
            break
        with suppress(StoreError):  # damaged, or pruned meanwhile
            rows = cluster.read("snapshots", snapshot_id, "groups", ["group_id", "members"])
            members = dict(zip(*(rows[n].to_pylist() for n in rows.column_names), strict=True))
            shown = _shown(cluster, snapshot_id, topic_ids)
            for name in shown & waiting.keys():
                waiting[name] -= {group for group, count in members.items() if count}
            if not cluster.manifest("snapshots", snapshot_id).details.get("groups_incomplete"):
                for name in waiting.keys() - shown:
                    found |= {(name, group) for group in waiting.pop(name) & members.keys()}
    return frozenset(found)


def _shown(
    cluster: ClusterStore, snapshot_id: str, topic_ids: Mapping[str, str | None]
) -> set[str]:
    """Which of these topics, by their ids, a snapshot shows. Raises StoreError."""
    known = ids_of(cluster, snapshot_id, topic_ids)
    return {name for name, topic_id in topic_ids.items() if known.get(name, "") == topic_id}


def taken_before(cluster: ClusterStore, limit: datetime) -> Iterator[str]:
    """The kept snapshots that were taken, and read to their end, by `limit`, newest first.

    One that was taken while its host's clock was wrong, or could not be compared, is left out:
    nobody knows how old it is.
    """
    ids = cluster.ids("snapshots")
    dated = _bears_its_time(cluster, ids[-1]) if ids else True
    for snapshot_id in reversed(ids):
        # Ids begin with the time: only those that can qualify are opened, unless a clock that ran
        # ahead once has dated those that follow.
        if dated and snapshot_id[:15] > f"{limit:%Y%m%dT%H%M%S}":
            continue
        try:
            manifest = cluster.manifest("snapshots", snapshot_id)
        except StoreError:  # damaged, or pruned meanwhile
            continue
        # Ends are read after it was begun: what was written meanwhile is younger than that.
        if taken_by_right_clock(manifest) is not None and _read_by(manifest) <= limit:
            yield snapshot_id


def _bears_its_time(cluster: ClusterStore, snapshot_id: str) -> bool:
    with suppress(StoreError):
        taken_at = cluster.manifest("snapshots", snapshot_id).taken_at
        return snapshot_id[:15] <= f"{taken_at:%Y%m%dT%H%M%S}"
    return False


def _read_by(snapshot: Manifest) -> datetime:
    """When its ends had been read; snapshots of earlier versions tell when they were begun."""
    told = snapshot.details.get("ends_read_at")
    return snapshot.taken_at if told is None else parse_time(str(told))


def ends_in(cluster: ClusterStore, snapshot_id: str, topics: pa.Table) -> pa.Table:
    """LOG_ENDS in one snapshot; `topics` as for `log_ends`. Raises StoreError."""
    today: Mapping[tuple[str, str], int] = {
        (row["topic"], row["topic_id"]): row["topic_no"]
        for row in topics.select(["topic_no", "topic", "topic_id"]).to_pylist()
        if row["topic_id"] is not None
    }
    before = cluster.read("snapshots", snapshot_id, "topics", ["topic_no", "topic", "topic_id"])
    number = [today.get((row["topic"], row["topic_id"])) for row in before.to_pylist()]
    ends = cluster.read("snapshots", snapshot_id, "partitions", LOG_ENDS.names)
    numbers = looked_up(
        column(ends, "topic_no"), column(before, "topic_no"), pa.array(number, pa.int32())
    )
    values = (ends[name] for name in LOG_ENDS.names[1:])
    renumbered = pa.table([numbers, *values], schema=LOG_ENDS)
    return renumbered.filter(numbers.is_valid())
