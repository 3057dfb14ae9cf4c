"""Which log starts are on their brokers' disks: by the checkpoint files that inventories took.

A log start is in memory alone until its broker writes `log-start-offset-checkpoint`, once a minute
and with fsync (kafka.log.LogManager, CheckpointFile). One that was seen there outlives a power
failure. A log that begins with its first segment has no entry: nothing is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dashboard.core.clock import parse_time
from dashboard.core.errors import StoreError
from dashboard.core.words import plural
from dashboard.domain.model import TopicPartition
from dashboard.purge.receipt.model import Place, Receipt, ReplicaReceipt

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.store.snapshots import ClusterStore

FILE = "log-start-offset-checkpoint"
_EVERY = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a log dir's file, as a scan of that disk found it."""

    log_dir: str
    offset: int
    scanned_at: datetime


Entries = Mapping[Place, Collection[Entry]]


@dataclass
class Checkpoints:
    """What the newest snapshot's inventories tell; one may serve all runs that are followed.

    The store may be far away: it is asked for a newer snapshot every ten seconds at most, and each
    snapshot is read once.
    """

    store: ClusterStore
    now: Callable[[], datetime]
    _asked_at: datetime | None = None
    _known: str | None = None
    _scanned_at: Mapping[int, datetime] = field(default_factory=dict)  # by broker
    _lines: pa.Table | None = None

    def read(self, keys: Collection[TopicPartition]) -> Entries:
        """Entries of these partitions by place; none where no inventory tells any. What cannot be
        read proves nothing: it is tried again, and waited for meanwhile.
        """
        now = self.now()
        if self._asked_at is None or not timedelta(0) <= now - self._asked_at < _EVERY:
            self._asked_at = now
            with suppress(StoreError):
                self._look()
        found: dict[Place, list[Entry]] = {}
        for row in self._of({key.topic for key in keys}):
            key, broker = TopicPartition(row["topic"], row["partition"]), row["broker_id"]
            if key in keys and broker in self._scanned_at:
                entry = Entry(row["log_dir"], row["offset"], self._scanned_at[broker])
                found.setdefault((*key, broker), []).append(entry)
        return found

    def _look(self) -> None:
        newest = self.store.latest("snapshots")
        if newest is None or newest == self._known:
            return
        told = self.store.manifest("snapshots", newest).details.get("inventories") or ()
        lines = self._read(newest) if told else None  # else pyarrow is not needed either
        self._scanned_at = {one["broker_id"]: parse_time(one["scanned_at"]) for one in told}
        self._known, self._lines = newest, lines

    def _read(self, snapshot: str) -> pa.Table:
        import pyarrow.compute as pc

        columns = ["broker_id", "log_dir", "file", "topic", "partition", "offset"]
        wanted = pc.field("file") == FILE
        return self.store.read("snapshots", snapshot, "checkpoints", columns, only=wanted)

    def _of(self, topics: Collection[str]) -> list[dict[str, Any]]:
        if self._lines is None:
            return []
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pc.is_in(self._lines["topic"], pa.array(sorted(topics), pa.string()))
        return list(self._lines.filter(wanted).to_pylist())


def proved(part: ReplicaReceipt, entries: Collection[Entry], target: int) -> ReplicaReceipt:
    """With `durable_at` once a scan shows its log start at the target or past it.

    An entry beyond what the broker itself tells now is of another log of that name.
    """
    if part.left_out or part.undone:
        return replace(part, durable_at=None)
    start = part.log_start_offset
    if part.durable_at is not None or start is None:
        return part
    here = [e for e in entries if e.log_dir == part.log_dir and target <= e.offset <= start]
    return replace(part, durable_at=min((e.scanned_at for e in here), default=None))


def said(receipt: Receipt) -> str:
    """`2 of 3 replicas have their log start on disk, …`; empty where no scan told any."""
    parts = receipt.replicas
    durable = sum(part.durable_at is not None for part in parts)
    if not durable:
        return ""
    counted = "every replica has its" if durable == len(parts) else (
        f"{durable} of {plural(len(parts), 'replica')} have their"
    )  # fmt: skip
    return f"{counted} log start on disk, as scans of them show"
