"""A cluster of three brokers with several topics, and an analysis that knows every segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.domain.model import (
    GroupListing,
    LogDir,
    TieredOffsets,
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
        self.topic_id = "id-orders"
        self.parts_of = {TopicPartition(*key): part for key, part in parts.items()}
        self.parts = {
            key: FakePartition(
                dict.fromkeys(p.replicas, 0), p.leader, 3, p.end, p.end, {}, p.replicas,
                p.log_dir, p.segments * SEGMENT,
            )
            for key, p in self.parts_of.items()
        }  # fmt: skip
        self.dirs = [LogDir(b, D1, 10_000 * MIB, 1_000 * MIB) for b in (1, 2, 3)]
        self.dead: dict[str, int | None] = {}  # members of a group; 1 where it is not named
        self.broker_configs["log.retention.check.interval.ms"] = "300000"
        self.topic_configs |= {"file.delete.delay.ms": "60000", "segment.bytes": str(SEGMENT)}

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        self.offsets_of = {}
        for key, part in self.parts_of.items():
            for group, offset in part.commits.items():
                self.offsets_of.setdefault(group, {})[key] = offset
        self.members = {g: self.dead.get(g, 1) for g in self.offsets_of}
        return super().groups(topics, with_offsets=with_offsets)

    def tiered_offsets(
        self, keys: Iterable[TopicPartition], _topics: Mapping[str, TopicState]
    ) -> dict[TopicPartition, TieredOffsets]:
        """All but the active segment lies in remote storage alone."""
        ends = {key: self.parts_of[key].segments * PER_SEGMENT for key in keys}
        return {key: TieredOffsets(*key, end, end, None) for key, end in ends.items()}


def findings(
    folder: Path, world: World, age: timedelta | None = None, **tables: list[dict[str, Any]]
) -> ClusterStore:
    """An analysis that measured every replica to the segment; `tables` replace or add rows.

    `age` is that of the snapshot, which was analysed 40 s ago all the same.
    """
    store = collected(
        ClusterStore(Store(str(folder / "data")), world.id),
        NOW - (age or timedelta(0)),
        *{k.topic for k in world.parts},
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
    writer.commit(0.1, {"snapshot_id": store.latest_snapshot() if age else ""})
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
    age: timedelta | None = None,
    **question: Any,
) -> Triage:
    """The triage of broker 2 over this world; `declared` are topics with declared readers."""
    store = findings(folder, world, age, **(tables or {}))
    return triage_live(
        world,  # type: ignore[arg-type]
        settings_of(folder, *declared),
        store,
        Question(broker, need, within, by="ann", **question),
        now=NOW,
    )
