"""Partitions rolled up by topic: what the table, the treemap and the totals show."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

CAPPED = "a replay window or an open transaction"


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic. Bytes are summed over replicas; None is unknown.

    `consumed_bytes` are those of partitions that every known group has passed; `free_bytes` of
    those without any guard; `at_once_bytes` are whole segments among the consumed ones.
    `guarded_bytes` lie below the targets of partitions that guards hold; 0 where none does.
    `held_by` is the group that holds most back; `capped_bytes` are those of `held_bytes` that
    every group has read, but that are CAPPED.
    """

    topic: str
    partitions: int
    free_partitions: int
    size_bytes: int | None
    consumed_bytes: int
    free_bytes: int
    at_once_bytes: int | None
    held_bytes: int | None
    held_by: str | None
    methods: tuple[str, ...]
    owner: str | None
    readers_declared: bool
    guards: tuple[str, ...]
    guarded_bytes: int | None = 0
    capped_bytes: int = 0

    @property
    def holder(self) -> str:
        """What holds most back: a group, unless CAPPED bytes are more than those of all groups."""
        capped = self.capped_bytes > (self.held_bytes or 0) - self.capped_bytes
        return CAPPED if capped else self.held_by or ""

    @property
    def reclaimable_bytes(self) -> int | None:
        """Consumed bytes; None when nothing is known of what was consumed."""
        return self.consumed_bytes if self.consumed_bytes or self.at_once_bytes == 0 else None

    @property
    def later_bytes(self) -> int | None:
        """Consumed bytes in segments that still hold other records: they leave later."""
        if self.at_once_bytes is None:
            return None
        return max(0, self.consumed_bytes - self.at_once_bytes)


@dataclass(frozen=True, slots=True)
class Filters:
    """What the reader chose above the table; empty means everything."""

    topic: str = ""
    broker_topics: frozenset[str] | None = None
    group_topics: frozenset[str] | None = None
    guard: str | None = None
    least_bytes: int = 0

    def keep(self, row: TopicRow) -> bool:
        """Whether a row passes. The guard filter `none` keeps rows without any guard."""
        if self.topic and self.topic.lower() not in row.topic.lower():
            return False
        for allowed in (self.broker_topics, self.group_topics):
            if allowed is not None and row.topic not in allowed:
                return False
        if self.guard == "none" and row.guards:
            return False
        if self.guard and self.guard != "none" and self.guard not in row.guards:
            return False
        return row.consumed_bytes >= self.least_bytes


def topic_rows(facts: pa.Table) -> list[TopicRow]:
    """All topics of the partition facts, most consumed bytes first, then by name."""
    flagged = (
        facts.append_column("consumed_b", _where(facts, "bytes_likely", "consumed"))
        .append_column("free_b", _where(facts, "bytes_likely", "free"))
        .append_column("once_b", _where(facts, "bytes_at_once", "consumed"))
        .append_column("once_known", _known_at_once(facts))
        .append_column("guarded_b", pc.if_else(facts["guarded"], facts["bytes_likely"], None))
        .append_column("guarded_any", facts["guarded"])
        .append_column("capped_b", _capped(facts))
        .append_column("free_n", pc.cast(facts["free"], pa.int64()))
    )
    sums = flagged.group_by("topic").aggregate(
        [("partition", "count"), ("free_n", "sum"), ("size_bytes", "sum"), ("consumed_b", "sum"),
         ("free_b", "sum"), ("once_b", "sum"), ("once_known", "min"), ("held_bytes", "sum"),
         ("guarded_b", "sum"), ("guarded_any", "max"), ("capped_b", "sum"), ("method", "distinct"),
         ("owner", "max"), ("readers_declared", "min")]
    )  # fmt: skip
    holders = _holders(facts)
    guards = _guards(facts)
    rows = [
        TopicRow(
            topic=row["topic"],
            partitions=row["partition_count"],
            free_partitions=row["free_n_sum"],
            size_bytes=row["size_bytes_sum"],
            consumed_bytes=row["consumed_b_sum"] or 0,
            free_bytes=row["free_b_sum"] or 0,
            at_once_bytes=(row["once_b_sum"] or 0) if row["once_known_min"] else None,
            held_bytes=row["held_bytes_sum"],
            held_by=holders.get(row["topic"]),
            methods=tuple(sorted(m for m in row["method_distinct"] if m)),
            owner=row["owner_max"],
            readers_declared=bool(row["readers_declared_min"]),
            guards=guards.get(row["topic"], ()),
            guarded_bytes=row["guarded_b_sum"] if row["guarded_any_max"] else 0,
            capped_bytes=row["capped_b_sum"] or 0,
        )
        for row in sums.to_pylist()
    ]
    return sorted(rows, key=lambda row: (-row.consumed_bytes, -(row.size_bytes or 0), row.topic))


