"""`lowwater run RUN_ID`: one purge run; waits for it, pauses, resumes or cancels it."""

from __future__ import annotations

import argparse
import shlex
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.cli.purge import preview
from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import JournalError, LowwaterError, UsageError
from dashboard.core.visible import in_lines
from dashboard.core.words import plural
from dashboard.purge.forecast import waits
from dashboard.purge.receipt.alerts import (
    arrived_said,
    behind_said,
    reverted_said,
    reverted_topics,
)
from dashboard.purge.receipt.receipt import on_disk_said
from dashboard.settings.settings import Settings
from dashboard.views.archive_texts import archive_said

if TYPE_CHECKING:
    from dashboard.purge.journal.journal import Journal
    from dashboard.purge.journal.rows import PartitionRow, RunView
    from dashboard.purge.receipt.model import Receipt

_POLL = timedelta(milliseconds=500)
DETACHED = 130


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "run",
        description="Shows one purge run: each partition's state and the receipt. While the run\n"
        "is open the exit code is 0; once closed it tells how it went.\n"
        "--dismiss ends the alert of records that came back, for where no later purge can: the\n"
        "topic was deleted, or made anew. It asks for your word alone; the journal keeps it.",
        examples=(
            "lowwater run 20260301T040000-1a2b3c4d",
            "lowwater run 20260301T040000-1a2b3c4d --wait --json",
            "lowwater run 20260301T040000-1a2b3c4d --cancel    # what is not yet sent stays",
            'lowwater run 20260301T040000-1a2b3c4d --dismiss "topic orders was deleted"',
        ),
    )
    parser.add_argument("run_id", metavar="RUN_ID", help="as apply and runs print it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--wait", action="store_true", help="until the run is closed")
    what.add_argument("--pause", action="store_true", help="send nothing more for now")
    what.add_argument("--resume", action="store_true", help="go on after a pause")
    what.add_argument("--cancel", action="store_true", help="leave out what is not yet sent")
    what.add_argument("--dismiss", metavar="WHY", help="end its alert of records that came back")
    parser.add_argument(
        "--receipt", action="store_true", help="with --wait: until the receipt is final, too"
    )


def run(args: argparse.Namespace) -> int:
    """Print the run. Raises UsageError RUN_NOT_FOUND, RefusedError RUN_CLOSED, NO_ALERT or
    ROLE_TOO_LOW, JournalError.
    """
    if args.receipt and not args.wait:
        raise UsageError("--receipt goes with --wait", "Write: --wait --receipt.")
    settings = context.read_settings(args)
    with context.open_journal(settings) as journal:
        journal.run(args.run_id)
        if args.dismiss is not None:
            return _dismiss(args, settings, journal)
        _wish(args, settings, journal)
        view = journal.run(args.run_id)
        try:
            if args.wait:
                view = follow(settings, journal, args.run_id, output.progress, receipt=args.receipt)
        except KeyboardInterrupt:
            return detached(journal.run(args.run_id), as_json=args.json)
    return show(view, as_json=args.json)


def follow(
    settings: Settings,
    journal: Journal,
    run_id: str,
    progress: Callable[[str], None],
    *,
    receipt: bool = False,
) -> RunView:
    """The run once it is closed; every change on the way is told as one line."""
    from dashboard.purge.jobs.queue import wait

    told = ""
    while True:
        view = wait(settings, journal, run_id, timeout=_POLL, for_receipt=receipt)
        now = line(view)
        if now != told:
            progress(f"run {run_id}: {now}")
            told = now
        if not view.run.open and (not receipt or _receipt_settled(view)):
            return view


def show(view: RunView, *, as_json: bool) -> int:
    """Print the run; the exit code is 0 while it is open, else how it went."""
    output.emit(view.to_json(), describe(view), as_json=as_json)
    return 0 if view.run.open else view.exit_code


def told_if_queued(
    journal: Journal, token: str, carried_out: Callable[[], int], *, as_json: bool
) -> int:
    """The exit code of `carried_out`, which queues a run under `token` and waits for it.

    Ctrl-C, or an error, ends the waiting alone once it is queued, and the run is told with it; as
    long as nothing is, both pass through. They may come when the journal has the run already, and
    its id has not been told yet: its worker could not be started.
    """
    try:
        return carried_out()
    except (KeyboardInterrupt, LowwaterError) as error:
        with suppress(JournalError):  # then the first error is the one to tell
            if (run_id := journal.queued_as(token)) is not None:
                view = journal.run(run_id)
                if isinstance(error, KeyboardInterrupt):
                    return detached(view, as_json=as_json)
                return _stopped_waiting(view, error, as_json=as_json)
        raise


def _stopped_waiting(view: RunView, error: LowwaterError, *, as_json: bool) -> int:
    if as_json:
        output.emit({**view.to_json(), **error.to_json()}, "", as_json=True)
    else:
        output.emit_error(error, as_json=False)
        output.progress(f"run {view.run.run_id} is queued all the same ({line(view)})")
    return error.exit_code


