"""OffsetCommit from outside a group: to its coordinator, once, an error per partition."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.protocol.messages import FindCoordinatorResponse, OffsetCommitResponse
from dashboard.core.errors import BrokerError, UsageError
from dashboard.domain.model import TopicPartition
from tests.support.fake_broker import DROP, HANG, FakeBroker, topic

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def coordinator(broker_id: int, error: int = 0) -> Any:
    def answer(request: Any, version: int) -> Any:
        if version < 4:
            return FindCoordinatorResponse(
                version=version, error_code=error, error_message=None, node_id=broker_id,
                host="h", port=1,
            )  # fmt: skip
        one = FindCoordinatorResponse.Coordinator(
            key=request.coordinator_keys[0], node_id=broker_id, host="h", port=1,
            error_code=error, error_message=None, version=version,
        )  # fmt: skip
        return FindCoordinatorResponse(version=version, coordinators=[one])

    return answer


def committed(errors: dict[int, int]) -> Any:
    """OffsetCommit's answer with an error code per partition of `orders`."""

    def answer(_: Any, version: int) -> Any:
        one = OffsetCommitResponse.OffsetCommitResponseTopic
        part = one.OffsetCommitResponsePartition
        found = [
            part(partition_index=p, error_code=code, version=version) for p, code in errors.items()
        ]
        return OffsetCommitResponse(
            version=version, topics=[one(name="orders", partitions=found, version=version)]
        )

    return answer


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1) as one:
        one.topics = [topic("orders", [1, 1])]
        one.answers[10] = coordinator(1)
        one.answers[8] = committed({0: 0, 1: 0})
        yield one


def open_live(broker: FakeBroker) -> LiveCluster:
    return connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60))


def commits(broker: FakeBroker) -> list[Any]:
    return [r for r in broker.requests if r.API_KEY == 8]


@pytest.mark.parametrize("versions", [{10: 6, 8: 9}, {10: 3, 8: 7}, {10: 0, 8: 2}])
def test_it_is_sent_without_generation_and_member(
    broker: FakeBroker, versions: dict[int, int]
) -> None:
    broker.versions |= versions
    with open_live(broker) as live:
        assert live.commit_offsets("dead", {P1: 7, P0: 60}) == {P0: None, P1: None}
    (sent,) = commits(broker)
    assert (sent.group_id, sent.generation_id_or_member_epoch, sent.member_id) == ("dead", -1, "")
    found = [(p.partition_index, p.committed_offset) for t in sent.topics for p in t.partitions]
    assert found == [(0, 60), (1, 7)]


def test_the_newest_broker_is_asked_by_topic_name(broker: FakeBroker) -> None:
    broker.versions[8] = 10
    with open_live(broker) as live:
        live.commit_offsets("dead", {P0: 60})
    assert commits(broker)[0].API_VERSION == 9


def test_each_partition_has_its_own_error(broker: FakeBroker) -> None:
    broker.answers[8] = committed({0: 25})
    with open_live(broker) as live:
        assert live.commit_offsets("alive", {P0: 60, P1: 7}) == {
            P0: "UNKNOWN_MEMBER_ID",
            P1: "UNKNOWN_SERVER_ERROR",  # left out of the answer: nothing is known
        }


def test_the_coordinator_is_asked_and_nobody_else(broker: FakeBroker) -> None:
    with FakeBroker(2) as other:
        broker.neighbours = [other]
        broker.answers[10] = coordinator(2)
        other.answers[8] = committed({0: 0})
        with open_live(broker) as live:
            assert live.commit_offsets("dead", {P0: 60}) == {P0: None}
        assert (len(commits(broker)), len(commits(other))) == (0, 1)


def test_without_a_coordinator_nothing_is_sent(broker: FakeBroker) -> None:
    broker.answers[10] = coordinator(-1, error=15)
    with open_live(broker) as live:
        assert live.commit_offsets("dead", {P0: 60}) == {P0: "COORDINATOR_NOT_AVAILABLE"}
    assert commits(broker) == []


@pytest.mark.parametrize("fault", [DROP, HANG])
def test_a_lost_answer_says_so_and_is_not_repeated(broker: FakeBroker, fault: str) -> None:
    broker.answers[8] = fault
    with open_live(broker) as live, pytest.raises(BrokerError) as lost:
        live._connection.timeout_seconds = 60 if fault == DROP else 3
        live.commit_offsets("dead", {P0: 60})
    assert lost.value.code == "ANSWER_LOST"
    assert len(commits(broker)) == 1


def test_a_negative_offset_is_never_sent(broker: FakeBroker) -> None:
    with open_live(broker) as live, pytest.raises(UsageError, match="orders-0"):
        live.commit_offsets("dead", {P0: -1})
    assert commits(broker) == []


def test_what_may_not_leave_once_the_connection_stands_does_not(broker: FakeBroker) -> None:
    signed_in = []

    def may_leave() -> bool:
        signed_in.append(bool(live._connection._busy))
        return False

    with open_live(broker) as live, pytest.raises(BrokerError) as called_off:
        live.commit_offsets("dead", {P0: 60}, may_leave=may_leave)
    assert called_off.value.code == "NOT_SENT"
    assert signed_in == [True], "asked on the open connection, at last"
    assert commits(broker) == []
