"""The short list of beans in the spellings that exporters give them, and what is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard.broker_metrics import exposition
from dashboard.broker_metrics.exposition import metrics, missing, series_of, wanted
from dashboard.domain.metric_names import CONSUMER_LAG, PURGATORY_SIZE, REQUEST_TIME

OURS = """\
kafka_server_brokertopicmetrics_bytesin_total 12
kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="DeleteRecords"} 2
kafka_network_requestmetrics_totaltimems_mean{request="DeleteRecords"} 340.5
kafka_network_requestmetrics_totaltimems_99thpercentile{request="DeleteRecords"} 498
kafka_network_requestmetrics_totaltimems_count{request="DeleteRecords"} 7
kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-2",topic="t",partition="3"} 40
kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-2",topic="t",partition="4"} 0
"""  # noqa: E501
# A JMX exporter without rules: the bean's name is a label.
PLAIN = """\
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"} 12
kafka_server_DelayedOperationPurgatory_Value{name="PurgatorySize",delayedOperation="DeleteRecords"} 2
kafka_network_RequestMetrics_Mean{name="TotalTimeMs",request="DeleteRecords"} 340.5
kafka_network_RequestMetrics_99thPercentile{name="TotalTimeMs",request="DeleteRecords"} 498
kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="DeleteRecords"} 7
kafka_server_FetcherLagMetrics_Value{name="ConsumerLag",clientId="ReplicaFetcherThread-0-2",topic="t",partition="3"} 40
"""  # noqa: E501


def read(text: str) -> dict[tuple[str, str], float]:
    lines = [line for line in text.splitlines() if wanted(line.encode())]
    return {(m.name, m.labels): m.value for m in metrics(1, series_of(lines))}


@pytest.mark.parametrize("text", [OURS, PLAIN])
def test_every_bean_is_read_under_one_name(text: str) -> None:
    purge = '{"delayedOperation":"DeleteRecords"}'
    request = '{"request":"DeleteRecords"}'
    where = {"clientId": "ReplicaFetcherThread-0-2", "partition": "3", "topic": "t"}
    assert read(text) == {
        ("kafka_server_brokertopicmetrics_bytesin_total", "{}"): 12,
        (PURGATORY_SIZE, purge): 2,
        (f"{REQUEST_TIME}_mean", request): 340.5,
        (f"{REQUEST_TIME}_99thpercentile", request): 498,
        (f"{REQUEST_TIME}_count", request): 7,
        (CONSUMER_LAG, "{}"): 40,
        (CONSUMER_LAG, json.dumps(where, separators=(",", ":"))): 40,
    }


def test_a_quantile_as_a_label_is_the_99th_percentile_alone() -> None:
    found = read(
        'kafka_network_requestmetrics_totaltimems{request="DeleteRecords",quantile="0.99"} 498\n'
        'kafka_network_requestmetrics_totaltimems{request="DeleteRecords",quantile="0.50"} 300\n'
    )
    assert found == {(f"{REQUEST_TIME}_99thpercentile", '{"request":"DeleteRecords"}'): 498}


@pytest.mark.parametrize(
    "line",
    [
        'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"} 9',
        'kafka_server_DelayedOperationPurgatory_Value{name="NumDelayedOperations",'
        'delayedOperation="DeleteRecords"} 9',
        'kafka_network_requestmetrics_totaltimems_mean{request="Produce"} 9',
        'kafka_network_RequestMetrics_Mean{name="LocalTimeMs",request="DeleteRecords"} 9',
        'kafka_server_fetcherlagmetrics_consumerlag{clientId="consumer-1",topic="t"} 9',
        'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="DeleteRecords"} '
        "NaN",
    ],
)  # fmt: skip
def test_other_requests_fetchers_and_what_is_no_number_are_left_out(line: str) -> None:
    assert read(line) == {}


def test_times_before_the_first_request_are_unknown_and_a_lag_of_0_is_known() -> None:
    found = read(
        'kafka_network_requestmetrics_totaltimems_mean{request="DeleteRecords"} 0\n'
        'kafka_network_requestmetrics_totaltimems_count{request="DeleteRecords"} 0\n'
        'kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-1"} 0\n'
    )
    assert found == {
        (f"{REQUEST_TIME}_count", '{"request":"DeleteRecords"}'): 0,
        (CONSUMER_LAG, "{}"): 0,
    }


def test_beans_of_which_nothing_came_are_named() -> None:
    assert missing(metrics(1, series_of(OURS.splitlines()))) == ()
    only = OURS.splitlines()[1:2]
    assert missing(metrics(1, series_of(only))) == ("BrokerTopicMetrics", "RequestMetrics")


def test_the_docs_show_the_rules_file_as_it_is() -> None:
    page = (Path(exposition.__file__).parents[2] / "docs" / "collect.md").read_text()
    assert page.split("```yaml\n")[1].split("```")[0] == exposition.RULES
