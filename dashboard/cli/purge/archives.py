"""`lowwater archives list|verify|delete|expire`: records that were kept before they were purged."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import (
    ArchiveError,
    JournalError,
    LowwaterError,
    RefusedError,
    UsageError,
)
from dashboard.core.visible import in_lines, in_quotes
from dashboard.core.words import plural
from dashboard.domain.acts import restored_into
from dashboard.people import people
from dashboard.settings.sections import Price

if TYPE_CHECKING:
    from dashboard.archive.summary import Summary
    from dashboard.purge.journal.journal import Journal
    from dashboard.purge.journal.reads import JournalReads
    from dashboard.settings.settings import Settings

_RESTORES_TAKE = timedelta(days=7)  # at most; one that began before was given up
_COLUMNS = ("run", "cluster", "created", "state", "topics", "records", "bytes", "costs", "expires")
_DESCRIPTION = """\
Archives hold the records that purges deleted. Without a URL: url in [archive] of the settings.
list    each run's archive: its topics, records, bytes, state and what it costs (the default)
verify  reads every part back, counts and hashes it; of one run, or of all below a URL
delete  one archive for good, of a closed run, by the sentence that it shows
expire  deletes those of closed runs that are older than keep_for of the settings, once
        another clock (a cluster's controller, or the object store's) tells the same time
What is deleted stands in the journal's chain."""


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "archives",
        description=_DESCRIPTION,
        examples=(
            "lowwater archives",
            "lowwater archives list s3://kept --json",
            "lowwater archives verify s3://kept/CLUSTER_ID/RUN_ID",
            'lowwater archives delete s3://kept/CLUSTER_ID/RUN_ID --confirm "delete the archive …"',
            "lowwater archives expire",
        ),
    )
    parser.add_argument(
        "action", nargs="?", choices=tuple(_ACTIONS), default="list", help="what to do"
    )
    parser.add_argument("where", nargs="?", metavar="URL", help="all archives, or one run's folder")
    parser.add_argument("--confirm", metavar="TEXT", help="with delete: the sentence")


def run(args: argparse.Namespace) -> int:
    """Do what `action` says. Raises UsageError, SettingsError, ArchiveError, RefusedError and
    JournalError.
    """
    if args.confirm and args.action != "delete":
        raise UsageError("--confirm belongs to archives delete", "See: lowwater archives --help")
    return _ACTIONS[args.action](args, context.read_settings(args))


def _where(args: argparse.Namespace, settings: Settings) -> str:
    where = args.where or settings.archive.url
    if not where:
        raise UsageError(
            "no archive is named",
            f"Write: lowwater archives {args.action} URL, or url in [archive] of the settings.",
            code="ARCHIVE_NOT_NAMED",
        )
    return str(where)


def _list(args: argparse.Namespace, settings: Settings) -> int:
    found = list(_found(_where(args, settings), args))
    rows = [_row(one, settings) for one in found]
    value = {
        "url": _where(args, settings),
        "archives": rows,
        "records": sum(row.get("records", 0) for row in rows),
        "size_bytes": sum(row.get("size_bytes", 0) for row in rows),
    }
    cells = [_cells(row) for row in rows]
    lines = [output.table(cells, _COLUMNS) if cells else f"no archive below {value['url']}"]
    lines += [f"error: {row['error']['message']}" for row in rows if "error" in row]
    lines += [row["url"] for row in rows if "url" in row]
    output.emit(value, in_lines(lines), as_json=args.json)
    return 1 if any("error" in row for row in rows) else 0


def _found(where: str, args: argparse.Namespace) -> Iterator[Summary | LowwaterError]:
    """Of all runs below a URL, or of one by its folder."""
    from dashboard.archive.opened import open_archive
    from dashboard.archive.summary import summaries, summary

    try:
        one = open_archive(where, sealed=False)
    except LowwaterError as error:
        if error.code != "ARCHIVE_NOT_FOUND":
            raise
    else:
        yield summary(one)
        return
    for found in summaries(where):
        if isinstance(found, LowwaterError) or args.cluster in (
            None, found.archive.run.cluster_id, found.archive.run.cluster_name,
        ):  # fmt: skip
            yield found


def _row(found: Summary | LowwaterError, settings: Settings) -> dict[str, Any]:
    if isinstance(found, LowwaterError):
        return found.to_json()
    expires = found.expires_at(settings.archive.keep_for)
    price = settings.archive.per_gib_month
    per_month = None if price is None else found.size_bytes / 2**30 * price
    return {
        **found.to_json(),
        "expires_at": format_time(expires) if expires else None,
        "cost_per_month": per_month,
        "currency": None if price is None else settings.price.currency,
    }


