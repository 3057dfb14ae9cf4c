"""Sends one round of a run: batches by leader, intent before each request, answer after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.errors import BrokerError
from dashboard.model import DeleteRecordsResult, TopicPartition
from dashboard.purge.cluster_seam import Cluster
from dashboard.purge.facts import PartitionFacts
from dashboard.purge.journal import Journal
from dashboard.purge.journal_rows import PartitionRow, RunRow, WaitForecast
from dashboard.purge.states import answered, unanswered

# What was rechecked longer ago is rechecked again before it is sent.
_FRESH_FOR = timedelta(seconds=5)
_NOT_SENT = "BROKER_UNREACHABLE"

Batch = list[PartitionRow]


@dataclass
class Sender:
    """Sends the allowed partitions of one recheck; `may_send` is asked before each request.

    `saw` is told each row as its answer, or the loss of it, left it. `waits` are the forecasts
    that are kept beside what then happened.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    now: Callable[[], datetime]
    may_send: Callable[[], bool]
    saw: Callable[[Batch], None]
    waits: Mapping[TopicPartition, WaitForecast] = field(default_factory=dict)
    _failure: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sent: int = 0

    def send(
        self,
        rows: Mapping[TopicPartition, PartitionRow],
        allowed: Mapping[TopicPartition, PartitionFacts],
        checked_at: datetime,
        *,
        only_one: bool = False,
        silent: Collection[TopicPartition] | None = None,
    ) -> bool:
        """Send what is still fresh; whether a request left. JournalError ends everything.

        `silent` are partitions with a replica that did not answer just now; None: not read yet.
        """
        stalled = self._stalled(allowed, silent)
        queues = batches(rows, allowed, stalled, self.run.options.partitions_per_request)
        if only_one:
            leader, queue = next(iter(sorted(queues.items())))
            queues = {leader: [queue[0][:1]]}
        until = checked_at + _FRESH_FOR
        in_flight = max(1, self.run.options.requests_in_flight)
        with ThreadPoolExecutor(max(1, len(queues) * in_flight)) as pool:
            for leader, queue in sorted(queues.items()):
                for _ in range(min(in_flight, len(queue))):
                    pool.submit(self._work, leader, queue, allowed, until)
        if self._failure:
            raise self._failure[0]
        return self._sent > 0

    def _work(
        self,
        leader_id: int,
        queue: list[Batch],
        allowed: Mapping[TopicPartition, PartitionFacts],
        until: datetime,
    ) -> None:
        try:
            while not self._failure and self.now() < until and self.may_send():
                with self._lock:
                    if not queue:
                        return
                    batch = queue.pop(0)
                self._request(leader_id, batch, allowed)
        except BaseException as error:
            self._failure.append(error)

    def _request(
        self, leader_id: int, batch: Batch, allowed: Mapping[TopicPartition, PartitionFacts]
    ) -> None:
        now = self.now()
        intended = [
            replace(
                row,
                state="sent",
                attempts=row.attempts + 1,
                sent_leader_id=leader_id,
                sent_leader_epoch=allowed[row.key].leader_epoch,
                sent_at=now,
                answer_error_code=None,
                answer_low_watermark=None,
                error=None,
                message=None,
                wait_forecast=self.waits.get(row.key),
                waited_seconds=None,
            )
            for row in batch
        ]
        self.journal.record(
            self.run.run_id, "intent", intended, now, leader_id=leader_id, mode=self.run.mode
        )
        try:
            result = self.live.delete_records(
                leader_id,
                {row.key: row.target_offset for row in intended},
                timeout_ms=self._timeout_ms(),
                leader_only=self.run.mode == "leader-only",
            )
        except BrokerError as error:
            self._no_answer(batch, intended, error)
            return
        with self._lock:
            self._sent += 1
        self._answer(intended, result)

    def _timeout_ms(self) -> int:
        # Verified: the leader truncates and answers at once; it is read afterwards.
        return 0 if self.run.mode == "leader-only-verified" else self.run.options.timeout_ms

    def _no_answer(self, batch: Batch, intended: Batch, error: BrokerError) -> None:
        if error.code == _NOT_SENT:
            rows = [replace(row, error=error.code, message=error.message) for row in batch]
        else:
            rows = [unanswered(row, error.code) for row in intended]
            with self._lock:
                self._sent += 1
        self.journal.record(
            self.run.run_id, "no-answer", rows, self.now(), code=error.code, message=error.message
        )
        self.saw(rows)

    def _answer(self, intended: Batch, result: DeleteRecordsResult) -> None:
        by_key = {TopicPartition(r.topic, r.partition): r for r in result.partition_results}
        waited = round((self.now() - (intended[0].sent_at or self.now())).total_seconds(), 3)
        told = [replace(row, waited_seconds=waited) for row in intended]
        rows = [
            answered(row, by_key[row.key]) if row.key in by_key else unanswered(row, "NO_RESULT")
            for row in told
        ]
        raw = [
            [r.topic, r.partition, r.low_watermark, r.leader_log_start_offset, r.error_code]
            for r in result.partition_results
        ]
        self.journal.record(
            self.run.run_id,
            "answer",
            rows,
            self.now(),
            leader_id=result.leader_id,
            api_version=result.api_version,
            results=raw,
        )
        self.saw(rows)

    def _stalled(
        self,
        allowed: Mapping[TopicPartition, PartitionFacts],
        silent: Collection[TopicPartition] | None,
    ) -> set[TopicPartition]:
        """Partitions whose followers would keep a wait-all request waiting."""
        if self.run.mode != "wait-all":
            return set()
        if silent is None:
            rows = self.live.replica_offsets(sorted(allowed), None)
            silent = {TopicPartition(r.topic, r.partition) for r in rows if r.error}
        behind = {key for key, seen in allowed.items() if set(seen.replicas) - set(seen.isr)}
        return behind | set(silent)


def batches(
    rows: Mapping[TopicPartition, PartitionRow],
    allowed: Mapping[TopicPartition, PartitionFacts],
    stalled: set[TopicPartition],
    at_most: int,
) -> dict[int, list[Batch]]:
    """Requests by leader id, each of at most `at_most` partitions; stalled ones apart and last."""
    found: dict[int, list[Batch]] = {}
    for slow in (False, True):
        by_leader: dict[int, Batch] = {}
        for key in sorted(allowed):
            leader_id = allowed[key].leader_id
            if leader_id is not None and (key in stalled) is slow:
                by_leader.setdefault(leader_id, []).append(rows[key])
        for leader_id, batch in by_leader.items():
            queue = found.setdefault(leader_id, [])
            queue.extend(batch[i : i + at_most] for i in range(0, len(batch), at_most))
    return found
