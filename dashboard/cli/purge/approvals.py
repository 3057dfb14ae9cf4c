"""`lowwater approvals`: purges that wait for a second person; shows, approves and rejects them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.cli.purge.run import DETACHED
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError, UsageError
from dashboard.core.visible import in_lines

if TYPE_CHECKING:
    from dashboard.purge.journal.journal import Journal
    from dashboard.settings.settings import Settings

_COLUMNS = (
    "request_id", "state", "requester", "mode", "cluster_name", "asked_at", "expires_at",
    "decided_by", "run_id",
)  # fmt: skip


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "approvals",
        description="With second_person of [people] a purge is asked for, and an approver other\n"
        "than the requester queues it. Lists what waits and what was decided, newest first;\n"
        "--show prints the plan, --approve queues it, --reject closes it without a purge.",
        examples=(
            "lowwater approvals",
            "lowwater approvals --show 20260301T040000-1a2b3c4d",
            'lowwater approvals --approve 20260301T040000-1a2b3c4d --confirm "purge orders on p"',
            "lowwater approvals --reject 20260301T040000-1a2b3c4d",
        ),
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", metavar="ID", help="print the plan that was asked for")
    what.add_argument("--approve", metavar="ID", help="queue it; needs --confirm")
    what.add_argument("--reject", metavar="ID", help="close it; a requester may close their own")
    parser.add_argument("--confirm", metavar="TEXT", help="with --approve: the plan's sentence")
    parser.add_argument(
        "--sha256", metavar="HEX", help="with --approve: refuse any plan but the one that was shown"
    )


def run(args: argparse.Namespace) -> int:
    """Do what the flags say. Raises UsageError, RefusedError and JournalError."""
    if (args.confirm is not None or args.sha256) and not args.approve:
        raise UsageError("--confirm and --sha256 belong to --approve", "Name the request with it.")
    settings = context.read_settings(args)
    with context.open_journal(settings) as journal:
        if args.show:
            return _show(journal, args)
        if args.approve:
            return _approve(settings, journal, args)
        if args.reject:
            return _reject(settings, journal, args)
        return _list(journal, args)


def _list(journal: Journal, args: argparse.Namespace) -> int:
    now = utc_now()
    found = [
        request.to_json(now)
        for request in journal.requests()
        if args.cluster in (None, request.cluster_id, request.cluster_name)
    ]
    text = output.table(found, _COLUMNS) if found else "nobody has asked for a purge here"
    output.emit({"approvals": found}, text, as_json=args.json)
    return 0


def _show(journal: Journal, args: argparse.Namespace) -> int:
    from dashboard.cli.purge.preview import describe
    from dashboard.purge.plan.preview import preview

    now = utc_now()
    found = journal.request(args.show)
    request = found.to_json(now)
    view = preview(journal.requested_plan(args.show), now)
    said = [
        f"request {args.show} of {request['requester']}: {request['state']}, "
        f"expires at {request['expires_at']}",
        found.asked.described,
    ]
    text = in_lines([*said, describe(view)])
    output.emit({**request, "plan": view.to_json()}, text, as_json=args.json)
    return 0


def _approve(settings: Settings, journal: Journal, args: argparse.Namespace) -> int:
    from dashboard.purge.jobs import approving

    code, told = 0, None
    try:
        approving.approve(
            settings,
            journal,
            args.approve,
            who=context.actor(settings),
            confirm=args.confirm or "",
            sha256=args.sha256,
        )
    # They may come when the journal has the run already: its worker could not be started.
    except (KeyboardInterrupt, LowwaterError) as error:
        if journal.request(args.approve).run_id is None:
            raise
        code = DETACHED
        if isinstance(error, LowwaterError):
            code, told = error.exit_code, error
    request = journal.request(args.approve)
    text = f"queued as run {request.run_id}; follow it with: lowwater run {request.run_id} --wait"
    if told is not None and not args.json:
        output.emit_error(told, as_json=False)
    value = {**request.to_json(utc_now()), **(told.to_json() if told else {})}
    output.emit(value, text, as_json=args.json)
    return code


def _reject(settings: Settings, journal: Journal, args: argparse.Namespace) -> int:
    from dashboard.purge.jobs import approving

    approving.reject(settings, journal, args.reject, who=context.actor(settings))
    request = journal.request(args.reject).to_json(utc_now())
    output.emit(request, f"request {args.reject} is closed; nothing is purged", as_json=args.json)
    return 0
