"""What a run keeps before it deletes anything; what may then be sent is held against what lies in
the place, as `archive_gate` asks for it before every look at the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from dashboard.archive.manifest import (
    RUN,
    ArchivedTopic,
    Encryption,
    Range,
    RunArchive,
    commits_sha256,
    run_name,
)
from dashboard.archive.place import Place, begin, committed, end
from dashboard.archive.sealing import Sealer, read_key, wrong_key
from dashboard.cluster.ranges import RangeReader
from dashboard.core.errors import (
    ArchiveError,
    ClusterError,
    LowwaterError,
    RefusedError,
    SettingsError,
)
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Took
from dashboard.purge.evidence.look import refuse_without_offsets_topic
from dashboard.purge.execute.archive_gate import InPlace, Lying, Proofs, other_records, unproved
from dashboard.purge.execute.recheck import Rechecked, Refusal
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import PartitionRow, RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import KeptRecords
from dashboard.settings.archive import ArchiveSettings
from dashboard.store import clocks

if TYPE_CHECKING:  # loads tables; a run without an archive does without
    from dashboard.archive.keep import Kept, Progress, Reader

INCOMPLETE = "archive-incomplete"
# What ends a run's archive, and the run: the place refuses, its key is another, a file was changed.
FAILURES = (ArchiveError, SettingsError, RefusedError)


@dataclass(frozen=True)
class Reading:
    """How records are read and written: client properties, the settings of now, what makes a
    consumer for these, a cluster's id and a topic, and what keeps for a run how much was fetched
    (`store.own_reads`).
    """

    client: Callable[[], Mapping[str, str]]
    settings: Callable[[], ArchiveSettings]
    note: Callable[[str, Callable[[], datetime] | None], AbstractContextManager[Took]]
    open_reader: Callable[[Mapping[str, str], str, str, Took], Reader] = RangeReader


@dataclass
class Archiving:
    """The archive of one run. `keep` fills it, `in_place` tells what is there, and `gate` holds
    what may be sent against that.

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
    _place: Place | None = field(default=None, repr=False)
    _hashed: dict[str, str] = field(default_factory=dict, repr=False)  # parts that were read back
    _lying: Lying | None = field(default=None, repr=False)

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
            wanted = {row.key for row in rows}
            ranges = [r for r in archive.partitions if r.key in wanted]
            proved = clocks.problem(self.live, self.now()) is None
            with self.reading.note(self.run.run_id, self.now if proved else None) as took:
                found = Keeper(
                    self.place, archive, settings, self.live, lambda: self._reader(rows, took),
                    self._compacted(archive), hold, told.heard, sealer, fresh, self._hashed,
                ).keep(ranges)  # fmt: skip
        except FAILURES:
            self._failed()
            raise
        except LowwaterError:
            raise
        except Exception as error:  # a worker that dies of it is followed by one that dies of it
            self._failed()
            raise ArchiveError(
                f"unexpected {type(error).__name__}: {str(error)[:200]}",
                "Nothing is deleted; please report it, with the lines of the worker's log.",
            ) from error
        if found.held:
            return found
        known = {r.key for r in ranges}
        self._without_range([row for row in rows if row.key not in known], found)
        # Of a run that went on after a death: what was settled before stands in the manifest.
        # What was refused since its archive is not whole stays so, whatever lies there.
        refused = {
            row.key: str(row.message)
            for row in self.journal.partitions(self.run.run_id)
            if row.error == INCOMPLETE
        }
        earlier = {k: a for r in archive.partitions if (k := r.key) not in wanted
                   and k not in refused
                   and (a := committed(self.place, archive, k)) is not None}  # fmt: skip
        everything = replace(
            found, committed={**earlier, **found.committed},
            incomplete={**refused, **found.incomplete},
        )  # fmt: skip
        ended = end(self.place, archive, everything.committed, found.passed)
        self._lying = Lying(self.place, ended, self.now)
        told.ended(everything, whole=ended.state == "whole" and not everything.incomplete)
        self.done = True
        return found

    def _without_range(self, rows: Sequence[PartitionRow], found: Kept) -> None:
        """Partitions that the archive did not begin with: of those whose log begins at or past the
        target nothing is left to keep, the others could not be read then.
        """
        seen = self.live.offsets([row.key for row in rows]) if rows else {}
        for row in rows:
            start = own.log_start_offset if (own := seen.get(row.key)) and not own.error else None
            if start is not None and start >= row.target_offset:
                found.passed.add(row.key)
            else:
                why = "its offsets could not be read when the archive began"
                found.incomplete[row.key] = why

    def in_place(self, keys: Iterable[TopicPartition]) -> InPlace:
        """What lies in the place now. Raises one of FAILURES: see `Lying.of`."""
        if self._lying is None:
            raise ArchiveError(
                f"run {self.run.run_id} has kept nothing yet", "Nothing is sent before it has."
            )
        return self._lying.of(keys)

    def gate(self, checked: Rechecked, in_place: InPlace) -> tuple[Rechecked, Proofs]:
        """What may be sent, less what is not proved to lie there: that is refused, or asked again;
        and the proofs of the rest. Raises ClusterError.
        """
        proofs = in_place.proofs
        targets = {p.key: p.target_offset or 0 for p in self.plan.partitions}
        refused, unreadable = dict(checked.refused), dict(checked.unreadable)
        for key, seen in checked.allowed.items():
            topic_id = self.plan.topic_ids.get(key.topic)
            why = in_place.gone.get(key) or unproved(proofs.get(key), topic_id, seen, targets[key])
            if why:
                refused[key] = Refusal(INCOMPLETE, why)
        left = {k: seen for k, seen in checked.allowed.items() if k not in refused}
        for key, (sure, said) in self._others(left, proofs).items():
            into = refused if sure else unreadable
            into[key] = Refusal(INCOMPLETE if sure else "EPOCH_NOT_READ", said)
        allowed = {k: s for k, s in left.items() if k not in refused and k not in unreadable}
        judged = replace(checked, allowed=allowed, refused=refused, unreadable=unreadable)
        return judged, {key: proofs[key] for key in allowed}

    @property
    def place(self) -> Place:
        if self._place is None:
            self._place = Place(str(self.run.options.archive), self.sleep)
        return self._place

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
        _refuse_other_key(where, archive, sealer)
        return archive, fresh

    def _made(self, rows: Sequence[PartitionRow], encryption: Encryption | None) -> RunArchive:
        if self.journal.head(self.run.run_id).archive is not None:
            raise _not_there(self.place.url_of(run_name(self.run.cluster_id, self.run.run_id)))
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

    def _reader(self, rows: Sequence[PartitionRow], took: Took) -> Reader:
        reading = self.reading
        return reading.open_reader(reading.client(), self.run.cluster_id, rows[0].topic, took)

    def _compacted(self, archive: RunArchive) -> Callable[[str], bool]:
        entries = self.live.configs(sorted(t.topic for t in archive.topics))
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
                if why := other_records(ends.get(key), epoch, epoch_to, allowed[key].leader_epoch):
                    found.setdefault(key, why)
        return found

    def _failed(self) -> None:
        before = self.journal.head(self.run.run_id).archive
        if before is not None:
            with suppress(ValueError):
                failed = replace(before, state="failed", told_at=self.now())
                self.journal.note_archive(self.run.run_id, failed, kind="kept")


