"""How many bytes each replica has in each log dir: DescribeLogDirs of every broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import DescribeLogDirsRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import LogDir, LogDirsAnswer, ReplicaSize, TopicPartition


def read_log_dirs(
    connection: Connection,
    partitions: Iterable[TopicPartition] | None = None,
    brokers: Iterable[int] | None = None,
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
