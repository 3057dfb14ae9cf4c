"""Which groups may read which topic, as far as members, subscriptions and offsets show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import STRINGS, column, field, looked_up, unfolded, without_rows
from dashboard.domain.model import ANY_TOPIC, REBALANCING, WORKERS
from dashboard.safety.guard_texts import share_why

GROUPS = pa.schema(
    [
        ("group_id", pa.string()),
        ("type", pa.string()),
        ("state", pa.string()),
        ("members", pa.int32()),
        ("assigned", pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))),
        ("error", pa.string()),
        ("subscribed", STRINGS),
        ("patterns", STRINGS),
        ("is_streams", pa.bool_()),
    ]
)
_PAIRS = pa.schema([("topic_no", pa.int32()), ("group_id", pa.string())])
_BY_PATTERN = pa.schema([*_PAIRS, ("pattern", pa.string())])
_REACH = pa.schema([*_PAIRS, ("why", pa.string()), ("known", pa.bool_()), ("begun", pa.bool_())])
_MET = pa.schema([*_PAIRS, ("seen_at", pa.int64())])
_ASSIGNED = pa.schema(
    [("topic_no", pa.int32()), ("partition", pa.int32()), ("group_id", pa.string())]
)


@dataclass(frozen=True)
class Readers:
    """Who may read what; waived groups are left out, of `streams` they are not. Topics are numbers
    of the `topics` table.

    `members`: topic_no and group_id of what members read or ask for, share groups aside;
    `patterns`: those that a subscription's regular expression alone brings in, with it;
    `assigned`: the partitions that members have; `share`: topic_no (null: any topic), group_id,
    why it may want records there, whether its topics are known at all, and whether it has a start
    offset there (else a member alone reads it); `anywhere`: groups
    that may read any topic, since nobody can tell; `listed`: groups, share groups too, that are
    there now and whose offsets were all told; `had_members`: topic_no and group_id
    of groups whose members kept snapshots met there;
    `streams`: topic_no and group_id of Kafka Streams applications, `applications` all of these,
    whose global tables are read by no group, and of both also those that are gone; `newcomers`:
    topic_no and group_id of groups that may be about to read a topic that is new;
    `met`: topic_no (null: any), group_id and seen_at (microseconds) of groups that were there;
    `deleted`: groups that somebody deleted lately.
    """

    members: pa.Table
    patterns: pa.Table
    assigned: pa.Table
    share: pa.Table
    anywhere: pa.Array
    listed: pa.Array
    streams: pa.Table
    applications: pa.Array
    newcomers: pa.Table
    met: pa.Table
    had_members: pa.Table
    deleted: pa.Array


def readers(
    groups: pa.Table,
    offsets: pa.Table,
    topics: pa.Table,
    waived: Collection[str] = (),
    *,
    streams: Collection[str] = (),
    commits: pa.Table | None = None,
    met: Mapping[tuple[str, str], int] | None = None,
    unread: Collection[str] = (),
    unplaced: Collection[str] = (),
    missed: Collection[tuple[str, str]] = (),
    deleted: Collection[str] = (),
    by_name: Collection[str] = (),
) -> Readers:
    """`groups`: GROUPS, as a snapshot keeps them; `topics`: topic_no, topic and is_new.

    `offsets`: topic_no, group_id, where groups have offsets at the same moment, of all topics of
    the cluster (topic_no null for those that are not among `topics`): committed ones, and the
    start offsets of share groups, also where they have not begun. `streams` are groups that were
    Kafka Streams applications once, `commits` (topic_no, group_id) where any group has an offset,
    remembered ones too: an application that is gone restores its state when it starts again.
    `met`: when groups were met on a topic, as `past_groups` has them. `unread`: groups of which
    some offset could not be read. `unplaced`: those of `without_offset`. `missed`: topics, each
    with a group that was down since it was made. `deleted`: groups that nobody lists any more,
    sooner than Kafka drops one; who is listed after all is none. `by_name`: groups of which
    somebody said that they subscribe to no pattern.
    """
    # Whom a waiver names, its state is restored all the same: that is lifted by an override.
    every = groups.filter(pc.invert(is_share(groups)))
    applications = _applications(every, streams)
    seen = _met(met or {}, topics)
    had_members = seen.filter(seen["topic_no"].is_valid()).select(_PAIRS.names)
    pairs = [_members(every, topics), had_members, offsets, *([] if commits is None else [commits])]
    groups = _without(groups, waived)
    offsets = _without(offsets, waived)
    shares = is_share(groups)
    plain, share = groups.filter(pc.invert(shares)), groups.filter(shares)
    members = _members(plain, topics)
    untold = {group for group, topic in met or {} if topic == ANY_TOPIC}
    untold -= {*waived, *column(share, "group_id").to_pylist()}
    patterns = _patterns(plain, topics, members)
    return Readers(
        members=members,
        patterns=patterns,
        assigned=_assigned(plain, topics),
        share=_share(share, offsets, topics),
        anywhere=_anywhere(plain, untold, offsets, unplaced),
        listed=_listed(groups, unread),
        streams=_streams(applications, pairs),
        applications=applications,
        newcomers=_newcomers(_without(plain, by_name), topics, members, missed),
        met=seen,
        had_members=_without(had_members, waived),
        deleted=pa.array(
            sorted({*deleted}.difference(every["group_id"].to_pylist(), waived)), pa.string()
        ),
    )


def _met(met: Mapping[tuple[str, str], int], topics: pa.Table) -> pa.Table:
    names = pa.array([topic for _, topic in met], pa.string())
    number = looked_up(names, column(topics, "topic"), column(topics, "topic_no"))
    groups, times = pa.array([group for group, _ in met], pa.string()), pa.array(met.values())
    found = pa.table([number, groups, times.cast(pa.int64())], schema=_MET)
    return found.filter(pc.or_(number.is_valid(), pc.equal(names, "")))


def _without(table: pa.Table, waived: Collection[str]) -> pa.Table:
    if not waived:
        return table
    names = pa.array(sorted(waived), pa.string())
    return table.filter(pc.invert(pc.is_in(table["group_id"], value_set=names)))


def _pairs(topic: pa.Array, group_id: pa.Array, topics: pa.Table) -> pa.Table:
    """Each pair once, of the topics that are known."""
    number = looked_up(topic, column(topics, "topic"), column(topics, "topic_no"))
    found = pa.table([number, group_id], schema=_PAIRS).filter(number.is_valid())
    return _once(found)


def _once(pairs: pa.Table) -> pa.Table:
    """Each pair once. Of a plan's few, Arrow's threads would take ten times as long."""
    return pairs.group_by(_PAIRS.names, use_threads=False).aggregate([])


def is_share(groups: pa.Table) -> pa.Array:
    """Which groups are share groups."""
    return pc.fill_null(pc.equal(groups["type"], "share"), False)


def reading(groups: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Groups, and the topics that their members have or ask for, pair by pair."""
    of, at = unfolded(column(groups, "assigned"))
    asking, asked = unfolded(column(groups, "subscribed"))
    names = column(groups, "group_id").take(pa.concat_arrays([of, asking]))
    return names, pa.concat_arrays([field(at, "topic"), asked])


