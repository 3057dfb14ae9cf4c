"""Repartition topics of applications that run: logs with segments, commits, purges, snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES
from tests.support.sample_partitions import table_of

END = datetime(2026, 3, 4, 12, tzinfo=UTC)
TOPIC = "app-counts-repartition"
RECORD_BYTES = 1000
STREAMS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
           "segment.bytes": "1000000", "segment.ms": "604800000"}  # fmt: skip


@dataclass
class Log:
    """A partition with its segments: a purge frees those whose successor begins at or below it."""

    topic: str = TOPIC
    partition: int = 0
    topic_id: str = "id"
    leader: int = 1
    start: int = 0
    end: int = 0
    commits: dict[str, int | None] = field(default_factory=dict)
    bases: list[int] = field(default_factory=lambda: [0])
    per_segment: int = 1000
    sized: bool = True

    def write(self, records: int) -> None:
        self.end += records
        while self.end - self.bases[-1] >= self.per_segment:
            self.bases.append(self.bases[-1] + self.per_segment)

    def purge(self, offset: int | None) -> None:
        self.start = max(self.start, min(offset or 0, self.end))
        while len(self.bases) > 1 and self.bases[1] <= self.start:
            del self.bases[0]

    @property
    def size_bytes(self) -> int | None:
        return (self.end - self.bases[0]) * RECORD_BYTES if self.sized else None


@dataclass(frozen=True)
class Group:
    group_id: str = "app"
    state: str = "Stable"
    members: int = 1
    assigned: Sequence[str] = ()
    subscribed: Sequence[str] = ()
    answered: bool = True
    is_streams: bool = False


Step = Callable[[int], None]


def run(
    store: ClusterStore,
    logs: Sequence[Log],
    step: Step,
    *,
    snapshots: int = 25,
    every: timedelta = timedelta(hours=1),
    groups: Sequence[Group] = (Group(),),
    configs: Mapping[str, str] | None = None,
    incomplete: Sequence[str] = (),
    end: datetime = END,
) -> None:
    """Snapshots up to `end`; `step(n)` is what happens before the n-th of them, the first is 0."""
    for number in range(snapshots):
        step(number)
        at = end - every * (snapshots - 1 - number)
        chosen = STREAMS if configs is None else configs
        snapshot(store, at, logs, groups=groups, configs=chosen, incomplete=incomplete)


def snapshot(
    store: ClusterStore,
    at: datetime,
    logs: Sequence[Log],
    *,
    groups: Sequence[Group],
    configs: Mapping[str, str],
    incomplete: Sequence[str] = (),
    **details: Any,
) -> None:
    """Write and commit one; every partition has two replicas."""
    numbers = {key: n for n, key in enumerate(sorted({(g.topic, g.topic_id) for g in logs}))}
    place = {
        id(log): {"topic_no": numbers[log.topic, log.topic_id], "partition": log.partition}
        for log in logs
    }
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [{"topic_no": n, "topic": t, "topic_id": i} for (t, i), n in numbers.items()],
        "configs": [{"scope": "topic", "name": topic, "key": key, "value": value}
                    for topic, _ in numbers for key, value in configs.items()],
        "partitions": [{**place[id(log)], "leader_id": log.leader, "log_start_offset": log.start,
                        "high_watermark": log.end} for log in logs],
        "replicas": [{**place[id(log)], "broker_id": broker, "log_dir": "/d", "is_future": False,
                      "is_leader": broker == log.leader, "size_bytes": log.size_bytes}
                     for log in logs for broker in (1, 2)],
        "group_offsets": [{**place[id(log)], "group_id": group, "committed_offset": offset}
                          for log in logs for group, offset in log.commits.items()],
        "groups": [{"group_id": g.group_id, "state": g.state, "members": g.members,
                    "assigned": [{"topic": topic, "partition": 0} for topic in g.assigned],
                    "subscribed": [*g.subscribed],
                    "coordinator_answered": g.answered, "is_streams": g.is_streams}
                   for g in groups],
    }  # fmt: skip
    writer = store.begin("snapshots", at)
    for name, rows in tables.items():
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, at))
    writer.commit(0.1, {"groups_incomplete": list(incomplete), **details})


def analysis(
    store: ClusterStore,
    *,
    committed_bytes: Mapping[tuple[str, int], int | None] | None = None,
    last_commits: Mapping[tuple[str, str], datetime] | None = None,
) -> None:
    """Findings: bytes below the commits by topic and partition, last commits by topic and group."""
    reclaimable = [
        {"topic": topic, "partition": p, "target": "committed", "bytes_likely": size}
        for (topic, p), size in (committed_bytes or {}).items()
    ]
    holds = [
        {"topic": topic, "partition": 0, "group_id": group, "last_commit_at": at}
        for (topic, group), at in (last_commits or {}).items()
    ]
    writer = store.begin("findings", END)
    for name, rows in (("reclaimable", reclaimable), ("holds", holds)):
        writer.write(name, table_of(FINDING_TABLES[name], rows, writer.id, END))
    writer.commit(0.1, {})
    store.set_latest(writer.id)
