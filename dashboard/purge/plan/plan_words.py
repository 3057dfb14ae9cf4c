"""Sentences of a preview that the command line and the page share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.core.words import number, plural

_MOST_TOPICS = 8
_MOST_NAMED = 5


def declared(declarations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who declared that groups are all readers of which topics, when and why."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in declarations:
        if row["readers"] == "groups":
            said = (row["declared_by"], row["declared_at"], row.get("reason", ""))
            found.setdefault(said, []).append(row["topic"])
    return [
        f"Readers of {_named(topics)} declared by {by or 'nobody named'} "
        f"at {at or 'an unknown time'}" + (f": {reason}" if reason else ", without a reason")
        for (by, at, reason), topics in sorted(found.items())
    ]


def unseen_readers(readings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where nobody could look for readers that never commit, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in readings:
        if row["measured"] != "measured":
            measured = row["measured"] + (f" since {row['until']}" if row["until"] else "")
            found.setdefault((measured, str(row["why"])), []).append(row["topic"])
    return [
        f"Unseen readers of {_named(topics)}: {measured} ({why})"
        for (measured, why), topics in sorted(found.items())
    ]


def rights_missing(rights: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Where nothing can be purged for want of a right, with the line that gives it."""
    return [
        f"MISSING RIGHT: {right['principal'] or 'the principal'} has no DELETE on topic "
        f"{right['topic']}, so nothing can be purged there; grant it with: {right['command']}"
        for right in rights or ()
    ]


def coverage(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What no group's offset covers, a line per topic; of many topics the first ones."""
    gaps = [(row["topic"], said) for row in rows if (said := "; ".join(_gaps(row)))]
    lines = [f"Groups of {topic}: {said}" for topic, said in gaps[:_MOST_TOPICS]]
    rest = len(gaps) - len(lines)
    return [*lines, f"Groups of {plural(rest, 'more topic')} have such gaps"] if rest else lines


def _gaps(row: Mapping[str, Any]) -> list[str]:
    return [*_without_group(row), *_never(row), *_past_end(row), *_remembered(row)]


def _without_group(row: Mapping[str, Any]) -> list[str]:
    count = len(row["without_group"])
    said = f"{number(count)} of {plural(row['partitions'], 'partition')} without any, so unknown"
    return [said] if count else []


def _never(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{group['group_id']} never committed on {_partitions(group)}, so unknown"
        for group in row["never_committed"]
    ]


def _past_end(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{group['group_id']}'s offset on {_partitions(group)} is not of the log as it is now, "
        "so unknown"
        for group in row["past_end"]
    ]


def _remembered(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{group['group_id']} only remembered from kept snapshots on {_partitions(group)}"
        for group in row["remembered"]
    ]


def _partitions(group: Mapping[str, Any]) -> str:
    ids = group["partitions"]
    if len(ids) > _MOST_NAMED:
        return plural(len(ids), "partition")
    return f"partition{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"


def _named(topics: Sequence[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"
