"""Sizes per replica and log dir; a broker that refuses is named, its bytes are never zero."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dashboard.cluster.live import connect
from dashboard.domain.model import LogDirsAnswer
from tests.support.fake_broker import HANG, FakeBroker
from tests.unit.cluster.answers import log_dirs_answer


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1) as fake:
        fake.answers[35] = lambda _, version: log_dirs_answer(version)
        yield fake


def read(broker: FakeBroker, seconds: float = 60) -> LogDirsAnswer:
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60)) as live:
        live._connection.timeout_seconds = seconds
        return live.log_dirs()


def test_replicas_and_future_copies_are_listed_with_bytes(broker: FakeBroker) -> None:
    answer = read(broker)
    assert [(r.topic, r.size_bytes, r.is_future) for r in answer.replicas] == [
        ("orders", 700, False),
        ("orders", 30, True),
    ]
    assert (answer.log_dirs[0].total_bytes, answer.log_dirs[0].usable_bytes) == (1000, None)
    assert answer.errors == {}


def test_topics_are_asked_for_as_null(broker: FakeBroker) -> None:
    read(broker)
    assert next(r for r in broker.requests if r.API_KEY == 35).topics is None


def test_one_broker_alone_may_be_asked_and_a_missing_one_is_an_error(broker: FakeBroker) -> None:
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60)) as live:
        assert live.log_dirs(brokers=[1]).errors == {}
        assert live.log_dirs(brokers=[7]).errors == {7: "BROKER_UNREACHABLE"}


def test_a_refusal_is_an_error_of_the_broker(broker: FakeBroker) -> None:
    broker.answers[35] = lambda _, version: log_dirs_answer(version, error=31)
    answer = read(broker)
    assert answer.errors == {1: "CLUSTER_AUTHORIZATION_FAILED"}
    assert answer.replicas == ()


def test_an_empty_answer_of_an_old_version_is_a_refusal_too(broker: FakeBroker) -> None:
    broker.versions[35] = 2
    broker.answers[35] = lambda _, version: log_dirs_answer(version, empty=True)
    assert read(broker).errors == {1: "CLUSTER_AUTHORIZATION_FAILED"}


def test_a_service_without_the_api_is_told_apart(broker: FakeBroker) -> None:
    del broker.versions[35]
    assert read(broker).errors == {1: "API_UNSUPPORTED"}


def test_a_broker_that_hangs_is_named(broker: FakeBroker) -> None:
    broker.answers[35] = HANG
    assert read(broker, seconds=0.5).errors == {1: "ANSWER_LOST"}
