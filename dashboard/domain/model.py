"""The nouns that travel between rooms: frozen records, one result per partition, value or error.

Offsets are Kafka offsets; sizes are bytes; times are aware UTC datetimes. Unknown is None,
never 0 or -1 (only Kafka's own watermark fields keep -1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

DEFAULT_SEGMENT_BYTES = 1 << 30  # `segment.bytes` where nobody set it: log.segment.bytes
# How bytes are estimated, from the surest to the last resort: what is put together from several
# is called by the latter.
METHODS = ("segments", "history", "sampled", "proportional")


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the metadata names it, and whether it answered this time."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    reachable: bool = True
    error: str | None = None
    api_versions: dict[str, int] = field(default_factory=dict)  # API name -> highest version


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as the metadata describes it. `error` is Kafka's error name, or None."""

    topic: str
    partition: int
    leader_id: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: str | None = None

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic with its id (KIP-516, base64url as Kafka prints it) and partitions, sorted."""

    topic: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionState, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The leader's offsets: EARLIEST, the last stable offset (READ_COMMITTED) and LATEST.

    `leader_epoch`: in which the leader answered, where it was asked by one.
    """

    topic: str
    partition: int
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    error: str | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TieredOffsets:
    """Where the log of a partition with remote storage lies, by its leader (KIP-405, KIP-1005).

    Brokers' disks have it from `local_start_offset` on, the remote storage up to
    `remote_end_offset`; what is between the two lies in both. None: not known, `error` says why,
    or the broker is too old to tell where the remote part ends.
    """

    topic: str
    partition: int
    local_start_offset: int | None
    remote_end_offset: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetAtTime:
    """The first offset at or after a timestamp; None with no error means: no such record. `at` is
    that record's own time, where it bears one.
    """

    topic: str
    partition: int
    offset: int | None
    error: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReplicaOffsets:
    """A replica's own log start and log end (ListOffsets with replica id -2).

    The end is the log end, not the high watermark: never a cap for a target.
    """

    broker_id: int
    topic: str
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    observed_at: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LeaderLogStart:
    """EARLIEST read with replica id -1 and a leader epoch: only the current leader answers."""

    topic: str
    partition: int
    log_start_offset: int | None
    leader_epoch: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """One replica in one log dir as DescribeLogDirs lists it: `.log` bytes, no index files."""

    broker_id: int
    log_dir: str
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir of a broker; total and usable bytes since DescribeLogDirs v4 (KIP-827)."""

    broker_id: int
    log_dir: str
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None = None


def broker_id_of(text: str) -> int | None:
    """The id that a text names; None: it is none. Kafka's `node.id` is an INT of 0 or more."""
    number = int(text) if re.fullmatch("[0-9]{1,10}", text) else -1
    return number if 0 <= number < 2**31 else None


def used_share(total_bytes: int | None, usable_bytes: int | None) -> float | None:
    """0..1 of a disk; None where its broker does not tell both."""
    return None if not total_bytes or usable_bytes is None else 1 - usable_bytes / total_bytes


@dataclass(frozen=True, slots=True)
class LogDirsAnswer:
    """What DescribeLogDirs of all brokers gave; `errors` names each broker that did not answer."""

    log_dirs: tuple[LogDir, ...]
    replicas: tuple[ReplicaSize, ...]
    errors: dict[int, str]

    def untold(self) -> Callable[[int, TopicPartition], str | None]:
        """Why nobody can tell whether a broker moves its replica to another log dir, by broker and
        partition; None: the broker told of it. One that was not asked did not.
        """
        told = {(r.broker_id, r.topic, r.partition) for r in self.replicas}

        def why(broker_id: int, key: TopicPartition) -> str | None:
            if error := self.errors.get(broker_id):
                return f"the log dirs of broker {broker_id} cannot be read ({error})"
            if (broker_id, *key) in told:
                return None
            return f"broker {broker_id} does not list the replica in its log dirs"

        return why


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One partition that is being reassigned (ListPartitionReassignments)."""

    topic: str
    partition: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerMetric:
    """One count that a broker keeps of itself; `labels` is canonical JSON, `{}` for none."""

    broker_id: int
    name: str
    labels: str
    value: float


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """What brokers' exporters gave; `errors` names every one asked, None where it answered.

    `missing` names, for a broker that answered, beans of the short list of which nothing came.
    """

    samples: tuple[BrokerMetric, ...]
    errors: dict[int, str | None]
    missing: dict[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One effective setting of a topic or a broker."""

    scope: str  # "topic" or "broker"
    name: str
    key: str
    value: str | None
    source: str