def detached(view: RunView, *, as_json: bool) -> int:
    """Ctrl-C ended the waiting alone; say so, and how to come back."""
    run_id = view.run.run_id
    message = f"no longer waiting for run {run_id} ({line(view)}); its worker goes on"
    step = f"lowwater run {run_id} --wait to wait again, --pause or --cancel to stop it."
    if as_json:
        error = {"code": "DETACHED", "message": message, "next": step}
        output.emit({**view.to_json(), "error": error}, "", as_json=True)
    else:
        output.progress(in_lines([message, f"next: {step}"]))
    return DETACHED


def _receipt_settled(view: RunView) -> bool:
    """Final, or never to come: watching has an end, and a run that sent nothing has none."""
    from dashboard.core.clock import utc_now

    until = view.run.watched_until
    return view.run.receipt_final or until is None or utc_now() >= until


def _dismiss(args: argparse.Namespace, settings: Settings, journal: Journal) -> int:
    """0 once it is ended, however the run went."""
    from dashboard.core.clock import utc_now
    from dashboard.people import people
    from dashboard.purge.receipt import alerts

    run_id, role = args.run_id, people.deciding_role(settings)
    what = f"dismiss the alert of run {run_id}"
    who = people.require(settings, context.actor(settings), role, what)
    count = alerts.dismiss(
        journal, run_id, who=who, from_where=socket.gethostname(), why=args.dismiss, now=utc_now()
    )
    said = {"who": who, "why": args.dismiss.strip(), "partitions": count}
    text = f"the alert of run {run_id} is ended: {plural(count, 'partition')}"
    output.emit({**journal.run(run_id).to_json(), "dismissed": said}, text, as_json=args.json)
    return 0


def _wish(args: argparse.Namespace, settings: Settings, journal: Journal) -> None:
    from dashboard.purge.jobs import queue

    who = context.actor(settings)
    if args.pause:
        queue.request_pause(settings, journal, args.run_id, who)
    elif args.resume:
        queue.request_resume(settings, journal, args.run_id, who)
    elif args.cancel:
        queue.request_cancel(settings, journal, args.run_id, who)


# A purge run as people read it: its state, its partitions, and what came back on disk.

_COLUMNS = (
    "topic", "partition", "target_offset", "state", "low_watermark", "leader_log_start_offset",
    "error", "followers_behind",
)  # fmt: skip


def describe(view: RunView) -> str:
    """Text for the object of `apply` and `run`."""
    run = view.run
    lines = [
        f"run {run.run_id} ({run.mode}): {line(view)}",
        output.table([row.to_json() for row in view.partitions], _COLUMNS),
        *after(view),
        *([said] if (said := archive_said(run)) else []),
        *_messages(view.partitions),
        *preview.made_moves(view.moves),
        *waited(run.receipt),
        receipt(
            run.receipt,
            view.partitions,
            over=run.watched_until is not None and utc_now() >= run.watched_until,
        ),
    ]
    if run.error is not None:
        lines += [f"error: {run.error['message']}", f"next: {run.error['next']}"]
    return in_lines(lines)


def line(view: RunView) -> str:
    """State and counts in one line, as progress shows it."""
    counts = ", ".join(f"{count} {state}" for state, count in view.counts.items())
    said = archive_said(view.run) if view.run.open else ""
    told = f"{view.run.outcome}: {counts}" if counts else view.run.outcome
    return f"{told}; {said}" if said else told


def after(view: RunView) -> list[str]:
    """What came back, who followed, who is behind and how fast it closes, until when that is
    watched.
    """
    partitions = view.partitions
    back = reverted_said(partitions)
    lines = [f"ALERT, reverted: {said}" for said in back]
    if back:
        topics = " ".join(f"--topic {shlex.quote(topic)}" for topic in reverted_topics(partitions))
        lines.append(f"next: lowwater plan {topics} --to committed --out again.json")
    lines += arrived_said(partitions) + behind_said(partitions)
    until = view.run.watched_until
    if "leader_done" in view.counts and until:
        lines.append(
            f"watching ended at {format_time(until)}; what is behind then is not followed"
            if until <= utc_now()
            else f"watched until {format_time(until)}; each becomes done when its replicas have "
            "arrived; one that is elected leader before that brings the records back"
        )
    return lines


def receipt(
    found: Receipt | None, partitions: Iterable[PartitionRow], *, over: bool = False
) -> str:
    """Predicted against freed bytes, or that it is not known yet; whether watching is `over`."""
    if found is None:
        return "receipt: not known yet"
    state = "final" if found.final else "not final: watching ended" if over else "so far"
    gap = f"; {found.gap}" if found.gap else ""
    durable = f"; {told}" if (told := on_disk_said(found, partitions)) else ""
    return (
        f"receipt ({state}): predicted {output.size(found.predicted_bytes)}, "
        f"freed {output.size(found.freed_bytes)}{gap}{durable}"
    )


def waited(found: Receipt | None) -> list[str]:
    """How long answers took against the forecast that was made just before sending."""
    told = waits.said(found.waits) if found else None
    return [f"waits: {told}"] if told else []


def _messages(partitions: Iterable[PartitionRow]) -> list[str]:
    said = {p.message for p in partitions if p.message}
    return [f"because: {message}" for message in sorted(said)]
