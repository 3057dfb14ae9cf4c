"""Which brokers, topics and partitions are there: Metadata and DescribeCluster."""

from __future__ import annotations

import base64
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Ask, Connection, meet_bootstrap, passed_on
from dashboard.cluster.connection.wire import Wire, metadata_of_nothing
from dashboard.cluster.protocol.messages import (
    RIGHTS_NOT_TOLD,
    DescribeClusterRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    error_name,
    length,
    rights_on_cluster,
    skip_tags,
    string,
)
from dashboard.core.errors import ClusterError
from dashboard.domain.model import Broker, PartitionState, Reassignment, TopicState

# APIs whose versions decide what can be known or done here, by the names Kafka gives them.
APIS_OF_INTEREST = {
    2: "ListOffsets",
    3: "Metadata",
    9: "OffsetFetch",
    16: "ListGroups",
    21: "DeleteRecords",
    23: "OffsetForLeaderEpoch",
    35: "DescribeLogDirs",
    60: "DescribeCluster",
    69: "ConsumerGroupDescribe",
    77: "ShareGroupDescribe",
    90: "DescribeShareGroupOffsets",
}
_DESCRIBE = 1 << 8  # AclOperation.DESCRIBE is bit 8 of authorized operations (KIP-430)


def read_topics(connection: Connection, names: Iterable[str] | None) -> dict[str, TopicState]:
    """Topics by name, sorted; None asks for all. A topic that is not there carries its error.

    Never creates a topic. Refreshes the connection's broker addresses on the way. Raises
    ClusterError when no broker answers.
    """
    wanted = None if names is None else sorted(set(names))
    if wanted == []:
        return {}

    found: tuple[Addresses, dict[str, TopicState]] = connection.ask_any(_question(wanted))
    connection.remember(found[0])
    return found[1]


def read_topics_at(
    connection: Connection, topics: Mapping[int, Iterable[str]]
) -> dict[int, dict[str, TopicState] | str]:
    """Topics as each broker itself sees them: broker id -> topics by name, or its error's code.

    A broker that is cut off from the controllers tells of topics that are gone, leads what others
    lead by now, and calls gone who came back since: that one is asked at its bootstrap address.
    """
    own = connection.apart()
    if not topics.keys() <= set(own.broker_ids()):
        meet_bootstrap(own)
    answers = own.ask_each({broker: ask_for_topics(names) for broker, names in topics.items()})
    return {b: a.code if isinstance(a, ClusterError) else a for b, a in answers.items()}


def ask_for_topics(names: Iterable[str]) -> Callable[[Wire, float], dict[str, TopicState]]:
    """The question of how the one broker that is asked sees these topics."""
    question = _question(sorted(set(names)))

    def ask(wire: Wire, deadline: float) -> dict[str, TopicState]:
        _, states = question(wire, deadline)
        return dict(states)

    return ask


def _question(wanted: list[str] | None) -> Ask:
    """Metadata of these topics (None: of all), as addresses of brokers and topics by name."""

    def request(version: int) -> Any:
        one = MetadataRequest.MetadataRequestTopic
        topics = None if wanted is None else [one(name=name, version=version) for name in wanted]
        return MetadataRequest(version=version, topics=topics, allow_auto_topic_creation=False)

    def ask(wire: Wire, deadline: float) -> tuple[Addresses, dict[str, TopicState]]:
        version = wire.version(MetadataRequest, VERSION)
        if version == VERSION:
            found = wire.ask_rows(lambda _: request(version), decode, deadline)
            wire.heard(found.cluster_id)
            return found.addresses, _completed(found.topics, wanted)
        answer = wire.ask(lambda _: request(version), deadline)
        addresses = {b.node_id: (b.host, b.port) for b in answer.brokers}
        topics = sorted(answer.topics, key=lambda topic: topic.name)
        return addresses, _completed({t.name: _topic(t) for t in topics}, wanted)

    return ask


def _completed(found: dict[str, TopicState], wanted: list[str] | None) -> dict[str, TopicState]:
    # An answer that leaves a topic out, a proxy's say, does not say that there is none.
    left_out = [name for name in wanted or () if name not in found]
    unknown = {n: TopicState(n, None, False, (), "UNKNOWN_SERVER_ERROR") for n in left_out}
    return dict(sorted((found | unknown).items())) if left_out else found


def read_topic_of_id(connection: Connection, wanted: str) -> TopicState:
    """The topic of an id, whatever its name. Metadata of all topics leaves out hidden ones.

    UNKNOWN_TOPIC_ID: there is none. TOPIC_AUTHORIZATION_FAILED: there is one, and we may not
    describe it (KIP-516); both without a name. Raises ClusterError, API_UNSUPPORTED from brokers
    without Metadata v12, the first that takes ids.
    """
    raw = raw_topic_id(wanted)

    def request(_: Wire) -> Any:
        one = MetadataRequest.MetadataRequestTopic(
            name=None, topic_id=uuid.UUID(bytes=raw), version=VERSION
        )
        return MetadataRequest(version=VERSION, topics=[one], allow_auto_topic_creation=False)

    def ask(wire: Wire, deadline: float) -> TopicState:
        if wire.version(MetadataRequest, VERSION) < VERSION:
            raise ClusterError(
                f"{wire.address} cannot be asked for a topic by its id",
                "That came with Metadata v12, in Kafka 3.1.",
                code="API_UNSUPPORTED",
            )
        found = wire.ask_rows(request, decode, deadline)
        wire.heard(found.cluster_id)
        left_out = TopicState("", None, False, (), "UNKNOWN_SERVER_ERROR")
        return next(iter(found.topics.values()), left_out)

    answer: TopicState = connection.ask_any(ask)
    return answer


