"""Every group's offset on the partitions of a plan: a live one, or the one that is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from dashboard.core.canonical import LATER, Count, Offset, Text
from dashboard.domain.model import Group, GroupListing, GroupOffset, TopicPartition, is_telling

if TYPE_CHECKING:
    from dashboard.purge.plan.facts import PartitionFacts


def alive(group: Group | None) -> bool:
    """Whether a group that is listed has members, or nobody can tell; who is not, is dead."""
    return group is not None and group.members != 0


@dataclass(frozen=True, slots=True)
class RememberedOffset:
    """What a kept snapshot, or a plan, last saw of a group; `topic_id` None where it is not known.

    `committed_offset` None: the group is known to have read a topic of that name, no more.
    """

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    topic_id: str | None = None
    leader_epoch: int | None = None
    seen_at: datetime | None = None  # last; None: not known


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """A group's offset on one partition; `remembered` when only a kept snapshot shows it.

    Of a share group it is its start offset, None where the group has not begun. A remembered
    None was committed on another topic of that name: where the group reads here is unknown.
    `leader_epoch`: in which it was committed, where its committer said so.
    """

    group_id: Text
    committed_offset: Offset | None
    remembered: bool = False
    leader_epoch: Count | None = field(default=None, metadata=LATER)


def key_of(offset: GroupOffset | RememberedOffset) -> TopicPartition:
    return TopicPartition(offset.topic, offset.partition)


def seen_of(
    remembered: Iterable[RememberedOffset],
) -> dict[tuple[TopicPartition, str], datetime | None]:
    """When each group's offset on a partition was seen last; None: not known."""
    return {(key_of(offset), offset.group_id): offset.seen_at for offset in remembered}


def claims_of(
    listing: GroupListing,
    remembered: Iterable[RememberedOffset],
    partitions: Mapping[TopicPartition, PartitionFacts],
) -> dict[TopicPartition, tuple[GroupClaim, ...]]:
    """Every group's offset per partition of these topics: the live one, else the remembered one.

    A live group without a commit on a partition it once committed counts at the remembered
    offset too: an expired offset is not a read record. One of an earlier topic of that name, live
    or remembered, is None: its group may read here, and has read nothing that is known. A share
    group that has not begun on a partition stands there with None, whatever is remembered.
    """
    share = {g.group_id for g in listing.groups if g.type == "share"}
    topics = {key.topic for key in partitions}
    here = [kept for kept in remembered if kept.topic in topics]
    found: dict[TopicPartition, dict[str, GroupClaim]] = {}
    counting = _of_this_log(here, partitions) if here else []
    for kept, counts in zip(here, counting, strict=True):
        offset, epoch = (kept.committed_offset, kept.leader_epoch) if counts else (None, None)
        claim = GroupClaim(kept.group_id, offset, remembered=True, leader_epoch=epoch)
        found.setdefault(TopicPartition(kept.topic, kept.partition), {})[kept.group_id] = claim
    for live in listing.offsets:
        if live.topic not in topics or live.error:
            continue
        of_earlier = live.committed_offset is None and live.group_id not in share
        claims = found.setdefault(key_of(live), {})
        if of_earlier and live.group_id in claims:
            continue  # it has begun anew: what is remembered is its lowest bound
        claims[live.group_id] = GroupClaim(
            live.group_id, live.committed_offset, of_earlier, live.leader_epoch
        )
    return {key: tuple(by[g] for g in sorted(by)) for key, by in found.items()}


def _of_this_log(
    remembered: Sequence[RememberedOffset], partitions: Mapping[TopicPartition, PartitionFacts]
) -> list[bool]:
    """Whether each offset can have been committed on its partition as it is now."""
    # Half of what a purge's two processes would cost at their start: nobody else needs it there.
    import pyarrow as pa

    from dashboard.safety.committed_offsets import same_topic, tells

    seen = [partitions.get(TopicPartition(kept.topic, kept.partition)) for kept in remembered]
    then, now = [k.topic_id or None for k in remembered], [s.topic_id if s else None for s in seen]
    found = tells(
        pa.array([k.committed_offset if s else None for k, s in zip(remembered, seen, strict=True)],
                 pa.int64()),
        same_topic(pa.array(then, pa.string()), pa.array(now, pa.string())),
        pa.array([s.high_watermark if s else None for s in seen], pa.int64()),
        pa.array([s.epoch_ends.get(k.leader_epoch) if s and k.leader_epoch is not None else None
                  for k, s in zip(remembered, seen, strict=True)], pa.int64()),
    )  # fmt: skip
    return [bool(counts) for counts in found.to_pylist()]


def unread_groups(listing: GroupListing) -> frozenset[str]:
    """Groups of which some offset could not be read."""
    return frozenset(o.group_id for o in listing.offsets if o.error)


def unplaced(listing: GroupListing) -> frozenset[str]:
    """Groups without members that have no offset anywhere, where all offsets were told."""
    if listing.incomplete:
        return frozenset()
    # Loads tables, which a purge's processes can do without until they plan or judge.
    from dashboard.safety.readers import without_offset

    told = {o.group_id for o in listing.offsets if o.committed_offset is not None}
    return without_offset(((g.group_id, g.members) for g in listing.groups), told)


def offset_topics(listing: GroupListing) -> dict[str, frozenset[str]]:
    """Topics where groups have an offset, or a share group will get one, planned or not.

    Only of groups whose offsets tell what they may read.
    """
    found: dict[str, set[str]] = {
        g.group_id: set()
        for g in listing.groups
        if is_telling(g.type, g.state, g.members, g.is_streams)
    }
    share = {g.group_id for g in listing.groups if g.type == "share"}
    for offset in listing.offsets if found else ():
        if offset.group_id in found and (
            offset.committed_offset is not None or offset.group_id in share
        ):
            found[offset.group_id].add(offset.topic)
    return {group_id: frozenset(topics) for group_id, topics in found.items()}


def offset_errors(listing: GroupListing) -> dict[TopicPartition, str]:
    """Partitions where a group's offset could not be read, and why."""
    return {
        TopicPartition(o.topic, o.partition): f"group {o.group_id}: {o.error}"
        for o in listing.offsets
        if o.error
    }
