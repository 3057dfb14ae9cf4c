"""DeleteRecords v3 against brokers that know it: every answer that the product must understand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from dashboard.cluster.connection.connection import Connection, open_connection
from dashboard.cluster.delete_records import delete_records
from dashboard.domain.model import DeleteRecordsPartitionResult
from dashboard.domain.model import TopicPartition as Key
from tests.brokers.preview_cluster import PreviewCluster
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import followers, resumed, until

pytestmark = pytest.mark.further

BOTH = pytest.mark.parametrize("leader_only", [True, False], ids=["leader-only", "wait-all"])
Answer = tuple[int, int, str | None]


@pytest.fixture(scope="module")
def connection(preview_bench: Bench) -> Iterator[Connection]:
    client = {"bootstrap.servers": preview_bench.bootstrap}
    with open_connection(client, timeout=timedelta(seconds=30)) as opened:
        yield opened


@pytest.fixture
def ask(preview_bench: Bench, connection: Connection) -> Callable[..., Answer]:
    """One partition's `low_watermark, leader_log_start_offset, error`, from its leader."""

    def asked(topic: str, target: int, *, leader_only: bool, timeout_ms: int = 20_000) -> Answer:
        leader = preview_bench.placed(topic).leader_id
        assert leader is not None
        return told(sent(connection, leader, {Key(topic, 0): target}, leader_only, timeout_ms)[0])

    return asked


def sent(
    connection: Connection,
    broker_id: int,
    targets: dict[Key, int],
    leader_only: bool,
    timeout_ms: int = 20_000,
) -> tuple[DeleteRecordsPartitionResult, ...]:
    found = delete_records(
        connection, broker_id, targets, timeout_ms=timeout_ms, leader_only=leader_only
    )
    assert (found.leader_id, found.api_version) == (broker_id, 3 if leader_only else 2)
    return found.partition_results


def told(result: DeleteRecordsPartitionResult) -> Answer:
    return result.low_watermark, result.leader_log_start_offset, result.error


def test_waiting_for_all_speaks_the_released_version_and_tells_the_low_watermark(
    preview_bench: Bench, ask: Callable[..., Answer]
) -> None:
    topic = preview_bench.topic(100)
    assert ask(topic, 60, leader_only=False) == (60, -1, None)
    assert ask(topic, 30, leader_only=False) == (60, -1, None)  # never back
    assert preview_bench.offsets(topic, 0) == list(range(60, 100))


def test_a_stopped_follower_holds_the_low_watermark_back_but_not_the_answer(
    preview_bench: Bench, preview_cluster: PreviewCluster, ask: Callable[..., Answer]
) -> None:
    topic = preview_bench.topic(100)
    behind = followers(preview_bench, topic)[0]
    with resumed(preview_cluster.brokers, behind):
        preview_cluster.brokers.suspend(behind)
        # Whoever waits for the follower ends with REQUEST_TIMED_OUT.
        assert ask(topic, 60, leader_only=True, timeout_ms=60_000) == (0, 60, None)
        assert ask(topic, 70, leader_only=False, timeout_ms=500) == (0, -1, "REQUEST_TIMED_OUT")
    until(lambda: ask(topic, 0, leader_only=True) == (70, 70, None))
    assert preview_bench.offsets(topic, 0) == list(range(70, 100))


@BOTH
def test_each_refusal_carries_its_error_and_minus_one_twice(
    leader_only: bool, preview_bench: Bench, ask: Callable[..., Answer], connection: Connection
) -> None:
    topic = preview_bench.topic(100)
    compacted = preview_bench.topic(0, cleanup_policy="compact")
    preview_bench.commit("preview-g", topic, {0: 1})  # makes the internal topic
    leader = preview_bench.placed(topic).leader_id
    assert leader is not None

    assert ask(topic, 101, leader_only=leader_only) == (-1, -1, "OFFSET_OUT_OF_RANGE")
    assert ask(compacted, 5, leader_only=leader_only) == (-1, -1, "POLICY_VIOLATION")
    internal = ask("__consumer_offsets", 0, leader_only=leader_only)
    assert internal == (-1, -1, "INVALID_TOPIC_EXCEPTION")
    missing = sent(connection, leader, {Key("preview-missing", 0): 5}, leader_only)
    assert told(missing[0]) == (-1, -1, "UNKNOWN_TOPIC_OR_PARTITION")
    other = sent(connection, followers(preview_bench, topic)[0], {Key(topic, 0): 5}, leader_only)
    assert told(other[0]) == (-1, -1, "NOT_LEADER_OR_FOLLOWER")
    assert len(preview_bench.offsets(topic, 0)) == 100


@BOTH
def test_a_request_of_several_partitions_is_answered_one_by_one(
    leader_only: bool, preview_bench: Bench, connection: Connection
) -> None:
    topic, compacted = preview_bench.topic(100), preview_bench.topic(0, cleanup_policy="compact")
    leader = preview_bench.placed(topic).leader_id
    assert leader is not None
    targets = {Key(topic, 0): 60, Key(compacted, 0): 5, Key("preview-missing", 0): 1}
    results = sent(connection, leader, targets, leader_only)
    found = {r.topic: (r.leader_log_start_offset, r.error) for r in results}
    assert found[topic] == (60 if leader_only else -1, None)
    assert found["preview-missing"] == (-1, "UNKNOWN_TOPIC_OR_PARTITION")
    start, error = found[compacted]
    assert start == -1
    assert error in ("POLICY_VIOLATION", "NOT_LEADER_OR_FOLLOWER")
    assert preview_bench.offsets(topic, 0) == list(range(60, 100))
