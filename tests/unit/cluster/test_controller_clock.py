"""What time it is for the cluster: told, not spoken of, or not to be read, which is no "right"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.cluster.live import connect
from dashboard.cluster.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from dashboard.core.errors import ClusterError
from tests.support import fake_broker
from tests.support.fake_broker import DROP, HANG, VERSIONS, FakeBroker

QUORUM = DescribeQuorumRequest.API_KEY


def quorum(
    version: int,
    *,
    error: int = 0,
    of_partition: int = 0,
    at_ms: int = 1_000,
    end: int = 5,
    replica: int = 1,
    silent_ms: tuple[int, ...] = (),
) -> Any:
    """Of a controller that tells its clock, and since when it has not heard of other voters."""
    data = DescribeQuorumResponse.TopicData
    part = data.PartitionData
    voters = [
        part.ReplicaState(
            replica_id=voter, log_end_offset=end, last_fetch_timestamp=at_ms - ago,
            last_caught_up_timestamp=at_ms - ago, version=version,
        )
        for voter, ago in enumerate((0, *silent_ms), replica)
    ]  # fmt: skip
    partition = part(
        partition_index=0, error_code=of_partition, leader_id=replica, leader_epoch=3,
        high_watermark=5, current_voters=voters, observers=[], version=version,
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


def caught_up(
    monkeypatch: pytest.MonkeyPatch, answers: Any, version: int | None = 1
) -> dict[int, bool | None]:
    monkeypatch.setitem(fake_broker.PAIRS, QUORUM, (DescribeQuorumRequest, DescribeQuorumResponse))
    versions = VERSIONS if version is None else {**VERSIONS, QUORUM: version}
    with FakeBroker(versions=versions) as broker:
        broker.answers[QUORUM] = answers
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=2)) as live:
            return live.caught_up([1])


@pytest.mark.parametrize("version", [1, 2])
def test_a_broker_that_has_read_all_that_the_controllers_decided_is_caught_up(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    assert caught_up(monkeypatch, lambda _, v: quorum(v, end=5), version) == {1: True}
    assert caught_up(monkeypatch, lambda _, v: quorum(v, end=4), version) == {1: False}


@pytest.mark.parametrize(
    ("silent_ms", "led"),
    [((500, 600_000), True), ((600_000, 600_000), False), ((500, 400, 3000, 3000), True),
     ((500, 2001, 2001), False), ((500, 2000, 2001), True), ((-60_000, -60_000), False)],
)  # fmt: skip
def test_a_controller_counts_while_most_voters_fetch_from_it(
    monkeypatch: pytest.MonkeyPatch, silent_ms: tuple[int, ...], led: bool
) -> None:
    """One that lost them may have been replaced on the other side, and answers all the same, also
    when its clock was set back since.
    """
    at = 1_700_000_000_000
    told = caught_up(monkeypatch, lambda _, v: quorum(v, at_ms=at, silent_ms=silent_ms))
    assert told == {1: led}


def test_a_controller_that_does_not_tell_when_voters_fetched_confirms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert caught_up(monkeypatch, lambda _, v: quorum(v), version=0) == {1: False}


def test_a_broker_that_is_behind_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = [3, 4, 6]
    assert caught_up(monkeypatch, lambda _, v: quorum(v, end=ends.pop(0))) == {1: True}
    assert not ends


def test_a_broker_that_does_not_reach_the_controllers_is_not_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for answer in (
        DROP,
        lambda _, v: quorum(v, error=31),
        lambda _, v: quorum(v, of_partition=6),
        lambda _, v: quorum(v, replica=2),
    ):
        assert caught_up(monkeypatch, answer) == {1: False}
    assert caught_up(monkeypatch, DROP, version=None) == {1: None}


def test_a_broker_whose_controller_hangs_is_not_silent_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fake_broker.PAIRS, QUORUM, (DescribeQuorumRequest, DescribeQuorumResponse))
    with FakeBroker(versions={**VERSIONS, QUORUM: 1}) as broker:
        broker.answers[QUORUM] = HANG
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=0.5)) as live:
            assert live.caught_up([1]) == {1: False}
            with pytest.raises(ClusterError, match="clock cannot be read"):
                live.controller_time()
            assert live.cluster_id() == "fake"
