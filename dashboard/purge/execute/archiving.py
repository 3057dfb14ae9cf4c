"""What a run keeps before it deletes anything, and the gate: what is not proved is not sent.

The gate reads each partition's commit anew from where it lies, and holds it against what the last
look saw: the topic's id, the log start, and the leader epochs of the records that were read. Those
must go as far in the leader's log as they did in the log that was read (OffsetForLeaderEpoch):
an unclean election may have others at the same offsets, in the log of a leader that nobody follows
any more, or of the one that leads now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from dashboard.archive.manifest import (
    ArchivedTopic,
    Encryption,
    PartitionArchive,
    Range,
    RunArchive,
    run_name,
)
from dashboard.archive.place import Place, begin, committed, end
from dashboard.archive.sealing import Sealer, read_key, wrong_key
from dashboard.cluster.ranges import RangeReader
from dashboard.core.errors import ArchiveError, ClusterError, RefusedError, SettingsError
from dashboard.domain.model import EpochEnd, TopicPartition
from dashboard.purge.evidence.look import refuse_without_offsets_topic
from dashboard.purge.execute.recheck import Rechecked, Refusal
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_rows import PartitionRow, RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import KeptRecords
from dashboard.settings.archive import ArchiveSettings

if TYPE_CHECKING:  # loads tables; a run without an archive does without
    from dashboard.archive.keep import Kept, Progress, Reader

INCOMPLETE = "archive-incomplete"
# What ends a run's archive, and the run: the place refuses, its key is another, a file was changed.
FAILURES = (ArchiveError, SettingsError, RefusedError)
_READS_AT_ONCE = 16
Proofs = Mapping[TopicPartition, PartitionArchive]  # as their commits lay in the place just now


@dataclass(frozen=True)
class Reading:
    """How records are read and written: client properties, the settings of now, and what makes a
    consumer for these, a cluster's id and a topic.
    """

    client: Callable[[], Mapping[str, str]]
    settings: Callable[[], ArchiveSettings]
    open_reader: Callable[[Mapping[str, str], str, str], Reader] = RangeReader


@dataclass
class Archiving:
    """The archive of one run. `keep` fills it, `gate` holds what may be sent against it.

    `done`: nothing is left to read. `offsets_done`: how far it had come when it was told last.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    plan: Plan
    reading: Reading
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    done: bool = False
    offsets_done: int = 0
    _archive: RunArchive | None = None
    _place: Place | None = field(default=None, repr=False)

    def keep(self, rows: Sequence[PartitionRow], hold: Callable[[], bool]) -> Kept:
        """Keep what lies below the targets of these rows; `done` once nothing is left to read.

        Raises one of FAILURES where the place fails: nothing may be sent then; ClusterError where
        Kafka cannot be asked. What was proved stays either way.
        """
        from dashboard.archive.keep import Keeper  # loads tables

        settings = self.reading.settings()
        sealer = None if settings.key_file is None else read_key(settings.key_file)
        try:
            archive, fresh = self._begun(rows, sealer)
            told = _Telling(self, archive)
            told.tell("archiving" if fresh else None)
            keeper = Keeper(
                self.place, archive, settings, self.live, lambda: self._reader(rows),
                self._compacted(), hold, told.heard, sealer, fresh, self.sleep,
            )  # fmt: skip
            wanted = {row.key for row in rows}
            ranges = [r for r in archive.partitions if r.key in wanted]
            found = keeper.keep(ranges)
        except FAILURES:
            self._failed()
            raise
        if found.held:
            return found
        known = {r.key for r in ranges}
        found.incomplete.update(
            dict.fromkeys(wanted - known, "its offsets could not be read when the archive began")
        )
        # Of a run that went on after a death: what was settled before stands in the manifest.
        earlier = {k: a for r in archive.partitions if (k := r.key) not in wanted
                   and (a := committed(self.place, archive, k)) is not None}  # fmt: skip
        everything = replace(found, committed={**earlier, **found.committed})
        ended = end(self.place, archive, everything.committed, found.passed)
        told.ended(everything, whole=ended.state == "whole" and not found.incomplete)
        self.done = True
        return found

    def gate(self, checked: Rechecked) -> tuple[Rechecked, Proofs]:
        """What may be sent, less what is not proved now: that is refused, or asked again; and the
        proofs of the rest.

        Raises one of FAILURES where the place cannot be read, ClusterError.
        """
        proofs = self._proofs(checked.allowed)
        refused, unreadable = dict(checked.refused), dict(checked.unreadable)
        for key, seen in checked.allowed.items():
            target = self._target(key)
            if why := unproved(proofs.get(key), self.plan.topic_ids.get(key.topic), seen, target):
                refused[key] = Refusal(INCOMPLETE, why)
        left = {k: seen for k, seen in checked.allowed.items() if k not in refused}
        for key, (sure, why) in self._others(left, proofs).items():
            into = refused if sure else unreadable
            into[key] = Refusal(INCOMPLETE if sure else "EPOCH_NOT_READ", why)
        allowed = {k: s for k, s in left.items() if k not in refused and k not in unreadable}
        judged = replace(checked, allowed=allowed, refused=refused, unreadable=unreadable)
        return judged, {key: proofs[key] for key in allowed}

    def _proofs(self, keys: Iterable[TopicPartition]) -> Proofs:
        """The commits as they lie in the place now."""
        listed = sorted(keys)
        archive = self._known()
        with ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="proofs") as pool:
            found = pool.map(lambda key: committed(self.place, archive, key), listed)
            return {key: a for key, a in zip(listed, found, strict=True) if a is not None}

    @property
    def place(self) -> Place:
        if self._place is None:
            self._place = Place(str(self.run.options.archive), self.sleep)
        return self._place

    def _known(self) -> RunArchive:
        if self._archive is None:
            raise ArchiveError(
                f"run {self.run.run_id} has kept nothing yet", "Nothing is sent before it has."
            )
        return self._archive

    def _target(self, key: TopicPartition) -> int:
        return next(p.target_offset or 0 for p in self.plan.partitions if p.key == key)

    def _begun(
        self, rows: Sequence[PartitionRow], sealer: Sealer | None
    ) -> tuple[RunArchive, bool]:
        run, encryption = self.run, None
        if sealer is not None:
            encryption = Encryption("aes-256-gcm", sealer.key_id)
        archive, fresh = begin(
            self.place, run.cluster_id, run.run_id, lambda: self._made(rows, encryption)
        )
        where = self.place.url_of(run_name(run.cluster_id, run.run_id))
        if archive.plan_sha256 != run.plan_sha256 or archive.run_id != run.run_id:
            raise ArchiveError(f"{where} is of another run", "Choose another place; plan again.")
        if archive.encryption != encryption:
            ids = [e.key_id if e else "none" for e in (archive.encryption, encryption)]
            raise wrong_key(where, *ids)
        self._archive = archive
        return archive, fresh

    def _made(self, rows: Sequence[PartitionRow], encryption: Encryption | None) -> RunArchive:
        refuse_without_offsets_topic(self.live)
        names = sorted({row.topic for row in rows})
        states, configs = self.live.topics(names), self.live.own_configs(names)
        offsets = self.live.offsets([row.key for row in rows], states)
        starts = {key: o.log_start_offset for key, o in offsets.items() if not o.error}
        topics = []
        for name in names:
            own, state = configs[name], states[name]
            if isinstance(own, str):
                raise ClusterError(
                    f"the settings of topic {name} cannot be read: {own}",
                    "Give DESCRIBE_CONFIGS on it: an archive keeps them for who restores it.",
                    code="RECORDS_UNREAD",
                )
            replicas = max((len(p.replicas) for p in state.partitions), default=0)
            topic_id = str(self.plan.topic_ids.get(name))
            topics.append(ArchivedTopic(name, topic_id, len(state.partitions), replicas, own))
        return RunArchive(
            self.run.cluster_id, self.run.cluster_name, self.run.run_id, self.run.plan_sha256,
            _to_millisecond(self.now()), "open", encryption, tuple(topics),
            tuple(
                Range(*row.key, start, row.target_offset)
                for row in rows
                if (start := starts.get(row.key)) is not None and start < row.target_offset
            ),
        )  # fmt: skip

    def _reader(self, rows: Sequence[PartitionRow]) -> Reader:
        reading = self.reading
        return reading.open_reader(reading.client(), self.run.cluster_id, rows[0].topic)

    def _compacted(self) -> Callable[[str], bool]:
        entries = self.live.configs(sorted(t.topic for t in self._known().topics))
        cleaned = {
            e.name for e in entries if e.key == "cleanup.policy" and "compact" in str(e.value)
        }
        return cleaned.__contains__

    def _others(
        self,
        allowed: Mapping[TopicPartition, PartitionFacts],
        proofs: Proofs,
    ) -> dict[TopicPartition, tuple[bool, str]]:
        """Where the leader's log may hold other records than were read, or that cannot be told;
        why, and whether it is sure.
        """
        asked = {
            key: [
                (epoch, epoch_to)
                for epoch, epoch_to in sorted(proofs[key].epochs.items())
                if epoch != seen.leader_epoch and epoch_to > (seen.log_start_offset or 0)
            ]
            for key, seen in allowed.items()
        }
        found: dict[TopicPartition, tuple[bool, str]] = {}
        while any(asked.values()):
            now = {key: epochs.pop() for key, epochs in asked.items() if epochs}
            ends = self.live.epoch_ends({key: epoch for key, (epoch, _) in now.items()})
            for key, (epoch, epoch_to) in now.items():
                if why := _why(ends.get(key), epoch, epoch_to, allowed[key].leader_epoch):
                    found.setdefault(key, why)
        return found

    def _failed(self) -> None:
        before = self.journal.head(self.run.run_id).archive
        if before is not None:
            with suppress(ValueError):
                failed = replace(before, state="failed", told_at=self.now())
                self.journal.note_archive(self.run.run_id, failed, kind="kept")


