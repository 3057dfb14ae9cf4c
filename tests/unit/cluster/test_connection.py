"""One dead, slow or suspended broker costs its own answer and no more than its time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.cluster import topics
from dashboard.cluster.connection import connection
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.protocol.messages import DeleteRecordsResponse
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from tests.support.fake_broker import DROP, HANG, FakeBroker, topic
from tests.unit.cluster.answers import offsets_answer


@pytest.fixture
def two() -> Iterator[tuple[FakeBroker, FakeBroker]]:
    with FakeBroker(1) as one, FakeBroker(2) as other:
        one.neighbours, other.neighbours = [other], [one]
        one.topics = other.topics = [topic("orders", [1, 2])]
        one.answers[2] = other.answers[2] = offsets_answer
        yield one, other


def open_live(*brokers: FakeBroker, seconds: float = 60) -> LiveCluster:
    servers = ",".join(broker.bootstrap for broker in brokers)
    return connect({"bootstrap.servers": servers}, timedelta(seconds=seconds))


def test_a_suspended_bootstrap_broker_does_not_hold_up_the_others(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    one, other = two
    one.answers[3] = HANG
    begun = time.monotonic()
    with open_live(one, other, seconds=100) as live:
        assert live.cluster_id() == "fake"
    assert time.monotonic() - begun < 50


def test_a_long_answer_is_asked_of_one_broker_only(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata of a million partitions takes longer than a broker may be silent."""
    decode, wait, answering = topics.decode, connection.wait, threading.Event()

    def slow(body: memoryview[int]) -> Any:
        answering.set()
        time.sleep(1.2)
        return decode(body)

    def after_the_answer_began(*args: Any, **options: Any) -> Any:
        answering.wait(60)
        return wait(*args, **options)

    with open_live(*two) as live:
        monkeypatch.setattr(topics, "decode", slow)
        monkeypatch.setattr(connection, "wait", after_the_answer_began)
        assert list(live.topics(None)) == ["orders"]
    asked = [r for broker in two for r in broker.requests if getattr(r, "topics", 1) is None]
    assert len(asked) == 1


def test_a_wrong_address_is_named(free_port: int) -> None:
    with pytest.raises(ClusterError) as refused:
        connect({"bootstrap.servers": f"127.0.0.1:{free_port}"}, timedelta(seconds=60))
    assert refused.value.code == "CLUSTER_UNREACHABLE"
    assert f"127.0.0.1:{free_port}" in refused.value.message
    assert refused.value.exit_code == 4


def test_an_address_that_cannot_be_resolved_is_named() -> None:
    with pytest.raises(ClusterError, match=r"no-such-host\.invalid:9092"):
        connect({"bootstrap.servers": "no-such-host.invalid:9092"}, timedelta(seconds=60))


def test_something_that_is_not_kafka_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet, daemon=True)

        thread.start()
        with pytest.raises(ClusterError, match="not Kafka's"):
            connect({"bootstrap.servers": f"127.0.0.1:{port}"}, timedelta(seconds=60))
        thread.join(2)


