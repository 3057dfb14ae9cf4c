"""Which guards stand on a partition and target: the one judgement, over whole columns.

The analysis asks it of a snapshot, planning and the re-check before sending of live reads, the
simulation of policies of the past. Texts are in `guard_texts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, field, listed
from dashboard.domain.system_topics import application_of
from dashboard.safety import standing as places_of
from dashboard.safety.guard_texts import guard, words
from dashboard.safety.standing import Standing

GUARDS = pa.list_(
    pa.struct([("name", pa.string()), ("reason", pa.string()), ("lift", pa.string())])
)
FINDINGS = pa.schema(
    [
        ("row", pa.int64()),
        ("name", pa.string()),
        ("reason", pa.string()),
        ("lift", pa.string()),
        ("group_id", pa.string()),
        ("fact", pa.string()),
    ]
)
_MARK = "\x00"
_MOST_NAMED = 3  # applications in a reason
_MOST_BYTES = 2**31 - 2  # of one of Arrow's arrays of texts
_NOBODY = "No group that counts has committed an offset on this partition"
# What is known of a group whose place is not: the fact that an override accepts, and its words.
_WHO = {
    places_of.SKIPPED: ("skipped", "Group ", " has committed no offset on this partition"),
    places_of.GONE: ("gone", "The last known offset of group ", " is gone"),
    places_of.DELETED: ("deleted", "Group ", " is listed no more, sooner than Kafka itself drops "
                        "one: somebody deleted it, and it may read all again"),
    places_of.PATTERN: ("pattern", "Group ", " subscribes by a pattern that takes this topic in, "
                        "and has committed no offset here"),
    places_of.OTHER_LOG: ("other-log", "The last known offset of group ", " is not of this log"),
    places_of.ANYWHERE: ("anywhere", "Group ", " may read any topic"),
    places_of.NEWCOMER: ("newcomer", "Group ", " may subscribe by a pattern that takes this topic "
                         "in, which is new to it: made just now, or since it is known to read on"),
}  # fmt: skip


def findings(
    rows: pa.Table,
    groups: Standing,
    incomplete: Sequence[str] = (),
    offset_errors: pa.Table | None = None,
) -> pa.Table:
    """Every guard of each row: FINDINGS, by row and then in one fixed order; the group is null
    where a guard speaks of none, `fact` says which of a guard's facts stands where it has several.

    `rows`: topic, topic_id, is_system, cleanup_policy, readers_declared, restore_declared,
    remote_storage, unclean_election of the topic; leader_id, log_start_offset,
    last_stable_offset, high_watermark, behind_brokers, adding, removing, leader_moves_to of the
    partition; target_offset (null: none is known) and target_problem (why it cannot be, null: no
    group's offset tells one). `groups` stand on the same rows. `incomplete`
    are reasons why the group list may lack a reader, `offset_errors` (row, why) offsets that
    could not be read.
    """
    found = _Found(rows)
    _add_topic_guards(found, incomplete, offset_errors)
    _add_without_target(found, groups)
    # A target at or below the log start deletes nothing, so only the topic's nature matters.
    deletes = pc.greater(rows["target_offset"], pc.fill_null(rows["log_start_offset"], -1))
    found.only(pc.fill_null(deletes, False))
    _add_reader_guards(found, groups)
    _add_moment_guards(found, groups)
    return found.table()


def as_lists(found: pa.Table, rows: int) -> pa.Array:
    """One list of `{name, reason, lift}` per row, never null, from `findings`."""
    counts = np.bincount(found["row"].to_numpy(), minlength=rows)
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    structs = pa.StructArray.from_arrays(
        [column(found, name) for name in ("name", "reason", "lift")],
        fields=list(GUARDS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(ends), structs)


class _Found:
    """Guards in the order in which they are found; one row's keep that order."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.chosen = np.ones(rows.num_rows, dtype=bool)
        self._parts: list[pa.Table] = []

    def only(self, mask: pa.ChunkedArray) -> None:
        """From now on guards stand on the rows where `mask` is true alone."""
        self.chosen &= np.asarray(mask.to_numpy(), dtype=bool)

    def add(
        self,
        name: str,
        mask: pa.ChunkedArray,
        fact: str | None = None,
        **facts: pa.ChunkedArray | pa.Scalar,
    ) -> None:
        """A guard on every row where `mask` is true, its facts from columns or for all alike."""
        at = pc.indices_nonzero(pc.fill_null(mask, False)).cast(pa.int64())
        if not len(at):
            return  # most guards stand nowhere, and a plan of a few rows asks for all of them
        self.add_at(name, at, None, fact, **{n: _chosen(of, at) for n, of in facts.items()})

    def add_at(
        self,
        name: str,
        at: pa.Array,
        group_id: pa.Array | None = None,
        fact: str | None = None,
        **facts: pa.Array | pa.Scalar,
    ) -> None:
        """A guard on each row of `at`, facts beside it; `group_id`: the group it speaks of;
        `fact`: which of the guard's facts, an override of another one does not lift it.
        """
        if not len(at):
            return
        if group_id is not None:
            facts = {"group_id": group_id, **_offered(name, group_id), **facts}
        spoken_of = pa.nulls(len(at), pa.string()) if group_id is None else group_id
        at, spoken_of, facts = self._kept(at, spoken_of, facts)
        if not len(at):
            return
        text = guard(name, **{fact: f"{_MARK}{fact}{_MARK}" for fact in facts})
        values = [
            at,
            pa.repeat(name, len(at)),
            _filled(text.reason, facts, len(at)),
            _filled(text.lift, facts, len(at)),
            spoken_of,
            pa.repeat(pa.scalar(fact, pa.string()), len(at)),
        ]
        self._parts.append(pa.table([_whole(v) for v in values], schema=FINDINGS))

    def _kept(
        self, at: pa.Array, group_id: pa.Array, facts: dict[str, pa.Array | pa.Scalar]
    ) -> tuple[pa.Array, pa.Array, dict[str, pa.Array | pa.Scalar]]:
        stays = self.chosen[at.to_numpy(zero_copy_only=False)]
        if stays.all():
            return at, group_id, facts
        mask = pa.array(stays)
        kept = {n: v if isinstance(v, pa.Scalar) else v.filter(mask) for n, v in facts.items()}
        return at.filter(mask), group_id.filter(mask), kept

    def table(self) -> pa.Table:
        """All of them, by row."""
        if not self._parts:
            return FINDINGS.empty_table()
        every = pa.concat_tables(self._parts).combine_chunks()
        order = np.argsort(every["row"].to_numpy(), kind="stable")
        return every.take(pa.array(order)).combine_chunks()


def _add_topic_guards(
    found: _Found, incomplete: Sequence[str], offset_errors: pa.Table | None
) -> None:
    rows = found.rows
    reasons: dict[int, list[str]] = {}
    if offset_errors is not None:
        for row in offset_errors.to_pylist():
            reasons.setdefault(row["row"], []).append(row["why"])
    whys = ["; ".join([*incomplete, *reasons.get(at, ())]) for at in sorted(reasons)]
    found.add_at(
        "groups-incomplete", pa.array(sorted(reasons), pa.int64()), why=pa.array(whys, pa.string())
    )
    if incomplete:
        rest = np.setdiff1d(np.arange(rows.num_rows), np.array(sorted(reasons), dtype=np.int64))
        why = pa.scalar("; ".join(incomplete))
        found.add_at("groups-incomplete", pa.array(rest, pa.int64()), why=why)
    found.add("system-topic", rows["is_system"], topic=rows["topic"])
    nameless = pa.scalar("no broker tells the topic's id (Kafka before 2.8), so it could not be "
                         "told from one that is made anew under its name")  # fmt: skip
    found.add("target-unresolved", rows["topic_id"].is_null(), why=nameless)
    policy = rows["cleanup_policy"]
    unread = pa.scalar("the topic's configs were not read")
    found.add("target-unresolved", policy.is_null(), why=unread)
    kept = pc.invert(pc.match_substring(policy, "delete"))
    said = pc.if_else(pc.equal(policy, ""), "empty", policy)
    found.add("not-deletable", kept, topic=rows["topic"], policy=said)


def _add_without_target(found: _Found, groups: Standing) -> None:
    """No target is known: because of what could not be read, or since nobody's offset tells one."""
    rows, problem = found.rows, found.rows["target_problem"]
    unknown = rows["target_offset"].is_null()
    found.add("target-unresolved", pc.and_(unknown, problem.is_valid()), why=problem)
    untold = pc.and_(unknown, problem.is_null())
    found.add("no-committed-offset", untold, who=pa.scalar(_NOBODY))
    beyond = groups.unplaced.filter(pc.equal(groups.unplaced["kind"], places_of.PAST_END))
    there = column(rows, "target_offset").is_null().take(column(beyond, "row"))
    _add_past_end(found, beyond.filter(there))


def _add_reader_guards(found: _Found, groups: Standing) -> None:
    """Records may be lost that somebody still wants."""
    rows = found.rows
    target, stable = rows["target_offset"], rows["last_stable_offset"]
    found.add(
        "beyond-last-stable-offset",
        pc.fill_null(pc.greater(target, stable), True),
        target_offset=target,
        last_stable_offset=pc.fill_null(stable.cast(pa.string()), "unknown"),
    )
    _add_unread(found, groups)
    nobody = pa.chunked_array([pc.invert(groups.has_readers)])
    found.add("no-committed-offset", nobody, who=pa.scalar(_NOBODY))
    _add_unplaced(found, groups)
    # Who accepts a group whose topics nobody can read has not accepted that it reads this one.
    for fact, share in (
        ("reads", groups.unread_share.filter(groups.unread_share["known"])),
        ("untold", groups.unread_share.filter(pc.invert(groups.unread_share["known"]))),
    ):
        at, group = column(share, "row"), column(share, "group_id")
        found.add_at("share-group", at, group, fact, why=column(share, "why"))


def _add_unplaced(found: _Found, groups: Standing) -> None:
    unplaced = groups.unplaced
    if not unplaced.num_rows:
        return

    def of(kind: int) -> pa.Table:
        return unplaced.filter(pc.equal(unplaced["kind"], kind))

    members = of(places_of.ASSIGNED)
    found.add_at("members-without-commits", column(members, "row"), column(members, "group_id"))
    for kind, (fact, before, after) in _WHO.items():
        own = of(kind)
        at, group = column(own, "row"), column(own, "group_id")
        who = pc.binary_join_element_wise(before, group, after, "")
        found.add_at("no-committed-offset", at, group, fact, who=who)
    _add_past_end(found, of(places_of.PAST_END))


def _add_past_end(found: _Found, own: pa.Table) -> None:
    if not own.num_rows:
        return
    at, group = column(own, "row"), column(own, "group_id")
    offset, end = column(own, "offset"), column(found.rows, "high_watermark").take(at)
    join = pc.binary_join_element_wise
    told = join("Group ", group, " committed ", offset.cast(pa.string()), "")
    past = join(told, ", past the end of the log (", end.cast(pa.string()), ")", "")
    epoch, its_end = (column(own, n).cast(pa.string()) for n in ("leader_epoch", "epoch_end"))
    where = join(", which ended at ", its_end, " in the log as it is now", "")
    ended = join(told, " in leader epoch ", epoch, where, "")
    beyond = pc.or_(pc.fill_null(pc.greater(offset, end), False), ended.is_null())
    for fact, who, those in (("past-end", past, beyond), ("epoch-end", ended, pc.invert(beyond))):
        found.add_at(
            "no-committed-offset", at.filter(those), group.filter(those), fact,
            who=who.filter(those),
        )  # fmt: skip


def _add_unread(found: _Found, groups: Standing) -> None:
    at, position = groups.placed_at
    committed, group = field(position, "committed_offset"), field(position, "group_id")
    target = column(found.rows, "target_offset").take(at)
    start = pc.max_element_wise(committed, column(found.rows, "log_start_offset").take(at))
    unread = pc.fill_null(pc.less(committed, target), False)
    found.add_at(
        "unread-by-group",
        at.cast(pa.int64()).filter(unread),
        group.filter(unread),
        committed_offset=committed.filter(unread),
        target_offset=target.filter(unread),
        records=pc.subtract(target, start).filter(unread),
    )


def _add_moment_guards(found: _Found, groups: Standing) -> None:
    """Nobody has vouched for the topic's readers, or this is a bad moment."""
    rows = found.rows
    topic, behind, move = rows["topic"], rows["behind_brokers"], rows["leader_moves_to"]
    found.add("readers-undeclared", pc.invert(rows["readers_declared"]), topic=topic)
    _add_restorers(found, groups)
    found.add("remote-storage", rows["remote_storage"], topic=topic)
    brokers = listed(column(rows, "behind_brokers"), "broker ", " and broker ")
    found.add("under-replicated", pc.greater(pc.list_value_length(behind), 0), brokers=brokers)
    adding, removing = (listed(column(rows, n), "[", ", ", "]") for n in ("adding", "removing"))
    found.add("reassigning", _chunked(adding.is_valid()), adding=adding, removing=removing)
    found.add("leader-log-dir-move", move.is_valid(), broker_id=rows["leader_id"], log_dir=move)
    found.add("unclean-election-enabled", rows["unclean_election"], topic=topic)


# What ends `changelog-source`, but that of a name: a declaration may not open an own changelog.
_DECLARE = pa.scalar('Declare state_restore = "none" for it where no table is built from it')


def _add_restorers(found: _Found, groups: Standing) -> None:
    """A table's source may be its own changelog (reuse.ktable.source.topics), whatever its
    cleanup policy: its application restores from records that its group has committed.
    """
    rows = found.rows
    declared, topic, policy = rows["restore_declared"], rows["topic"], rows["cleanup_policy"]
    named = pc.ends_with(topic, "-changelog")
    both = pc.and_(pc.match_substring(policy, "compact"), pc.match_substring(policy, "delete"))
    both = pc.and_(pc.fill_null(both, False), pc.invert(declared))
    by_name = pa.scalar("its name ends with -changelog")
    leave = pa.scalar("Leave it to its application, or delete the topic with it")
    found.add("changelog-source", named, "named", topic=topic, why=by_name, ends=leave)
    compacted = pa.scalar("it is compacted, as the source of a table is")
    both = pc.and_(both, pc.invert(named))
    found.add("changelog-source", both, "compacted", topic=topic, why=compacted, ends=_DECLARE)
    at, app = column(groups.restorers, "row"), column(groups.restorers, "group_id")
    names = column(rows, "topic").take(at)
    # An application reads its own repartition topics once, and restores nothing from them.
    known = frozenset(groups.applications.to_pylist())
    own = [
        application_of(name, known) == group
        for name, group in zip(names.to_pylist(), app.to_pylist(), strict=True)
    ]
    stands = pc.and_(
        pc.invert(pa.array(own, pa.bool_())), pc.invert(column(rows, "restore_declared").take(at))
    )
    at, app, names = (values.filter(stands) for values in (at, app, names))
    why = pc.binary_join_element_wise("Kafka Streams application ", app, " reads it", "")
    found.add_at("changelog-source", at, app, "streams", topic=names, why=why, ends=_DECLARE)
    _add_global_tables(found, groups)


def _add_global_tables(found: _Found, groups: Standing) -> None:
    """A global table is read without a group: where an application runs, any topic may be one's.

    An application whose group reads it is told of by name already, and others than it here. Who
    declares that a topic's groups are all its readers has said that this one is not.
    """
    applications = groups.applications.to_pylist()
    if not applications:
        return
    rows = found.rows
    named = pc.match_substring_regex(rows["topic"], "-(repartition|changelog)$")
    vouched = pc.or_(rows["restore_declared"], pc.or_(rows["readers_declared"], named))
    stands = pc.indices_nonzero(pc.invert(vouched)).cast(pa.int64())
    for readers, at in _by_readers(stands, groups.restorers):
        others = [name for name in applications if name not in readers]
        if not others:
            continue
        rest = len(others) - _MOST_NAMED
        who = ", ".join(others[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        table = f"a global table of {who} is read by no group"
        why = pa.scalar(f"Kafka Streams runs or ran here, and {table}")
        # Who accepts the tables of some applications has not accepted those of the next.
        fact = f"global tables of {', '.join(others)}"
        topic = column(rows, "topic").take(at)
        found.add_at("changelog-source", at, None, fact, topic=topic, why=why, ends=_DECLARE)


def _by_readers(rows: pa.Array, restorers: pa.Table) -> Iterator[tuple[frozenset[str], pa.Array]]:
    """These rows by the applications that read them: few sets, however many rows there are."""
    read = pc.is_in(rows, value_set=column(restorers, "row"))
    yield frozenset(), rows.filter(pc.invert(read))
    own = restorers.filter(pc.is_in(restorers["row"], value_set=rows))
    of_row: dict[int, list[str]] = {}
    for row, group in zip(*(own[name].to_pylist() for name in own.column_names), strict=True):
        of_row.setdefault(row, []).append(group)
    alike: dict[frozenset[str], list[int]] = {}
    for row, groups in of_row.items():
        alike.setdefault(frozenset(groups), []).append(row)
    for readers, at in alike.items():
        yield readers, pa.array(at, pa.int64())


def _offered(name: str, group_id: pa.Array) -> dict[str, pa.Array]:
    """What lifts the guard for each group, as words of a command line: quoted group by group."""
    coded = group_id.dictionary_encode()
    of_each = [words(name, group) for group in coded.dictionary.to_pylist()]
    return {
        word: pa.array([found[word] for found in of_each], pa.string()).take(coded.indices)
        for word in ("waiver", "override")
    }


def _chunked(values: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([values])


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _chosen(fact: pa.ChunkedArray | pa.Array | pa.Scalar, at: pa.Array) -> pa.Array | pa.Scalar:
    return fact if isinstance(fact, pa.Scalar) else fact.take(at)


def _filled(text: str, facts: dict[str, pa.Array | pa.Scalar], length: int) -> pa.Array:
    # Between two marks stands a fact's name, so the odd pieces are names.
    pieces = [
        facts[piece].cast(pa.string()) if index % 2 else piece
        for index, piece in enumerate(text.split(_MARK))
    ]
    if not any(isinstance(piece, (pa.Array, pa.ChunkedArray)) for piece in pieces):
        filled = "".join(map(str, pieces))
        if len(filled.encode()) * length > _MOST_BYTES:  # repeat would not notice
            raise pa.ArrowCapacityError(f"{length} times {len(filled)} characters")
        return pa.repeat(filled, length)
    return pc.binary_join_element_wise(*pieces, "")
