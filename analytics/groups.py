"""What the members of every group read at this moment, from the snapshot's `groups` table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, field, looked_up, unfolded

# knows_topic: its members read this topic; else it is not known what they read.
SHARES = pa.list_(pa.struct([("group_id", pa.string()), ("knows_topic", pa.bool_())]))
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


def share_groups(groups: pa.Table, topics: pa.Table) -> pa.Array:
    """Per row of `topics` the share groups that may want its records, as SHARES.

    A share group keeps no committed offset, and records past its start offset are still wanted.
    One whose topics cannot be read counts for every topic.
    """
    by_topic: dict[str, set[str]] = {}
    anywhere: set[str] = set()
    for group in groups.filter(pc.equal(groups["type"], "share")).to_pylist():
        names = {at["topic"] for at in group["assigned"] or ()}
        for name in names:
            by_topic.setdefault(name, set()).add(group["group_id"])
        if not names:
            anywhere.add(group["group_id"])
    rest = [{"group_id": name, "knows_topic": False} for name in sorted(anywhere)]
    return pa.array(
        [
            [{"group_id": g, "knows_topic": True} for g in sorted(by_topic.get(topic, ()))] + rest
            for topic in topics["topic"].to_pylist()
        ],
        type=SHARES,
    )