def _members(groups: pa.Table, topics: pa.Table) -> pa.Table:
    names, topic = reading(groups)
    return _pairs(topic, names, topics)


def _assigned(groups: pa.Table, topics: pa.Table) -> pa.Table:
    of, at = unfolded(column(groups, "assigned"))
    number = looked_up(field(at, "topic"), column(topics, "topic"), column(topics, "topic_no"))
    names = column(groups, "group_id").take(of)
    found = pa.table([number, field(at, "partition"), names], schema=_ASSIGNED)
    return found.filter(number.is_valid())


def _patterns(groups: pa.Table, topics: pa.Table, members: pa.Table) -> pa.Table:
    """A topic that is new to a group's members is theirs as soon as they look again."""
    of, pattern = unfolded(column(groups, "patterns"))
    names = column(groups, "group_id").take(of)
    numbers = dict(zip(topics["topic"].to_pylist(), topics["topic_no"].to_pylist(), strict=True))
    rows = [
        {"topic_no": numbers[topic], "group_id": group_id, "pattern": text}
        for group_id, text in sorted(set(zip(names.to_pylist(), pattern.to_pylist(), strict=True)))
        for topic in sorted(matching((text,), numbers))
    ]
    found = pa.Table.from_pylist(rows, schema=_BY_PATTERN)
    return without_rows(found, members, _PAIRS.names)


