"""The seam between this product and a Kafka cluster: every question, read fresh, as values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dashboard.cluster.commit_offsets import commit_offsets
from dashboard.cluster.configs import ConfigsAnswer, read_configs, read_own_configs
from dashboard.cluster.connection.authorized import read_authorized
from dashboard.cluster.connection.connection import (
    Connection,
    open_connection,
    read_alive_anywhere,
    read_cluster_id,
)
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.create_topic import create_topic
from dashboard.cluster.delete_records import delete_records, read_batch_spans, read_batches
from dashboard.cluster.groups import read_groups
from dashboard.cluster.offsets import (
    read_epoch_ends,
    read_leader_log_starts,
    read_offsets,
    read_offsets_at,
    read_replica_offsets,
    read_tiered_offsets,
)
from dashboard.cluster.protocol.messages import DescribeLogDirsRequest, error_name
from dashboard.cluster.quorum import read_caught_up, read_controller_time
from dashboard.cluster.topics import (
    read_brokers,
    read_reassignments,
    read_topic_of_id,
    read_topics,
    read_topics_at,
)
from dashboard.core.errors import ClusterError
from dashboard.domain.model import (
    Authorized,
    BatchSamples,
    BatchSpan,
    Broker,
    ConfigEntry,
    DeleteRecordsResult,
    EpochEnd,
    GroupListing,
    LeaderLogStart,
    LogDir,
    LogDirsAnswer,
    OffsetAtTime,
    PartitionOffsets,
    Reassignment,
    ReplicaOffsets,
    ReplicaSize,
    TieredOffsets,
    TopicPartition,
    TopicState,
)

if TYPE_CHECKING:
    from dashboard.domain.columns import LeaderOffsets, OwnOffsets, Placement, Sizes


class LiveCluster:
    """Each method asks the brokers now. One result per partition, value or error, sorted.

    A broker that does not answer costs its own rows; ClusterError is raised only when nothing
    could be read at all. Thread-safe; close it, or use it as a context manager.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> LiveCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()

    def cluster_id(self) -> str:
        """The cluster's own id, read now: another cluster may have taken over the address."""
        return read_cluster_id(self._connection)

    def brokers(self, assigned: Iterable[int] = ()) -> tuple[Broker, ...]:
        """Every broker, reachable or not; `assigned` adds ids known from replica lists."""
        return read_brokers(self._connection, assigned)

    def alive_brokers(self) -> tuple[int, ...]:
        """Ids of the brokers that the newest metadata lists as alive; a fenced one is not."""
        return tuple(self._connection.broker_ids())

    def alive_anywhere(self) -> tuple[int, ...]:
        """Ids of the brokers that any alive broker, asked now, lists as alive."""
        return read_alive_anywhere(self._connection)

    def controller_time(self) -> datetime | None:
        """The active controller's clock, now; None where no broker speaks of it (KIP-836).

        Raises ClusterError CLOCK_UNREAD where it could not be read.
        """
        return read_controller_time(self._connection)

    def caught_up(self, brokers: Iterable[int]) -> dict[int, bool | None]:
        """Whether each broker reaches the controllers, and has read all that they decided.

        None: it does not speak of that (ZooKeeper).
        """
        return read_caught_up(self._connection, brokers)

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        """Topics by name; None asks for all; one that is not there carries its error."""
        return read_topics(self._connection, names)

    def topics_at(
        self, topics: Mapping[int, Iterable[str]]
    ) -> dict[int, dict[str, TopicState] | str]:
        """Topics as each broker itself sees them, by name; or the error of asking it."""
        return read_topics_at(self._connection, topics)

    def topic_of_id(self, topic_id: str) -> TopicState:
        """The topic of an id; one that is not there, or hidden from us, carries its error."""
        return read_topic_of_id(self._connection, topic_id)

    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]:
        """Settings that decide what a purge does. A resource that refused has no entry."""
        return self.configs_answer(topics, brokers).entries

    def configs_answer(self, topics: Iterable[str], brokers: Iterable[int] = ()) -> ConfigsAnswer:
        """The same, with the error of each resource that refused."""
        return read_configs(self._connection, topics, brokers)

    def own_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str | None] | str]:
        """What was set on each topic itself, or Kafka's error."""
        return read_own_configs(self._connection, topics)

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]:
        """Log start, last stable offset, high watermark; `topics` saves a metadata read."""
        return read_offsets(self._connection, partitions, topics)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        """The first offset at or after a time; None without an error: no such record."""
        return read_offsets_at(self._connection, partitions, at)

    def tiered_offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, TieredOffsets]:
        """Where the local log begins and the remote one ends, of topics with remote storage."""
        return read_tiered_offsets(self._connection, partitions, topics)

    def replica_offsets(
        self,
        partitions: Iterable[TopicPartition],
        brokers: Iterable[int] | None = None,
        topics: Mapping[str, TopicState] | None = None,
    ) -> tuple[ReplicaOffsets, ...]:
        """Each replica's own log start and end; `topics` saves a metadata read."""
        wanted = list(partitions)
        known = topics if topics is not None else self.topics({p.topic for p in wanted})
        return read_replica_offsets(self._connection, wanted, known, brokers)

    def leader_offsets(self, placement: Placement) -> LeaderOffsets:
        """The leader's offsets of every partition, as columns."""
        from dashboard.cluster.protocol.offset_columns import read_leader_offsets  # it loads numpy

        return read_leader_offsets(self._connection, placement)

    def own_offsets(self, placement: Placement) -> OwnOffsets:
        """Every replica's own log start and end, as columns."""
        from dashboard.cluster.protocol.offset_columns import read_own_offsets

        return read_own_offsets(self._connection, placement)

    def leader_log_starts(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LeaderLogStart]:
        """EARLIEST of the current leader, fenced by the leader epoch given."""
        return read_leader_log_starts(self._connection, epochs)

    def batch_spans(
        self, key: TopicPartition, offset: int, most_bytes: int
    ) -> tuple[BatchSpan, ...] | str:
        """Headers of the batches from an offset on, or Kafka's error; needs READ on the topic."""
        return read_batch_spans(self._connection, key, offset, most_bytes)

    def batches(
        self, offsets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, BatchSamples]:
        """The record batch at each offset, from its leader; needs READ on the topic."""
        return read_batches(self._connection, offsets)

    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer:
        """Log dirs of every alive broker and sizes in bytes of all replicas.

        `partitions` and `brokers` narrow that down.
        """
        return read_log_dirs(self._connection, partitions, brokers)

    def sizes(self) -> Sizes:
        """The log dirs and sizes of every alive broker, as columns."""
        from dashboard.cluster.protocol.offset_columns import read_sizes

        return read_sizes(self._connection)

    def reassignments(self) -> tuple[Reassignment, ...]:
        """Partitions that are being moved. Raises ClusterError when that is refused."""
        return read_reassignments(self._connection)

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        """All groups of all brokers, their offsets, and why the list may be incomplete.

        `topics` are those of which no offset may be missing; their states tell commits of earlier
        topics of a name apart (`read_group_offsets`).
        """
        return read_groups(self._connection, topics, with_offsets=with_offsets)

    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized:
        """Our rights on the cluster, these topics and groups, as the brokers tell (KIP-430)."""
        return read_authorized(self._connection, topics, groups)

    def principal(self) -> str | None:
        """Who we are to a broker without mapping rules; None for tokens, which say it inside."""
        return self._connection.security.principal

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Where each partition's given leader epoch ended."""
        return read_epoch_ends(self._connection, epochs)

    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> DeleteRecordsResult:
        """One DeleteRecords request to one leader; see `delete_records.delete_records`."""
        return delete_records(
            self._connection, leader_id, targets, timeout_ms=timeout_ms, leader_only=leader_only,
            may_leave=may_leave,
        )  # fmt: skip

    def create_topic(
        self, topic: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> TopicState:
        """A new topic, once each partition has a leader; see `create_topic.create_topic`."""
        return create_topic(
            self._connection, topic, partitions=partitions, replication_factor=replication_factor,
            configs=configs,
        )  # fmt: skip

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> dict[TopicPartition, str | None]:
        """Move offsets of a group without members; see `commit_offsets.commit_offsets`."""
        return commit_offsets(self._connection, group_id, offsets, may_leave=may_leave)


def connect(
    client: Mapping[str, str],
    timeout: timedelta = timedelta(seconds=10),
    *,
    cluster_id: str | None = None,
) -> LiveCluster:
    """Open a cluster by client properties in librdkafka's words; `timeout` is each broker's.

    `cluster_id` is the cluster's, where it is known before; see `connection.open_connection`.
    Raises SettingsError, or ClusterError that names the address.
    """
    return LiveCluster(open_connection(client, timeout=timeout, cluster_id=cluster_id))


# How many bytes each replica has in each log dir: DescribeLogDirs of every broker.


def read_log_dirs(
    connection: Connection,
    partitions: Iterable[TopicPartition] | None,
    brokers: Iterable[int] | None,
) -> LogDirsAnswer:
    """Log dirs and replica sizes of all alive brokers, or of `brokers`, alive or not.

    A broker that did not answer stands in `errors`. Without `partitions` topics are asked for as
    null: every replica the broker reports, in the metadata or not; a purge that follows a few asks
    for those alone. Needs DESCRIBE on the cluster. v1 and v2 have no top-level error (it came with
    v3), so an answer without any log dir is taken for the refusal it is.
    """
    question = _question(None if partitions is None else sorted(set(partitions)))
    asked = connection.broker_ids() if brokers is None else brokers
    answers = connection.ask_each(dict.fromkeys(asked, question))
    dirs: list[LogDir] = []
    replicas: list[ReplicaSize] = []
    errors: dict[int, str] = {}
    for broker_id, answer in sorted(answers.items()):
        refusal = _refusal(answer)
        if refusal:
            errors[broker_id] = refusal
            continue
        for found in answer.results:
            dirs.append(_log_dir(broker_id, found))
            replicas += _replicas(broker_id, found)
    return LogDirsAnswer(
        tuple(sorted(dirs, key=lambda d: (d.broker_id, d.log_dir))), tuple(replicas), errors
    )


def _question(partitions: list[TopicPartition] | None) -> Callable[[Wire, float], Any]:
    def request(at: Wire) -> Any:
        version = at.version(DescribeLogDirsRequest)
        return DescribeLogDirsRequest(version=version, topics=_topics(partitions, version))

    return lambda wire, deadline: wire.ask(request, deadline)


def _topics(partitions: list[TopicPartition] | None, version: int) -> list[Any] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = defaultdict(list)
    for key in partitions:
        by_topic[key.topic].append(key.partition)
    one = DescribeLogDirsRequest.DescribableLogDirTopic
    return [one(topic=t, partitions=found, version=version) for t, found in by_topic.items()]


def _refusal(answer: Any) -> str | None:
    if isinstance(answer, ClusterError):
        return answer.code
    if answer.error_code:
        return error_name(answer.error_code)
    return None if answer.results else "CLUSTER_AUTHORIZATION_FAILED"


def _log_dir(broker_id: int, found: Any) -> LogDir:
    return LogDir(
        broker_id,
        found.log_dir,
        found.total_bytes if found.total_bytes >= 0 else None,
        found.usable_bytes if found.usable_bytes >= 0 else None,
        error_name(found.error_code),
    )


def _replicas(broker_id: int, found: Any) -> list[ReplicaSize]:
    log_dir = found.log_dir
    return [
        ReplicaSize(
            broker_id,
            log_dir,
            topic.name,
            p.partition_index,
            p.partition_size,
            p.offset_lag,
            p.is_future_key,
        )
        for topic in found.topics
        for p in topic.partitions
    ]