# Errors of a topic that is none any more, or another one under its name.
NO_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
# What a group reads that was met while nobody could tell it: no topic has such a name.
ANY_TOPIC = "*"
# ClassicGroupState, ConsumerGroupState and StreamsGroupState: no member has its partitions yet,
# or some have not.
REBALANCING = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"}
)
# Protocol types of classic groups that elect and share work, and whose members read nothing by
# them: workers of Connect (WorkerGroupMember), and schema registries (Confluent's and Karapace).
WORKERS = frozenset({"connect", "sr"})


@dataclass(frozen=True, slots=True)
class Group:
    """One group, with or without members. `assigned` holds the partitions its members read.

    `subscribed`: topics that members ask for by name, assigned or not yet.
    `patterns`: regular expressions that they ask for and the broker resolves (KIP-848, RE2/J). A
    classic client resolves its own, and then asks for names: what it matches from now on shows
    when it has next refreshed its metadata (`metadata.max.age.ms`, 5 minutes unless set).
    `is_streams`: the group is a Kafka Streams application, as its type, its assignor, its
    members' names or what it commits tells; False where nothing of that shows.
    """

    group_id: str
    type: str  # classic, consumer, share, streams; of a classic one with members, see WORKERS
    state: str
    members: int | None  # None: not described, or nobody can tell what they read
    assigned: tuple[TopicPartition, ...] = ()
    coordinator_answered: bool = True
    error: str | None = None
    subscribed: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    is_streams: bool = False

    @property
    def topics(self) -> frozenset[str]:
        """Topics that members read, or ask to by name."""
        return frozenset(key.topic for key in self.assigned) | frozenset(self.subscribed)


def is_telling(kind: str | None, state: str, members: int | None, is_streams: bool) -> bool:
    """Whether a group's offsets tell what it may read, besides how far."""
    return kind == "share" or is_streams or members is None or state in REBALANCING


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """One committed offset; `committed_offset` None with no error means: never committed on this
    topic, or only on an earlier one of its name.

    `leader_epoch`: that of the last record that was read, as its committer says (KIP-320); None
    where it does not say.
    """

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    error: str | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """Every group of the cluster, and each reason why the list may be incomplete.

    An incomplete list looks like a safe topic, so `incomplete` non-empty blocks every purge
    (guard `groups-incomplete`).
    """

    groups: tuple[Group, ...]
    offsets: tuple[GroupOffset, ...]
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """OffsetForLeaderEpoch: where a leader epoch ended (KIP-101)."""

    topic: str
    partition: int
    leader_epoch: int | None
    end_offset: int | None
    error: str | None = None


# How a purge waits for its answer: for all live replicas, for the leader, which DeleteRecords v3
# can be told (KIP-1343, a proposal that no release speaks), or for the leader, read back by us.
MODES = ("wait-all", "leader-only", "leader-only-verified")
LEADER_ONLY_SINCE = 3


REQUEST_TIMED_OUT, TOPIC_AUTHORIZATION_FAILED = 7, 29  # Kafka's numbers, as in its answers


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartitionResult:
    """One partition of a DeleteRecords answer, fields named as KIP-107 and the LeaderOnly KIP do.

    `error_code` is Kafka's number; `leader_log_start_offset` is -1 from v0-v2 brokers.
    """

    topic: str
    partition: int
    low_watermark: int
    leader_log_start_offset: int
    error_code: int
    error: str | None = None  # Kafka's name for error_code, None for 0


@dataclass(frozen=True, slots=True)
class DeleteRecordsResult:
    """The answer of one leader to one DeleteRecords request; not `sent`: it speaks none such."""

    leader_id: int
    api_version: int
    partition_results: tuple[DeleteRecordsPartitionResult, ...]
    sent: bool = True


@dataclass(frozen=True, slots=True)
class Guard:
    """Why a partition may not be purged: `{name, reason, lift}`; lift says what would lift it."""

    name: str
    reason: str
    lift: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "reason": self.reason, "lift": self.lift}


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch on disk: its first offset, its bytes, and how many offsets it spans.

    `max_timestamp_ms` is of its youngest record; None where records have no timestamps.
    """

    base_offset: int
    size_bytes: int
    offsets: int
    max_timestamp_ms: int | None = None


class BatchSpan(NamedTuple):
    """A batch's header: the offsets that it spans, both inclusive, and how many records it has left
    (the log cleaner takes single ones). `control`: it is a marker of a transaction or the like.
    """

    base_offset: int
    last_offset: int
    records: int
    control: bool
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class BatchSamples:
    """Batches of one partition by rising base offset, or the error that hid them."""

    topic: str
    partition: int
    batches: tuple[Batch, ...]
    error: str | None = None


Operations = frozenset[str]


class Authorized(NamedTuple):
    """Operations, of those that Lowwater uses; None where the cluster does not tell.

    `topics` and `groups` hold the names asked for: a topic that may not even be described has
    none at all.
    """

    cluster: Operations | None
    topics: Mapping[str, Operations | None]
    groups: Mapping[str, Operations | None]
