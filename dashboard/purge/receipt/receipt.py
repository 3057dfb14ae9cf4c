"""The receipt of a run: bytes predicted against bytes freed, who freed the rest, why they differ;
and which log starts are on their brokers' disks, by the checkpoint files that inventories took.

Sizes come from DescribeLogDirs: before each partition's request, then sampled until final. What
producers wrote in between is added, and what retention took above the target is told apart by the
log start (`receipt_bytes`). It reads them too; all but `Checkpoints` is pure.

A log start is in memory alone until its broker writes `log-start-offset-checkpoint`, once a minute
and with fsync (kafka.log.LogManager, CheckpointFile). One that was seen there outlives a power
failure. A log that begins with its first segment has no entry: nothing is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from dashboard.core.clock import CLOCKS_AGREE, parse_time
from dashboard.core.errors import StoreError
from dashboard.core.words import plural
from dashboard.domain.model import ConfigEntry, TopicPartition
from dashboard.purge.execute.states import all_arrived, doubtful, followed
from dashboard.purge.forecast.waits import requests
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt import receipt_bytes
from dashboard.purge.receipt.gap import cause
from dashboard.purge.receipt.model import Place, Receipt, ReplicaReceipt, Sample

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.store.snapshots import ClusterStore

# Every live replica is past the target, or another leader brought records back: it stays so.
_AT_REST = ("done", "reverted")
_READ = (*_AT_REST, "leader_done")  # what a look at the leader and all followers alone decides
_CHECKPOINT = "log.flush.start.offset.checkpoint.interval.ms"
_DEFAULTS_MS = {
    "log.retention.check.interval.ms": 300_000,
    _CHECKPOINT: 60_000,
    "file.delete.delay.ms": 60_000,
}


class Settle(NamedTuple):
    """How long after the last replica arrived its bytes have left, and after that, until its log
    start is surely on its disk: a scan may show it there sooner (`Checkpoints`).
    """

    freed: timedelta
    checkpoint: timedelta


def fallen(receipt: Receipt, sample: Sample) -> dict[TopicPartition, set[int]]:
    """The brokers whose replica lost bytes since the last look: what a receipt is to count."""
    sizes = {part.place: part.size_bytes for part in receipt.measured}
    found: dict[TopicPartition, set[int]] = {}
    for r in sample.replicas:
        if r.size_bytes < sizes.get(r.place, 0):
            found.setdefault(r.key, set()).add(r.broker_id)
    return found


def settle_time(entries: Iterable[ConfigEntry]) -> Settle:
    """Retention check interval + file delete delay, and log start checkpoint interval: the largest
    of brokers and topics; Kafka's defaults where they cannot be read.
    """
    found: dict[str, list[int]] = {}
    for entry in entries:
        if entry.key in _DEFAULTS_MS and entry.value is not None:
            found.setdefault(entry.key, []).append(int(entry.value))
    longest = {k: max(found.get(k, [default])) for k, default in _DEFAULTS_MS.items()}
    checkpoint = timedelta(milliseconds=longest.pop(_CHECKPOINT))
    return Settle(timedelta(milliseconds=sum(longest.values())), checkpoint)


def start(
    baseline: Sample | None,
    rows: Sequence[PartitionRow],
    plan: Plan,
    leaving: Mapping[Place, int] = MappingProxyType({}),
) -> Receipt:
    """The receipt before any sample; partitions that were there already free nothing.

    Replicas of partitions that were sent and are `not_done` are kept `aside`, and not counted.
    Those of topics with remote storage are not followed: local retention deletes segments there
    while the log start stays, so that a size tells nothing of the purge.

    `leaving` are bytes that earlier purges had yet to free at the baseline (`receipt_bytes`).
    """
    targets = {row.key: row.target_offset for row in rows if row.was_sent}
    planned = {p.key: p for p in plan.partitions}
    remote = _remote(rows, plan)
    parts = [
        receipt_bytes.begun(r, planned.get(r.key), targets[r.key], leaving.get(r.place, 0))
        for r in (baseline.replicas if baseline else ())
        if r.key in targets and r.topic not in remote
    ]
    unsettled = any(doubtful(r) or (followed(r) and r.state != "not_done") for r in rows)
    waits, topics = tuple(requests(rows)), tuple(sorted(remote))
    body = Receipt(final=not unsettled, waits=waits, remote_topics=topics or None)
    return _apart(foreseen(body, rows, plan), parts, _counted(rows))


def foreseen(receipt: Receipt, rows: Iterable[PartitionRow], plan: Plan) -> Receipt:
    """With the plan's prediction for partitions that count: sent, and not known to be not done."""
    counted, remote = _counted(rows), _remote(rows, plan)
    estimates = [
        None if p.topic in remote else p.estimate for p in plan.partitions if p.key in counted
    ]
    known = [e.bytes_at_once for e in estimates if e and e.bytes_at_once is not None]
    return replace(
        receipt,
        predicted_bytes=sum(known) if known or not counted else None,
        methods=tuple(sorted({e.method for e in estimates if e})),
        unmeasured_partitions=len(estimates) - len(known),
    )


