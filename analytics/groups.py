"""What the members of every group read at this moment, from the snapshot's `groups` table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, field, looked_up, unfolded
from dashboard.guard_texts import share_why

SHARES = pa.list_(
    pa.struct([("group_id", pa.string()), ("why", pa.string()), ("known", pa.bool_())])
)
_MEMBERS = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("partition", pa.int32()),
        ("members_here", pa.list_(pa.string())),
    ]
)


def assigned(groups: pa.Table) -> pa.Table:
    """topic, partition, group_id: what the members of every group but share groups read."""
    reading = groups.filter(pc.not_equal(pc.fill_null(groups["type"], ""), "share"))
    parents, at = unfolded(column(reading, "assigned"))
    names = column(reading, "group_id").take(parents)
    return pa.table(
        {"topic": field(at, "topic"), "partition": field(at, "partition"), "group_id": names}
    )


def members(reading: pa.Table, topics: pa.Table) -> pa.Table:
    """topic_no, partition, members_here: the groups of `assigned`, by partition."""
    numbers = looked_up(
        column(reading, "topic"), column(topics, "topic"), column(topics, "topic_no")
    )
    found = (
        reading.append_column("topic_no", numbers)
        .filter(numbers.is_valid())
        .group_by(["topic_no", "partition"])
        .aggregate([("group_id", "distinct")])
    )
    return found.rename_columns(_MEMBERS.names).cast(_MEMBERS)


def share_groups(share: pa.Table, starts: pa.Table, topics: pa.Table) -> pa.Array:
    """Per row of `topics` the share groups that may want its records, as SHARES.

    `share` are those of `share_only`. `starts` (topic_no, group_id) names where they have a start
    offset or are about to get one: a `known` group blocks where it has none yet. One whose topics
    cannot be read counts for every topic.
    """
    names = dict(zip(topics["topic_no"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    shared: dict[str, set[str]] = {}
    for row in starts.group_by(["group_id", "topic_no"]).aggregate([]).to_pylist():
        if row["topic_no"] in names:
            shared.setdefault(row["group_id"], set()).add(names[row["topic_no"]])
    by_topic: dict[str, list[dict[str, object]]] = {}
    anywhere = []
    for group in share.sort_by("group_id").to_pylist():
        reads = shared.get(group["group_id"], set()) | {
            at["topic"] for at in group["assigned"] or ()
        }
        known = bool(reads) and not group["error"]
        why = share_why(reads_topic=known, error=group["error"])
        found = {"group_id": group["group_id"], "why": why, "known": known}
        if not known:
            anywhere.append(found)
        for name in reads if known else ():
            by_topic.setdefault(name, []).append(found)
    return pa.array(
        [[*by_topic.get(name, ()), *anywhere] for name in topics["topic"].to_pylist()], type=SHARES
    )


def share_only(groups: pa.Table) -> pa.Table:
    """The share groups: a start offset per partition stands for their commits."""
    return groups.filter(pc.equal(groups["type"], "share"))