def refuse_without_archive(run: RunRow, plan: Plan, archiving: Archiving | None) -> None:
    """Raises RefusedError ARCHIVE_INCOMPLETE where the plan asks for an archive and the run does
    not, or nothing here keeps one.
    """
    if run.options.archive != plan.archive:
        why = f"its plan asks for {plan.archive or 'none'}, it for {run.options.archive or 'none'}"
    elif plan.archive is not None and archiving is None:
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


def _why(
    end: EpochEnd | None, epoch: int, epoch_to: int, leads: int | None
) -> tuple[bool, str] | None:
    if end is None or end.error or (leads is not None and epoch > leads):
        why = (end.error if end else None) or "another leader answers"
        return False, f"where leader epoch {epoch} of what was read ends is not known: {why}"
    if end.leader_epoch == epoch and (end.end_offset or 0) >= epoch_to:
        return None
    return True, (
        f"it was read in leader epoch {epoch} up to {epoch_to}, and the log has that no further "
        f"than {end.end_offset} by now: other records may lie there"
    )


class _Telling:
    """Tells the journal how far the archive is: page and command line read it there."""

    def __init__(self, of: Archiving, archive: RunArchive) -> None:
        self._of = of
        folder = f"{archive.cluster_id}/{archive.run_id}"
        began = _to_millisecond(of.now())
        self._last = KeptRecords(of.place.url, folder, "reading", began, began)

    def tell(self, kind: str | None = None, **details: object) -> None:
        self._of.journal.note_archive(self._of.run.run_id, self._last, kind=kind, **details)

    def heard(self, progress: Progress) -> None:
        """What the keeper says, about twice a second; of that what changed."""
        told = replace(
            self._last, offsets_before=progress.offsets_before, partitions=progress.partitions,
            committed=progress.committed, offsets=progress.offsets,
            offsets_done=progress.offsets_done, records=progress.records,
            raw_bytes=progress.raw_bytes, size_bytes=progress.size_bytes,
        )  # fmt: skip
        if told != self._last:
            self._last = replace(told, told_at=_to_millisecond(self._of.now()))
            self._of.offsets_done = told.offsets_done
            self.tell()

    def ended(self, kept: Kept, *, whole: bool) -> None:
        """What it became; an entry of the chain holds each partition's range and count."""
        archives = [kept.committed[key] for key in sorted(kept.committed)]
        self._last = replace(
            self._last, state="proved" if whole else "incomplete",
            told_at=_to_millisecond(self._of.now()), committed=len(archives),
            records=sum(a.records for a in archives), raw_bytes=sum(a.raw_bytes for a in archives),
            size_bytes=sum(a.size_bytes for a in archives),
        )  # fmt: skip
        self.tell(
            "kept",
            partitions=[
                [a.topic, a.partition, a.start, a.target, a.records, a.size_bytes] for a in archives
            ],
        )


def _to_millisecond(moment: datetime) -> datetime:
    # JSON carries milliseconds: what is hashed must survive the way there and back.
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