def moved_on(receipt: Receipt, sample: Sample, rows: Iterable[PartitionRow]) -> bool:
    """Whether a log start lies past the target before what is due was seen leaving."""
    targets = {row.key: row.target_offset for row in rows}
    waits = {part.place for part in receipt.measured if not part.fell}
    return any(
        r.place in waits and (r.log_start_offset or 0) > targets[r.key] for r in sample.replicas
    )


def _counted(rows: Iterable[PartitionRow]) -> set[TopicPartition]:
    return {row.key for row in rows if row.was_sent and row.state != "not_done"}


def _remote(rows: Iterable[PartitionRow], plan: Plan) -> set[str]:
    """The topics that were sent and have remote storage: a guard says so, lifted or not."""
    sent = {row.key for row in rows if row.was_sent}
    names = (
        (p.topic, {*(g.name for g in p.guards), *(lifted.name for lifted in p.lifted)})
        for p in plan.partitions
        if p.key in sent
    )
    return {topic for topic, found in names if "remote-storage" in found}


def _apart(
    receipt: Receipt, parts: Iterable[ReplicaReceipt], counted: Collection[TopicPartition]
) -> Receipt:
    """With the `replicas` of partitions that count and their sums, and `aside` those of which
    nothing was deleted.

    A request may take effect yet, or turn out not to have: both are followed, so that a partition
    changes sides with all that was seen of it.
    """
    ordered = sorted(parts, key=lambda part: part.place)
    replicas = tuple(part for part in ordered if part.key in counted)
    told = bool(replicas) or not counted
    return replace(
        receipt,
        replicas=replicas,
        aside=tuple(part for part in ordered if part.key not in counted),
        freed_bytes=sum(r.freed_bytes for r in replicas) if told else None,
        retention_bytes=sum(r.retention_bytes for r in replicas) if told else None,
        produced_bytes=sum(r.produced_bytes for r in replicas) if told else None,
        cleaner_bytes=sum(r.cleaner_bytes for r in replicas) if told else None,
    )


def advance(
    receipt: Receipt,
    sample: Sample,
    rows: Sequence[PartitionRow],
    settle: timedelta,
    now: datetime,
    *,
    checkpoint: timedelta = timedelta(0),
    all_read: bool = True,
    last: bool = False,
    gone: Collection[str] = (),
    later: Mapping[TopicPartition, Collection[int]] = MappingProxyType({}),
    entries: Entries = MappingProxyType({}),
) -> Receipt:
    """The receipt after one more sample of `measure`; final once all assigned replicas have rested
    for `settle`, when bytes have left, and `checkpoint`, when log starts are on disk.

    Not where a leader could not be read in this look (`all_read`): it may start below the target.
    At the `last` look nobody waits any longer for replicas on brokers that are down, nor for
    partitions whose records came back: it is final for those that rest, and the gap names the rest.
    Topics that are `gone`, deleted or made anew, are not waited for either, nor measured any more:
    their deletion freed the rest, not the purge. `later` are the targets of later purges, `entries`
    what scans of disks show of log starts: where they tell all, no checkpoint is waited for.
    """
    of = {row.key: row for row in rows}
    newest = {r.place: r for r in sample.replicas if r.topic not in gone}
    looked = [
        receipt_bytes.looked(
            old,
            newest.get(old.place),
            of[old.key].target_offset,
            undone=of[old.key].state == "reverted",
            away=_away(old, of[old.key]),
            later=later.get(old.key, ()),
        )
        for old in receipt.measured
    ]
    looked = [
        proved(part, entries.get(part.place, ()), row.target_offset, row.sent_at)
        for part in looked
        for row in (of[part.key],)
    ]
    there = [row for row in rows if row.topic not in gone]
    moved = [row for row in there if row.state != "not_done"]  # by this run, or there already
    arrived = all(map(all_arrived, moved)) and not any(map(doubtful, there))
    rested = all(row.state in _AT_REST for row in moved)
    arrived_at = (receipt.arrived_at or (now if all_read else None)) if arrived else None
    rested_at = (receipt.rested_at or now) if rested else None
    since = arrived_at or (rested_at if last else None)
    if arrived_at is None or not _durable(looked, moved):
        settle += checkpoint
    final = since is not None and now >= since + settle and (all_read or last)
    body = replace(
        _apart(receipt, looked, _counted(rows)),
        arrived_at=arrived_at,
        rested_at=rested_at,
        measured_at=sample.taken_at,
        gone_topics=tuple(sorted(gone)),
        final=final,
    )
    body = replace(body, aside=None) if final else body  # never counted now
    return replace(body, gap=cause(body, rows))


