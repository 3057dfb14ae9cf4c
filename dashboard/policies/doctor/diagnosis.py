"""What the repartition doctor says of a topic, and from how much it says anything at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from dashboard.core.clock import format_time
from dashboard.policies.doctor.rhythm import Rhythm

NOT_PURGED = "not-purged"
TOO_OFTEN = "purged-too-often"
DEAD = "application-dead"
TWO_PURGERS = "two-purgers"
RETENTION = "retention-instead"
HEALTHY = "healthy"
UNKNOWN = "not-known"
PROBLEMS = (NOT_PURGED, DEAD, TWO_PURGERS, TOO_OFTEN, RETENTION)
KINDS = (*PROBLEMS, UNKNOWN, HEALTHY)


@dataclass(frozen=True, slots=True)
class Rules:
    """From when on something is said; durations are spans between snapshots, counts are of them.

    `least_span` is sixty of Streams' own intervals (30 s), and `least_ratio` purges for a freed
    segment leave room for a purger that is ten times as eager as it need be.
    """

    window: timedelta = timedelta(days=7)
    least_snapshots: int = 4
    least_span: timedelta = timedelta(minutes=30)
    dead_after: timedelta = timedelta(hours=24)
    least_purges: int = 8  # of one partition
    least_ratio: int = 20
    least_foreign: int = 2
    reads_take: timedelta = timedelta(minutes=2)  # from a snapshot's time to its offsets, at most


@dataclass(frozen=True, slots=True)
class Setting:
    """What to change: `where` is `application`, `topic`, `lowwater` or `cluster`.

    `now` and `to` are values as they are written there; None: not known, or nothing to write.
    """

    where: str
    name: str
    now: str | None
    to: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """From which snapshots it is told. `confidence` is `high`, `medium` or `low`.

    `purges_at_least` and `segments_freed` count over partitions; None: not measured. Of the former
    `others_at_least` are those that no run of ours asked for; None: retention moves log starts, or
    may. `seen_at` are the snapshots that show the sign, oldest first.
    """

    confidence: str
    from_at: datetime | None
    to_at: datetime | None
    snapshots: int
    purges_at_least: int | None = None
    segments_freed: int | None = None
    others_at_least: int | None = None
    seen_at: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding of one topic; `kind` is one of KINDS.

    `saves_bytes` count all replicas; `saves_requests_per_hour` are DeleteRecords requests, at
    least. `rhythm` is its application's. None: not known.
    """

    topic: str
    kind: str
    sentence: str
    evidence: Evidence
    setting: Setting | None = None
    saves_bytes: int | None = None
    saves_requests_per_hour: float | None = None
    caution: str | None = None
    rhythm: Rhythm | None = None

    @property
    def problem(self) -> bool:
        return self.kind in PROBLEMS

    def to_json(self) -> dict[str, object]:
        """The contract's keys of one row of `policies doctor`; times as RFC 3339."""
        body = asdict(self)
        for name in ("from_at", "to_at"):
            moment = body["evidence"][name]
            body["evidence"][name] = format_time(moment) if moment else None
        body["evidence"]["seen_at"] = [format_time(at) for at in self.evidence.seen_at]
        body["rhythm"] = self.rhythm.to_json() if self.rhythm else None
        return body
