"""Keeps what lies below the targets of a run: reads partitions, writes parts, proves each.

A part counts once it was read back from where it lies and is what was read from Kafka; a partition
once its parts are all of its range. Whoever dies in between is followed by one that goes on behind
the last proof, found by name. Nothing here deletes a record.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from dashboard.archive.format import Contents, Sealing, contents, stored_sha256
from dashboard.archive.manifest import (
    PART,
    PARTITION,
    Part,
    PartitionArchive,
    Range,
    Reached,
    RunArchive,
    gaps_are,
    part_file,
    part_name,
    partition_name,
    proof_name,
    sealed,
)
from dashboard.archive.place import Place, committed
from dashboard.archive.reading import Explainer, GrowingPart, Missing, Pace, saw
from dashboard.cluster.ranges import PATIENCE_SECONDS, TIMED_OUT, RangeError, Records
from dashboard.domain.model import BatchSpan, PartitionOffsets, TopicPartition
from dashboard.settings.archive import ArchiveSettings

_HEADERS_BYTES = 1 << 20  # of one look at batches' headers
_MOST_GAPS = 20_000  # of a part: its proof names each, in 1 MiB of JSON
_PROVED_AT_ONCE = 2  # parts that are put and proved while their readers read on
_TICK_SECONDS = 0.5
# What a library says of a record that it cannot carry.
_ODD = (SystemError, ValueError, pa.ArrowException)


class Reader(Protocol):
    """`dashboard.cluster.ranges.RangeReader`, or a stand-in for it."""

    def read(self, key: TopicPartition, start: int, target: int, /) -> Iterator[Records]: ...

    def close(self) -> None: ...


class Log(Protocol):
    """What is asked of the cluster beside the records."""

    def batch_spans(
        self, key: TopicPartition, offset: int, most_bytes: int, /
    ) -> tuple[BatchSpan, ...] | str: ...

    def offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets]: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is. Offsets are those of all ranges; of those that are done `offsets_before` were
    proved before.
    """

    partitions: int = 0
    committed: int = 0
    offsets: int = 0
    offsets_done: int = 0
    offsets_before: int = 0
    records: int = 0
    raw_bytes: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """Each range stands in one of these, or was not finished since `held`: somebody said stop.

    `incomplete` says why the archive of a partition never becomes whole; a log that begins at or
    past its target by now (`passed`) has nothing left to keep.
    """

    committed: dict[TopicPartition, PartitionArchive] = field(default_factory=dict)
    incomplete: dict[TopicPartition, str] = field(default_factory=dict)
    passed: set[TopicPartition] = field(default_factory=set)
    held: bool = False


class _Held(Exception):
    """Somebody asked to stop."""


