"""What kept snapshots tell of repartition topics: whose each is, and a grid of partitions by
snapshots.

Of each table only the columns that are needed are read, and only `*-repartition` topics kept; the
rest is array arithmetic. In every grid -1 stands for "not known".

A topic is the group's that its name begins with. Both parts of a name may hold dashes: of
`app-eu-x-repartition` the application is `app` or `app-eu`. Who commits there tells; where two may
be it, nobody is called dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.columns import Ints
from dashboard.domain.model import REBALANCING
from dashboard.domain.system_topics import REPARTITION_SUFFIX
from dashboard.estimate.curve_tables import integers
from dashboard.history.week import rows as kept_rows
from dashboard.history.week.rows import ABSENT, Rows
from dashboard.policies.matching import owner_of
from dashboard.settings.policies.policy import REPARTITION, Policy
from dashboard.store.clocks import clock_was_right, times
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import replicas_proper

_DEAD = ("Dead", "Empty")
_ANY = Policy("any", preset=REPARTITION, committed_by="owner")


@dataclass(frozen=True, slots=True)
class Owner:
    """A group as the newest snapshot lists it. `state` None: it is not listed any more.

    `assigned` are the repartition topics its members read; None: no member says. `subscribed`
    are those that they ask for by name, assigned or not yet.
    """

    group_id: str
    state: str | None
    members: int
    assigned: frozenset[str] | None
    subscribed: frozenset[str] = frozenset()

    @property
    def has_members(self) -> bool:
        return self.members > 0 or self.state not in (None, *_DEAD)

    def may_read(self, topic: str) -> bool:
        """Whether members read or ask for it, or nobody knows: between revocation and the next
        assignment a topic that is read is assigned to nobody.
        """
        if self.assigned is None or self.state in REBALANCING:
            return True
        return topic in self.assigned or topic in self.subscribed


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner of each topic that has one; `strangers` have none, yet some group commits there.
    `contested`: another group commits there too, or is assigned it, or may be its application.

    `incomplete` says why groups may be missing from the newest snapshot; empty: none is.
    """

    by_topic: Mapping[str, Owner]
    strangers: frozenset[str]
    contested: frozenset[str]
    incomplete: tuple[str, ...]


def read_owners(
    store: ClusterStore,
    newest: str,
    topics: Mapping[str, slice],
    commits: Sequence[tuple[pa.Array, Ints, Ints]],
    *,
    rows: int,
    remembered: Collection[str],
) -> tuple[Owners, Ints]:
    """Every topic's owner, and what it committed: a grid of rows by snapshots, -1 unknown.

    `commits` are group, row and offset of each snapshot, the newest last; `remembered` are groups
    that an analysis knows besides. Of groups that the topic's name begins with the longest owns it,
    one that commits there before one that does not; where there is none, the only one that commits.
    """
    columns = ["group_id", "state", "members", "assigned", "subscribed", "coordinator_answered"]
    listed = store.read("snapshots", newest, "groups", columns)
    names = sorted({*listed["group_id"].to_pylist(), *_committing(commits), *remembered})
    code_of = {name: code for code, name in enumerate(names)}
    coded = [(_codes(groups, code_of), row, offset) for groups, row, offset in commits]
    known = frozenset(names)
    readers = _readers(topics, names, coded, rows)
    of_topic = {topic: _owner(topic, readers[topic], known) for topic in topics}
    owner = np.full(rows, ABSENT, dtype=np.int64)
    for topic, named in of_topic.items():
        owner[topics[topic]] = ABSENT if named is None else code_of[named]
    grid = np.full((rows, len(commits)), ABSENT, dtype=np.int64)
    for column, (code, row, offset) in enumerate(coded):
        own = owner[row] == code
        grid[row[own], column] = offset[own]
    groups = _states(listed, {named for named in of_topic.values() if named is not None})
    by_topic = {topic: groups[named] for topic, named in of_topic.items() if named is not None}
    strangers = {t for t, named in of_topic.items() if named is None and readers[t]}
    at_work = {topic: set(groups) for topic, groups in readers.items()}
    for group, its in _assigned(listed).items():
        for topic in its & at_work.keys():
            at_work[topic].add(group)
    contested = {
        topic
        for topic, named in of_topic.items()
        if named is not None
        and (at_work[topic] - {named} or (named not in readers[topic] and _shorter(named, known)))
    }
    gaps = _incomplete(store, newest, listed)
    return Owners(by_topic, frozenset(strangers), frozenset(contested), gaps), grid


