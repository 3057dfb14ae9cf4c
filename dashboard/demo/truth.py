"""What the demo's topics hold and what a page must show about each: the known truth."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

KEEPS_UP = -1  # a group that reads all there is, whatever comes in


@dataclass(frozen=True, slots=True)
class Batch:
    """Part of the first load: so many records of so many bytes."""

    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GroupTruth:
    """A consumer group: how far it had read after the first load, and how it goes on.

    `committed_share` is of each partition's first load; `per_second` is records (KEEPS_UP: all),
    0 for a group without members.
    """

    group_id: str
    committed_share: float
    per_second: int

    @property
    def has_members(self) -> bool:
        return self.per_second != 0


@dataclass(frozen=True, slots=True)
class TopicTruth:
    """One topic: its load, its readers, and whether it is declared in the demo's settings."""

    name: str
    story: str
    partitions: int
    load: tuple[Batch, ...]
    per_second: int
    groups: tuple[GroupTruth, ...] = ()
    weights: tuple[int, ...] = ()  # of the partitions; empty: evenly
    config: Mapping[str, str] = field(default_factory=dict)
    keys: int = 0  # 0: records without a key; else so many different keys
    owner: str | None = None  # None: nobody declared who reads it
    reads_without_commit: bool = False
    transactional: bool = False

    @property
    def blocking_group(self) -> str | None:
        """The group that stays behind the others; None when all keep up, or there is none."""
        behind = [group for group in self.groups if group.per_second != KEEPS_UP]
        lowest = min(behind, key=lambda group: group.committed_share, default=None)
        return lowest.group_id if lowest else None

    @property
    def expected(self) -> str:
        """What a page must say: `refused`, `unknown` (no group), `held` or `consumed`."""
        if not self.deletable or self.name.startswith("_"):
            return "refused"
        if not self.groups:
            return "unknown"
        return "held" if self.blocking_group else "consumed"

    @property
    def deletable(self) -> bool:
        """Whether DeleteRecords is allowed: `cleanup.policy` contains delete."""
        return "delete" in self.config.get("cleanup.policy", "delete").split(",")

    def to_json(self) -> dict[str, object]:
        return {
            "topic": self.name,
            "story": self.story,
            "partitions": self.partitions,
            "expected": self.expected,
            "blocking_group": self.blocking_group,
            "groups": sorted(group.group_id for group in self.groups),
            "deletable": self.deletable,
            "declared": self.owner is not None,
        }


_COMPACT = {"cleanup.policy": "compact"}
_REPARTITION = "orders-app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"

