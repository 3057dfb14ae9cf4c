"""The gate of a run with an archive: what is not proved to be kept, and there, is not sent.

Before each look at the cluster the run's manifest and commits are read anew from where they lie,
and each part must be there. A commit is held against what the look saw: the topic's id, the log
start, and the leader epochs of the records that were read. Those must go as far in the leader's log
as they did in the log that was read (OffsetForLeaderEpoch): an unclean election may have others at
the same offsets, in the log of a leader that nobody follows any more, or of the one that leads now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dashboard.archive.manifest import (
    RUN,
    Part,
    PartitionArchive,
    RunArchive,
    part_name,
    run_name,
)
from dashboard.archive.place import Place, committed
from dashboard.core.errors import ArchiveError, RefusedError
from dashboard.domain.model import EpochEnd, TopicPartition
from dashboard.purge.journal.rows import PartitionRow, RunRow
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import Plan

Proofs = Mapping[TopicPartition, PartitionArchive]  # as their commits lay in the place just now
_READS_AT_ONCE = 16
_PARTS_COUNT_FOR = timedelta(minutes=1)  # so long an answer counts that they are there


@dataclass(frozen=True, slots=True)
class InPlace:
    """What lies in the place: commits whose parts are there, and of others what is not there."""

    proofs: Proofs = field(default_factory=dict)
    gone: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass
class Lying:
    """Tells what of a run's archive lies in its place; `archive` is its manifest as it ended."""

    place: Place
    archive: RunArchive
    now: Callable[[], datetime]
    _there: dict[TopicPartition, tuple[PartitionArchive, datetime]] = field(default_factory=dict)

    def of(self, keys: Iterable[TopicPartition]) -> InPlace:
        """The commits as they lie there now. Whether a part is there is asked anew once the last
        answer is a minute old: a run may be paused for a night, and a clean-up go by.

        To be asked before a look: with many partitions it takes longer than a look counts. Raises
        ArchiveError where the place cannot be read, or the run's manifest is not there: without it
        nobody finds the rest again; RefusedError for what was changed.
        """
        archive, listed, now = self.archive, sorted(keys), self.now()
        name = run_name(archive.cluster_id, archive.run_id)
        if self.place.record(RUN, name) != archive:
            raise ArchiveError(
                f"{self.place.url_of(name)} is not there as it was written",
                "Mount what it lies on, or restore the file from a copy, then plan again.",
                code="ARCHIVE_UNREACHABLE",
            )
        with ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="proofs") as pool:
            found = pool.map(lambda key: committed(self.place, archive, key), listed)
            commits = {key: a for key, a in zip(listed, found, strict=True) if a is not None}
            asked = {k: a for k, a in commits.items() if not self._was_there(k, a, now)}
            parts = [(key, part) for key, commit in asked.items() for part in commit.parts]
            gone = {
                key: f"{self.place.url_of(self._name(key, part))} is not there as it was proved: "
                f"{'nothing' if size is None else f'{size} bytes'} of {part.size_bytes} bytes"
                for (key, part), size in zip(parts, pool.map(self._size_bytes, parts), strict=True)
                if size != part.size_bytes
            }
        proofs = {key: commit for key, commit in commits.items() if key not in gone}
        self._there.update({key: (proofs[key], now) for key in asked.keys() & proofs.keys()})
        return InPlace(proofs, gone)

    def _was_there(self, key: TopicPartition, commit: PartitionArchive, now: datetime) -> bool:
        before, at = self._there.get(key, (None, now))
        return before == commit and timedelta() <= now - at < _PARTS_COUNT_FOR

    def _size_bytes(self, one: tuple[TopicPartition, Part]) -> int | None:
        return self.place.size_bytes(self._name(*one))

    def _name(self, key: TopicPartition, part: Part) -> str:
        return part_name(self.archive.cluster_id, self.archive.run_id, key, part.file)


def refuse_without_archive(run: RunRow, plan: Plan, *, keeps: bool) -> None:
    """Raises RefusedError ARCHIVE_INCOMPLETE where the plan asks for an archive and the run does
    not, or nothing here `keeps` one.
    """
    if run.options.archive != plan.archive:
        why = f"its plan asks for {plan.archive or 'none'}, it for {run.options.archive or 'none'}"
    elif plan.archive is not None and not keeps:
        why = "nothing here keeps one"
    else:
        return
    raise RefusedError(
        f"run {run.run_id} has no archive to rest on: {why}",
        "Nothing is sent; plan again.",
        code="ARCHIVE_INCOMPLETE",
    )


def unproved(
    proof: PartitionArchive | None, topic_id: str | None, seen: PartitionFacts, target: int
) -> str | None:
    """Why what a request to this partition would delete is not proved to be kept; None: it is."""
    start = seen.log_start_offset
    if proof is None:
        return "no archive of it was completed"
    if start is None or not proof.covers(topic_id, start, target):
        return (
            f"its archive holds {proof.start} to {proof.target} of topic id {proof.topic_id}; "
            f"{start} to {target} of {topic_id} would be deleted"
        )
    return None


def refuse_unproved(
    run: RunRow,
    rows: Iterable[PartitionRow],
    allowed: Mapping[TopicPartition, PartitionFacts],
    proofs: Proofs,
    topic_ids: Mapping[str, str | None],
) -> None:
    """The last thing before a request of a run with an archive. Raises RefusedError
    ARCHIVE_INCOMPLETE: nothing of it leaves.
    """
    if run.options.archive is None:
        return
    for row in rows:
        topic_id = topic_ids.get(row.topic)
        why = unproved(proofs.get(row.key), topic_id, allowed[row.key], row.target_offset)
        if why:
            raise RefusedError(
                f"{row.topic}-{row.partition} is not sent: {why}",
                "Plan again; nothing is deleted that is not proved to be kept.",
                code="ARCHIVE_INCOMPLETE",
            )


def other_records(
    end: EpochEnd | None, epoch: int, epoch_to: int, leads: int | None
) -> tuple[bool, str] | None:
    """Why the leader's log may hold other records than were read in an epoch, and whether that is
    sure; None: it holds the same. `leads` is the leader epoch of the last look.
    """
    if end is None or end.error or (leads is not None and epoch > leads):
        why = (end.error if end else None) or "another leader answers"
        return False, f"where leader epoch {epoch} of what was read ends is not known: {why}"
    if end.leader_epoch == epoch and (end.end_offset or 0) >= epoch_to:
        return None
    return True, (
        f"it was read in leader epoch {epoch} up to {epoch_to}, and the log has that no further "
        f"than {end.end_offset} by now: other records may lie there"
    )
