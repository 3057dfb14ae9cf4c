"""What time it is for the cluster: told, not spoken of, or not to be read, which is no "right"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.cluster.live import connect
from dashboard.cluster.messages import DescribeQuorumRequest, DescribeQuorumResponse
from dashboard.errors import ClusterError
from tests.unit.cluster import fake_broker
from tests.unit.cluster.fake_broker import DROP, VERSIONS, FakeBroker

QUORUM = DescribeQuorumRequest.API_KEY


def quorum(version: int, *, error: int = 0, of_partition: int = 0, at_ms: int = 1_000) -> Any:
    data = DescribeQuorumResponse.TopicData
    part = data.PartitionData
    voters = [
        part.ReplicaState(
            replica_id=1, log_end_offset=5, last_fetch_timestamp=at_ms,
            last_caught_up_timestamp=at_ms, version=version,
        )
    ]  # fmt: skip
    partition = part(
        partition_index=0, error_code=of_partition, leader_id=1, leader_epoch=3, high_watermark=5,
        current_voters=voters, observers=[], version=version,
    )  # fmt: skip
    topic = data(topic_name="__cluster_metadata", partitions=[partition], version=version)
    return DescribeQuorumResponse(version=version, error_code=error, topics=[topic])


def told(
    monkeypatch: pytest.MonkeyPatch, answer: Any, versions: dict[int, int] | None = None
) -> datetime | None:
    monkeypatch.setitem(fake_broker.PAIRS, QUORUM, (DescribeQuorumRequest, DescribeQuorumResponse))
    with FakeBroker(versions={**VERSIONS, QUORUM: 1} if versions is None else versions) as broker:
        broker.answers[QUORUM] = answer
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=2)) as live:
            return live.controller_time()


def test_the_active_controller_tells_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, lambda _, v: quorum(v, at_ms=1_500))
    assert found == datetime.fromtimestamp(1.5, UTC)


@pytest.mark.parametrize("versions", [VERSIONS, {**VERSIONS, QUORUM: 0}])
def test_brokers_that_do_not_speak_of_it_are_no_failure(
    monkeypatch: pytest.MonkeyPatch, versions: dict[int, int]
) -> None:
    assert told(monkeypatch, DROP, versions) is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (DROP, "CLUSTER_UNREACHABLE"),
        (lambda _, v: quorum(v, error=31), "may not DESCRIBE the cluster"),
        (lambda _, v: quorum(v, of_partition=6), "NOT_LEADER_OR_FOLLOWER"),
        (lambda _, v: quorum(v, at_ms=-1), "told no time"),
    ],
)
def test_a_clock_that_cannot_be_read_is_not_right(
    monkeypatch: pytest.MonkeyPatch, answer: Any, why: str
) -> None:
    with pytest.raises(ClusterError) as raised:
        told(monkeypatch, answer)
    assert raised.value.code == "CLOCK_UNREAD"
    assert why in raised.value.message
