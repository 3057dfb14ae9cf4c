"""The journal: every run, its partitions and a hash chain of what was meant, sent and seen.

Intent is written before a request leaves, outcome after; one run at most is open per cluster and
topic. Exclusion holds within one state folder (`state_dir`), not between two machines.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.clock import format_time
from dashboard.errors import UsageError
from dashboard.purge import journal_file
from dashboard.purge.journal_file import JournalFile, append, encode
from dashboard.purge.journal_rows import (
    OPEN_RUN_STATES,
    Entry,
    Options,
    PartitionRow,
    RunRow,
    RunView,
    Verification,
)
from dashboard.purge.journal_tables import (
    body_of,
    contradictions,
    partition_row,
    put,
    refuse_again,
    refuse_busy,
    run_row,
    targets_of,
    watching,
)
from dashboard.purge.plan import Plan
from dashboard.settings import Settings


def open_default(settings: Settings) -> Journal:
    """The journal of these settings, made if it does not exist. Raises JournalError."""
    return Journal(settings.state_dir / "journal.sqlite")


class Journal:
    """Reads and durable writes; safe between threads and processes of one machine."""

    def __init__(self, path: Path) -> None:
        self.file = JournalFile(path)

    def close(self) -> None:
        self.file.close()

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
    ) -> tuple[str, bool]:
        """Queue a run of the plan's free partitions: its id, and False if `token` had made it.

        Raises RefusedError PLAN_ALREADY_APPLIED or TOPIC_BUSY: the database's own uniqueness
        decides, so that racing callers get one run.
        """
        run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        run = {
            "run_id": run_id, "token": token, "plan_id": plan.plan_id,
            "plan_sha256": plan.sha256, "plan": plan.to_json_text(),
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
        with self.file.write() as db:
            known = db.execute("SELECT run_id FROM runs WHERE token=?", (token,)).fetchone()
            if known:
                return known["run_id"], False
            self._take(db, plan, run)
            put(db, run_id, rows, new=True)
            secret_free = {k: v for k, v in run.items() if k not in ("plan", "token")}
            append(db, run_id, "queued", {**secret_free, "partitions": targets_of(rows)}, now)
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

    # -- reading

    def runs(self, cluster_id: str | None = None) -> list[RunRow]:
        """All runs, or those of one cluster, newest first."""
        where = " WHERE cluster_id=?" if cluster_id else ""
        values = (cluster_id,) if cluster_id else ()
        found = self.file.rows(f"SELECT * FROM runs{where} ORDER BY rowid DESC", *values)
        return [run_row(row) for row in found]

    def run(self, run_id: str) -> RunView:
        """One run with its partitions, sorted. Raises UsageError RUN_NOT_FOUND."""
        return RunView(self.head(run_id), self.partitions(run_id))

    def head(self, run_id: str) -> RunRow:
        """One run without its partitions: cheap to ask often. Raises UsageError RUN_NOT_FOUND."""
        found = self.file.rows("SELECT * FROM runs WHERE run_id=?", run_id)
        if not found:
            raise UsageError(
                f"the journal knows no run {run_id}",
                "List the runs with: lowwater runs.",
                code="RUN_NOT_FOUND",
            )
        return run_row(found[0])

    def partitions(self, run_id: str) -> tuple[PartitionRow, ...]:
        """The partitions of one run, sorted."""
        rows = self.file.rows(
            "SELECT * FROM run_partitions WHERE run_id=? ORDER BY topic, partition", run_id
        )
        return tuple(partition_row(row) for row in rows)

    def knows(self, plan_sha256: str, token: str) -> bool:
        """Whether a run of this plan, or of this click, is there already."""
        sql = "SELECT 1 FROM runs WHERE plan_sha256=? OR token=?"
        return bool(self.file.rows(sql, plan_sha256, token))

    def plan(self, run_id: str) -> Plan:
        """The plan that a run was queued with, verified again."""
        row = self.file.rows("SELECT plan FROM runs WHERE run_id=?", run_id)[0]
        return Plan.from_json_text(row["plan"], f"the plan of run {run_id}")

    def entries(
        self, run_id: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Links of the chain in order, of all runs or of one."""
        where = "seq>? AND run_id=?" if run_id else "seq>?"
        values: tuple[Any, ...] = (after, run_id) if run_id else (after,)
        most = -1 if limit is None else limit
        rows = self.file.rows(
            f"SELECT * FROM entries WHERE {where} ORDER BY seq LIMIT ?", *values, most
        )
        return [journal_file.entry(row) for row in rows]

    def verify(self) -> Verification:
        """Check the whole chain, and that each run's state is the one it last entered."""
        rows = self.file.rows("SELECT * FROM entries ORDER BY seq")
        problems = [*journal_file.broken_links(rows), *contradictions(rows, self.runs())]
        return Verification(len(rows), tuple(problems))

    def baseline(self, run_id: str) -> dict[str, Any] | None:
        """Sizes of all replicas just before the first request, as the receipt wrote them."""
        text = self.file.rows("SELECT baseline FROM runs WHERE run_id=?", run_id)[0]["baseline"]
        return json.loads(text) if text else None

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
        changed = list(rows)
        with self.file.write() as db:
            put(db, run_id, changed, new=False)
            bodies = [body_of(row) for row in changed]
            append(db, run_id, kind, {"partitions": bodies, **details}, now)

    def note(self, run_id: str, rows: Iterable[PartitionRow]) -> None:
        """Store how far followers have come; no entry, since no state changed."""
        with self.file.write() as db:
            put(db, run_id, rows, new=False)

    def write_baseline(self, run_id: str, baseline: Mapping[str, Any], now: datetime) -> None:
        """Keep the replica sizes seen before anything was sent."""
        with self.file.write() as db:
            db.execute("UPDATE runs SET baseline=? WHERE run_id=?", (encode(baseline), run_id))
            append(db, run_id, "baseline", {"replicas": len(baseline.get("replicas", ()))}, now)

    def write_receipt(self, run_id: str, receipt: Mapping[str, Any], now: datetime) -> None:
        """Replace the receipt; only the final one becomes an entry of the chain."""
        with self.file.write() as db:
            db.execute("UPDATE runs SET receipt=? WHERE run_id=?", (encode(receipt), run_id))
            if receipt.get("final"):
                append(db, run_id, "receipt", {"receipt": receipt}, now)

    def beat(self, run_id: str, now: datetime) -> None:
        """The worker is alive."""
        with self.file.write() as db:
            db.execute("UPDATE runs SET heartbeat_at=? WHERE run_id=?", (format_time(now), run_id))

    # -- operators' wishes

    def set_wish(self, run_id: str, wish: str | None, who: str, now: datetime) -> None:
        """Ask the worker to pause, cancel, or (None) go on; it acts before its next request."""
        with self.file.write() as db:
            db.execute("UPDATE runs SET wish=? WHERE run_id=?", (wish, run_id))
            append(db, run_id, "wish", {"wish": wish or "resume", "who": who}, now)

    def wish(self, run_id: str) -> str | None:
        """What was asked of the worker last."""
        return self.head(run_id).wish

    def read_only(self) -> bool:
        """Whether the journal's switch stops every purge."""
        rows = self.file.rows("SELECT value FROM switches WHERE name='read_only'")
        return bool(rows and rows[0]["value"])

    def set_read_only(self, value: bool, who: str, now: datetime) -> None:
        """Stop every purge at once, or allow them again."""
        with self.file.write() as db:
            db.execute(
                "INSERT INTO switches VALUES ('read_only',?,?,?) ON CONFLICT(name) DO UPDATE "
                "SET value=excluded.value, who=excluded.who, at=excluded.at",
                (int(value), who, format_time(now)),
            )
            append(db, None, "read-only", {"read_only": value, "who": who}, now)

    def stale(self, older_than: timedelta, now: datetime) -> list[RunRow]:
        """Open runs, and closed ones still to be watched, whose worker gives no sign of life."""
        return [
            run
            for run in self.runs()
            if (run.heartbeat_at is None or now - run.heartbeat_at > older_than)
            and (run.open or watching(run, now))
        ]
