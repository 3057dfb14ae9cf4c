"""`lowwater runs`: every purge run in this state folder; checks and exports the journal."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import JournalError, UsageError
from dashboard.core.visible import in_lines
from dashboard.people import people

if TYPE_CHECKING:
    from datetime import timedelta

    from dashboard.purge.journal.archive import Archived
    from dashboard.purge.journal.journal import Journal
    from dashboard.purge.journal.rows import Begins, RunRow, RunView, Verification
    from dashboard.settings.settings import Settings

_COLUMNS = ("run_id", "state", "mode", "cluster_name", "who", "queued_at", "counts", "freed")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "runs",
        description="Lists the purge runs that this state folder knows, newest first.\n"
        "--verify checks the hash chain of the journal; a broken one is exit 70.\n"
        "--export writes who purged what, when, from where and by which plan: .json holds\n"
        "everything with the chain, .csv one line per partition.\n"
        "--archive moves what is older than --older-than into another folder, and verifies there\n"
        "too: LOWWATER_STATE_DIR=FOLDER lowwater runs --verify --as-archive.\n"
        "--accept-restored goes on with a journal that was restored from a backup.",
        examples=(
            "lowwater runs",
            "lowwater runs --verify --json",
            "lowwater runs --export purges.csv --cluster prod",
            "lowwater runs --archive /backup/lowwater --older-than 90d",
        ),
    )
    parser.add_argument("--verify", action="store_true", help="check the journal's hash chain")
    parser.add_argument(
        "--as-archive",
        action="store_true",
        help="with --verify or --export: this folder is one that --archive made",
    )
    parser.add_argument("--export", metavar="FILE", help="write the journal to FILE.json or .csv")
    add_flags(parser)
    add_restored_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the runs; 70 with --verify when the chain is broken.

    Raises JournalError, and UsageError for a file that cannot be written.
    """
    from dashboard.purge.receipt import gap

    if args.accept_restored is not None:
        return accept_restored(args)
    if args.archive:
        return run_archive(args)
    if args.older_than:
        raise UsageError(
            "--older-than says what --archive moves",
            "Give --archive FOLDER too.",
        )
    if args.as_archive and not (args.verify or args.export):
        raise UsageError("--as-archive says what --verify checks", "Give --verify too.")
    if args.export:
        _check_export(args.export)
    with context.open_journal(context.read_settings(args)) as journal:
        rows = [r for r in journal.runs() if args.cluster in (None, r.cluster_id, r.cluster_name)]
        views = [journal.run(row.run_id) for row in rows]
        verification = journal.verify(as_archive=args.as_archive) if args.verify else None
        lost, begins = journal.file.rolled_back(), journal.begins()
        if args.export:
            output.write_text(args.export, _exported(journal, args, rows))
    value: dict[str, Any] = {
        "runs": [_row(view) for view in views],
        "calibration": gap.to_json(rows),
        "begins": begins and begins.to_json(),
    }
    text = _text(views, begins)
    if args.export:
        value["exported"] = args.export
        output.progress(f"wrote {args.export}")
    if verification is not None:
        value["verification"] = verification.to_json()
        text = in_lines([text, _verified(verification)]) if verification.ok else text
    if verification is not None and not verification.ok:
        alone = lost is not None and verification.problems == (lost.message,)
        error = lost if lost is not None and alone else _broken(verification.problems)
        output.emit({**value, **error.to_json()}, text, as_json=args.json)
        if not args.json:
            output.emit_error(error, as_json=False)
        return error.exit_code
    if lost is not None:
        output.progress(f"{lost.message}; nothing is written to it")
    output.emit(value, text, as_json=args.json)
    return 0


def _verified(found: Verification) -> str:
    since = f" from entry {found.first_entry}" if found.first_entry > 1 else ""
    return f"chain verified{since} to entry {found.newest_entry}"


def _check_export(path: str) -> None:
    if not path.endswith((".json", ".csv")):
        raise UsageError(
            f"{path} ends neither with .json nor with .csv",
            "Name the export FILE.json for everything, or FILE.csv for one line per partition.",
        )
    output.check_writable(path)


def _exported(journal: Journal, args: argparse.Namespace, rows: list[RunRow]) -> str:
    from dashboard.purge.journal.archive import as_csv, as_json

    chosen = [row.run_id for row in rows] if args.cluster else None
    if args.export.endswith(".json"):
        return as_json(journal, chosen, as_archive=args.as_archive)
    return as_csv(journal, chosen)


def _row(view: RunView) -> dict[str, object]:
    """The run without its partitions: `lowwater run` shows those."""
    return {name: value for name, value in view.to_json().items() if name != "partitions"}


def _text(views: list[RunView], begins: Begins | None) -> str:
    since = "" if begins is None else begins.words
    if not views:
        return f"no purge, {since}" if since else "no purge has run with this state folder"
    table = output.table([_readable(view) for view in views], _COLUMNS)
    return in_lines([table, since]) if since else table


def _readable(view: RunView) -> dict[str, object]:
    counts = ", ".join(f"{count} {state}" for state, count in view.counts.items())
    receipt = view.run.receipt
    freed = output.size(receipt.freed_bytes) if receipt else None
    return {**_row(view), "state": view.run.outcome, "counts": counts, "freed": freed}


