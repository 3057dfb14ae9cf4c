"""What the journal keeps of alerts: each event once, when it is tried again, and when told."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time, parse_time
from dashboard.purge.journal.pack import readable
from dashboard.purge.journal.reads import JournalReads


@dataclass(frozen=True, slots=True)
class Event:
    """One thing worth an alert; `subject` tells it from others of its kind: a run, a folder."""

    kind: str
    subject: str
    text: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An event as it is kept; `told_at` None: not yet, and `error` says why it failed last."""

    event: Event
    first_seen_at: datetime
    told_at: datetime | None
    attempts: int
    retry_at: datetime
    error: str | None


class JournalAlerts(JournalReads):
    """State of the alerts of each cluster; no link of the chain, since nothing was purged."""

    def see_alerts(
        self,
        cluster_id: str,
        found: Iterable[Event],
        *,
        ending: Collection[str],
        quiet: timedelta,
        now: datetime,
    ) -> None:
        """Keep what is new. Kinds in `ending` are forgotten `quiet` after they were last seen.

        What is forgotten is told again when it happens again. What was not told yet stays. What was
        last seen in the future, by a clock that has stepped back since, was last seen now.
        """
        at, before = format_time(now), format_time(now - quiet)
        events = list(found)
        known = {(r["event"], r["subject"]): r["last_seen_at"] for r in self._seen(cluster_id)}
        refresh = format_time(now - quiet / 4)
        if all(known.get((e.kind, e.subject), "") > refresh for e in events) and not any(
            seen <= before or seen > at for (kind, _), seen in known.items() if kind in ending
        ):
            return  # asked every few seconds: most looks write nothing
        with self.file.write() as db:
            db.executemany(
                "INSERT INTO alerts_sent VALUES (?,?,?,?,?,?,?,NULL,0,?,NULL) "
                "ON CONFLICT DO UPDATE SET last_seen_at=excluded.last_seen_at",
                [
                    (cluster_id, e.kind, e.subject, e.text, canonical(e.details), at, at, at)
                    for e in events
                ],
            )
            db.execute(
                "UPDATE alerts_sent SET last_seen_at=? WHERE cluster_id=? AND last_seen_at>?",
                (at, cluster_id, at),
            )
            db.executemany(
                "DELETE FROM alerts_sent WHERE cluster_id=? AND event=? AND last_seen_at<=? "
                "AND told_at IS NOT NULL",
                [(cluster_id, kind, before) for kind in ending],
            )

    def claim_alerts(
        self,
        cluster_id: str,
        kinds: Collection[str],
        *,
        until: datetime,
        longest: timedelta,
        now: datetime,
    ) -> list[AlertRow]:
        """Those due to be told; `until` then they are nobody else's, should this process die.

        Nothing waits for more than `longest`: what is due later was put off by a clock that has
        stepped back since.
        """
        marks = ",".join("?" * len(kinds))
        where = (
            "cluster_id=? AND told_at IS NULL AND NOT retry_at BETWEEN ? AND ? "
            f"AND event IN ({marks})"
        )
        soonest = now + timedelta(milliseconds=1)  # times are kept to the millisecond
        values = (cluster_id, format_time(soonest), format_time(now + longest), *kinds)
        if not self.file.rows(f"SELECT 1 FROM alerts_sent WHERE {where} LIMIT 1", *values):
            return []
        with self.file.write() as db:
            due = db.execute(
                f"SELECT * FROM alerts_sent WHERE {where} ORDER BY first_seen_at, event, subject",
                values,
            ).fetchall()
            db.execute(
                f"UPDATE alerts_sent SET retry_at=?, attempts=attempts+1 WHERE {where}",
                (format_time(until), *values),
            )
        return [_row(row) for row in due]

    def alerts_told(self, cluster_id: str, events: Iterable[Event], now: datetime) -> None:
        """They have arrived: never again."""
        keys = [(format_time(now), cluster_id, e.kind, e.subject) for e in events]
        with self.file.write() as db:
            db.executemany(
                "UPDATE alerts_sent SET told_at=?, error=NULL "
                "WHERE cluster_id=? AND event=? AND subject=?",
                keys,
            )

    def alerts_failed(
        self, cluster_id: str, events: Iterable[Event], *, error: str, retry_at: datetime
    ) -> None:
        """They have not; `error` must not name the address."""
        keys = [(error, format_time(retry_at), cluster_id, e.kind, e.subject) for e in events]
        with self.file.write() as db:
            db.executemany(
                "UPDATE alerts_sent SET error=?, retry_at=? "
                "WHERE cluster_id=? AND event=? AND subject=?",
                keys,
            )

    def untold_alerts(self, cluster_id: str) -> list[AlertRow]:
        """Events that nobody was told of yet, oldest first: what status and doctor show."""
        rows = self.file.rows(
            "SELECT * FROM alerts_sent WHERE cluster_id=? AND told_at IS NULL "
            "ORDER BY first_seen_at, event, subject",
            cluster_id,
        )
        return [_row(row) for row in rows]

    def stalling_runs(self, cluster_id: str, ended_since: datetime, now: datetime) -> list[str]:
        """Runs that are open, and those whose watch ended since then: what may have stalled."""
        # A plus keeps SQLite from the index of all runs of the cluster: these are few.
        rows = self.file.rows(
            "SELECT run_id FROM runs WHERE +cluster_id=? AND closed_at IS NULL UNION "
            "SELECT run_id FROM runs WHERE +cluster_id=? AND watched_until BETWEEN ? AND ?",
            cluster_id, cluster_id, format_time(ended_since), format_time(now),
        )  # fmt: skip
        return [row["run_id"] for row in rows]

    def _seen(self, cluster_id: str) -> list[sqlite3.Row]:
        return self.file.rows(
            "SELECT event, subject, last_seen_at FROM alerts_sent WHERE cluster_id=?", cluster_id
        )


@readable
def _row(row: sqlite3.Row) -> AlertRow:
    told_at = row["told_at"]
    return AlertRow(
        Event(row["event"], row["subject"], row["text"], json.loads(row["details"])),
        parse_time(row["first_seen_at"]),
        parse_time(told_at) if told_at else None,
        row["attempts"],
        parse_time(row["retry_at"]),
        row["error"],
    )
