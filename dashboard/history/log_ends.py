"""Where logs ended some time ago, as kept snapshots show it: records below are at least that old.

A record's own time may be its producer's word (CreateTime), so that a look-up by time does not tell
when it was written; a snapshot that saw the end of the log does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, looked_up
from dashboard.core.clock import parse_time
from dashboard.core.errors import StoreError
from dashboard.domain.model import REBALANCING
from dashboard.history.seen_topics import ids_of
from dashboard.store.clocks import taken_by_right_clock
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
    """Each of these topics with those of `groups` that were there when it was made, and were not up
    since when they must have come upon it, by kept snapshots: a consumer that is down learns when
    it is up again what its pattern takes in. So does one that went down before it had looked again
    and joined (`new_topics`). What the oldest snapshot shows is older than they tell.
    """
    kept = cluster.ids("snapshots") if refresh and topic_ids and groups else []
    names = set(topic_ids)
    with suppress(StoreError):
        names -= _shown(cluster, kept[0], topic_ids) if kept else names
    ids = [*taken_before(cluster, now - 2 * refresh)][::-1] if names else []
    there: dict[int, set[str]] = {}
    known_by: dict[int, datetime] = {}
    born = {n: at for n, at in _first_shown(cluster, ids, topic_ids, names).items() if at}
    for at in set(born.values()):
        there[at] = _listed(cluster, ids[: at + 1]).intersection(groups)
        known_by[at] = _made_by(cluster, ids[at:]) + 2 * refresh
    up = _last_up(cluster, ids, set().union(*there.values()), min(known_by.values(), default=now))
    return frozenset(
        (name, group)
        for name, at in born.items()
        for group in there[at]
        if group not in up or up[group] < known_by[at]
    )


def _first_shown(
    cluster: ClusterStore,
    ids: Sequence[str],
    topic_ids: Mapping[str, str | None],
    names: Collection[str],
) -> dict[str, int]:
    """The place among `ids` of the first snapshot that shows each topic; their number: none does.

    Found by halves: a topic stays until it is deleted. Where one between is damaged, or could not
    see it (its ACL was away), it is taken for younger than it is.
    """
    found: dict[str, int] = {}
    spans = [(-1, len(ids), set(names))]
    while spans:
        low, high, of = spans.pop()
        if high - low == 1 or not of:
            found |= dict.fromkeys(of, high)
            continue
        middle, shown = (low + high) // 2, set[str]()
        with suppress(StoreError):
            shown = of & _shown(cluster, ids[middle], topic_ids)
        spans += [(low, middle, shown), (middle, high, of - shown)]
    return found


def _listed(cluster: ClusterStore, ids: Sequence[str]) -> set[str]:
    """The groups that were there when a topic was made which the last of `ids` shows first: listed
    by that one, or by the newest before it that lists all.
    """
    found: set[str] = set()
    for place, snapshot_id in enumerate(reversed(ids)):
        with suppress(StoreError):  # damaged, or pruned meanwhile
            groups = cluster.read("snapshots", snapshot_id, "groups", ["group_id"])
            found.update(groups["group_id"].to_pylist())
            hidden = cluster.manifest("snapshots", snapshot_id).details.get("groups_incomplete")
            if place and not hidden:
                break
    return found


def _made_by(cluster: ClusterStore, ids: Sequence[str]) -> datetime:
    """When a topic was there that the first of `ids` shows; never yet, where none does."""
    with suppress(StoreError):
        if ids:
            return _read_by(cluster.manifest("snapshots", ids[0]))
    return _NEVER


_NEVER = datetime.max.replace(tzinfo=UTC) - timedelta(days=366)


def _last_up(
    cluster: ClusterStore, ids: Sequence[str], groups: Collection[str], since: datetime
) -> dict[str, datetime]:
    """When each of these groups was seen last, since then, with members that all had told what they
    read: one that crashes as often as it is started rebalances, and has read nothing.
    """
    found: dict[str, datetime] = {}
    left = pa.array(sorted(groups), pa.string())
    for snapshot_id in reversed(ids):
        if not len(left):
            break
        with suppress(StoreError):  # damaged, or pruned meanwhile
            at = cluster.manifest("snapshots", snapshot_id).taken_at
            if at < since:
                break
            rows = cluster.read("snapshots", snapshot_id, "groups", _UP)
            waits = pc.is_in(rows["state"], value_set=pa.array(sorted(REBALANCING)))
            up = pc.and_(pc.greater(rows["members"], 0), pc.invert(waits))
            names = rows["group_id"].filter(pc.fill_null(up, False))
            found |= dict.fromkeys(left.filter(pc.is_in(left, value_set=names)).to_pylist(), at)
            left = left.filter(pc.invert(pc.is_in(left, value_set=names)))
    return found


_UP = ["group_id", "state", "members"]


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