def _broken(problems: tuple[str, ...]) -> JournalError:
    return JournalError(
        f"the journal does not verify: {'; '.join(problems[:3])}",
        "Keep the file as it is, find out who changed it, and start a new state_dir.",
        code="JOURNAL_BROKEN",
    )


# `lowwater runs --accept-restored N`: go on with a journal that was rolled back.


def add_restored_flag(parser: argparse.ArgumentParser) -> None:
    """Add --accept-restored."""
    parser.add_argument(
        "--accept-restored",
        type=int,
        metavar="N",
        help="go on with a journal out of a backup, whose newest entry is N",
    )


def accept_restored(args: argparse.Namespace) -> int:
    """Accept it, and tell what was cancelled. Raises as `accept` does, UsageError, ROLE_TOO_LOW."""
    from dashboard.purge.journal.archive import accept

    names = ("verify", "as_archive", "export", "cluster", "archive", "older_than")
    others = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
    if others:
        raise UsageError(
            f"--accept-restored goes without {others[0]}: it decides about the whole journal",
            f"Call it alone, and {others[0]} before or after.",
        )
    settings = context.read_settings(args)
    who = people.require(settings, context.actor(settings), "approver", "accept the journal")
    with context.open_journal(settings) as journal:
        cancelled = accept(
            journal, args.accept_restored, who=who, from_where=socket.gethostname(), now=utc_now()
        )
    value = {"accepted": {"through_entry": args.accept_restored, "cancelled": cancelled}}
    output.emit(value, _runs_restored_text(args.accept_restored, cancelled), as_json=args.json)
    return 0


def _runs_restored_text(through: int, cancelled: list[str]) -> str:
    lines = [f"the journal goes on after entry {through}"]
    lines += [f"run {run_id} is cancelled: what it has not sent stays" for run_id in cancelled]
    lines.append(
        "every purge is off: look at policies, requests and runs, then allow purges on page Audit"
    )
    return in_lines(lines)


# `lowwater runs --archive FOLDER`: move runs that ended long ago out of the journal.

OLDER_THAN = "90d"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --archive and --older-than."""
    parser.add_argument(
        "--archive", metavar="FOLDER", help="move old runs and their links of the chain there"
    )
    parser.add_argument(
        "--older-than", metavar="TIME", help=f"with --archive: over for so long ({OLDER_THAN})"
    )


def run_archive(args: argparse.Namespace) -> int:
    """Archive, and tell what was moved. Raises as `archive` does, UsageError and ROLE_TOO_LOW."""
    from dashboard.purge.journal.archive import archive

    names = ("verify", "as_archive", "export", "cluster")
    others = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
    if others:
        raise UsageError(
            f"--archive goes without {others[0]}: it moves the runs of every cluster here",
            f"Call it alone, and {others[0]} before or after.",
        )
    settings = context.read_settings(args)
    age = _age(args, settings)
    who = people.require(settings, context.actor(settings), "approver", "archive the journal")
    now, folder = utc_now(), Path(args.archive)
    with context.open_journal(settings) as journal:
        path = journal.file.path
        before = path.stat().st_size
        found = archive(
            journal, folder, before=now - age, who=who, from_where=socket.gethostname(), now=now,
            tell=_progress,
        )  # fmt: skip
        shrunk = not found.entries or journal.file.shrink()
    if not shrunk:
        output.progress("the file stays as large: it is in use, or its disk lacks room for a copy")
    after = path.stat().st_size
    value = {"archived": _value(found, folder, before, after)}
    output.emit(value, _runs_archive_text(found, folder, before, after), as_json=args.json)
    return 0


def _age(args: argparse.Namespace, settings: Settings) -> timedelta:
    """How long a run must have been over: a day at least, and longer than any plan may be used."""
    age = parse_duration(args.older_than or OLDER_THAN)
    least = max(parse_duration("1d"), settings.purge.plan_expires_after)
    if age < least:
        raise UsageError(
            f"--older-than {args.older_than} is too short: the journal needs its newest runs",
            f"Give a day or more, and no less than plan_expires_after ({least}).",
            code="ARCHIVE_TOO_YOUNG",
        )
    return age


def _progress(moved: int, of: int) -> None:
    output.progress(f"moved {moved:,} of {of:,} entries")


def _value(found: Archived, folder: Path, before: int, after: int) -> dict[str, object]:
    return {
        "folder": str(folder.resolve()),
        "runs": found.runs,
        "entries": found.entries,
        "first_entry": found.first_entry,
        "held_by": found.held_by,
        "journal_bytes_before": before,
        "journal_bytes_after": after,
    }


def _runs_archive_text(found: Archived, folder: Path, before: int, after: int) -> str:
    held = found.held_by
    stays = [f"{held} is not over: it and what is younger stays"] if held else []
    if not found.entries:
        return in_lines(["nothing is old enough to be moved", *stays])
    return in_lines(
        [
            f"{found.runs:,} runs and {found.entries:,} entries of the chain moved to "
            f"{folder.resolve()}",
            f"the journal begins with entry {found.first_entry:,}; its file: "
            f"{output.size(before)}, now {output.size(after)}",
            *stays,
        ]
    )