def _topic(found: Any) -> TopicState:
    partitions = sorted(found.partitions, key=lambda p: p.partition_index)
    return TopicState(
        topic=found.name,
        topic_id=topic_id(found.topic_id.bytes) if found.topic_id else None,
        is_internal=bool(found.is_internal),
        partitions=tuple(_partition(found.name, p) for p in partitions),
        error=error_name(found.error_code),
    )


def _partition(topic: str, found: Any) -> PartitionState:
    return PartitionState(
        topic,
        found.partition_index,
        found.leader_id if found.leader_id >= 0 else None,
        found.leader_epoch if found.leader_epoch >= 0 else None,
        tuple(found.replica_nodes),
        tuple(found.isr_nodes),
        error_name(found.error_code),
    )


def read_brokers(connection: Connection, assigned: Iterable[int]) -> tuple[Broker, ...]:
    """Every broker and whether it answers now, sorted by id.

    That is: the alive ones of the metadata, the fenced ones (DescribeCluster v2, KIP-1073), and
    `assigned`, ids known from replica lists. Never raises for a single broker.
    """
    found = {broker.broker_id: broker for broker in _described(connection)}
    answers = connection.ask_each(dict.fromkeys(connection.broker_ids(), _versions))
    brokers = []
    for broker_id in sorted({*found, *answers, *assigned}):
        known = found.get(broker_id) or Broker(broker_id, "", 0)
        answer = answers.get(broker_id)
        if isinstance(answer, dict):
            brokers.append(_with(known, True, None, answer))
        else:
            error = answer.message if answer else "it is not registered as alive"
            brokers.append(_with(known, False, error, {}))
    return tuple(brokers)


def _with(known: Broker, reachable: bool, error: str | None, versions: dict[str, int]) -> Broker:
    return Broker(known.broker_id, known.host, known.port, known.rack, reachable, error, versions)


def _versions(wire: Wire, deadline: float) -> dict[str, int]:
    # A new question, not the greeting remembered from when this connection was opened.
    wire.ask(metadata_of_nothing, deadline)
    return {
        name: wire.versions[key][1]
        for key, name in APIS_OF_INTEREST.items()
        if key in wire.versions
    }


def _described(connection: Connection) -> list[Broker]:
    def request(wire: Wire) -> Any:
        version = wire.version(DescribeClusterRequest)
        return DescribeClusterRequest(
            version=version, include_fenced_brokers=version >= 2, endpoint_type=1
        )

    try:
        answer = connection.ask_any(lambda wire, deadline: wire.ask(request, deadline))
        nodes = answer.brokers if not answer.error_code else []
        if nodes:
            return [Broker(b.broker_id, b.host, b.port, b.rack) for b in nodes]
    except ClusterError as error:
        if error.code != "API_UNSUPPORTED":
            raise
    listed = connection.ask_any(lambda wire, deadline: wire.ask(metadata_of_nothing, deadline))
    return [Broker(b.node_id, b.host, b.port, b.rack) for b in listed.brokers]


def may_describe_cluster(wire: Wire, deadline: float) -> bool | None:
    """Whether this broker lets us DESCRIBE the cluster: else its ListGroups leaves groups out.

    A broker without an authorizer names every right. None where this one does not tell: it is
    older than 2.8 (KIP-700), or some other program that speaks Kafka's protocol.
    """
    try:
        answer = wire.ask(rights_on_cluster, deadline)
    except ClusterError as error:
        if error.code == "API_UNSUPPORTED":
            return None
        raise
    operations = answer.cluster_authorized_operations
    if answer.error_code or operations == RIGHTS_NOT_TOLD:
        return None
    return bool(operations & _DESCRIBE)


# Which partitions are being moved between brokers: ListPartitionReassignments (KIP-455).

# While a controller is elected, brokers pass the question on to one that no longer is.
_AGAIN = "NOT_CONTROLLER"
_PAUSES_SECONDS = (0.1, 0.3, 0.6)
_NO_RIGHT = "CLUSTER_AUTHORIZATION_FAILED"


