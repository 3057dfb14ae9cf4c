"""Makes a topic for records that are restored: CreateTopics, sent raw and once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.wire import Wire, metadata_of_nothing
from dashboard.cluster.protocol.messages import CreateTopicsRequest, error_name
from dashboard.cluster.topics import read_topics
from dashboard.core.errors import ClusterError, RefusedError, UsageError
from dashboard.domain.model import TopicState

_TICK_SECONDS = 0.1
_WRONG = {
    "INVALID_TOPIC_EXCEPTION", "INVALID_CONFIG", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR",
    "INVALID_REQUEST",
}  # fmt: skip


def create_topic(
    connection: Connection,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
) -> TopicState:
    """The new topic, once each of its partitions has a leader. Needs CREATE on it or the cluster.

    A KRaft broker passes the request on, a ZooKeeper cluster's controller takes it itself. Raises
    RefusedError TOPIC_EXISTS, UsageError TOPIC_INVALID with the broker's reason, and ClusterError:
    ANSWER_LOST when the topic may have been made.
    """
    controller = connection.ask_any(lambda w, d: w.ask(metadata_of_nothing, d)).controller_id
    broker = controller if controller in connection.broker_ids() else connection.broker_ids()[0]
    timeout_ms = int(connection.timeout_seconds * 1000)

    def request(at: Wire) -> Any:
        version = at.version(CreateTopicsRequest)
        one = CreateTopicsRequest.CreatableTopic
        config = one.CreatableTopicConfig
        made = one(
            name=topic, num_partitions=partitions, replication_factor=replication_factor,
            assignments=[], version=version,
            configs=[config(name=n, value=v, version=version) for n, v in sorted(configs.items())],
        )  # fmt: skip
        return CreateTopicsRequest(
            version=version, topics=[made], timeout_ms=timeout_ms, validate_only=False
        )

    answer = connection.ask(
        broker,
        lambda wire, deadline: wire.ask(request, deadline),
        patience=2 * connection.timeout_seconds,
        once=True,
    )
    told = next((one for one in answer.topics if one.name == topic), None)
    error = "UNKNOWN_SERVER_ERROR" if told is None else error_name(told.error_code)
    if error:
        raise _not_made(topic, error, "" if told is None else told.error_message or "")
    return _led(connection, topic, partitions)


def _not_made(topic: str, error: str, why: str) -> Exception:
    said = f"topic {topic} was not made: {error}" + (f": {why}" if why else "")
    if error == "TOPIC_ALREADY_EXISTS":
        return RefusedError(
            f"topic {topic} is there already",
            "Name another topic, or write into this one with --existing.",
            code="TOPIC_EXISTS",
        )
    if error in _WRONG:
        return UsageError(said, "Correct what the broker names.", code="TOPIC_INVALID")
    return ClusterError(
        said, "Ask for CREATE on the topic, or for what the broker names.", code="TOPIC_NOT_MADE"
    )


def _led(connection: Connection, topic: str, partitions: int) -> TopicState:
    """Wait until the brokers tell a leader of each partition."""
    until = time.monotonic() + max(connection.timeout_seconds, 1.0)
    while True:
        state = read_topics(connection, [topic])[topic]
        led = [one for one in state.partitions if one.leader_id is not None]
        if state.error is None and len(led) == partitions:
            return state
        if time.monotonic() > until:
            raise ClusterError(
                f"topic {topic} was made, and {partitions - len(led)} of its partitions have no "
                "leader yet",
                "Give the same command again once they have one.",
                retriable=True,
            )
        time.sleep(_TICK_SECONDS)
