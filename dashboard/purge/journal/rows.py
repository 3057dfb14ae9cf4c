"""The journal's records: a run, its partitions, an entry of the chain, and a run as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError
from dashboard.core.words import number
from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.pack import Stored
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.receipt.model import KeptRecords, Receipt

OPEN_RUN_STATES = ("queued", "running", "paused")
CLOSED_RUN_STATES = ("done", "partial", "refused", "cancelled")
OPEN_STATES = ("pending", "sent", "unknown")
CLOSED_STATES = ("done", "leader_done", "not_done", "reverted")


def good(mode: str) -> frozenset[str]:
    """The states in which a partition is done for a run of this mode."""
    return frozenset({"done"} if mode == "wait-all" else {"done", "leader_done"})


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is sent and watched, frozen when it was queued."""

    timeout_ms: int
    partitions_per_request: int
    requests_in_flight: int
    watch_for_ms: int
    canary: bool = False
    # Runs that older journals keep were queued without these.
    stop_at_error_share: float = 0.5
    stop_at_least_answered: int = 20
    stop_on_isr_loss: bool = True
    unsent_for_ms: int = 3_600_000  # from queueing on; what is not sent by then never is
    most_silence_ms: int = 600_000  # of the worker; after more a person must resume the run
    broker_timeout_ms: int | None = None
    archive: str | None = None  # where records are kept, and proved, before any is deleted
    newer: tuple[str, ...] = ()  # names of those that a newer release kept: not known here

    @classmethod
    def of(cls, text: str) -> Options:
        """Out of a journal. One that a newer release wrote can be looked at, and cancelled, after a
        return to this one; nothing is sent by it (`all_known`).
        """
        told: dict[str, Any] = json.loads(text)
        own = told.keys() & ({each.name for each in fields(cls)} - {"newer"})
        return cls(**{name: told[name] for name in own}, newer=tuple(sorted(told.keys() - own)))

    def to_json(self) -> dict[str, str | float | bool | None]:
        """As a journal keeps them. Without an archive they are those that every release knows."""
        left_out = {"newer"} if self.archive is not None else {"newer", "archive"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def all_known(self, whose: str) -> None:
        """Raises JournalError where there are `newer` ones: each may be a limit that counts."""
        if self.newer:
            raise JournalError(
                f"{whose} has options of a newer release: {', '.join(self.newer)}",
                "Let that release carry it out, or cancel it and plan again.",
            )


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `typed` is the confirmation as typed; `wish` is pause, cancel or None.

    `connection` says how a worker reaches the cluster: cluster id, DIR and paths, no secret.
    """

    run_id: str
    plan_id: str
    plan_sha256: str
    cluster_id: str
    cluster_name: str
    mode: str
    state: str
    who: str
    from_where: str
    typed: str
    options: Options
    connection: Mapping[str, str | None]
    queued_at: datetime
    started_at: datetime | None
    closed_at: datetime | None
    heartbeat_at: datetime | None
    watched_until: datetime | None
    wish: str | None
    error: Mapping[str, str] | None
    kept_receipt: Receipt | Stored[Receipt] | None
    policy: str | None = None  # the one that queued it; None: a person did
    approved_by: str | None = None  # the second person, where one was asked for
    none_done: bool = False  # closed, and each partition is not_done
    archive: KeptRecords | None = None  # None: no record was read for one yet, or none is asked for

    @property
    def open(self) -> bool:
        return self.state in OPEN_RUN_STATES

    @property
    def outcome(self) -> str:
        """The state as people read it: a partial run of which nothing was done has failed."""
        return "failed" if self.state == "partial" and self.none_done else self.state

    @property
    def receipt_final(self) -> bool:
        return self.receipt is not None and self.receipt.final

    @property
    def receipt(self) -> Receipt | None:
        """Read when it is first asked for. Raises JournalError JOURNAL_BROKEN."""
        kept = self.kept_receipt
        return kept.value if isinstance(kept, Stored) else kept


@dataclass(frozen=True, slots=True)
class RestedOn:
    """A run, and what the memory of groups began with that it rested on."""

    run_id: str
    queued_at: datetime
    known_since: str


@dataclass(frozen=True, slots=True)
class Follower:
    """One replica beside the leader as last read; `alive` is whether its broker is known.

    While it has not arrived: `lag_records` is the leader's log end minus its own, and
    `closing_per_second` how fast that shrinks (negative: grows); None is not known.
    """

    broker_id: int
    log_start_offset: int | None
    alive: bool
    arrived: bool
    error: str | None = None
    lag_records: int | None = None
    closing_per_second: float | None = None

    @property
    def behind(self) -> bool:
        return self.alive and not self.arrived

    @property
    def seconds_to_go(self) -> float | None:
        """Until a closing follower has all that its leader has; None: no end is in sight."""
        rate = self.closing_per_second
        return self.lag_records / rate if self.lag_records and rate and rate >= 1 else None

    def to_json(self, target_offset: int) -> dict[str, object]:
        """The keys of `followers` in the contract's partition; rates in records a second."""
        start, to_go = self.log_start_offset, self.seconds_to_go
        rate = self.closing_per_second
        return {
            "broker_id": self.broker_id,
            "log_start_offset": start,
            "behind_offsets": None if start is None else max(0, target_offset - start),
            "lag_records": self.lag_records,
            "closing_per_second": None if rate is None else round(rate, 1),
            "seconds_to_go": None if to_go is None else round(to_go, 1),
            "alive": self.alive,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class WaitForecast:
    """The interval in which a wait-all request's answer was expected, and why so late."""

    cause: str
    low_seconds: float
    likely_seconds: float
    high_seconds: float


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of a run, with what was sent, answered and read back."""

    topic: str
    partition: int
    target_offset: int
    state: str
    attempts: int = 0
    sent_leader_id: int | None = None
    sent_leader_epoch: int | None = None
    sent_at: datetime | None = None
    answer_error_code: int | None = None  # None: no answer came
    answer_low_watermark: int | None = None
    low_watermark: int | None = None
    leader_log_start_offset: int | None = None
    error: str | None = None  # a guard's or Kafka's name
    message: str | None = None  # the reason in words
    followers: tuple[Follower, ...] = ()
    predicted_bytes: int | None = None
    leader_id: int | None = None  # as last read
    wait_forecast: WaitForecast | None = None
    waited_seconds: float | None = None  # from sending to the answer
    # The journal's newest entry when the look began that found it done, leader_done or reverted:
    # it orders such looks of different runs whatever their clocks say.
    read_after: int | None = None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def was_sent(self) -> bool:
        return self.sent_at is not None

    @property
    def was_tried(self) -> bool:
        """Sent, or refused by a leader that speaks no such request."""
        return self.was_sent or self.answer_error_code is not None

    def to_json(self) -> dict[str, object]:
        """The contract's keys of one partition, and what is known of each follower."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "target_offset": self.target_offset,
            "state": self.state,
            "low_watermark": self.low_watermark,
            "leader_log_start_offset": self.leader_log_start_offset,
            "error": self.error,
            "message": self.message,
            "leader_id": self.leader_id,
            "followers_behind": [f.broker_id for f in self.followers if f.behind],
            "dead_replicas": [f.broker_id for f in self.followers if not f.alive],
            "followers": [f.to_json(self.target_offset) for f in self.followers],
            "wait_forecast": asdict(self.wait_forecast) if self.wait_forecast else None,
            "waited_seconds": self.waited_seconds,
        }


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with its partitions, as `apply`, `run` and the pages show it."""

    run: RunRow
    partitions: tuple[PartitionRow, ...]
    moves: tuple[MoveRow, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Partitions by state."""
        found: dict[str, int] = {}
        for row in self.partitions:
            found[row.state] = found.get(row.state, 0) + 1
        return dict(sorted(found.items()))

    @property
    def exit_code(self) -> int:
        """3: all refused; 2: any partition not done (`leader_done` is success when asked for), or
        any offset not moved that was to be.
        """
        if self.run.state == "refused":
            return 3
        done = all(row.state in good(self.run.mode) for row in self.partitions)
        return 0 if done and all(move.state == "moved" for move in self.moves) else 2

    def to_json(self) -> dict[str, object]:
        """The contract's object of `apply` and `run`; `error` only when there is one."""
        run = self.run
        body: dict[str, Any] = {
            "run_id": run.run_id,
            "state": run.state,
            "mode": run.mode,
            "plan_id": run.plan_id,
            "cluster_id": run.cluster_id,
            "cluster_name": run.cluster_name,
            "who": run.who,
            "policy": run.policy,
            "approved_by": run.approved_by,
            "from": run.from_where,
            "queued_at": format_time(run.queued_at),
            "started_at": format_time(run.started_at) if run.started_at else None,
            "closed_at": format_time(run.closed_at) if run.closed_at else None,
            "watched_until": format_time(run.watched_until) if run.watched_until else None,
            "counts": self.counts,
            "partitions": [row.to_json() for row in self.partitions],
            "moves": [move.to_json() for move in self.moves],
            "receipt": run.receipt.to_json() if run.receipt is not None else None,
        }
        if run.options.archive is not None:
            body["archive"] = _archive(run)
        if run.error is not None:
            body["error"] = dict(run.error)
        return body


def _archive(run: RunRow) -> dict[str, object]:
    """The contract's object `archive`: where, and how far; `seconds_to_go` while it is read."""
    found = run.archive
    if found is None:
        return {"url": run.options.archive, "state": "waiting"}
    return {**found.to_json(), "seconds_to_go": found.seconds_to_go}


@dataclass(frozen=True, slots=True)
class Entry:
    """One link of the chain: `hash` covers the previous hash and everything else here."""

    seq: int
    run_id: str | None
    at: str
    kind: str
    body: Mapping[str, Any]
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class Begins:
    """The oldest entry that a journal still has, and when it was written: the others are archived,
    and no sum over its runs counts them.
    """

    entry: int
    at: datetime

    @property
    def words(self) -> str:
        return (
            f"counted since {self.at:%Y-%m-%d %H:%M} UTC: entries before {number(self.entry)} are "
            "archived"
        )

    def to_json(self) -> dict[str, object]:
        return {"entry": self.entry, "at": self.at}


@dataclass(frozen=True, slots=True)
class Verification:
    """`entries` that were checked, and each break found (none: the chain verifies).

    Those before `first_entry` were moved to an archive, as the chain tells.
    """

    entries: int
    problems: tuple[str, ...]
    first_entry: int = 1

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def newest_entry(self) -> int:
        """The number of the newest entry; 0: there is none."""
        return self.first_entry + self.entries - 1

    def to_json(self) -> dict[str, object]:
        """The object `verification` of the contract."""
        return {
            "ok": self.ok,
            "entries": self.entries,
            "first_entry": self.first_entry,
            "problems": list(self.problems),
        }
