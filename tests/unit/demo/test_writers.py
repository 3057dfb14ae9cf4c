"""Transactions are mostly short, now and then long, and survive a coordinator that is away."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from dashboard.demo import workload as writers
from dashboard.demo.truth import Batch, TopicTruth
from dashboard.demo.workload import LONG_TICKS, TransactionalWriter

TRANSFERS = TopicTruth("transfers", "", 2, (Batch(1, 10),), 2, transactional=True)


class FakeProducer:
    """Notes the transaction calls; fails a commit when told to."""

    made = 0

    def __init__(self, log: list[str], fail: list[bool]) -> None:
        FakeProducer.made += 1
        self.log, self.fail = log, fail

    def init_transactions(self, _timeout: float) -> None:
        self.log.append("init")

    def begin_transaction(self) -> None:
        self.log.append("begin")

    def commit_transaction(self, _timeout: float) -> None:
        if self.fail and self.fail.pop():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.log.append("commit")

    def abort_transaction(self, _timeout: float) -> None:
        self.log.append("abort")

    def produce(self, *_: object) -> None:
        self.log.append("record")

    def poll(self, _timeout: float) -> int:
        return 0


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def fail() -> list[bool]:
    return []


@pytest.fixture
def writer(
    log: list[str], fail: list[bool], monkeypatch: pytest.MonkeyPatch
) -> TransactionalWriter:
    monkeypatch.setattr(writers, "Producer", lambda _: FakeProducer(log, fail))
    return TransactionalWriter("unused:1", [TRANSFERS])


def test_a_short_transaction_is_closed_in_its_tick(
    writer: TransactionalWriter, log: list[str]
) -> None:
    for _ in range(LONG_TICKS + 2):
        writer.tick()
    assert log[-8:] == ["begin", "record", "record", "commit"] * 2


def test_the_first_and_the_eleventh_stay_open_for_twenty_ticks(
    writer: TransactionalWriter, log: list[str]
) -> None:
    for closed in (0, 10):
        for _ in range(19):
            writer.tick()
        assert (log.count("begin"), log.count("commit")) == (closed + 1, closed)
        for _ in range(1 + 9):
            writer.tick()
        assert log.count("commit") == closed + 10


def test_every_third_long_one_is_aborted(writer: TransactionalWriter, log: list[str]) -> None:
    for _ in range(3 * (9 + 20)):
        writer.tick()
    assert (log.count("commit"), log.count("abort")) == (29, 1)


def test_a_failed_commit_costs_a_new_producer_not_the_workload(
    writer: TransactionalWriter, log: list[str], fail: list[bool]
) -> None:
    fail.append(True)
    for _ in range(LONG_TICKS + 1):
        writer.tick()
    assert log.count("init") == 2
    assert log[-1] == "commit"


def test_ending_aborts_what_is_open(writer: TransactionalWriter, log: list[str]) -> None:
    for _ in range(11):
        writer.tick()
    writer.close()
    assert log[-1] == "abort"
