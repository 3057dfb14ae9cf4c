"""The log dir in need as it is now: room left, how fast it fills, and what keeps it from a purge.

A log dir that met an I/O error, a full disk's ENOSPC too, goes offline (KIP-112): DescribeLogDirs
answers KAFKA_STORAGE_ERROR (56) for it, the broker deletes nothing there any more, and only a
restart takes it back. A broker whose last log dir goes offline halts (Kafka's `LogManager`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn, Protocol

from dashboard.core.errors import UsageError
from dashboard.domain.model import LogDir, LogDirsAnswer, TopicPartition
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
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes

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
    return max(online or dirs, key=lambda d: (_share(d), d.log_dir))


def _share(found: LogDir) -> float:
    if not found.total_bytes or found.usable_bytes is None:
        return -1.0
    return 1 - found.usable_bytes / found.total_bytes


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
