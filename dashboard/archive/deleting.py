"""Deletes an archive: of a closed run alone, by a confirmed sentence or by age, told to the chain.

What leads to a file goes after it, the run's manifest last: who is killed finds the rest again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from dashboard.archive.manifest import Part, Range, partition_name, proof_file, run_name
from dashboard.archive.opened import Archive
from dashboard.archive.place import Place
from dashboard.archive.summary import Summary
from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.core.words import binary, plural
from dashboard.domain.acts import Act, Deletion, Restoration

_OF_OFFSET = len("part-") + 20  # of a name
_PART = re.compile(r"part-\d{20}(?:-[0-9a-f]{8}\.parquet|\.json)")
# What a worker that was killed amid a put leaves in a folder: records, too.
_UNFINISHED = re.compile(
    r"(?:part-\d{20}(?:-[0-9a-f]{8})?|partition|archive)\.(?:parquet|json)\.\d+\.[0-9a-f]+\.tmp"
)


class Chain(Protocol):
    """The purge journal, as far as it keeps what became of archives."""

    def tell_of_archive(self, told: Deletion | Restoration, now: datetime) -> None: ...


def confirmation(found: Summary) -> str:
    """The sentence to repeat before an archive is deleted."""
    run = found.archive.run
    return f"delete the archive of run {run.run_id} on {run.cluster_name or run.cluster_id}"


def weight(found: Summary) -> str:
    """What would be gone: `1 200 records, 4.1 MiB`; of partitions without a commit that can be read
    nobody has counted what lies there.
    """
    said = f"{plural(found.records, 'record')}, {binary(found.size_bytes)}"
    every = len(found.archive.run.partitions)
    counted = sum(one is not None for one in found.found.values())
    if counted == every:
        return said
    return f"at least {said}, of {counted} of {plural(every, 'partition')}"


def refuse_open(found: Summary, is_open: bool | None) -> None:
    """Refuse an archive whose run may still rest on it. Raises RefusedError.

    `is_open`: by the journal; None: it does not know the run.
    """
    run_id = found.archive.run.run_id
    if is_open is None:
        raise RefusedError(
            f"this journal does not know run {run_id}: whether it is closed is not known",
            "Delete the archive on the machine whose state folder has that run.",
            code="ARCHIVE_RUN_UNKNOWN",
        )
    if is_open:
        raise RefusedError(
            f"run {run_id} is not closed: it may still delete by what this archive proves",
            "Wait until it is closed, or cancel it.",
            code="ARCHIVE_IN_USE",
        )


def refuse_restoring(found: Summary, into: str | None) -> None:
    """Refuse by age an archive that is being restored `into` a topic. Raises RefusedError."""
    if into is not None:
        raise RefusedError(
            f"the archive of run {found.archive.run.run_id} is being restored into topic {into}: "
            "that began in the last days, and is not known to be done",
            "Let it end (the same command goes on), or delete the archive by its sentence.",
            code="ARCHIVE_IN_USE",
        )


def delete(
    found: Summary,
    chain: Chain,
    now: Callable[[], datetime],
    *,
    who: str,
    typed: str | None,
    from_where: str,
) -> None:
    """Remove every file of it; the same call goes on after a death.

    Raises ArchiveError, and JournalError before anything is gone.
    """
    archive = found.archive
    run, place = archive.run, archive.place

    def told(act: Act) -> Deletion:
        return Deletion(
            act, run.cluster_id, run.run_id, archive.url, found.records, found.size_bytes, who,
            typed, from_where,
        )  # fmt: skip

    chain.tell_of_archive(told("begun"), now())
    of = run.cluster_id, run.run_id
    top = "/".join(of)
    for one in _partitions(found):
        folder = partition_name(*of, one.key).rpartition("/")[0]
        for name in _files(found, one, folder):
            place.remove(f"{folder}/{name}")
        place.remove(partition_name(*of, one.key))
        _remove_rest(place, folder)
    for topic in run.topics:
        place.remove_empty(f"{top}/{topic.topic}")
    place.remove(run_name(*of))
    _remove_rest(place, top)
    chain.tell_of_archive(told("done"), now())


def _remove_rest(place: Place, folder: str) -> None:
    for name in filter(_UNFINISHED.fullmatch, place.names(folder)):
        place.remove(f"{folder}/{name}")
    place.remove_empty(folder)


def _partitions(found: Summary) -> list[Range]:
    """Those of the manifest, and what a listing adds: of a partition that retention passed while
    it was read parts may lie there.
    """
    archive = found.archive
    run, known = archive.run, {one.key: one for one in archive.run.partitions}
    for topic in run.topics:
        for name in archive.place.names(f"{run.cluster_id}/{run.run_id}/{topic.topic}"):
            if name.isdecimal():
                one = Range(topic.topic, int(name), 0, 0)
                known.setdefault(one.key, one)
    return [known[key] for key in sorted(known)]


def _files(found: Summary, one: Range, folder: str) -> list[str]:
    """Parts and proofs, the last part first, and each before the proof that leads to it: by the
    partition's commit, else by the chain of proofs. A listing adds what else lies there: parts that
    nobody proved, and what a damaged proof would have led to.
    """
    archive, whole = found.archive, found.found.get(one.key)
    parts = list(whole.parts) if whole is not None else list(_chain(archive, one))
    files = {name for part in parts for name in (part.file, proof_file(part.first))}
    files |= {proof_file(one.start), *filter(_PART.fullmatch, archive.place.names(folder))}
    return sorted(files, key=lambda name: (name[:_OF_OFFSET], "-" in name[_OF_OFFSET:]))[::-1]


def _chain(archive: Archive, one: Range) -> Iterator[Part]:
    """The parts by their proofs, as far as one leads to the next."""
    at = one.start
    while True:
        try:
            part = archive.proof(one.key, at)
        except LowwaterError as error:
            if error.code == "ARCHIVE_UNREACHABLE":
                raise
            return
        if part is None or part.first != at:
            return
        yield part
        at = part.next
