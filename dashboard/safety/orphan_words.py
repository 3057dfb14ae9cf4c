"""What an orphan is called and what may be done with it: shared by findings, pages and sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Kinds, by what tells them (docs/orphans.md).
STRAY = "stray"
DELETED_TOPIC = "deleted-topic"
MOVED_AWAY = "moved-away"
RECREATED_TOPIC = "recreated-topic"
ABANDONED_FUTURE = "abandoned-future"
LATE_DELETE = "late-delete"
CHECKPOINT_ENTRY = "checkpoint-entry"
TWO_LOG_DIRS = "two-log-dirs"
KINDS = (
    STRAY, DELETED_TOPIC, MOVED_AWAY, RECREATED_TOPIC, ABANDONED_FUTURE, LATE_DELETE,
    CHECKPOINT_ENTRY, TWO_LOG_DIRS,
)  # fmt: skip

# What KIP-370 counts: partitions that lie on a broker and that the cluster does not place there. It
# knew no future copies; `-delete` folders, entries, and a partition that is placed there are none.
KIP_370 = (STRAY, DELETED_TOPIC, MOVED_AWAY, RECREATED_TOPIC)

# Why nothing of a broker may go when more than a small share of it is orphans at once.
TOO_MANY = (
    "that smells of lost metadata. If you know why they are there, raise orphan_most_share in the "
    "settings"
)

LEAST_SNAPSHOTS = 2  # that must show a suspect before it is an orphan; a -stray needs one

# Verdicts: may go now, will be looked at again at `check_at`, stays.
REMOVABLE = "removable"
SCHEDULED = "scheduled"
NEVER = "never"
VERDICTS = (REMOVABLE, SCHEDULED, NEVER)


def seen_once(sightings: Iterable[Mapping[str, Any]]) -> int:
    """How many rows of the findings table `sightings` wait for a second look.

    A `-stray` folder is told at once, and a `-delete` folder is on its way out.
    """
    return sum(
        row["snapshots_seen"] < LEAST_SNAPSHOTS
        and row["folder"] != "stray"
        and row["kind"] != LATE_DELETE
        for row in sightings
    )
