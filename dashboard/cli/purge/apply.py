"""`lowwater apply PLAN`: queues a confirmed plan and waits until its run is closed."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_reached, add_verb
from dashboard.cli.purge.run import follow, show, told_if_queued
from dashboard.core.clock import parse_duration
from dashboard.core.errors import ApprovalRequired, RefusedError, UsageError
from dashboard.settings.settings import Settings

if TYPE_CHECKING:
    from dashboard.purge.jobs.worker_process import ReadyWorker
    from dashboard.purge.journal.journal import Journal
    from dashboard.purge.plan.plan import Plan, PlannedPartition


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "apply",
        description="Queues the free partitions of a plan and waits until their run closes.\n"
        "All guards are judged again on the live cluster before anything is sent; those about\n"
        "the moment (under-replicated, reassigning, …) are waited out while the run may wait.\n"
        "Ctrl-C ends the waiting, not the purge: its worker goes on, and lowwater run shows\n"
        "and cancels it.",
        examples=(
            'lowwater apply plan.json --mode wait-all --confirm "purge orders on prod"',
            'lowwater apply plan.json --mode leader-only-verified --confirm "…" --timeout 5s',
        ),
    )
    parser.add_argument("plan", metavar="PLAN", help="a file written by lowwater plan")
    parser.add_argument(
        "--mode",
        required=True,
        metavar="MODE",
        help="wait-all, leader-only (native v3) or leader-only-verified (v2, then read back)",
    )
    parser.add_argument(
        "--confirm", required=True, metavar="TEXT", help="the sentence that preview prints"
    )
    parser.add_argument("--sha256", metavar="HEX", help="refuse any plan but the one previewed")
    parser.add_argument(
        "--timeout", metavar="30s", help="the request's own timeout; else the settings'"
    )
    parser.add_argument(
        "--canary", action="store_true", help="send one partition first, the rest if it is done"
    )
    add_reached(parser)


def run(args: argparse.Namespace) -> int:
    """Queue, wait, print the run. Raises UsageError, PlanError, StoreError, JournalError."""
    from dashboard.purge.jobs.worker_process import ready_worker
    from dashboard.purge.plan.plan import Plan

    settings = context.read_settings(args)
    with ready_worker(settings) as worker:
        try:
            plan = Plan.from_json_text(output.read_text(args.plan), args.plan)
        except RefusedError as error:  # what it says of partitions is not to be repeated
            return _told(args, _nothing_sent(args, None), error)
        _check_cluster(args, settings, plan)
        return _apply(args, settings, plan, worker)


def _apply(args: argparse.Namespace, settings: Settings, plan: Plan, worker: ReadyWorker) -> int:
    with context.open_journal(settings) as journal:
        token = secrets.token_hex(16)

        def carried_out() -> int:
            try:
                run_id = _enqueue(args, settings, journal, plan, worker=worker, token=token)
            except RefusedError as error:
                return _refused(args, journal, plan, error)
            output.progress(f"run {run_id}: queued")
            view = follow(settings, journal, run_id, output.progress)
            return show(view, as_json=args.json)

        return told_if_queued(journal, token, carried_out, as_json=args.json)


def _enqueue(
    args: argparse.Namespace,
    settings: Settings,
    journal: Journal,
    plan: Plan,
    *,
    worker: ReadyWorker,
    token: str,
) -> str:
    from dashboard.purge.jobs.queue import enqueue

    return enqueue(
        settings,
        journal,
        plan,
        mode=args.mode,
        confirm=args.confirm,
        sha256=args.sha256,
        who=context.actor(settings),
        token=token,
        timeout=parse_duration(args.timeout) if args.timeout else None,
        canary=args.canary,
        connection=context.connection_of(args),
        worker=worker,
    )


def _check_cluster(args: argparse.Namespace, settings: Settings, plan: Plan) -> None:
    """The data folder must know the plan's cluster: its worker connects from there."""
    if args.cluster not in (None, plan.cluster_id, plan.cluster_name):
        raise UsageError(
            f"{args.plan} is a plan for {plan.cluster_name} ({plan.cluster_id}), "
            f"not for {args.cluster}",
            "Leave --cluster out, or choose a plan for that cluster.",
            code="CLUSTER_MISMATCH",
        )
    context.open_store(settings.data).cluster(plan.cluster_id)


def _refused(args: argparse.Namespace, journal: Journal, plan: Plan, error: RefusedError) -> int:
    """Nothing was queued: the run that did it before, or each partition as not done."""
    earlier = next((r.run_id for r in journal.runs() if r.plan_sha256 == plan.sha256), None)
    if earlier is not None:
        value = journal.run(earlier).to_json()
    else:
        rows = [_not_sent(p, error) for p in plan.partitions]
        value = _nothing_sent(args, plan.plan_id, rows)
    if isinstance(error, ApprovalRequired):
        value["request_id"] = error.request_id
    return _told(args, value, error)


def _nothing_sent(
    args: argparse.Namespace, plan_id: str | None, rows: Sequence[dict[str, object]] = ()
) -> dict[str, object]:
    """With the keys of a run."""
    return {
        "run_id": None,
        "state": "refused",
        "mode": args.mode,
        "plan_id": plan_id,
        "watched_until": None,
        "counts": {"not_done": len(rows)} if rows else {},
        "partitions": list(rows),
        "moves": [],
        "receipt": None,
    }


def _told(args: argparse.Namespace, value: dict[str, object], error: RefusedError) -> int:
    if args.json:
        output.emit({**value, **error.to_json()}, "", as_json=True)
    else:
        output.emit_error(error, as_json=False)
    return error.exit_code


def _not_sent(planned: PlannedPartition, error: RefusedError) -> dict[str, object]:
    """With the keys of a partition of a run; a guarded one may have no target."""
    from dashboard.purge.journal.rows import PartitionRow

    why = planned.guards[0].name if planned.guards else error.code
    row = PartitionRow(
        planned.topic, planned.partition, planned.target_offset or 0, "not_done", error=why
    )
    return {**row.to_json(), "target_offset": planned.target_offset}