def read_reassignments(connection: Connection) -> tuple[Reassignment, ...]:
    """Every reassignment under way, sorted.

    Any broker passes the question on to the controller. Raises ClusterError
    CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster; REASSIGNMENTS_UNKNOWN when no
    controller told, which says nothing of what is moved.
    """
    answer = _ask(connection)
    for pause in _PAUSES_SECONDS:
        if error_name(answer.error_code) != _AGAIN:
            break
        time.sleep(pause)
        answer = _ask(connection)
    if answer.error_code:
        raise _refused(error_name(answer.error_code))
    return tuple(
        Reassignment(
            topic.name, p.partition_index, tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in sorted(answer.topics, key=lambda t: t.name)
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    )


def _ask(connection: Connection) -> Any:

    def request(at: Wire) -> Any:
        version = at.version(ListPartitionReassignmentsRequest)
        patience_ms = int(connection.timeout_seconds * 1000)
        return ListPartitionReassignmentsRequest(
            version=version, timeout_ms=patience_ms, topics=None
        )

    return connection.ask_any(passed_on(lambda wire, deadline: wire.ask(request, deadline)))


def _refused(error: str | None) -> ClusterError:
    said = f"reassignments cannot be listed: {error}"
    if error == _NO_RIGHT:
        return ClusterError(said, "Grant DESCRIBE on the cluster.", code=_NO_RIGHT)
    return ClusterError(
        said,
        "Wait until the controller answers again.",
        code="REASSIGNMENTS_UNKNOWN",
        retriable=True,
    )


# Metadata v12 decoded row by row: a large cluster's has a million partitions in it.

VERSION = 12  # topic ids since v10 (KIP-516)
_HEAD = struct.Struct(">hiii")  # error code, partition, leader, leader epoch
_INTS = [struct.Struct(f">{count}i") for count in range(64)]
_NO_ID = bytes(16)

Ids = tuple[int, ...]
Addresses = dict[int, tuple[str, int]]  # broker id -> host and port


class Metadata(NamedTuple):
    """Addresses of the alive brokers, whose cluster it is, and topics by name, sorted."""

    addresses: Addresses
    cluster_id: str
    topics: dict[str, TopicState]


def decode(body: memoryview[int]) -> Metadata:
    """What a body says.

    Raises IndexError, struct.error or ValueError for an answer that is cut short or too long.
    """
    count, at = length(body, 4)  # behind the throttle time
    brokers: Addresses = {}
    for _ in range(count):
        (broker,) = struct.unpack_from(">i", body, at)
        host, at = string(body, at + 4)
        (port,) = struct.unpack_from(">i", body, at)
        _, at = string(body, at + 4)  # rack
        at = skip_tags(body, at)
        brokers[broker] = (host, port)
    cluster_id, at = string(body, at)
    count, at = length(body, at + 4)  # behind the controller
    topics: list[TopicState] = []
    seen: dict[Ids, Ids] = {}
    for _ in range(count):
        topic, at = _metadata_rows_topic(body, at, seen)
        topics.append(topic)
    if skip_tags(body, at) != len(body):
        raise ValueError("the answer is not as long as its rows")
    by_name = {t.topic: t for t in sorted(topics, key=lambda topic: topic.topic)}
    return Metadata(brokers, cluster_id, by_name)


def _metadata_rows_topic(
    body: memoryview[int], at: int, seen: dict[Ids, Ids]
) -> tuple[TopicState, int]:
    (error,) = struct.unpack_from(">h", body, at)
    name, at = string(body, at + 2)
    raw_id, internal = bytes(body[at : at + 16]), body[at + 16] != 0
    count, at = length(body, at + 17)
    partitions: list[PartitionState] = []
    for _ in range(count):
        partition, at = _metadata_rows_partition(name, body, at, seen)
        partitions.append(partition)
    partitions.sort(key=lambda p: p.partition)
    at = skip_tags(body, at + 4)  # behind the asker's rights
    return TopicState(name, topic_id(raw_id), internal, tuple(partitions), error_name(error)), at


def _metadata_rows_partition(
    topic: str, body: memoryview[int], at: int, seen: dict[Ids, Ids]
) -> tuple[PartitionState, int]:
    error, partition, leader, epoch = _HEAD.unpack_from(body, at)
    replicas, at = _ids(body, at + _HEAD.size, seen)
    isr, at = _ids(body, at, seen)
    _, at = _ids(body, at, seen)  # offline replicas
    state = PartitionState(
        topic,
        partition,
        leader if leader >= 0 else None,
        epoch if epoch >= 0 else None,
        replicas,
        isr,
        error_name(error) if error else None,
    )
    return state, skip_tags(body, at)


def _ids(body: memoryview[int], at: int, seen: dict[Ids, Ids]) -> tuple[Ids, int]:
    """Broker ids. Equal ones are kept once: a million partitions share some hundred lists."""
    count, at = length(body, at)
    packed = _INTS[count] if count < len(_INTS) else struct.Struct(f">{count}i")
    found = packed.unpack_from(body, at)
    return seen.setdefault(found, found), at + packed.size


def topic_id(raw: bytes) -> str | None:
    """Kafka's spelling of a topic id (org.apache.kafka.common.Uuid): base64url, no padding."""
    if raw == _NO_ID:
        return None
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def raw_topic_id(spelled: str) -> bytes:
    """The 16 bytes of a topic id as `topic_id` spells it."""
    return base64.urlsafe_b64decode(f"{spelled}==")
