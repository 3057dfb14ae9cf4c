"""What the journal keeps of policies: who switched them on, which service leads, what they did.

The exclusion between services is the database's: `Journal.insert` checks the lease, the switch and
every partition's last start in the transaction that queues the run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.core.canonical import canonical, read, written
from dashboard.core.clock import format_time, parse_time
from dashboard.domain.model import Guard, TopicPartition
from dashboard.purge.journal import wishes
from dashboard.purge.journal.chain import SWITCHES
from dashboard.purge.journal.links import append
from dashboard.purge.journal.pack import readable
from dashboard.purge.journal.reads import JournalReads

# Of all that a policy ever ran only the last hour's runs and the open ones are read.
USE = """
WITH counted AS (
  SELECT run_id FROM run_policies WHERE cluster_id=? AND policy=? AND queued_at>=?
  UNION SELECT run_id FROM run_budgets WHERE sent_at>=?
  UNION SELECT run_id FROM runs WHERE closed_at IS NULL AND EXISTS (
    SELECT 1 FROM run_partitions p WHERE p.run_id = runs.run_id AND p.state = 'pending'
  )
)
SELECT coalesce(sum(p.partitions), 0) AS partitions,
  coalesce(sum(max(p.bytes, coalesce(b.freed_bytes, 0))), 0) AS bytes,
  coalesce(sum(b.unmeasured), 0) AS unmeasured
FROM counted JOIN run_policies p USING (run_id) LEFT JOIN run_budgets b USING (run_id)
WHERE p.cluster_id=? AND p.policy=?
"""
_SWITCH = f"""
SELECT s.*, h.since AS held_since, h.until AS held_until, t.at AS taken_out_at
FROM ({SWITCHES}) s
LEFT JOIN policy_holds h ON h.cluster_id = s.cluster_id AND h.name = s.name
LEFT JOIN policy_taken_out t ON t.cluster_id = s.cluster_id AND t.name = s.name
WHERE s.cluster_id=?
"""


@dataclass(frozen=True, slots=True)
class PolicyClaim:
    """What a service claims of a run it queues; `holder` is its token in the cluster's lease."""

    name: str
    definition_sha256: str
    interval: timedelta
    holder: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a policy waits for a person, see `silence`: a silence of the service, or
    (`until` is `since`) settings that did not define it.
    """

    since: datetime
    until: datetime
    code: str = wishes.HELD

    @property
    def by_silence(self) -> bool:
        return self.code == wishes.HELD

    @property
    def why(self) -> str:
        if not self.by_silence:
            return (
                f"at {format_time(self.since)} the settings did not define it: somebody took it "
                "out of them, and who wrote it there again may not know"
            )
        return (
            f"no service gave a sign of life from {format_time(self.since)} to "
            f"{format_time(self.until)}: the machine was down, or the journal is a restored one, "
            "which has forgotten who switched the policy off, or stopped every purge, since"
        )

    @property
    def ask(self) -> str:
        """What a person makes sure of before confirming it again."""
        if not self.by_silence:
            return "make sure that it is wanted again"
        return "make sure that nobody did"


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The last switch of a policy; it is on for the definition with this sha256 only."""

    name: str
    enabled: bool
    definition_sha256: str
    who: str
    at: datetime
    from_where: str
    hold: Hold | None = None  # until a person switches it on again
    seen_at: datetime | None = None  # what snapshots showed by then: `clocks.newest_seen`

    @property
    def waives_since(self) -> datetime:
        """Whom it waives is waived as snapshots showed it up to then. Of a switch of an earlier
        version nobody knows the newest one: it was at its own time, by its host's clock.
        """
        return self.seen_at or self.at


@dataclass(frozen=True, slots=True)
class Lease:
    """Which service carries out the policies of a cluster, until when unless it renews."""

    cluster_id: str
    holder: str
    host: str
    pid: int
    taken_at: datetime
    renewed_at: datetime
    expires_at: datetime

    def alive(self, now: datetime) -> bool:
        """Not expired; nor renewed in a future that a clock stepping back has taken away."""
        ttl = self.expires_at - self.renewed_at
        return self.renewed_at - ttl <= now < self.expires_at


@dataclass(frozen=True, slots=True)
class Use:
    """What a policy has started since a moment.

    `bytes` is the most that its purges may free, or what they were measured to free where that is
    more; the bytes of `unmeasured` partitions are not in it.
    """

    partitions: int
    bytes: int
    unmeasured: int = 0


