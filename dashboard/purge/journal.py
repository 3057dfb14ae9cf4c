"""The journal: every run, its partitions and a hash chain of what was meant, sent and seen.

Intent is written before a request leaves, outcome after; one run at most is open per cluster and
topic. Exclusion holds within one state folder (`state_dir`), not between two machines.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from dashboard.clock import format_time
from dashboard.purge import journal_gate as gate
from dashboard.purge.journal_alerts import JournalAlerts
from dashboard.purge.journal_file import append, encode
from dashboard.purge.journal_head import journal_in
from dashboard.purge.journal_pack import pack
from dashboard.purge.journal_policies import JournalPolicies, PolicyClaim
from dashboard.purge.journal_requests import JournalRequests, use
from dashboard.purge.journal_rows import (
    OPEN_RUN_STATES,
    Options,
    PartitionRow,
)
from dashboard.purge.journal_tables import (
    put,
    put_moves,
    refuse_again,
    refuse_busy,
    targets_of,
)
from dashboard.purge.journal_wishes import JournalWishes
from dashboard.purge.moves import MoveRow, planned_moves
from dashboard.purge.plan import Plan
from dashboard.purge.plan_json import decisions
from dashboard.purge.requests import Approval
from dashboard.settings import Settings


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
        `journal_gate.admit` refuses, for an approved one REQUEST_CLOSED or REQUEST_EXPIRED.
        """
        run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        run = {
            "run_id": run_id, "token": token, "plan_id": plan.plan_id,
            "plan_sha256": plan.sha256, "plan": pack(plan.to_json_text()),
            "cluster_id": plan.cluster_id, "cluster_name": plan.cluster_name, "mode": mode,
            "state": "queued", "who": who, "from_where": from_where, "typed": typed,
            "options": encode(asdict(options)), "connection": encode(connection),
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
            known = db.execute("SELECT run_id FROM runs WHERE token=?", (token,)).fetchone()
            if known:
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
        """Enter a state; a closed one frees the run's topics."""
        with self.file.write() as db:
            db.execute("UPDATE runs SET state=? WHERE run_id=?", (state, run_id))
            if error is not None:
                db.execute("UPDATE runs SET error=? WHERE run_id=?", (encode(error), run_id))
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

    def record_moves(
        self, run_id: str, kind: str, moves: Iterable[MoveRow], now: datetime, **details: Any
    ) -> None:
        """Store changed moves and one entry of `kind` with them: intent, answer, what was read."""
        changed = list(moves)
        with self.file.write() as db:
            put_moves(db, run_id, changed)
            append(db, run_id, kind, {"moves": [asdict(m) for m in changed], **details}, now)

    def write_baseline(self, run_id: str, baseline: Mapping[str, Any], now: datetime) -> None:
        """Keep the replica sizes seen before anything was sent."""
        with self.file.write() as db:
            db.execute(
                "UPDATE runs SET baseline=? WHERE run_id=?", (pack(encode(baseline)), run_id)
            )
            append(db, run_id, "baseline", {"replicas": len(baseline.get("replicas", ()))}, now)

    def write_receipt(self, run_id: str, receipt: Mapping[str, Any], now: datetime) -> None:
        """Replace the receipt; only the final one becomes an entry of the chain."""
        if (approver := self.head(run_id).approved_by) is not None:
            receipt = {**receipt, "approved_by": approver}
        with self.file.write() as db:
            db.execute("UPDATE runs SET receipt=? WHERE run_id=?", (pack(encode(receipt)), run_id))
            gate.freed(db, run_id, receipt.get("freed_bytes"))
            if receipt.get("final"):
                append(db, run_id, "receipt", {"receipt": receipt}, now)


def _keep(
    db: sqlite3.Connection,
    run_id: str,
    kind: str,
    rows: list[PartitionRow],
    *,
    now: datetime,
    details: Mapping[str, Any],
) -> None:
    bodies = put(db, run_id, rows, new=False)
    gate.sent(db, run_id, rows, now)
    append(db, run_id, kind, {"partitions": bodies, **details}, now)
