"""DeleteRecords: byte-exact against Kafka's own encoder, never negative, never sent twice."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from dashboard.core.errors import BrokerError, UsageError
from dashboard.domain.model import TopicPartition
from tests.support.fake_broker import DROP, HANG, FakeBroker, topic

FILE = Path(__file__).parents[2] / "vectors" / "delete_records.json"
VECTORS = json.loads(FILE.read_text())["vectors"]
CLASSES = {c.__name__: c for c in (DeleteRecordsRequest, DeleteRecordsResponse)}


def _name(vector: dict[str, Any]) -> str:
    return f"{vector['message']}-v{vector['version']}-{vector['name']}"


P0 = TopicPartition("orders", 0)


def plain(message: Any) -> Any:
    """A decoded message as the plain values of the vectors file."""
    if isinstance(message, list):
        return [plain(part) for part in message]
    if not hasattr(message, "_struct"):
        return message
    # The vectors leave the leader's log start out before v3, and LeaderOnly in.
    return {
        name: plain(getattr(message, name))
        for name in message._struct.fields
        if name != "leader_log_start_offset" or message.version >= 3
    }


def built(message: Any, body: dict[str, Any], version: int) -> Any:
    """A message of the vectors' plain values, through the class's own nested types."""
    values = {}
    for name, value in body.items():
        field = message._struct.fields[name]
        if field.is_struct_array():
            inner = getattr(message, field.type_str)
            values[name] = [built(inner, part, version) for part in value]
        else:
            values[name] = value
    return message(version=version, **values)


@pytest.mark.parametrize("vector", VECTORS, ids=_name)
def test_every_vector_is_encoded_and_decoded_byte_for_byte(vector: dict[str, Any]) -> None:
    message, version = CLASSES[vector["message"]], vector["version"]
    raw = bytes.fromhex(vector["hex"])
    assert built(message, vector["body"], version).encode(version=version) == raw
    assert plain(message.decode(raw, version=version)) == vector["body"]


@pytest.fixture
def broker() -> Any:
    with FakeBroker() as fake:
        fake.topics = [topic("orders", [1])]
        fake.answers[21] = answer_done
        yield fake


def answer_done(request: Any, version: int) -> Any:
    result = DeleteRecordsResponse.DeleteRecordsTopicResult
    part = result.DeleteRecordsPartitionResult
    return DeleteRecordsResponse(
        version=version,
        topics=[
            result(
                name=t.name,
                partitions=[
                    part(
                        partition_index=p.partition_index,
                        low_watermark=p.offset,
                        leader_log_start_offset=p.offset + 7,
                        error_code=0,
                        version=version,
                    )
                    for p in t.partitions
                ],
                version=version,
            )
            for t in request.topics
        ],
    )


def open_live(broker: FakeBroker) -> LiveCluster:
    return connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60))


@pytest.mark.parametrize(("highest", "spoken"), [(0, 0), (1, 1), (2, 2), (3, 2), (9, 2)])
def test_the_version_is_the_leaders_highest_that_a_release_defines(
    broker: FakeBroker, highest: int, spoken: int
) -> None:
    broker.versions[21] = highest
    with open_live(broker) as live:
        result = live.delete_records(1, {P0: 10}, timeout_ms=100)
    assert (result.api_version, broker.requests[-1].API_VERSION) == (spoken, spoken)
    assert result.partition_results[0].low_watermark == 10
    assert result.partition_results[0].leader_log_start_offset == -1
    assert result.partition_results[0].error is None


def test_leader_only_travels_in_v3(broker: FakeBroker) -> None:
    broker.versions[21] = 3
    with open_live(broker) as live:
        result = live.delete_records(1, {P0: 10}, timeout_ms=250, leader_only=True)
    assert (result.api_version, result.partition_results[0].leader_log_start_offset) == (3, 17)
    assert result.sent
    assert broker.requests[-1].leader_only is True
    assert broker.requests[-1].timeout_ms == 250


def test_leader_only_before_v3_sends_nothing(broker: FakeBroker) -> None:
    with open_live(broker) as live:
        result = live.delete_records(1, {P0: 10}, timeout_ms=100, leader_only=True)
    assert [r.error for r in result.partition_results] == ["UNSUPPORTED_VERSION"]
    assert [r.error_code for r in result.partition_results] == [35]
    assert not result.sent
    assert not [r for r in broker.requests if r.API_KEY == 21]


def test_a_negative_target_is_never_sent(broker: FakeBroker) -> None:
    with open_live(broker) as live, pytest.raises(UsageError, match="orders-0") as refused:
        live.delete_records(1, {P0: -1}, timeout_ms=100)
    assert refused.value.code == "TARGET_NEGATIVE"
    assert not [r for r in broker.requests if r.API_KEY == 21]


@pytest.mark.parametrize("fault", [DROP, HANG])
def test_a_lost_answer_says_so_and_is_not_repeated(broker: FakeBroker, fault: str) -> None:
    broker.answers[21] = fault
    with open_live(broker) as live, pytest.raises(BrokerError) as lost:
        live._connection.timeout_seconds = 60 if fault == DROP else 3
        live.delete_records(1, {P0: 10}, timeout_ms=100)
    assert lost.value.code == "ANSWER_LOST"
    assert lost.value.broker_id == 1
    assert len([r for r in broker.requests if r.API_KEY == 21]) == 1


def test_a_leader_that_cannot_be_reached_got_nothing(broker: FakeBroker) -> None:
    with open_live(broker) as live:
        broker.close()
        with pytest.raises(BrokerError) as refused:
            live.delete_records(1, {P0: 10}, timeout_ms=100)
    assert refused.value.code == "BROKER_UNREACHABLE"


def test_a_broker_that_is_not_in_the_metadata_is_named(broker: FakeBroker) -> None:
    with open_live(broker) as live, pytest.raises(BrokerError, match="broker 9"):
        live.delete_records(9, {P0: 10}, timeout_ms=100)


def test_a_partition_missing_from_the_answer_is_unknown_not_done(broker: FakeBroker) -> None:
    broker.answers[21] = lambda _, version: DeleteRecordsResponse(version=version, topics=[])
    with open_live(broker) as live:
        result = live.delete_records(1, {P0: 10}, timeout_ms=100)
    assert result.partition_results[0].error == "UNKNOWN_SERVER_ERROR"


def test_what_may_not_leave_once_the_connection_stands_does_not(broker: FakeBroker) -> None:
    signed_in = []

    def may_leave() -> bool:
        signed_in.append(bool(live._connection._busy))
        return False

    with open_live(broker) as live, pytest.raises(BrokerError) as called_off:
        live.delete_records(1, {P0: 10}, timeout_ms=100, may_leave=may_leave)
    assert called_off.value.code == "NOT_SENT"
    assert signed_in == [True], "asked on the open connection, at last"
    assert not [r for r in broker.requests if r.API_KEY == 21]
