"""The counts of BrokerTopicMetrics in the spellings that JMX exporters give them."""

from __future__ import annotations

import pytest

from dashboard.broker_metrics.exposition import metrics, series_of, wanted
from dashboard.domain.metric_names import BYTES_OUT, COUNTERS
from dashboard.domain.model import BrokerMetric


def topic_bytes(broker_id: int, lines: list[str]) -> tuple[BrokerMetric, ...]:
    return metrics(broker_id, series_of(lines))


@pytest.mark.parametrize(
    "line",
    [
        'kafka_server_brokertopicmetrics_bytesout_total{topic="my.topic"} 1.5E3',
        'kafka_server_brokertopicmetrics_bytesoutpersec_count{topic="my.topic",} 1500.0',
        'kafka_server_brokertopicmetrics_bytesoutpersec_total{topic="my.topic"} 1500 1700000000000',
        'kafka_server_brokertopicmetrics_bytesout{topic="my.topic"} 1500',
        'kafka_server_brokertopicmetrics_bytesoutpersec_count_total{topic="my.topic"} 1500',
        'kafka_server_BrokerTopicMetrics_BytesOutPerSec_Count{topic="my.topic"} 1500',
        'kafka_server_BrokerTopicMetrics_Count{name="BytesOutPerSec",topic="my.topic",} 1500.0',
    ],
)
def test_every_common_spelling_of_bytes_out_is_one_count(line: str) -> None:
    assert wanted(line.encode())
    (found,) = topic_bytes(3, [line])
    assert (found.broker_id, found.name, found.value) == (3, BYTES_OUT, 1500.0)
    assert found.labels == '{"topic":"my.topic"}'


@pytest.mark.parametrize(
    "line",
    [
        'kafka_server_brokertopicmetrics_bytesout_oneminuterate{topic="t"} 1',
        'kafka_server_brokertopicmetrics_bytesoutpersec{topic="t"} 1',
        'kafka_server_BrokerTopicMetrics_MeanRate{name="BytesOutPerSec",topic="t"} 1',
        "kafka_server_brokertopicmetrics_reassignmentbytesout_total 7",
        'kafka_server_BrokerTopicMetrics_Count{name="BytesRejectedPerSec",topic="t"} 1',
        'kafka_server_brokertopicmetrics_bytesout_total{topic="t"} NaN',
    ],
)
def test_rates_other_beans_and_what_is_no_number_are_left_out(line: str) -> None:
    assert topic_bytes(1, [line]) == ()


@pytest.mark.parametrize(
    ("line", "counter"),
    [
        # Followers fetch too, and no consumer hides among them.
        ("kafka_server_brokertopicmetrics_replicationbytesout_total 7", "replication_bytes_out"),
        ("kafka_server_brokertopicmetrics_replicationbytesinpersec_count 7",
         "replication_bytes_in"),
        ('kafka_server_BrokerTopicMetrics_Count{name="TotalFetchRequestsPerSec"} 7',
         "fetch_requests"),
        ("kafka_server_brokertopicmetrics_totalproducerequests 7", "produce_requests"),
    ],
)  # fmt: skip
def test_replication_and_requests_have_names_of_their_own(line: str, counter: str) -> None:
    (found,) = topic_bytes(1, [line])
    assert (found.name, found.labels, found.value) == (COUNTERS[counter], "{}", 7)


def test_a_count_of_all_topics_has_no_topic_and_two_spellings_count_once() -> None:
    found = topic_bytes(
        1,
        [
            "kafka_server_brokertopicmetrics_bytesout_total 20",
            'kafka_server_brokertopicmetrics_bytesout_total{topic="t"} 11',
            'kafka_server_BrokerTopicMetrics_Count{name="BytesOutPerSec",topic="t"} 12',
            'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 5',
        ],
    )
    assert [(m.name.split("_")[3], m.labels, m.value) for m in found] == [
        ("bytesin", '{"topic":"t"}', 5.0),
        ("bytesout", '{"topic":"t"}', 12.0),
        ("bytesout", "{}", 20.0),
    ]


def test_other_lines_are_not_wanted() -> None:
    assert not wanted(b"# HELP kafka_server_brokertopicmetrics_bytesout_total bytes")
    assert not wanted(b"jvm_threads_current 3")
