"""Sentences of a preview that the command line and the page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dashboard.core.words import binary, duration, number, plural
from dashboard.purge.plan.tiers import summed

if TYPE_CHECKING:
    from dashboard.domain.rights import MissingRight
    from dashboard.purge.plan.plan import Declared, Estimate, PlannedPartition
    from dashboard.purge.plan.preview import GroupPartitions, ToKeep, TopicCoverage, Totals
    from dashboard.safety.unseen_readers import TopicReading

_MOST_TOPICS = 8
_MOST_NAMED = 5


def freed(found: Estimate | Totals) -> str:
    """`41.2 GiB at once (40.8 GiB to 41.9 GiB), 0.3 GiB later`.

    The interval is left out where nothing is uncertain, and both where a plan has none. Without
    an upper bound a replica was not measured, or not what was written to it since the analysis.
    """
    once = found.bytes_at_once
    if once is None:
        return "not measurable"
    said = f"{binary(once)} at once"
    least, most = found.bytes_at_once_low, found.bytes_at_once_high
    if most is None and least is not None:
        said += f" (at least {binary(least)}: not all of it was measured)"
    elif least is not None and most is not None and least != most:
        said += f" ({binary(least)} to {binary(most)})"
    return said + (f", {binary(found.bytes_later)} later" if found.bytes_later else "")


def declared(declarations: Iterable[Declared]) -> list[str]:
    """Who declared that groups are all readers of which topics, when and why."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in declarations:
        if row.readers == "groups":
            said = (row.declared_by, row.declared_at, row.reason)
            found.setdefault(said, []).append(row.topic)
    return [
        f"Readers of {_named(topics)} declared by {by or 'nobody named'} "
        f"at {at or 'an unknown time'}" + (f": {reason}" if reason else ", without a reason")
        for (by, at, reason), topics in sorted(found.items())
    ]


def unseen_readers(readings: Iterable[TopicReading]) -> list[str]:
    """Where nobody could look for readers that never commit, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in readings:
        if row.measured != "measured":
            measured = row.measured + (f" since {row.until}" if row.until else "")
            found.setdefault((measured, str(row.why)), []).append(row.topic)
    return [
        f"Unseen readers of {_named(topics)}: {measured} ({why})"
        for (measured, why), topics in sorted(found.items())
    ]


def rights_missing(rights: Iterable[MissingRight] | None) -> list[str]:
    """Where nothing can be purged for want of a right, with the line that gives it."""
    return [
        f"MISSING RIGHT: {right.principal or 'the principal'} has no DELETE on topic "
        f"{right.topic}, so nothing can be purged there; grant it with: {right.line}"
        for right in rights or ()
    ]


def to_keep(found: ToKeep | None) -> list[str]:
    """What is read and proved first, where the records are to be kept."""
    if found is None:
        return []
    size = "" if found.size_bytes is None else f", about {binary(found.size_bytes)} on disk"
    return [
        f"ARCHIVE {found.url}: at most {plural(found.records, 'record')} of "
        f"{plural(found.partitions, 'partition')}{size} are read there and proved before any "
        f"is deleted; {_how_long(found)}"
    ]


def _how_long(found: ToKeep) -> str:
    if found.seconds is None or found.seconds_high is None:
        return "how long that takes, the first archive of this cluster tells"
    least, most = duration(found.seconds), duration(found.seconds_high)
    span = most if least == most else f"{least} to {most}"
    if not found.earlier:
        return f"that takes {span} at the rate that is set"
    return f"that takes {span} as fast as {plural(found.earlier, 'earlier archive')} here"


def capped(partitions: Iterable[PlannedPartition]) -> list[str]:
    """How many targets are lower than what was asked for, by what lowered them."""
    found = Counter(p.capped_by for p in partitions if p.capped_by)
    return [f"{plural(count, 'target')} lowered by the {by}" for by, count in sorted(found.items())]


def tiers(partitions: Iterable[PlannedPartition]) -> list[str]:
    """What a purge to these targets takes of remote storage and of brokers' disks, by topic."""
    by_topic: dict[str, list[PlannedPartition]] = {}
    for p in partitions:
        if p.tiers is not None and p.target_offset is not None:
            by_topic.setdefault(p.topic, []).append(p)
    named = sorted(by_topic)[:_MOST_TOPICS]
    lines = [f"Remote storage of {topic}: {_tiers(by_topic[topic])}" for topic in named]
    rest = len(by_topic) - len(lines)
    return [*lines, f"{plural(rest, 'more topic')} with remote storage"] if rest else lines


def _tiers(partitions: Sequence[PlannedPartition]) -> str:
    known = [p.taken for p in partitions if p.taken is not None]
    if len(known) < len(partitions):
        errors = sorted({p.tiers.error or "no answer" for p in partitions if p.tiers})
        return f"what lies there cannot be told ({', '.join(errors)})"
    takes = summed(known)
    if takes.remote_records is None:
        there = "what goes there cannot be told"
    else:
        there = f"at most {plural(takes.remote_records, 'record')} of it go"
        if takes.remote_bytes:
            there += f", about {binary(takes.remote_bytes)} if they are as large as those on disk"
    if not takes.local_records:
        return f"{there}; the targets lie below what brokers' disks have, where nothing goes"
    local = f"{there}; on brokers' disks at most {plural(takes.local_records, 'record')} go"
    size = "bytes unknown" if takes.local_bytes is None else f"about {binary(takes.local_bytes)}"
    return f"{local}, {size}"


def coverage(rows: Iterable[TopicCoverage]) -> list[str]:
    """What no group's offset covers, a line per topic; of many topics the first ones."""
    gaps = [(row.topic, said) for row in rows if (said := "; ".join(_gaps(row)))]
    lines = [f"Groups of {topic}: {said}" for topic, said in gaps[:_MOST_TOPICS]]
    rest = len(gaps) - len(lines)
    return [*lines, f"Groups of {plural(rest, 'more topic')} have such gaps"] if rest else lines


def _gaps(row: TopicCoverage) -> list[str]:
    return [*_without_group(row), *_never(row), *_past_end(row), *_remembered(row)]


def _without_group(row: TopicCoverage) -> list[str]:
    count = len(row.without_group)
    said = f"{number(count)} of {plural(row.partitions, 'partition')} without any, so unknown"
    return [said] if count else []


def _never(row: TopicCoverage) -> list[str]:
    return [
        f"{group.group_id} never committed on {_partitions(group)}, so unknown"
        for group in row.never_committed
    ]


def _past_end(row: TopicCoverage) -> list[str]:
    return [
        f"{group.group_id}'s offset on {_partitions(group)} is not of the log as it is now, "
        "so unknown"
        for group in row.past_end
    ]


def _remembered(row: TopicCoverage) -> list[str]:
    return [
        f"{group.group_id} only remembered from kept snapshots on {_partitions(group)}"
        for group in row.remembered
    ]


def _partitions(group: GroupPartitions) -> str:
    ids = group.partitions
    if len(ids) > _MOST_NAMED:
        return plural(len(ids), "partition")
    return f"partition{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"


def _named(topics: Sequence[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"