def refuse_unreached(run: RunRow, settings: ArchiveSettings) -> None:
    """Whether this worker has what it needs to go on with the archive of a run that another one
    may have begun: its place, and its key. Raises ArchiveError, SettingsError: the next one may.
    """
    place = Place(str(run.options.archive))
    sealer = None if settings.key_file is None else read_key(settings.key_file)
    name = run_name(run.cluster_id, run.run_id)
    where = place.url_of(name)
    try:
        archive = place.record(RUN, name)
    except RefusedError:  # it was changed: no worker can do more, and `keep` says so
        return
    if archive is not None:
        _refuse_other_key(where, archive, sealer)
    elif run.archive is not None:
        raise _not_there(where)


def _refuse_other_key(where: str, archive: RunArchive, sealer: Sealer | None) -> None:
    needed = archive.encryption.key_id if archive.encryption else "none"
    found = sealer.key_id if sealer else "none"
    if needed != found:
        raise wrong_key(where, needed, found)


def _not_there(where: str) -> ArchiveError:
    return ArchiveError(
        f"{where} is not there, and this archive had begun",
        "Mount what it lies on, or restore the file from a copy, then plan again.",
        code="ARCHIVE_UNREACHABLE",
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
        told = replace(self._last, **asdict(progress))
        if told != self._last:
            self._last = replace(told, told_at=_to_millisecond(self._of.now()))
            self._of.offsets_done = told.offsets_done
            self.tell()

    def ended(self, kept: Kept, *, whole: bool) -> None:
        """What it became; an entry of the chain holds each partition's range and count, and the
        sha256 of all commits: who can write to the place could forge whatever lies there.
        """
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
            commits_sha256=commits_sha256(archives),
        )


def _to_millisecond(moment: datetime) -> datetime:
    # JSON carries milliseconds: what is hashed must survive the way there and back.
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
