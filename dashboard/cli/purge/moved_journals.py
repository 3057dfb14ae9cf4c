"""Journals that runs were moved to (`runs --archive`): which one knows a run, or tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from os.path import realpath  # Path.resolve raises RuntimeError of a link to itself
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.cli import context
from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError, RefusedError
from dashboard.domain.acts import Restoration
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.reads import JournalReads

if TYPE_CHECKING:
    from dashboard.archive.summary import Summary
    from dashboard.purge.journal.rows import Entry
    from dashboard.settings.settings import Settings


def restores(journal: JournalReads, since: datetime, seen: set[Path]) -> dict[int, Entry]:
    """What the chain tells of restores since then, by the numbers of its links: here, and in each
    journal that such links were moved to. Raises RefusedError where one of those cannot be read.
    """
    seen.add(Path(realpath(journal.file.path)))
    told = {one.seq: one for one in journal.told_since(since, Restoration.kind)}
    moved = {  # the newest link that tells of each
        one.body["folder"]: one.body
        for one in journal.told_since(since, "archived")
        if one.body.get("before", one.at) > format_time(since)
    }
    for folder, link in moved.items():
        path = Path(realpath(journal_in(Path(folder))))
        if path in seen:
            continue
        there = None
        with suppress(OSError, JournalError):
            path.stat()  # to open one that is not there would make it
            with closing(JournalReads(path, on_network=journal.file.on_network)) as other:
                if other.has_link(link["through_seq"], link["hash"]):
                    there = restores(other, since, seen)
        if there is None:
            raise RefusedError(
                "whether a restore of it is unfinished is not known: what the journal told of the "
                f"last days was moved to {folder}, and cannot be read there",
                "Make that folder readable here, or delete the archive by its sentence.",
                code="ARCHIVE_IN_USE",
            )
        told |= there
    return told


def commits_told(settings: Settings, found: Summary) -> str | JournalError | None:
    """The sha256 of its commits by the journal of this state folder, if that knows the run; or that
    the journal cannot be seen, or its links were changed, which is not the same as knowing nothing.
    """
    path, on_network = journal_in(settings.state_dir), settings.state_dir_on_network
    try:
        if not context.journal_lies_at(path):
            return None
        with (
            closing(JournalReads(path, on_network=on_network)) as journal,
            journal_of(journal, found) as knows,
        ):
            return None if knows is None else knows.commits_kept(found.archive.run.run_id)
    except JournalError as error:
        return error


@contextmanager
def journal_of(journal: JournalReads, of: Summary) -> Iterator[JournalReads | None]:
    """The one that knows an archive's run: this journal, or one that its runs were moved to.

    Raises JournalError where none does, and one of them could not be read that may: it is closed,
    or is not there any more, and what was moved there is not older than the run.
    """
    run_id, start = of.archive.run.run_id, Path(realpath(journal.file.path))
    waiting, told = [start], {start: of.archive.run.created_at}  # by when each had its newest runs
    missing: list[Path] = []
    error: JournalError | None = None
    while waiting:
        path = waiting.pop()
        with ExitStack() as stack:
            try:
                if path == start:
                    one = journal
                elif context.journal_lies_at(path):
                    one = JournalReads(path, on_network=journal.file.on_network)
                    stack.enter_context(closing(one))
                else:
                    missing.append(path)
                    continue
                knows, moved = one.has_run(run_id), one.moved_to()
            except JournalError as failed:  # another may know it
                error = failed
                continue
            if knows:
                yield one
                return
        for folder, before in moved.items():
            there = Path(realpath(journal_in(folder)))
            if there not in told:
                waiting.append(there)
            told[there] = max(before, told.get(there, before))
    for path in missing:
        if told[path] >= of.archive.run.created_at:
            raise JournalError(
                f"the journal that runs were moved to is not there any more: {path}",
                "Mount the disk that it lies on, or put the folder back from a copy.",
            )
    if error is not None:
        raise error
    yield None
