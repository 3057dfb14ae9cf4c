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
    """Each of these topics with those of `groups` that were there when it was made, and did not
    read on since they must have come upon it, by kept snapshots: a consumer that is down learns
    when it is up again what its pattern takes in. So does one that went down before it had looked
    again and joined (`new_topics`). What the oldest snapshot shows is older than they tell.

    A list of members is no sign of life by itself: a coordinator lists one that is dead until its
    session ends (up to `group.max.session.timeout.ms`, 30 minutes), and one with a
    `group.instance.id` though it was closed. One that is listed longer than a session lasts is.
    So are offsets that go on: who commits polls, and so refreshes its metadata
    (NetworkClient.DefaultMetadataUpdater, `metadata.max.age.ms`) and holds its pattern against it
    (ConsumerCoordinator.maybeUpdateSubscriptionMetadata).
    """
    kept = cluster.ids("snapshots") if refresh and topic_ids and groups else []
    names = _younger(cluster, kept, topic_ids)
    ids = [*taken_before(cluster, now - 2 * refresh)][::-1] if names else []
    born = _first_shown(cluster, ids, topic_ids, names)
    there: dict[int, set[str]] = {}
    read_on: dict[int, set[str]] = {}
    last = _settled(cluster, ids, groups)
    for at in set(born.values()):
        there[at] = _listed(cluster, kept, ids, at).intersection(groups)
        after = _made_by(cluster, ids[at:]) + 2 * refresh
        read_on[at] = _moved(cluster, ids, there[at], last, after)
        read_on[at] |= _listed_at(cluster, last, after + _LONGEST_SESSION)
    return frozenset((name, g) for name, at in born.items() for g in there[at] - read_on[at])


def _younger(
    cluster: ClusterStore, kept: Sequence[str], topic_ids: Mapping[str, str | None]
) -> set[str]:
    """Those of these topics that the oldest kept snapshot does not show, whatever its clock."""
    for snapshot_id in kept:
        with suppress(StoreError):  # damaged, or pruned meanwhile
            return topic_ids.keys() - _shown(cluster, snapshot_id, topic_ids)
    return set()


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


def _listed(cluster: ClusterStore, kept: Sequence[str], ids: Sequence[str], at: int) -> set[str]:
    """The groups that were there when a topic was made which the one at this place of `ids` shows
    first: listed by it, or by the `kept` ones before it back to one of `ids` that lists all.
    """
    found: set[str] = set()
    newest = ids[at] if at < len(ids) else ids[-1] if ids else ""
    for snapshot_id in reversed([name for name in kept if name <= newest]):
        with suppress(StoreError):  # damaged, or pruned meanwhile
            groups = cluster.read("snapshots", snapshot_id, "groups", ["group_id"])
            found.update(groups["group_id"].to_pylist())
            hidden = cluster.manifest("snapshots", snapshot_id).details.get("groups_incomplete")
            if snapshot_id in ids and snapshot_id != newest and not hidden:
                break
    return found


def _made_by(cluster: ClusterStore, ids: Sequence[str]) -> datetime:
    """When a topic was there that the first of `ids` shows; never yet, where none does."""
    with suppress(StoreError):
        if ids:
            return _read_by(cluster.manifest("snapshots", ids[0]))
    return _NEVER


_NEVER = datetime.max.replace(tzinfo=UTC) - timedelta(days=366)
# Twice what brokers allow unless set: members that they list later than this were alive since.
_LONGEST_SESSION = timedelta(hours=1)


def _settled(cluster: ClusterStore, ids: Sequence[str], groups: Collection[str]) -> dict[str, str]:
    """The newest of `ids` that shows each of these groups with members which all had told what they
    read: one that crashes as often as it is started rebalances, and has read nothing. What moves
    in a group without members is moved by a tool, or by a mirror of another cluster's groups.
    """
    found: dict[str, str] = {}
    left = pa.array(sorted(groups), pa.string())
    for snapshot_id in reversed(ids):
        if not len(left):
            break
        with suppress(StoreError):  # damaged, or pruned meanwhile
            rows = cluster.read("snapshots", snapshot_id, "groups", _UP)
            waits = pc.is_in(rows["state"], value_set=pa.array(sorted(REBALANCING)))
            up = pc.and_(pc.greater(rows["members"], 0), pc.invert(waits))
            names = rows["group_id"].filter(pc.fill_null(up, False))
            seen = pc.is_in(left, value_set=names)
            found |= dict.fromkeys(left.filter(seen).to_pylist(), snapshot_id)
            left = left.filter(pc.invert(seen))
    return found


_UP = ["group_id", "state", "members"]


def _listed_at(cluster: ClusterStore, last: Mapping[str, str], by: datetime) -> set[str]:
    """Those of these groups whose `last` snapshot was taken at a moment, or later."""
    late = set()
    for snapshot_id in set(last.values()):
        with suppress(StoreError):  # damaged, or pruned meanwhile
            if cluster.manifest("snapshots", snapshot_id).taken_at >= by:
                late.add(snapshot_id)
    return {group_id for group_id, snapshot_id in last.items() if snapshot_id in late}


def _moved(
    cluster: ClusterStore,
    ids: Sequence[str],
    groups: Collection[str],
    last: Mapping[str, str],
    after: datetime,
) -> set[str]:
    """Those of these groups of which an offset lies further ahead in their `last` snapshot than in
    the first of `ids` that was taken `after` a moment.
    """
    first, then = _first_after(cluster, ids, after), dict[tuple[object, ...], int]()
    up = sorted(g for g in groups if g in last and first is not None and first < last[g])
    moved: set[str] = set()
    with suppress(StoreError):  # damaged, or pruned meanwhile: nobody is known to have moved
        then = _offsets(cluster, first, up) if first and up else {}
    for snapshot_id in sorted({last[g] for g in up}) if then else ():
        with suppress(StoreError):
            of = [g for g in up if last[g] == snapshot_id]
            now = _offsets(cluster, snapshot_id, of)
            moved.update(str(key[0]) for key, at in now.items() if at > then.get(key, at))
    return moved


def _first_after(cluster: ClusterStore, ids: Sequence[str], after: datetime) -> str | None:
    for snapshot_id in ids:
        if snapshot_id[:15] >= f"{after:%Y%m%dT%H%M%S}":  # ids begin with the time, or a later one
            with suppress(StoreError):
                if cluster.manifest("snapshots", snapshot_id).taken_at >= after:
                    return snapshot_id
    return None


def _offsets(
    cluster: ClusterStore, snapshot_id: str, groups: Sequence[str]
) -> dict[tuple[object, ...], int]:
    """What these groups had committed, by group, topic, its id and partition."""
    topics = cluster.read("snapshots", snapshot_id, "topics", ["topic_no", "topic", "topic_id"])
    of = {row["topic_no"]: (row["topic"], row["topic_id"]) for row in topics.to_pylist()}
    chosen = pc.field("group_id").isin(pa.array(groups, pa.string()))
    rows = cluster.read("snapshots", snapshot_id, "group_offsets", _COMMITTED, only=chosen)
    return {
        (row["group_id"], *of[row["topic_no"]], row["partition"]): row["committed_offset"]
        for row in rows.to_pylist()
        if row["committed_offset"] is not None and row["topic_no"] in of
    }


_COMMITTED = ["group_id", "topic_no", "partition", "committed_offset"]


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
