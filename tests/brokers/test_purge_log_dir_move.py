"""A leader that moves to another log dir: its future replica holds the low watermark back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import TopicPartitionReplica
from kafka.admin import KafkaAdminClient

from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.purge.forecast.forecast import forecast
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import carry_out, until
from tests.brokers.purge_proof import Left, assert_proved
from tests.brokers.workload import ANSWERS_WITHIN

BROKER = 1
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
RECORDS = 4000  # 4 MB: the mover copies one fetch, and then waits for its quota


@pytest.fixture(scope="module")
def local(kafka_jars: KafkaJars) -> Iterator[LocalCluster]:
    """One broker with two log dirs."""
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        LocalCluster(Path(folder), kafka_jars, brokers=1, log_dirs=2) as running,
    ):
        yield running


@pytest.fixture
def bench(local: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(local.bootstrap, local.cluster_id, tmp_path, replicas=1)
    yield made
    throttle(made, None)
    made.close()


def throttle(bench: Bench, bytes_per_second: int | None) -> None:
    """Slow down what the broker moves between its log dirs, or let it go on."""
    resource = ConfigResource(ResourceType.BROKER, str(BROKER))
    change = AlterConfigOpType.DELETE if bytes_per_second is None else AlterConfigOpType.SET
    value = None if bytes_per_second is None else str(bytes_per_second)
    resource.add_incremental_config(ConfigEntry(THROTTLE, value, incremental_operation=change))
    bench.admin.incremental_alter_configs([resource])[resource].result(ANSWERS_WITHIN)


def move(bench: Bench, local: LocalCluster, topic: str) -> Path:
    """Move the only replica to the other log dir, as slowly as can be; where it goes."""
    throttle(bench, 1)
    lies_in = next(d for d in local.log_dirs(BROKER) if (d / f"{topic}-0").is_dir())
    goes_to = next(d for d in local.log_dirs(BROKER) if d != lies_in)
    with closing(KafkaAdminClient(bootstrap_servers=bench.bootstrap)) as admin:
        admin.alter_replica_log_dirs({TopicPartitionReplica(topic, 0, BROKER): str(goes_to)})
    until(lambda: moves_to(bench, topic) == str(goes_to))
    return goes_to


def moves_to(bench: Bench, topic: str) -> str | None:
    """The log dir of the future replica, while there is one."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        rows = [r for r in live.log_dirs().replicas if r.topic == topic and r.is_future]
    return rows[0].log_dir if rows else None


def test_a_leader_that_moves_is_guarded_when_it_is_planned(
    bench: Bench, local: LocalCluster
) -> None:
    topic = bench.topic(RECORDS)
    bench.commit("purge-g", topic, {0: 3500})
    goes_to = move(bench, local, topic)
    (guard,) = bench.plan(topic).partitions[0].guards
    assert guard.name == "leader-log-dir-move"
    assert str(goes_to) in guard.reason
    lifted = bench.plan(topic, override=("leader-log-dir-move=it may take its time",))
    foreseen = forecast(bench.settings, bench.settings.data, None, lifted)
    view = bench.apply(lifted, timeout=timedelta(seconds=1))
    assert_proved(bench, view, "partial", Left(topic, 0, "leader_done", range(3500, RECORDS)))
    # Two looks a second apart tell how many records the future replica lacks.
    (stall,) = foreseen.stalls
    assert (stall.cause, stall.broker_id) == ("log-dir-move", BROKER)
    assert 0 < (stall.lag_records or 0) <= RECORDS
    assert stall.closing_per_second is not None
    (row,) = view.partitions
    assert row.wait_forecast is not None
    assert (row.wait_forecast.cause, row.wait_forecast.low_seconds) == ("log-dir-move", 1.0)
    assert (row.waited_seconds or 0) >= 1.0


def test_a_move_that_begins_as_the_request_leaves_keeps_the_run_from_done_until_it_ends(
    bench: Bench, local: LocalCluster
) -> None:
    topic = bench.topic(RECORDS)
    bench.commit("purge-g", topic, {0: 3500})
    run_id = bench.enqueue(bench.plan(topic), timeout=timedelta(seconds=2), start=False, watch=True)
    view = carry_out(bench, run_id, lambda: move(bench, local, topic))
    row = view.partitions[0]
    assert (row.answer_error_code, row.leader_log_start_offset) == (7, 3500)
    assert (row.error, view.exit_code) == ("REQUEST_TIMED_OUT", 2)
    assert row.low_watermark is None  # the future replica's log start counts, and cannot be read
    assert f"broker {BROKER} is moving its replica to another log dir" in str(row.message)
    left = Left(topic, 0, "leader_done", range(3500, RECORDS))
    assert_proved(bench, view, "partial", left)
    assert moves_to(bench, topic) is not None

    throttle(bench, None)
    bench.start(run_id)
    until(lambda: bench.journal.run(run_id).run.state == "done")
    assert moves_to(bench, topic) is None
    bench.kill_worker(run_id)
    (row,) = bench.journal.run(run_id).partitions
    assert (row.low_watermark, row.message) == (3500, None)
    assert_proved(bench, bench.journal.run(run_id), "done", left._replace(state="done"))
