"""What people ask of a run; the signs of life of its worker and of the service of policies; and
what is held until a person confirms it again: policies after a long silence of their service, or
once they were taken out of the settings.

Both decide whether a run sends, so that each is judged and written in one transaction: whoever
reads the run afterwards, in whatever process, sees the later of two that raced.

A journal that is restored with all that lies beside it has forgotten `policies off`, and an
approver's stop, and nothing in it tells. That no service gave a sign of life for long does. A
settings file that comes back from a backup has forgotten who took a policy out of it, likewise.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from dashboard.core.canonical import canonical, read, written
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import RefusedError
from dashboard.domain.acts import Deletion, RemovalOn, Restoration, SweepsTold
from dashboard.purge.journal.links import append, entry
from dashboard.purge.journal.pack import readable
from dashboard.purge.journal.reads import JournalReads
from dashboard.purge.journal.rows import OPEN_RUN_STATES, Entry, Options, RunRow

SILENT = "WORKER_SILENT"
_LOGS_AT_MOST = 200  # sweeps' logs that one journal hears of; of an older one all is told again
# A run that was claimed is silent since its last sign of life before that, or since it was resumed.
_WORKER = """SELECT state, wish, heartbeat_at, options, cluster_id, coalesce(
  (SELECT since FROM run_claims WHERE run_claims.run_id = runs.run_id), heartbeat_at) AS alive_at,
  (SELECT policy FROM run_policies WHERE run_policies.run_id = runs.run_id) AS policy
  FROM runs WHERE run_id=?"""


class JournalWishes(JournalReads):
    """Pauses, cancels, switches, declarations and heartbeats; all but the last are links."""

    def set_wish(self, run_id: str, wish: str | None, who: str, now: datetime) -> None:
        """Ask the worker to pause, cancel, or (None) go on; it acts before its next request.

        A cancel is final. Raises UsageError RUN_NOT_FOUND, RefusedError RUN_CLOSED or
        RUN_CANCELLED: judged where it is written, since two people may ask at once.
        """
        with self.file.write(by_anybody=wish in ("pause", "cancel")) as db:
            _refuse_final(self.head(run_id), wish)
            db.execute("UPDATE runs SET wish=?, error=NULL WHERE run_id=?", (wish, run_id))
            if wish is None:  # whoever resumes it knows how long nobody carried it on
                db.execute("REPLACE INTO run_claims VALUES (?,?)", (run_id, format_time(now)))
            append(db, run_id, "wish", {"wish": wish or "resume", "who": who}, now)

    def set_read_only(self, value: bool, who: str, now: datetime) -> None:
        """Stop every purge at once, or allow them again."""
        with self.file.write(by_anybody=value) as db:
            db.execute(
                "INSERT INTO switches VALUES ('read_only',?,?,?) ON CONFLICT(name) DO UPDATE "
                "SET value=excluded.value, who=excluded.who, at=excluded.at",
                (int(value), who, format_time(now)),
            )
            append(db, None, "read-only", {"read_only": value, "who": who}, now)

    def tell_of_orphans(self, told: SweepsTold | RemovalOn, now: datetime) -> None:
        """Chain what sweeps of this host did, or who let a service do it by itself; that once: a
        service that starts again says the same. Who sweeps is the brokers' user, or root.
        """
        body = written(told)
        with self.file.write(by_anybody=True) as db:
            newest = self._newest(told.kind, cluster_id=told.cluster_id, broker_id=told.broker_id)
            if newest is None or told.kind == SweepsTold.kind or newest.body != body:
                append(db, None, told.kind, body, now)

    def told_of_orphans(self, log: str, cluster_id: str, broker_id: int) -> SweepsTold | None:
        """The newest entry of a broker about a log of sweeps; None: none that was not archived."""
        found = self._newest(SweepsTold.kind, log=log, cluster_id=cluster_id, broker_id=broker_id)
        return None if found is None else _sweeps_told(found)

    def tell_of_archive(self, told: Deletion | Restoration, now: datetime) -> None:
        """Chain what became of an archive: that it goes or comes back, and that this is done."""
        with self.file.write(by_anybody=told.kind == Restoration.kind) as db:
            append(db, None, told.kind, written(told), now)

    def tells_of_orphans_alone(self) -> bool:
        """Whether nothing else was journalled here: no approver looks at such a journal."""
        sql = "SELECT 1 FROM entries WHERE kind NOT IN ('orphans','orphans-on') LIMIT 1"
        return not self.file.rows(sql)

    def _newest(self, kind: str, **of: object) -> Entry | None:
        sql = (
            "SELECT * FROM entries WHERE run_id IS NULL AND kind=? ORDER BY seq DESC "
            f"LIMIT {_LOGS_AT_MOST}"
        )
        found = (entry(row) for row in self.file.rows(sql, kind))
        return next((each for each in found if of.items() <= each.body.items()), None)

    def declare(
        self, rows: Iterable[Mapping[str, str]], *, cluster_id: str, from_where: str, now: datetime
    ) -> None:
        """Chain who declared the readers of which topics, when, from where and why.

        `rows` are the store's declarations: one entry for all of them, said once.
        """
        declared = list(rows)
        said = {k: v for k, v in declared[0].items() if k not in ("glob", "declared_by")}
        body = {
            **said, "who": declared[0]["declared_by"], "from_where": from_where,
            "cluster_id": cluster_id, "topics": [row["glob"] for row in declared],
        }  # fmt: skip
        with self.file.write() as db:
            append(db, None, "declared", body, now)

    def beat(self, run_id: str, now: datetime) -> None:
        """The worker is alive. A run that was silent for too long waits: see `silent`.

        Of a run that was claimed that counts once it is `carried`: most that cannot, beat first.
        """
        with self.file.write() as db:
            _pause_if_silent(db, run_id, now)
            db.execute("UPDATE runs SET heartbeat_at=? WHERE run_id=?", (format_time(now), run_id))

    def carried(self, run_id: str, now: datetime) -> None:
        """A worker carries the run out: from now on it is alive as long as it beats. Cheap to ask
        often.
        """
        if not self.file.rows("SELECT 1 FROM run_claims WHERE run_id=?", run_id):
            return
        with self.file.write() as db:
            _pause_if_silent(db, run_id, now)
            db.execute("DELETE FROM run_claims WHERE run_id=?", (run_id,))

    def claim(self, run: RunRow, now: datetime) -> bool:
        """Beat in place of a silent worker; False if another caller did so first.

        Whoever gets it starts the one new worker: the next may come only when that is silent too.
        That is no sign of life: it may be killed as it starts, or lack what it needs, each time.
        """
        before = format_time(run.heartbeat_at) if run.heartbeat_at else None
        with self.file.write() as db:
            found = db.execute(_WORKER, (run.run_id,)).fetchone()
            if found is None or found["heartbeat_at"] != before:
                return False
            if run.open:
                since = before or format_time(run.queued_at)
                db.execute("INSERT OR IGNORE INTO run_claims VALUES (?,?)", (run.run_id, since))
            _pause_if_silent(db, run.run_id, now)
            db.execute(
                "UPDATE runs SET heartbeat_at=? WHERE run_id=?", (format_time(now), run.run_id)
            )
        return True


@readable
def _sweeps_told(found: Entry) -> SweepsTold:
    return read(found.body, SweepsTold)


def silent(run: RunRow, now: datetime) -> bool:
    """Whether a run must wait for a person: its worker gave no sign for too long.

    What it was confirmed for may be long past: the machine was down, stood still, or its journal
    is a restored one, in which a cancel is missing. A person's run is paused; of a policy's run the
    policy is held, which ends the run. A sign from the future tells of a clock that was set back,
    and nothing of how long there was none.
    """
    most = timedelta(milliseconds=run.options.most_silence_ms)
    alive = run.heartbeat_at is None or abs(now - run.heartbeat_at) <= most
    return run.open and not alive


def _refuse_final(run: RunRow, wish: str | None) -> None:
    if not run.open:
        raise RefusedError(
            f"run {run.run_id} is {run.state} already",
            f"See what it did with: lowwater run {run.run_id}.",
            code="RUN_CLOSED",
        )
    if run.wish == "cancel" and wish != "cancel":
        raise RefusedError(
            f"run {run.run_id} was cancelled, and a cancel is final",
            "What was sent is read to its end; to purge the rest, plan again.",
            code="RUN_CANCELLED",
        )


def _pause_if_silent(db: sqlite3.Connection, run_id: str, now: datetime) -> None:
    """Here, since the next heartbeat wipes out how long there was none."""
    run = db.execute(_WORKER, (run_id,)).fetchone()
    if run is None or run["state"] not in OPEN_RUN_STATES:
        return
    last = run["alive_at"]
    most = timedelta(milliseconds=Options.of(run["options"]).most_silence_ms)
    if last is None or abs(now - parse_time(last)) <= most:
        return
    if run["policy"] is not None:
        cluster_id, name = run["cluster_id"], run["policy"]
        hold(db, cluster_id, name, parse_time(last), most, now=now)
        return
    if run["wish"]:
        return
    pause(db, run_id, {
        "code": SILENT,
        "message": f"no worker of run {run_id} gave a sign of life from {last} to "
        f"{format_time(now)}: the machine was down, none could start, or the journal is a "
        "restored one",
        "next": "See what was sent, then go on with: lowwater run "
        f"{run_id} --resume, or leave the rest with --cancel.",
    }, now)  # fmt: skip


def pause(db: sqlite3.Connection, run_id: str, why: Mapping[str, str], now: datetime) -> None:
    """Pause an open run for this reason, inside the caller's transaction; a person resumes it."""
    db.execute(
        "UPDATE runs SET state='paused', wish='pause', error=? WHERE run_id=?",
        (canonical(why), run_id),
    )
    append(db, run_id, "run", {"state": "paused", "error": dict(why)}, now)


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
