"""Follows a closed run: replicas until all arrive, how fast, elections that revert it, receipt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from dashboard.purge.execute.readback import GONE, Seen, read_back
from dashboard.purge.execute.states import doubtful, followed, looked_after, run_state, settled
from dashboard.purge.execute.topic_identity import doubts, gone
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Follower, PartitionRow, RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.moves import MoveRow, skipped_records
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.receipt import receipt, receipt_bytes
from dashboard.purge.receipt.model import Place, Receipt, ReplicaReceipt, Sample, TopicOutcome
from dashboard.purge.receipt.receipt import Checkpoints, Entries

# How fast followers that are behind close in on their leader, from successive reads.


class Closing:
    """The lag of each follower at its last read; a rate needs two."""

    def __init__(self) -> None:
        self._last: dict[tuple[TopicPartition, int], tuple[datetime, int]] = {}

    def rated(self, row: PartitionRow, now: datetime) -> PartitionRow:
        """The row with `closing_per_second` of each follower behind, in records: negative when it
        falls back, None at its first read and when its lag is not known.
        """
        return replace(row, followers=tuple(self._rated(row.key, f, now) for f in row.followers))

    def _rated(self, key: TopicPartition, follower: Follower, now: datetime) -> Follower:
        last = self._last.pop((key, follower.broker_id), None)
        lag = follower.lag_records
        if lag is None:
            return follower
        self._last[key, follower.broker_id] = (now, lag)
        if last is None:
            return follower
        seconds = (now - last[0]).total_seconds()
        return replace(follower, closing_per_second=(last[1] - lag) / seconds if seconds else None)


# A run that an earlier release closed after silence may have a row that is `sent` still.
_WATCHED = ("done", "leader_done", "unknown", "sent")
# By then an earlier run's segments have left, whatever the brokers' intervals.
_WAITED_FOR = timedelta(hours=1)
_QUICK_FOR = timedelta(seconds=60)
_QUICK_SECONDS, _SLOW_SECONDS = 1.0, 5.0
# Without any answer for so long the worker ends; the next CLI call or page starts another.
_SILENT_FOR = timedelta(seconds=60)


@dataclass
class ReplicaWatch:
    """Watching one run until its receipt is final, or `watched_until` has come.

    Until then a broker that is down may be back, or lead by an unclean election; the last look
    makes the receipt final without it. `checkpoints` may tell that log starts are on disk.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    plan: Plan
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    unread: str | None = None
    checkpoints: Checkpoints | None = None
    _closing: Closing = field(default_factory=Closing)
    _current: Receipt | None = None
    _settle: receipt.Settle | None = None
    _began: datetime | None = None
    _answered_at: datetime | None = None
    _overtaken: set[TopicPartition] = field(default_factory=set)

    def watch(self) -> None:
        """Return when there is nothing more to see, or nobody answers. Raises JournalError."""
        while (wait := self.step()) is not None and not self.silent:
            self.sleep(wait)

    @property
    def silent(self) -> bool:
        """Whether nobody has answered for so long that a worker would end."""
        since = self._answered_at
        return since is not None and self.now() - since >= _SILENT_FOR

    def step(self) -> float | None:
        """One look; seconds until the next, or None when there is nothing more to see.

        Raises JournalError.
        """
        if self.run.state == "refused":
            return None
        current = self._begun() if self._current is None else self._current
        if current.final:
            return None
        if self.now() >= self._until():
            self._last_look(current)
            return None
        try:
            self._settle = self._settle or self._settle_time()
            self._current = current = self._look(current, self._settle)
            self._answered_at = self.now()
        except ClusterError as error:
            self._unanswered(error)
        return None if current.final else self._pace()

    def _begun(self) -> Receipt:
        rows = self.journal.partitions(self.run.run_id)
        baseline = self.journal.baseline(self.run.run_id)
        self._current = self.run.receipt or receipt.start(
            baseline, rows, self.plan, self._leaving(baseline)
        )
        if self.run.receipt is None:
            self.journal.write_receipt(self.run.run_id, self._current, self.now())
        self._began = self._answered_at = self.now()
        return self._current

    def _leaving(self, baseline: Sample | None) -> dict[Place, int]:
        """By the receipts of earlier runs that may still have waited for segments to leave."""
        known: list[Receipt] = []  # the newest first, as they are added
        runs = self.journal.earlier(self.run, self.run.queued_at - _WAITED_FOR)
        for run in reversed([run for run in runs if run.state != "refused"]):
            known.insert(0, run.receipt or self._to_begin(run, known))
        return receipt_bytes.leaving(known, baseline)

    def _to_begin(self, run: RunRow, known: Sequence[Receipt]) -> Receipt:
        """What the receipt will begin with of a closed run whose watch is yet to begin: its worker
        died as it closed. What it waits for is its own all the same.
        """
        baseline, plan = self.journal.baseline(run.run_id), self.journal.plan(run.run_id)
        leaving = receipt_bytes.leaving(known, baseline)
        return receipt.start(baseline, self.journal.partitions(run.run_id), plan, leaving)

    def _unanswered(self, error: ClusterError) -> None:
        if error.code != self.unread:  # one entry for each new reason
            body = {"code": error.code, "message": error.message}
            self.journal.record(self.run.run_id, "unread", [], self.now(), **body)
        self.unread = error.code

    def _pace(self) -> float:
        quick = self._began is not None and self.now() - self._began < _QUICK_FOR
        return _QUICK_SECONDS if quick else _SLOW_SECONDS

    def _last_look(self, current: Receipt) -> None:
        with suppress(ClusterError):
            self._look(current, self._settle or self._settle_time(), last=True)

    def _until(self) -> datetime:
        return self.run.watched_until or self.run.queued_at

    def _settle_time(self) -> receipt.Settle:
        topics = {p.topic for p in self.plan.free_partitions}
        return receipt.settle_time(self.live.configs(sorted(topics), self.live.alive_brokers()))

    def _look(self, current: Receipt, settle: receipt.Settle, *, last: bool = False) -> Receipt:
        # Sizes go by name: those of a topic made anew count not. So its id is read after them.
        sample = self._sampled(current)
        rows, all_read = self._read()
        current = receipt.foreseen(current, rows, self.plan)
        found = receipt.advance(
            current, sample, rows, settle.freed, self.now(), checkpoint=settle.checkpoint,
            all_read=all_read, last=last,
            gone=self._gone(rows),
            later=self._targets_later() if receipt.moved_on(current, sample, rows) else {},
            entries=self._on_disk(current),
        )  # fmt: skip
        found = with_calibration(found, rows, self.plan)
        self.journal.write_receipt(self.run.run_id, found, self.now())
        return found

    def _on_disk(self, current: Receipt) -> Entries:
        """What scans of disks show, once all have arrived: it shortens that wait alone."""
        if self.checkpoints is None or current.arrived_at is None:
            return {}
        return self.checkpoints.read({part.key for part in current.measured})

    def _sampled(self, current: Receipt) -> Sample:
        """Sizes of all replicas that a request was sent for; where one fell, of the topic itself.

        The broker that tells metadata may not know yet of a topic that another one has anew.
        """
        keys = [row.key for row in self.journal.partitions(self.run.run_id) if row.was_sent]
        sample = receipt_bytes.measure(self.live, keys, self.now())
        doubted = doubts(self.live, receipt.fallen(current, sample), self.plan.topic_ids)
        return receipt_bytes.without(sample, doubted)

    def _gone(self, rows: Iterable[PartitionRow]) -> set[str]:
        """Topics of the run that are another one now, or none."""
        known = self.live.topics(sorted({row.topic for row in rows if followed(row)}))
        return gone(self.live, known, self.plan.topic_ids)

    def _read(self) -> tuple[tuple[PartitionRow, ...], bool]:
        """The rows as they stand now, and whether every leader that there is was read."""
        rows = self.journal.partitions(self.run.run_id)
        watched = [
            row
            for row in rows
            if row.state in _WATCHED or (doubtful(row) and row.key not in self._overtaken)
        ]
        after, seen = self._looked(watched)
        moves = self.journal.moves(self.run.run_id)
        changed = [
            _with_skipped(a, moves)
            for b, a in zip(watched, after, strict=True)
            if a.state != b.state
        ]
        moved = [a for b, a in zip(watched, after, strict=True) if a != b and a.state == b.state]
        if moved:
            self.journal.note(self.run.run_id, moved)
        if changed:
            self.journal.record(self.run.run_id, "watched", changed, self.now())
            self._follow_states()
        if moved or changed:
            rows = self.journal.partitions(self.run.run_id)
        unread = [s for s in seen if s.leader_log_start_offset is None]
        return rows, all(s.error == GONE for s in unread)

    def _looked(self, watched: Sequence[PartitionRow]) -> tuple[list[PartitionRow], list[Seen]]:
        """Each row as it is after its leader and replicas were read, and what was seen."""
        if not watched:  # an empty list asks a broker for all that it has
            return [], []
        entry = self.journal.newest_entry()
        seen = read_back(
            self.live,
            {row.key: row.target_offset for row in watched},
            self.plan.topic_ids,
            done={row.key for row in watched if row.state == "done"},
        )
        wait_all = self.run.mode == "wait-all"
        after = [
            looked_after(row, self._closing.rated(found, self.now()), entry)
            for row in watched
            for found in (settled(row, seen[row.key], wait_all=wait_all, may_resend=False),)
        ]
        # Once leaders are read: a run that moved them has its intent in the journal by then.
        self._overtaken |= self._moved_by_others(watched, after)
        kept = [b if b.key in self._overtaken else a for b, a in zip(watched, after, strict=True)]
        return kept, list(seen.values())

    def _moved_by_others(
        self, before: Sequence[PartitionRow], after: Sequence[PartitionRow]
    ) -> set[TopicPartition]:
        """Of those that were not done and are past their target now: what our request did not do.

        A request moves a log start to its target and no further, as retention does. Nor was it ours
        where a later run found the log start below, and asked for the same: its receipt counts it.
        """
        pairs = zip(before, after, strict=True)
        late = {a.key: a for b, a in pairs if b.state == "not_done" != a.state}
        found = {k for k, row in late.items() if row.leader_log_start_offset != row.target_offset}
        if found == late.keys():
            return found
        for run in self.journal.later(self.run):
            starts = receipt_bytes.furthest(self.journal.baseline(run.run_id))
            found |= {
                row.key
                for row in self._may_have_moved(run)
                if row.key in late and row.target_offset == late[row.key].target_offset
                if starts.get(row.key, row.target_offset) < row.target_offset
            }
        return found

    def _targets_later(self) -> dict[TopicPartition, set[int]]:
        """Where later runs may have moved log starts to."""
        found: dict[TopicPartition, set[int]] = {}
        for run in self.journal.later(self.run):
            for row in self._may_have_moved(run):
                found.setdefault(row.key, set()).add(row.target_offset)
        return found

    def _may_have_moved(self, run: RunRow) -> list[PartitionRow]:
        rows = self.journal.partitions(run.run_id)
        return [r for r in rows if r.was_sent and (r.state != "not_done" or doubtful(r))]

    def _follow_states(self) -> None:
        """A run that was partial for a follower becomes done with it; a reversal undoes that."""
        if self.run.state not in ("done", "partial"):
            return
        state = run_state(self.journal.partitions(self.run.run_id), self.run.mode, cancelled=False)
        if state != self.run.state:
            self.journal.set_run(self.run.run_id, state, self.now())
            self.run = replace(self.run, state=state)