def _cells(row: dict[str, Any]) -> dict[str, object]:
    if "run_id" not in row:
        return {"state": "unreadable"}
    cost = None
    if row["cost_per_month"] is not None:
        per_gib = row["cost_per_month"] * 2**30 / max(1, row["size_bytes"])
        cost = Price(per_gib, row["currency"]).a_month(row["size_bytes"])
    return {
        "run": row["run_id"], "cluster": row["cluster_name"] or row["cluster_id"],
        "created": row["created_at"], "state": row["state"], "topics": row["topics"],
        "records": row["records"], "bytes": output.size(row["size_bytes"]), "costs": cost,
        "expires": row["expires_at"],
    }  # fmt: skip


def _verify(args: argparse.Namespace, settings: Settings) -> int:
    from dashboard.archive.sealing import opener

    rows: list[dict[str, Any]] = []
    unopened: LowwaterError | None = None
    for found in _found(_where(args, settings), args):
        if isinstance(found, LowwaterError):
            rows.append(_unread(None, found))
            continue
        archive = found.archive
        try:
            sealer = opener(archive.run.encryption, settings.archive.key_file, archive.url)
        except LowwaterError as error:  # of another key; the others may open
            unopened = error
            rows.append(_unread(archive.url, error))
            continue
        rows.append(_verified(found, sealer, settings))
    if unopened is not None and len(rows) == 1:
        raise unopened
    lines = []
    for row in rows:
        well = f"{row['records']} records in {row['parts']} parts, each as it was proved"
        lines += [f"{row['url']}: {said}" for said in row["problems"] or [well]]
    text = in_lines(lines)
    output.emit({"archives": rows}, text or "no archive there", as_json=args.json)
    return 0 if all(row["ok"] for row in rows) else 1


def _unread(url: str | None, error: LowwaterError) -> dict[str, Any]:
    return {"url": url, "ok": False, "problems": [error.message], "records": 0, "parts": 0}


def _verified(found: Summary, sealer: Any, settings: Settings) -> dict[str, Any]:
    from dataclasses import replace

    from dashboard.archive.manifest import commits_sha256
    from dashboard.cli.purge import moved_journals

    archive = replace(found.archive, sealer=sealer)
    problems = [found.error.message] if found.error else []
    problems += [archive.commit_lost(key).message for key in archive.lost(found.found)]
    parts, whole = 0, {key: one for key, one in found.found.items() if one is not None}
    for key, one in whole.items():
        parts += len(one.parts)
        problems += archive.wrong(key, one)
        output.progress(f"{archive.run.run_id}: {key.topic}-{key.partition} read back")
    told = moved_journals.commits_told(settings, found)
    if isinstance(told, JournalError):
        problems.append(f"what the journal tells of its commits cannot be read: {told.message}")
    elif not problems and told not in (None, commits_sha256(one for one in whole.values())):
        problems.append(
            "its commits are others than those that the journal's chain tells of: it was changed"
        )
    return {
        "url": archive.url, "run_id": archive.run.run_id, "state": found.state,
        "ok": not problems, "records": found.records, "parts": parts, "problems": problems,
    }  # fmt: skip


def _delete(args: argparse.Namespace, settings: Settings) -> int:
    from dashboard.archive.deleting import confirmation, refuse_open, weight
    from dashboard.archive.opened import open_archive
    from dashboard.archive.summary import summary

    if not args.where:
        raise UsageError(
            "no archive is named", "Write: lowwater archives delete URL/CLUSTER_ID/RUN_ID.",
            code="ARCHIVE_NOT_NAMED",
        )  # fmt: skip
    found = summary(open_archive(args.where, sealed=False))
    with _may_delete(settings) as journal:
        refuse_open(found, _is_open(journal, found))
        sentence = confirmation(found)
        if args.confirm != sentence:
            raise UsageError(
                f"{found.archive.url} with {weight(found)} would be gone for good"
                f"{_also_restored(found, journal)}",
                f"Repeat the sentence: --confirm {in_quotes(sentence)}.",
                code="CONFIRMATION_REQUIRED",
            )
        gone = _gone(found, journal, settings, typed=args.confirm)
    text = f"deleted {gone['url']}: {weight(found)}"
    output.emit({"deleted": [gone]}, text, as_json=args.json)
    return 0


