"""What single brokers answer about groups, to the product's own code that asks and merges.

Each broker tells what it believes: metadata from before it was cut off, groups that another one
coordinates by now. Answers are what that code reads of Kafka's messages, without the bytes between;
committed offsets are bytes, which it decodes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from random import Random
from types import SimpleNamespace as Answer
from typing import Any

from kafka.protocol.consumer import ConsumerProtocolSubscription, OffsetFetchResponse

from dashboard.cluster import groups as product
from dashboard.cluster.protocol.messages import ConsumerProtocolAssignment
from dashboard.cluster.topics import topic_id
from dashboard.core.errors import BrokerError, ClusterError
from dashboard.domain.model import GroupListing, TopicPartition
from tests.simulation import coordinators
from tests.simulation.joining import Told
from tests.simulation.records import View
from tests.simulation.world import World

_VERSIONS = {
    "MetadataRequest": 9, "DescribeClusterRequest": 1, "ListGroupsRequest": 5,
    "DescribeGroupsRequest": 5, "OffsetFetchRequest": 9,
    "FindCoordinatorRequest": 4, "ListOffsetsRequest": 4,
}  # fmt: skip
_BY_ID = 10  # the first OffsetFetch that knows topics by their ids
_LOADING, _NO_COORDINATOR, _NOT_COORDINATOR = 14, 15, 16
_UNKNOWN, _NOT_LEADER, _HIDDEN = 3, 6, 29
_STAGES = {
    coordinators.IDLE: _NOT_COORDINATOR, coordinators.LOADING: _LOADING, coordinators.ACTIVE: 0,
}  # fmt: skip
_DESCRIBE = 1 << 8
_MEMBER = {"member_id": "m", "client_id": "c", "instance_id": None}
OFFSETS_TOPIC = "__consumer_offsets"
CLUSTER_ID = "cluster-1"


class ModelConnection:
    """`dashboard.cluster.connection.connection.Connection`, as far as reading groups needs it."""

    timeout_seconds = 10.0
    cluster_id = CLUSTER_ID

    def __init__(self, world: World, rng: Random, waited: Callable[[int], None]) -> None:
        self.world, self.rng, self.waited = world, rng, waited
        self.unheard: int | None = None  # the broker whose list of groups gets lost
        self._ids = world.view().alive
        self.listed_last: int | None = None
        self._first = world.asked_first

    def apart(self) -> ModelConnection:
        """Nobody else asks by it."""
        return self

    def broker_ids(self) -> list[int]:
        return sorted(self._ids)

    def remember(self, addresses: Mapping[int, Any]) -> None:
        self._ids = tuple(addresses)

    def meet(self, addresses: Mapping[int, Any]) -> None:
        self._ids = tuple({*self._ids, *addresses})

    def strangers(self) -> list[int]:
        """Every broker's address is a bootstrap one."""
        return [b for b in self.world.brokers if b not in self._ids and self.world.answers(b)]

    def ask_stranger(self, address: int, question: Any) -> Any:
        return self.ask(address, question)

    def side_by_side(self, calls: Mapping[int, Any]) -> dict[int, Any]:
        return {at: call() for at, call in calls.items()}

    def ask(self, broker_id: int, question: Any) -> Any:
        if not self.world.answers(broker_id):
            self.waited(broker_id)
            raise BrokerError(broker_id, "no answer", "wait", code="ANSWER_LOST")
        return question(ModelWire(self, broker_id), 0.0)

    def ask_each(self, questions: Mapping[int, Any]) -> dict[int, Any]:
        found = {}
        for broker_id, question in sorted(questions.items()):
            try:
                found[broker_id] = self.ask(broker_id, question)
            except ClusterError as error:
                found[broker_id] = error
            if broker_id == self.listed_last:  # no other moment of a listing is as bad
                coordinators.looked_at(self.world, broker_id)
        return found

    def ask_any(self, question: Any) -> Any:
        """Who answered last is asked first, as long as it answers."""
        if self._first is None or not self.world.answers(self._first):
            working = [b for b in self.world.brokers if self.world.answers(b)]
            if not working:
                raise ClusterError("nobody answers", "wait")
            self._first = self.rng.choice(working)
        return self.ask(self._first, question)


