"""What topics' names tell: in which of them Kafka, or a tool beside it, keeps its own state (one
table), and what an ordinary one is for.

Such a topic is never purged and the guard cannot be lifted. So a name that is missing here costs
somebody their schema history, and one too many costs an ordinary topic every purge: a pattern
takes a tool's defaults, and the names its documentation gives as examples, with what people put
before and after them. Names chosen freely look like any other topic's and are not here. No rows:
Flink and Spark (their state is in checkpoints), Debezium's signals, notifications, transactions
and schema change events, ksqlDB's processing log, audit logs outside of Kafka's own prefix
(messages that groups consume), and Kafka Streams, whose changelogs have a guard of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

# Topic settings by which brokers keep records in remote storage too: Kafka's own (KIP-405), of
# Confluent's and Redpanda's tiered storage.
REMOTE_STORAGE = ("remote.storage.enable", "confluent.tier.enable", "redpanda.remote.write")


@dataclass(frozen=True, slots=True)
class SystemTopic:
    """A name, as a regular expression over the whole of it, whose topic is a tool's state."""

    pattern: str
    tool: str
    keeps: str
    source: str


def _file(repository: str, path: str) -> str:
    return f"https://github.com/{repository}/blob/HEAD/{path}"


_MIRROR = "connect/mirror-client/src/main/java/org/apache/kafka/connect/mirror"
_REMOTE_LOG = "storage/src/main/java/org/apache/kafka/server/log/remote/metadata/storage"
_DEBEZIUM = "https://debezium.io/documentation/reference/stable/connectors/mysql.html"
_SCHEMA_REGISTRY = (
    "https://docs.confluent.io/platform/current/schema-registry/installation/config.html"
)
_CONDUKTOR = "https://docs.conduktor.io/gateway/configuration/env-variables/"

# What stands before and after a name: an environment, a team, a connector, a mirrored cluster.
_BEFORE, _AFTER = "(?:.*[-_.])?", "(?:[-_.].*)?"
_STORES = "(?:configs?|offsets?|status(?:es)?)"

