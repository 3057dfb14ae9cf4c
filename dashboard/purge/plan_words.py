"""Sentences of a preview that the command line and the page share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


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
            found.setdefault((row["measured"], str(row["why"])), []).append(row["topic"])
    return [
        f"Unseen readers of {_named(topics)}: {measured} ({why})"
        for (measured, why), topics in sorted(found.items())
    ]


def _named(topics: Sequence[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"
