"""`lowwater delete-records`: Kafka's own tool with its flags, with guards and a journal."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb, add_version
from dashboard.cli.purge.preview import describe
from dashboard.cli.purge.run import follow, told_if_queued
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError, UsageError
from dashboard.core.visible import in_lines
from dashboard.people import people
from dashboard.settings.settings import Settings, read_client_config
from dashboard.store.connections import NOTHING_STORED

if TYPE_CHECKING:
    from dashboard.domain.model import Guard
    from dashboard.purge.jobs.worker_process import ReadyWorker
    from dashboard.purge.journal.rows import PartitionRow, RunView
    from dashboard.purge.plan.drafts import Read
    from dashboard.purge.plan.guards import Lift
    from dashboard.purge.plan.plan import Plan, PlannedPartition
    from dashboard.purge.plan.targets import Target

_ACCEPTED = "accepted by delete-records --yes, or at its question"
_PLACES_SHOWN = 3


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "delete-records",
        description="Takes the offsets file of Kafka's delete-records tool. Guards that may be\n"
        "lifted are printed and asked about; --yes lifts them; the others refuse. What was shown\n"
        "is what is deleted: a -1 is the high watermark of that moment. The purge runs in a\n"
        "worker and is journalled like any other (see lowwater runs).",
        examples=(
            "lowwater delete-records --bootstrap-server h:9092 --offset-json-file o.json",
            "lowwater delete-records --bootstrap-server h:9092 --offset-json-file o.json --yes",
        ),
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="H:P[,…]")
    parser.add_argument(  # Kafka's tool has the first name, KIP-107's text the second
        "--offset-json-file", "--delete-offset-json-file", required=True, metavar="FILE"
    )
    parser.add_argument("--command-config", metavar="FILE", help="a Kafka client.properties")
    parser.add_argument(
        "--leader-only", action="store_true", help="do not wait for followers (needs v3 brokers)"
    )
    parser.add_argument("--timeout-ms", type=int, metavar="N", help="the request's own timeout")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="do not ask; lift what may be lifted, but no-history of a purge from another folder",
    )
    add_version(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, ask, send, wait. Raises UsageError CONFIRMATION_REQUIRED and as plan and apply do."""
    from dashboard.purge.jobs.worker_process import ready_worker
    from dashboard.purge.plan.targets import read_offsets_json

    settings = context.read_settings(args)
    people.require(settings, context.actor(settings), "operator", "purge")
    if args.timeout_ms is not None and not 0 < args.timeout_ms < 2**31:
        raise UsageError(
            f"--timeout-ms {args.timeout_ms} cannot be sent",
            "Give milliseconds from 1 to 2147483647, or leave it out for the settings'.",
            code="TIMEOUT_INVALID",
        )
    file = args.offset_json_file
    target = read_offsets_json(output.read_text(file), file, as_kafka=True)
    if not target.offsets:
        _executing(as_json=args.json)
        nothing = {"run_id": None, "state": "done", "partitions": list[Any]()}
        output.emit(nothing, _text([]), as_json=args.json)
        return 0
    with ready_worker(settings) as worker:
        plan = _confirmed(args, settings, target)
        if not plan.free_partitions:
            return _refused(plan, as_json=args.json)
        return _carry_out(args, settings, plan, worker)


def _carry_out(
    args: argparse.Namespace, settings: Settings, plan: Plan, worker: ReadyWorker
) -> int:
    with context.open_journal(settings) as journal:
        token = secrets.token_hex(16)

        def carried_out() -> int:
            _executing(as_json=args.json)
            run_id = _enqueue(args, settings, journal, plan, worker=worker, token=token)
            view = follow(settings, journal, run_id, output.progress)
            return _show(plan, view, as_json=args.json)

        return told_if_queued(journal, token, carried_out, as_json=args.json)