@dataclass(frozen=True, slots=True)
class Blocked:
    """A partition that a policy may not purge, and what guards it."""

    topic: str
    partition: int
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class PolicyError:
    """What keeps an application of a policy from being purged; None: all of the policy."""

    application: str | None
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What the service says of a policy: the state that tells most of what its applications came
    to, what it is for, and when it looks again.
    """

    state: str
    reason: str
    next_at: datetime | None
    last_run: str | None
    topics: int
    partitions: int
    blocked: tuple[Blocked, ...]  # the first hundred
    errors: tuple[PolicyError, ...]


class JournalPolicies(JournalReads):
    """Switches, lease, last starts and status of policies."""

    # -- the operators' switch

    def switch_policy(
        self,
        cluster_id: str,
        name: str,
        definition_sha256: str,
        *,
        enabled: bool,
        who: str,
        typed: str,
        from_where: str,
        now: datetime,
        seen_at: datetime | None = None,
    ) -> None:
        """Switch a policy on, for this definition only, or off; a link of the chain tells who, and
        what snapshots showed by then (`seen_at`).
        """
        seen = format_time(seen_at) if seen_at else None
        body = {
            "cluster_id": cluster_id, "policy": name, "enabled": enabled,
            "definition_sha256": definition_sha256, "who": who, "typed": typed,
            "from_where": from_where, **({"seen_at": seen} if seen else {}),
        }  # fmt: skip
        row = (cluster_id, name, int(enabled), definition_sha256, who, format_time(now), from_where)
        with self.file.write() as db:
            db.execute("REPLACE INTO policy_switches VALUES (?,?,?,?,?,?,?)", row)
            db.execute("REPLACE INTO policy_seen VALUES (?,?,?,?)", (*row[:2], row[5], seen))
            wishes.confirmed(db, cluster_id, name)
            append(db, None, "policy", body, now)

    def policy_states(self, cluster_id: str) -> dict[str, PolicyState]:
        """The last switch of each policy that was ever switched on this cluster."""
        rows = self.file.rows(f"{_SWITCH} ORDER BY s.name", cluster_id)
        return {row["name"]: _state(row) for row in rows}

    def hold_taken_out(self, cluster_id: str, defined: Collection[str], now: datetime) -> list[str]:
        """Hold each policy that is on and not among those that valid settings define; which."""
        with self.file.write() as db:
            return wishes.taken_out(db, cluster_id, defined, now)

    # -- the lease: one service at a time for a cluster

    def take_lease(
        self,
        cluster_id: str,
        holder: str,
        *,
        host: str,
        pid: int,
        ttl: timedelta,
        most_silence: timedelta,
        now: datetime,
    ) -> Lease:
        """Take or renew the lease unless another holds it: the one that holds it now.

        Where no holder gave a sign for more than `most_silence`, policies are held.
        """
        with self.file.write() as db:
            held = lease_of(db, cluster_id)
            if held is not None and held.holder != holder and held.alive(now):
                return held
            wishes.heard(db, cluster_id, most_silence, now)
            ours = held is not None and held.holder == holder
            taken_at = held.taken_at if held is not None and ours else now
            moments = map(format_time, (taken_at, now, now + ttl))
            db.execute(
                "REPLACE INTO policy_leases VALUES (?,?,?,?,?,?,?)",
                (cluster_id, holder, host, pid, *moments),
            )
            return Lease(cluster_id, holder, host, pid, taken_at, now, now + ttl)

    def release_lease(self, cluster_id: str, holder: str, now: datetime) -> bool:
        """Give the lease up before it expires; False if it is another's by now."""
        with self.file.write() as db:
            held = lease_of(db, cluster_id)
            if held is None or held.holder != holder:
                return False
            db.execute("DELETE FROM policy_leases WHERE cluster_id=?", (cluster_id,))
            return held.alive(now)

    def lease(self, cluster_id: str) -> Lease | None:
        """Who held the lease last and did not release it; `alive` tells whether that still is."""
        rows = self.file.rows("SELECT * FROM policy_leases WHERE cluster_id=?", cluster_id)
        return _lease(rows[0]) if rows else None

    def last_sign(self, cluster_id: str) -> datetime | None:
        """When a service of the cluster, whichever, gave its last sign of life."""
        (row,) = self.file.rows(wishes.SIGN, {"cluster": cluster_id})
        return wishes.last_sign(row["at"])

    # -- what ran

    def open_policy_runs(self, cluster_id: str) -> int:
        """How many runs of policies are not over: whoever carries one on may still send."""
        sql = (
            "SELECT count(*) AS runs FROM run_policies p JOIN runs USING (run_id) "
            "WHERE p.cluster_id=? AND runs.closed_at IS NULL"
        )
        (row,) = self.file.rows(sql, cluster_id)
        return int(row["runs"])

    def last_starts(self, cluster_id: str, topics: Iterable[str]) -> dict[TopicPartition, datetime]:
        """When a purge of each partition last began, by whomever: queued or, later, sent.

        A partition that no run has purged is not named.
        """
        sql = (
            "SELECT topic, partition, started_at FROM partition_starts "
            "WHERE cluster_id=? AND topic=?"
        )
        return {
            TopicPartition(row["topic"], row["partition"]): parse_time(row["started_at"])
            for topic in sorted(set(topics))
            for row in self.file.rows(sql, cluster_id, topic)
        }

    def policy_use(self, cluster_id: str, name: str, since: datetime) -> Use:
        """What the policy's runs since then take from its budget.

        A run counts from when its last request left, one that sent nothing from when it was
        queued. One that may still send what it has not sent yet counts, however old it is.
        """
        at = format_time(since)
        row = self.file.rows(USE, cluster_id, name, at, at, cluster_id, name)[0]
        return Use(row["partitions"], row["bytes"], row["unmeasured"])

    def policy_runs(self, cluster_id: str, since: datetime | None = None) -> dict[str, str]:
        """Run id -> name of the policy that queued it, newest first."""
        rows = self.file.rows(
            "SELECT run_id, policy FROM run_policies WHERE cluster_id=? AND queued_at>=? "
            "ORDER BY queued_at DESC, run_id",
            cluster_id, format_time(since) if since else "",
        )  # fmt: skip
        return {row["run_id"]: row["policy"] for row in rows}

    def run_definition(self, run_id: str) -> str | None:
        """The sha256 of the policy that queued a run as it was then; None: a person did."""
        sql = "SELECT definition_sha256 FROM run_policies WHERE run_id=?"
        rows = self.file.rows(sql, run_id)
        return str(rows[0]["definition_sha256"]) if rows else None

    def busy_topics(self, cluster_id: str) -> dict[str, str]:
        """Topic -> the open run that purges it, by whomever it was queued."""
        rows = self.file.rows(
            "SELECT topic, run_id FROM run_topics WHERE cluster_id=? AND open=1", cluster_id
        )
        return {row["topic"]: row["run_id"] for row in rows}

    # -- what each policy waits for now: replaced, no link of the chain

    def write_policy_status(
        self, cluster_id: str, name: str, status: PolicyStatus, now: datetime
    ) -> None:
        """Replace what the service says of a policy."""
        row = (cluster_id, name, format_time(now), canonical(written(status)))
        with self.file.write() as db:
            db.execute("REPLACE INTO policy_status VALUES (?,?,?,?)", row)

    def policy_statuses(self, cluster_id: str) -> dict[str, tuple[datetime, PolicyStatus]]:
        """Name -> when the service said it, and what."""
        rows = self.file.rows(
            "SELECT * FROM policy_status WHERE cluster_id=? ORDER BY name", cluster_id
        )
        return dict(map(_status, rows))


