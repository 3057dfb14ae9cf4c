"""The log dir in need as it is now: room left, how fast it fills, and what keeps it from a purge;
and what purging each partition would free on it, and how sure its records are lost.

A log dir that met an I/O error, a full disk's ENOSPC too, goes offline (KIP-112): DescribeLogDirs
answers KAFKA_STORAGE_ERROR (56) for it, the broker deletes nothing there any more, and only a
restart takes it back. A broker whose last log dir goes offline halts (Kafka's `LogManager`).

Tier 1: every known group has consumed the records and the topic's readers are declared. Tier 2: the
same, but nobody declared its readers. Tier 3: what waiving a dead group frees besides. Past that
nothing is offered: a partition with any other guard has no tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, Protocol

from dashboard.core.errors import UsageError
from dashboard.domain.model import LogDir, LogDirsAnswer, TopicPartition, used_share
from dashboard.purge.evidence.estimates import segment_bytes
from dashboard.purge.plan.drafts import Read
from dashboard.purge.plan.plan import PlannedPartition
from dashboard.purge.plan.tiers import is_remote
from dashboard.store.finding_rows import GrowthRow

OBSTACLES = OFFLINE, DOWN, SILENT = "LOG_DIR_OFFLINE", "BROKER_DOWN", "BROKER_SILENT"
_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


class Cluster(Protocol):
    """The part of `dashboard.cluster.live.LiveCluster` that is asked here."""

    def alive_brokers(self) -> tuple[int, ...]: ...
    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer: ...


@dataclass(frozen=True, slots=True)
class Disk:
    """One log dir, read live. `error` is Kafka's name of what is wrong with it.

    `obstacle` says why no purge gives it room: OFFLINE, DOWN or SILENT. `replicas` are those in
    it now, None where the broker does not list them. `grows_by` are bytes per hour that its used
    space grows by, None without enough history. `offline` are the broker's other log dirs that are.
    """

    broker_id: int
    log_dir: str | None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: str | None = None
    obstacle: str | None = None
    replicas: Mapping[TopicPartition, int] | None = None
    grows_by: int | None = None
    offline: tuple[str, ...] = field(default=())

    @property
    def used_share(self) -> float | None:
        """0..1; None where the broker does not tell total and usable bytes (KIP-827)."""
        return used_share(self.total_bytes, self.usable_bytes)

    @property
    def full_in(self) -> timedelta | None:
        """When nothing is left at its present pace; None where that is not known, or never."""
        if self.usable_bytes is None or not self.grows_by or self.grows_by < 0:
            return None
        return timedelta(hours=self.usable_bytes / self.grows_by)

    def written_in(self, time: timedelta) -> int | None:
        """Bytes that it fills by meanwhile: 0 where it shrinks, None where that is not known."""
        if self.grows_by is None:
            return None
        return max(0, round(self.grows_by * (time / timedelta(hours=1))))


def look(
    live: Cluster,
    broker_id: int,
    log_dir: str | None,
    *,
    known: Mapping[str, int],
    growth: Sequence[GrowthRow],
) -> Disk:
    """The log dir in need: the one named, else the fullest that is online.

    `known` are the broker's log dirs in the newest findings with the bytes measured there,
    `growth` the rows of that table. Raises UsageError BROKER_NOT_FOUND or LOG_DIR_NOT_FOUND.
    """
    if broker_id not in live.alive_brokers():
        if not known:
            raise UsageError(
                f"there is no broker {broker_id}, and the findings know none",
                "Correct --broker; lowwater findings disks lists brokers and log dirs.",
                code="BROKER_NOT_FOUND",
            )
        return Disk(broker_id, _named(known, log_dir, broker_id), obstacle=DOWN)
    answer = live.log_dirs(None, [broker_id])
    refused = answer.errors.get(broker_id)
    if refused:
        return _unlisted(broker_id, _named(known, log_dir, broker_id), refused)
    found = _chosen(answer.log_dirs, log_dir, broker_id)
    return Disk(
        broker_id,
        found.log_dir,
        found.total_bytes,
        found.usable_bytes,
        found.error,
        _obstacle(found.error),
        {
            TopicPartition(r.topic, r.partition): r.size_bytes
            for r in answer.replicas
            if r.log_dir == found.log_dir and not r.is_future
        },
        _grows_by(growth, broker_id, found.log_dir),
        tuple(
            d.log_dir
            for d in answer.log_dirs
            if d.error == _STORAGE_ERROR and d.log_dir != found.log_dir
        ),
    )


def _obstacle(error: str | None) -> str | None:
    """Offline, or a log dir of which the broker tells nothing: one that vanished goes that way
    first (UNKNOWN_SERVER_ERROR), until its next write fails.
    """
    return None if error is None else OFFLINE if error == _STORAGE_ERROR else SILENT


def _unlisted(broker_id: int, log_dir: str, refused: str) -> Disk:
    """A broker that refuses DescribeLogDirs can be purged; one that does not answer cannot."""
    silent = not refused.endswith("_AUTHORIZATION_FAILED") and refused != "UNSUPPORTED_VERSION"
    return Disk(broker_id, log_dir, error=refused, obstacle=SILENT if silent else None)


def _chosen(dirs: Sequence[LogDir], named: str | None, broker_id: int) -> LogDir:
    if named is not None:
        found = next((d for d in dirs if d.log_dir == named), None)
        if found is None:
            _refuse(named, [d.log_dir for d in dirs], broker_id)
        return found
    online = [d for d in dirs if not d.error]
    return max(online or dirs, key=_fullness)


def _fullness(found: LogDir) -> tuple[float, str]:
    """The fullest last; one that does not tell comes first."""
    share = used_share(found.total_bytes, found.usable_bytes)
    return -1.0 if share is None else share, found.log_dir


def _named(known: Mapping[str, int], named: str | None, broker_id: int) -> str:
    if named is not None and known and named not in known:
        _refuse(named, list(known), broker_id)
    return named or max(known, key=lambda name: (known[name], name), default="unknown log dir")


def _refuse(named: str, known: Sequence[str], broker_id: int) -> NoReturn:
    raise UsageError(
        f"broker {broker_id} has no log dir {named}",
        f"It has: {', '.join(sorted(known))}.",
        code="LOG_DIR_NOT_FOUND",
    )


def _grows_by(growth: Sequence[GrowthRow], broker_id: int, log_dir: str) -> int | None:
    """What the disk says of all on it, else what its replicas' bytes in and out say."""
    for row in growth:
        # Rows with a topic are of that topic alone there.
        if (row.topic, row.broker_id, row.log_dir) == (None, broker_id, log_dir):
            used, replicas = row.used_bytes_per_hour, row.growth_per_hour
            return used if used is not None else replicas
    return None