def _durable(parts: Iterable[ReplicaReceipt], rows: Iterable[PartitionRow]) -> bool:
    """Whether scans show the log start of every replica there is on its disk."""
    shown, wanted = _on_disk(parts, rows)
    return 0 < wanted == shown


def _on_disk(parts: Iterable[ReplicaReceipt], rows: Iterable[PartitionRow]) -> tuple[int, int]:
    """Of how many replicas scans show the log start, and how many there are: those that gave no
    size before the request, of which nothing is counted, too.
    """
    wanted = {
        (*row.key, broker)
        for row in rows
        for broker in (row.leader_id, *(f.broker_id for f in row.followers))
    }
    shown = {part.place for part in parts if part.durable_at is not None}
    return len(wanted & shown), len(wanted)


def _away(part: ReplicaReceipt, row: PartitionRow) -> bool:
    """Whether its broker was seen without the replica: the leader and followers are all there are.

    Of an open partition both may be of two looks.
    """
    if row.leader_id is None or row.state not in _READ:
        return False
    return part.broker_id not in {row.leader_id, *(f.broker_id for f in row.followers)}


FILE = "log-start-offset-checkpoint"
_EVERY = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a log dir's file, as a scan of that disk found it."""

    log_dir: str
    offset: int
    scanned_at: datetime


Entries = Mapping[Place, Collection[Entry]]


class _Line(TypedDict):
    """A row of the snapshot's table `checkpoints`."""

    broker_id: int
    log_dir: str
    file: str
    topic: str
    partition: int
    offset: int


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

        columns = [*_Line.__annotations__]
        wanted = pc.field("file") == FILE
        return self.store.read("snapshots", snapshot, "checkpoints", columns, only=wanted)

    def _of(self, topics: Collection[str]) -> list[_Line]:
        if self._lines is None:
            return []
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pc.is_in(self._lines["topic"], pa.array(sorted(topics), pa.string()))
        return list(self._lines.filter(wanted).to_pylist())


# The clocks of the host that sent and of the one that scanned may each be off by as much as clocks
# that agree.
_SURELY_AFTER = 2 * CLOCKS_AGREE


def proved(
    part: ReplicaReceipt, entries: Collection[Entry], target: int, sent_at: datetime | None
) -> ReplicaReceipt:
    """With `durable_at` once a scan that began after the request was sent shows its log start at
    the target or past it.

    An earlier scan may show what another purge left, and an election took back. An entry beyond
    what the broker itself tells now is of another log of that name.
    """
    if part.left_out or part.undone:
        return replace(part, durable_at=None)
    start = part.log_start_offset
    if part.durable_at is not None or start is None or sent_at is None:
        return part
    found = [
        e.scanned_at
        for e in entries
        if e.log_dir == part.log_dir
        and target <= e.offset <= start
        and e.scanned_at >= sent_at + _SURELY_AFTER
    ]
    return replace(part, durable_at=min(found, default=None))


def on_disk_said(receipt: Receipt, rows: Iterable[PartitionRow]) -> str:
    """`2 of 3 replicas have their log start on disk, …`; empty where no scan told any."""
    left_out = {*receipt.gone_topics, *(receipt.remote_topics or ())}
    there = (
        r for r in rows if r.was_sent and r.state != "not_done" and r.topic not in left_out
    )  # of the others nothing is measured, so nothing can be shown
    shown, wanted = _on_disk(receipt.replicas, there)
    if not shown:
        return ""
    counted = "every replica has its" if shown == wanted else (
        f"{shown} of {plural(wanted, 'replica')} have their"
    )  # fmt: skip
    return f"{counted} log start on disk, as scans of them show"
