"""Reads archives back: which runs lie at a URL, what is in one, its records, whether all is whole.

Runs are found by a listing; what counts in one is found by name, from its manifest on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from dashboard.archive import format as parts
from dashboard.archive.manifest import (
    PART,
    RUN,
    ArchivedTopic,
    Part,
    PartitionArchive,
    Range,
    RunArchive,
    part_name,
    partition_name,
    proof_name,
    run_name,
)
from dashboard.archive.place import WORD, Place, committed
from dashboard.archive.sealing import Sealer, opener
from dashboard.core.errors import ArchiveError, LowwaterError
from dashboard.domain.model import TopicPartition

_AT_ONCE = 16  # small files of one run that are asked for side by side
MANIFEST = "archive.json"


@dataclass(frozen=True)
class Archive:
    """The archive of one run at a place. `sealer` opens its parts; None: they lie open, or nobody
    asked for records.
    """

    place: Place
    run: RunArchive
    sealer: Sealer | None = None

    @property
    def url(self) -> str:
        """The folder of the run."""
        return self.place.url_of(f"{self.run.cluster_id}/{self.run.run_id}")

    @property
    def keys(self) -> list[TopicPartition]:
        return sorted(one.key for one in self.run.partitions)

    def topic(self, name: str | None) -> ArchivedTopic:
        """The one of this name, or the only one. Raises ArchiveError ARCHIVE_TOPIC_UNKNOWN."""
        known = {topic.topic: topic for topic in self.run.topics}
        if name is None and len(known) == 1:
            return next(iter(known.values()))
        if name not in known:
            said = f"has no topic '{name}'" if name is not None else "holds several topics"
            raise ArchiveError(
                f"the archive {self.url} {said}",
                f"Choose one with --topic: {', '.join(sorted(known))}.",
                code="ARCHIVE_TOPIC_UNKNOWN",
            )
        return known[name]

    def partition(self, key: TopicPartition) -> PartitionArchive | None:
        """What a partition's commit tells; None: it has none.

        Raises ArchiveError where it cannot be read or is another's, RefusedError ARCHIVE_CHANGED.
        """
        found = committed(self.place, self.run, key)
        if found is None:
            return None
        wanted, of = self._ranges[key], self.topic(key.topic).topic_id
        if (found.topic_id, found.target) != (of, wanted.target) or found.start < wanted.start:
            raise ArchiveError(
                f"{self.place.url_of(partition_name(*self._of, key))} is of offsets {found.start} "
                f"to {found.target} of topic id {found.topic_id}, its run archived {wanted.start} "
                f"to {wanted.target} of {of}",
                "Restore the file from a copy; without it the archive is not whole.",
            )
        return found

    def proof(self, key: TopicPartition, first: int) -> Part | None:
        """The proof of the part that begins at an offset; None: there is none."""
        return self.place.record(PART, proof_name(*self._of, key, first))

    def partitions(self) -> dict[TopicPartition, PartitionArchive | None]:
        """The same of all, read side by side."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(self.keys, pool.map(self.partition, self.keys), strict=True))

    def readable(
        self,
    ) -> tuple[dict[TopicPartition, PartitionArchive | None], LowwaterError | None]:
        """Those whose commit can be read, or that have none; and why the first other one cannot.

        Raises ArchiveError ARCHIVE_UNREACHABLE.
        """

        def read(key: TopicPartition) -> PartitionArchive | LowwaterError | None:
            try:
                return self.partition(key)
            except LowwaterError as error:
                if error.code == "ARCHIVE_UNREACHABLE":
                    raise
                return error

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            told = dict(zip(self.keys, pool.map(read, self.keys), strict=True))
        found = {key: one for key, one in told.items() if not isinstance(one, LowwaterError)}
        errors = (one for one in told.values() if isinstance(one, LowwaterError))
        return found, next(errors, None)

    def lost(self, found: Mapping[TopicPartition, PartitionArchive | None]) -> list[TopicPartition]:
        """Of these those that had their commit, and may have been purged by it: it is gone."""
        had = {one.key for one in self.run.partitions if one.kept}
        return sorted(key for key, one in found.items() if one is None and key in had)

    def whole(self, topic: str, wanted: frozenset[int] | None) -> dict[int, PartitionArchive]:
        """What the commits of a topic's partitions tell, of all or of those `wanted`.

        Raises ArchiveError ARCHIVE_PARTITION_UNKNOWN, ARCHIVE_NOT_WHOLE where one never had any,
        and ARCHIVE_PART_MISSING where it is gone.
        """
        known = {key.partition: key for key in self.keys if key.topic == topic}
        unknown = sorted((wanted or frozenset()) - known.keys())
        if unknown:
            raise ArchiveError(
                f"the archive holds no partition {unknown[0]} of {topic}",
                f"It holds: {', '.join(map(str, known))}.",
                code="ARCHIVE_PARTITION_UNKNOWN",
            )
        found = {
            n: self.partition(key) for n, key in known.items() if wanted is None or n in wanted
        }
        for key in self.lost({known[number]: one for number, one in found.items()}):
            raise self.commit_lost(key)
        missing = [str(number) for number, one in found.items() if one is None]
        if missing:
            raise ArchiveError(
                f"the archive of {topic} is not whole: nothing commits partition "
                f"{', '.join(missing[:10])}",
                "That run purged nothing there. Name the others with --partitions.",
                code="ARCHIVE_NOT_WHOLE",
            )
        return {number: one for number, one in found.items() if one is not None}

    def commit_lost(self, key: TopicPartition) -> ArchiveError:
        return ArchiveError(
            f"{self.place.url_of(partition_name(*self._of, key))} is not there any more",
            "Restore the file from a copy; without it the archive is not whole.",
            code="ARCHIVE_PART_MISSING",
        )

    def batches(self, key: TopicPartition, part: Part) -> Iterator[pa.RecordBatch]:
        """The records of a part, once its stored bytes are what their proof says.

        Raises ArchiveError ARCHIVE_PART_MISSING, ARCHIVE_PART_UNREADABLE, ARCHIVE_KEY_MISSING.
        """
        return parts.read_batches(self._body(key, part))

    def wrong(self, key: TopicPartition, found: PartitionArchive) -> list[str]:
        """What is not as proved in a partition, each part read and counted again."""
        problems = []
        for part in found.parts:
            try:
                self._verify(key, part)
            except LowwaterError as error:
                problems.append(error.message)
        return problems

    def _verify(self, key: TopicPartition, part: Part) -> None:
        found = parts.contents(self._body(key, part))
        if (found.records, found.raw_bytes) != (part.records, part.raw_bytes):
            raise self._damaged(key, part, f"it holds {found.records} records of {part.records}")
        offsets = (found.first_offset, found.last_offset)
        if any(at is not None and not part.first <= at < part.next for at in offsets):
            raise self._damaged(key, part, "it holds offsets of another range")
        name = proof_name(*self._of, key, part.first)
        proof = self.proof(key, part.first)
        if proof is None or proof.brief != part:
            raise ArchiveError(
                f"{self.place.url_of(name)} is not the proof that partition.json holds",
                "Restore the file from a copy.",
                code="ARCHIVE_PART_UNREADABLE",
            )

    def _body(self, key: TopicPartition, part: Part) -> bytes:
        name = part_name(*self._of, key, part.file)
        body = self.place.get(name)
        if body is None:
            raise ArchiveError(
                f"{self.place.url_of(name)} is not there",
                "Restore the file from a copy; without it the archive is not whole.",
                code="ARCHIVE_PART_MISSING",
            )
        if len(body) != part.size_bytes or parts.stored_sha256(body) != part.stored_sha256:
            raise self._damaged(key, part, "its sha256 is not the one of its proof")
        if self.run.encryption is None:
            return body
        if self.sealer is None:
            opener(self.run.encryption, None, self.url)
        assert self.sealer is not None
        return self.sealer.unseal(body, name)

    def _damaged(self, key: TopicPartition, part: Part, why: str) -> ArchiveError:
        return ArchiveError(
            f"{self.place.url_of(part_name(*self._of, key, part.file))} is damaged: {why}",
            "Restore the file from a copy; without it the archive is not whole.",
            code="ARCHIVE_PART_UNREADABLE",
        )

    @cached_property
    def _ranges(self) -> dict[TopicPartition, Range]:
        return {one.key: one for one in self.run.partitions}

    @property
    def _of(self) -> tuple[str, str]:
        return self.run.cluster_id, self.run.run_id


