"""What kept snapshots tell of groups: which they met (coordinators listed them, and on which topics
they had members), which somebody deleted lately, and which were Kafka Streams applications.

One that was met without an offset that it had before begins anew there: Kafka drops a group with
its last offset (GroupMetadataManager), so somebody deleted that offset, or the group, and it came
back. What was remembered is outdated, also when the group is gone again before its first commit.
One that had members on a topic where it has no offset, and is gone, died before its first commit (a
crash on the first record): it reads the topic from its start as soon as it is mended. So it may any
topic where nobody could tell what it reads (it rebalanced, its assignor speaks words of its own, a
Streams application was not ready), and no later snapshot told it.

Kafka itself drops a group `offsets.retention.minutes` after its members left at the soonest. One
that is gone sooner was deleted, which is how it is made to read all again: Connect's offsets of a
sink are reset so (KIP-875), and `kafka-consumer-groups --delete` does nothing else. Until its first
member joins again no coordinator lists it.

A stopped application's group expires (offsets.retention.minutes), and what its commits tell of it
is lost where a tool sets its offsets: its state is restored all the same when it starts again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from dashboard.core.clock import microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.model import ANY_TOPIC
from dashboard.history.findings_age import told_since
from dashboard.history.once import Once
from dashboard.store.clocks import seen_at, taken_by_right_clock, times
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

if TYPE_CHECKING:  # slow to import; who reads no tables stays quick
    import pyarrow as pa

DETAIL = "met_readers"  # of an analysis' manifest: each group, its topics ("": any), and when
READ = ["group_id", "type", "state", "members", "assigned", "subscribed", "patterns"]
_PAIR = ["group_id", "topic"]
Met = dict[tuple[str, str], int]


def told(analysis: Manifest | None) -> Met:
    """What an analysis keeps of them: microseconds by group and topic; {} of an earlier version's.

    It keeps those alone that were met after an offset of theirs was seen last, and on topics where
    they have none.
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
    found = told(analysis)
    for snapshot in told_since(store, analysis, DETAIL, until):
        at = microseconds(seen_at(store.manifest("snapshots", snapshot)))
        for key in _shown(store, snapshot):
            found[key] = max(at, found.get(key, at))
    return _of_topics(found, None if topics is None else {*topics, "", ANY_TOPIC})


def _read(store: ClusterStore, snapshot: str) -> Sequence[tuple[str, str]]:
    groups = store.read("snapshots", snapshot, "groups", READ)
    # Names are the same in each snapshot: one text of each is held.
    return [
        (sys.intern(group), sys.intern(topic))
        for group, topic in shown(groups, partial(topic_names, store, snapshot))
    ]


_shown = Once(_read, most=200_000)  # 72 bytes each


def _of_topics(found: Met, wanted: set[str] | None) -> Met:
    """Those on these topics; what a group reads that told it since is no longer any topic. In one
    and the same snapshot some members told, and others did not.
    """
    told_at: dict[str, int] = {}
    for (group, topic), at in found.items():
        if topic not in ("", ANY_TOPIC):
            told_at[group] = max(at, told_at.get(group, at))
    return {
        (group, topic): at
        for (group, topic), at in found.items()
        if (wanted is None or topic in wanted)
        and not (topic == ANY_TOPIC and told_at.get(group, at) > at)
    }


def without_told(met: Met, offset_seen: Mapping[str, int], past: int | None) -> Met:
    """`met` without ANY_TOPIC of groups that told by an offset what they read, then or later.

    `offset_seen`: when an offset of each group was seen last, on a topic that is there, in
    microseconds. One that was seen before the meeting alone tells nothing of what it reads since:
    somebody may have deleted it, for another reader to begin. Nor is one held so that was met up to
    `past` alone (`a_week_past`): any group of a moment, met once while it rebalanced, would hold
    the cluster as long as snapshots are kept.
    """
    since = -1 if past is None else past
    return {
        (group, topic): at
        for (group, topic), at in met.items()
        if topic != ANY_TOPIC or (at > since and offset_seen.get(group, at - 1) < at)
    }


# As long as Kafka, unless told otherwise, keeps the offsets of one that is down.
ANY_HELD_FOR = timedelta(days=7)


def a_week_past(store: ClusterStore, now: datetime | None, until: str | None = None) -> int | None:
    """Up to which time, as `known` has it, whatever was met was met a week before `now`; None:
    nobody knows of any. `until` is the last snapshot that counts. Raises StoreError where snapshots
    cannot be listed.

    One that was taken a week ago by a proved clock tells: what was met in it, or before it, is as
    old. The times themselves do not: they order what was seen, and follow any clock that ran ahead.
    """
    if now is None:
        return None
    ids = [name for name in store.ids("snapshots") if until is None or name <= until]
    old = [name for name, at in times(store, ids, now).items() if at <= now - ANY_HELD_FOR]
    for name in sorted(old, reverse=True):
        with suppress(StoreError):  # damaged, or pruned meanwhile
            manifest = store.manifest("snapshots", name)
            at = taken_by_right_clock(manifest)
            if at is not None and at <= now - ANY_HELD_FOR:
                return microseconds(seen_at(manifest))
    return None


