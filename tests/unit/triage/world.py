"""A cluster of three brokers with several topics, and an analysis that knows every segment."""

# ruff: noqa: ARG002  (the seam's arguments, of which a fake needs few)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.domain.model import (
    Broker,
    ConfigEntry,
    Group,
    GroupListing,
    GroupOffset,
    LogDir,
    LogDirsAnswer,
    PartitionState,
    ReplicaOffsets,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from dashboard.settings.settings import PurgeSettings, Settings, TopicDeclaration
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, build
from dashboard.triage.answer import Triage, triage_live
from dashboard.triage.selection import Question
from tests.support.cluster import FakeCluster, FakePartition
from tests.support.collected import collected
from tests.unit.purge.facts_of import NOW

MIB = 2**20
SEGMENT = 100 * MIB
PER_SEGMENT = 10  # offsets
D1, D2 = "/data/d1", "/data/d2"


@dataclass
class Part:
    """A partition of `segments` full segments and an active one, its replicas and commits."""

    segments: int
    replicas: tuple[int, ...] = (1, 2, 3)
    commits: dict[str, int] = field(default_factory=dict)
    leader: int = 1
    log_dir: str = D1

    @property
    def end(self) -> int:
        return (self.segments + 1) * PER_SEGMENT


def read_to_the_end(segments: int, **change: Any) -> Part:
    return Part(segments, commits={"app": (segments + 1) * PER_SEGMENT}, **change)


class World(FakeCluster):
    """`parts_of` by topic and partition; `dirs` are the log dirs that brokers list."""

    def __init__(self, parts: Mapping[tuple[str, int], Part]) -> None:
        super().__init__(0)
        self.parts_of = {TopicPartition(*key): part for key, part in parts.items()}
        self.parts = {
            key: FakePartition(
                dict.fromkeys(p.replicas, 0), p.leader, 3, p.end, p.end, {}, p.replicas
            )
            for key, p in self.parts_of.items()
        }
        self.dirs = [LogDir(b, D1, 10_000 * MIB, 1_000 * MIB) for b in (1, 2, 3)]
        self.dir_errors: dict[int, str] = {}
        self.unreadable: set[str] = set()
        self.dead: dict[str, int | None] = {}  # members of a group; 1 where it is not named
        self.broker_configs = {"log.retention.check.interval.ms": "300000"}
        self.topic_configs = {
            "cleanup.policy": "delete",
            "file.delete.delay.ms": "60000",
            "segment.bytes": str(SEGMENT),
        }
        self.ends_behind: dict[int, int] = {}

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        found: dict[str, list[PartitionState]] = {}
        for key, p in sorted(self.parts.items()):
            replicas = self.parts_of[key].replicas
            state = PartitionState(*key, p.leader_id, p.epoch, replicas, p.isr)
            found.setdefault(key.topic, []).append(state)
        wanted = list(found) if names is None else list(names)
        return {
            name: TopicState(name, f"id-{name}", False, tuple(found[name]))
            if name in found and name not in self.unreadable
            else TopicState(name, None, False, (), "UNKNOWN_TOPIC_OR_PARTITION")
            for name in wanted
        }

    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]:
        entries = [
            ConfigEntry("topic", topic, key, value, "DEFAULT_CONFIG")
            for topic in topics
            for key, value in self.topic_configs.items()
        ]
        values = {"replica.fetch.wait.max.ms": "500", **self.broker_configs}
        entries += [
            ConfigEntry("broker", str(b), key, value, "DEFAULT_CONFIG")
            for b in brokers
            for key, value in values.items()
        ]
        return tuple(entries)

    def brokers(self, assigned: Iterable[int] = ()) -> tuple[Broker, ...]:
        return tuple(
            Broker(b, "h", 9092, api_versions={"DeleteRecords": 2}) for b in sorted(self.alive)
        )

    def replica_offsets(
        self,
        partitions: Iterable[TopicPartition],
        brokers: Iterable[int] | None = None,
        topics: Mapping[str, TopicState] | None = None,
    ) -> tuple[ReplicaOffsets, ...]:
        return tuple(
            ReplicaOffsets(
                b, *k, start, self.parts[k].high_watermark - self.ends_behind.get(b, 0), NOW
            )
            for k in partitions
            for b, start in sorted(self.parts[k].starts.items())
        )

    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer:
        asked = set(self.alive if brokers is None else brokers)
        offline = {(d.broker_id, d.log_dir) for d in self.dirs if d.error}
        sizes = tuple(
            ReplicaSize(b, p.log_dir, *key, p.segments * SEGMENT, 0, False)
            for key, p in self.parts_of.items()
            for b in p.replicas
            if b in asked and (b, p.log_dir) not in offline and b not in self.dir_errors
        )
        dirs = tuple(
            d for d in self.dirs if d.broker_id in asked and d.broker_id not in self.dir_errors
        )
        errors = {b: e for b, e in self.dir_errors.items() if b in asked}
        return LogDirsAnswer(dirs, sizes, errors)

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        offsets = [
            GroupOffset(group, *key, offset)
            for key, part in self.parts_of.items()
            for group, offset in part.commits.items()
        ]
        groups = tuple(
            Group(g, "consumer", "Stable", self.dead.get(g, 1))
            for g in sorted({o.group_id for o in offsets})
        )
        return GroupListing(groups, tuple(offsets), self.incomplete)