def lease_of(db: sqlite3.Connection, cluster_id: str) -> Lease | None:
    """The lease as this transaction sees it."""
    row = db.execute("SELECT * FROM policy_leases WHERE cluster_id=?", (cluster_id,)).fetchone()
    return _lease(row) if row else None


def state_of(db: sqlite3.Connection, cluster_id: str, name: str) -> PolicyState | None:
    """The policy's last switch as this transaction sees it."""
    row = db.execute(f"{_SWITCH} AND s.name=?", (cluster_id, name)).fetchone()
    return _state(row) if row else None


@readable
def _lease(row: sqlite3.Row) -> Lease:
    moments = (parse_time(row[name]) for name in ("taken_at", "renewed_at", "expires_at"))
    return Lease(row["cluster_id"], row["holder"], row["host"], row["pid"], *moments)


@readable
def _status(row: sqlite3.Row) -> tuple[str, tuple[datetime, PolicyStatus]]:
    return row["name"], (parse_time(row["at"]), read(json.loads(row["body"]), PolicyStatus))


@readable
def _state(row: sqlite3.Row) -> PolicyState:
    since, until, out = row["held_since"], row["held_until"], row["taken_out_at"]
    hold = Hold(parse_time(since), parse_time(until)) if since else None
    if out:
        hold = Hold(parse_time(out), parse_time(out), wishes.TAKEN_OUT)
    return PolicyState(
        row["name"], bool(row["enabled"]), row["definition_sha256"], row["who"],
        parse_time(row["at"]), row["from_where"], hold,
        parse_time(row["seen_at"]) if row["seen_at"] else None,
    )  # fmt: skip