def groups_of(holds: pa.Table, topics: Collection[str] | None = None) -> list[str]:
    """The groups that hold something on these topics (None: all topics), sorted."""
    groups = holds["group_id"]
    if topics is not None:
        groups = groups.filter(pc.is_in(holds["topic"], pa.array(sorted(topics), pa.string())))
    return sorted(pc.unique(groups).to_pylist())


def topics_of_group(holds: pa.Table, group_id: str) -> frozenset[str]:
    """The topics on which this group has a committed offset."""
    topics = holds["topic"].filter(pc.equal(holds["group_id"], group_id))
    return frozenset(pc.unique(topics).to_pylist())


def topics_of_broker(replicas: pa.Table, topics: pa.Table, broker_id: int) -> frozenset[str]:
    """The topics with a replica on this broker."""
    numbers = pc.unique(replicas.filter(pc.equal(replicas["broker_id"], broker_id))["topic_no"])
    return frozenset(topics.filter(pc.is_in(topics["topic_no"], numbers))["topic"].to_pylist())


def total(rows: Iterable[TopicRow], column: str) -> int:
    """The sum of a column over rows; unknown values add nothing."""
    return sum(getattr(row, column) or 0 for row in rows)


def _where(facts: pa.Table, column: str, flag: str) -> pa.ChunkedArray:
    return pc.if_else(facts[flag], facts[column], 0)


def _capped(facts: pa.Table) -> pa.ChunkedArray:
    """Bytes above a target short of the log end that no group is behind of."""
    short = pc.less(facts["target_offset"], facts["high_watermark"])
    return pc.if_else(pc.and_(short, pc.is_null(facts["held_by"])), facts["held_bytes"], 0)


def _known_at_once(facts: pa.Table) -> pa.ChunkedArray:
    unmeasured = pc.and_(facts["consumed"], pc.is_null(facts["bytes_at_once"]))
    unknown = pc.or_(unmeasured, pc.is_null(facts["target_offset"]))
    return pc.cast(pc.invert(unknown), pa.int8())


def _holders(facts: pa.Table) -> dict[str, str]:
    """The group that holds most bytes of each topic."""
    held = facts.filter(pc.greater(pc.fill_null(facts["held_bytes"], 0), 0))
    held = held.filter(pc.is_valid(held["held_by"]))
    sums = held.group_by(["topic", "held_by"]).aggregate([("held_bytes", "sum")])
    ordered = sums.sort_by([("held_bytes_sum", "ascending"), ("held_by", "descending")])
    return dict(zip(ordered["topic"].to_pylist(), ordered["held_by"].to_pylist(), strict=True))


def _guards(facts: pa.Table) -> dict[str, tuple[str, ...]]:
    names = facts["guard_names"].combine_chunks()
    parents = pc.list_parent_indices(names)
    pairs = (
        pa.table({"topic": facts["topic"].take(parents), "guard": pc.list_flatten(names)})
        .group_by(["topic", "guard"])
        .aggregate([])
    )
    found: dict[str, list[str]] = {}
    for row in pairs.to_pylist():
        found.setdefault(row["topic"], []).append(row["guard"])
    return {topic: tuple(sorted(listed)) for topic, listed in found.items()}
