"""Answers that lack what was asked for, as a proxy's may: an error of that part, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from dashboard.cluster import groups as groups_module
from dashboard.cluster.live import LiveCluster, connect
from dashboard.domain.model import TopicPartition
from tests.support import fake_broker
from tests.support.fake_broker import FakeBroker, topic
from tests.unit.cluster.answers import (
    committed_answer,
    groups_answer,
    members_answer,
    offsets_answer,
)

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
UNKNOWN = "UNKNOWN_SERVER_ERROR"


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1) as one:
        one.topics = [topic("orders", [1, 1]), topic("__consumer_offsets", [1])]
        one.answers[2] = offsets_answer
        yield one


@pytest.fixture
def live(broker: FakeBroker) -> Iterator[LiveCluster]:
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=10)) as opened:
        yield opened


@pytest.mark.parametrize("newest", [4, 9])
@pytest.mark.parametrize("lacking", ["start", "stable", "latest", "all"])
def test_a_partition_that_list_offsets_lacks(broker: FakeBroker, lacking: str, newest: int) -> None:
    """v5 is decoded by hand, earlier versions by schema."""
    broker.versions[2] = newest

    def answer(request: Any, version: int) -> Any:
        made = offsets_answer(request, version)
        kind = "start" if request.topics[0].partitions[0].timestamp == -2 else "latest"
        kind = "stable" if request.isolation_level else kind
        if lacking in (kind, "all"):
            made.topics[0].partitions = [
                p for p in made.topics[0].partitions if p.partition_index != 1
            ]
        return made

    broker.answers[2] = answer
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=10)) as live:
        found = live.offsets([P0, P1])
    assert (found[P0].log_start_offset, found[P0].high_watermark, found[P0].error) == (10, 90, None)
    assert (found[P1].log_start_offset, found[P1].high_watermark) == (None, None)
    assert found[P1].error == UNKNOWN


def test_an_answer_without_any_partition(broker: FakeBroker, live: LiveCluster) -> None:
    def answer(request: Any, version: int) -> Any:
        made = offsets_answer(request, version)
        made.topics = []
        return made

    broker.answers[2] = answer
    assert {o.error for o in live.offsets([P0, P1]).values()} == {UNKNOWN}
    assert {o.error for o in live.offsets_at([P0], datetime.now(UTC)).values()} == {UNKNOWN}
    assert {o.error for o in live.leader_log_starts({P0: 4}).values()} == {UNKNOWN}
    assert {o.error for o in live.replica_offsets([P0])} == {UNKNOWN}


def test_a_topic_that_metadata_lacks_is_not_called_gone(
    broker: FakeBroker, live: LiveCluster
) -> None:
    def without(request: Any, version: int) -> Any:
        made = broker._metadata(request, version)
        made.topics = [t for t in made.topics if t.name == "orders"]
        return made

    broker.answers[3] = without
    found = live.topics(["orders", "payments"])
    assert list(found) == ["orders", "payments"]
    assert (found["orders"].error, found["payments"].error) == (None, UNKNOWN)


def test_an_id_that_metadata_says_nothing_of(broker: FakeBroker, live: LiveCluster) -> None:
    broker.answers[3] = lambda _, version: MetadataResponse(
        version=version, brokers=[], cluster_id="fake", controller_id=1, topics=[]
    )
    assert live.topic_of_id("A" * 22).error == UNKNOWN


def test_an_offsets_topic_that_metadata_lacks_makes_the_list_of_groups_incomplete(
    broker: FakeBroker, live: LiveCluster
) -> None:
    def without(request: Any, version: int) -> Any:
        made = broker._metadata(request, version)
        made.topics = []
        return made

    broker.answers[3] = without
    broker.answers[16] = lambda _, version: groups_answer(version)
    assert live.groups(()).incomplete == (f"__consumer_offsets cannot be read: {UNKNOWN}",)


def test_groups_that_nobody_asked_about_are_passed_over(
    broker: FakeBroker, live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "_PAUSES_SECONDS", ())
    broker.answers[16] = lambda _, version: groups_answer(version, ("g", "classic", "Stable"))

    def members(request: Any, version: int) -> Any:
        request.groups = [*request.groups, "other"]
        return members_answer(request, version, state="Dead")

    def commits(request: Any, version: int) -> Any:
        made = committed_answer(request, version)
        other = committed_answer(request, version, group_error=69).groups[0]
        other.group_id = "other"
        made.groups = [*made.groups, other]
        return made

    broker.answers[15], broker.answers[9] = members, commits
    assert [g.group_id for g in live.groups(()).groups] == ["g"]


@pytest.mark.parametrize("lacking", ["partition", "topic"])
def test_a_batch_that_fetch_lacks(
    broker: FakeBroker, live: LiveCluster, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setitem(fake_broker.PAIRS, 1, (FetchRequest, FetchResponse))
    broker.versions[1] = 12
    one = FetchResponse.FetchableTopicResponse

    def answer(_: Any, version: int) -> Any:
        topics = [one(topic="orders", partitions=[], version=version)]
        return FetchResponse(
            version=version, error_code=0, responses=topics if lacking == "partition" else []
        )

    broker.answers[1] = answer
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=10)) as anew:
        assert anew.batches({P0: [10]})[P0].error == UNKNOWN


def test_a_resource_that_describe_configs_lacks(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fake_broker.PAIRS, 32, (DescribeConfigsRequest, DescribeConfigsResponse))
    broker.versions[32] = 4
    one = DescribeConfigsResponse.DescribeConfigsResult

    def answer(_: Any, version: int) -> Any:
        of_another = one(
            error_code=0, error_message=None, resource_type=16, resource_name="orders", configs=[],
            version=version,
        )  # fmt: skip
        return DescribeConfigsResponse(version=version, results=[of_another])

    broker.answers[32] = answer
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=10)) as live:
        found = live.configs_answer(["orders"], [1])
    assert found.errors == {"topic orders": UNKNOWN, "broker 1": UNKNOWN}


def test_a_coordinator_that_find_coordinator_lacks(broker: FakeBroker) -> None:
    broker.versions[10] = 4
    broker.answers[10] = lambda _, version: FindCoordinatorResponse(
        version=version, coordinators=[]
    )
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=10)) as live:
        assert live.commit_offsets("g", {P0: 5}) == {P0: "COORDINATOR_NOT_AVAILABLE"}