def _confirmed(args: argparse.Namespace, settings: Settings, target: Target) -> Plan:
    """The plan that was shown and asked about, with every guard lifted that a yes lifts.

    Its targets stay as they were shown: a typed -1 is the high watermark of then, whatever was
    written while the question stood. Raises RefusedError READERS_CHANGED, PLAN_EXPIRED.
    """
    from dashboard.cluster.live import connect
    from dashboard.purge.plan.drafts import PlanRequest, read_live

    file = args.command_config
    config = read_client_config(file, "--command-config") if file else {}
    client = {**config, "bootstrap.servers": args.bootstrap_server}
    store = context.open_store(settings.data)
    with connect(client, settings.broker_timeout) as live:
        reached = context.Target(client, args.cluster, None)
        cluster = context.reached_cluster(store, live.cluster_id(), reached)

        def read(target: Target) -> Read:
            request = PlanRequest((), target, by=settings.operator)
            return read_live(live, settings, cluster, request, now=utc_now())

        facts = read(target)
        guarded = facts.plan(())
        lift = _lifting(guarded, facts.facts.elsewhere, settings.purge.liftable_guards)
        plan = facts.plan(lift)
        if _ask(args, guarded, plan) and plan.free_partitions:
            _still_as_shown(plan, read(_frozen(plan)).plan(lift))
    return plan


def _lifting(guarded: Plan, elsewhere: Guard | None, liftable: Collection[str]) -> list[Lift]:
    from dashboard.purge.plan.guards import Lift

    # A purge from another folder makes its history the one that counts, for policies too: that
    # takes a person's word of its own (lowwater apply), and no yes to records.
    names = {
        guard.name
        for partition in guarded.partitions
        for guard in partition.guards
        if guard != elsewhere
    }
    return [Lift(name, _ACCEPTED) for name in sorted(names & set(liftable))]


def _frozen(plan: Plan) -> Target:
    """The plan's own targets, as an offsets file would name them."""
    from dashboard.purge.plan.targets import Target

    free = plan.free_partitions
    return Target("file", offsets={p.key: p.target_offset or 0 for p in free})


def _still_as_shown(shown: Plan, later: Plan) -> None:
    """A yes lifts what was shown: per partition, for each group as far as it had come, no guard
    more. Raises RefusedError READERS_CHANGED, PLAN_EXPIRED.
    """
    from dashboard.purge.journal import gate

    if shown.expired(later.created_at):
        gate.late(shown)
    now = {partition.key: partition for partition in later.partitions}
    for partition in shown.free_partitions:
        change = _change(partition, now.get(partition.key))
        if change:
            raise RefusedError(
                f"{partition.topic}-{partition.partition} is not as it was shown: {change}",
                "Nothing was deleted. Run it again and look at the guards once more.",
                code="READERS_CHANGED",
            )


def _change(shown: PlannedPartition, now: PlannedPartition | None) -> str | None:
    """What changed so that a yes to `shown` does not cover `now`; None: it does."""
    if now is None or now.topic_id != shown.topic_id:
        return "the topic was made anew or deleted"
    if now.guards:
        return f"{now.guards[0].name}: {now.guards[0].reason}"
    if (now.log_start_offset or 0) < (shown.log_start_offset or 0):
        return f"its log starts at {now.log_start_offset} again, so more records would go"
    return _readers_change(shown, now)


def _readers_change(shown: PlannedPartition, now: PlannedPartition) -> str | None:
    then = {claim.group_id: claim.committed_offset for claim in shown.groups}
    for claim in now.groups:
        if claim.group_id not in then:
            return f"group {claim.group_id} came"
        before, at = then[claim.group_id], claim.committed_offset
        if before is not None and (at is None or at < before):
            return f"group {claim.group_id} was at {before} and is at {at}"
    for found in now.lifted:
        if found not in shown.lifted:
            of = f" of group {found.group_id}" if found.group_id else ""
            return f"{found.name}{of} was not there"
    return None


