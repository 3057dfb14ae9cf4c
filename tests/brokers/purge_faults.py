"""Faults for purges of a real cluster: brokers that hang, die, or hand over as a request leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as KafkaPart
from kafka.admin import KafkaAdminClient

from dashboard.cluster.connection.connection import open_connection
from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.quorum import ask_quorum, partitions_of
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import DeleteRecordsResult, TopicPartition
from dashboard.purge.execute.execute import Execution
from dashboard.purge.journal.rows import RunView
from tests.brokers.purge_bench import PATIENCE, Bench
from tests.brokers.workload import ANSWERS_WITHIN

TIMEOUT = timedelta(seconds=2)  # of what is read while a broker is known to hang


@contextmanager
def resumed(cluster: LocalCluster, *broker_ids: int) -> Iterator[None]:
    """A block in which brokers may be suspended; they serve again after it."""
    try:
        yield
    finally:
        for broker_id in broker_ids:
            cluster.resume(broker_id)
        for broker_id in broker_ids:
            cluster.start_broker(broker_id)


def followers(bench: Bench, topic: str) -> list[int]:
    """The brokers that follow partition 0."""
    state = bench.placed(topic)
    return [b for b in state.replicas if b != state.leader_id]


def follower(bench: Bench, topic: str) -> int:
    """One broker that follows partition 0, and is not the active controller.

    One that is, and hangs, holds whatever the others want to ask of the controllers.
    """
    active = active_controller(bench)
    return next(b for b in followers(bench, topic) if b != active)


def active_controller(bench: Bench) -> int:
    """The broker whose controller is the active one."""
    with open_connection({"bootstrap.servers": bench.bootstrap}, timeout=PATIENCE) as connection:
        (row,) = partitions_of(connection.ask_any(ask_quorum))
        return int(row.leader_id)


def prefer(bench: Bench, topic: str, replicas: Sequence[int]) -> None:
    """Give partition 0 this order of replicas: the first leads after the next election."""
    with closing(KafkaAdminClient(bootstrap_servers=bench.bootstrap)) as admin:
        admin.alter_partition_reassignments({KafkaPart(topic, 0): list(replicas)})
    until(lambda: bench.placed(topic).replicas == tuple(replicas))


def elect(bench: Bench, topic: str, heir: int, *, ask: int, unclean: bool = False) -> None:
    """Elect the preferred replica of partition 0 by way of broker `ask`; it is to be `heir`.

    An unclean election lets a replica lead that misses records: they are lost.
    """
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    address = bench.bootstrap.split(",")[ask - 1]

    def elected() -> bool:
        # Any broker passes as the controller, one that hangs too: then another client is lucky.
        # (`elect_leaders` takes no time limit of its own: its binding counts arguments wrongly.)
        admin = AdminClient(client(address, **{"socket.timeout.ms": "1500"}))
        done = admin.elect_leaders(kind, [Part(topic, 0)])
        with suppress(KafkaException):
            done.result(ANSWERS_WITHIN)
        with connect({"bootstrap.servers": address}, PATIENCE) as live:
            return live.topics([topic])[topic].partitions[0].leader_id == heir

    until(elected)


def until(found: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what must happen in time."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def kinds(bench: Bench, run_id: str) -> list[str]:
    """What a run's journal entries are, in order."""
    return [e.kind for e in bench.journal.entries(run_id)]


class Faulty(LiveCluster):
    """A real cluster to which something happens just before a request leaves, or after it."""

    def __init__(
        self,
        bench: Bench,
        before: Callable[[], object],
        after: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(open_connection({"bootstrap.servers": bench.bootstrap}, timeout=PATIENCE))
        self._before = [before]
        self._after = [after] if after else []

    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> DeleteRecordsResult:
        if self._before:
            self._before.pop()()
        try:
            result = super().delete_records(
                leader_id, targets, timeout_ms=timeout_ms, leader_only=leader_only,
                may_leave=may_leave,
            )  # fmt: skip
        finally:
            self._connection.timeout_seconds = TIMEOUT.total_seconds()
        if self._after:
            self._after.pop()()
        return result


def carry_out(
    bench: Bench,
    run_id: str,
    before: Callable[[], object],
    after: Callable[[], object] | None = None,
) -> RunView:
    """Carry a queued run out in this process, with faults around its first request.

    A broker suspended earlier would take the groups that it coordinates with it: the list of
    groups is then incomplete, and nothing is sent.
    """
    with Faulty(bench, before, after) as live:
        Execution(
            live=live,
            journal=bench.journal,
            run=bench.journal.run(run_id).run,
            plan=bench.journal.plan(run_id),
            now=utc_now,
            sleep=time.sleep,
            read_only=lambda: None,
            standards=lambda: bench.standards(bench.journal.plan(run_id)),
        ).execute()
    return bench.journal.run(run_id)
