"""Topics of Kafka and of tools beside it are known by name, and ordinary ones stay ordinary."""

from __future__ import annotations

import re

import pytest

from dashboard.domain.system_topics import SYSTEM_TOPICS, is_system_topic, tool_of

_APICURIO, _CONNECT, _KAFKA = "Apicurio Registry", "Kafka Connect", "Kafka"
_MARKED = "Kafka, or a tool that marks its topics as Kafka does"
_SCHEMAS = "a schema registry (Confluent, Karapace, Redpanda)"
_NAMES = {
    _KAFKA: ("__consumer_offsets", "__transaction_state", "__share_group_state"),
    "Kafka's tiered storage": ("__remote_log_metadata", "__remote_log_metadata_compacted"),
    _CONNECT: (
        "connect-configs", "connect-offsets", "connect-status", "Connect-Offsets",
        "eu-connect-cluster-status", "_connect_configs", "my_connect_statuses", "connect.offsets",
        "release-cp-kafka-connect-offset", "kafka-connect-meta-offsets", "connect-config-storage",
        "docker-connect-offset-storage-topic",
    ),
    "MirrorMaker 2 on Connect": (
        "mirrormaker2-cluster-configs", "mirrormaker2-cluster-offsets", "mirror-maker-2-status",
    ),
    "MirrorMaker 2": (
        "mm2-offsets.a.internal", "mm2-configs.b.internal", "mm2-status.b.internal",
        "mm2-offset-syncs.west.internal", "mm2-offset-syncs_west_internal", "heartbeats",
        "west.checkpoints.internal", "west_checkpoints_internal",
    ),
    "Debezium": (
        "schema_history", "schema-history", "schemahistory.fullfillment", "database_history",
        "schema.history.internal", "schema_history_internal", "olist_cdc.schema_history",
        "shop_schema_history", "shop.schema-history", "dbhistory.inventory", "db_history",
        "database.history.inventory", "DatabaseHistory", "debezium.schema-history.prod-oracle",
        "schema-changes.inventory", "schema-changes", "schema_changes", "debezium-history",
        "orders-schema-changes-feed",
    ),
    "Debezium's Connect": ("debezium_configs", "debezium_offsets", "debezium-statuses"),
    _SCHEMAS: (
        "_schemas", "west._schemas", "_schemas_v2", "_schema_encoders", "_exporter_configs",
        "_exporter_states", "_dek_registry_keys",
    ),
    _APICURIO: (
        "kafkasql-journal", "_kafkasql-journal", "kafkasql-snapshots", "kafkasql-journal-v3",
    ),
    "Apicurio Registry 1": (
        "storage-topic", "global-id-topic", "eventstreams-apicurio-registry-storage-topic",
    ),
    "ksqlDB": ("_confluent-ksql-default__command_topic", "_confluent-ksql-eu__command_topic"),
    "Confluent Platform": (
        "_confluent-metrics", "_confluent-license", "_confluent_balancer_api_state",
        "_confluent-controlcenter-7-5-1-1-command", "__confluent.support.metrics",
    ),
    "Cruise Control": (
        "__CruiseControlMetrics", "__KafkaCruiseControlPartitionMetricSamples",
        "__KafkaCruiseControlModelTrainingSamples", "strimzi.cruisecontrol.metrics",
        "strimzi.cruisecontrol.partitionmetricsamples",
    ),
    "Strimzi": (
        "__strimzi_store_topic", "__strimzi_canary",
        "__strimzi-topic-operator-kstreams-topic-store-changelog",
    ),
    "Materialize": ("_materialize-progress-aws-us-east-1-u12",),
    "Redpanda": (
        "_redpanda.audit_log", "__redpanda.connectors_logs", "_internal_connectors_offsets",
        "_redpanda_e2e_probe", "coprocessor_internal_topic",
    ),
    "the Iceberg sink connector": (
        "control-iceberg", "iata-sales-control-iceberg", "_iceberg-control-analytics.orders",
    ),
    "the Hudi sink connector": ("hudi-control-topic", "sales-hudi-control-topic"),
    "DataHub": ("DataHubUpgradeHistory_v1", "prod_DataHubUpgradeHistory_v1"),
    "Faust": ("stations-stream-__assignor-__leader",),
    "Conduktor Gateway": ("_conduktor_gateway_topicmappings", "_conduktor_gateway_encryption_keys"),
    "Lenses": ("_kafka_lenses_processors",),
    _MARKED: ("__anything", "__amazon_msk_canary", "__debezium-heartbeat.shop"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "topic"), [(tool, topic) for tool, topics in _NAMES.items() for topic in topics]
)
def test_topics_of_kafka_and_its_tools_are_known_with_their_tool(tool: str, topic: str) -> None:
    assert (is_system_topic(topic), tool_of(topic)) == (True, tool)


@pytest.mark.parametrize(
    "topic",
    [
        "orders", "connections", "connect-orders", "connect", "_orders", "heartbeats-eu",
        "west.heartbeats", "schemas", "event-schemas", "status", "order-status", "offsets",
        "ocpp-connector-status", "mm2", "mm20-orders", "checkpoints", "billing.internal",
        "debezium.public.order_status", "dbserver1.inventory.products", "dbserver1-signal",
        "dbserver1.transaction", "debezium-notifications", "feedbhistory", "order_history",
        "shop.public.flyway_schema_history", "schema", "changes", "confluent-audit-log-events",
        "default_ksql_processing_log", "registry-events", "storage-topics", "cold-storage-topic",
        "strimzi.orders", "cruisecontrol", "materialize-progress", "redpanda", "lenses",
        "iceberg-orders", "hudi-orders", "DataHubUsageEvent_v1", "PlatformEvent_v1", "assignor",
        "orders-changelog", "kminion-end-to-end", "internal_connectors",
    ],
)  # fmt: skip
def test_ordinary_topics_are_not(topic: str) -> None:
    assert (is_system_topic(topic), tool_of(topic)) == (False, None)


def test_every_row_has_a_name_above_and_says_where_it_was_looked_up() -> None:
    assert [row.tool for row in SYSTEM_TOPICS] == list(_NAMES)
    assert all(row.source.startswith("https://") and row.keeps for row in SYSTEM_TOPICS)


_PROTECTED_BY_0_1 = re.compile(
    r"__.*|_schemas|_confluent.*|mm2-.*|.*\.checkpoints\.internal|heartbeats"
    r"|(?:.*[-_.])?connect[-_.](?:.*[-_.])?(?:configs?|offsets?|status(?:es)?)"
    r"|(?:.*[-_.])?(?:db-?history|schema-?history|schema-?changes)(?:[-_.].*)?",
    re.IGNORECASE,
)
_WORDS = (
    "", "a", "connect", "db", "dbhistory", "schema", "schemahistory", "schema-history", "changes",
    "schemachanges", "history", "flyway", "mm2", "offsets", "status", "checkpoints", "internal",
    "_schemas", "_confluent", "heartbeats",
)  # fmt: skip


def test_no_name_that_was_ever_protected_is_let_go() -> None:
    names = {
        f"{one}{first}{two}{second}{three}"
        for one in _WORDS for two in _WORDS for three in _WORDS
        for first in "-_." for second in "-_."
    }  # fmt: skip
    protected = {name for name in names if _PROTECTED_BY_0_1.fullmatch(name)}
    assert len(protected) > 1000
    assert [name for name in sorted(protected) if not is_system_topic(name)] == []