def _expire(args: argparse.Namespace, settings: Settings) -> int:
    from dashboard.archive.deleting import refuse_open, weight

    keep_for = settings.archive.keep_for
    if keep_for is None:
        raise UsageError(
            "nothing expires: the settings do not say how long archives are kept",
            'Write keep_for = "365d" in [archive] of the settings.',
            code="ARCHIVE_KEEP_UNSET",
        )
    gone, kept, failed, lines = [], [], [], []
    with _may_delete(settings) as journal:
        due, unproved = _due(args, settings, keep_for)
        for why, found_so in unproved:
            kept += [{"url": one.archive.url, **why.to_json()} for one in found_so]
            lines += [f"kept {plural(len(found_so), 'archive')}: {why.message}"]
            lines += [f"next: {why.next_step}"]
        unseen = False
        for found, now in due:
            try:
                refuse_open(found, _is_open(journal, found))
                _refuse_restoring(found, journal, now)
            except (RefusedError, JournalError) as error:
                unseen |= isinstance(error, JournalError)
                kept.append({"url": found.archive.url, **error.to_json()})
                lines.append(f"kept {found.archive.url}: {error.message}")
                continue
            try:
                gone.append(_gone(found, journal, settings, typed=None))
            except ArchiveError as error:  # the next ones may lie well
                failed.append({"url": found.archive.url, **error.to_json()})
                lines.append(f"not all of {found.archive.url} is deleted: {error.message}")
                continue
            lines.append(f"deleted {found.archive.url}: {weight(found)}")
    text = in_lines(lines or ["nothing is older than that"])
    output.emit({"deleted": gone, "kept": kept, "failed": failed}, text, as_json=args.json)
    return 1 if failed or unproved or unseen else 0


def _due(
    args: argparse.Namespace, settings: Settings, keep_for: timedelta
) -> tuple[list[tuple[Summary, datetime]], list[tuple[RefusedError, list[Summary]]]]:
    """What is older than it is kept, and now by its clock; and what is kept as nobody knows that.

    A clock may be set right meanwhile: what is not old by then is in neither.
    """
    from dashboard.archive.proved_clock import proved_times
    from dashboard.archive.summary import expired

    old = expired(_found(_where(args, settings), args), keep_for, utc_now())
    due, unproved = [], []
    times = proved_times(settings, context.open_store(settings.data), old)
    for cluster_id, told in times.items():
        its = [one for one in old if one.archive.run.cluster_id == cluster_id]
        if isinstance(told, RefusedError):
            unproved.append((told, its))
        else:
            due += [(one, told) for one in expired(its, keep_for, told)]
    return due, unproved


@contextmanager
def _may_delete(settings: Settings) -> Iterator[Journal]:
    """The journal, once nothing forbids deleting. Raises RefusedError READ_ONLY, ROLE_TOO_LOW."""
    from dashboard.purge.jobs import queue_refusals

    people.require(
        settings, context.actor(settings), people.deciding_role(settings), "delete archives"
    )
    with context.open_journal(settings) as journal:
        queue_refusals.read_only(settings, journal)
        yield journal


def _is_open(journal: JournalReads, found: Summary) -> bool | None:
    from dashboard.cli.purge.moved_journals import journal_of

    with journal_of(journal, found) as knows:
        return None if knows is None else knows.head(found.archive.run.run_id).open


def _also_restored(found: Summary, journal: JournalReads) -> str:
    """What speaks against deleting it, for who may do so by its sentence all the same."""
    try:
        _refuse_restoring(found, journal, utc_now())
    except RefusedError as error:
        return f"; {error.message}"
    return ""


def _refuse_restoring(found: Summary, journal: JournalReads, now: datetime) -> None:
    """Refuse while a restore of it is, or may be, under way. Raises RefusedError."""
    from dashboard.archive.deleting import refuse_restoring
    from dashboard.cli.purge.moved_journals import restores

    told = restores(journal, now - _RESTORES_TAKE, set())
    run_id = found.archive.run.run_id
    bodies = (entry.body for _, entry in sorted(told.items()))
    refuse_restoring(found, restored_into(one for one in bodies if one["run_id"] == run_id))


def _gone(
    found: Summary, journal: Journal, settings: Settings, *, typed: str | None
) -> dict[str, Any]:
    from dashboard.archive.deleting import delete

    delete(
        found, journal, utc_now, who=context.actor(settings).name, typed=typed,
        from_where=socket.gethostname(),
    )  # fmt: skip
    return {
        "run_id": found.archive.run.run_id, "url": found.archive.url, "records": found.records,
        "size_bytes": found.size_bytes,
    }  # fmt: skip


_ACTIONS: dict[str, Callable[[argparse.Namespace, Settings], int]] = {
    "list": _list, "verify": _verify, "delete": _delete, "expire": _expire,
}  # fmt: skip
