"""The journal's chain, folded link by link: does it hold, and what does it tell?

A fold can stop and go on, so that a page that looks often reads each link once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dashboard.core.errors import JournalError
from dashboard.purge.journal.journal_file import FIRST_HASH, link
from dashboard.purge.journal.journal_pack import unpack

_READ = {
    "queued", "run", "policy", "asked", "approved", "rejected", "archived", "read-only",
}  # fmt: skip
_REQUESTS = {"asked", "approved", "rejected"}

PolicyKey = tuple[str, str]
Switch = tuple[bool, str]
# How a stored run differs from its link `queued`, by run id and the link's body.
Compare = Callable[[str, Mapping[str, Any]], list[str]]
_NEVER: tuple[bool, str | None] = (False, None)


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
        self._queued: dict[str, tuple[str, str | None]] = {}
        self._switched: dict[PolicyKey, Switch] = {}
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
            try:
                body = dict(json.loads(unpack(row["body"])))
                self._hear(row["kind"], row["run_id"], body)
            except (ValueError, TypeError, RecursionError, JournalError):
                self.problems.append(f"entry {row['seq']} cannot be read")
                continue
            if compare is not None and row["kind"] == "queued" and row["run_id"]:
                self.problems += compare(row["run_id"], body)

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

    def wrong_switches(self, rows: Iterable[sqlite3.Row]) -> list[str]:
        """Policies that are not switched as the chain tells."""
        kept = {
            (row["cluster_id"], row["name"]): (bool(row["enabled"]), row["definition_sha256"])
            for row in rows
        }
        told = self.switches
        return [
            f"policy {name} of cluster {cluster_id} is not switched as the chain tells"
            for cluster_id, name in sorted(told.keys() | kept.keys())
            if told.get((cluster_id, name)) != kept.get((cluster_id, name))
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

    def _hear(self, kind: str, run_id: str | None, body: Mapping[str, Any]) -> None:
        if run_id and kind in ("queued", "run") and "state" in body:
            self._states[run_id] = body["state"]
        if run_id and kind == "queued":
            self._queued[run_id] = (body.get("plan_sha256", ""), body.get("policy"))
        elif kind == "policy":
            key = (str(body.get("cluster_id")), str(body.get("policy")))
            self._switched[key] = (body.get("enabled") is True, str(body.get("definition_sha256")))
        elif kind == "read-only":
            self._read_only = (body.get("read_only") is True, body.get("who"))
        elif kind == "archived":
            self._archived.add((body.get("through_seq", 0), str(body.get("hash"))))
            if "read_only" in body:
                value, who = body["read_only"]
                self._carried_read_only = (value, who)
            for cluster_id, name, enabled, definition in body.get("policies", ()):
                self._carried[cluster_id, name] = (enabled, definition)
        elif kind in _REQUESTS:
            request_id, who = str(body.get("request_id")), body.get("who")
            if kind == "asked":
                sealed, mode = body.get("plan_sha256"), body.get("mode")
                self._requests[request_id] = _Request("asked", None, None, sealed, who, mode)
            else:
                asked = self._requests.get(request_id, _Request(kind))
                self._requests[request_id] = replace(asked, state=kind, by=who, run_id=run_id)
