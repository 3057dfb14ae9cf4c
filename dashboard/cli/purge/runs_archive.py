"""`lowwater runs --archive FOLDER`: move runs that ended long ago out of the journal."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines
from dashboard.people import people

if TYPE_CHECKING:
    from datetime import timedelta

    from dashboard.purge.upkeep.journal_archive import Archived
    from dashboard.settings.settings import Settings

OLDER_THAN = "90d"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --archive and --older-than."""
    parser.add_argument(
        "--archive", metavar="FOLDER", help="move old runs and their links of the chain there"
    )
    parser.add_argument(
        "--older-than", metavar="TIME", help=f"with --archive: over for so long ({OLDER_THAN})"
    )


def run(args: argparse.Namespace) -> int:
    """Archive, and tell what was moved. Raises as `archive` does, UsageError and ROLE_TOO_LOW."""
    from dashboard.purge.upkeep.journal_archive import archive

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
    value = {"archived": _value(found, folder, before, path.stat().st_size)}
    output.emit(value, _text(value["archived"]), as_json=args.json)
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


def _value(found: Archived, folder: Path, before: int, after: int) -> dict[str, Any]:
    return {
        "folder": str(folder.resolve()),
        "runs": found.runs,
        "entries": found.entries,
        "first_entry": found.first_entry,
        "held_by": found.held_by,
        "journal_bytes_before": before,
        "journal_bytes_after": after,
    }


def _text(value: dict[str, Any]) -> str:
    held = value["held_by"]
    stays = [f"{held} is not over: it and what is younger stays"] if held else []
    if not value["entries"]:
        return in_lines(["nothing is old enough to be moved", *stays])
    return in_lines(
        [
            f"{value['runs']:,} runs and {value['entries']:,} entries of the chain moved to "
            f"{value['folder']}",
            f"the journal begins with entry {value['first_entry']:,}; its file: "
            f"{output.size(value['journal_bytes_before'])}, now "
            f"{output.size(value['journal_bytes_after'])}",
            *stays,
        ]
    )
