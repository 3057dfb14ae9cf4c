"""The journal: runs, their partitions, what waits for a second person, and the chain of it all.

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

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time
from dashboard.purge.journal import gate
from dashboard.purge.journal.alerts import JournalAlerts
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.links import append
from dashboard.purge.journal.pack import pack
from dashboard.purge.journal.policies import JournalPolicies, PolicyClaim
from dashboard.purge.journal.requests import Approval, JournalRequests, use
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
