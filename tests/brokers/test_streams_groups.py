"""A Streams application reads its source topics from its first breath, long before it commits."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dashboard.cluster.live import connect
from dashboard.core.errors import RefusedError
from dashboard.demo.kafka.brokers import client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import Group
from dashboard.purge.plan.plan import Plan
from tests.brokers.purge_bench import Bench, lone_bench
from tests.brokers.streams_app import streams_app, tables_app
from tests.brokers.workload import until

READER = "has-read-all"
# A classic Streams member does not leave its group as it ends: its session ends, in 45 s or so.
SOON_GONE = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}


@pytest.fixture(scope="module")
def bench(kafka_jars: KafkaJars) -> Iterator[Bench]:
    """One broker of its own, with a folder for the application's state."""
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        lone_bench(kafka_jars, Path(folder)) as made,
    ):
        yield made


def group_of(bench: Bench, name: str) -> Group | None:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        listing = live.groups(())
    return next((g for g in listing.groups if g.group_id == name), None)


def guards(plan: Plan) -> list[tuple[str, str]]:
    return [(g.name, g.reason) for g in plan.partitions[0].guards]


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_source_topic_is_held_back_before_the_applications_first_commit_on_it(
    bench: Bench, kafka_jars: KafkaJars, protocol: str, tmp_path: Path
) -> None:
    """It has committed elsewhere, so that its offsets alone would not show it as a reader."""
    if protocol == "streams" and tuple(map(int, kafka_jars.version.split(".")[:2])) < (4, 2):
        pytest.skip("streams groups are a matter of Kafka 4.2 and newer")
    source, other, app = bench.topic(30), bench.topic(1), f"app-{uuid.uuid4().hex[:8]}"
    bench.commit(READER, source, {0: 30})
    bench.commit(app, other, {0: 1})
    assert app not in str(guards(bench.plan(source)))

    config = {
        "bootstrap.servers": bench.bootstrap, "state.dir": str(tmp_path),
        "commit.interval.ms": "3600000", "replication.factor": "1",
        **({"group.protocol": protocol} if protocol == "streams" else SOON_GONE),
    }  # fmt: skip
    with streams_app(app, (source, other), config):
        until(lambda: _reads(group_of(bench, app), source), 60)
        seen = group_of(bench, app)
        assert seen is not None
        assert (seen.type, seen.error, seen.is_streams) == (protocol, None, True)
        until(lambda: source in _asked_for(group_of(bench, app)), 60)  # told when it is Stable
        assert {key.topic for key in seen.assigned} == {source, f"{app}-by-key-repartition"}
        found = dict(guards(bench.plan(source)))
        assert app in found["members-without-commits"]
        until(lambda: len(bench.offsets(other, 0)) == 31, 60)  # it has read all of the source
    # Leaving, it commits what it has read; what it committed beside tells it from any other group.
    until(lambda: _gone(group_of(bench, app)), 60)
    reader = group_of(bench, READER)
    assert reader is not None and not reader.is_streams
    plan = bench.plan(source)
    # Beside it one of the global tables of applications that ran here before.
    (name, reason), *others = guards(plan)
    assert (plan.partitions[0].target_offset, name) == (30, "changelog-source")
    assert app in reason
    assert app not in str(others) and {of for of, _ in others} <= {name}
    accepted = bench.plan(source, override=("changelog-source=it keeps no table of this",))
    assert (accepted.partitions[0].target_offset, guards(accepted)) == (30, [])
    assert bench.apply(accepted).run.state == "done"


def test_tables_are_whole_after_a_purge_and_a_start_without_state(
    bench: Bench, tmp_path: Path
) -> None:
    """Their topics are what state is restored from, whatever all groups have committed."""
    table, global_table = keyed(bench, 40), keyed(bench, 30)
    app = f"tables-{uuid.uuid4().hex[:8]}"
    config = {
        "bootstrap.servers": bench.bootstrap, "state.dir": str(tmp_path / "one"),
        "commit.interval.ms": "100", "replication.factor": "1", **SOON_GONE,
    }  # fmt: skip
    with tables_app(app, table, global_table, config) as entries:
        until(lambda: (entries("table"), entries("global")) == (40, 30), 60)
    until(lambda: _gone(group_of(bench, app)), 60)
    bench.commit(READER, table, {0: 40})
    bench.commit(READER, global_table, {0: 30})

    for topic, says in ((table, f"{app} reads it"), (global_table, "a global table of")):
        plan = bench.plan(topic)
        assert {g.name for g in plan.partitions[0].guards} == {"changelog-source"}
        assert says in plan.partitions[0].guards[0].reason
        assert app in plan.partitions[0].guards[0].reason
        with pytest.raises(RefusedError) as refused:
            bench.apply(plan)
        assert refused.value.code == "NOTHING_FREE"
        edited = replace(plan, partitions=(replace(plan.partitions[0], guards=()),))
        assert bench.apply(edited).partitions[0].error == "changelog-source"

    again = {**config, "state.dir": str(tmp_path / "two")}
    with tables_app(app, table, global_table, again) as entries:
        until(lambda: (entries("table"), entries("global")) == (40, 30), 60)


def keyed(bench: Bench, count: int) -> str:
    """A topic with so many keys, one record each."""
    topic = bench.topic(0)
    producer = Producer(client(bench.bootstrap))
    for number in range(count):
        producer.produce(topic, b"value", key=b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    return topic


def _asked_for(group: Group | None) -> tuple[str, ...]:
    return group.subscribed if group is not None else ()


def _gone(group: Group | None) -> bool:
    return group is not None and group.members == 0 and group.is_streams


def _reads(group: Group | None, topic: str) -> bool:
    return group is not None and topic in {key.topic for key in group.assigned}