def _share(share: pa.Table, offsets: pa.Table, topics: pa.Table) -> pa.Table:
    """Where each share group may want records: where it has a start offset, or a member reads.

    One whose topics cannot be read counts for every topic. Without members it keeps its offsets.
    """
    if not share.num_rows:
        return _REACH.empty_table()
    own = offsets.filter(pc.is_in(offsets["group_id"], value_set=share["group_id"]))
    elsewhere = set(own["group_id"].to_pylist())
    started = own.select(_PAIRS.names).filter(own["topic_no"].is_valid())
    begun = _by_group(started)
    by_group = _by_group(pa.concat_tables([started.cast(_PAIRS), _members(share, topics)]))
    rows: list[dict[str, object]] = []
    for group in share.select(["group_id", "assigned", "subscribed", "error"]).to_pylist():
        reads = by_group.get(group["group_id"], set())
        told = reads or group["group_id"] in elsewhere or group["assigned"] or group["subscribed"]
        known = bool(told) and not group["error"]
        why = share_why(reads_topic=known, error=group["error"])
        where: Iterable[int | None] = sorted(reads) if known else [None]
        rows += [
            {"topic_no": at, "group_id": group["group_id"], "why": why, "known": known,
             "begun": at in begun.get(group["group_id"], ())}
            for at in where
        ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_REACH)


def _by_group(pairs: pa.Table) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for row in pairs.to_pylist():
        found.setdefault(row["group_id"], set()).add(row["topic_no"])
    return found


# The console consumer's own name for a group that it leaves without ever committing.
CONSOLE = "^console-consumer-[0-9]+$"


def without_offset(
    groups: Iterable[tuple[str, int | None]], told: Collection[str]
) -> frozenset[str]:
    """Those of these groups (id, members) that have no members, and of which no offset is `told`.

    A member that died on its first record, before a first commit, leaves such a group, and so does
    who deletes its offsets; one that commits in its first transaction is no other to coordinators.
    Kafka drops it at its next clean-up (offsets.retention.check.interval.ms, 10 minutes).
    """
    return frozenset(group_id for group_id, members in groups if members == 0).difference(told)


def _anywhere(
    groups: pa.Table,
    met: Iterable[str],
    offsets: pa.Table,
    unplaced: Collection[str],
) -> pa.Array:
    """Groups that may read any topic: nobody can tell what, and they committed on none.

    `met`: those of which nobody could when kept snapshots met them, and of which no offset of a
    topic as it is now is remembered; who tells its topics now, or is a share group by now, is
    judged by that. `unplaced`: as for `readers`; workers read nothing by their group, and console
    consumers never commit.
    """
    works = pc.is_in(groups["type"], value_set=pa.array(sorted(WORKERS)))
    lasts = pc.invert(pc.or_(works, pc.match_substring_regex(groups["group_id"], CONSOLE)))
    died = pc.and_(
        lasts, pc.is_in(groups["group_id"], value_set=pa.array(sorted(unplaced), pa.string()))
    )
    untold = pc.or_(untold_topics(groups), died)
    told = groups.filter(pc.and_(pc.invert(untold), pc.not_equal(groups["members"], 0)))
    before = pa.array(sorted(met), pa.string())
    before = before.filter(pc.invert(pc.is_in(before, value_set=told["group_id"])))
    names = pa.concat_arrays([column(groups.filter(untold), "group_id"), before])
    found = pc.unique(names.filter(pc.invert(pc.is_in(names, value_set=offsets["group_id"]))))
    return found.take(pc.sort_indices(found))


def untold_topics(groups: pa.Table) -> pa.ChunkedArray:
    """Of which groups nobody can tell what they read, but by their offsets.

    Their members are unknown, or wait for partitions and do not say of which topics. Workers of
    Connect and schema registries wait for work: the group gives them no partitions.
    """
    waits = pc.is_in(groups["state"], value_set=pa.array(sorted(REBALANCING)))
    works = pc.is_in(groups["type"], value_set=pa.array(sorted(WORKERS)))
    waiting = pc.and_(pc.and_(waits, pc.invert(works)), _topicless(groups))
    return pc.or_(groups["members"].is_null(), pc.fill_null(waiting, False))