class ModelWire:
    """`dashboard.cluster.connection.wire.Wire` to one broker."""

    def __init__(self, connection: ModelConnection, broker_id: int) -> None:
        self.connection, self.broker_id = connection, broker_id
        self.world, self.address = connection.world, f"broker {broker_id}"

    def version(self, message: Any, newest: int | None = None) -> int:
        known = _VERSIONS.get(message.__name__, message.valid_versions[1])
        if self.world.tells_ids and message.__name__ == "OffsetFetchRequest":
            known = _BY_ID
        return min(known, known if newest is None else newest)

    def oldest(self, message: Any) -> int:
        return min(_VERSIONS[message.__name__], 1)

    def ask(self, request: Any, deadline: float) -> Any:  # noqa: ARG002
        made = request(self)
        name = type(made).__name__.removesuffix("Request")
        return _ANSWERS[name](self, made)

    def ask_rows(
        self,
        request: Any,
        decode: Callable[[memoryview[int]], Any],
        deadline: float,  # noqa: ARG002
    ) -> Any:
        made = request(self)
        groups = [_committed(self, group, made.API_VERSION) for group in made.groups]
        answer = OffsetFetchResponse(version=made.API_VERSION, throttle_time_ms=0, groups=groups)
        return decode(memoryview(answer.encode()))

    @property
    def listed(self) -> dict[str, Told]:
        return coordinators.listed_by(self.world, self.broker_id)

    @property
    def view(self) -> View:
        return self.world.brokers[self.broker_id].view or self.world.view()


def read_groups(
    connection: ModelConnection, topics: Iterable[str], *, with_offsets: bool
) -> GroupListing:
    """The product's own listing of groups over these answers."""
    return product.read_groups(connection, topics, with_offsets=with_offsets)  # type: ignore[arg-type]


def _metadata(wire: ModelWire, _: Any) -> Any:
    ids = tuple(sorted(wire.world.brokers))
    partitions = [
        Answer(error_code=0 if leader is not None else 5, partition_index=number,
               leader_id=-1 if leader is None else leader, leader_epoch=epoch, replica_nodes=ids,
               isr_nodes=ids)
        for number, (leader, epoch) in sorted(wire.view.coordinators.items())
    ]  # fmt: skip
    topic = Answer(name=OFFSETS_TOPIC, topic_id=None, is_internal=True, error_code=0,
                   partitions=partitions)  # fmt: skip
    return Answer(brokers=_nodes(wire), topics=[topic], cluster_id=CLUSTER_ID)


def _nodes(wire: ModelWire) -> list[Any]:
    return [
        Answer(node_id=b, broker_id=b, host=f"b{b}", port=9092, rack=None) for b in wire.view.alive
    ]


def _cluster(wire: ModelWire, _: Any) -> Any:
    return Answer(error_code=0, cluster_authorized_operations=_DESCRIBE, brokers=_nodes(wire))


def _list(wire: ModelWire, _: Any) -> Any:
    if wire.connection.unheard == wire.broker_id:
        raise BrokerError(wire.broker_id, "lost", "read", code="ANSWER_LOST")
    world = wire.world
    believed = world.brokers[wire.broker_id].coordinates
    wire.connection.listed_last = wire.broker_id
    stages = {coordinators.stage(world, wire.broker_id, number) for number in believed}
    groups = [
        Answer(group_id=g, group_type=told.kind, group_state=told.state,
               protocol_type="consumer" if told.kind != "streams" else "streams")
        for g, told in wire.listed.items()
    ]  # fmt: skip
    # Only one that reads its groups right now says so: ListGroups passes over one that does not.
    return Answer(error_code=_LOADING if coordinators.LOADING in stages else 0, groups=groups)


def _classic(wire: ModelWire, request: Any) -> Any:
    return Answer(groups=[_one_classic(wire, g) for g in request.groups])


