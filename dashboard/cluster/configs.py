"""The settings of topics and brokers that decide what a purge does: DescribeConfigs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection, chunks
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import DescribeConfigsRequest, error_name
from dashboard.core.errors import ClusterError
from dashboard.domain.model import ConfigEntry
from dashboard.domain.system_topics import REMOTE_STORAGE

TOPIC_KEYS = (
    "cleanup.policy", "retention.ms", "retention.bytes", "local.retention.ms",
    "local.retention.bytes", *REMOTE_STORAGE, "segment.bytes", "segment.ms",
    "delete.retention.ms", "file.delete.delay.ms", "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms", "max.compaction.lag.ms", "message.timestamp.type",
    "min.insync.replicas", "unclean.leader.election.enable",
    "follower.replication.throttled.replicas", "leader.replication.throttled.replicas",
)  # fmt: skip
BROKER_KEYS = (
    "log.dirs", "log.retention.check.interval.ms", "log.initial.task.delay.ms",
    "log.segment.delete.delay.ms", "log.retention.ms", "log.retention.minutes",
    "log.retention.hours", "log.cleaner.enable", "log.cleaner.backoff.ms",
    "log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms",
    "replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "num.replica.fetchers",
    "offsets.retention.minutes", "remote.log.storage.system.enable",
    "unclean.leader.election.enable",
    "follower.replication.throttled.rate", "leader.replication.throttled.rate",
)  # fmt: skip
_TOPIC, _BROKER = 2, 4
_SCOPES = {_TOPIC: "topic", _BROKER: "broker"}
_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
_RESOURCES_PER_REQUEST = 1000


class ConfigsAnswer(NamedTuple):
    """Entries, sorted, and per resource that gave none (`topic NAME`, `broker ID`) its error."""

    entries: tuple[ConfigEntry, ...]
    errors: dict[str, str]


def read_configs(
    connection: Connection, topics: Iterable[str], brokers: Iterable[int]
) -> ConfigsAnswer:
    """Effective values of TOPIC_KEYS and BROKER_KEYS. A broker's are asked of itself.

    Sensitive values are None. Needs DESCRIBE_CONFIGS on each topic and on the cluster.
    """
    entries: list[ConfigEntry] = []
    errors: dict[str, str] = {}
    for names in chunks(sorted(set(topics)), _RESOURCES_PER_REQUEST):
        try:
            answer = connection.ask_any(_question(_TOPIC, names, TOPIC_KEYS))
            _take(answer, "topic", names, entries, errors)
        except ClusterError as error:
            errors.update({f"topic {name}": error.code for name in names})
    questions: Mapping[int, Callable[[Wire, float], Any]] = {
        i: _question(_BROKER, [str(i)], BROKER_KEYS) for i in brokers
    }
    for broker_id, answer in connection.ask_each(questions).items():
        if isinstance(answer, ClusterError):
            errors[f"broker {broker_id}"] = answer.code
        else:
            _take(answer, "broker", [str(broker_id)], entries, errors)
    return ConfigsAnswer(tuple(sorted(entries, key=lambda e: (e.scope, e.name, e.key))), errors)


def read_own_configs(
    connection: Connection, topics: Iterable[str]
) -> dict[str, dict[str, str | None] | str]:
    """What was set on each topic itself, by key, or Kafka's error: a topic that is made with it
    behaves as this one. Sensitive values are None. Needs DESCRIBE_CONFIGS on each topic.
    """
    found: dict[str, dict[str, str | None] | str] = {}
    for names in chunks(sorted(set(topics)), _RESOURCES_PER_REQUEST):
        entries: list[ConfigEntry] = []
        errors: dict[str, str] = {}
        answer = connection.ask_any(_question(_TOPIC, names, None))
        _take(answer, "topic", names, entries, errors)
        own = [e for e in entries if e.source == _SOURCES[1]]
        found |= {n: {e.key: e.value for e in own if e.name == n} for n in names}
        found |= {what.removeprefix("topic "): error for what, error in errors.items()}
    return found


def _question(
    kind: int, names: list[str], keys: tuple[str, ...] | None
) -> Callable[[Wire, float], Any]:
    def request(at: Wire) -> Any:
        version = at.version(DescribeConfigsRequest)
        one = DescribeConfigsRequest.DescribeConfigsResource
        resources = [
            one(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
                version=version,
            )
            for name in names
        ]
        return DescribeConfigsRequest(
            version=version,
            resources=resources,
            include_synonyms=False,
            include_documentation=False,
        )

    return lambda wire, deadline: wire.ask(request, deadline)


def _take(
    answer: Any, scope: str, names: list[str], entries: list[ConfigEntry], errors: dict[str, str]
) -> None:
    """What it tells of the resources that were asked for; one that it leaves out is an error."""
    told = {f.resource_name: f for f in answer.results if _SCOPES.get(f.resource_type) == scope}
    errors |= {f"{scope} {n}": "UNKNOWN_SERVER_ERROR" for n in names if n not in told}
    for found in (told[name] for name in names if name in told):
        error = error_name(found.error_code)
        if error:
            errors[f"{scope} {found.resource_name}"] = error
            continue
        entries += [
            ConfigEntry(
                scope,
                found.resource_name,
                entry.name,
                None if entry.is_sensitive else entry.value,
                _SOURCES.get(entry.config_source, "UNKNOWN"),
            )
            for entry in found.configs
        ]
