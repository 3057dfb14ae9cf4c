"""CreateTopics: sent once, to the controller, and what brokers refuse by its own name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.protocol.messages import CreateTopicsResponse
from dashboard.core.errors import LowwaterError
from tests.support.fake_broker import DROP, FakeBroker, topic

CREATE_TOPICS = 19


def made(error: int = 0, why: str | None = None) -> Any:
    """The answer; a topic that was made is there from then on."""

    def answer(request: Any, version: int) -> Any:
        one = CreateTopicsResponse.CreatableTopicResult
        found = [
            one(name=t.name, error_code=error, error_message=why, configs=[], version=version)
            for t in request.topics
        ]
        return CreateTopicsResponse(version=version, throttle_time_ms=0, topics=found)

    return answer


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1) as one:
        one.topics = [topic("orders", [1, 1])]
        one.answers[CREATE_TOPICS] = made()
        one.versions[CREATE_TOPICS] = 7
        yield one


def create(broker: FakeBroker, partitions: int = 2) -> Any:
    live: LiveCluster
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=1)) as live:
        return live.create_topic(
            "orders", partitions=partitions, replication_factor=3, configs={"retention.ms": "-1"}
        )


def sent(broker: FakeBroker) -> list[Any]:
    return [r for r in broker.requests if r.API_KEY == CREATE_TOPICS]


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_topic_is_made_with_its_settings(broker: FakeBroker, version: int) -> None:
    broker.versions[CREATE_TOPICS] = version
    state = create(broker)
    assert [p.leader_id for p in state.partitions] == [1, 1]
    ((asked,),) = [request.topics for request in sent(broker)]
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("orders", 2, 3)
    assert [(c.name, c.value) for c in asked.configs] == [("retention.ms", "-1")]


@pytest.mark.parametrize(
    ("error", "code", "exit_code", "said"),
    [
        (36, "TOPIC_EXISTS", 3, "orders is there already"),
        (40, "TOPIC_INVALID", 1, "INVALID_CONFIG: no such key"),
        (29, "TOPIC_NOT_MADE", 4, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_what_a_broker_refuses_has_a_name(
    broker: FakeBroker, error: int, code: str, exit_code: int, said: str
) -> None:
    broker.answers[CREATE_TOPICS] = made(error, "no such key")
    with pytest.raises(LowwaterError, match=said) as refused:
        create(broker)
    assert (refused.value.code, refused.value.exit_code) == (code, exit_code)


def test_an_answer_that_is_lost_is_never_asked_for_again(broker: FakeBroker) -> None:
    broker.answers[CREATE_TOPICS] = DROP
    with pytest.raises(LowwaterError) as lost:
        create(broker)
    assert lost.value.code == "ANSWER_LOST"
    assert len(sent(broker)) == 1


def test_partitions_without_a_leader_are_waited_for(broker: FakeBroker) -> None:
    with pytest.raises(LowwaterError, match="1 of its partitions have no leader yet"):
        create(broker, partitions=3)
