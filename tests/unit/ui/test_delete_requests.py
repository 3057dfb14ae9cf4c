"""DeleteRecords requests as brokers count them: what is told, and what is not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dashboard.domain.metric_names import PURGATORY_SIZE, REQUEST_TIME
from dashboard.domain.model import BrokerMetric
from dashboard.ui import quality
from dashboard.views.delete_requests import DeleteRequests, of_findings, of_samples, said

WAITS = '{"delayedOperation":"DeleteRecords"}'
TIMES = '{"request":"DeleteRecords"}'


def test_each_leader_that_tells_has_a_row_and_no_other() -> None:
    samples = [
        BrokerMetric(1, PURGATORY_SIZE, WAITS, 2.0),
        BrokerMetric(1, f"{REQUEST_TIME}_mean", TIMES, 4.4),
        BrokerMetric(1, f"{REQUEST_TIME}_99thpercentile", TIMES, 1500.0),
        BrokerMetric(2, "kafka_server_brokertopicmetrics_bytesin_total", "{}", 9.0),
        BrokerMetric(3, PURGATORY_SIZE, WAITS, 7.0),
    ]
    assert of_samples(samples, {1, 2}) == (DeleteRequests(1, 2, 4.4, 1500.0),)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            DeleteRequests(1, 2, 4.4, 1500.0),
            "Broker 1: 2 DeleteRecords requests wait for followers; they took 4 ms on average "
            "since its start and 1.5 s at most for 99 of 100 lately.",
        ),
        (DeleteRequests(2, 1), "Broker 2: 1 DeleteRecords request waits for followers."),
        (DeleteRequests(3, 0), "Broker 3: no DeleteRecords request waits."),
        (DeleteRequests(4, None, 3.0), "Broker 4: they took 3 ms on average since its start."),
    ],
)
def test_a_broker_in_one_sentence(row: DeleteRequests, sentence: str) -> None:
    assert said(row) == sentence


def test_findings_give_brokers_that_told_and_what_they_did_not_tell_is_missing() -> None:
    traffic = pa.table(
        {
            "topic": pa.array(["orders", None, None]),
            "broker_id": pa.array([1, 2, 1], pa.int32()),
            "delete_requests_waiting": pa.array([None, None, 0], pa.int64()),
            "delete_ms_mean": pa.array([None, None, 12.0]),
            "delete_ms_p99": pa.array([None, None, None], pa.float64()),
            "delete_requests_per_hour": pa.array([None, 5, None], pa.int64()),
        }
    )
    rows = of_findings(traffic)
    assert rows == (DeleteRequests(1, 0, 12.0),)
    assert quality.requests_table(rows).to_dict("records") == [
        {"Broker": "1", "An hour": "—", "Waiting": "0", "Mean": "12 ms", "99 of 100 within": "—"}
    ]
