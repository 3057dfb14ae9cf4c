"""The gate of a run, when a purge of each partition last began, and which runs sent.

All of it happens inside the transaction that queues the run or records a request: of two services,
two machines' clocks or two threads, the database lets one in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn

from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import RefusedError
from dashboard.purge.evidence.estimates import most_freed
from dashboard.purge.journal.policies import PolicyClaim, PolicyState, lease_of, state_of
from dashboard.purge.journal.reads import JournalReads
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.journal.tables import partition_row
from dashboard.purge.plan.plan import Plan

_LATER_START = """
INSERT INTO partition_starts VALUES (?,?,?,?,?)
ON CONFLICT (cluster_id, topic, partition) DO UPDATE
  SET started_at = excluded.started_at, run_id = excluded.run_id
  WHERE excluded.started_at > partition_starts.started_at
"""
# Policies' runs that an earlier version queued have no row yet.
_LATER_SENT = """
INSERT INTO run_budgets SELECT run_id, 0, ?, NULL FROM run_policies WHERE run_id=?
ON CONFLICT (run_id) DO UPDATE SET sent_at = excluded.sent_at
  WHERE run_budgets.sent_at IS NULL OR excluded.sent_at > run_budgets.sent_at
"""


def admit(
    db: sqlite3.Connection,
    plan: Plan,
    rows: Iterable[PartitionRow],
    claim: PolicyClaim,
    now: datetime,
) -> None:
    """Raises RefusedError LEADER_LOST, POLICY_OFF, POLICY_CHANGED, SERVICE_SILENT,
    POLICY_TAKEN_OUT or TOO_SOON.
    """
    _refuse_lost(db, plan, claim, now)
    state = state_of(db, plan.cluster_id, claim.name)
    refuse_off(state, claim.name, claim.definition_sha256, plan.cluster_name)
    wanted = {(row.topic, row.partition) for row in rows}
    for topic in sorted({topic for topic, _ in wanted}):
        # Text compares as time does; one that lies in the future is too soon as well.
        after = format_time(now - claim.interval)
        found = db.execute(
            "SELECT partition, started_at, run_id FROM partition_starts "
            "WHERE cluster_id=? AND topic=? AND started_at>? ORDER BY partition",
            (plan.cluster_id, topic, after),
        )
        for start in found:
            if (topic, start["partition"]) in wanted:
                _refuse_early(topic, start, claim.interval, now)


def keep(
    db: sqlite3.Connection,
    run_id: str,
    plan: Plan,
    rows: Iterable[PartitionRow],
    *,
    claim: PolicyClaim,
    now: datetime,
) -> None:
    """Note which policy a run is of, and what it takes from the policy's budget: the most."""
    wanted = {row.key for row in rows}
    sizes = [most_freed(p) for p in plan.partitions if p.key in wanted]
    known = [size for size in sizes if size is not None]
    db.execute(
        "INSERT INTO run_policies VALUES (?,?,?,?,?,?,?)",
        (run_id, plan.cluster_id, claim.name, claim.definition_sha256, format_time(now),
         len(sizes), sum(known)),
    )  # fmt: skip
    db.execute("INSERT INTO run_budgets VALUES (?,?,NULL,NULL)", (run_id, len(sizes) - len(known)))


def started(
    db: sqlite3.Connection,
    run_id: str,
    cluster_id: str,
    rows: Iterable[PartitionRow],
    now: datetime,
) -> None:
    """A purge of these partitions begins now, or began when it was sent; the later one counts."""
    db.executemany(
        _LATER_START,
        [(cluster_id, r.topic, r.partition, format_time(r.sent_at or now), run_id) for r in rows],
    )


def sent(db: sqlite3.Connection, run_id: str, rows: Iterable[PartitionRow], now: datetime) -> None:
    """The same for those of a run's rows that say: a request is about to leave.

    A policy's budget counts from here too: between queueing and sending may lie most of an hour.
    """
    leaving = [row for row in rows if row.state == "sent"]
    if leaving:
        run = db.execute("SELECT cluster_id FROM runs WHERE run_id=?", (run_id,)).fetchone()
        started(db, run_id, run["cluster_id"], leaving, now)
        last = format_time(max(row.sent_at or now for row in leaving))
        db.execute(_LATER_SENT, (last, run_id))


def freed(db: sqlite3.Connection, run_id: str, freed_bytes: int | None) -> None:
    """What a receipt measured: where it is more than was predicted at most, the budget has it."""
    if freed_bytes is not None:
        db.execute("UPDATE run_budgets SET freed_bytes=? WHERE run_id=?", (freed_bytes, run_id))