def _not_there(wire: ModelWire, group_id: str) -> int:
    """The error code for a group that this broker does not know; 0: it might, and does not."""
    number = coordinators.of_group(group_id)
    if number not in wire.world.brokers[wire.broker_id].coordinates:
        return _NOT_COORDINATOR
    return _STAGES[coordinators.stage(wire.world, wire.broker_id, number)]


def _one_classic(wire: ModelWire, group_id: str) -> Any:
    told = wire.listed.get(group_id)
    if told is None:
        error = _not_there(wire, group_id)
        return Answer(error_code=error, group_id=group_id, group_state="" if error else "Dead",
                      members=[], protocol_type="", protocol_data="")  # fmt: skip
    # Brokers tell members' words while the group is Stable, and leave them out while it is not.
    stable = told.state == "Stable"
    member = Answer(
        **_MEMBER, member_assignment=_assignment(told.assigned) if stable else b"",
        member_metadata=_subscription(told.asked or ()) if stable else b"",
    )  # fmt: skip
    return Answer(error_code=0, group_id=group_id, group_state=told.state, members=[member],
                  protocol_type="consumer", protocol_data="range")  # fmt: skip


@lru_cache(maxsize=1024)
def _assignment(assigned: tuple[TopicPartition, ...]) -> bytes:
    one = ConsumerProtocolAssignment.TopicPartition
    topics = [one(topic=t, partitions=n) for t, n in _by_topic(assigned).items()]
    made = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None, version=1)
    return bytes(made.encode())


@lru_cache(maxsize=1024)
def _subscription(topics: tuple[str, ...]) -> bytes:
    made = ConsumerProtocolSubscription(
        topics=list(topics), user_data=None, owned_partitions=[], version=1
    )
    return bytes(made.encode())


def _consumer(wire: ModelWire, request: Any) -> Any:
    return Answer(groups=[_one_consumer(g, wire.listed.get(g)) for g in request.group_ids])


def _one_consumer(group_id: str, told: Told | None) -> Any:
    if told is None:
        return Answer(error_code=_NOT_COORDINATOR, group_id=group_id, group_state="", members=[])
    assigned = Answer(topic_partitions=[
        Answer(topic_name=t, partitions=n) for t, n in _by_topic(told.assigned).items()
    ])  # fmt: skip
    member = Answer(
        **_MEMBER, member_epoch=1, assignment=assigned, target_assignment=assigned,
        subscribed_topic_names=list(told.asked or ()), subscribed_topic_regex=told.pattern or None,
        member_type=1,
    )  # fmt: skip
    return Answer(error_code=0, group_id=group_id, group_state=told.state, members=[member])


def _streams(wire: ModelWire, request: Any) -> Any:
    return Answer(groups=[_one_streams(g, wire.listed.get(g)) for g in request.group_ids])


def _one_streams(group_id: str, told: Told | None) -> Any:
    if told is None:
        return Answer(error_code=_NOT_COORDINATOR, group_id=group_id, group_state="", members=[],
                      topology=None)  # fmt: skip
    subtopologies = None
    if told.asked is not None:
        subtopologies = [
            Answer(subtopology_id="0", source_topics=list(told.asked), source_topic_regex=[],
                   repartition_source_topics=[], state_changelog_topics=[],
                   repartition_sink_topics=[])
        ]  # fmt: skip
    numbers = sorted({key.partition for key in told.assigned})
    tasks = Answer(
        active_tasks=[Answer(subtopology_id="0", partitions=numbers)], standby_tasks=[],
        warmup_tasks=[],
    )  # fmt: skip
    member = Answer(**_MEMBER, assignment=tasks, target_assignment=tasks)
    return Answer(error_code=0, group_id=group_id, group_state=told.state, members=[member],
                  topology=Answer(epoch=1, subtopologies=subtopologies))  # fmt: skip


def _by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key in keys:
        found.setdefault(key.topic, []).append(key.partition)
    return found


