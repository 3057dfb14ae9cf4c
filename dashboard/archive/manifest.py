"""What is written beside an archive's parts: the proof of each, of each partition, of the run.

Each is one sealed JSON file (canonical, with a sha256 of its own). None is found by a listing:
names follow from a run's partitions, and the proof of a part names where the next one begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from dashboard.core.canonical import Count, Moment, PartitionId, SealedKind, Text, digest, seal
from dashboard.core.errors import ArchiveError, RefusedError
from dashboard.domain.model import TopicPartition

Why = Literal["control", "compacted"]
State = Literal["open", "whole", "incomplete"]
_T = TypeVar("_T")
_FILE = re.compile(r"part-(\d{20})-[0-9a-f]{8}\.parquet")


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets from `first` up to but not `next` that no record has, and what they were.

    `control`: markers of transactions and other batches of the brokers' own. `compacted`: what
    the log cleaner took. What is merely not there is no gap: it ends the reading.
    """

    first: Count
    next: Count
    why: Why


@dataclass(frozen=True, slots=True)
class Reached:
    """What was read in a leader epoch reached up to but not `epoch_to`: a log in which that epoch
    goes as far holds the same records below.
    """

    leader_epoch: Count
    epoch_to: Count


@dataclass(frozen=True, slots=True)
class Part:
    """Proof of a part: it was read back from where it lies, counted, compared and hashed.

    Offsets from `first` up to but not `next`, each a record or in one of `gaps`. `file` is its name
    in the partition's folder, and no other part's: no put, however late, is over another's.
    `size_bytes` and `stored_sha256` are of the stored file, `raw_bytes` of keys, values and headers
    as they were.
    `epochs`: how far each leader epoch reached of which a batch was read for it, or explains a gap.
    `control` and `compacted` are the offsets of all gaps; `ends`: why the offset before `next` is
    no record, None where it is one.
    """

    first: Count
    next: Count
    file: Text
    records: Count
    size_bytes: Count
    raw_bytes: Count
    stored_sha256: Text
    epochs: tuple[Reached, ...]
    control: Count = 0
    compacted: Count = 0
    ends: Why | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def brief(self) -> Part:
        """Without its gaps, of which a transactional topic has millions: as commits have it."""
        return replace(self, gaps=())


@dataclass(frozen=True, slots=True)
class PartitionArchive:
    """The commit of a partition: its parts, in brief, are all of `start` up to but not `target`."""

    topic: Text
    topic_id: Text
    partition: PartitionId
    start: Count
    target: Count
    parts: tuple[Part, ...]

    @property
    def skipped(self) -> Why | None:
        """Why the offset before `target` is no record, None where it is one."""
        return self.parts[-1].ends if self.parts else None

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    @property
    def raw_bytes(self) -> int:
        return sum(part.raw_bytes for part in self.parts)

    @property
    def epochs(self) -> dict[int, int]:
        """How far each leader epoch reached of which something was read for it."""
        found: dict[int, int] = {}
        for part in self.parts:
            for one in part.epochs:
                found[one.leader_epoch] = max(found.get(one.leader_epoch, 0), one.epoch_to)
        return found

    def covers(self, topic_id: str | None, start: int, target: int) -> bool:
        """Whether all of that range of this very topic lies in it."""
        return topic_id == self.topic_id and self.start <= start and target <= self.target


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic as it was when the archive began; `config` are the values that differ from the
    brokers' defaults.
    """

    topic: Text
    topic_id: Text
    partitions: Count
    replication_factor: Count
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Encryption:
    """`key_id` tells keys apart: the first 16 hex digits of the key's sha256."""

    method: Literal["aes-256-gcm"]
    key_id: Text


@dataclass(frozen=True, slots=True)
class Range:
    """What is to be kept of a partition: from its log start on, up to but not the target. `kept`:
    it had its commit when the archive ended; one that is not there any more was lost.
    """

    topic: Text
    partition: PartitionId
    start: Count
    target: Count
    kept: bool = False

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class RunArchive:
    """The identity of a run's archive: written first, replaced last.

    `whole`: each of `partitions` has its commit. `incomplete`: some have none, and never will.
    """

    cluster_id: Text
    cluster_name: str
    run_id: Text
    plan_sha256: Text
    created_at: Moment
    state: State
    encryption: Encryption | None
    topics: tuple[ArchivedTopic, ...]
    partitions: tuple[Range, ...]