def topic_names(store: ClusterStore, snapshot: str) -> list[str]:
    """The topics of a snapshot. Raises StoreError."""
    names: list[str] = store.read("snapshots", snapshot, "topics", ["topic"])["topic"].to_pylist()
    return names


def shown(groups: pa.Table, topics: Callable[[], Collection[str]]) -> list[tuple[str, str]]:
    """The groups that a snapshot lists, as met on any topic (""), and the topics that members of
    theirs have or ask for (ANY_TOPIC: nobody could tell), share groups aside: these are known by
    their start offsets. `topics` tells the snapshot's own, which patterns are held against.
    """
    listed = [(group_id, "") for group_id in groups["group_id"].to_pylist()]
    return listed + sorted(_read_by_members(groups, topics))


def _read_by_members(
    groups: pa.Table, topics: Callable[[], Collection[str]]
) -> set[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from dashboard.safety.readers import CONSOLE, is_share, reading, untold_topics

    lasting = pc.invert(pc.match_substring_regex(groups["group_id"], CONSOLE))
    plain = groups.filter(pc.and_(lasting, pc.invert(is_share(groups))))
    names, at = reading(plain)
    # Of a pattern alone only the brokers, or the client, know what it matched by then.
    by_pattern = pc.greater(pc.fill_null(pc.list_value_length(plain["patterns"]), 0), 0)
    unresolved = pc.and_(by_pattern, pc.invert(pc.is_in(plain["group_id"], value_set=names)))
    unknown = pc.or_(untold_topics(plain), unresolved)
    untold = plain.filter(unknown)["group_id"].to_pylist()
    pairs = pa.table([names, at], _PAIR).group_by(_PAIR).aggregate([])
    told = zip(*(pairs[name].to_pylist() for name in _PAIR), strict=True)
    matched = _matched(plain.filter(by_pattern), topics)
    return {*told, *matched, *((group, ANY_TOPIC) for group in untold)}


def _matched(groups: pa.Table, topics: Callable[[], Collection[str]]) -> set[tuple[str, str]]:
    """What a pattern takes in is its group's, also before a member is assigned all of it."""
    from dashboard.safety.readers import matching

    rows = groups.select(["group_id", "patterns"]).to_pylist()
    names = topics() if rows else ()
    return {(row["group_id"], topic) for row in rows for topic in matching(row["patterns"], names)}


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
    newest = _members_shown(cluster, ids[-1]) if ids else frozenset()
    for name, after in zip(reversed(ids[:-1]), reversed(ids[1:]), strict=True):
        if name < since or len(found) >= _MOST_KEPT:
            break
        # What is damaged shows nobody: it stays anyway, or may be removed once that is told.
        if name not in keep and _members_shown(cluster, name) - newest - _members_shown(
            cluster, after
        ):
            found.add(name)
    return found


def _members_shown(cluster: ClusterStore, snapshot_id: str) -> frozenset[str]:
    try:
        return with_members(cluster, snapshot_id)
    except StoreError:  # damaged, or pruned meanwhile
        return frozenset()


# Of an analysis' manifest: each name, and the last snapshot that told so.
STREAMS_DETAIL = "streams_groups"


def streams_told(analysis: Manifest | None) -> dict[str, str]:
    """What an analysis keeps of them; {} of one by an earlier version."""
    return {} if analysis is None else dict(analysis.details.get(STREAMS_DETAIL, {}))


def streams_known(
    store: ClusterStore, analysis: Manifest | None, until: str | None = None
) -> dict[str, str]:
    """Each name and the last snapshot that told so: from `analysis`, and snapshots after its own.

    `until` is the last snapshot that counts. Without an analysis that keeps them all kept
    snapshots are read, but for those that it could not read itself. Raises StoreError.
    """
    found = streams_told(analysis)
    for snapshot in told_since(store, analysis, STREAMS_DETAIL, until):
        for name in _streams(store, snapshot):
            found[name] = max(snapshot, found.get(name, ""))
    return found


def _read_streams(store: ClusterStore, snapshot: str) -> Sequence[str]:
    rows = store.read("snapshots", snapshot, "groups", ["group_id", "is_streams"])
    names: list[str] = rows.filter(rows["is_streams"])["group_id"].to_pylist()
    return names


_streams = Once(_read_streams, most=100_000)