# The first row that matches names the tool, so the wide rows stand last.
SYSTEM_TOPICS = (
    SystemTopic(
        "__consumer_offsets|__transaction_state|__share_group_state|__cluster_metadata",
        "Kafka", "committed offsets, transactions, share groups, cluster metadata",
        _file("apache/kafka",
              "clients/src/main/java/org/apache/kafka/common/internals/Topic.java"),
    ),
    SystemTopic(
        "__remote_log_metadata.*", "Kafka's tiered storage", "where remote segments are",
        _file("apache/kafka", f"{_REMOTE_LOG}/TopicBasedRemoteLogMetadataManagerConfig.java"),
    ),
    SystemTopic(
        # The tool's own defaults are connect-configs, -offsets and -status.
        f"{_BEFORE}connect[-_.](?:.*[-_.])?{_STORES}(?:[-_.]storage)?(?:[-_.]topic)?",
        "Kafka Connect", "connectors, their source offsets and their status",
        _file("apache/kafka", "config/connect-distributed.properties"),
    ),
    SystemTopic(
        f"{_BEFORE}mirror[-_]?maker[-_]?2?[-_.](?:.*[-_.])?{_STORES}",
        "MirrorMaker 2 on Connect", "its connectors, their offsets and their status",
        "https://strimzi.io/docs/operators/latest/configuring.html",
    ),
    SystemTopic(
        r"mm2-.*|.*[-_.]checkpoints[-_.]internal|heartbeats",
        "MirrorMaker 2", "how offsets translate between clusters, and the mirrors' progress",
        _file("apache/kafka", f"{_MIRROR}/ReplicationPolicy.java"),
    ),
    SystemTopic(
        # Flyway's table of this name is copied by connectors as any table is.
        rf"{_BEFORE}(?:db[-_]?|database[-_.]?|schema[-.]?|(?<!flyway_)schema_)history{_AFTER}"
        rf"|{_BEFORE}schema[-_]?changes{_AFTER}|{_BEFORE}(?:debezium|dbz)[-_.]?history{_AFTER}",
        "Debezium", "the history of schemas, without which its connectors do not start",
        _DEBEZIUM,
    ),
    SystemTopic(
        f"{_BEFORE}debezium[-_]{_STORES}", "Debezium's Connect",
        "connectors, their source offsets and their status", _DEBEZIUM,
    ),
    SystemTopic(
        rf"(?:.*\.)?_schemas{_AFTER}|_schema_encoders|_exporter_(?:configs|states)"
        "|_dek_registry_keys.*",
        "a schema registry (Confluent, Karapace, Redpanda)",
        "every schema, its exporters and its keys", _SCHEMA_REGISTRY,
    ),
    SystemTopic(
        f"{_BEFORE}kafkasql[-_.](?:journal|snapshots?){_AFTER}",
        "Apicurio Registry", "every schema, as a journal and snapshots of it",
        _file("Apicurio/apicurio-registry",
              "app/src/main/java/io/apicurio/registry/storage/impl/kafkasql/"
              "KafkaSqlConfiguration.java"),
    ),
    SystemTopic(
        r"(?:.*apicurio.*[-_.])?(?:storage|global-id)-topic",
        "Apicurio Registry 1", "every schema and the highest id",
        "https://www.apicur.io/registry/docs/apicurio-registry/1.3.3.Final/index.html",
    ),
    SystemTopic(
        "_confluent-ksql-.*", "ksqlDB", "its statements, and what its queries keep",
        _file("confluentinc/ksql",
              "ksqldb-common/src/main/java/io/confluent/ksql/util/ReservedInternalTopics.java"),
    ),
    SystemTopic(
        "_?_confluent.*", "Confluent Platform",
        "licences, balancing, tiers, cluster links, Control Center",
        "https://docs.confluent.io/platform/current/control-center/installation/configuration.html",
    ),
    SystemTopic(
        r"__(?:Kafka)?CruiseControl.*|strimzi\.cruisecontrol\..*",
        "Cruise Control", "the samples from which it models the load",
        _file("linkedin/cruise-control", "config/cruisecontrol.properties"),
    ),
    SystemTopic(
        "__strimzi.*", "Strimzi", "what its topic operator knows, and its canary",
        _file("strimzi/strimzi-kafka-operator", "CHANGELOG.md"),
    ),
    SystemTopic(
        "_materialize-progress.*", "Materialize", "how far its sinks have written",
        "https://materialize.com/docs/sql/create-connection/#kafka-options",
    ),
    SystemTopic(
        "_?_redpanda.*|_internal_connectors_.*|coprocessor_internal_topic",
        "Redpanda", "audit records, transforms and the state of its connectors",
        _file("redpanda-data/redpanda", "src/v/model/namespace.h"),
    ),
    SystemTopic(
        f"{_BEFORE}control-iceberg{_AFTER}|{_BEFORE}iceberg[-_.]control{_AFTER}",
        "the Iceberg sink connector", "files that are written and not yet committed",
        "https://iceberg.apache.org/docs/latest/kafka-connect/",
    ),
    SystemTopic(
        f"{_BEFORE}hudi-control-topic{_AFTER}",
        "the Hudi sink connector", "the transactions between its coordinator and tasks",
        _file("apache/hudi",
              "hudi-kafka-connect/src/main/java/org/apache/hudi/connect/writers/"
              "KafkaConnectConfigs.java"),
    ),
    SystemTopic(
        rf"{_BEFORE}DataHubUpgradeHistory_v\d+",
        "DataHub", "which upgrade ran: its server waits for this record to start",
        "https://github.com/datahub-project/datahub/issues/7882",
    ),
    SystemTopic(
        ".*-__assignor-__leader", "Faust", "which worker leads its application",
        _file("faust-streaming/faust", "faust/assignor/leader_assignor.py"),
    ),
    SystemTopic(
        "_conduktor_.*", "Conduktor Gateway", "its virtual topics, offsets and keys",
        _CONDUKTOR,
    ),
    SystemTopic(
        "_kafka_lenses_.*", "Lenses", "its processors, metrics and audits",
        "https://docs.lenses.io/",
    ),
    SystemTopic(
        # Kafka's own mark. Also heartbeats, canaries and stores of managed services.
        "__.*", "Kafka, or a tool that marks its topics as Kafka does", "its own state",
        _file("apache/kafka", f"{_MIRROR}/ReplicationPolicy.java"),
    ),
)  # fmt: skip

