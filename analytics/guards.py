"""Which guards stand on a partition and target: the purge's rules over whole columns.

Rules mirror `dashboard/purge/guards.py`, which judges again from live facts before anything is
sent; the texts are shared (`dashboard/guard_texts.py`). `unseen-reader-suspected` and
`over-limit` are left to planning: they need days of metrics, and a plan's size. So are groups
whose members start over without an offset, or cannot be seen: planning asks who is alive now.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, field, listed, unfolded
from dashboard.guard_texts import guard

GUARDS = pa.list_(
    pa.struct([("name", pa.string()), ("reason", pa.string()), ("lift", pa.string())])
)
_MARK = "\x00"


def guards(rows: pa.Table, incomplete: Sequence[str]) -> pa.Array:
    """All guards of each row as `[{name, reason, lift}]`, never null, in the purge's order.

    `incomplete` are the snapshot's reasons why its group list may lack a reader. The rows are
    those of `partitions.partitions` with `target_offset`, the topic's facts (`topics`,
    share_groups) and, while the partition is reassigned, adding and removing.
    """
    found = _Found(rows)
    _add_topic_guards(found, incomplete)
    unknown = rows["target_offset"].is_null()
    found.add("no-committed-offset", unknown, who=pa.scalar("No group"))
    # A target at or below the log start deletes nothing, so only the topic's nature matters.
    found.only(pc.greater(rows["target_offset"], rows["log_start_offset"]))
    _add_reader_guards(found)
    _add_moment_guards(found)
    return found.as_lists()


class _Found:
    """Guards in the order in which they are found; one row's keep that order."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.at = pa.array(np.arange(rows.num_rows))
        self._parts: list[pa.Table] = []
        self._length = rows.num_rows

    def only(self, mask: pa.ChunkedArray) -> None:
        """Go on with the rows where `mask` is true."""
        self.rows, self.at = self.rows.filter(mask), self.at.filter(mask.combine_chunks())

    def add(self, name: str, mask: pa.ChunkedArray, **facts: pa.ChunkedArray | pa.Scalar) -> None:
        """A guard on every row where `mask` is true, its facts from columns or for all alike."""
        chosen = pc.indices_nonzero(mask)
        self.add_at(name, chosen, **{fact: _chosen(of, chosen) for fact, of in facts.items()})

    def add_at(self, name: str, chosen: pa.Array, **facts: pa.Array | pa.Scalar) -> None:
        """A guard on each row whose index stands in `chosen`, facts beside it."""
        text = guard(name, **{fact: f"{_MARK}{fact}{_MARK}" for fact in facts})
        self._parts.append(
            pa.table(
                {
                    "row": self.at.take(chosen),
                    "name": pa.repeat(name, len(chosen)),
                    "reason": _filled(text.reason, facts, len(chosen)),
                    "lift": _filled(text.lift, facts, len(chosen)),
                }
            )
        )

    def as_lists(self) -> pa.Array:
        """One list of guards per row of the beginning."""
        every = pa.concat_tables(self._parts).combine_chunks()
        row = every["row"].to_numpy()
        ordered = every.take(pa.array(np.argsort(row, kind="stable")))
        counts = np.bincount(row, minlength=self._length)
        ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        structs = pa.StructArray.from_arrays(
            [column(ordered, name) for name in ("name", "reason", "lift")],
            fields=list(GUARDS.value_type),
        )
        return pa.ListArray.from_arrays(pa.array(ends), structs)


def _add_topic_guards(found: _Found, incomplete: Sequence[str]) -> None:
    rows = found.rows
    if incomplete:
        everywhere = pa.array(np.arange(rows.num_rows))
        found.add_at("groups-incomplete", everywhere, why=pa.scalar("; ".join(incomplete)))
    found.add("system-topic", rows["is_system"], topic=rows["topic"])
    policy = rows["cleanup_policy"]
    kept = pc.invert(pc.match_substring(policy, "delete"))
    found.add("not-deletable", kept, topic=rows["topic"], policy=policy)