TOPICS: tuple[TopicTruth, ...] = (
    TopicTruth(
        "clickstream",
        "a fast group has read all, a slow one holds the rest back",
        partitions=6,
        load=(Batch(60_000, 500),),
        per_second=4,
        groups=(
            GroupTruth("clickstream-live", 1.0, KEEPS_UP),
            GroupTruth("warehouse-loader", 0.4, 3),
        ),
        owner="web",
    ),
    TopicTruth(
        "payments",
        "a dead group committed long ago and holds nearly everything back",
        partitions=3,
        load=(Batch(30_000, 800),),
        per_second=2,
        groups=(
            GroupTruth("billing", 1.0, KEEPS_UP),
            GroupTruth("billing-old", 0.1, 0),
        ),
        owner="billing",
    ),
    TopicTruth(
        "app-logs",
        "no group ever committed: unknown, never safe",
        partitions=3,
        load=(Batch(20_000, 1_000),),
        per_second=2,
    ),
    TopicTruth(
        "sensor-readings",
        "its only group has read all, but somebody reads it without committing",
        partitions=3,
        load=(Batch(40_000, 200),),
        per_second=3,
        groups=(GroupTruth("sensor-alerts", 1.0, KEEPS_UP),),
        reads_without_commit=True,
    ),
    TopicTruth(
        "customer-profiles",
        "compacted: Kafka refuses to delete records from it",
        partitions=3,
        load=(Batch(10_000, 600),),
        per_second=1,
        groups=(GroupTruth("profile-cache", 1.0, KEEPS_UP),),
        config=_COMPACT,
        keys=2_000,
        owner="crm",
    ),
    TopicTruth(
        "inventory-state",
        "compacted and deletable; the cleaner thread lets the bytes go",
        partitions=3,
        load=(Batch(20_000, 400),),
        per_second=1,
        groups=(GroupTruth("inventory-sync", 1.0, KEEPS_UP),),
        config={"cleanup.policy": "compact,delete"},
        keys=4_000,
        owner="warehouse",
    ),
    TopicTruth(
        "device-pings",
        "many tiny partitions: records can go, but no whole segment",
        partitions=24,
        load=(Batch(480, 120),),
        per_second=1,
        groups=(GroupTruth("device-monitor", 1.0, KEEPS_UP),),
        owner="devices",
    ),
    TopicTruth(
        "web-sessions",
        "skewed: one partition of six holds nine tenths of the bytes",
        partitions=6,
        load=(Batch(20_000, 900),),
        per_second=2,
        groups=(GroupTruth("session-builder", 1.0, KEEPS_UP),),
        weights=(90, 2, 2, 2, 2, 2),
        owner="web",
    ),
    TopicTruth(
        "orders",
        "records grew from 100 to 1500 bytes: a share of offsets is no share of bytes",
        partitions=4,
        load=(Batch(40_000, 100), Batch(8_000, 1_500)),
        per_second=2,
        groups=(
            GroupTruth("orders-app", 1.0, KEEPS_UP),
            GroupTruth("order-audit", 0.6, 1),
        ),
        owner="orders",
    ),
    TopicTruth(
        _REPARTITION,
        "an internal topic of a Streams application that has read all of it",
        partitions=4,
        load=(Batch(20_000, 500),),
        per_second=2,
        groups=(GroupTruth("orders-app", 1.0, KEEPS_UP),),
        owner="orders",
    ),
    TopicTruth(
        "transfers",
        "written in transactions; an open one holds the last stable offset back",
        partitions=3,
        load=(Batch(6_000, 700),),
        per_second=2,
        groups=(GroupTruth("ledger", 1.0, KEEPS_UP),),
        owner="billing",
        transactional=True,
    ),
    TopicTruth(
        "_schemas",
        "a schema registry's own topic: refused by us, ordinary to the broker",
        partitions=1,
        load=(Batch(50, 900),),
        per_second=0,
        config=_COMPACT,
        keys=25,
        owner="platform",
    ),
)

# Written by `lowwater demo break disk` alone: of no workload, and not kept short.
BURST = TopicTruth(
    "burst",
    "a producer that ran away fills the disks; its only group has read all of it",
    partitions=4,
    load=(Batch(1, 32_768),),
    per_second=0,
    groups=(GroupTruth("burst-loader", 1.0, KEEPS_UP),),
    config={"segment.bytes": "16777216", "retention.bytes": "-1"},
    owner="web",
)


def records_per_partition(topic: TopicTruth, records: int) -> tuple[int, ...]:
    """How a number of records is spread over the partitions, by weight; sums to `records`."""
    weights = topic.weights or (1,) * topic.partitions
    shares = [records * weight // sum(weights) for weight in weights]
    for i in range(records - sum(shares)):
        shares[i % topic.partitions] += 1
    return tuple(shares)


def first_load(topic: TopicTruth) -> Iterator[tuple[int, int]]:
    """(partition, size in bytes) of every record, batch after batch, partitions interleaved."""
    for batch in topic.load:
        counts = records_per_partition(topic, batch.records)
        # Each partition's records lie evenly over the batch, also where one has nearly all.
        places = (
            [((i + 0.5) / count, partition) for i in range(count)]
            for partition, count in enumerate(counts)
        )
        for _, partition in heapq.merge(*places):
            yield partition, batch.size_bytes


def loaded_records(topic: TopicTruth) -> tuple[int, ...]:
    """Records per partition after the first load."""
    batches = (records_per_partition(topic, batch.records) for batch in topic.load)
    return tuple(sum(counts) for counts in zip(*batches, strict=True))


def committed_after_load(topic: TopicTruth, group: GroupTruth) -> tuple[int, ...]:
    """A group's committed offset per partition after the first load."""
    return tuple(int(count * group.committed_share) for count in loaded_records(topic))