def findings(folder: Path, world: World, **tables: list[dict[str, Any]]) -> ClusterStore:
    """An analysis that measured every replica to the segment; `tables` replace or add rows."""
    store = collected(
        ClusterStore(Store(str(folder / "data")), world.id), NOW, *{k.topic for k in world.parts}
    )
    store.write_connection("127.0.0.1:9", None, "prod")
    writer = store.begin("findings", NOW - timedelta(seconds=40))
    rows: dict[str, list[dict[str, Any]]] = {
        "curves": [
            {"topic": key.topic, "partition": key.partition, "broker_id": b,
             "log_dir": part.log_dir, "offset": n * PER_SEGMENT,
             "bytes_below": min(n, part.segments) * SEGMENT,
             "topic_id": f"id-{key.topic}", "is_base": n <= part.segments, "method": "segments",
             "segment_bytes": SEGMENT}
            for key, part in world.parts_of.items()
            for b in part.replicas
            for n in range(part.segments + 2)
        ],
        "reclaimable": [
            {"topic": key.topic, "partition": key.partition, "target": "committed",
             "target_offset": min(part.commits.values(), default=None), "log_start_offset": 0}
            for key, part in world.parts_of.items()
        ],
        "holds": [], "growth": [], "slow_followers": [], "blockers": [], **tables,
    }  # fmt: skip
    for name, found in rows.items():
        columns = {c: [row.get(c) for row in found] for c in {c for row in found for c in row}}
        columns["taken_at"] = [writer.taken_at] * len(found)
        writer.write(name, build(FINDING_TABLES[name], columns))
    writer.commit(0.1, {"snapshot_id": ""})
    store.set_latest(writer.id)
    return store


def settings_of(folder: Path, *declared: str) -> Settings:
    """Settings in which the readers of these topics are declared."""
    found = Settings(data=str(folder / "data"))
    topics = tuple(
        TopicDeclaration(topic, "team", "groups", timedelta(0), "ann", "2026-01-01")
        for topic in declared
    )
    by_name = PurgeSettings(pattern_refresh=timedelta(0))  # its topics are new, and read by name
    return Settings(data=found.data, topics=topics, purge=by_name)


def ask(
    folder: Path,
    world: World,
    need: int,
    *declared: str,
    tables: Mapping[str, list[dict[str, Any]]] | None = None,
    broker: int = 2,
    within: timedelta = timedelta(minutes=30),
    **question: Any,
) -> Triage:
    """The triage of broker 2 over this world; `declared` are topics with declared readers."""
    store = findings(folder, world, **(tables or {}))
    return triage_live(
        world,  # type: ignore[arg-type]
        settings_of(folder, *declared),
        store,
        Question(broker, need, within, by="ann", **question),
        now=NOW,
    )
