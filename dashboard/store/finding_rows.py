"""Rows of findings tables as records, with the columns that rules ask for; None is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DiskRow:
    """A log dir of `disks`, and how full its disk is."""

    taken_at: datetime
    broker_id: int
    log_dir: str | None  # None: its broker told none
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None = None

    live_bytes: int | None = None
    held_bytes: int | None = None
    reclaimable_bytes: int | None = None
    stray_bytes: int | None = None
    orphan_bytes: int | None = None
    delete_bytes: int | None = None
    index_bytes: int | None = None
    future_bytes: int | None = None
    unexplained_bytes: int | None = None
    guarded_bytes: int | None = None
    inventory_at: datetime | None = None

    @property
    def used_bytes(self) -> int | None:
        """What is in use of its disk, by whomever."""
        known = self.total_bytes is not None and self.usable_bytes is not None
        return (self.total_bytes or 0) - (self.usable_bytes or 0) if known else None

    @property
    def used_share(self) -> float | None:
        """The same, of all that is on its disk."""
        used = self.used_bytes
        return None if used is None or not self.total_bytes else used / self.total_bytes


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """`growth` of a topic over its replicas (no broker), of a log dir (no topic), or of both."""

    taken_at: datetime
    topic: str | None
    broker_id: int | None
    log_dir: str | None
    growth_per_hour: int | None
    bytes_in_per_hour: int | None = None
    bytes_out_per_hour: int | None = None
    used_bytes_per_hour: int | None = None
    used_bytes_per_hour_low: int | None = None
    used_bytes_per_hour_high: int | None = None
    days_to_full: float | None = None
    days_to_full_low: float | None = None
    days_to_full_high: float | None = None
    window_seconds: int | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class OrphanRow:
    """A folder of `orphans`; `directory` is None for a checkpoint entry."""

    broker_id: int
    log_dir: str
    directory: str | None
    topic: str | None
    partition: int | None
    kind: str
    size_bytes: int | None
    verdict: str
    reason: str | None = None
    allocated_bytes: int | None = None
    newest_at: datetime | None = None
    check_at: datetime | None = None
    topic_id: str | None = None
    current_topic_id: str | None = None
    index_bytes: int | None = None
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    snapshots_seen: int | None = None
    evidence: str | None = None

    @property
    def name(self) -> str:
        """Its folder; of a checkpoint entry the partition that it names."""
        return self.directory or f"{self.topic}-{self.partition}"

    @property
    def path(self) -> str:
        """Log dir and name."""
        return f"{self.log_dir}/{self.name}"

    @property
    def on_disk(self) -> int | None:
        """What the disk gave for it; without an inventory the bytes of its log."""
        return self.size_bytes if self.allocated_bytes is None else self.allocated_bytes


@dataclass(frozen=True, slots=True)
class SlowFollower:
    """A replica of `slow_followers`, slow or not."""

    topic: str
    partition: int
    broker_id: int
    slow: bool | None
    cause: str | None
    lag_records: int | None
    catch_up_seconds: float | None
    in_sync: bool | None
    observed_at: datetime | None
    alive: bool | None = None
    trend: str | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    log_start_lag: int | None = None
    holds_low_watermark: bool | None = None


@dataclass(frozen=True, slots=True)
class Blocker:
    """A group of `blockers` on one topic, and what its waiver would free there."""

    group_id: str
    topic: str
    bytes_freed_if_waived: int | None
    last_commit_at: datetime | None
    members: int | None
    bytes_held_alone: int | None = None
    group_state: str | None = None
    unmeasured: int | None = None  # partitions whose bytes are in neither sum