def run_name(cluster_id: str, run_id: str) -> str:
    """The manifest of a run, below an archive's URL."""
    return f"{cluster_id}/{run_id}/archive.json"


def partition_name(cluster_id: str, run_id: str, key: TopicPartition) -> str:
    return f"{cluster_id}/{run_id}/{key.topic}/{key.partition}/partition.json"


def part_file(first: int, token: str) -> str:
    """The name of the part that begins at an offset, written once: `token` is 8 hex digits."""
    return f"part-{first:020}-{token}.parquet"


def proof_file(first: int) -> str:
    """The name of its proof."""
    return f"part-{first:020}.json"


def part_name(cluster_id: str, run_id: str, key: TopicPartition, file: str) -> str:
    """Where a part lies."""
    return f"{cluster_id}/{run_id}/{key.topic}/{key.partition}/{file}"


def proof_name(cluster_id: str, run_id: str, key: TopicPartition, first: int) -> str:
    """Where the proof lies of the part that begins at an offset."""
    return part_name(cluster_id, run_id, key, proof_file(first))


def _invalid(where: str, what: str) -> ArchiveError:
    return ArchiveError(
        f"{where} {what}",
        "Read the archive with the release that wrote it, or restore the file from a copy.",
    )


def _changed(where: str, actual: str, claimed: object) -> RefusedError:
    return RefusedError(
        f"{where} was changed after it was written: its sha256 is {actual}, it says {claimed}",
        "Restore the file from a copy; nothing is deleted that rests on it.",
        code="ARCHIVE_CHANGED",
    )


def gaps_are(gaps: Sequence[Gap], part_next: int) -> tuple[int, int, Why | None]:
    """What a part tells of its gaps in brief: `control`, `compacted` and `ends`."""
    count: Counter[Why] = Counter()
    for gap in gaps:
        count[gap.why] += gap.next - gap.first
    ends = gaps[-1].why if gaps and gaps[-1].next == part_next else None
    return count["control"], count["compacted"], ends


def _check_part(part: Part) -> None:
    """Every offset of the range is a record or in a gap. Raises ValueError."""
    _check_brief(part)
    at = part.first
    for gap in part.gaps:
        if not at <= gap.first < gap.next <= part.next:
            raise ValueError(f"the gap {gap.first} to {gap.next} is not within the part")
        at = gap.next
    if (part.control, part.compacted, part.ends) != gaps_are(part.gaps, part.next):
        raise ValueError("its gaps are not as many offsets as it says")


def _check_brief(part: Part) -> None:
    named = _FILE.fullmatch(part.file)
    if named is None or int(named[1]) != part.first:
        raise ValueError(f"'{part.file}' is no file of a part from offset {part.first} on")
    if not part.epochs:
        raise ValueError(f"no leader epoch is told of offsets {part.first} to {part.next}")
    missing = part.control + part.compacted
    if part.first >= part.next or part.records + missing != part.next - part.first:
        raise ValueError(
            f"{part.records} records and {missing} offsets without one are not the range "
            f"{part.first} to {part.next}"
        )


def _check_partition(found: PartitionArchive) -> None:
    at = found.start
    for part in found.parts:
        _check_brief(part)
        if part.gaps:
            raise ValueError("gaps stand in the proofs of its parts")
        if part.first != at:
            raise ValueError(f"no part begins at offset {at}")
        at = part.next
    if at != found.target:
        raise ValueError(f"its parts end at offset {at}, not at {found.target}")


def _check_run(found: RunArchive) -> None:
    known = {topic.topic for topic in found.topics}
    if any(range_.topic not in known for range_ in found.partitions):
        raise ValueError("it names a partition of a topic that it does not know")


def commits_sha256(found: Iterable[PartitionArchive]) -> str:
    """Of all commits of an archive: who keeps it elsewhere can tell whether one was forged."""
    documents = sorted(found, key=lambda one: (one.topic, one.partition))
    return digest([digest(PARTITION.document(one)) for one in documents])


PART = SealedKind(Part, "proof of a part", _invalid, _changed, _check_part)
PARTITION = SealedKind(
    PartitionArchive, "archive of a partition", _invalid, _changed, _check_partition
)
RUN = SealedKind(RunArchive, "archive of a run", _invalid, _changed, _check_run)


def sealed(kind: SealedKind[_T], found: _T) -> bytes:
    """The file of a record; `kind.parse` reads it again. Raises ValueError for a false record."""
    kind.check(found)
    return seal(kind.document(found))[1].encode()
