"""Holds policies until a person confirms them again: after a long silence of their service, or
once they were taken out of the settings.

A journal that is restored with all that lies beside it has forgotten `policies off`, and an
approver's stop, and nothing in it tells. That no service gave a sign of life for long does.
A settings file that comes back from a backup has forgotten who took a policy out of it, likewise.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from datetime import datetime, timedelta

from dashboard.core.clock import format_time, parse_time
from dashboard.purge.journal.file import append

HELD = "SERVICE_SILENT"
TAKEN_OUT = "POLICY_TAKEN_OUT"
# Earlier versions kept no sign, but leases, and when a status was said.
SIGN = """SELECT coalesce(
  (SELECT at FROM policy_signs WHERE cluster_id=:cluster),
  (SELECT max(at) FROM (
    SELECT renewed_at AS at FROM policy_leases WHERE cluster_id=:cluster
    UNION ALL SELECT at FROM policy_status WHERE cluster_id=:cluster))) AS at"""


def heard(db: sqlite3.Connection, cluster_id: str, most_silence: timedelta, now: datetime) -> None:
    """A cluster's service is alive; where it was silent for too long, its policies are held.

    In the transaction that takes or renews its lease, so that no purge comes in between.
    """
    last = last_sign(db.execute(SIGN, {"cluster": cluster_id}).fetchone()["at"])
    if last is None or abs(now - last) > most_silence:
        sql = "SELECT name FROM policy_switches WHERE cluster_id=? AND enabled=1 ORDER BY name"
        for row in db.execute(sql, (cluster_id,)).fetchall():
            hold(db, cluster_id, row["name"], last, most_silence, now=now)
    db.execute("REPLACE INTO policy_signs VALUES (?,?)", (cluster_id, format_time(now)))


def last_sign(at: str | None) -> datetime | None:
    """When a service of the cluster gave its last sign of life, out of SIGN."""
    return parse_time(at) if at else None


def hold(
    db: sqlite3.Connection,
    cluster_id: str,
    name: str,
    last: datetime | None,
    most_silence: timedelta,
    *,
    now: datetime,
) -> None:
    """Hold a policy after a silence since `last`, unless it was switched on just now."""
    sql = "SELECT at FROM policy_switches WHERE cluster_id=? AND name=? AND enabled=1"
    switch = db.execute(sql, (cluster_id, name)).fetchone()
    if switch is None or abs(now - (on := parse_time(switch["at"]))) <= most_silence:
        return
    moments = [format_time(max(on, last) if last else on), format_time(now)]
    row = (cluster_id, name, *moments)
    if db.execute("INSERT OR IGNORE INTO policy_holds VALUES (?,?,?,?)", row).rowcount:
        body = {"cluster_id": cluster_id, "policy": name, "since": moments[0], "until": moments[1]}
        append(db, None, "policy-held", {**body, "code": HELD}, now)


def taken_out(
    db: sqlite3.Connection, cluster_id: str, defined: Collection[str], now: datetime
) -> list[str]:
    """Hold the policies that are on, and that valid settings define no more; which these are."""
    sql = """SELECT name FROM policy_switches s WHERE cluster_id=? AND enabled=1 AND NOT EXISTS (
      SELECT 1 FROM policy_taken_out t WHERE t.cluster_id = s.cluster_id AND t.name = s.name
    ) ORDER BY name"""
    found = [row["name"] for row in db.execute(sql, (cluster_id,)) if row["name"] not in defined]
    for name in found:
        row = (cluster_id, name, format_time(now))
        db.execute("INSERT INTO policy_taken_out VALUES (?,?,?)", row)
        body = {"cluster_id": cluster_id, "policy": name, "at": row[2], "code": TAKEN_OUT}
        append(db, None, "policy-held", body, now)
    return found


def confirmed(db: sqlite3.Connection, cluster_id: str, name: str) -> None:
    """A person switched the policy: it is held no longer."""
    for table in ("policy_holds", "policy_taken_out"):
        db.execute(f"DELETE FROM {table} WHERE cluster_id=? AND name=?", (cluster_id, name))
