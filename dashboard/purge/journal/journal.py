"""The journal: runs, their partitions, what waits for a second person, and the chain of it all.

Intent is written before a request leaves, outcome after; one run at most is open per cluster and
topic. Exclusion holds within one state folder (`state_dir`), not between two machines.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import RefusedError, UsageError
from dashboard.purge.jobs.requests import Approval, Asked, PurgeRequest, refuse_closed
from dashboard.purge.journal import gate
from dashboard.purge.journal.alerts import JournalAlerts
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.links import append
from dashboard.purge.journal.pack import pack, readable, unpack
from dashboard.purge.journal.policies import JournalPolicies, PolicyClaim
from dashboard.purge.journal.reads import JournalReads
from dashboard.purge.journal.rows import OPEN_RUN_STATES, Options, PartitionRow
from dashboard.purge.journal.tables import (
    put,
    put_moves,
    refuse_again,
    refuse_busy,
    targets_of,
)
from dashboard.purge.journal.wishes import JournalWishes
from dashboard.purge.plan.moves import MoveRow, planned_moves
from dashboard.purge.plan.plan import Plan, decisions
from dashboard.purge.receipt.model import KeptRecords, Receipt, Sample
from dashboard.settings.settings import Settings

# What the journal keeps of requests: purges that somebody asked for and a second person decides.
#
# Whether a request still stands is the database's answer: it is used up in the transaction that
# queues its run, so that of two approvers, or an approval and a rejection, one counts.

# Without the plan: that of many partitions is megabytes, and is read for one request at a time.
_HEAD = """request_id, token, plan_id, plan_sha256, cluster_id, cluster_name, mode, requester, how,
  role_values, from_where, typed, options, connection, asked_at, expires_at, state, decided_by,
  decided_at, run_id"""


class JournalRequests(JournalReads):
    """Requests and their decisions, each a link of the chain."""

    def ask(self, plan: Plan, asked: Asked, now: datetime) -> PurgeRequest:
        """Keep a request; the same click, or the same plan while it waits, gives the one there is.

        Raises RefusedError PLAN_ALREADY_APPLIED, and REQUEST_OPEN where the one that waits is
        to be carried out otherwise.
        """
        request_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        with self.file.write() as db:
            ran = db.execute("SELECT run_id FROM runs WHERE plan_sha256=?", (plan.sha256,))
            if (run := ran.fetchone()) is not None:
                refuse_again(plan, run["run_id"])
            known = db.execute(
                f"SELECT {_HEAD} FROM purge_requests WHERE token=? OR "
                "(plan_sha256=? AND mode=? AND state='asked' AND expires_at>?)",
                (asked.token, plan.sha256, asked.mode, format_time(now)),
            ).fetchone()
            if known:
                return _same(_request(known), asked)
            db.execute(
                f"INSERT INTO purge_requests VALUES ({','.join('?' * 21)})",
                _values(request_id, plan, asked, now),
            )
            append(db, None, "asked", _said(request_id, plan, asked), now)
        return self.request(request_id)

    def reject(self, request_id: str, who: str, from_where: str, now: datetime) -> None:
        """Close a request without a run. Raises RefusedError REQUEST_CLOSED."""
        with self.file.write() as db:
            _close(db, request_id, "rejected", who, now)
            body = {"request_id": request_id, "who": who, "from_where": from_where}
            append(db, None, "rejected", body, now)

    def request(self, request_id: str) -> PurgeRequest:
        """One request. Raises UsageError REQUEST_NOT_FOUND."""
        found = self.file.rows(f"SELECT {_HEAD} FROM purge_requests WHERE request_id=?", request_id)
        if not found:
            raise UsageError(
                f"the journal knows no request {request_id}",
                "List them with: lowwater approvals.",
                code="REQUEST_NOT_FOUND",
            )
        return _request(found[0])

    def requests(self, cluster_id: str | None = None) -> list[PurgeRequest]:
        """All requests, or those of one cluster, newest first."""
        rows = self.file.rows(
            f"SELECT {_HEAD} FROM purge_requests WHERE cluster_id=? OR ? IS NULL "
            "ORDER BY rowid DESC",
            cluster_id, cluster_id,
        )  # fmt: skip
        return [_request(row) for row in rows]

    def open_requests(self, cluster_id: str, now: datetime) -> list[PurgeRequest]:
        """Those of one cluster that wait for a decision now, oldest first: cheap to ask often."""
        rows = self.file.rows(
            f"SELECT {_HEAD} FROM purge_requests "
            "WHERE cluster_id=? AND state='asked' AND expires_at>? ORDER BY rowid",
            cluster_id, format_time(now),
        )  # fmt: skip
        return [_request(row) for row in rows]

    def requested_plan(self, request_id: str) -> Plan:
        """The plan that was asked for, verified again."""
        sql = "SELECT plan FROM purge_requests WHERE request_id=?"
        row = self.file.rows(sql, request_id)[0]
        return Plan.from_json_text(unpack(row["plan"]), f"the plan of request {request_id}")


def use(db: sqlite3.Connection, approval: Approval, run_id: str, plan: Plan, now: datetime) -> None:
    """Use a request up for this run, inside the transaction that queues it.

    Raises RefusedError REQUEST_CLOSED.
    """
    _close(db, approval.request_id, "approved", approval.approver, now, run_id=run_id)
    body = {
        "request_id": approval.request_id, "who": approval.approver, "how": approval.how,
        "typed": approval.typed, "from_where": approval.from_where, "plan_sha256": plan.sha256,
    }  # fmt: skip
    append(db, run_id, "approved", body, now)


def _same(open_one: PurgeRequest, asked: Asked) -> PurgeRequest:
    """The request that waits, where it asks for the same: what an approver lets through is it."""
    was = open_one.asked
    if was.token == asked.token:
        return open_one
    differs = [
        what
        for what, before, now in (
            ("with other options", was.options, asked.options),
            ("over another connection", was.reached, asked.reached),
        )
        if before != now
    ]
    if not differs:
        return open_one
    raise RefusedError(
        f"request {open_one.request_id} for plan {open_one.plan_id} waits already, asked for by "
        f"{was.requester}; this one is {' and '.join(differs)}",
        f"Reject it first: lowwater approvals --reject {open_one.request_id}",
        code="REQUEST_OPEN",
    )


def _close(
    db: sqlite3.Connection,
    request_id: str,
    state: str,
    who: str,
    now: datetime,
    *,
    run_id: str | None = None,
) -> None:
    sql = f"SELECT {_HEAD} FROM purge_requests WHERE request_id=?"
    refuse_closed(_request(db.execute(sql, (request_id,)).fetchone()), now)
    db.execute(
        "UPDATE purge_requests SET state=?, decided_by=?, decided_at=?, run_id=? "
        "WHERE request_id=?",
        (state, who, format_time(now), run_id, request_id),
    )


def _said(request_id: str, plan: Plan, asked: Asked) -> dict[str, object]:
    return {
        "request_id": request_id, "plan_id": plan.plan_id, "plan_sha256": plan.sha256,
        "cluster_id": plan.cluster_id, "mode": asked.mode, "who": asked.requester,
        "how": asked.how, "typed": asked.typed, "from_where": asked.from_where,
        "expires_at": format_time(asked.expires_at),
        "partitions": [[p.topic, p.partition, p.target_offset] for p in plan.free_partitions],
        **decisions(plan),
    }  # fmt: skip


def _values(request_id: str, plan: Plan, asked: Asked, now: datetime) -> tuple[Any, ...]:
    return (
        request_id, asked.token, plan.plan_id, plan.sha256, pack(plan.to_json_text()),
        plan.cluster_id, plan.cluster_name, asked.mode, asked.requester, asked.how,
        canonical(asked.role_values), asked.from_where, asked.typed,
        canonical(asked.options.to_json()), canonical(asked.connection), format_time(now),
        format_time(asked.expires_at), "asked", None, None, None,
    )  # fmt: skip


@readable
def _request(row: sqlite3.Row) -> PurgeRequest:
    asked = Asked(
        row["token"], row["mode"], row["requester"], row["how"],
        tuple(json.loads(row["role_values"])), row["from_where"], row["typed"],
        Options.of(row["options"]), json.loads(row["connection"]),
        parse_time(row["expires_at"]),
    )  # fmt: skip
    decided = row["decided_at"]
    return PurgeRequest(
        row["request_id"], row["plan_id"], row["plan_sha256"], row["cluster_id"],
        row["cluster_name"], asked, parse_time(row["asked_at"]), row["state"], row["decided_by"],
        parse_time(decided) if decided else None, row["run_id"],
    )  # fmt: skip


def open_default(settings: Settings) -> Journal:
    """The journal of these settings, made if it does not exist. Raises JournalError."""
    return Journal(journal_in(settings.state_dir), on_network=settings.state_dir_on_network)


class Journal(JournalRequests, JournalPolicies, JournalAlerts, JournalWishes):
    """Reads and durable writes; safe between threads and processes of one machine."""

    # -- queueing

    def insert(
        self,
        plan: Plan,
        *,
        token: str,
        mode: str,
        who: str,
        from_where: str,
        typed: str,
        options: Options,
        connection: Mapping[str, str | None],
        now: datetime,
        policy: PolicyClaim | None = None,
        approval: Approval | None = None,
    ) -> tuple[str, bool]:
        """Queue a run of the plan's free partitions: its id, and False if `token` had made it.

        Raises RefusedError PLAN_ALREADY_APPLIED or TOPIC_BUSY: the database's own uniqueness
        decides, so that racing callers get one run; for a policy's run also what
        `gate.admit` refuses, for an approved one REQUEST_CLOSED or REQUEST_EXPIRED.
        """
        options.all_known("what was asked for")
        run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        run = {
            "run_id": run_id, "token": token, "plan_id": plan.plan_id,
            "plan_sha256": plan.sha256, "plan": pack(plan.to_json_text()),
            "cluster_id": plan.cluster_id, "cluster_name": plan.cluster_name, "mode": mode,
            "state": "queued", "who": who, "from_where": from_where, "typed": typed,
            "options": canonical(options.to_json()), "connection": canonical(connection),
            "queued_at": format_time(now), "heartbeat_at": format_time(now),
        }  # fmt: skip
        rows = [
            PartitionRow(
                p.topic, p.partition, p.target_offset, "pending",
                predicted_bytes=p.estimate.bytes_at_once if p.estimate else None,
            )
            for p in plan.free_partitions
            if p.target_offset is not None
        ]  # fmt: skip
        moves = planned_moves(plan)
        steps = [[m.group_id, *m.key, m.from_offset, m.to_offset] for m in moves]
        with self.file.write() as db:
            told = "SELECT plan_sha256, mode, options, run_id FROM runs WHERE token=?"
            if known := db.execute(told, (token,)).fetchone():
                if any(known[name] != run[name] for name in ("plan_sha256", "mode", "options")):
                    refuse_again(plan, known["run_id"])
                return known["run_id"], False
            if policy is not None:
                gate.admit(db, plan, rows, policy, now)
            self._take(db, plan, run)
            put(db, run_id, rows, new=True)
            put_moves(db, run_id, moves)
            gate.started(db, run_id, plan.cluster_id, rows, now)
            body: dict[str, Any] = {k: v for k, v in run.items() if k not in ("plan", "token")}
            body |= decisions(plan)
            body |= {"partitions": targets_of(rows), **({"moves": steps} if steps else {})}
            if policy is not None:
                gate.keep(db, run_id, plan, rows, claim=policy, now=now)
                body |= {"policy": policy.name, "definition_sha256": policy.definition_sha256}
            if approval is not None:
                use(db, approval, run_id, plan, now)
                body |= {"approved_by": approval.approver, "request_id": approval.request_id}
            append(db, run_id, "queued", body, now)
        return run_id, True

    def _take(self, db: sqlite3.Connection, plan: Plan, run: Mapping[str, str]) -> None:
        known = db.execute("SELECT run_id FROM runs WHERE plan_sha256=?", (plan.sha256,)).fetchone()
        if known:
            refuse_again(plan, known["run_id"])
        columns = ",".join(run)
        marks = ",".join("?" * len(run))
        db.execute(f"INSERT INTO runs ({columns}) VALUES ({marks})", tuple(run.values()))
        for topic in sorted({p.topic for p in plan.free_partitions}):
            try:
                db.execute(
                    "INSERT INTO run_topics VALUES (?,?,?,1)",
                    (run["run_id"], plan.cluster_id, topic),
                )
            except sqlite3.IntegrityError:
                refuse_busy(db, plan, topic)

    # -- the worker's writes

    def set_run(
        self,
        run_id: str,
        state: str,
        now: datetime,
        *,
        error: Mapping[str, str] | None = None,
        watched_until: datetime | None = None,
    ) -> None:
        """Enter a state; a closed one frees the run's topics. A run that is closed stays so:
        whoever found it open may be late.
        """
        with self.file.write() as db:
            closed = db.execute("SELECT closed_at FROM runs WHERE run_id=?", (run_id,)).fetchone()
            if state in OPEN_RUN_STATES and closed["closed_at"] is not None:
                return
            db.execute("UPDATE runs SET state=? WHERE run_id=?", (state, run_id))
            # A run that goes on has none; `done` one may become whose follower was away.
            if error is not None or state in ("running", "done"):
                kept = canonical(error) if error else None
                db.execute("UPDATE runs SET error=? WHERE run_id=?", (kept, run_id))
            if state == "running":
                db.execute(
                    "UPDATE runs SET started_at=coalesce(started_at, ?) WHERE run_id=?",
                    (format_time(now), run_id),
                )
            if state not in OPEN_RUN_STATES:
                until = format_time(watched_until or now)
                db.execute(
                    "UPDATE runs SET closed_at=coalesce(closed_at, ?), "
                    "watched_until=coalesce(watched_until, ?), wish=NULL WHERE run_id=?",
                    (format_time(now), until, run_id),
                )
                db.execute("UPDATE run_topics SET open=0 WHERE run_id=?", (run_id,))
                db.execute("DELETE FROM run_claims WHERE run_id=?", (run_id,))
            append(db, run_id, "run", {"state": state, "error": error}, now)

    def record(
        self,
        run_id: str,
        kind: str,
        rows: Iterable[PartitionRow],
        now: datetime,
        **details: Any,
    ) -> None:
        """Store new partition rows and one entry of `kind` with them: intent, answer, read …"""
        with self.file.write() as db:
            _keep(db, run_id, kind, list(rows), now=now, details=details)

    def intend(
        self,
        run_id: str,
        rows: Iterable[PartitionRow],
        now: Callable[[], datetime],
        **details: Any,
    ) -> list[PartitionRow]:
        """Store that a request for these rows is about to leave; the rows with their `sent_at`.

        That is when the write lock is held: others may hold it for half a minute, and the interval
        between two purges of a partition counts from here.
        """
        with self.file.write() as db:
            at = now()
            stored = [replace(row, sent_at=at) for row in rows]
            _keep(db, run_id, "intent", stored, now=at, details=details)
        return stored

    def note(self, run_id: str, rows: Iterable[PartitionRow]) -> None:
        """Store how far followers have come; no entry, since no state changed."""
        with self.file.write() as db:
            put(db, run_id, rows, new=False)

    def note_archive(
        self, run_id: str, kept: KeptRecords, *, kind: str | None = None, **details: Any
    ) -> None:
        """Store how far a run's archive is; with a `kind` an entry of the chain tells it, too."""
        body = kept.to_json()
        with self.file.write() as db:
            row = (run_id, canonical(body))
            db.execute("INSERT OR REPLACE INTO run_archives VALUES (?,?)", row)
            if kind is not None:
                append(db, run_id, kind, {"archive": body, **details}, kept.told_at)

    def record_moves(
        self, run_id: str, kind: str, moves: Iterable[MoveRow], now: datetime, **details: Any
    ) -> None:
        """Store changed moves and one entry of `kind` with them: intent, answer, what was read."""
        changed = list(moves)
        with self.file.write() as db:
            put_moves(db, run_id, changed)
            append(db, run_id, kind, {"moves": [asdict(m) for m in changed], **details}, now)

    def write_baseline(self, run_id: str, baseline: Sample, now: datetime) -> None:
        """Keep the replica sizes seen before anything was sent."""
        with self.file.write() as db:
            db.execute(
                "UPDATE runs SET baseline=? WHERE run_id=?",
                (pack(canonical(baseline.to_json())), run_id),
            )
            append(db, run_id, "baseline", {"replicas": len(baseline.replicas)}, now)

    def write_receipt(self, run_id: str, receipt: Receipt, now: datetime) -> None:
        """Replace the receipt; only the final one becomes an entry of the chain."""
        head = self.head(run_id)
        receipt = replace(receipt, approved_by=head.approved_by, archive=head.archive)
        body = receipt.to_json()
        with self.file.write() as db:
            db.execute("UPDATE runs SET receipt=? WHERE run_id=?", (pack(canonical(body)), run_id))
            gate.freed(db, run_id, receipt.freed_bytes)
            if receipt.final:
                append(db, run_id, "receipt", {"receipt": body}, now)


def _keep(
    db: sqlite3.Connection,
    run_id: str,
    kind: str,
    rows: list[PartitionRow],
    *,
    now: datetime,
    details: Mapping[str, object],
) -> None:
    bodies = put(db, run_id, rows, new=False)
    gate.sent(db, run_id, rows, now)
    append(db, run_id, kind, {"partitions": bodies, **details}, now)