def _add_reader_guards(found: _Found) -> None:
    rows = found.rows
    target, stable = rows["target_offset"], rows["last_stable_offset"]
    found.add(
        "beyond-last-stable-offset",
        pc.fill_null(pc.greater(target, stable), True),
        target_offset=target,
        last_stable_offset=pc.fill_null(stable.cast(pa.string()), "unknown"),
    )
    _add_unread(found)
    nobody = pc.equal(pc.list_value_length(rows["positions"]), 0)
    found.add("no-committed-offset", nobody, who=pa.scalar("No group"))
    at, group = unfolded(column(rows, "silent_members"))
    found.add_at("members-without-commits", at, group_id=group)
    at, group = unfolded(column(rows, "silent_groups"))
    who = pc.binary_join_element_wise("Group", group, " ")
    found.add_at("no-committed-offset", at, who=who)
    _add_share_groups(found)


def _add_share_groups(found: _Found) -> None:
    at, share = unfolded(column(found.rows, "share_groups"))
    if not len(at):
        return
    names = pc.unique(field(share, "group_id"))
    owner, position = unfolded(column(found.rows, "positions"))
    begun = _pairs(owner, field(position, "group_id"), names).drop_null()
    started = pc.is_in(_pairs(at, field(share, "group_id"), names), value_set=begun)
    standing = pc.invert(pc.and_(field(share, "known"), started))
    at, share = at.filter(standing), share.filter(standing)
    found.add_at("share-group", at, group_id=field(share, "group_id"), why=field(share, "why"))


def _pairs(at: pa.Array, group: pa.Array, names: pa.Array) -> pa.Array:
    """One number per row and group; null for a group that is not in `names`."""
    return pc.add(pc.multiply(at.cast(pa.int64()), len(names)), pc.index_in(group, names))


def _add_unread(found: _Found) -> None:
    at, position = unfolded(column(found.rows, "positions"))
    committed, group = field(position, "committed_offset"), field(position, "group_id")
    target = column(found.rows, "target_offset").take(at)
    start = pc.max_element_wise(committed, column(found.rows, "log_start_offset").take(at))
    unread = pc.less(committed, target)
    found.add_at(
        "unread-by-group",
        at.filter(unread),
        group_id=group.filter(unread),
        committed_offset=committed.filter(unread),
        target_offset=target.filter(unread),
        records=pc.subtract(target, start).filter(unread),
    )


def _add_moment_guards(found: _Found) -> None:
    rows = found.rows
    topic, behind, move = rows["topic"], rows["behind_brokers"], rows["leader_moves_to"]
    found.add("readers-undeclared", pc.invert(rows["readers_declared"]), topic=topic)
    why = _changelog_why(topic, rows["cleanup_policy"])
    found.add("changelog-source", why.is_valid(), topic=topic, why=why)
    found.add("remote-storage", rows["remote_storage"], topic=topic)
    brokers = listed(column(rows, "behind_brokers"), "broker ", " and broker ")
    found.add("under-replicated", pc.greater(pc.list_value_length(behind), 0), brokers=brokers)
    adding, removing = (listed(column(rows, n), "[", ", ", "]") for n in ("adding", "removing"))
    found.add("reassigning", adding.is_valid(), adding=adding, removing=removing)
    found.add("leader-log-dir-move", move.is_valid(), broker_id=rows["leader_id"], log_dir=move)
    found.add("unclean-election-enabled", rows["unclean_election"], topic=topic)


def _changelog_why(topic: pa.ChunkedArray, policy: pa.ChunkedArray) -> pa.ChunkedArray:
    # The source topic of a Streams table may be its own changelog (reuse.ktable.source.topics).
    both = pc.and_(pc.match_substring(policy, "compact"), pc.match_substring(policy, "delete"))
    named = pc.ends_with(topic, "-changelog")
    return pc.case_when(
        pc.make_struct(named, both),
        "its name ends with -changelog",
        "it is compacted, as the source of a table is",
    )


def _chosen(fact: pa.ChunkedArray | pa.Scalar, chosen: pa.Array) -> pa.Array | pa.Scalar:
    return fact if isinstance(fact, pa.Scalar) else fact.take(chosen)


def _filled(text: str, facts: dict[str, pa.Array | pa.Scalar], length: int) -> pa.Array:
    # Between two marks stands a fact's name, so the odd pieces are names.
    pieces = [
        facts[piece].cast(pa.string()) if index % 2 else piece
        for index, piece in enumerate(text.split(_MARK))
    ]
    if not any(isinstance(piece, (pa.Array, pa.ChunkedArray)) for piece in pieces):
        return pa.repeat("".join(map(str, pieces)), length)
    return pc.binary_join_element_wise(*pieces, "")
