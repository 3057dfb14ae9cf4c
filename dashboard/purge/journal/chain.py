"""The journal's chain, folded link by link: does it hold, and what does it tell?

A fold can stop and go on, so that a page that looks often reads each link once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

from dashboard.core.errors import JournalError
from dashboard.purge.journal.links import FIRST_HASH, Link, MovedLink, QueuedLink, link
from dashboard.purge.journal.pack import unpack
from dashboard.purge.journal.rows import OPEN_RUN_STATES

_READ = {
    "queued", "run", "policy", "asked", "approved", "rejected", "archived", "read-only", "wish",
    "policy-held",
}  # fmt: skip
_REQUESTS = {"asked", "approved", "rejected"}

PolicyKey = tuple[str, str]
Switch = tuple[bool, str]
# How a stored run differs from its link `queued`, by run id and the link's body.
Compare = Callable[[str, QueuedLink], list[str]]
_NEVER: tuple[bool, str | None] = (False, None)
_AT_ONCE = 10_000
# Through no index: one may be newer than what it leads to. Of `queued`, most of these bytes, only
# that it is there counts.
_COUNTED = "SELECT count(*) AS links FROM entries NOT INDEXED WHERE seq>? AND seq<=?"
_TELLING = f"""SELECT seq, run_id, kind,
  CASE kind WHEN 'queued' THEN '{{"state":"queued"}}' ELSE body END AS body
  FROM entries NOT INDEXED WHERE seq>? AND seq<=? AND kind IN ({str(sorted(_READ))[1:-1]})
  ORDER BY seq"""
_HELD = """SELECT cluster_id, name, 'SERVICE_SILENT' AS code FROM policy_holds
  UNION ALL SELECT cluster_id, name, 'POLICY_TAKEN_OUT' FROM policy_taken_out"""
# An open run without its topics would let another one in, and without partitions be done.
_UNEVEN = """SELECT run_id FROM runs WHERE closed_at IS NULL AND NOT (
    EXISTS (SELECT 1 FROM run_topics t WHERE t.run_id = runs.run_id AND t.open = 1)
    AND EXISTS (SELECT 1 FROM run_partitions p WHERE p.run_id = runs.run_id))
  UNION SELECT run_id FROM run_topics WHERE open = 1
    AND run_id NOT IN (SELECT run_id FROM runs WHERE closed_at IS NULL)"""
# A switch of an earlier release, also of one that was rolled back to, bears another time.
SWITCHES = """SELECT s.*, n.seen_at FROM policy_switches s
  LEFT JOIN policy_seen n ON n.cluster_id = s.cluster_id AND n.name = s.name AND n.at = s.at"""
ARCHIVE = "SELECT 1 FROM switches WHERE name='archive'"
READ_ONLY = "SELECT value, who FROM switches WHERE name='read_only'"


@dataclass(frozen=True, slots=True)
class _Request:
    """A purge that was asked for, as the chain tells; None: no link here does."""

    state: str
    by: str | None = None
    run_id: str | None = None
    plan_sha256: str | None = None
    requester: str | None = None
    mode: str | None = None


class Chain:
    """The links folded so far, oldest first; `problems` are breaks in the chain itself."""

    def __init__(self) -> None:
        self.first = 1
        self.newest = 0
        self.newest_hash = FIRST_HASH
        self.problems: list[str] = []
        self._before_first = FIRST_HASH
        self._states: dict[str, str] = {}
        self._open: dict[str, str] = {}
        self._wishes: dict[str, str] = {}
        self._held: set[tuple[str, str, str]] = set()
        self._queued: dict[str, tuple[str, str | None]] = {}
        self._switched: dict[PolicyKey, Switch] = {}
        self._seen: dict[PolicyKey, str | None] = {}
        self._carried: dict[PolicyKey, Switch] = {}
        self._requests: dict[str, _Request] = {}
        self._archived: set[tuple[int, str]] = set()
        self._read_only: tuple[bool, str | None] | None = None
        self._carried_read_only: tuple[bool, str | None] | None = None

    @property
    def entries(self) -> int:
        """How many links were folded, and are missing, from the first to the newest."""
        return self.newest - self.first + 1

    @property
    def switches(self) -> dict[PolicyKey, Switch]:
        """The last switch of each policy, by cluster id and name: on or off, its definition."""
        return {**self._carried, **self._switched}

    @property
    def read_only(self) -> tuple[bool, str | None] | None:
        """The switch that stops every purge, and who set it last; None: no link here tells."""
        told = self._read_only or self._carried_read_only
        return _NEVER if told is None and self.first == 1 else told

    def fold(self, rows: Iterable[sqlite3.Row], compare: Compare | None = None) -> None:
        """Take the rows of `entries` that follow the newest one, by number.

        What `compare` tells of each run that was queued becomes a problem of the chain.
        """
        for row in rows:
            if self.newest == 0:
                self.first, self.newest = row["seq"], row["seq"] - 1
                self.newest_hash = self._before_first = row["previous_hash"]
            self._hold(row)
            self.newest, self.newest_hash = row["seq"], row["hash"]
            if row["kind"] not in _READ:  # most of the chain's bytes
                continue
            queued = self.hear(row)
            if queued and compare is not None and row["run_id"]:
                self.problems += compare(row["run_id"], queued)

    def hear(self, row: sqlite3.Row) -> QueuedLink | None:
        """Take what one link tells, whether it follows the one before it or not; what `queued`
        tells of its run.
        """
        kind = row["kind"]
        try:
            body = dict(json.loads(unpack(row["body"])))
            if kind == "archived":
                self._hear_moved(cast(MovedLink, body))
            else:
                self._hear(kind, row["run_id"], cast(Link, body))
        except (ValueError, TypeError, RecursionError, JournalError):
            self.problems.append(f"entry {row['seq']} cannot be read")
            return None
        return cast(QueuedLink, body) if kind == "queued" else None

    def unexplained_start(self) -> list[str]:
        """That the chain begins later than at 1, unless a link tells where the rest was moved."""
        if (self.first, self._before_first) == (1, FIRST_HASH):
            return []
        if (self.first - 1, self._before_first) in self._archived:
            return []
        if self.first == 1:
            return ["entry 1 does not follow the one before it"]
        return [f"entry {self.first - 1} is missing before entry {self.first}"]

    def wrong_runs(self, runs: Iterable[sqlite3.Row]) -> list[str]:
        """Runs that are gone, or not of the plan, policy and state that the chain tells."""
        kept = {run["run_id"]: run for run in runs}
        gone = [f"run {run_id} is missing" for run_id in self._queued if run_id not in kept]
        return gone + [
            f"run {run_id} is not in the state that the chain tells"
            for run_id, run in kept.items()
            if self._states.get(run_id) != run["state"]
            or self._queued.get(run_id) != (run["plan_sha256"], run["policy"])
        ]

    def wrong_open_runs(self, rows: Iterable[sqlite3.Row]) -> list[str]:
        """Runs that are open by their rows or by the chain, and not by both, or were called off."""
        kept = {row["run_id"]: row for row in rows}
        wrong = {
            run_id
            for run_id, row in kept.items()
            if self._wishes.get(run_id, row["wish"]) != row["wish"]
            or self._open.get(run_id) != row["state"]
        }
        return [
            f"run {run_id} is not in the state that the chain tells"
            for run_id in sorted(wrong | (self._open.keys() - kept.keys()))
        ]

    def forgotten(self, asked: Iterable[sqlite3.Row], held: Iterable[sqlite3.Row]) -> list[str]:
        """Requests that still wait though they were decided, and policies that no longer do."""
        decided = [row["request_id"] for row in asked if self._decided(row["request_id"])]
        kept = {(row["cluster_id"], row["name"], row["code"]) for row in held}
        return [f"request {name} is not as the chain tells" for name in decided] + [
            f"policy {name} of cluster {cluster_id} is not held as the chain tells"
            for cluster_id, name, _ in sorted(self._held - kept)
        ]

    def _decided(self, request_id: str) -> bool:
        told = self._requests.get(request_id)
        return told is not None and told.state != "asked"

    def wrong_switches(self, rows: Iterable[sqlite3.Row]) -> list[str]:
        """Policies that are not switched as the chain tells; rows of SWITCHES."""
        kept, seen = {}, {}
        for row in rows:
            key = (row["cluster_id"], row["name"])
            kept[key] = (bool(row["enabled"]), row["definition_sha256"])
            seen[key] = row["seen_at"]
        told = self.switches
        return [
            f"policy {name} of cluster {cluster_id} is not switched as the chain tells"
            for cluster_id, name in sorted(told.keys() | kept.keys())
            if told.get((cluster_id, name)) != kept.get((cluster_id, name))
            or self._seen.get((cluster_id, name), seen.get((cluster_id, name)))
            != seen.get((cluster_id, name))
        ]

    def wrong_read_only(self, rows: Iterable[sqlite3.Row]) -> list[str]:
        """That the switch which stops every purge is not as the chain tells, if it does."""
        kept = next(((bool(row["value"]), row["who"]) for row in rows), _NEVER)
        if self.read_only in (None, kept):
            return []
        return ["the read-only switch is not as the chain tells"]

    def wrong_requests(self, rows: Iterable[sqlite3.Row]) -> list[str]:
        """Requests whose plan, requester or decision is not the one that the chain tells."""
        kept = {
            row["request_id"]: _Request(
                row["state"], row["decided_by"], row["run_id"],
                row["plan_sha256"], row["requester"], row["mode"],
            )
            for row in rows
        }  # fmt: skip
        return [
            f"request {name} is not as the chain tells"
            for name in sorted(self._requests.keys() | kept.keys())
            if self._requests.get(name) != kept.get(name)
        ]

    def _hold(self, row: sqlite3.Row) -> None:
        seq, expected = row["seq"], self.newest + 1
        if seq != expected:
            self.problems.append(f"entry {expected} is missing before entry {seq}")
        if row["previous_hash"] != self.newest_hash:
            self.problems.append(f"entry {seq} does not follow the one before it")
        if link(row) != row["hash"]:
            self.problems.append(f"entry {seq} was changed after it was written")

    def _hear(self, kind: str, run_id: str | None, body: Link) -> None:
        if run_id and kind in ("queued", "run", "wish"):
            self._hear_run(kind, run_id, body)
        elif kind == "policy":
            key = (str(body.get("cluster_id")), str(body.get("policy")))
            self._switched[key] = (body.get("enabled") is True, str(body.get("definition_sha256")))
            self._seen[key] = body.get("seen_at")
            self._held = {held for held in self._held if held[:2] != key}
        elif kind == "policy-held":
            self._held.add((str(body.get("cluster_id")), str(body.get("policy")), body["code"]))
        elif kind == "read-only":
            self._read_only = (body.get("read_only") is True, body.get("who"))
        elif kind in _REQUESTS:
            request_id, who = str(body.get("request_id")), body.get("who")
            if kind == "asked":
                sealed, mode = body.get("plan_sha256"), body.get("mode")
                self._requests[request_id] = _Request("asked", None, None, sealed, who, mode)
            else:
                asked = self._requests.get(request_id, _Request(kind))
                self._requests[request_id] = replace(asked, state=kind, by=who, run_id=run_id)

    def _hear_moved(self, body: MovedLink) -> None:
        self._archived.add((body.get("through_seq", 0), str(body.get("hash"))))
        if "read_only" in body:
            value, who = body["read_only"]
            self._carried_read_only = (value, who)
        for cluster_id, name, enabled, definition in body.get("policies", ()):
            self._carried[cluster_id, name] = (enabled, definition)

    def _hear_run(self, kind: str, run_id: str, body: Link) -> None:
        if kind == "wish":
            self._wishes.pop(run_id, None)  # whoever resumes a run takes back what was wished
            if body.get("wish") != "resume":
                self._wishes[run_id] = body["wish"]
            return
        if kind == "queued":
            self._queued[run_id] = (body.get("plan_sha256", ""), body.get("policy"))
        if "state" in body:
            self._states[run_id] = body["state"]
            self._open.pop(run_id, None)
            if body["state"] in OPEN_RUN_STATES:
                self._open[run_id] = body["state"]


class AsTold:
    """Whether all that lets a purge be sent stands in the tables as the links tell, at each write.

    SQLite replays a `-wal` that was left over an older file, and mixes them: the newest links are
    there then, and rows that they changed are old. Each link is read once, without its hash.
    """

    def __init__(self, rows: Callable[..., list[sqlite3.Row]]) -> None:
        self._rows = rows
        self._begin()

    def _begin(self) -> None:
        self._chain = Chain()
        self._newest: tuple[int, str] = (0, FIRST_HASH)
        # Once both: an index, and what it leads to.
        self._through: tuple[str, ...] = ("NOT INDEXED", "")

    def catch_up(self) -> None:
        """Read the links that are new."""
        found = self._rows("SELECT hash FROM entries WHERE seq=?", self._newest[0])
        if [row["hash"] for row in found] != [self._newest[1]]:  # archived, or another file
            self._begin()
        first = self._rows("SELECT min(seq) AS seq FROM entries")[0]["seq"] or 1
        if self._newest[0] == 0:
            self._chain.first = first
        for row in self._rows("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"):
            self._hear(max(self._newest[0], first - 1), row["seq"])
            self._newest = (row["seq"], row["hash"])

    def _hear(self, start: int, newest: int) -> None:
        for after in range(start, newest, _AT_ONCE):
            span = (after, min(after + _AT_ONCE, newest))
            if self._rows(_COUNTED, *span)[0]["links"] != span[1] - after:
                self._chain.problems.append(f"entries are missing before entry {span[1]}")
            for row in self._rows(_TELLING, *span):
                self._chain.hear(row)

    def wrong(self) -> str | None:
        """What is not as the links tell, inside a transaction that sees one moment."""
        self.catch_up()
        if self._rows(ARCHIVE):  # nothing is sent from it
            return None
        found = self._found()
        if found:
            self._begin()  # a better file may be put there
            return found[0]
        self._through = ("",)
        return None

    def _found(self) -> list[str]:
        chain, rows = self._chain, self._rows
        found = list(chain.problems)
        for how in self._through:
            runs = rows(f"SELECT run_id, state, wish FROM runs {how} WHERE closed_at IS NULL")
            asked = rows(f"SELECT request_id FROM purge_requests {how} WHERE state='asked'")
            found += [*chain.wrong_open_runs(runs), *chain.forgotten(asked, rows(_HELD))]
        return [
            *found,
            *uneven(rows),
            *chain.wrong_switches(rows(SWITCHES)),
            *chain.wrong_read_only(rows(READ_ONLY)),
        ]


def uneven(rows: Callable[..., list[sqlite3.Row]]) -> list[str]:
    """Open runs without topics or partitions, and topics that are held for no open run."""
    return [f"run {row['run_id']} and its topics do not match" for row in rows(_UNEVEN)]
