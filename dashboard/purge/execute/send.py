"""Sends one round of a run: batches by leader, intent before each request, answer after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from dashboard.core.clock import Stopwatch
from dashboard.core.errors import ANSWER_LOST, NOT_SENT, BrokerError, ClusterError
from dashboard.domain.model import (
    TOPIC_AUTHORIZATION_FAILED,
    DeleteRecordsResult,
    TopicPartition,
)
from dashboard.domain.rights import MissingRight
from dashboard.purge.execute.archive_gate import Proofs, refuse_unproved
from dashboard.purge.execute.fresh import OUTDATED, Fresh
from dashboard.purge.execute.states import answered, unanswered
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import PartitionRow, RunRow, WaitForecast
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts

Batch = list[PartitionRow]


@dataclass
class Sender:
    """Sends the allowed partitions of one recheck; `may_send` is asked before each request.

    `saw` is told each row as its answer, or the loss of it, left it. `waits` are the forecasts
    that are kept beside what then happened. `known_since`: what the recheck's memory of groups
    began with, by the store and not by the plan's text; the journal keeps it with each intent.
    `proofs`: of a run with an archive, what is kept by now; without one a request does not leave.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    watch: Stopwatch
    may_send: Callable[[], bool]
    saw: Callable[[Batch], None]
    waits: Mapping[TopicPartition, WaitForecast] = field(default_factory=dict)
    known_since: str | None = None
    proofs: Proofs = field(default_factory=dict)
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    _failure: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sent: int = 0
    _asked: bool = False  # a leader, whether or not it could be reached
    _late: bool = False

    def send(
        self,
        rows: Mapping[TopicPartition, PartitionRow],
        allowed: Mapping[TopicPartition, PartitionFacts],
        look: Fresh,
        *,
        only_one: bool = False,
        silent: Collection[TopicPartition] | None = None,
    ) -> bool:
        """Send what is still fresh; whether a request left. JournalError ends everything.

        `look`: the last one at the cluster, and how long it counts.
        `silent` are partitions with a replica that did not answer just now; None: not read yet.
        """
        waiting = [rows[key] for key in sorted(allowed)]
        try:
            stalled = self._stalled(allowed, silent)
        except ClusterError as error:
            self._note(waiting, error.code, error.message)
            return False
        queues = batches(rows, allowed, stalled, self.run.options.partitions_per_request)
        if only_one:
            leader, queue = next(iter(sorted(queues.items())))
            queues = {leader: [queue[0][:1]]}
        in_flight = max(1, self.run.options.requests_in_flight)
        with ThreadPoolExecutor(max(1, len(queues) * in_flight)) as pool:
            for leader, queue in sorted(queues.items()):
                for _ in range(min(in_flight, len(queue))):
                    pool.submit(self._work, leader, queue, allowed, look)
        if self._failure:
            raise self._failure[0]
        if self._late and not self._asked:
            self._note(waiting, OUTDATED, look.outdated)
        return self._sent > 0

    def _work(
        self,
        leader_id: int,
        queue: list[Batch],
        allowed: Mapping[TopicPartition, PartitionFacts],
        look: Fresh,
    ) -> None:
        try:
            while not self._failure and self._goes_on(look):
                with self._lock:
                    if not queue:
                        return
                    batch = queue.pop(0)
                self._request(leader_id, batch, allowed, look)
        except BaseException as error:
            self._failure.append(error)

    def _goes_on(self, look: Fresh) -> bool:
        """Whether a request may leave now: nobody says stop, and what was seen is not outdated."""
        if not self.may_send():  # asked first, since it may read the cluster, which takes time
            return False
        if look.over:
            self._late = True
            return False
        return True

    def _request(
        self,
        leader_id: int,
        batch: Batch,
        allowed: Mapping[TopicPartition, PartitionFacts],
        look: Fresh,
    ) -> None:
        refuse_unproved(self.run, batch, allowed, self.proofs, self.topic_ids)
        about_to = [
            replace(
                row,
                state="sent",
                attempts=row.attempts + 1,
                sent_leader_id=leader_id,
                sent_leader_epoch=allowed[row.key].leader_epoch,
                answer_error_code=None,
                answer_low_watermark=None,
                error=None,
                message=None,
                wait_forecast=self.waits.get(row.key),
                waited_seconds=None,
            )
            for row in batch
        ]
        intended = self.journal.intend(
            self.run.run_id,
            about_to,
            self.watch.now,
            leader_id=leader_id,
            mode=self.run.mode,
            known_since=self.known_since,
        )
        # Others may have held the journal for half a minute. A worker that dies here leaves `sent`,
        # which the next one reads back.
        if not self._goes_on(look):
            self.journal.record(self.run.run_id, "not-sent", batch, self.watch.now())
            return
        leaves_at = self.watch.now()

        def may_leave() -> bool:
            """Asked anew once the connection stands: TLS and signing in may have taken long."""
            nonlocal leaves_at
            leaves_at = self.watch.now()
            return self._goes_on(look)

        try:
            result = self.live.delete_records(
                leader_id,
                {row.key: row.target_offset for row in intended},
                timeout_ms=self._timeout_ms(),
                leader_only=self.run.mode == "leader-only",
                may_leave=may_leave,
            )
        except BrokerError as error:
            self._no_answer(batch, intended, error)
            return
        with self._lock:
            self._sent, self._asked = self._sent + result.sent, True
        if not result.sent:
            intended = [replace(i, sent_at=b.sent_at) for i, b in zip(intended, batch, strict=True)]
        self._answer(intended, result, (self.watch.now() - leaves_at).total_seconds())

    def _timeout_ms(self) -> int:
        # Verified: the leader truncates and answers at once; it is read afterwards.
        return 0 if self.run.mode == "leader-only-verified" else self.run.options.timeout_ms

    def _no_answer(self, batch: Batch, intended: Batch, error: BrokerError) -> None:
        if error.code == NOT_SENT:
            self.journal.record(
                self.run.run_id, "not-sent", batch, self.watch.now(), code=error.code
            )
            return
        self._asked = True
        if error.code == ANSWER_LOST:
            rows = [unanswered(row, error.code) for row in intended]
            with self._lock:
                self._sent += 1
        else:
            rows = [replace(row, error=error.code, message=error.message) for row in batch]
        self.journal.record(
            self.run.run_id,
            "no-answer",
            rows,
            self.watch.now(),
            code=error.code,
            message=error.message,
        )
        self.saw(rows)

    def _answer(self, intended: Batch, result: DeleteRecordsResult, waited: float) -> None:
        by_key = {TopicPartition(r.topic, r.partition): r for r in result.partition_results}
        told = [replace(row, waited_seconds=round(waited, 3)) for row in intended]
        rows = [
            self._explained(answered(row, by_key[row.key]))
            if row.key in by_key
            else unanswered(row, "NO_RESULT")
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
            self.watch.now(),
            leader_id=result.leader_id,
            api_version=result.api_version,
            results=raw,
        )
        self.saw(rows)

    def _explained(self, row: PartitionRow) -> PartitionRow:
        """With the right that it lacks: Kafka names none."""
        if row.answer_error_code != TOPIC_AUTHORIZATION_FAILED:
            return row
        return replace(row, message=MissingRight(row.topic, self.live.principal()).said)

    def _note(self, waiting: Batch, code: str, text: str) -> None:
        why = [replace(row, error=code, message=text) for row in waiting]
        self.journal.note(self.run.run_id, why)

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