if TYPE_CHECKING:  # numpy is slow to import
    from dashboard.estimate.curve_tables import ReplicaCurves

DECLARED, UNDECLARED, WAIVED = 1, 2, 3
_READERS = "readers-undeclared"
# It speaks of how many partitions were read, not of these: the plan of the chosen ones says it.
_OF_THE_WHOLE = "over-limit"


@dataclass(frozen=True, slots=True)
class Here:
    """Bytes on the disk in need that leave at once, in whole segments: low <= likely <= high.

    `high` is None where nobody knows how much was written since the analysis.
    """

    low: int
    likely: int
    high: int | None

    @property
    def some(self) -> bool:
        """Whether anything may leave."""
        return self.high is None or self.high > 0

    def __add__(self, other: Here) -> Here:
        unknown = self.high is None or other.high is None
        high = None if unknown else (self.high or 0) + (other.high or 0)
        return Here(self.low + other.low, self.likely + other.likely, high)

    def __sub__(self, other: Here) -> Here:
        """What comes on top of `other`, so that the sum of both is this one again."""
        unknown = self.high is None or other.high is None
        high = None if unknown else (self.high or 0) - (other.high or 0)
        return Here(self.low - other.low, self.likely - other.likely, high)


NONE = Here(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """One step of a partition's log start and what it frees there.

    A piece of tier 3 is what a waiver frees beyond the piece of a lower tier, if there is one.
    `undeclared`: nobody declared the topic's readers.
    """

    key: TopicPartition
    tier: int
    here: Here
    undeclared: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """A partition that another guard keeps from any tier, and what it holds there."""

    key: TopicPartition
    guards: tuple[str, ...]
    here: Here


def pieces(read: Read, curves: ReplicaCurves) -> tuple[list[Piece], list[Blocked]]:
    """The pieces of tiers 1 and 2, and what is blocked; of partitions that free something.

    `curves` are those of the replicas in the log dir in need, and of no other.
    """
    freed = measured(read, curves)
    free: list[Piece] = []
    blocked: list[Blocked] = []
    for partition in read.only(freed).plan(()).partitions:
        here = freed[partition.key]
        names = _names(partition)
        if not here.some:
            continue
        if names <= {_READERS}:
            free.append(Piece(partition.key, UNDECLARED if names else DECLARED, here, bool(names)))
        else:
            blocked.append(Blocked(partition.key, tuple(sorted(names)), here))
    return free, blocked


def gains(waived: Read, curves: ReplicaCurves, before: Sequence[Piece]) -> list[Piece]:
    """The pieces of tier 3 of a reading with a waiver, beyond those without it."""
    already = {piece.key: piece.here for piece in before}
    found = []
    for piece in pieces(waived, curves)[0]:
        had = already.get(piece.key, NONE)
        more = piece.here - had
        if more.likely > 0:
            found.append(Piece(piece.key, WAIVED, more, piece.undeclared))
    return found


def measured(read: Read, curves: ReplicaCurves) -> dict[TopicPartition, Here]:
    """What each partition's replica in that log dir frees by its own curve, from live offsets.

    One without a curve is missing: not measurable, never zero. So is one with remote storage: its
    curve is of local bytes, its log start of the whole log (KIP-405).
    """
    import numpy as np

    places = curves.places.select(["topic", "partition", "topic_id"]).to_pylist()
    rows: list[int] = []
    keys: list[TopicPartition] = []
    starts: list[int] = []
    targets: list[int] = []
    for row, place in enumerate(places):
        key = TopicPartition(place["topic"], place["partition"])
        bounds = _bounds(read, key, place["topic_id"])
        if bounds is not None:
            rows.append(row)
            keys.append(key)
            starts.append(bounds[0])
            targets.append(bounds[1])
    if not rows:
        return {}
    sizes = {topic: segment_bytes(read.facts, topic) for topic in {key.topic for key in keys}}
    every = np.array([sizes.get(p["topic"], 1) for p in places], dtype=np.int64)
    chosen = curves.with_segment_bytes(every).curves.of(np.array(rows, dtype=np.int64))
    start, target = (np.array(offsets, dtype=np.int64) for offsets in (starts, targets))
    freed = chosen.freed(start, target)
    bounded = (chosen.bounded(target) | (target <= start)).tolist()
    columns = (freed.once_low.tolist(), freed.once.tolist(), freed.once_high.tolist(), bounded)
    return {
        key: Here(low, likely, high if known else None)
        for key, low, likely, high, known in zip(keys, *columns, strict=True)
    }


def _bounds(read: Read, key: TopicPartition, topic_id: str | None) -> tuple[int, int] | None:
    """Log start and target, both live; None where they tell of no bytes on that disk: one is not
    known, the topic is another one, or has remote storage.
    """
    facts, target = read.facts.partitions.get(key), read.resolved.get(key)
    if facts is None or target is None or target.offset is None or facts.log_start_offset is None:
        return None
    if topic_id is not None and facts.topic_id not in (None, topic_id):
        return None
    if is_remote(read.facts.configs.get(key.topic, {})):
        return None
    return facts.log_start_offset, target.offset


def _names(partition: PlannedPartition) -> set[str]:
    return {guard.name for guard in partition.guards} - {_OF_THE_WHOLE}


def total(found: Mapping[TopicPartition, Here] | Sequence[Piece] | Sequence[Blocked]) -> Here:
    """The sum of all."""
    values = found.values() if isinstance(found, Mapping) else [piece.here for piece in found]
    return sum(values, NONE)