def test_a_broker_that_hangs_costs_its_own_partitions_only(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    one, other = two
    other.answers[2] = HANG
    with open_live(one) as live:
        live._connection.timeout_seconds = 3
        found = live.offsets([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    assert found["orders", 0].high_watermark == 90  # type: ignore[index]
    lost = found["orders", 1]  # type: ignore[index]
    assert lost.error in ("ANSWER_LOST", "BROKER_UNREACHABLE")
    assert lost.high_watermark is None


def test_a_broker_that_hung_is_left_alone_for_a_while(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, other = two

    def hang(*_: Any) -> Any:
        live._connection.timeout_seconds = 60  # from now on: it is left alone for as long
        other.closed.wait(30)  # without an answer and without closing the connection
        raise OSError

    other.answers[2] = hang
    with open_live(one) as live:
        live._connection.timeout_seconds = 1
        rows = live.replica_offsets([TopicPartition("orders", 1)])
        live.replica_offsets([TopicPartition("orders", 1)])
        live.replica_offsets([TopicPartition("orders", 1)])
    assert [row.error for row in rows] == ["ANSWER_LOST"]
    assert len([r for r in other.requests if r.API_KEY == 2]) == 1


def test_time_that_ran_out_before_a_connection_is_a_broker_that_was_not_reached(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    one, _ = two
    with open_live(one) as live:
        live._connection.timeout_seconds = -0.5
        with pytest.raises(ClusterError) as caught:
            live.topics(None)
    assert caught.value.code == "CLUSTER_UNREACHABLE"


def test_a_connection_cut_while_idle_is_opened_again_for_a_read(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    one, other = two
    with open_live(one) as live:
        live.topics(None)
        one.cut()
        other.cut()
        assert list(live.topics(None)) == ["orders"]


def sockets(broker: FakeBroker, *, most: int) -> int:
    """How many of a broker's connections stand, once they are no more than that, or in a while."""
    until = time.monotonic() + 10
    while (count := sum(s.fileno() >= 0 for s in broker._sockets)) > most:
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return count


def test_requests_that_change_something_leave_no_connection_behind(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    """A service of policies sends them for months on one connection to the cluster."""
    one, _ = two
    one.answers[21] = lambda _, version: DeleteRecordsResponse(version=version, topics=[])
    with open_live(one) as live:
        for _ in range(8):
            live.delete_records(1, {TopicPartition("orders", 0): 10}, timeout_ms=100)
            live.offsets([TopicPartition("orders", 0)])
        assert len(live._connection._idle["127.0.0.1", one.port]) <= 2
        assert sockets(one, most=2) <= 2
    assert one.connections >= 8


def two_at_once(asked: connection.Connection, broker_id: int) -> None:
    """Open two connections to a broker, each while the other one is in use."""
    both = threading.Barrier(2)
    asked.side_by_side(
        {n: lambda: asked.ask(broker_id, lambda *_: both.wait(60)) for n in range(2)}
    )


def test_connections_of_a_busier_moment_end_while_fewer_are_used(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    with open_live(one) as live:
        asked = live._connection
        two_at_once(asked, 1)
        assert sockets(one, most=2) == 2
        monkeypatch.setattr(connection, "_IDLE_SECONDS", 0.3)
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            asked.ask(1, lambda *_: None)
            time.sleep(0.01)
        assert sockets(one, most=1) == 1


def test_connections_to_addresses_that_are_gone_end(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker in a container comes back at another address each time."""
    one, other = two
    with open_live(one) as live:
        asked = live._connection
        two_at_once(asked, 2)
        assert sockets(other, most=2) == 2
        asked.remember({1: ("127.0.0.1", one.port)})
        monkeypatch.setattr(connection, "_IDLE_SECONDS", 0.1)
        time.sleep(0.15)
        asked.ask(1, lambda *_: None)
        assert sockets(other, most=0) == 0
        assert list(asked._idle) == [("127.0.0.1", one.port)]


class Watched(set[Any]):
    """Busy wires, which others look through under a lock."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self.lock, self.unlocked = lock, 0

    def discard(self, wire: Any) -> None:
        self.unlocked += not self.lock.locked()
        super().discard(wire)


@pytest.mark.parametrize("fault", [ClusterError("it is down", "Start it."), RuntimeError("odd")])
def test_a_connection_that_could_not_be_opened_is_not_busy(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Changed while `ask_any` looks through it, the set of busy ones would end the whole watch."""

    def fails(wire: Wire, _: float) -> None:
        wire.close()
        raise fault

    with open_live(two[0]) as live:
        asked = live._connection
        asked._busy = watched = Watched(asked._lock)
        monkeypatch.setattr(Wire, "open", fails)
        with pytest.raises(type(fault)):
            asked.ask(1, lambda *_: None, once=True)
        assert (set(watched), watched.unlocked) == (set(), 0)


def test_brokers_lists_the_dead_with_a_reason(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, other = two
    with open_live(one) as live:
        other.close()
        found = live.brokers([1, 2, 7])
    assert [(b.broker_id, b.reachable) for b in found] == [(1, True), (2, False), (7, False)]
    assert found[0].api_versions["DeleteRecords"] == 2
    assert "could not be reached" in str(found[1].error)
    assert "not registered" in str(found[2].error)


@pytest.mark.parametrize("fault", ["UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"])
def test_errors_of_a_restart_are_read_again(two: tuple[FakeBroker, FakeBroker], fault: str) -> None:
    one, _ = two
    codes = {"UNKNOWN_LEADER_EPOCH": 75, "NOT_LEADER_OR_FOLLOWER": 6}
    faults = [codes[fault]]

    def answer(request: Any, version: int) -> Any:
        return offsets_answer(request, version, error=faults.pop() if faults else 0)

    one.answers[2] = answer
    with open_live(one) as live:
        found = live.offsets([TopicPartition("orders", 0)])
    assert found["orders", 0].error is None  # type: ignore[index]


def test_an_error_that_stays_becomes_a_value(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, _ = two
    one.answers[2] = lambda request, version: offsets_answer(request, version, error=29)
    with open_live(one) as live:
        found = live.offsets([TopicPartition("orders", 0), TopicPartition("gone", 3)])
    assert found["orders", 0].error == "TOPIC_AUTHORIZATION_FAILED"  # type: ignore[index]
    assert found["gone", 3].error == "UNKNOWN_TOPIC_OR_PARTITION"  # type: ignore[index]


def test_no_offset_found_is_none_and_never_minus_one(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, _ = two
    one.answers[2] = lambda request, version: offsets_answer(request, version, offset=-1)
    with open_live(one) as live:
        found = live.offsets_at([TopicPartition("orders", 0)], datetime(2026, 1, 1, tzinfo=UTC))
    assert found["orders", 0].offset is None  # type: ignore[index]
    assert found["orders", 0].error is None  # type: ignore[index]


def test_leader_log_starts_travel_with_the_epoch_asked_for(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    one, _ = two
    with open_live(one) as live:
        found = live.leader_log_starts({TopicPartition("orders", 0): 4})
    sent = next(r for r in one.requests if r.API_KEY == 2)
    assert sent.replica_id == -1
    assert sent.topics[0].partitions[0].current_leader_epoch == 4
    assert found["orders", 0].leader_epoch == 4  # type: ignore[index]
    assert found["orders", 0].log_start_offset == 10  # type: ignore[index]


def test_replica_offsets_ask_as_any_replica(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, other = two
    with open_live(one) as live:
        rows = live.replica_offsets([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    assert [(r.broker_id, r.partition, r.log_start_offset, r.log_end_offset) for r in rows] == [
        (1, 0, 10, 90),
        (2, 1, 10, 90),
    ]
    assert {r.replica_id for r in (*one.requests, *other.requests) if r.API_KEY == 2} == {-2}


def test_closing_wakes_who_still_waits(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, _ = two
    one.answers[2] = HANG
    live = open_live(one, seconds=200)
    ended = threading.Event()

    def ask() -> None:
        live.replica_offsets([TopicPartition("orders", 0)])
        ended.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    while not any(r.API_KEY == 2 for r in one.requests):
        time.sleep(0.01)
    live.close()
    assert ended.wait(60)


def test_a_dropped_answer_is_an_error_of_that_broker(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, _ = two
    one.answers[2] = DROP
    with open_live(one) as live:
        rows = live.replica_offsets([TopicPartition("orders", 0)])
    assert [row.error for row in rows] == ["ANSWER_LOST"]


def test_a_broker_that_metadata_calls_gone_is_asked_for_its_own_view_at_its_bootstrap_address(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    """The first broker is cut off since before the other one came back, and leads by now."""
    one, other = two
    one.neighbours = other.neighbours = []
    other.topics = [topic("orders", [2, 2])]
    with open_live(*two) as live:
        assert live.alive_brokers() == (1,)
        seen = live.topics_at({1: ["orders"], 2: ["orders"], 3: ["orders"]})
        assert [p.leader_id for p in seen[1]["orders"].partitions] == [1, 2]  # type: ignore[index, union-attr]
        assert [p.leader_id for p in seen[2]["orders"].partitions] == [2, 2]  # type: ignore[index, union-attr]
        assert seen[3] == "BROKER_UNREACHABLE"
        assert live.alive_brokers() == (1,)


def test_who_is_alive_is_told_by_every_broker_and_not_by_one_that_is_cut_off(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    one, other = two
    with FakeBroker(3) as third, open_live(one) as live:
        other.neighbours = [one, third]  # it has joined since the first broker was cut off
        assert live.alive_brokers() == (1, 2)
        assert live.alive_anywhere() == (1, 2, 3)
        other.answers[3] = DROP
        assert live.alive_anywhere() == (1, 2)