def _refuse_lost(db: sqlite3.Connection, plan: Plan, claim: PolicyClaim, now: datetime) -> None:
    held = lease_of(db, plan.cluster_id)
    if held is not None and held.holder == claim.holder and held.alive(now):
        return
    if held is None or held.holder == claim.holder:
        who = "nobody does: the lease expired" if held else "nobody does"
    else:
        who = f"process {held.pid} on {held.host} does"
    raise RefusedError(
        f"this service no longer carries out the policies of {plan.cluster_name}; {who}",
        "Nothing was queued. The service that holds the lease goes on; see: lowwater policies "
        "check.",
        code="LEADER_LOST",
    )


def refuse_off(
    state: PolicyState | None, name: str, definition_sha256: str | None, cluster_name: str
) -> None:
    """POLICY_OFF or POLICY_CHANGED: the last switch of a policy is not on for this definition.
    SERVICE_SILENT, POLICY_TAKEN_OUT: it is, but waits for a person.
    """
    if state is None or not state.enabled:
        raise RefusedError(
            f"policy {name} is off on {cluster_name}",
            f"Switch it on with: lowwater policies on {name}.",
            code="POLICY_OFF",
        )
    if state.definition_sha256 != definition_sha256:
        raise RefusedError(
            f"policy {name} is not the one that was switched on {cluster_name}: "
            "its definition changed",
            f"Read it again, then confirm it with: lowwater policies on {name}.",
            code="POLICY_CHANGED",
        )
    if state.hold is not None:
        raise RefusedError(
            f"policy {name} is held on {cluster_name}: {state.hold.why}",
            f"{state.hold.ask.capitalize()}, then confirm it again with: lowwater policies on "
            f"{name}.",
            code="SERVICE_SILENT" if state.hold.by_silence else "POLICY_TAKEN_OUT",
        )


def late(plan: Plan, longest: timedelta | None = None) -> NoReturn:
    """PLAN_EXPIRED; `longest` is how long the settings let a plan live."""
    ends = plan.expires_at if longest is None else min(plan.expires_at, plan.created_at + longest)
    raise RefusedError(
        f"plan {plan.plan_id} expired at {ends:%Y-%m-%d %H:%M:%S} UTC",
        "Plan again: what it saw may have changed.",
        code="PLAN_EXPIRED",
    )


def switched_off(journal: JournalReads) -> str | None:
    """That an approver did it, if one did."""
    return "an approver switched every purge off, in the journal" if journal.read_only() else None


def _refuse_early(topic: str, start: sqlite3.Row, interval: timedelta, now: datetime) -> None:
    at = parse_time(start["started_at"])
    ahead = "; that is ahead of this machine's clock, which may have stepped back"
    raise RefusedError(
        f"a purge of {topic}-{start['partition']} began at {start['started_at']}, as run "
        f"{start['run_id']}" + ahead * (at > now),
        f"The next may begin at {format_time(at + interval)}.",
        code="TOO_SOON",
    )


# Which purges this journal's runs sent, period by period: cheap to ask over many thousand runs.

# A body is unpacked for the newest run of each partition and period alone: SQLite takes the other
# columns of a group from the row that has its max().
_SQL = """
WITH own AS MATERIALIZED (
  SELECT run_id, queued_at,
    (SELECT count(*) FROM json_each(?) WHERE value < queued_at) AS period
  FROM runs WHERE cluster_id = ? AND queued_at >= ?
)
SELECT p.topic, p.partition, p.body, max(own.queued_at) AS newest, count(*) AS purges
FROM own JOIN run_partitions p ON p.run_id = own.run_id
WHERE substr(p.topic, ?) = ? AND p.state IN ('sent', 'unknown', 'done', 'leader_done', 'reverted')
GROUP BY p.topic, p.partition, own.period
ORDER BY newest, p.topic, p.partition
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """The last of `purges` of one partition in one period: records below the target were to go."""

    topic: str
    partition: int
    target_offset: int
    sent_at: datetime
    purges: int


def sent_between(
    journal: JournalReads, cluster_id: str, suffix: str, times: Sequence[datetime]
) -> list[Sent]:
    """What runs queued since the first of these times sent to topics whose name ends so.

    A period lies between two of the times, or after the last. Oldest first. What was refused, or
    is known to have changed nothing, is left out.
    """
    texts = [format_time(time) for time in times]
    rows = journal.file.rows(_SQL, json.dumps(texts), cluster_id, texts[0], -len(suffix), suffix)
    found = []
    for row in rows:
        last = partition_row(row)
        if last.sent_at is not None:
            one = (last.topic, last.partition, last.target_offset, last.sent_at, row["purges"])
            found.append(Sent(*one))
    return found
