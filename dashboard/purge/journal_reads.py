"""What the journal tells: runs, their partitions, the chain of entries, and the switch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.clock import format_time
from dashboard.errors import UsageError
from dashboard.purge import journal_file
from dashboard.purge.journal_file import JournalFile
from dashboard.purge.journal_rows import Entry, PartitionRow, RunRow, RunView, Verification
from dashboard.purge.journal_tables import (
    contradictions,
    move_row,
    partition_row,
    run_row,
    watching,
)
from dashboard.purge.moves import MoveRow
from dashboard.purge.plan import Plan

# A plan or a baseline of many partitions is megabytes; they are read for one run at a time.
_HEAD = """run_id, plan_id, plan_sha256, cluster_id, cluster_name, mode, state, who, from_where,
  typed, options, connection, queued_at, started_at, closed_at, heartbeat_at, watched_until, wish,
  error, receipt"""


class JournalReads:
    """Reads of one journal file; `Journal` adds the writes."""

    def __init__(self, path: Path) -> None:
        self.file = JournalFile(path)

    def close(self) -> None:
        """Close this process's connection."""
        self.file.close()

    def runs(self, cluster_id: str | None = None) -> list[RunRow]:
        """All runs, or those of one cluster, newest first."""
        where = " WHERE cluster_id=?" if cluster_id else ""
        values = (cluster_id,) if cluster_id else ()
        found = self.file.rows(f"SELECT {_HEAD} FROM runs{where} ORDER BY rowid DESC", *values)
        return [run_row(row) for row in found]

    def run(self, run_id: str) -> RunView:
        """One run with its partitions and moves, sorted. Raises UsageError RUN_NOT_FOUND."""
        return RunView(self.head(run_id), self.partitions(run_id), self.moves(run_id))

    def head(self, run_id: str) -> RunRow:
        """One run without its partitions: cheap to ask often. Raises UsageError RUN_NOT_FOUND."""
        found = self.file.rows(f"SELECT {_HEAD} FROM runs WHERE run_id=?", run_id)
        if not found:
            raise UsageError(
                f"the journal knows no run {run_id}",
                "List the runs with: lowwater runs.",
                code="RUN_NOT_FOUND",
            )
        return run_row(found[0])

    def partitions(
        self, run_id: str, states: Sequence[str] | None = None
    ) -> tuple[PartitionRow, ...]:
        """The partitions of one run, sorted; only those in `states`, if given."""
        among = "" if states is None else f" AND state IN ({','.join('?' * len(states))})"
        sql = f"SELECT * FROM run_partitions WHERE run_id=?{among} ORDER BY topic, partition"
        rows = self.file.rows(sql, run_id, *(states or ()))
        return tuple(partition_row(row) for row in rows)

    def moves(self, run_id: str) -> tuple[MoveRow, ...]:
        """The moves of waived groups' offsets that one run was asked for, sorted."""
        rows = self.file.rows(
            "SELECT * FROM run_moves WHERE run_id=? ORDER BY group_id, topic, partition", run_id
        )
        return tuple(move_row(row) for row in rows)

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

    def newest_entry(self) -> int:
        """The number of the newest link of the chain; 0: none. It tells cheaply what is new."""
        return int(self.file.rows("SELECT max(seq) AS seq FROM entries")[0]["seq"] or 0)

    def verify(self) -> Verification:
        """Check the whole chain, and that each run's state is the one it last entered."""
        rows = self.file.rows("SELECT * FROM entries ORDER BY seq")
        problems = [*journal_file.broken_links(rows), *contradictions(rows, self.runs())]
        return Verification(len(rows), tuple(problems))

    def baseline(self, run_id: str) -> dict[str, Any] | None:
        """Sizes of all replicas just before the first request, as the receipt wrote them."""
        text = self.file.rows("SELECT baseline FROM runs WHERE run_id=?", run_id)[0]["baseline"]
        return json.loads(text) if text else None

    def wish(self, run_id: str) -> str | None:
        """What was asked of the worker last."""
        return self.head(run_id).wish

    def read_only(self) -> bool:
        """Whether the journal's switch stops every purge."""
        rows = self.file.rows("SELECT value FROM switches WHERE name='read_only'")
        return bool(rows and rows[0]["value"])

    def stale(self, older_than: timedelta, now: datetime) -> list[RunRow]:
        """Open runs, and closed ones still to be watched, whose worker gives no sign of life."""
        # Most runs ended long ago: their receipts need not be read to know it. A second to spare:
        # times are compared as texts, and some have fractions.
        watched = format_time((now - timedelta(seconds=1)).replace(microsecond=0))
        found = self.file.rows(
            f"SELECT {_HEAD} FROM runs WHERE closed_at IS NULL OR watched_until >= ? "
            "ORDER BY rowid DESC",
            watched,
        )
        return [
            run
            for run in map(run_row, found)
            if (run.heartbeat_at is None or now - run.heartbeat_at > older_than)
            and (run.open or watching(run, now))
        ]