def open_archive(where: str, key_file: Path | None = None, *, sealed: bool = True) -> Archive:
    """The archive of a run by the URL or path of its folder, or of the manifest in it.

    `sealed` False leaves the key alone, for who reads no records. Raises ArchiveError
    ARCHIVE_NOT_FOUND, as `opener` and `Place` do, and RefusedError ARCHIVE_CHANGED.
    """
    url, cluster_id, run_id = _parted(where)
    archive = _read(Place(url), cluster_id, run_id)
    if archive is None:
        raise _not_found(where)
    key = opener(archive.run.encryption, key_file, archive.url) if sealed else None
    return Archive(archive.place, archive.run, key)


def list_archives(url: str) -> Iterator[Archive | LowwaterError]:
    """Every run's archive below a URL, by cluster and run; of one that cannot be read, or whose
    manifest was changed, its error.

    Raises ArchiveError ARCHIVE_UNREACHABLE and SettingsError ARCHIVE_URL_INVALID.
    """
    place = Place(url)
    for cluster_id in filter(WORD.fullmatch, place.names()):  # beside them may lie anything
        for run_id in filter(WORD.fullmatch, place.names(cluster_id)):
            try:
                found = _read(place, cluster_id, run_id)
            except LowwaterError as error:
                yield error
                continue
            if found is not None:
                yield found


def _read(place: Place, cluster_id: str, run_id: str) -> Archive | None:
    name = run_name(cluster_id, run_id)
    run = place.record(RUN, name)
    if run is None:
        return None
    if (run.cluster_id, run.run_id) != (cluster_id, run_id):
        raise ArchiveError(
            f"{place.url_of(name)} is of run {run.run_id} of cluster {run.cluster_id}",
            "Move the folder back to where that run's archive was.",
        )
    return Archive(place, run)


def _parted(where: str) -> tuple[str, str, str]:
    """URL of all archives, cluster and run, out of the path of a run's folder or manifest."""
    path = where if "://" in where else str(Path(where).expanduser().absolute())
    path = path.rstrip("/").removesuffix(f"/{MANIFEST}")
    words = path.rsplit("/", 2)
    if len(words) != 3 or not all(map(WORD.fullmatch, words[1:])) or words[0][-2:] in ("", ":/"):
        raise _not_found(where)
    return words[0], words[1], words[2]


def _not_found(where: str) -> ArchiveError:
    return ArchiveError(
        f"no archive of a run lies at {where}",
        "Name the folder of a run, or its archive.json; lowwater archives list URL tells them.",
        code="ARCHIVE_NOT_FOUND",
    )


def records_before(found: PartitionArchive) -> Sequence[int]:
    """How many records lie before each part, and behind the last one how many there are."""
    counts = [0]
    for part in found.parts:
        counts.append(counts[-1] + part.records)
    return counts