def _topicless(groups: pa.Table) -> pa.Array:
    """Groups whose members name no topic at all."""
    counts = [pc.fill_null(pc.list_value_length(groups[n]), 0) for n in _NAMING]
    return pc.equal(pc.add(pc.add(counts[0], counts[1]), counts[2]), 0)


_NAMING = ("assigned", "subscribed", "patterns")


def _listed(groups: pa.Table, unread: Collection[str]) -> pa.Array:
    """Groups that coordinators list, and whose offsets they told."""
    names = column(groups, "group_id")
    if not unread:
        return names
    kept = pa.array(sorted(unread), pa.string())
    return names.filter(pc.invert(pc.is_in(names, value_set=kept)))


def _streams(applications: pa.Array, pairs: list[pa.Table]) -> pa.Table:
    """Topics that a Kafka Streams application reads: a table's source is its own changelog."""
    if not len(applications):
        return _PAIRS.empty_table()
    found = pa.concat_tables(
        table.filter(pc.is_in(table["group_id"], value_set=applications))
        .select(_PAIRS.names)
        .cast(_PAIRS)
        for table in pairs
    )
    found = found.filter(found["topic_no"].is_valid())
    return _once(found)


def _applications(groups: pa.Table, once: Collection[str]) -> pa.Array:
    live = column(groups, "group_id").filter(pc.fill_null(column(groups, "is_streams"), False))
    found = pc.unique(pa.concat_arrays([live, pa.array(sorted(once), pa.string())]))
    return found.take(pc.sort_indices(found))


def _newcomers(
    groups: pa.Table, topics: pa.Table, members: pa.Table, missed: Collection[tuple[str, str]]
) -> pa.Table:
    """Groups, with members or without, on topics younger than consumers' metadata may be, and
    those that were down since a topic was made.

    A classic client, and Java's under KIP-848 too, resolves its pattern itself and tells its
    coordinator names alone, so nothing shows that a new topic is among them until it has
    refreshed its metadata (metadata.max.age.ms, 5 minutes unless set) and rejoined. A group that
    is restarted meanwhile has no members at all. Workers read by no subscription.
    """
    new = topics.filter(pc.fill_null(topics["is_new"], False))["topic_no"].to_pylist()
    works = pc.is_in(groups["type"], value_set=pa.array(sorted(WORKERS)))
    names = sorted(groups.filter(pc.invert(works))["group_id"].to_pylist())
    pairs = {(number, group_id) for number in new for group_id in names}
    number = dict(zip(topics["topic"].to_pylist(), topics["topic_no"].to_pylist(), strict=True))
    listed = set(names)
    pairs |= {(number[t], group) for t, group in missed if t in number and group in listed}
    rows = [dict(zip(_PAIRS.names, pair, strict=True)) for pair in sorted(pairs)]
    return without_rows(pa.Table.from_pylist(rows, schema=_PAIRS), members, _PAIRS.names)


# Which topics a regular expression that a group subscribes by matches (KIP-848, RE2/J).


def matching(patterns: Iterable[str], topics: Collection[str]) -> frozenset[str]:
    """Those of `topics` whose whole name one of the patterns matches.

    The whole name: the coordinator asks `Matcher.matches` (GroupMetadataManager), so that
    `^orders` is no `orders-eu`. A pattern that cannot be compiled here matches every topic: who
    may be a reader counts as one.
    """
    found: set[str] = set()
    for pattern in patterns:
        found |= _matching(pattern, list(topics))
    return frozenset(found)


def _matching(pattern: str, topics: list[str]) -> set[str]:
    # RE2 itself, by way of Arrow: Python's `re` means other things by some patterns that RE2/J
    # takes, and needs hours for some that RE2 matches in linear time. Loaded on first use: few
    # groups subscribe by a pattern.
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(topics, pa.string())
    try:
        matched = pc.match_substring_regex(names, pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return set(topics)
    return set(names.filter(matched).to_pylist())
