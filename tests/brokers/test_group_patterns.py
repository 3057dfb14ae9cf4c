"""Who subscribes by a pattern reads a topic from its birth; what of that brokers show."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import Group
from dashboard.safety.readers import matching
from tests.brokers.purge_bench import Bench
from tests.brokers.workload import until


@contextmanager
def subscribed(bench: Bench, group: str, *names: str, **properties: str) -> Iterator[Consumer]:
    """A consumer of these topics or patterns that keeps no offsets."""
    reader = Consumer(
        client(
            bench.bootstrap,
            **{"group.id": group, "enable.auto.commit": "false", **properties},
        )
    )
    reader.subscribe(list(names))
    try:
        until(lambda: _assigned(reader), 60)
        yield reader
    finally:
        reader.close()


def _assigned(reader: Consumer) -> bool:
    reader.poll(0.5)  # it joins while it is polled
    return bool(reader.assignment())


def group_of(bench: Bench, name: str) -> Group:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        listing = live.groups(())
    assert listing.incomplete == ()
    (group,) = [g for g in listing.groups if g.group_id == name]
    return group


def test_a_pattern_shows_while_the_coordinator_has_not_resolved_it_for_a_new_topic(
    bench: Bench, kafka_jars: KafkaJars
) -> None:
    if int(kafka_jars.version.split(".")[0]) < 4:
        pytest.skip("patterns that the coordinator resolves are a matter of Kafka 4.0 and newer")
    prefix = f"seen-{uuid.uuid4().hex[:8]}"
    old = bench.topic(30, name=f"{prefix}-a")
    names = [f"^{prefix}-.*", "^nobody"]  # its client sends them as one
    with subscribed(bench, prefix, *names, **{"group.protocol": "consumer"}):
        until(lambda: old in group_of(bench, prefix).topics, 60)
        new = bench.topic(30, name=f"{prefix}-b")
        time.sleep(2)
        group = group_of(bench, prefix)
        assert (group.type, len(group.patterns)) == ("consumer", 1)
        assert new not in {key.topic for key in group.assigned}
        assert matching(group.patterns, (new, f"x{new}")) == {new}
        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            taken = collect(live, bench.store, now=utc_now, progress=print)
    (row,) = [
        row
        for row in bench.store.read("snapshots", taken.snapshot_id, "groups").to_pylist()
        if row["group_id"] == prefix
    ]
    assert (row["patterns"], row["is_streams"]) == (list(group.patterns), False)
    assert old in row["subscribed"]


@pytest.mark.further
def test_the_coordinator_matches_whole_names(bench: Bench, kafka_jars: KafkaJars) -> None:
    if int(kafka_jars.version.split(".")[0]) < 4:
        pytest.skip("patterns that the coordinator resolves are a matter of Kafka 4.0 and newer")
    name = f"whole-{uuid.uuid4().hex[:8]}"
    exact, longer = bench.topic(1, name=name), bench.topic(1, name=f"{name}-more")
    with subscribed(bench, name, f"^{name}", **{"group.protocol": "consumer"}):
        until(lambda: bool(group_of(bench, name).assigned), 60)
        group = group_of(bench, name)
        assert group.topics == {exact}
        assert matching(group.patterns, (exact, longer)) == {exact}


def test_what_a_classic_member_subscribes_to_is_read_from_its_own_words(bench: Bench) -> None:
    """librdkafka asks for those of its topics that are there; Java's client for all by name."""
    name = f"classic-{uuid.uuid4().hex[:8]}"
    old = bench.topic(1, name=f"{name}-a")
    with subscribed(bench, name, old, f"{name}-later"):
        until(lambda: bool(group_of(bench, name).assigned), 60)
        group = group_of(bench, name)
        assert (group.type, group.members, group.patterns) == ("classic", 1, ())
        assert (group.subscribed, {key.topic for key in group.assigned}) == ((old,), {old})


def test_what_a_classic_pattern_matches_shows_when_its_client_has_refreshed(bench: Bench) -> None:
    name = f"refresh-{uuid.uuid4().hex[:8]}"
    old = bench.topic(1, name=f"{name}-a")
    with subscribed(
        bench, name, f"^{name}-.*", **{"topic.metadata.refresh.interval.ms": "8000"}
    ) as reader:
        until(lambda: group_of(bench, name).topics == {old}, 60)
        new = bench.topic(1, name=f"{name}-b")
        assert group_of(bench, name).subscribed == (old,)
        until(lambda: _assigned(reader) and group_of(bench, name).topics == {old, new}, 60)
        assert not group_of(bench, name).patterns
