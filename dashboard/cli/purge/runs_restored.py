"""`lowwater runs --accept-restored N`: go on with a journal that was rolled back."""

from __future__ import annotations

import argparse
import socket

from dashboard.cli import context, output
from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines
from dashboard.people import people


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add --accept-restored."""
    parser.add_argument(
        "--accept-restored",
        type=int,
        metavar="N",
        help="go on with a journal out of a backup, whose newest entry is N",
    )


def run(args: argparse.Namespace) -> int:
    """Accept it, and tell what was cancelled. Raises as `accept` does, UsageError, ROLE_TOO_LOW."""
    from dashboard.purge.upkeep.journal_restored import accept

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
    output.emit(value, _text(args.accept_restored, cancelled), as_json=args.json)
    return 0


def _text(through: int, cancelled: list[str]) -> str:
    lines = [f"the journal goes on after entry {through}"]
    lines += [f"run {run_id} is cancelled: what it has not sent stays" for run_id in cancelled]
    lines.append(
        "every purge is off: look at policies, requests and runs, then allow purges on page Audit"
    )
    return in_lines(lines)