def _readers(
    topics: Mapping[str, slice],
    names: Sequence[str],
    coded: Sequence[tuple[Ints, Ints, Ints]],
    rows: int,
) -> dict[str, frozenset[str]]:
    """The groups that commit in each topic, in any of the snapshots."""
    listed = list(topics)
    topic_of = np.full(rows, ABSENT, dtype=np.int64)
    for number, topic in enumerate(listed):
        topic_of[topics[topic]] = number
    width = max(len(names), 1)
    found: dict[str, set[str]] = {topic: set() for topic in listed}
    pairs = [topic_of[row] * width + code for code, row, _ in coded]
    for pair in np.unique(np.concatenate(pairs)).tolist() if pairs else ():
        if pair >= 0:  # rows of topics that are not there any more have no number
            found[listed[pair // width]].add(names[pair % width])
    return {topic: frozenset(groups) for topic, groups in found.items()}


def _owner(topic: str, readers: frozenset[str], known: frozenset[str]) -> str | None:
    named = owner_of(_ANY, topic, readers) or owner_of(_ANY, topic, known)
    return named or (next(iter(readers)) if len(readers) == 1 else None)


def _shorter(named: str, known: frozenset[str]) -> bool:
    """Whether a known group's name is a shorter beginning of this one's topics."""
    return owner_of(_ANY, f"{named}{REPARTITION_SUFFIX}", known) is not None


def _committing(commits: Sequence[tuple[pa.Array, Ints, Ints]]) -> set[str]:
    return {name for groups, _, _ in commits for name in pc.unique(groups).to_pylist()}


def _codes(groups: pa.Array, code_of: Mapping[str, int]) -> Ints:
    named = groups.dictionary_encode()
    codes = np.array([code_of[name] for name in named.dictionary.to_pylist()], dtype=np.int64)
    return codes[named.indices.to_numpy()] if len(codes) else codes


def _states(listed: pa.Table, wanted: Collection[str]) -> dict[str, Owner]:
    own = listed.filter(pc.is_in(listed["group_id"], pa.array(sorted(wanted), pa.string())))
    assigned = _assigned(own)
    columns = (own[name].to_pylist() for name in ("group_id", "state", "members", "subscribed"))
    found = {
        group: Owner(group, state, members or 0, assigned.get(group), frozenset(subscribed or ()))
        for group, state, members, subscribed in zip(*columns, strict=True)
    }
    return {name: found.get(name) or Owner(name, None, 0, None) for name in wanted}


def _assigned(groups: pa.Table) -> dict[str, frozenset[str]]:
    """Group -> topics of its members' assignments, of groups whose members were told any."""
    lists = groups["assigned"].combine_chunks()
    topics = pc.struct_field(pc.list_flatten(lists), "topic")
    group = groups["group_id"].take(pc.list_parent_indices(lists)).combine_chunks()
    pairs = pa.table({"group": group, "topic": topics}).group_by(["group", "topic"])
    found: dict[str, set[str]] = {}
    for row in pairs.aggregate([]).to_pylist():
        found.setdefault(row["group"], set()).add(row["topic"])
    return {name: frozenset(names) for name, names in found.items()}


def _incomplete(store: ClusterStore, newest: str, listed: pa.Table) -> tuple[str, ...]:
    details = store.manifest("snapshots", newest).details
    told = tuple(str(reason) for reason in details.get("groups_incomplete") or ())
    silent = pc.sum(pc.invert(pc.fill_null(listed["coordinator_answered"], False))).as_py() or 0
    if not silent or told:
        return told
    return (f"the coordinator of {silent} groups did not answer",)


MOST_SNAPSHOTS = 48
_NEWEST = MOST_SNAPSHOTS // 2  # the others are spread over the time before
_OFFSETS = ["topic_no", "partition", "leader_id", "log_start_offset", "high_watermark"]
_SIZES = ["topic_no", "partition", "size_bytes", "is_leader", "is_future", "error"]
_COMMITS = ["group_id", "topic_no", "partition", "committed_offset"]
_GONE = ("SNAPSHOT_NOT_FOUND", "STORE_UNREADABLE")


@dataclass(frozen=True, slots=True)
class History:
    """Rows are partitions, one topic's side by side; columns are snapshots, oldest first.

    `topics` are those that the newest snapshot has, with the rows of each. `leader_bytes` is the
    leader's log, `total_bytes` all replicas together as the newest snapshot has them (-1: one of
    them is not known), `committed` what the topic's owner committed. `left_out` are snapshots that
    could not be read.
    """

    times: tuple[datetime, ...]
    topics: Mapping[str, slice]
    partition: Ints
    leader: Ints
    log_start: Ints
    log_end: Ints
    leader_bytes: Ints
    total_bytes: Ints
    committed: Ints
    owners: Owners
    configs: Mapping[str, Mapping[str, str | None]]
    left_out: tuple[str, ...]

    @property
    def span(self) -> timedelta:
        return self.times[-1] - self.times[0]

    def hours(self) -> list[float]:
        """The length of each interval between two snapshots."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return [(later - earlier).total_seconds() / 3600 for earlier, later in pairs]


def chosen(taken: Mapping[str, datetime], now: datetime, window: timedelta) -> list[str]:
    """At most 48 of the snapshots of the window: the newest 24, the others evenly spread."""
    inside = [name for name, at in sorted(taken.items()) if now - at <= window]
    if len(inside) <= MOST_SNAPSHOTS:
        return inside
    older, newest = inside[:-_NEWEST], inside[-_NEWEST:]
    places = np.linspace(0, len(older) - 1, MOST_SNAPSHOTS - _NEWEST).round().astype(int)
    return [older[at] for at in places.tolist()] + newest


def read_history(
    store: ClusterStore, now: datetime, window: timedelta, remembered: Collection[str]
) -> History | None:
    """The history of today's repartition topics; None where there is no snapshot or no such topic.

    `remembered` are groups that an analysis knows, though no snapshot may. A snapshot that is
    damaged, or was pruned meanwhile, is left out and named, and one whose clock was wrong: by it an
    application that stopped a minute ago has been gone for a day.
    """
    ids = chosen(times(store, store.ids("snapshots"), now), now, window)
    named = kept_rows.topics(store, ids, lambda topic: topic.endswith(REPARTITION_SUFFIX))
    rows = kept_rows.rows(store, named)
    parts: dict[str, _Part] = {}
    for snapshot in rows.topic_of:
        try:
            if clock_was_right(store.manifest("snapshots", snapshot)):
                parts[snapshot] = _Part.read(store, snapshot, rows)
        except StoreError as error:
            if error.code not in _GONE:
                raise
    left_out = tuple(snapshot for snapshot in ids if snapshot not in parts)
    kept = [snapshot for snapshot in ids if snapshot in parts]
    topics = _topics(rows, kept[-1]) if kept else {}
    if not topics:
        return None
    seen = [parts[snapshot] for snapshot in kept]
    owners, committed = read_owners(
        store,
        kept[-1],
        topics,
        [part.commits for part in seen],
        rows=len(rows),
        remembered=remembered,
    )
    return History(
        times=tuple(part.taken_at for part in seen),
        topics=topics,
        partition=rows.partition,
        leader=_grid([part.leader for part in seen]),
        log_start=_grid([part.log_start for part in seen]),
        log_end=_grid([part.log_end for part in seen]),
        leader_bytes=_grid([part.leader_bytes for part in seen]),
        total_bytes=seen[-1].total_bytes,
        committed=committed,
        owners=owners,
        configs=_configs(store, kept[-1], topics),
        left_out=left_out,
    )


def _grid(columns: Sequence[Ints]) -> Ints:
    return np.stack(columns, axis=1)


def _topics(rows: Rows, newest: str) -> dict[str, slice]:
    """The rows of each topic that the newest snapshot has, by name."""
    there = rows.topic_of[newest]
    numbers = np.unique(there[there >= 0])
    first = np.searchsorted(rows.topic, numbers).tolist()
    end = np.searchsorted(rows.topic, numbers, side="right").tolist()
    named = zip((rows.names[n][0] for n in numbers.tolist()), first, end, strict=True)
    return {name: slice(first, end) for name, first, end in sorted(named) if end > first}


@dataclass(frozen=True, slots=True)
class _Part:
    """One snapshot: a value per row, and its commits as (group, row, offset)."""

    taken_at: datetime
    leader: Ints
    log_start: Ints
    log_end: Ints
    leader_bytes: Ints
    total_bytes: Ints
    commits: tuple[pa.Array, Ints, Ints]

    @staticmethod
    def read(store: ClusterStore, snapshot: str, rows: Rows) -> _Part:
        def ours(name: str, columns: list[str]) -> tuple[pa.Table, Ints]:
            table = store.read("snapshots", snapshot, name, columns, only=rows.lines(snapshot))
            row = rows.find(table, rows.topic_of[snapshot])
            kept = np.flatnonzero(row != ABSENT)
            return table.take(pa.array(kept)), row[kept]

        count = len(rows)
        offsets, at = ours("partitions", _OFFSETS)
        leader, start, end = (_spread(offsets[name], at, count) for name in _OFFSETS[2:])
        own, total = _bytes(*ours("replicas", _SIZES), count)
        commits, at = ours("group_offsets", _COMMITS)
        groups = pa.array(commits["group_id"].combine_chunks(), pa.string())
        return _Part(
            store.manifest("snapshots", snapshot).taken_at,
            *(leader, start, end, own, total),
            commits=(groups, at, integers(commits["committed_offset"], ABSENT)),
        )


def _spread(column: pa.ChunkedArray, at: Ints, count: int) -> Ints:
    found = np.full(count, ABSENT, dtype=np.int64)
    found[at] = integers(column, ABSENT)
    return found


def _bytes(replicas: pa.Table, at: Ints, count: int) -> tuple[Ints, Ints]:
    """The leader's bytes, and those of all replicas: unknown where one of them is."""
    proper = replicas_proper(replicas)
    replicas, at = replicas.filter(proper), at[proper.to_numpy()]
    size = integers(replicas["size_bytes"], ABSENT)
    leads = pc.fill_null(replicas["is_leader"], False).to_numpy()
    own = np.full(count, ABSENT, dtype=np.int64)
    own[at[leads]] = size[leads]
    total = np.full(count, 0, dtype=np.int64)
    np.add.at(total, at, size)
    lacking = np.bincount(at, weights=size < 0, minlength=count) > 0
    seen = np.bincount(at, minlength=count) > 0
    return own, np.where(lacking | ~seen, ABSENT, total)


def _configs(
    store: ClusterStore, snapshot: str, topics: Mapping[str, slice]
) -> dict[str, dict[str, str | None]]:
    """Topic -> key -> value, of the topics whose settings could be read."""
    own = (
        (pc.field("scope") == "topic")
        & pc.field("key").isin(pa.array(_KEYS))
        & pc.field("name").isin(pa.array(list(topics), pa.string()))
    )
    table = store.read(
        "snapshots", snapshot, "configs", ["scope", "name", "key", "value"], only=own
    )
    found: dict[str, dict[str, str | None]] = {}
    columns = (table[name].to_pylist() for name in ("name", "key", "value"))
    for name, key, value in zip(*columns, strict=True):
        found.setdefault(name, {})[key] = value
    return found


_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms")