@dataclass
class Keeper:
    """Keeps the ranges of one run. `open_reader` makes a consumer, one for each that reads at once;
    `compacted` says of a topic whether the log cleaner works on it. `fresh`: nothing was proved
    before, so nothing is looked for. `proved` are parts that this process knows to lie there, by
    name their sha256: one that an earlier worker proved is hashed again before it counts. `hold` is
    asked twice a second whether to stop; `told` hears how far it is.
    """

    place: Place
    run: RunArchive
    settings: ArchiveSettings
    log: Log
    open_reader: Callable[[], Reader]
    compacted: Callable[[str], bool]
    hold: Callable[[], bool] = lambda: False
    told: Callable[[Progress], None] = lambda _: None
    sealing: Sealing | None = None
    fresh: bool = False
    proved: dict[str, str] = field(default_factory=dict, repr=False)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _provers: ThreadPoolExecutor = field(init=False, repr=False)
    _idle: list[Reader] = field(default_factory=list)
    _progress: Progress = field(default_factory=Progress)
    _pace: Pace = field(default_factory=lambda: Pace(None))

    def keep(self, ranges: Sequence[Range]) -> Kept:
        """Read, write and prove them. Raises ArchiveError where the store fails, ClusterError where
        Kafka cannot be asked: all that was proved until then stays.
        """
        self._pace = Pace(self.settings.bytes_per_second)
        self._progress = Progress(len(ranges), 0, sum(r.target - r.start for r in ranges))
        found = Kept()
        with (
            ThreadPoolExecutor(_PROVED_AT_ONCE, thread_name_prefix="prove") as self._provers,
            ThreadPoolExecutor(self.settings.readers, thread_name_prefix="archive") as pool,
        ):
            futures = [pool.submit(self._kept, found, each) for each in ranges]
            try:
                self._watch(futures)
            finally:
                self._stop.set()
                self._close_idle()
        held = False
        for future in futures:
            if isinstance(error := future.exception(), _Held):
                held = True
            elif error is not None:
                raise error
        self.told(self._progress)
        return Kept(found.committed, found.incomplete, found.passed, held)

    def _watch(self, futures: Sequence[Future[None]]) -> None:
        left = set(futures)
        while left:
            done, left = wait(left, _TICK_SECONDS, FIRST_EXCEPTION)
            if any(future.exception() for future in done) or self.hold():
                self._stop.set()
            self.told(self._progress)
            if left and all(future.running() for future in left):
                self._close_idle()

    def _close_idle(self) -> None:
        """Readers that nothing is left for: what they say of themselves would heap up."""
        with self._lock:
            idle, self._idle = self._idle, []
        if idle:
            with ThreadPoolExecutor(len(idle), thread_name_prefix="close") as pool:
                list(pool.map(lambda reader: reader.close(), idle))

    def _kept(self, found: Kept, wanted: Range) -> None:
        key = wanted.key
        try:
            self._go_on()
            archive = committed(self.place, self.run, key) if not self.fresh else None
            if not (
                archive is not None
                and archive.start >= wanted.start  # retention may have gone on before it was read
                and archive.covers(self._topic_id(key), archive.start, wanted.target)
                and all(self._still_there(key, part) for part in archive.parts)
            ):
                archive = self._partition(wanted)
            else:
                self._add(archive.parts, anew=False)
            with self._lock:
                found.committed[key] = archive
                self._count(committed=1)
        except _Passed:
            found.passed.add(key)
        except (RangeError, Missing) as error:
            found.incomplete[key] = _in_words(error)
        except _ODD as error:  # the others can be kept all the same
            found.incomplete[key] = f"it cannot be kept: {type(error).__name__}: {error}"

    def _partition(self, wanted: Range) -> PartitionArchive:
        """Its commit. Where retention went on before anything was proved, of what is left."""
        while True:
            try:
                return self._from_start(wanted)
            except _Risen as risen:
                with self._lock:
                    self._count(offsets=wanted.start - risen.log_start)
                wanted = replace(wanted, start=risen.log_start)

    def _from_start(self, wanted: Range) -> PartitionArchive:
        parts = [] if self.fresh else self._chain(wanted)
        self._add(parts, anew=False)
        at = parts[-1].next if parts else wanted.start
        if at < wanted.target:
            reader = self._reader()
            try:
                parts += self._read(reader, wanted, at)
            except BaseException:
                reader.close()  # what it has fetched belongs to no other range
                raise
            with self._lock:
                self._idle.append(reader)
        archive = PartitionArchive(
            wanted.topic, self._topic_id(wanted.key), wanted.partition, wanted.start, wanted.target,
            tuple(parts),
        )  # fmt: skip
        name = partition_name(self.run.cluster_id, self.run.run_id, wanted.key)
        self.place.put_settled(name, sealed(PARTITION, archive))
        return archive

    def _chain(self, wanted: Range) -> list[Part]:
        """What was proved before and is there, as far as each part goes on where the last ended."""
        parts: list[Part] = []
        at = wanted.start
        while at < wanted.target:
            name = proof_name(self.run.cluster_id, self.run.run_id, wanted.key, at)
            part = self.place.record(PART, name)
            if (
                part is None
                or part.first != at
                or part.next > wanted.target
                or not self._still_there(wanted.key, part)
            ):
                break
            parts.append(part.brief)
            at = part.next
        return parts

    def _still_there(self, key: TopicPartition, part: Part) -> bool:
        """Whether a part is there as it was proved: what an earlier worker wrote may be gone since,
        or have gone to the disk below a volume that was not mounted.
        """
        self._go_on()
        name = part_name(self.run.cluster_id, self.run.run_id, key, part.file)
        if self.proved.get(name) != part.stored_sha256:
            body = self.place.get(name)
            if body is None or stored_sha256(body) != part.stored_sha256:
                return False
            self.proved[name] = part.stored_sha256
        return True

    def _read(self, reader: Reader, wanted: Range, start: int) -> list[Part]:
        explainer = Explainer(
            lambda at: self.log.batch_spans(wanted.key, at, _HEADERS_BYTES),
            self.compacted(wanted.topic),
        )
        proving: list[Future[Part]] = []  # in order: none begins before the last one has ended
        part = GrowingPart(start, self.settings.zstd_level)
        try:
            for records in reader.read(wanted.key, start, wanted.target):
                self._go_on()
                self._pace.took(part.add(records), self._stop.wait)
                if (
                    part.size_bytes >= self.settings.part_bytes
                    or part.holes >= _MOST_GAPS
                    or records.next >= wanted.target
                ):
                    if proving:
                        proving[-1].result()
                    prove = self._provers.submit(self._proved, wanted.key, part, explainer)
                    proving.append(prove)
                    part = GrowingPart(part.next, self.settings.zstd_level)
            return [proof.result() for proof in proving]
        except (RangeError, Missing) as error:
            nothing = start == wanted.start and all(proof.exception() for proof in proving)
            raise self._overtaken(wanted, part.next, error, nothing=nothing) from error
        finally:
            wait(proving)  # what is being proved is proved, whatever ended the reading

    def _overtaken(self, wanted: Range, at: int, error: Exception, *, nothing: bool) -> Exception:
        """Why the reading ends: where the log begins by now decides, and if `nothing` is proved."""
        seen = self.log.offsets([wanted.key]).get(wanted.key)
        start = seen.log_start_offset if seen is not None else None
        if start is not None and start >= wanted.target:
            return _Passed()
        if start is not None and start > wanted.start and nothing:
            return _Risen(start)
        if start is not None and start > at:
            return Missing(f"the log starts at {start} by now, and offset {at} was next to be read")
        return error

    def _proved(self, key: TopicPartition, part: GrowingPart, explainer: Explainer) -> Part:
        """The part once it lies in the place and was read back. Raises Missing, ArchiveError."""
        gaps = explainer.explain(part.gaps())
        # All of them: a batch that explains a gap was asked for later, perhaps of another leader.
        for epoch, epoch_to in explainer.epochs.items():
            saw(part.epochs, epoch, epoch_to)
        epochs = tuple(Reached(*one) for one in sorted(part.epochs.items()))
        if not epochs:
            raise Missing(f"no batch tells the leader epoch of offsets {part.first} to {part.next}")
        file = part_file(part.first, secrets.token_hex(4))
        name = part_name(self.run.cluster_id, self.run.run_id, key, file)
        made, body = part.finish()
        if self.sealing is not None:
            body = self.sealing.seal(body, name)
        sha256, size = stored_sha256(body), len(body)
        self.place.put(name, body)
        del body  # it is held once: as it lies in the place
        self._read_back(name, sha256, made)
        pa.default_memory_pool().release_unused()
        proof = Part(
            part.first, part.next, file, made.records, size, made.raw_bytes, sha256,
            epochs, *gaps_are(gaps, part.next), gaps,
        )  # fmt: skip
        self.place.put_settled(
            proof_name(self.run.cluster_id, self.run.run_id, key, part.first), sealed(PART, proof)
        )
        self.proved[name] = sha256
        self._add([proof], anew=True)
        return proof.brief

    def _read_back(self, name: str, sha256: str, made: Contents) -> None:
        found = self.place.settled(name, lambda body: stored_sha256(body) == sha256)
        body = self.sealing.unseal(found, name) if self.sealing is not None else found
        if contents(body) != made:
            raise self.place.not_as_written(name)

    def _reader(self) -> Reader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self.open_reader()

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise _Held

    def _topic_id(self, key: TopicPartition) -> str:
        return self._topic_ids[key.topic]

    @cached_property
    def _topic_ids(self) -> dict[str, str]:
        return {t.topic: t.topic_id for t in self.run.topics}

    def _add(self, parts: Sequence[Part], *, anew: bool) -> None:
        with self._lock:
            offsets = sum(p.next - p.first for p in parts)
            self._count(
                offsets_done=offsets,
                offsets_before=0 if anew else offsets,
                records=sum(p.records for p in parts),
                raw_bytes=sum(p.raw_bytes for p in parts),
                size_bytes=sum(p.size_bytes for p in parts),
            )

    def _count(self, **more: int) -> None:
        """Inside the lock."""
        sums = {name: getattr(self._progress, name) + count for name, count in more.items()}
        self._progress = replace(self._progress, **sums)


class _Risen(Exception):
    """The log begins above what was to be read, and nothing is proved yet."""

    def __init__(self, log_start: int) -> None:
        super().__init__(log_start)
        self.log_start = log_start


class _Passed(Exception):
    """The log begins at or past the target by now."""


def _in_words(error: RangeError | Missing) -> str:
    if isinstance(error, Missing):
        return str(error)
    if error.name == TIMED_OUT:
        return f"Kafka gave no record for {PATIENCE_SECONDS:.0f} s"
    if error.name == "TOPIC_AUTHORIZATION_FAILED":
        return f"Kafka does not let it be read ({error.name}): give READ on the topic"
    return f"it cannot be read: {error.name}"
