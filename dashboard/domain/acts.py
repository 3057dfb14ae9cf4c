"""What the purge journal's chain is told of orphans and of archives: who lets a service act, what
sweeps did, that an archive was deleted, or restored; and what an orphan is called and what may be
done with it.

Shared by findings, pages and sweep. The records stand here since the room that sweeps and the room
that keeps the journal stand side by side and may not import each other.

Apart from the room of archives, since who opens a journal shall not wait for Parquet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypedDict

from dashboard.core.canonical import LATER

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
    "which may mean lost metadata. If you know why they are there, raise orphan_most_share in the "
    "settings"
)

# Gaps that an inventory names of each sort: inside folders whose rows it has, and others.
GAPS_NAMED = 100
LEAST_SNAPSHOTS = 2  # that must show a suspect before it is an orphan; a -stray needs one

# Verdicts: may go now, will be looked at again at `check_at`, stays.
REMOVABLE = "removable"
SCHEDULED = "scheduled"
NEVER = "never"
VERDICTS = (REMOVABLE, SCHEDULED, NEVER)


class Sighting(TypedDict):
    """A row of the findings table `sightings`, as far as it is read here."""

    snapshots_seen: int
    folder: str
    kind: str


def seen_once(sightings: Iterable[Sighting]) -> int:
    """How many rows of the findings table `sightings` wait for a second look.

    A `-stray` folder is told at once, and a `-delete` folder is on its way out.
    """
    return sum(
        row["snapshots_seen"] < LEAST_SNAPSHOTS
        and row["folder"] != "stray"
        and row["kind"] != LATE_DELETE
        for row in sightings
    )


@dataclass(frozen=True, slots=True)
class SweepsTold:
    """Lines of one sweep's log about one broker: those up to `to_seq`, whose hash is `hash`."""

    kind: ClassVar[str] = "orphans"

    cluster_id: str
    broker_id: int
    log: str
    from_seq: int
    to_seq: int
    hash: str
    acts: tuple[tuple[str, str, str, int], ...]  # act, log dir, directory, bytes of disk
    log_replaced: bool = field(default=False, metadata=LATER)  # it is not the log told of before


@dataclass(frozen=True, slots=True)
class RemovalOn:
    """Who let a service remove the orphans of a broker, by which sentence, from which host."""

    kind: ClassVar[str] = "orphans-on"

    cluster_id: str
    broker_id: int
    who: str
    typed: str | None
    from_where: str
    log_dirs: tuple[str, ...]


Act = Literal["begun", "done"]


@dataclass(frozen=True, slots=True)
class Deletion:
    """What the chain is told before the first file goes, and once all are gone.

    `typed` is the sentence of who confirmed it; None: its time was over, by `keep_for`.
    """

    kind: ClassVar[str] = "archive-deleted"

    act: Act
    cluster_id: str
    run_id: str
    url: str
    records: int
    size_bytes: int
    who: str
    typed: str | None
    from_where: str


@dataclass(frozen=True, slots=True)
class Restoration:
    """What the chain is told of a restore: that it begins, and how it ended.

    `whole`: all that it was for is there. `only_partitions` None is all of the topic's; without
    that key it is of a release that told of some partitions as of all.
    """

    kind: ClassVar[str] = "archive-restored"

    act: Act
    cluster_id: str
    run_id: str
    url: str
    topic: str
    to_cluster_id: str
    to_topic: str
    records: int
    whole: bool
    who: str
    from_where: str
    only_partitions: tuple[int, ...] | None = None


def ends_restore(
    whole: bool, partitions: Collection[int] | None, begun: Collection[int] | None
) -> bool:
    """Whether a call that restored these partitions ends a restore that began of others or the
    same: once all that it was for is there, and that is at least what was begun (None: all).
    """
    return whole and (partitions is None or (begun is not None and set(begun) <= set(partitions)))


def restored_into(told: Iterable[Mapping[str, Any]]) -> str | None:
    """The topic into which a restore began and is not known to be done, by what the chain was told
    of one run's archive, in order; None: there is none.
    """
    open_ones: dict[tuple[str, str, str], set[tuple[int, ...] | None]] = {}
    for one in told:
        begun = open_ones.setdefault((one["topic"], one["to_topic"], one["to_cluster_id"]), set())
        only = one.get("only_partitions")
        if not one["whole"]:
            begun.add(None if only is None else tuple(only))
        elif "only_partitions" in one:  # else it may have been of some
            begun -= {some for some in begun if ends_restore(True, only, some)}
    found = (f"{to} of cluster {cluster}" for (_, to, cluster), begun in open_ones.items() if begun)
    return next(found, None)
