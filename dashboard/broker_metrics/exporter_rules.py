"""The JMX exporter's rules file that brokers need: a short list of beans, one name each."""

from __future__ import annotations

# With every bean a broker of 5,000 partitions shows 57,000 series and a scrape takes minutes.
RULES = """\
lowercaseOutputName: true
includeObjectNames:
  - "kafka.server:type=BrokerTopicMetrics,*"
  - "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=DeleteRecords"
  - "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=DeleteRecords"
  - "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,*"
rules:
  - pattern: kafka.server<type=BrokerTopicMetrics, name=((?:Replication)?Bytes(?:In|Out)|MessagesIn|Total(?:Fetch|Produce)Requests)PerSec, topic=(.+)><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
    labels: {topic: "$2"}
  - pattern: kafka.server<type=BrokerTopicMetrics, name=((?:Replication)?Bytes(?:In|Out)|MessagesIn|Total(?:Fetch|Produce)Requests)PerSec><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
  - pattern: kafka.server<type=DelayedOperationPurgatory, name=PurgatorySize, delayedOperation=(.+)><>Value
    name: kafka_server_delayedoperationpurgatory_purgatorysize
    type: GAUGE
    labels: {delayedOperation: "$1"}
  - pattern: kafka.network<type=RequestMetrics, name=TotalTimeMs, request=(.+)><>(Mean|99thPercentile|Count)
    name: kafka_network_requestmetrics_totaltimems_$2
    type: GAUGE
    labels: {request: "$1"}
  - pattern: kafka.server<type=FetcherLagMetrics, name=ConsumerLag, clientId=(ReplicaFetcherThread-.+), topic=(.+), partition=(.+)><>Value
    name: kafka_server_fetcherlagmetrics_consumerlag
    type: GAUGE
    labels: {clientId: "$1", topic: "$2", partition: "$3"}
"""  # noqa: E501