def _committed(wire: ModelWire, asked: Any, version: int) -> Any:
    """One group's offsets of all topics by name; by id those that it committed on these topics."""
    one = OffsetFetchResponse.OffsetFetchResponseGroup
    one_topic = one.OffsetFetchResponseTopics
    told = wire.listed.get(asked.group_id)
    if told is None:
        return one(group_id=asked.group_id, topics=[], error_code=_NOT_COORDINATOR, version=version)

    def rows(keys: Iterable[TopicPartition]) -> list[Any]:
        return [
            one_topic.OffsetFetchResponsePartitions(
                partition_index=key.partition, error_code=0, metadata="", version=version,
                committed_offset=told.commits[key] if _counts(key) else -1,
                committed_leader_epoch=told.epochs.get(key, -1) if _counts(key) else -1,
            )
            for key in keys
        ]  # fmt: skip

    def _counts(key: TopicPartition) -> bool:
        by_name = version < _BY_ID
        return key in told.commits and (by_name or wire.world.is_of_now(asked.group_id, key))

    if version < _BY_ID:
        hides = wire.world.hiding == wire.broker_id
        names = {} if hides else _by_topic(sorted(told.commits))
        topics = [
            one_topic(name=name, partitions=rows(TopicPartition(name, n) for n in numbers),
                      version=version)
            for name, numbers in names.items()
        ]  # fmt: skip
    else:
        of = {spelled: name for name, spelled in wire.view.topic_ids.items()}
        topics = [
            one_topic(
                topic_id=t.topic_id, version=version,
                partitions=rows(
                    TopicPartition(of.get(topic_id(t.topic_id.bytes) or "", ""), n)
                    for n in t.partition_indexes
                ),
            )
            for t in asked.topics
        ]  # fmt: skip
    return one(group_id=asked.group_id, topics=topics, error_code=0, version=version)


def _offsets(wire: ModelWire, request: Any) -> Any:
    return Answer(topics=[
        Answer(name=t.name, partitions=[
            Answer(partition_index=p.partition_index, offset=-1, timestamp=-1,
                   error_code=_offset_error(wire, t.name))
            for p in t.partitions
        ])
        for t in request.topics
    ])  # fmt: skip


def _offset_error(wire: ModelWire, topic: str) -> int:
    """As of a partition that another one leads; rights come first."""
    if wire.world.hiding == wire.broker_id:
        return _HIDDEN
    return _NOT_LEADER if topic in wire.view.topic_ids else _UNKNOWN


def _coordinator(wire: ModelWire, request: Any) -> Any:
    found = []
    for key in request.coordinator_keys:
        leader, _ = wire.view.coordinators[coordinators.of_group(key)]
        found.append(
            Answer(key=key, node_id=-1 if leader is None else leader,
                   error_code=_NO_COORDINATOR if leader is None else 0)
        )  # fmt: skip
    return Answer(coordinators=found)


def _quorum(wire: ModelWire, _: Any) -> Any:
    """It passes the question on to the controllers, which know what it has read."""
    if not wire.world.joined(wire.broker_id):
        raise BrokerError(wire.broker_id, "no controller answers", "wait", code="ANSWER_LOST")
    read = 1 if wire.world.brokers[wire.broker_id].learns_at is None else 0
    now = int(wire.world.now().timestamp() * 1000)
    rows = [Answer(replica_id=wire.broker_id, log_end_offset=read, last_fetch_timestamp=now)]
    partition = Answer(
        error_code=0, high_watermark=1, leader_id=wire.broker_id, current_voters=rows, observers=[]
    )  # fmt: skip
    return Answer(error_code=0, topics=[Answer(partitions=[partition])])


_ANSWERS: dict[str, Callable[[ModelWire, Any], Any]] = {
    "Metadata": _metadata,
    "DescribeCluster": _cluster,
    "ListGroups": _list,
    "DescribeGroups": _classic,
    "ConsumerGroupDescribe": _consumer,
    "StreamsGroupDescribe": _streams,
    "ListOffsets": _offsets,
    "FindCoordinator": _coordinator,
    "DescribeQuorum": _quorum,
}
