"""The public Python calls: what notebooks and scripts may do without the command line.

They stand above it, since they take its own way: plan, guards, journal, worker.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.purge.run import follow
from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError
from dashboard.people import people
from dashboard.settings.settings import Settings, load, read_client_config
from dashboard.store.connections import NOTHING_STORED

if TYPE_CHECKING:
    from dashboard.purge.journal.journal import Journal
    from dashboard.purge.journal.rows import PartitionRow, RunView
    from dashboard.purge.plan.plan import Plan, PlannedPartition

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """What became of one partition, as KIP-1343 has it. `error` is None where all that was asked
    for is done: wait-all, on every live replica. Else it is a broker's, the name of the guard that
    kept it or of what lowered its offset (`replay-window`), or the state that it was left in.

    `leader_log_start_offset` is what the leader showed when it was read afterwards.
    """

    low_watermark: int | None
    leader_log_start_offset: int | None
    error: str | None


def delete_records(
    offsets: Mapping[Partition, int],
    *,
    bootstrap_servers: str,
    client_config: str | None = None,
    cluster: str | None = None,
    leader_only: bool = False,
    timeout: timedelta | None = None,
    override: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = output.progress,
) -> dict[Partition, DeletedRecords]:
    """Delete the records before these offsets (-1: the high watermark now), and wait.

    A purge as any other: planned, guarded, journalled, sent by a worker. A partition that a guard
    keeps has its name as `error`, and nothing is sent to it; `override` lifts guards by NAME or
    NAME:GROUP, each with a reason that the journal keeps, as `plan --override` does. `cluster`
    names one of the data folder. Raises LowwaterError where nothing is queued; one that comes
    later, or an interrupt, bears a note of the run that goes on.
    """
    settings = load()
    people.require(settings, context.actor(settings), "operator", "purge")
    config = read_client_config(client_config) if client_config else {}
    client = {**config, "bootstrap.servers": bootstrap_servers}
    plan = _planned(settings, offsets, context.Target(client, cluster, None), override or {})
    view = None
    if plan.free_partitions:
        view = _carried_out(
            settings, plan, bootstrap_servers, client_config,
            leader_only=leader_only, timeout=timeout, progress=progress,
        )  # fmt: skip
    sent = {row.key: row for row in view.partitions} if view else {}
    mode = _mode(leader_only)
    return {(p.topic, p.partition): _became(p, sent.get(p.key), mode) for p in plan.partitions}


def _mode(leader_only: bool) -> str:
    return "leader-only" if leader_only else "wait-all"


def _became(planned: PlannedPartition, row: PartitionRow | None, mode: str) -> DeletedRecords:
    from dashboard.purge.journal.rows import good

    if row is None:
        return DeletedRecords(None, None, planned.kept_by)
    # There is no exit code beside it: who asks for the error alone takes None for all.
    left = None if row.state in good(mode) else row.state
    error = row.error or left or planned.kept_by
    return DeletedRecords(row.low_watermark, row.leader_log_start_offset, error)


def _planned(
    settings: Settings,
    offsets: Mapping[Partition, int],
    reached: context.Target,
    override: Mapping[str, str],
) -> Plan:
    from dashboard.cluster.live import connect
    from dashboard.purge.plan.drafts import PlanRequest, read_live
    from dashboard.purge.plan.guards import Lift
    from dashboard.purge.plan.targets import read_offsets_json

    rows = [{"topic": t, "partition": p, "offset": o} for (t, p), o in sorted(offsets.items())]
    target = read_offsets_json(json.dumps({"version": 1, "partitions": rows}), "offsets")
    store = context.open_store(settings.data)
    with connect(reached.client, settings.broker_timeout) as live:
        known = context.reached_cluster(store, live.cluster_id(), reached)
        request = PlanRequest((), target, by=settings.operator)
        facts = read_live(live, settings, known, request, now=utc_now())
        return facts.plan([Lift.named(named, reason) for named, reason in sorted(override.items())])


def _carried_out(
    settings: Settings,
    plan: Plan,
    bootstrap_servers: str,
    client_config: str | None,
    *,
    leader_only: bool,
    timeout: timedelta | None,
    progress: Callable[[str], None],
) -> RunView:
    from dashboard.purge.jobs.queue import enqueue

    with context.open_journal(settings) as journal:
        token, run_id = secrets.token_hex(16), None
        try:
            run_id = enqueue(
                settings, journal, plan, mode=_mode(leader_only),
                confirm=plan.confirmation, sha256=plan.sha256, who=context.actor(settings),
                token=token, timeout=timeout,
                connection={
                    "bootstrap_servers": bootstrap_servers,
                    "client_config": str(Path(client_config).resolve()) if client_config else None,
                    NOTHING_STORED: "true",
                },
            )  # fmt: skip
            return follow(settings, journal, run_id, progress)
        except BaseException as error:  # what was queued goes on, whoever stopped waiting for it
            if (note := _goes_on(journal, run_id, token)) is not None:
                error.add_note(note)
            raise


def _goes_on(journal: Journal, run_id: str | None, token: str) -> str | None:
    """What to know of the run; None where none was queued. It may be, before its id was told: its
    worker could not be started, or an interrupt came in between.
    """
    try:
        run_id = run_id or journal.queued_as(token)
    except JournalError as error:
        return f"whether a run was queued cannot be told ({error.message}); see: lowwater runs"
    return f"run {run_id} goes on; see: lowwater run {run_id} --wait" if run_id else None