def _ask(args: argparse.Namespace, guarded: Plan, plan: Plan) -> bool:
    """Show the plan and take a yes; whether a person was asked for it.

    Raises UsageError CONFIRMATION_REQUIRED without one.
    """
    from dashboard.purge.plan.preview import preview

    output.progress(describe(preview(plan, utc_now())))
    for line in _lifted(guarded, plan):
        output.progress(line)
    if args.yes:
        return False
    if sys.stdin is None or not sys.stdin.isatty():
        raise _unconfirmed("there is no terminal to ask")
    sys.stderr.write("delete these records? write yes: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise _unconfirmed("the answer was not yes")
    return True


def _lifted(guarded: Plan, plan: Plan) -> list[str]:
    """Each guard that a yes lifts, in its own words, with where it stands."""
    still = {partition.key: partition.guards for partition in plan.partitions}
    found: dict[tuple[str, str], list[str]] = {}
    for partition in guarded.partitions:
        for guard in partition.guards:
            if guard not in still[partition.key]:
                place = f"{partition.topic}-{partition.partition}"
                found.setdefault((guard.name, guard.reason), []).append(place)
    return [
        f"a yes lifts {name} on {_places(places)}: {reason}"
        for (name, reason), places in sorted(found.items())
    ]


def _places(places: list[str]) -> str:
    more = len(places) - _PLACES_SHOWN
    return ", ".join(places[:_PLACES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _unconfirmed(why: str) -> UsageError:
    return UsageError(
        f"nothing was deleted: {why}",
        "Read the guards above; --yes lifts those that may be lifted.",
        code="CONFIRMATION_REQUIRED",
    )


def _enqueue(
    args: argparse.Namespace,
    settings: Settings,
    journal: Any,
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
        mode="leader-only" if args.leader_only else "wait-all",
        confirm=plan.confirmation,
        sha256=plan.sha256,
        who=context.actor(settings),
        token=token,
        timeout=None if args.timeout_ms is None else timedelta(milliseconds=args.timeout_ms),
        connection=_connection(args),
        worker=worker,
    )


def _connection(args: argparse.Namespace) -> dict[str, str | None]:
    """The worker connects as the plan was read, by these flags alone: an address and a path."""
    config = args.command_config
    return {
        "bootstrap_servers": args.bootstrap_server,
        "client_config": str(Path(config).resolve()) if config else None,
        NOTHING_STORED: "true",
    }


def _show(plan: Plan, view: RunView, *, as_json: bool) -> int:
    """The answer per partition of the file: 2 where one is guarded, or went less far than asked."""
    sent = {row.key: row for row in view.partitions}
    rows = [_row(p, sent.get(p.key)) for p in plan.partitions]
    value: dict[str, object] = {
        "run_id": view.run.run_id,
        "state": view.run.state,
        "partitions": rows,
    }
    if view.run.error is not None:
        value["error"] = dict(view.run.error)
    output.emit(value, _text(rows), as_json=as_json)
    apart = sum(row["low_watermark"] != row["leader_log_start_offset"] for row in rows)
    if apart and not as_json:
        output.progress(
            f"on {apart} of {len(rows)} partitions the leader's log starts elsewhere than the low "
            f"watermark of all replicas: lowwater run {view.run.run_id} shows both"
        )
    as_asked = all(p.free and not p.capped_by for p in plan.partitions)
    return view.exit_code if as_asked else view.exit_code or 2


def _refused(plan: Plan, *, as_json: bool) -> int:
    rows = [_row(p, None) for p in plan.partitions]
    error = RefusedError(
        f"guards that a yes does not lift block all {len(rows)} partitions",
        "Read the guards above; each says what would change it.",
        code="NOTHING_FREE",
    )
    value = {"run_id": None, "state": "refused", "partitions": rows, **error.to_json()}
    _executing(as_json=as_json)
    output.emit(value, _text(rows), as_json=as_json)
    if not as_json:
        output.emit_error(error, as_json=False)
    return error.exit_code


def _row(planned: PlannedPartition, sent: PartitionRow | None) -> dict[str, object]:
    return {
        "topic": planned.topic,
        "partition": planned.partition,
        "low_watermark": sent.low_watermark if sent else None,
        "leader_log_start_offset": sent.leader_log_start_offset if sent else None,
        "error": (sent and sent.error) or planned.kept_by,
    }


def _executing(*, as_json: bool) -> None:
    """The first line of Kafka's own tool, before anything is sent."""
    if not as_json:
        output.emit({}, "Executing records delete operation", as_json=False)


def _text(rows: list[dict[str, object]]) -> str:
    """The further lines of Kafka's own tool, which scripts look for.

    The low watermark may still be the old one: of a leader-only purge, or behind a follower.
    """
    lines = ["Records delete operation completed:"]
    for row in rows:
        said = f"low_watermark: {output.cell(row['low_watermark'])}"
        if row["error"]:  # beside what went: a replay window may have lowered the offset
            gone = "" if row["low_watermark"] is None else f"\t{said}"
            said = f"error: {row['error']}{gone}"
        lines.append(f"partition: {row['topic']}-{row['partition']}\t{said}")
    return in_lines(lines)
