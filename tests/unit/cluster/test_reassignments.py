"""Reassignments: a missing right, a controller that is elected just now, one that does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import connect
from dashboard.cluster.protocol.messages import ListPartitionReassignmentsResponse
from dashboard.core.errors import ClusterError
from dashboard.domain.model import Reassignment
from tests.support.fake_broker import FakeBroker

NOT_CONTROLLER, TIMED_OUT, NO_RIGHT = 41, 7, 31


class Controller:
    """Answers with each of `errors` in turn, the last one from then on."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.asked = 0

    def __call__(self, _: Any, version: int) -> Any:
        self.asked += 1
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        one = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        part = one.OngoingPartitionReassignment
        moving = part(
            partition_index=0, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1],
            version=version,
        )  # fmt: skip
        topics = [] if error else [one(name="orders", partitions=[moving], version=version)]
        return ListPartitionReassignmentsResponse(
            version=version, throttle_time_ms=0, error_code=error, error_message=None, topics=topics
        )


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1) as fake:
        yield fake


def read(broker: FakeBroker) -> tuple[Reassignment, ...]:
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60)) as live:
        return live.reassignments()


def test_who_is_no_controller_any_more_is_asked_again(broker: FakeBroker) -> None:
    broker.answers[46] = Controller(NOT_CONTROLLER, NOT_CONTROLLER, 0)
    assert read(broker) == (Reassignment("orders", 0, (3,), (1,)),)


@pytest.mark.parametrize(
    ("error", "code", "retriable", "asked"),
    [
        (NOT_CONTROLLER, "REASSIGNMENTS_UNKNOWN", True, 4),
        (TIMED_OUT, "REASSIGNMENTS_UNKNOWN", True, 1),
        (NO_RIGHT, "CLUSTER_AUTHORIZATION_FAILED", False, 1),
    ],
)
def test_a_missing_right_is_told_from_a_controller_that_does_not_tell(
    broker: FakeBroker, error: int, code: str, retriable: bool, asked: int
) -> None:
    broker.answers[46] = controller = Controller(error)
    with pytest.raises(ClusterError) as raised:
        read(broker)
    assert (raised.value.code, raised.value.retriable) == (code, retriable)
    assert controller.asked == asked
