"""Puts the records of an archive into a topic again: in order, each once, compared afterwards.

What a partition of the topic holds is at any moment the first so many records of the archive. So a
restore that died goes on behind them, wherever it is called again.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from dashboard.archive.comparing import (
    Compared,
    OffsetsMap,
    Pairs,
    PartitionRestored,
    compare,
    doubled,
    judged,
)
from dashboard.archive.manifest import ArchivedTopic, PartitionArchive
from dashboard.archive.opened import Archive, records_before
from dashboard.archive.restored_topic import (
    Begun,
    NewTopic,
    Notes,
    check_existing,
    new_topic,
    settled_ends,
    since,
)
from dashboard.cluster.live import LiveCluster
from dashboard.cluster.produce import RecordProducer, rows_of
from dashboard.core.errors import ClusterError, RefusedError, UsageError
from dashboard.domain.acts import ends_restore
from dashboard.domain.model import TopicPartition, TopicState
from dashboard.domain.records import Chunk

_LANES = 4  # partitions that are written side by side
NOT_THE_SAME = (
    "offsets; the map tells the new one of each record",
    "markers of transactions, and that a transaction was aborted: its records are plain ones now",
    "producer ids and sequence numbers, leader epochs, batches and how they were compressed",
    "times of type append are of type create; a time of 0, the beginning of 1970, is 1 ms later",
)


@dataclass(frozen=True, slots=True)
class Goal:
    """Where to, and what of it: `partitions` None is all of the topic's."""

    to_topic: str
    existing: bool = False
    partitions: frozenset[int] | None = None


class Client(Protocol):
    """The cluster's records: written by a producer, and read back."""

    def producer(self, topic: str, segment_bytes: int | None) -> RecordProducer: ...
    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Chunk]: ...