def _with_skipped(row: PartitionRow, moves: Iterable[MoveRow]) -> PartitionRow:
    """A row whose records came back says which moved groups will not read them."""
    skipped = skipped_records(moves, row.key) if row.state == "reverted" else None
    return replace(row, message=f"{row.message}; {skipped}") if skipped else row


# What a final receipt keeps for calibration: per topic and estimator, predicted against freed.


def with_calibration(receipt: Receipt, rows: Iterable[PartitionRow], plan: Plan) -> Receipt:
    """A final receipt with its `calibration`; any other one as it is."""
    if not receipt.final:
        return receipt
    there = [row for row in rows if row.topic not in receipt.gone_topics]
    return replace(receipt, calibration=_by_topic(receipt.replicas, there, plan))


def _by_topic(
    replicas: Iterable[ReplicaReceipt], rows: Iterable[PartitionRow], plan: Plan
) -> tuple[TopicOutcome, ...]:
    """Sums over the partitions that tell something of an estimator, sorted by topic and method.

    Left out are partitions that were not done on every replica, came back, were there already or
    are gone, have no interval or no size of some replica, and those where retention or the log
    cleaner deleted too, an earlier purge's segments were leaving or a log began anew or moved: what
    is whose is then not measured.
    """
    done = {
        row.key
        for row in rows
        if row.was_sent and row.state == "done" and all(f.arrived for f in row.followers)
    }
    of_partition: dict[TopicPartition, list[ReplicaReceipt]] = defaultdict(list)
    for replica in replicas:
        of_partition[replica.key].append(replica)
    sums: dict[tuple[str, str], TopicOutcome] = {}
    for planned in plan.partitions:
        one = _outcome(planned, of_partition[planned.key]) if planned.key in done else None
        if one is not None:
            so_far = sums.get((one.topic, one.method))
            sums[one.topic, one.method] = one if so_far is None else so_far + one
    return tuple(sums[key] for key in sorted(sums))


def _outcome(planned: PlannedPartition, replicas: Sequence[ReplicaReceipt]) -> TopicOutcome | None:
    estimate = planned.estimate
    if estimate is None or planned.log_start_offset is None:
        return None
    likely = estimate.bytes_at_once
    low, high = estimate.bytes_at_once_low, estimate.bytes_at_once_high
    if likely is None or low is None or high is None:
        return None
    if {replica.broker_id for replica in replicas} != set(estimate.replicas):
        return None
    for r in replicas:
        if r.start_before is None or r.start_before > planned.log_start_offset:
            return None
        if r.retention_bytes or r.earlier_bytes or r.cleaner_bytes or r.left_out:
            return None
    freed, unsure = sum(r.freed_bytes for r in replicas), sum(r.unsure_bytes for r in replicas)
    return TopicOutcome(planned.topic, estimate.method, 1, low, likely, high, freed, unsure)
