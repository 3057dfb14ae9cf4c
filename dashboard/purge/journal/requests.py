"""Requests: purges that somebody asked for and a second person decides, and the journal's of them.

Whether a request still stands is the database's answer: it is used up in the transaction that
queues its run, so that of two approvers, or an approval and a rejection, one counts.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import RefusedError, UsageError
from dashboard.purge.journal.links import append
from dashboard.purge.journal.pack import pack, readable, unpack
from dashboard.purge.journal.reads import JournalReads
from dashboard.purge.journal.rows import Options
from dashboard.purge.journal.tables import refuse_again
from dashboard.purge.plan.plan import Plan, decisions

_NAME_AND_PASSWORD = re.compile(r"(?<=://)[^/@]*:.*@")
# Without the plan: that of many partitions is megabytes, and is read for one request at a time.
_HEAD = """request_id, token, plan_id, plan_sha256, cluster_id, cluster_name, mode, requester, how,
  role_values, from_where, typed, options, connection, asked_at, expires_at, state, decided_by,
  decided_at, run_id"""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a purge was asked for. `how` is oidc or local; `role_values` made the role, if any did.

    `typed` is the confirmation as the requester typed it; `token` identifies their one click.
    """

    token: str
    mode: str
    requester: str
    how: str
    role_values: tuple[str, ...]
    from_where: str
    typed: str
    options: Options
    connection: Mapping[str, str | None]
    expires_at: datetime

    @property
    def reached(self) -> dict[str, str | None]:
        """The flags that say over which connection to purge; without one, as the cluster's store
        and settings say.
        """
        return {name: self.connection.get(name) for name in ("bootstrap_servers", "client_config")}

    @property
    def described(self) -> str:
        """Mode, options, connection, and the files by whose rules the run is judged, which are the
        requester's: what whoever approves lets through beside the plan.
        """
        canary = ", a canary first" if self.options.canary else ""
        flags = [
            f"{name.replace('_', ' ')} {value}" for name, value in self.reached.items() if value
        ]
        over = ", ".join(flags) or "the connection that the store knows"
        settings, data = self.judged_by.values()
        return (
            f"mode {self.mode}{canary}, time-out {self.options.timeout_ms} ms, over {over}; judged "
            f"by {settings or 'no settings file'} and the data folder {data or 'unknown'}"
        )

    @property
    def judged_by(self) -> dict[str, str | None]:
        """The settings file and the data folder of whoever asked: the last look goes by them."""
        data = self.connection.get("data")
        shown = None if data is None else _NAME_AND_PASSWORD.sub("", data)
        return {"settings": self.connection.get("settings"), "data": shown}


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """A request as it is kept. `state`: asked, approved or rejected; the last two are closed."""

    request_id: str
    plan_id: str
    plan_sha256: str
    cluster_id: str
    cluster_name: str
    asked: Asked
    asked_at: datetime
    state: str
    decided_by: str | None
    decided_at: datetime | None
    run_id: str | None

    def state_at(self, now: datetime) -> str:
        """`state`, or expired: nobody decided in time."""
        late = self.state == "asked" and now >= self.asked.expires_at
        return "expired" if late else self.state

    def to_json(self, now: datetime) -> dict[str, object]:
        """The contract's object of `approvals`."""
        decided = self.decided_at
        return {
            "request_id": self.request_id,
            "state": self.state_at(now),
            "plan_id": self.plan_id,
            "plan_sha256": self.plan_sha256,
            "cluster_id": self.cluster_id,
            "cluster_name": self.cluster_name,
            "mode": self.asked.mode,
            "canary": self.asked.options.canary,
            "timeout_ms": self.asked.options.timeout_ms,
            **self.asked.reached,
            **self.asked.judged_by,
            "requester": self.asked.requester,
            "how": self.asked.how,
            "from": self.asked.from_where,
            "asked_at": format_time(self.asked_at),
            "expires_at": format_time(self.asked.expires_at),
            "decided_by": self.decided_by,
            "decided_at": format_time(decided) if decided else None,
            "run_id": self.run_id,
        }


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approves which request, how they were known, and what they typed."""

    request_id: str
    approver: str
    how: str
    typed: str
    from_where: str


def refuse_closed(request: PurgeRequest, now: datetime) -> None:
    """REQUEST_CLOSED, or REQUEST_EXPIRED: nothing is left to decide."""
    state = request.state_at(now)
    if state == "expired":
        raise RefusedError(
            f"request {request.request_id} expired at {format_time(request.asked.expires_at)}",
            "Plan and ask again: what the plan saw may have changed.",
            code="REQUEST_EXPIRED",
        )
    if state != "asked":
        as_run = f", as run {request.run_id}" if request.run_id else ""
        raise RefusedError(
            f"request {request.request_id} was {state} by {request.decided_by}{as_run}",
            "Nothing is left to decide.",
            code="REQUEST_CLOSED",
        )


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