@dataclass(frozen=True, slots=True)
class Restored:
    """What one call did; `new` is None of a topic that was there before the restore."""

    topic: ArchivedTopic
    to_topic: str
    new: NewTopic | None
    partitions: tuple[PartitionRestored, ...]
    offsets_file: Path
    write_seconds: float
    compare_seconds: float

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def whole(self) -> bool:
        return all(one.error is None for one in self.partitions)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step (`searched`, `written`, `compared`) is, in records and in bytes before
    compression; no bytes are known of what is searched.
    """

    step: str
    records: int
    of_records: int
    raw_bytes: int
    of_raw_bytes: int
    seconds: float

    @property
    def seconds_to_go(self) -> float | None:
        left = self.of_raw_bytes - self.raw_bytes
        return self.seconds * left / self.raw_bytes if self.raw_bytes else None


@dataclass
class Restore:
    """A restore of one topic of an archive into the cluster behind `live` and `client`."""

    archive: Archive
    topic: ArchivedTopic
    live: LiveCluster
    client: Client
    notes: Notes
    patience_seconds: float
    report: Callable[[Progress], None] = lambda _: None
    _parts: Mapping[int, PartitionArchive] = field(init=False, default_factory=dict)

    def run(self, goal: Goal, now: datetime, offsets_file: Path) -> Restored:
        """Write what is missing, then compare all of it.

        Raises ArchiveError, RefusedError (TOPIC_EXISTS, TOPIC_UNFIT, TARGET_DIFFERS, RESTORE_BUSY,
        RESTORED_ALREADY, RESTORE_UNFINISHED), UsageError, StoreError and ClusterError: the same
        call goes on.
        """
        self._parts = self.archive.whole(self.topic.topic, goal.partitions)
        with self.notes.alone(goal.to_topic):
            begun, there = self._target(goal, now)
            began = time.monotonic()
            self._write(goal.to_topic, there)
            written = time.monotonic()
            found = self._compare(goal, begun, there, offsets_file)
            new = None if begun.existing else self._new(goal)
            done = Restored(
                self.topic, goal.to_topic, new, found, offsets_file, written - began,
                time.monotonic() - written,
            )  # fmt: skip
            if ends_restore(done.whole, goal.partitions, None):
                self.notes.keep(replace(begun, done=True))
            return done

    def _target(self, goal: Goal, now: datetime) -> tuple[Begun, dict[int, int]]:
        """The topic, made where it is missing, and how many records each partition has already."""
        wanted = Begun(
            self.archive.run.cluster_id, self.archive.run.run_id, self.topic.topic, goal.to_topic,
            now,
        )  # fmt: skip
        state = self.live.topics([goal.to_topic])[goal.to_topic]
        if state.error == "UNKNOWN_TOPIC_OR_PARTITION":
            return self._made(goal, wanted), dict.fromkeys(self._parts, 0)
        if state.error is not None:
            raise ClusterError(
                f"topic {goal.to_topic} cannot be described: {state.error}",
                "Grant DESCRIBE on it, or name another topic.",
            )
        begun = self.notes.of(goal.to_topic)
        if begun is not None and begun.topic_id is None and not begun.existing:
            begun = self._made_unheard(goal, begun, state)
        if begun is not None and begun.topic_id == state.topic_id:
            if begun.same_source(wanted):
                there = self._there(goal.to_topic, begun)
                if begun.existing and any(there[n] < one.records for n, one in self._parts.items()):
                    self._check_fit(state)
                return begun, there
            if not begun.done:
                raise RefusedError(
                    f"topic {goal.to_topic} is half restored from run {begun.run_id}, topic "
                    f"{begun.topic}",
                    "Finish that first, or name another topic.",
                    code="RESTORE_UNFINISHED",
                )
        wanted = replace(wanted, topic_id=state.topic_id)
        if goal.existing:
            self._check_fit(state)
            ends = self._ends(goal.to_topic, range(len(state.partitions)))
            self._refuse_twice(goal.to_topic, ends)
            bases = {str(number): end for number, (_, end) in ends.items()}
            return self.notes.keep(replace(wanted, bases=bases)), dict.fromkeys(self._parts, 0)
        there = self._begun_elsewhere(goal, wanted, state)
        return self.notes.keep(wanted), there

    def _check_fit(self, state: TopicState) -> None:
        check_existing(state, self.topic, self.live.configs_answer([state.topic]))

    def _made_unheard(self, goal: Goal, begun: Begun, state: TopicState) -> Begun | None:
        """The note of a topic that was to be made: its own if it is as asked, else somebody's."""
        new, told = self._new(goal), self.live.own_configs([goal.to_topic])
        if (len(state.partitions), told[goal.to_topic]) != (new.partitions, new.config):
            return None
        return self.notes.keep(replace(begun, topic_id=state.topic_id))

    def _new(self, goal: Goal) -> NewTopic:
        return new_topic(goal.to_topic, self.topic, max(1, len(self.live.alive_brokers())))

    def _made(self, goal: Goal, wanted: Begun) -> Begun:
        new = self._new(goal)
        self.notes.keep(wanted)
        try:
            state = self.live.create_topic(
                new.topic, partitions=new.partitions, replication_factor=new.replication_factor,
                configs=new.config,
            )  # fmt: skip
        except RefusedError:  # for certain it was not: the next one is somebody's
            self.notes.drop(goal.to_topic)
            raise
        except UsageError as error:  # a setting of the old cluster that this one does not take
            self.notes.drop(goal.to_topic)
            raise UsageError(
                error.message,
                f"{error.next_step} Or make it so, then call this with --existing: {new.by_hand}",
                code=error.code,
            ) from error
        return self.notes.keep(replace(wanted, topic_id=state.topic_id))

    def _begun_elsewhere(self, goal: Goal, wanted: Begun, state: TopicState) -> dict[int, int]:
        """A topic that nobody made from here is gone on with where it holds the archive's own."""
        why: object = None
        if len(state.partitions) == self.topic.partitions:
            try:
                there = self._there(goal.to_topic, wanted)
                if any(there.values()):
                    return there
            except RefusedError as error:
                why = error.message
        raise RefusedError(
            f"topic {goal.to_topic} is there already" + (f": {why}" if why else ""),
            "Name another topic, or write behind what this one holds with --existing.",
            code="TOPIC_EXISTS",
        )

    def _ends(self, topic: str, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        return settled_ends(self.live, topic, numbers, self.patience_seconds)

    def _refuse_twice(self, topic: str, ends: Mapping[int, tuple[int, int]]) -> None:
        """Refuse to write behind a topic that holds the archive's first record of a partition: an
        earlier restore of which nothing is noted here wrote it, or nothing was purged there.
        """
        rows = {
            number: self._rows(first.slice(0, 1))[1][0]
            for number in self._parts
            if (first := next(self._batches(number, 0), None)) is not None
        }
        spans = {
            number: since(self.live, TopicPartition(topic, number), row[2], ends[number])
            for number, row in rows.items()
        }
        of, seen, began = sum(end - start for start, end in spans.values()), 0, time.monotonic()
        for number, (start, end) in spans.items():
            for offsets, there in self.client.read(topic, number, start, end):
                if rows[number] in there:
                    found = offsets[there.index(rows[number])]
                    raise RefusedError(
                        f"{topic}-{number} holds the archive's first record at offset {found} "
                        "already: a restore wrote it, or it was not purged",
                        "Go on from the machine and state folder that began it (without --existing "
                        "where the topic was made for it), or restore into a new topic.",
                        code="RESTORED_ALREADY",
                    )
                seen += len(offsets)
                self.report(Progress("searched", seen, of, 0, 0, time.monotonic() - began))

    def _there(self, topic: str, begun: Begun) -> dict[int, int]:
        """How many of each partition's records the topic holds already. Raises RefusedError."""
        found = {}
        for number, (log_start, end) in self._ends(topic, self._parts).items():
            base, one = begun.bases.get(str(number), 0), self._parts[number]
            count = end - base
            if log_start > base or (count > one.records and not begun.existing):
                raise self._differs(topic, number, f"its log is {log_start} to {end}")
            if not count:
                found[number] = 0
            elif begun.existing:
                found[number] = self._compared(topic, begun, number, (base, end)).records
            else:
                last = [self._rows(batch.slice(0, 1)) for batch in
                        islice(self._batches(number, count - 1), 1)]  # fmt: skip
                read = self.client.read(topic, number, end - 1, end)
                if compare(last, read, strangers=False).records != 1:
                    raise self._differs(topic, number, f"record {end - 1} is another one")
                found[number] = count
        return found

    def _differs(self, topic: str, number: int, why: str) -> RefusedError:
        return RefusedError(
            f"{topic}-{number} does not hold the first records of the archive alone: {why}",
            "Somebody else writes or deletes there, or it was restored from another archive. Name "
            "a new topic.",
            code="TARGET_DIFFERS",
        )

    def _batches(self, number: int, skip: int) -> Iterator[pa.RecordBatch]:
        """The archive's records of a partition from the one at index `skip` on."""
        one = self._parts[number]
        before = records_before(one)
        at = max(0, bisect_right(before, skip) - 1)
        skip -= before[at]
        for part in one.parts[at:]:
            for batch in self.archive.batches(TopicPartition(one.topic, number), part):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                yield batch.slice(skip)
                skip = 0

    def _write(self, topic: str, there: Mapping[int, int]) -> None:
        """Send what is missing, a few partitions side by side, a batch of each in turn."""
        todo = {n: one for n, one in self._parts.items() if there[n] < one.records}
        if not todo:
            return
        counted = self._counter("written", there)
        segment = self.topic.config.get("segment.bytes")
        with self.client.producer(topic, int(segment) if segment else None) as producer:
            waiting = iter([(n, self._batches(n, there[n])) for n in todo])
            lanes = deque(islice(waiting, _LANES))
            while lanes:
                number, batches = lanes.popleft()
                batch = next(batches, None)
                if batch is None:
                    lanes.extend(islice(waiting, 1))
                    continue
                producer.send(number, batch)
                counted(number, batch.num_rows)
                lanes.append((number, batches))
            producer.finish()

    def _compare(
        self, goal: Goal, begun: Begun, there: Mapping[int, int], offsets_file: Path
    ) -> tuple[PartitionRestored, ...]:
        ends = self._ends(goal.to_topic, self._parts)
        counted = self._counter("compared", dict.fromkeys(self._parts, 0))
        found = []
        offsets = OffsetsMap(offsets_file, self.topic.topic)
        for number, one in self._parts.items():
            base = begun.bases.get(str(number), 0)
            add = offsets.of(number)

            def pairs(
                old: list[int], new: list[int], number: int = number, add: Pairs = add
            ) -> None:
                add(old, new)
                counted(number, len(old))

            same = self._compared(goal.to_topic, begun, number, (base, ends[number][1]), pairs)
            behind = 0 if begun.existing else ends[number][1] - base - one.records
            twice = doubled(self._archived(number), same.suspects) if same.suspects else 0
            found.append(judged(one, there[number], same, behind, twice))
        offsets.finish()
        return tuple(found)

    def _compared(
        self,
        topic: str,
        begun: Begun,
        number: int,
        span: tuple[int, int],
        pairs: Pairs | None = None,
    ) -> Compared:
        there = self.client.read(topic, number, *span)
        return compare(self._archived(number), there, strangers=begun.existing, pairs=pairs)

    def _archived(self, number: int) -> Iterator[Chunk]:
        return map(self._rows, self._batches(number, 0))

    @staticmethod
    def _rows(batch: pa.RecordBatch) -> Chunk:
        return batch.column("offset").to_numpy().tolist(), list(rows_of(batch))

    def _counter(self, step: str, there: Mapping[int, int]) -> Callable[[int, int], None]:
        """Tells of each batch how far the step is: bytes by the mean record of its partition."""
        records, raw, began = 0, 0.0, time.monotonic()
        todo = {n: one.records - there[n] for n, one in self._parts.items()}
        each = {n: one.raw_bytes / max(1, one.records) for n, one in self._parts.items()}
        of_raw = int(sum(todo[n] * each[n] for n in todo))

        def counted(number: int, count: int) -> None:
            nonlocal records, raw
            records, raw = records + count, raw + count * each[number]
            seconds = time.monotonic() - began
            self.report(Progress(step, records, sum(todo.values()), int(raw), of_raw, seconds))

        return counted