# Kafka tells topics apart by case and people do not: MM2-Offsets is nobody's orders.
_ROWS = tuple((re.compile(row.pattern, re.IGNORECASE), row.tool) for row in SYSTEM_TOPICS)
_ANY = re.compile("|".join(f"(?:{row.pattern})" for row in SYSTEM_TOPICS), re.IGNORECASE)


def is_system_topic(topic: str) -> bool:
    """Whether a topic's name says that it belongs to Kafka or to a tool beside it.

    Brokers themselves protect only `__consumer_offsets`, `__transaction_state` and
    `__share_group_state`; the others are ordinary topics to them.
    """
    return _ANY.fullmatch(topic) is not None


def tool_of(topic: str) -> str | None:
    """The tool whose state a topic of this name holds, None for an ordinary topic."""
    return next((tool for pattern, tool in _ROWS if pattern.fullmatch(topic)), None)


# What a topic's name says it is for: dead letters, retries, Kafka Streams, a tool, or nothing.

ORDINARY, COMPACTED = "ordinary", "compacted"
DEAD_LETTER, RETRY, STREAMS, TOOL = "dead-letter", "retry", "streams", "tool"
# A word of a name, between what separates words or at its ends.
_WORD = r"(?:^|[-_.])(?:{})(?:$|[-_.\d])"
# Spring Kafka: .DLT and -dlt, -retry-0; Kafka Connect's errors.deadletterqueue.topic.name: dlq-….
_DEAD = re.compile(
    _WORD.format(
        "dlqs?|dlts?|dead[-_.]?letters?(?:[-_.]?(?:queues?|topics?))?|parking[-_.]?lot|poison"
    )
    + r"|[-_.]errors?$",
    re.IGNORECASE,
)
_RETRY = re.compile(_WORD.format("retry|retries|retryable"), re.IGNORECASE)
# InternalTopologyBuilder, and SubscriptionJoinForeignKey's two topics.
_STREAMS = re.compile(
    r"-(?:changelog|repartition)$|-subscription-(?:registration|response)(?:-\d+)?(?:-topic)?$"
)


def kind_of(topic: str, *, is_system: bool, cleanup_policy: str | None) -> str | None:
    """One of the kinds above; None where the name says nothing and the policy is not known.

    `is_system`: as `analytics.readers.topics` has it. A compacted topic is told apart from an
    ordinary one: it keeps each key's newest value, which may be read long after the last write.
    """
    if is_system:
        return TOOL
    for kind, pattern in ((STREAMS, _STREAMS), (DEAD_LETTER, _DEAD), (RETRY, _RETRY)):
        if pattern.search(topic):
            return kind
    if cleanup_policy is None:
        return None
    return COMPACTED if "compact" in cleanup_policy else ORDINARY


def tool(topic: str, kind: str | None) -> str | None:
    """Whose topic it is, where that is known."""
    if kind == STREAMS:
        return "Kafka Streams"
    return (tool_of(topic) or "Kafka") if kind == TOOL else None


REPARTITION_SUFFIX = "-repartition"


def application_of(topic: str, group_ids: Collection[str]) -> str | None:
    """Whose repartition topic it is by its name; None where no known group is called so.

    `<application.id>-<name>-repartition` (Kafka's `InternalTopologyBuilder`), where the application
    id is the group id. Both parts may hold dashes, so the longest known group wins.
    """
    if not topic.endswith(REPARTITION_SUFFIX):
        return None
    prefix = topic.removesuffix(REPARTITION_SUFFIX)
    while prefix := prefix.rpartition("-")[0]:
        if prefix in group_ids:
            return prefix
    return None
