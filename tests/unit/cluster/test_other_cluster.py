"""Nobody of another cluster is asked or told anything, wherever its address came from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.errors import BrokerError, OtherClusterError
from dashboard.domain.model import TopicPartition
from tests.support.fake_broker import DROP, HANG, FakeBroker, topic
from tests.unit.cluster.answers import (
    committed_answer,
    groups_answer,
    members_answer,
    offsets_answer,
)
from tests.unit.cluster.test_commit_offsets import committed, coordinator
from tests.unit.cluster.test_delete_records import answer_done

P0 = TopicPartition("orders", 0)
SILENCE_SECONDS = 1.2  # longer than one address is waited for before the next one is asked
METADATA, DELETE_RECORDS, OFFSET_COMMIT, LIST_GROUPS = 3, 21, 8, 16
Two = tuple[FakeBroker, FakeBroker]


@pytest.fixture
def two() -> Iterator[Two]:
    """A cluster and its mirror, whose one broker has the same id and leads the same topics."""
    with FakeBroker(1) as prod, FakeBroker(1) as mirror:
        prod.cluster_id, mirror.cluster_id = "prod", "mirror"
        for broker in (prod, mirror):
            broker.topics = [topic("orders", [1])]
            broker.answers[2] = offsets_answer
            broker.answers[DELETE_RECORDS] = answer_done
            broker.answers[10], broker.answers[OFFSET_COMMIT] = coordinator(1), committed({0: 0})
        yield prod, mirror


def open_live(*brokers: FakeBroker, cluster_id: str | None = None) -> LiveCluster:
    servers = ",".join(broker.bootstrap for broker in brokers)
    return connect({"bootstrap.servers": servers}, timedelta(seconds=30), cluster_id=cluster_id)


def slow_once(broker: FakeBroker) -> None:
    """The next answer about metadata takes its time: a pause, a busy disk."""
    quick, left = broker.answers[METADATA], [1]
    assert callable(quick)

    def slow(request: Any, version: int) -> Any:
        if left:
            left.pop()
            time.sleep(SILENCE_SECONDS)
        return quick(request, version)

    broker.answers[METADATA] = slow


def asked(broker: FakeBroker) -> set[int]:
    return {request.API_KEY for request in broker.requests}


def test_a_cluster_that_is_slow_is_waited_for_and_not_another_one_believed(two: Two) -> None:
    prod, mirror = two
    with open_live(prod, mirror) as live:
        slow_once(prod)
        mirror.topics = [topic("elsewhere", [1])]
        assert list(live.topics(None)) == ["orders"]
        assert live._connection._addresses == {1: ("127.0.0.1", prod.port)}
    assert asked(mirror) == {METADATA}


def test_a_cluster_that_is_gone_is_not_replaced_by_another_one(two: Two) -> None:
    prod, mirror = two
    with open_live(prod, mirror) as live:
        prod.close()
        with pytest.raises(OtherClusterError) as refused:
            live.topics(["orders"])
        assert (refused.value.code, refused.value.exit_code) == ("CLUSTER_CHANGED", 4)
        assert f"{mirror.bootstrap} belongs to another cluster (mirror)" in refused.value.message
        assert live._connection._addresses == {1: ("127.0.0.1", prod.port)}
        assert live.cluster_id() == "mirror", "who looks is told who answers"
        with pytest.raises(BrokerError) as unreached:
            live.delete_records(1, {P0: 10}, timeout_ms=100)
    assert unreached.value.code == "BROKER_UNREACHABLE"
    assert asked(mirror) == {METADATA}


@pytest.mark.parametrize("what", ["records", "offsets"])
def test_nothing_is_told_to_another_cluster_at_a_brokers_own_address(two: Two, what: str) -> None:
    """Its host and port were given to somebody else while the metadata was good."""
    prod, mirror = two
    with FakeBroker(2) as second, open_live(prod) as live:
        second.cluster_id, second.neighbours = "prod", [prod]
        prod.neighbours = [second]
        live.topics(None)
        live._connection.meet({3: ("127.0.0.1", mirror.port)})
        prod.answers[10] = second.answers[10] = coordinator(3)
        with pytest.raises(BrokerError) as refused:
            if what == "records":
                live.delete_records(3, {P0: 10}, timeout_ms=100)
            else:
                live.commit_offsets("g", {P0: 10})
    assert (refused.value.code, refused.value.broker_id) == ("CLUSTER_CHANGED", 3)
    assert "another cluster (mirror)" in refused.value.message
    assert asked(mirror) == {METADATA}


@pytest.mark.further_but("records-drop", "offsets-drop")
@pytest.mark.parametrize("fault", [DROP, HANG])
@pytest.mark.parametrize("what", ["records", "offsets"])
def test_a_broker_that_does_not_say_who_it_is_was_sent_nothing(
    two: Two, what: str, fault: str
) -> None:
    """Nobody may take that for a request whose answer was lost."""
    prod, _ = two
    with open_live(prod) as live:
        live.topics(None)
        prod.answers[METADATA] = fault
        live._connection.timeout_seconds = 1
        with pytest.raises(BrokerError) as unreached:
            if what == "records":
                live.delete_records(1, {P0: 10}, timeout_ms=100)
            else:
                live.commit_offsets("g", {P0: 10})
    assert unreached.value.code == "BROKER_UNREACHABLE"
    assert not asked(prod) & {DELETE_RECORDS, OFFSET_COMMIT}


def test_the_list_of_groups_is_never_another_clusters(two: Two) -> None:
    prod, mirror = two
    for broker in two:
        broker.topics = [topic("__consumer_offsets", [1]), topic("orders", [1])]
        broker.answers[15] = members_answer
    prod.answers[LIST_GROUPS] = lambda _, v: groups_answer(v, ("billing", "classic", "Empty"))
    prod.answers[9] = lambda request, v: committed_answer(request, v, offset=10)
    mirror.answers[LIST_GROUPS] = lambda _, v: groups_answer(v)
    with open_live(prod, mirror) as live:
        for _ in range(2):
            slow_once(prod)
            found = live.groups(["orders"])
            assert [group.group_id for group in found.groups] == ["billing"]
    assert asked(mirror) == {METADATA}


def test_who_knows_the_cluster_before_meets_it_and_nobody_else(two: Two) -> None:
    prod, mirror = two
    with open_live(mirror, prod, cluster_id="prod") as live:
        assert live.cluster_id() == "prod"
        assert live.delete_records(1, {P0: 10}, timeout_ms=100).partition_results[0].error is None
    assert (DELETE_RECORDS in asked(prod), asked(mirror)) == (True, {METADATA})


def test_a_known_cluster_of_which_nobody_is_there_is_told_and_nothing_is_read(two: Two) -> None:
    _, mirror = two
    with open_live(mirror, cluster_id="prod") as live:
        assert (live.cluster_id(), live.alive_brokers()) == ("mirror", ())
        with pytest.raises(OtherClusterError):
            live.topics(None)
        with pytest.raises(BrokerError):
            live.delete_records(1, {P0: 10}, timeout_ms=100)
    assert asked(mirror) == {METADATA}


@pytest.mark.parametrize("version", [12, 9])
def test_an_answer_that_a_proxy_took_from_another_cluster_is_refused(
    two: Two, version: int
) -> None:
    prod, _ = two
    prod.versions[METADATA] = version
    with open_live(prod) as live:
        live.topics(None)
        before = prod.connections
        prod.cluster_id = "mirror"  # on a connection that stands
        with pytest.raises(OtherClusterError):
            live.topics(None)
        assert prod.connections == before
        with pytest.raises(OtherClusterError):
            live.brokers()


@pytest.mark.parametrize("known", [None, "prod"])
def test_a_cluster_that_tells_no_id_contradicts_nobody(two: Two, known: str | None) -> None:
    prod, _ = two
    prod.cluster_id = None  # type: ignore[assignment]
    with open_live(prod, cluster_id=known) as live:
        assert live.cluster_id() == ""
        assert list(live.topics(None)) == ["orders"]
        assert live.delete_records(1, {P0: 10}, timeout_ms=100).partition_results[0].error is None
